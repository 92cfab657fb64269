"""The prepared corpus on disk: what is written comes back, and nothing damaged is believed."""

import json
import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.data import (
    Bitext,
    BitextWriter,
    Ids,
    PreparedCorpus,
    check_languages,
    lines_path,
    numbers_path,
    prepared,
    write_manifest,
)
from nmtkit.errors import UserError
from nmtkit.files import sha256
from nmtkit.text import Text, TextConfig
from nmtkit.vocabulary import Vocabulary

TRAIN = [([4, 5, 6], [4, 1]), ([5], [5, 5, 4, 4]), ([1, 1], [4])]
VALID = [([4], [5]), ([], [4, 5]), ([6, 1], [])]
LINES = (["a", "", "c x"], ["B", "A B", ""])


def write_corpus(folder: Path, train=TRAIN, valid=VALID) -> Path:
    """Source vocabulary a b c (ids 4 5 6), target vocabulary A B (ids 4 5)."""
    folder.mkdir()
    counts = {}
    for name, pairs in (("train", train), ("valid", valid)):
        with BitextWriter(folder, name, "en", "de") as writer:
            for pair in pairs:
                writer.add(*pair)
            counts[name] = writer.close()
    for language, lines in zip(("en", "de"), LINES):
        path = lines_path(folder, language)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    texts = tuple(
        Text(
            TextConfig(language, tokenizer="none", subwords="none"),
            vocabulary=Vocabulary.build(dict.fromkeys(tokens, 1)),
        )
        for language, tokens in (("en", "abc"), ("de", "AB"))
    )
    texts[0].save(folder, "source")
    texts[1].save(folder, "target")
    # As if every second pair had been dropped.
    np.arange(1, 2 * len(train), 2, dtype="<i8").tofile(numbers_path(folder))
    both = counts["train"], counts["valid"]
    write_manifest(folder, (texts[0], texts[1]), *both, 2 * len(train), {"who": "me"})
    return folder


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus")


def pairs_of(bitext: Bitext) -> list[tuple[list[int], list[int]]]:
    return [(bitext.source(i).tolist(), bitext.target(i).tolist()) for i in range(len(bitext))]


def test_what_is_written_is_read(corpus):
    opened = PreparedCorpus.open(corpus)
    assert pairs_of(opened.train) == TRAIN
    assert opened.valid is not None
    assert pairs_of(opened.valid) == VALID
    assert opened.train.source_lengths.tolist() == [3, 1, 2]
    assert opened.valid.target_lengths.tolist() == [1, 2, 0]
    assert opened.valid_lines() == LINES
    assert opened.source_text.vocabulary == Vocabulary.build({"a": 1, "b": 1, "c": 1})
    assert opened.target_text.config.language == "de"
    assert opened.manifest["who"] == "me"
    assert opened.train_lines.tolist() == [1, 3, 5]
    assert opened.pairs_read == 6


def test_the_bytes_on_disk(corpus):
    # int32 and int64, little-endian, no header
    assert (corpus / "train.de.ids").read_bytes() == b"".join(
        bytes([number, 0, 0, 0]) for number in (4, 1, 5, 5, 4, 4, 4)
    )
    assert (corpus / "train.de.offsets").read_bytes() == b"".join(
        bytes([number, 0, 0, 0, 0, 0, 0, 0]) for number in (0, 2, 6, 7)
    )


def test_arrays_are_mapped_not_loaded(corpus):
    train = PreparedCorpus.open(corpus).train
    lines = PreparedCorpus.open(corpus).train_lines
    for array in (train.source_ids.numbers, train.target_ids.offsets, lines):
        base: Any = array.base
        assert isinstance(base.obj, mmap.mmap)
        assert not array.flags.writeable
    assert np.shares_memory(train.source_ids.numbers_of(0), train.source_ids.numbers)
    assert train.source(0).dtype == np.int32


@pytest.mark.parametrize("index", [-1, 3])
def test_there_is_no_such_sentence(corpus, index):
    with pytest.raises(IndexError, match="of 3"):
        PreparedCorpus.open(corpus).train.source(index)


def test_both_sides_are_as_long():
    one = Ids(np.array([4], np.int32), np.array([0, 1]))
    none = Ids(np.array([], np.int32), np.array([0]))
    with pytest.raises(ValueError, match="1 source and 0 target"):
        Bitext(one, none)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([1, 4, 5, 6]), min_size=1),
            st.lists(st.sampled_from([1, 4, 5]), min_size=1),
        ),
        min_size=1,
    )
)
def test_any_bitext_comes_back(tmp_path_factory, pairs):
    folder = write_corpus(tmp_path_factory.mktemp("any") / "corpus", train=pairs)
    assert pairs_of(PreparedCorpus.open(folder).train) == pairs


def edit(name, value):
    """Set a manifest field (``a.b`` is a field of a field)."""

    def damage(folder):
        manifest = json.loads((folder / "manifest.json").read_text())
        table, *path = name.split(".", 1)[::-1]
        place = manifest[path[0]] if path else manifest
        if value is None:
            del place[table]
        else:
            place[table] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return damage


def put(name, kind, place, value):
    """Set one element of an array."""

    def damage(folder):
        array = np.fromfile(folder / name, kind)
        array[place] = value
        array.tofile(folder / name)

    return damage


def swap_for_link(folder):
    (folder / "train.en.ids").rename(folder.parent / "elsewhere")
    (folder / "train.en.ids").symlink_to(folder.parent / "elsewhere")


def lose_vocabulary(folder):
    """text.json without it, and a manifest that agrees with that text.json."""
    settings = json.loads((folder / "text.json").read_text())
    settings["target"]["files"] = {}
    (folder / "text.json").write_text(json.dumps(settings))
    edit("sha256", _checksums(folder))(folder)


def other_language(folder):
    settings = json.loads((folder / "text.json").read_text())
    settings["source"], settings["target"] = settings["target"], settings["source"]
    (folder / "text.json").write_text(json.dumps(settings))
    edit("sha256", _checksums(folder))(folder)


def shorter_lines(folder):
    (folder / "valid.en.txt").write_text("a\n")
    edit("sha256", _checksums(folder))(folder)


def _checksums(folder):
    return {
        path.name: sha256(path)
        for path in folder.iterdir()
        if path.suffix not in (".ids", ".offsets", ".lines") and path.name != "manifest.json"
    }


DAMAGES = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "is not a prepared corpus"),
    "not JSON": (lambda f: (f / "manifest.json").write_text("{"), "not valid JSON"),
    "other format": (edit("format", "zip"), "'format' must be"),
    "earlier version": (edit("format_version", 1), "format version 1"),
    "later version": (edit("format_version", 4), "format version 4"),
    "version is true": (edit("format_version", True), "format version True"),
    "no language": (edit("source_language", None), "must be strings"),
    "language a path": (edit("target_language", "../de"), "language '../de'"),
    "one language": (edit("target_language", "EN"), "are both 'en'"),
    "other languages": (other_language, "the source side must be 'en'"),
    "no vocabulary": (lose_vocabulary, "and have a vocabulary"),
    "no train": (edit("train", None), "'train' must be an object"),
    "counts a list": (edit("valid", [3]), "'valid' must be an object"),
    "count is text": (edit("train.pairs", "3"), "'pairs' must be a number"),
    "count is true": (edit("train.pairs", True), "'pairs' must be a number"),
    "count is negative": (edit("train.source_ids", -1), "'source_ids' must be a number"),
    "huge count": (edit("train.pairs", 10**30), "bytes, not 8000"),
    "no checksums": (edit("sha256", None), "'sha256' must be an object"),
    "unlisted file": (edit("sha256.text.json", None), "lacks 'text.json'"),
    "path in checksums": (edit("sha256", {"../x": "0"}), "lacks"),
    "changed text": (
        lambda f: (f / "valid.de.txt").write_text("other\n"),
        "valid.de.txt is not as written",
    ),
    "lost text": (lambda f: (f / "vocabulary.de").unlink(), "vocabulary.de is missing"),
    "lost array": (lambda f: (f / "train.de.ids").unlink(), "train.de.ids is missing"),
    "cut array": (lambda f: os.truncate(f / "valid.en.ids", 11), "has 11 bytes, not 12"),
    "cut offsets": (lambda f: os.truncate(f / "train.en.offsets", 24), "has 24 bytes, not 32"),
    "link": (swap_for_link, "is not a plain file"),
    "pipe": (lambda f: os.mkfifo(f / "codes.bpe"), "is not a plain file"),
    "first offset": (put("train.en.offsets", "<i8", 0, 1), "run from 1 to 6"),
    "last offset": (put("train.en.offsets", "<i8", 3, 7), "run from 0 to 7, not from 0 to 6"),
    "falling offsets": (put("train.en.offsets", "<i8", 1, 5), "sentence 1 is empty or overlap"),
    "far offset": (put("train.de.offsets", "<i8", 1, 2**62), "sentence 1 is empty or overlap"),
    "negative offset": (put("valid.de.offsets", "<i8", 2, -(2**63)), "sentence 1 is overlap"),
    "empty sentence": (put("train.de.offsets", "<i8", 1, 0), "sentence 0 is empty"),
    "id too large": (put("train.en.ids", "<i4", 3, 7), "id 7 at position 3 is not a token"),
    "target id": (put("train.de.ids", "<i4", 0, 6), "id 6 at position 0"),
    "padding": (put("train.en.ids", "<i4", 0, 0), "id 0 at position 0"),
    "no number of pairs read": (edit("train.read", None), "'read' must be a number"),
    "lost numbers": (lambda f: (f / "train.lines").unlink(), "train.lines is missing"),
    "cut numbers": (lambda f: os.truncate(f / "train.lines", 16), "has 16 bytes, not 24"),
    "negative number": (put("train.lines", "<i8", 0, -1), "runs from -1 to 5, where 6 pairs"),
    "number too large": (put("train.lines", "<i8", 2, 6), "runs from 1 to 6, where 6 pairs"),
    "same number": (put("train.lines", "<i8", 1, 1), "pairs 0 and 1 are not in order"),
    "far number": (put("train.lines", "<i8", 1, 2**62), "pairs 1 and 2 are not in order"),
    "end of sentence": (put("valid.de.ids", "<i4", 0, 3), "id 3 at position 0"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_told_in_one_line(corpus, name):
    damage, words = DAMAGES[name]
    damage(corpus)
    with pytest.raises(UserError) as raised:
        PreparedCorpus.open(corpus)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "", "a\\b", "\ud800", "a\0b"])
def test_no_name_leaves_the_folder(corpus, name):
    edit("sha256", {**_checksums(corpus), name: "0" * 64})(corpus)
    with pytest.raises(UserError, match="is not the name of a file"):
        PreparedCorpus.open(corpus)


def test_a_missing_folder(tmp_path):
    with pytest.raises(UserError, match="not a folder: give the --out"):
        PreparedCorpus.open(tmp_path / "none")


def test_lines_must_be_as_many_as_pairs(corpus):
    shorter_lines(corpus)
    with pytest.raises(UserError, match="has 1 lines, not 3"):
        PreparedCorpus.open(corpus).valid_lines()


def test_without_validation(corpus):
    edit("valid", None)(corpus)
    opened = PreparedCorpus.open(corpus)
    assert opened.valid is None
    assert opened.valid_lines() == ([], [])


def test_no_pair_at_all(tmp_path):
    with pytest.raises(UserError, match="at least one pair"):
        PreparedCorpus.open(write_corpus(tmp_path / "corpus", train=[]))


def test_checks_see_every_chunk(corpus, monkeypatch):
    monkeypatch.setattr(prepared, "CHUNK", 2)
    PreparedCorpus.open(corpus)
    for place in range(7):  # every id of train.de, in whichever chunk it lies
        damaged = corpus.parent / f"damaged{place}"
        shutil.copytree(corpus, damaged)
        put("train.de.ids", "<i4", place, 6)(damaged)
        with pytest.raises(UserError, match=f"id 6 at position {place}"):
            PreparedCorpus.open(damaged)
    for place in (1, 2):  # a sentence that is empty, on the border of two chunks or not
        damaged = corpus.parent / f"empty{place}"
        shutil.copytree(corpus, damaged)
        offsets = np.fromfile(damaged / "train.de.offsets", "<i8")
        put("train.de.offsets", "<i8", place, offsets[place + 1])(damaged)
        with pytest.raises(UserError, match=f"sentence {place} is empty"):
            PreparedCorpus.open(damaged)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_damage_never_crashes(tmp_path_factory, data):
    folder = write_corpus(tmp_path_factory.mktemp("damage") / "corpus")
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    else:
        del content[data.draw(st.integers(0, len(content))) :]
    path.write_bytes(content)
    try:
        opened = PreparedCorpus.open(folder)
    except UserError:
        return
    for bitext, size in ((opened.train, 3), (opened.valid, 3)):
        if bitext is not None:  # one changed letter can turn "valid" into another key
            assert len(bitext) == size
            ids = [i for pair in pairs_of(bitext) for side in pair for i in side]
            assert np.isin(ids, [1, 4, 5, 6]).all()
    assert (np.diff([-1, *opened.train_lines, opened.pairs_read]) > 0).all()


@pytest.mark.parametrize(
    ("source", "target"),
    [("", "de"), ("en", "../de"), ("en", "d e"), ("en", "de\n"), ("dé", "en"), ("-a", "en")],
)
def test_languages_must_be_safe_names(source, target):
    with pytest.raises(UserError, match="use a code such as"):
        check_languages(source, target)


def test_languages_must_differ():
    check_languages("en", "de-AT_x1")
    with pytest.raises(UserError, match="both 'en'"):
        check_languages("en", "En")


def resident(kind="RssFile"):
    """MiB of mapped files in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux")
def test_what_was_read_is_let_go(tmp_path):
    sentence = np.arange(4, 7, dtype=np.int32)
    folder = tmp_path / "corpus"
    write_corpus(folder, [(np.resize(sentence, 1 << 22), [4])] * 2)
    before = resident()
    corpus = PreparedCorpus.open(folder)
    assert resident() < before + 16  # of 32, all of which was checked
    assert int(corpus.train.source_ids.numbers_of(1).max()) == 6
    assert resident() > before + 16
    corpus.train.release()
    assert resident() < before + 16
    assert corpus.train.source(1)[:4].tolist() == [4, 5, 6, 4]
    Bitext(Ids(sentence, np.array([0, 3])), Ids(sentence, np.array([0, 3]))).release()  # in memory
