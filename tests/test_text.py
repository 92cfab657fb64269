import pickle
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.files import CONTROLS
from nmtkit.text import (
    CASES,
    SIDES,
    SUBWORDS,
    TOKENIZERS,
    Segmented,
    Text,
    TextConfig,
    learn_codes,
    token_map,
)
from nmtkit.vocabulary import Vocabulary
from tests.hostile import CORPUS, HOSTILE, LINES, make, sentencepiece_model


@pytest.fixture(scope="session")
def model():
    pytest.importorskip("sentencepiece")
    return sentencepiece_model()


@pytest.fixture(
    scope="session", params=[(t, c, s) for t in TOKENIZERS for c in CASES for s in SUBWORDS]
)
def text(request):
    tokenizer, case, subwords = request.param
    model = request.getfixturevalue("model") if subwords == "sentencepiece" else None
    return make(model, tokenizer=tokenizer, case=case, subwords=subwords, normalise=case == "lower")


@settings(max_examples=60, deadline=None)
@given(line=LINES)
def test_there_and_back(text, line):
    cut = text.segment(line)
    folded = text.fold(cut.tokens)
    assert cut.tokens == text.tokenise(line)
    assert len(folded) == len(cut.tokens)
    assert text.words_with_map(cut.subwords) == (folded, cut.word_of)
    assert sorted(set(cut.word_of)) == list(range(len(cut.tokens)))
    assert all(cut.tokens)
    assert not any(CONTROLS.search(part) for part in cut.tokens + cut.subwords)
    restored = text.restore(text.words(cut.subwords))
    assert len(restored.splitlines()) <= 1
    assert not CONTROLS.search(restored)


@pytest.mark.parametrize("line", HOSTILE)
def test_hostile_lines_there_and_back(text, line):
    cut = text.segment(line)
    assert text.words(cut.subwords) == text.fold(cut.tokens)
    assert len(text.restore(cut.tokens).splitlines()) <= 1
    vocabulary = Vocabulary.build(Counter(cut.subwords))
    assert len(vocabulary.ids(cut.subwords)) == len(cut.subwords)


@settings(max_examples=60, deadline=None)
@given(
    subwords=st.lists(
        st.sampled_from(["@@", "a@@", "b", "▁", "▁a", "c", "<unk>", "@@@", "\u2028", "."])
    )
)
def test_whatever_a_model_writes(text, subwords):
    tokens, word_of = text.words_with_map(subwords)
    assert len(word_of) == len(subwords)
    assert all(-1 <= word < len(tokens) for word in word_of)
    assert word_of == sorted(word_of)
    assert -1 not in word_of or not tokens
    assert all(tokens)
    assert len(text.restore(tokens).splitlines()) <= 1


@pytest.mark.parametrize(
    ("subwords", "given", "expected"),
    [
        ("bpe", ["lo@@", "w", ".", "e@@"], (["low", ".", "e"], [0, 0, 1, 2])),
        ("bpe", ["a@@@", "@", "b"], (["a@@", "b"], [0, 0, 1])),
        ("bpe", ["a", "@@"], (["a"], [0, 0])),
        ("bpe", ["@@"], ([], [-1])),
        ("none", ["a@@", "b"], (["a@@", "b"], [0, 1])),
        ("sentencepiece", ["▁lo", "w", "▁", ".", "▁"], (["low", "."], [0, 0, 1, 1, 1])),
        ("sentencepiece", ["lo", "w", "▁▁"], (["low", "▁"], [0, 0, 1])),
        ("sentencepiece", ["▁"], ([], [-1])),
    ],
)
def test_words_by_hand(subwords, given, expected):
    assert make(subwords=subwords).words_with_map(given) == expected


def test_a_token_that_ends_in_the_mark_stays_apart():
    text = Text(TextConfig("en", tokenizer="none"), codes=learn_codes({"a@@": 9, "@@": 9}, 10))
    cut = text.segment("a@@ @@ b@@c @@")
    assert cut.tokens == ["a@@", "@@", "b@@c", "@@"]
    assert cut.subwords == ["a@@@", "@", "@@@", "@", *text.subwords_of("b@@c"), "@@@", "@"]
    assert text.words(cut.subwords) == cut.tokens


@pytest.mark.parametrize(
    "token", ["a" * 100_000, "abcdefghij" * 10_000, "@" * 100_000, "<" * 100_000]
)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_long_tokens_take_no_long_time(token, tokenizer):
    text = make(tokenizer=tokenizer, case="true", normalise=True)
    start = time.process_time()
    cut = text.segment(token)
    assert text.words(cut.subwords) == cut.tokens
    text.restore(cut.tokens)
    token_map(token, cut.tokens)
    assert time.process_time() - start < 20  # a second or two; the square would be minutes


@pytest.mark.parametrize("line", ["." * 100_000, '."' * 50_000, "„a" * 50_000, "中。" * 20_000])
@pytest.mark.parametrize("language", ["de", "zh"])
def test_long_lines_take_no_long_time(line, language):
    text = make(language=language, normalise=True)
    start = time.process_time()
    cut = text.segment(line)
    token_map(line, cut.tokens)
    assert time.process_time() - start < 10


def test_given_tokens_keep_their_places():
    text = make()
    given = ["", "lower", "a\tb", "\u2028", "don't", "c d"]
    cut = text.segment_tokens(given)
    assert cut.tokens == given
    assert sorted(set(cut.word_of)) == [1, 2, 4, 5]
    assert text.words(cut.subwords) == ["lower", "ab", "don't", "cd"]
    assert text.segment_tokens([]) == Segmented([], [], [])


def test_moses_tokens_and_back():
    text = make(case="true", subwords="none")
    line = 'He didn\'t (ever) pay $5.50, e.g. for "AT&T". Never!'
    tokens = 'He didn \'t ( ever ) pay $ 5.50 , e.g. for " AT & T " . Never !'.split(" ")
    assert text.tokenise(line) == tokens
    assert text.restore(tokens) == line.replace("AT&T", "AT & T")
    # Without escaping, nothing is unescaped either.
    assert text.restore(text.tokenise("&lt;")) == "& lt;"


def test_normalised_only_when_asked():
    line = "„Ja“ – ‚nein‘ …"
    assert make(language="de", tokenizer="none").tokenise(line) == line.split(" ")
    assert make(language="de", tokenizer="none", normalise=True).tokenise(line) == [
        '"Ja"', "-", "'nein'", "..."
    ]  # fmt: skip


def test_lowercase_and_surface():
    cut = make(case="lower", subwords="none").segment("The MP")
    assert (cut.tokens, cut.subwords) == (["The", "MP"], ["the", "mp"])


def test_a_missing_part_is_named():
    bare = Text(TextConfig("en", case="true"))
    for step, part in [
        (lambda: bare.fold(["a"]), "truecaser"),
        (lambda: bare.subwords_of("a"), "BPE codes"),
        (lambda: make().ids("a"), "vocabulary"),
        (lambda: Text(TextConfig("en", subwords="sentencepiece")).segment("a"), "SentencePiece"),
    ]:
        with pytest.raises(ValueError, match=f"has not got a? ?{part}"):
            step()
    assert bare.tokenise("a.") == ["a", "."]


@pytest.mark.parametrize("language", ["", "../en", "e n", ".en", "en/de", "en\n", "日本"])
def test_languages_that_name_no_file(language):
    with pytest.raises(ValueError, match="language must be"):
        TextConfig(language)


def test_a_choice_is_checked():
    with pytest.raises(ValueError, match="unknown case 'lowr': did you mean 'lower'"):
        TextConfig("en", case="lowr")  # type: ignore[arg-type]


@pytest.fixture
def saved(tmp_path, model):
    source = make(case="true", restrict=True)
    source.vocabulary = Vocabulary.build(Counter(source.segment(CORPUS[0]).subwords))
    target = make(model, language="de", subwords="sentencepiece", joint=False)
    target.vocabulary = Vocabulary.build(Counter(target.segment(CORPUS[1]).subwords))
    source.save(tmp_path, "source")
    target.save(tmp_path, "target")
    return tmp_path, source, target


def test_saved_and_loaded(saved):
    folder, *texts = saved
    assert sorted(path.name for path in folder.iterdir()) == [
        "codes.bpe", "codes.de.bpe", "sentencepiece.de.model", "text.json",
        "truecase.de", "truecase.en", "vocabulary.de", "vocabulary.en",
    ]  # fmt: skip
    for side, text in zip(SIDES, texts):
        for copy in (Text.load(folder, side), pickle.loads(pickle.dumps(text))):
            assert copy.config == text.config
            for line in CORPUS + HOSTILE:
                assert copy.segment(line) == text.segment(line)
                assert copy.ids(line) == text.ids(line)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("codes.bpe", lambda raw: raw + b"x y\n", "not the file that text.json was saved with"),
        ("vocabulary.en", None, "cannot read"),
        ("truecase.en", None, "cannot read"),
        ("text.json", None, "cannot read text settings"),
        ("text.json", lambda raw: b"{}", "format None"),
        ("text.json", lambda raw: b'{"format": 1}', "no settings for the source side"),
        ("text.json", lambda raw: raw.replace(b'"true"', b'"tru"'), "unknown case 'tru'"),
        ("text.json", lambda raw: raw.replace(b'"true"', b"1"), r"\[source\] case must be a str"),
        ("text.json", lambda raw: raw.replace(b'"restrict": true', b'"restrict": 1'), "a bool"),
        ("text.json", lambda raw: raw.replace(b'"restrict"', b'"restrct"'), "restrict must be"),
        ("text.json", lambda raw: raw.replace(b'"files"', b'"a": 1, "files"'), "setting 'a'"),
        ("text.json", lambda raw: raw.replace(b'"codes.bpe"', b'"../x"'), "names and checksums"),
        ("text.json", lambda raw: raw.replace(b'"en"', b'"../en"'), "language must be"),
    ],
)
def test_a_damaged_folder(saved, name, change, message):
    path = saved[0] / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=message) as caught:
        Text.load(saved[0], "source")
    assert "\n" not in str(caught.value)


def test_core_prints_nothing(capfd):
    text = make(case="true")
    for line in HOSTILE:
        text.restore(text.words(text.segment(line).subwords))
    assert capfd.readouterr() == ("", "")
