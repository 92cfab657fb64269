"""`preprocess`: by hand on a few words, and as laws on hostile text."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.data import Bitext, PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.files import clean_line
from nmtkit.preprocess import PreprocessOptions, Report, learn, passes, preprocess
from nmtkit.text import Text
from nmtkit.vocabulary import Vocabulary

HOSTILE = ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\ufeff", "\u2029", "\x7f", "\0"]


def write(path: Path, lines, newline="\n") -> None:
    path.write_bytes("".join(line + newline for line in lines).encode())


def write_pairs(prefix: Path, pairs) -> str:
    """``pairs`` as PREFIX.en and PREFIX.de."""
    write(prefix.with_name(prefix.name + ".en"), [source for source, _ in pairs])
    write(prefix.with_name(prefix.name + ".de"), [target for _, target in pairs])
    return str(prefix)


def run(tmp_path, pairs, out="out", valid=None, workers=1, overwrite=False, **changes) -> Report:
    """Write the pairs to files and preprocess them; ``changes`` are options."""
    chosen: dict[str, Any] = {
        "source_lang": "en",
        "target_lang": "de",
        "train": (write_pairs(tmp_path / "train", pairs),),
        "valid": None if valid is None else write_pairs(tmp_path / "valid", valid),
        "tokenizer": "none",
        "subwords": "none",
        **changes,
    }
    return preprocess(PreprocessOptions(**chosen), tmp_path / out, overwrite, workers)


def vocabulary(text: Text) -> Vocabulary:
    assert text.vocabulary is not None
    return text.vocabulary


def subwords_of(corpus: PreparedCorpus, bitext: Bitext | None = None):
    """The pairs as subwords again."""
    bitext = corpus.train if bitext is None else bitext
    source, target = vocabulary(corpus.source_text), vocabulary(corpus.target_text)
    return [
        (source.tokens(bitext.source(i).tolist()), target.tokens(bitext.target(i).tolist()))
        for i in range(len(bitext))
    ]


def opened(tmp_path, out="out") -> PreparedCorpus:
    return PreparedCorpus.open(tmp_path / out)


def all_bytes(folder: Path):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


PAIRS = [
    ("a b a", "X Y"),
    ("", "X"),
    ("b", "  "),
    ("a c a a a", "X X"),
    ("a", "Y X X X"),
    ("b", "Z"),
    ("b", "Z"),
]


def test_by_hand(tmp_path):
    report = run(
        tmp_path,
        PAIRS,
        valid=[("a d", "Z"), ("", "X\x0b Q"), ("b b b b b", "Y")],
        vocabulary_size=2,
        max_length=4,
        max_ratio=3,
        deduplicate=True,
    )
    # Read 7, kept "a b a" and the first "b". Tokens of what only the ratio drops are counted for
    # the vocabulary: source a 3, b 2; target X 4, Y 2, Z 1, and the shortlist has two.
    assert report.train.read == 7
    assert report.train.kept == 2
    assert report.train.dropped == {
        "empty source": 1,
        "empty target": 1,
        "too long": 1,
        "ratio": 1,
        "duplicate": 1,
    }
    corpus = opened(tmp_path)
    assert corpus.source_text.vocabulary == Vocabulary([("a", 3), ("b", 2)], unknown=0)
    assert corpus.target_text.vocabulary == Vocabulary([("X", 4), ("Y", 2)], unknown=1)
    assert [corpus.train.source(i).tolist() for i in (0, 1)] == [[4, 5, 4], [5]]
    assert [corpus.train.target(i).tolist() for i in (0, 1)] == [[4, 5], [1]]
    assert corpus.train_lines.tolist() == [0, 5]
    assert corpus.pairs_read == 7
    source, target = report.train.source, report.train.target
    assert (source.tokens, source.subwords, source.unknown, source.max_length) == (4, 4, 0, 3)
    assert (target.tokens, target.subwords, target.unknown, target.max_length) == (3, 3, 1, 2)
    assert (source.mean_length, target.mean_length) == (2.0, 1.5)
    assert target.unknown_rate == pytest.approx(1 / 3)
    assert (report.target_vocabulary.types, report.target_vocabulary.size) == (3, 2)
    assert (report.merges_asked, report.merges_learned) == (None, {})

    # Validation: nothing is dropped, d, Z and Q are unknown.
    assert report.valid is not None
    assert (report.valid.read, report.valid.kept, report.valid.dropped) == (3, 3, {})
    assert report.valid.noted == {"empty source": 1, "too long": 1}
    assert corpus.valid is not None
    assert [corpus.valid.source(i).tolist() for i in range(3)] == [[4, 1], [], [5] * 5]
    assert [corpus.valid.target(i).tolist() for i in range(3)] == [[1], [4, 1], [5]]
    assert corpus.valid_lines() == (["a d", "", "b b b b b"], ["Z", "X  Q", "Y"])
    assert (report.valid.source.controls, report.valid.target.controls) == (0, 1)
    assert (report.valid.target.unknown, report.valid.target.subwords) == (2, 4)


def test_the_report_is_the_file(tmp_path):
    report = run(tmp_path, PAIRS, valid=[("a", "Q")])
    table = json.loads((tmp_path / "out" / "report.json").read_text())
    assert table == report.table()
    assert (
        table["train"]["dropped"]
        == report.train.dropped
        == {
            "empty source": 1,
            "empty target": 1,
        }
    )
    assert table["valid"]["target"]["unknown_rate"] == 1.0


def test_the_manifest_tells_all(tmp_path):
    run(tmp_path, [("ab ab", "ab")], subwords="bpe", merges=3)
    manifest = opened(tmp_path).manifest
    digest = hashlib.sha256((tmp_path / "train.en").read_bytes()).hexdigest()
    first = {"file": str(tmp_path / "train.en"), "bytes": 6, "sha256": digest}
    assert manifest["inputs"][0] == first
    assert len(manifest["inputs"]) == 2
    assert manifest["options"]["merges"] == 3
    assert set(manifest["versions"]) == {"nmtkit", "python", "numpy", "sacremoses", "subword-nmt"}
    assert "codes.bpe" in manifest["sha256"]
    assert not (tmp_path / "out" / "work").exists()


@pytest.mark.parametrize("case", ["keep", "true"])  # "true" reads the pairs once more
def test_the_numbers_of_pairs_go_on_over_files(tmp_path, case):
    # By pass: empty (1, 5), too many tokens (3), doubled (4), too long in subwords (0), ratio (6).
    first = write_pairs(
        tmp_path / "first", [("abc de", "x"), ("", "x"), ("b", "x"), ("c " * 5, "x")]
    )
    second = write_pairs(tmp_path / "second", [("b", "x"), ("x", ""), ("a", "xyz"), ("c b", "x")])
    changes = {"subwords": "bpe", "merges": 1, "max_length": 4, "max_ratio": 2, "case": case}
    run(tmp_path, [], train=(first, second), deduplicate=True, **changes)
    corpus = opened(tmp_path)
    assert corpus.train_lines.tolist() == [2, 7]
    assert corpus.pairs_read == 8
    assert subwords_of(corpus) == [(["b"], ["x"]), (["c", "b"], ["x"])]


def test_lengths_count_subwords(tmp_path):
    # No merges that reach "abcdef": it stays longer than the limit, though it is one token.
    pairs = [("abcdef", "x"), ("ab ab", "x"), ("ab", "x")]
    report = run(tmp_path, pairs, subwords="bpe", merges=1, max_length=4)
    assert report.merges_learned == {"en+de": 1}
    assert report.train.dropped == {"too long": 1}
    assert subwords_of(opened(tmp_path)) == [(["ab", "ab"], ["x"]), (["ab"], ["x"])]
    ratio = run(tmp_path, pairs, "ratio", subwords="bpe", merges=1, max_ratio=5)
    assert ratio.train.dropped == {"ratio": 1}  # six against one


def test_a_joint_vocabulary_is_of_both_sides(tmp_path):
    pairs = [("a b", "b c"), ("a", "b")]
    report = run(tmp_path, pairs, "joint", subwords="none", joint_vocabulary=True)
    texts = opened(tmp_path, "joint").source_text, opened(tmp_path, "joint").target_text
    for text in texts:
        assert text.vocabulary is not None
        assert list(text.vocabulary) == ["b", "a", "c"]  # b thrice, a twice
    assert report.source_vocabulary.size == report.target_vocabulary.size == 3


def test_joint_and_separate_codes(tmp_path):
    # en: "xy" twice, de: "zw" three times. One joint merge is "zw"; each side alone has its own.
    pairs = [("xy", "zw"), ("xy", "zw"), ("x", "zw")]
    joint = run(tmp_path, pairs, "joint", subwords="bpe", merges=1)
    separate = run(tmp_path, pairs, "separate", subwords="bpe", merges=1, separate=True)
    assert joint.merges_learned == {"en+de": 1}
    assert separate.merges_learned == {"en": 1, "de": 1}
    assert subwords_of(opened(tmp_path, "joint"))[0] == (["x@@", "y"], ["zw"])
    assert subwords_of(opened(tmp_path, "separate"))[0] == (["xy"], ["zw"])
    assert (tmp_path / "joint" / "codes.bpe").exists()
    assert (tmp_path / "separate" / "codes.de.bpe").exists()


def test_fewer_merges_than_asked(tmp_path):
    report = run(tmp_path, [("ab", "ab")], subwords="bpe", merges=50)
    # a b</w> is seen twice, and then every token is one symbol
    assert (report.merges_asked, report.merges_learned) == (50, {"en+de": 1})


def test_no_merges_at_all(tmp_path):
    report = run(tmp_path, [("a b", "a")], subwords="bpe")
    assert report.merges_learned == {"en+de": 0}
    assert subwords_of(opened(tmp_path)) == [(["a", "b"], ["a"])]


def test_threshold_undoes_rare_merges(tmp_path):
    pairs = [("abc", "qq"), ("ab ab", "qq"), ("a b c", "qq"), ("a b c", "qq")]
    free = run(tmp_path, pairs, "free", subwords="bpe", merges=9, separate=True)
    bound = run(
        tmp_path, pairs, "bound", subwords="bpe", merges=9, separate=True, vocabulary_threshold=2
    )
    assert free.source_vocabulary.size > bound.source_vocabulary.size
    corpus = opened(tmp_path, "bound")
    assert corpus.source_text.config.restrict
    assert min(vocabulary(corpus.source_text).counts[4:]) == 2
    again = [corpus.source_text.ids(line) for line, _ in pairs]
    assert again == [corpus.train.source(i).tolist() for i in range(4)]
    with pytest.raises(UserError, match="no subword of 'en' is seen 99 times"):
        run(tmp_path, pairs, "none", subwords="bpe", vocabulary_threshold=99)


def test_case(tmp_path):
    pairs = [("The cat", "Die Katze"), ("see the Bob", "da"), ("was the", "die"), ("Bob", "die")]
    run(tmp_path, pairs, "lower", case="lower")
    assert subwords_of(opened(tmp_path, "lower"))[1] == (["see", "the", "bob"], ["da"])
    run(tmp_path, pairs, "true", case="true", valid=[("The Bob", "Die")])
    corpus = opened(tmp_path, "true")
    # Inside sentences "the" is lower-cased and "Bob" is not; so are they at the start.
    assert [source for source, _ in subwords_of(corpus)][0::3] == [["the", "cat"], ["Bob"]]
    assert subwords_of(corpus, corpus.valid)[0][0] == ["the", "Bob"]
    assert corpus.valid_lines() == (["The Bob"], ["Die"])


def test_moses(tmp_path):
    report = run(tmp_path, [("Hello, world!", "„Hallo“, Welt!")], tokenizer="moses")
    assert subwords_of(opened(tmp_path))[0][0] == ["Hello", ",", "world", "!"]
    assert report.train.source.tokens == 4
    run(tmp_path, [("“Hello”", "x")], "normal", tokenizer="moses", normalise=True)
    assert subwords_of(opened(tmp_path, "normal"))[0][0] == ['"', "Hello", '"']


@pytest.mark.parametrize("character", HOSTILE)
def test_control_characters_shift_nothing(tmp_path, character):
    pairs = [(f"a{character}b", "x"), ("c", f"{character}y z"), ("d", "w")]
    report = run(tmp_path, pairs, valid=pairs)
    corpus = opened(tmp_path)
    expected = [(["a", "b"], ["x"]), (["c"], ["y", "z"]), (["d"], ["w"])]
    assert subwords_of(corpus) == expected
    assert subwords_of(corpus, corpus.valid) == expected
    assert corpus.valid_lines() == (["a b", "c", "d"], ["x", " y z", "w"])
    assert (report.train.source.controls, report.train.target.controls) in {(1, 1), (1, 0)}


PARTS = st.sampled_from(["a", "B", "é", "@", "▁", "<s>", " ", "\xa0", "\t", "ab", *HOSTILE])
LINES = st.lists(PARTS).map("".join)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(LINES, LINES), min_size=1), st.booleans(), st.sampled_from(["keep", "true"])
)
def test_ids_are_those_of_the_lines(tmp_path_factory, pairs, bpe, case):
    tmp_path = tmp_path_factory.mktemp("law")
    pairs = [(source.rstrip("\r"), target.rstrip("\r")) for source, target in pairs]
    if pairs[0][0].startswith("\ufeff") or pairs[0][1].startswith("\ufeff"):
        pairs.insert(0, ("a", "a"))  # at the start of a file it is a byte order mark
    pairs.append(("a a", "a"))  # something to keep
    options = {"subwords": "bpe" if bpe else "none", "case": case, "merges": 5}
    run(tmp_path, pairs, valid=pairs, tokenizer="moses", **options)
    corpus = opened(tmp_path)
    ids = [(corpus.source_text.ids(s), corpus.target_text.ids(t)) for s, t in pairs]
    assert corpus.valid is not None
    valid = [
        (corpus.valid.source(i).tolist(), corpus.valid.target(i).tolist())
        for i in range(len(corpus.valid))
    ]
    assert valid == ids
    assert corpus.valid_lines() == tuple(list(map(clean_line, side)) for side in zip(*pairs))
    train = [
        (corpus.train.source(i).tolist(), corpus.train.target(i).tolist())
        for i in range(len(corpus.train))
    ]
    kept = [(s, t) for s, t in ids if s and t and max(len(s), len(t)) <= 9 * min(len(s), len(t))]
    assert train == [(s, t) for s, t in kept if max(len(s), len(t)) <= 100]


def test_forms_of_input_give_the_same_arrays(tmp_path):
    pairs = [("a b", "X"), ("c", "Y Z"), ("a", "X")]
    run(tmp_path, pairs, "plain")
    for side, lines in (("en", ["a b", "c"]), ("de", ["X", "Y Z"])):
        (tmp_path / f"zipped.{side}.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    write(tmp_path / "rest.tsv", ["a\tX"], newline="\r\n")
    report = run(tmp_path, [], "mixed", train=(f"{tmp_path}/zipped", f"{tmp_path}/rest.tsv"))
    assert report.train.read == 3
    plain, mixed = all_bytes(tmp_path / "plain"), all_bytes(tmp_path / "mixed")
    assert plain.keys() == mixed.keys()
    assert {name for name in plain if plain[name] != mixed[name]} == {"manifest.json"}


@pytest.mark.parametrize("many", [1, 1000])  # from so many pairs on, workers write ids too
def test_any_number_of_workers_writes_the_same(tmp_path, monkeypatch, many):
    monkeypatch.setattr(passes, "CHUNK", 2)
    monkeypatch.setattr(passes, "MANY", many)
    pairs = [(f"The word{i} ran, a{i % 3}.", f"Das Wort{i} lief.") for i in range(9)]
    options = {"tokenizer": "moses", "subwords": "bpe", "case": "true", "valid": pairs[:3]}
    one = run(tmp_path, pairs, "one", **options)
    two = run(tmp_path, pairs, "two", workers=2, **options)
    assert one == two
    assert all_bytes(tmp_path / "one") == all_bytes(tmp_path / "two")


def test_sentencepiece(tmp_path):
    pytest.importorskip("sentencepiece")
    pairs = [(f"die katze {i % 7} sitzt", f"猫は{i % 5}マットの上に座った") for i in range(60)]
    options = {"subwords": "sentencepiece", "merges": 40, "separate": True}
    report = run(tmp_path, pairs, valid=pairs[:2], **options)
    corpus = opened(tmp_path)
    assert corpus.source_text.ids(pairs[3][0]) == corpus.train.source(3).tolist()
    source, target = subwords_of(corpus)[3]
    assert corpus.source_text.words(source) == pairs[3][0].split()
    assert corpus.target_text.words(target) == [pairs[3][1]]
    assert report.train.target.tokens == 60
    assert report.train.target.subwords > 120
    assert report.merges_asked == 40
    joint = run(tmp_path, pairs, "joint", **{**options, "separate": False})
    assert (tmp_path / "joint" / "sentencepiece.model").exists()
    assert joint.train.kept == 60


def test_only_the_most_frequent_words_teach(monkeypatch):
    monkeypatch.setattr(learn, "LEARNED_FROM", 2)
    assert learn.most_frequent({"c": 1, "b": 1, "a": 1, "d": 2}) == {"d": 2, "a": 1}
    few = {"x": 1, "y": 2}
    assert learn.most_frequent(few) is few


def test_words_beyond_the_cache(tmp_path, monkeypatch):
    run(tmp_path, PAIRS, "cached", valid=PAIRS)
    monkeypatch.setattr(passes, "CACHED_WORDS", 1)
    run(tmp_path, PAIRS, "uncached", valid=PAIRS)
    assert all_bytes(tmp_path / "cached") == all_bytes(tmp_path / "uncached")
