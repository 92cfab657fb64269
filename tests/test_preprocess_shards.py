"""`preprocess` in shards: the same bytes as in one run, and what does not fit together is told."""

import json
import shutil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.files import sha256
from nmtkit.preprocess import PreprocessOptions, Shard, passes, preprocess, preprocess_shard
from nmtkit.preprocess.workers import chunked
from tests.test_preprocess import LINES, all_bytes, write_pairs

PAIRS = [(f"The word{i % 7} ran, a{i % 3}.", f"Das Wort{i % 5} lief.") for i in range(23)]
PAIRS[4:7] = [("", "Leer"), ("lang " * 9, "lang"), PAIRS[1]]
MOSES = {"case": "true", "deduplicate": True, "merges": 30}
PLAIN = {"tokenizer": "none", "subwords": "none"}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(passes, "CHUNK", 2)


@pytest.fixture
def options(tmp_path):
    """Options over two files of training text and one of validation text."""

    def options(pairs=PAIRS, **changes):
        third = len(pairs) // 3
        parts = [pairs[:third], pairs[third:]]
        train = [write_pairs(tmp_path / f"part{i}", part) for i, part in enumerate(parts)]
        valid = write_pairs(tmp_path / "valid", pairs[:3])
        given = {"valid": valid, "max_length": 8, **changes}
        return PreprocessOptions("en", "de", tuple(train), **given)

    return options


def make(tmp_path, options, of, workers=1):
    """All shards, in the folder that is given back; their names say nothing."""
    folder = tmp_path / f"of{of}"
    for index in range(of, 0, -1):
        preprocess_shard(options, Shard(index, of), folder / f"x{of - index}", workers=workers)
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        MOSES,
        PLAIN,
        {**PLAIN, "deduplicate": True},
        {"case": "lower", "separate": True, "merges": 9},
    ],
)
@pytest.mark.parametrize("of", [1, 3, 14])  # there are 12 chunks
def test_the_same_bytes(tmp_path, options, of, changes):
    chosen = options(**changes)
    whole = preprocess(chosen, tmp_path / "whole")
    merged = preprocess(chosen, tmp_path / "merged", shards=make(tmp_path, chosen, of))
    assert merged == whole
    assert all_bytes(tmp_path / "merged") == all_bytes(tmp_path / "whole")
    if changes is MOSES:
        assert {"empty source", "too long", "duplicate"} <= set(whole.train.dropped)


def test_the_same_bytes_by_several_workers(tmp_path, options):
    chosen = options(**MOSES)
    preprocess(chosen, tmp_path / "whole")
    folder = make(tmp_path, chosen, 2, workers=2)
    preprocess(chosen, tmp_path / "merged", workers=2, shards=folder)
    assert all_bytes(tmp_path / "merged") == all_bytes(tmp_path / "whole")


def test_the_same_bytes_of_pieces(tmp_path, options):
    pytest.importorskip("sentencepiece")
    pairs = [(f"die katze {i % 7} ▁ sitzt", f"猫は{i % 5}マットの上に座った") for i in range(60)]
    chosen = options(pairs, subwords="sentencepiece", merges=40, tokenizer="none", max_length=99)
    preprocess(chosen, tmp_path / "whole")
    preprocess(chosen, tmp_path / "merged", shards=make(tmp_path, chosen, 3))
    assert all_bytes(tmp_path / "merged") == all_bytes(tmp_path / "whole")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=12), st.integers(1, 5))
def test_the_same_bytes_of_hostile_text(tmp_path_factory, pairs, of):
    tmp_path = tmp_path_factory.mktemp("law")
    pairs = [*((s.rstrip("\r"), t.rstrip("\r")) for s, t in pairs), ("a a", "a")]
    train = (write_pairs(tmp_path / "train", pairs),)
    chosen = PreprocessOptions("en", "de", train, merges=3, deduplicate=True)
    preprocess(chosen, tmp_path / "whole")
    preprocess(chosen, tmp_path / "merged", shards=make(tmp_path, chosen, of))
    assert all_bytes(tmp_path / "merged") == all_bytes(tmp_path / "whole")


def test_what_comes_later_is_still_free(tmp_path, options):
    folder = make(tmp_path, options(), 2)
    later: dict[str, dict[str, Any]] = {"a": {"merges": 90}, "b": {"merges": 60, "max_ratio": 1.6}}
    for out, changes in later.items():
        chosen = options(**changes, deduplicate=True, separate=True)
        preprocess(chosen, tmp_path / f"whole-{out}")
        preprocess(chosen, tmp_path / out, shards=folder)
        assert all_bytes(tmp_path / out) == all_bytes(tmp_path / f"whole-{out}")


def test_the_training_text_is_not_needed_any_more(tmp_path, options):
    chosen = options()
    whole = preprocess(chosen, tmp_path / "whole")
    folder = make(tmp_path, chosen, 2)
    for path in tmp_path.glob("part*"):
        path.unlink()
    assert preprocess(chosen, tmp_path / "merged", shards=folder) == whole


@given(st.integers(0, 40), st.integers(1, 9))
def test_every_pair_is_in_one_shard(number, of):
    pairs = [(str(i), "") for i in range(number)]
    found = [c for i in range(of) for c in Shard(i + 1, of).chunks(pairs)]
    whole = [(2 * i, chunk) for i, chunk in enumerate(chunked(pairs, 2))]
    assert sorted(found) == whole


@pytest.mark.parametrize(
    "text", ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "a/b", "1/501", "１/3"]
)
def test_a_shard_that_is_none(text):
    with pytest.raises(UserError, match=r"give I/N such as 3/16"):
        Shard.parse(text)
    assert str(Shard.parse("03/16")) == "3/16"


def refused(tmp_path, options, folder, message):
    with pytest.raises(UserError, match=message) as caught:
        preprocess(options, tmp_path / "merged", shards=folder)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "merged").exists()


def test_what_is_missing_or_there_twice(tmp_path, options):
    chosen = options()
    folder = make(tmp_path, chosen, 4)  # x3 is shard 1, x0 is shard 4
    shutil.copytree(folder / "x1", folder / "again")
    refused(tmp_path, chosen, folder, r"again/shard.json and .*x1/shard.json are both shard 3/4")
    shutil.rmtree(folder / "again")
    shutil.rmtree(folder / "x0")
    shutil.rmtree(folder / "x2")
    refused(tmp_path, chosen, folder, r"of 4 shards, 2, 4 missing")
    preprocess_shard(chosen, Shard(2, 3), folder / "y")
    refused(tmp_path, chosen, folder, r"x1/shard.json is of 4 shards and .*y/shard.json of 3")
    refused(tmp_path, chosen, tmp_path, "holds no shards")
    refused(tmp_path, chosen, tmp_path / "valid.en", "is not a folder")
    (folder / ".unfinished").mkdir()
    (folder / ".unfinished" / "shard.json").touch()
    refused(tmp_path, chosen, folder / "y", "holds no shards")


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"case": "lower"}, "--case 'keep', and not 'lower'"),
        ({"tokenizer": "none"}, "--tokenizer 'moses', and not 'none'"),
        ({"max_length": 9}, "--max-length 8, and not 9"),
        ({"normalise": True}, "--normalise False, and not True"),
        ({"subwords": "none"}, "--subwords 'bpe', and not 'none'"),
    ],
)
def test_other_options(tmp_path, options, changes, shown):
    folder = make(tmp_path, options(), 2)
    refused(tmp_path, options(**changes), folder, f"made with {shown}")


def test_other_versions(tmp_path, options, monkeypatch):
    folder = make(tmp_path, options(), 2)
    monkeypatch.setattr("nmtkit.preprocess.inputs.__version__", "99.9")
    refused(tmp_path, options(), folder, r"made with nmtkit '.*', and not '99\.9'")


def test_an_input_that_changed_in_between(tmp_path, options):
    chosen = options()
    folder = make(tmp_path, chosen, 2)
    (tmp_path / "part1.de").write_bytes((tmp_path / "part1.de").read_bytes().replace(b"a", b"e"))
    preprocess_shard(chosen, Shard(2, 2), folder / "x0", overwrite=True)
    refused(tmp_path, chosen, folder, r"x0/shard\.json: .*part1\.de was another file when this")


def test_damaged_shards(tmp_path, options):
    chosen = options()
    folder = make(tmp_path, chosen, 2)
    lines = folder / "x1" / "pairs"
    lines.write_bytes(lines.read_bytes()[:-2])
    refused(tmp_path, chosen, folder, "x1/pairs is not as written")
    lines.unlink()
    refused(tmp_path, chosen, folder, "cannot read .*x1/pairs")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", "x", "'format' must be"),
        ("shard", 3, "no shard 3 of 2"),
        ("of", True, "True is not a number"),
        ("read", -1, "-1 is not a number"),
        ("pairs", "2", "'2' is not a number"),
        ("dropped", {"bad luck": 1}, "'dropped' must be"),
        ("dropped", {"too long": 1.5}, "1.5 is not a number"),
        ("controls", [1], "'controls' must be"),
        ("inputs", ["a"], "'inputs' must be"),
        ("options", None, "made with --source-lang None"),
        ("versions", [], "made with nmtkit None"),
        ("sha256", None, "is not as written"),
    ],
)
def test_descriptions_are_not_believed(tmp_path, options, field, value, message):
    chosen = options()
    folder = make(tmp_path, chosen, 2)
    path = folder / "x0" / "shard.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    refused(tmp_path, chosen, folder, message)


@pytest.mark.parametrize(
    "line",
    [f"7\ta{odd}b\tc d\n" for odd in ("\t", "  ", "\x0b", "\ufeff", "\xff")]
    + ["7\ta\n", "7\t a\tb\n", "7\ta \tb\n", "7\ta\tb \n", "7\ta\tb", "\n"]
    + [f"{number}\ta\tb\n" for number in ("x", "", "-1", "٣", "7" * 5000)],
)
def test_lines_are_not_believed(tmp_path, options, line):
    chosen = options()
    folder = make(tmp_path, chosen, 1)
    lines = folder / "x0" / "pairs"
    lines.write_bytes(line.encode("latin-1" if "\xff" in line else "utf-8"))
    path = folder / "x0" / "shard.json"
    table = {**json.loads(path.read_text()), "sha256": sha256(lines)}
    path.write_text(json.dumps(table))
    refused(tmp_path, chosen, folder, "not the lines of a shard")


def test_nothing_is_overwritten_by_mistake(tmp_path, options):
    chosen = options()
    folder = make(tmp_path, chosen, 2)
    with pytest.raises(UserError, match="--overwrite"):
        preprocess_shard(chosen, Shard(1, 2), folder / "x0")
    with pytest.raises(UserError, match=r"no shard\.json"):
        preprocess_shard(chosen, Shard(1, 2), folder, overwrite=True)
    (folder / "manifest.json").touch()
    with pytest.raises(UserError, match="choose another --out"):
        preprocess(chosen, folder, overwrite=True, shards=folder)


def test_nothing_left(tmp_path, options):
    chosen = options([("", "a"), ("b", "")] * 3)
    folder = make(tmp_path, chosen, 2)
    refused(tmp_path, chosen, folder, "left of 6 read .*empty source: 3, empty target: 3")
