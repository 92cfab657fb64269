import random
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.files import clean_line
from nmtkit.text import (
    Text,
    TextConfig,
    Truecaser,
    learn_codes,
    learn_sentencepiece,
    token_map,
    train_truecaser,
)
from nmtkit.vocabulary import UNK, Vocabulary
from tests.hostile import (
    CODES,
    CORPUS,
    COUNTS,
    HOSTILE,
    LINES,
    TRUECASER,
    make,
    sentencepiece_model,
)


def test_bpe_is_that_of_subword_nmt():
    # The dictionary of Sennrich et al. (2016, algorithm 1), merged by hand: the most frequent pair
    # first, of equals the alphabetically last: "s t" and "e s" 9, "l o" 7, "w est" 6, …
    codes = learn_codes({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 7)
    assert codes == (
        "#version: 0.2\ns t</w>\ne st</w>\nl o\nw est</w>\nn e\nne west</w>\nlo w</w>\n"
    )
    text = Text(TextConfig("en"), codes=codes)
    assert text.segment("lowest newest low").subwords == ["lo@@", "west", "newest", "low"]


def test_learning_is_silent_and_does_not_depend_on_order(capfd):
    codes = learn_codes(dict(reversed(COUNTS.items())), 80)
    assert codes == CODES
    learn_codes({"ab": 1}, 80)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "counts", [{}, {"a": 9}, {"ab": 0}, {"a b": 9}, {"a\u00a0b": 9}, {"a\nb": 9}]
)
def test_nothing_to_learn(counts):
    assert learn_codes(counts, 5) == "#version: 0.2\n"
    with pytest.raises(ValueError, match="merges"):
        learn_codes(counts, -1)


@pytest.mark.parametrize(
    ("codes", "where"),
    [
        ("", "1:"),
        ("a b\n", "1:"),
        ("#version: 0.1\na b\n", "1:"),
        ("#version: 0.2\na b\nc\n", "3:"),
        ("#version: 0.2\na  b\n", "2:"),
        ("#version: 0.2\na b c\n", "2:"),
        ("#version: 0.2\na b\r\n", "2:"),
        ("#version: 0.2\na \u2028\n", "2:"),
        ("#version: 0.2\na b", " the BPE codes do not end with a newline"),
    ],
)
def test_broken_codes(codes, where):
    with pytest.raises(UserError, match=f"en codes:{where}"):
        Text(TextConfig("en"), codes=codes)


def test_dropout_draws_from_the_given_source_alone():
    text = make()
    random.seed(5)
    state = random.getstate()
    whole = text.subwords_of("house")

    def draw(source):
        return [text.subwords_of("house", 0.5, source) for _ in range(20)]

    assert draw(random.Random(1)) == draw(random.Random(1)) != draw(random.Random(2))
    assert draw(np.random.default_rng(1)) == draw(np.random.default_rng(1))
    assert len(set(draw(random.Random(1)))) > 2
    assert all(text.words(parts) == ["house"] for parts in draw(random.Random(1)))
    assert random.getstate() == state
    assert sys.modules["subword_nmt.apply_bpe"].random is random
    # What dropout made is not remembered.
    assert text.subwords_of("house") == whole == make().subwords_of("house")
    text.subwords_of("wider", 1.0, random.Random(1))
    assert text.subwords_of("wider") == make().subwords_of("wider")


def test_dropout_of_all_merges_gives_characters():
    assert make().subwords_of("the", 1.0, random.Random(1)) == ("t@@", "h@@", "e")


def test_dropout_needs_bpe_and_a_source():
    with pytest.raises(ValueError, match="random"):
        make().subwords_of("the", 0.5)
    with pytest.raises(ValueError, match="dropout needs subwords 'bpe'"):
        make(subwords="none").subwords_of("the", 0.5, random.Random(1))


def test_restricted_merges_are_undone():
    codes = learn_codes({"low": 5, "lower": 5}, 10)
    vocabulary = Vocabulary.build({"lo@@": 9, "w": 9, "w@@": 9, "er": 9})
    free = Text(TextConfig("en"), codes=codes, vocabulary=vocabulary)
    bound = Text(TextConfig("en", restrict=True), codes=codes)
    assert bound.segment("low lower").subwords == ["low", "lower"]
    bound.vocabulary = vocabulary  # and the cache is forgotten
    assert free.ids("low lower") == [UNK, UNK]
    assert bound.segment("low lower").subwords[:3] == ["lo@@", "w", "lo@@"]
    assert bound.words(bound.segment("low lower").subwords) == ["low", "lower"]


def test_tokens_of_other_languages():
    assert make(language="fr").tokenise("L'ami, c'est moi.") == "L' ami , c' est moi .".split(" ")
    assert make(language="fr-CA").tokenise("L'ami") == ["L'", "ami"]
    # sacremoses' own rule for this crashes.
    assert make(language="cs").restore(["řekl'", "-", "li"]).startswith("řekl'")


@pytest.mark.parametrize("language", ["zh", "ja", "ko", "de"])
def test_our_faster_moses_gives_the_same(language):
    from sacremoses.tokenize import MosesTokenizer

    plain = MosesTokenizer(language)
    for line in [
        *CORPUS,
        *HOSTILE,
        "漢字かな交じり。한국어 텍스트! 𠀀 z. B. d.h. No. 5 Nr. 7 i.e. x. Y.",
    ]:
        expected = plain.tokenize(clean_line(line), escape=False)
        assert make(language=language).tokenise(line) == expected


STOPPED = st.lists(
    st.sampled_from(
        [".", "..", "...", " ", "\u00a0", "Mr.", "No.", "z.B.", "5", "a", "B", ",", "é."]
    )
).map("".join)


@given(STOPPED, st.sampled_from(["en", "de", "fr", "zh"]))
def test_full_stops_are_where_sacremoses_has_them(line, language):
    assert make(language=language).tokenise(line) == plain_moses(language).tokenize(
        clean_line(line), escape=False
    )


@cache
def plain_moses(language):
    from sacremoses.tokenize import MosesTokenizer

    return MosesTokenizer(language)


def test_truecase_by_hand():
    # Sentence starts do not count: "Lower" and "Wider" are never seen elsewhere.
    assert TRUECASER.forms["house"] == {"house": 3, "House": 1}
    assert "wages" in TRUECASER.forms
    assert "wider" not in TRUECASER.forms
    text = make(case="true", subwords="none")
    assert text.fold(["The", "House", "of", "HOUSE", ".", '"', "The"]) == [
        "the", "House", "of", "house", ".", '"', "the"
    ]  # fmt: skip
    assert text.restore(["the", "house", ".", "(", "the", "end"]) == "The house. (The end"


def test_truecase_keeps_every_token():
    tokens = ["<a", "b>", "", "|x", "a|b", "\u00a0", "THE" * 50, "<b>", "The"]
    assert TRUECASER.apply(tokens)[:8] == tokens[:8]
    assert len(TRUECASER.apply(tokens)) == 9


def test_truecaser_training_does_not_depend_on_order():
    sentences = [["x", "May"], ["x", "may"], ["x", "MAY"]]
    expected = {"may": {"MAY": 1, "May": 1, "may": 1}}
    for shift in range(3):
        assert train_truecaser(iter(sentences[shift:] + sentences[:shift])).forms == expected


def test_truecaser_file(tmp_path):
    Truecaser({"may": {"may": 2, "May": 3}, "\u00a0x": {"\u00a0X": 1}}).save(tmp_path / "t")
    content = "may".title() + " (3/5) may (2)\n\u00a0X (1/1)\n"
    assert (tmp_path / "t").read_text("utf-8") == content
    TRUECASER.save(tmp_path / "t")
    assert Truecaser.load(tmp_path / "t") == TRUECASER


@pytest.mark.parametrize(
    "line",
    ["", "a", "a 3", "a (3)", "a (3/4)", "a (x/x)", "a (3/3) b (0)", "a (1/2) a (1)",
     "a (1/2)  A (1)", "b (1/1)", "a (1/2) A [1]", "a (1/3) A (1/3)", "a\u2028 (1/1)"],
)  # fmt: skip
def test_broken_truecaser_files(tmp_path, line):
    (tmp_path / "t").write_text(f"b (1/1)\n{line}\n", "utf-8")
    with pytest.raises(UserError, match=r"t:2: a line of a truecaser must be"):
        Truecaser.load(tmp_path / "t")
    (tmp_path / "t").write_text("b (1/1)", "utf-8")
    with pytest.raises(UserError, match="cut off"):
        Truecaser.load(tmp_path / "t")
    (tmp_path / "t").write_bytes(b"\xff\n")
    with pytest.raises(UserError, match="not UTF-8"):
        Truecaser.load(tmp_path / "t")


def test_sentencepiece_is_silent_repeatable_and_lossless(capfd):
    pytest.importorskip("sentencepiece")
    model = sentencepiece_model()
    assert learn_sentencepiece(iter(CORPUS * 5), 60) == model
    text = make(model, subwords="sentencepiece", tokenizer="none")
    cut = text.segment("the ▁house Ω①")
    assert text.words(cut.subwords) == ["the", "_house", "Ω①"]
    assert capfd.readouterr() == ("", "")
    with pytest.raises(UserError, match="SentencePiece cannot learn 60 pieces"):
        learn_sentencepiece([], 60)
    with pytest.raises(UserError, match="not a SentencePiece model"):
        make(b"junk", subwords="sentencepiece")


def test_sentencepiece_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=r"pip install 'nmtkit\[sentencepiece\]'"):
        learn_sentencepiece(CORPUS, 60)


@pytest.mark.parametrize(
    ("line", "tokens", "expected"),
    [
        ("", [], []),
        ("don't  stop.", ["don", "'t", "stop", "."], [0, 0, 1, 1]),
        ("a\tb\u2028c d", ["a", "b", "c", "d"], [0, 0, 0, 1]),
        ("„Ja“ – …", ['"', "Ja", '"', "-", "..."], [0, 0, 0, 1, 2]),
        ("„ “ ” x", ["''", '"', "''", "x"], [0, 1, 2, 3]),
        ("x “. y", ["x", ".", '"', "y"], [0, 1, 1, 2]),
        ("¡ a 中 ？ b", ["¡", "a", "中", "?", "!", "b"], [0, 1, 2, 3, 3, 4]),
        ("a b", ["a", "x", "b"], [0, -1, 1]),
        ("The end", ["the", "end"], [0, 1]),
        ("a b", ["ab"], [0]),
        ("a b", ["", "\u00a0", "b"], [-1, -1, 1]),
        ("x DOTMULTI y", ["x", ".", "y"], [0, 1, 2]),
    ],
)
def test_token_map_by_hand(line, tokens, expected):
    assert token_map(line, tokens) == expected


@settings(max_examples=100, deadline=None)
@given(line=LINES)
@example("a\u00a0b c")
def test_token_map_of_moses_tokens_is_exact(line):
    tokens = make(subwords="none").tokenise(line)
    if "MULTI" in line:
        return
    mapped = token_map(line, tokens)
    assert mapped == sorted(mapped)
    given = [token for token in line.split(" ") if token]
    for index, whole in enumerate(given):
        parts = "".join(token for token, owner in zip(tokens, mapped) if owner == index)
        assert parts == "".join(clean_line(whole).split())
