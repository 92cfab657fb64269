"""Guide links: by hand on a few words, against words_with_map, and every error line."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.data import Bitext, Ids, PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.preprocess import PreprocessOptions, preprocess
from nmtkit.text import Text, TextConfig
from nmtkit.text.pieces import learn_sentencepiece
from nmtkit.train import guide as module
from nmtkit.train.guide import Guide, Words, read_guide, read_word_links
from nmtkit.vocabulary import UNK, Vocabulary

# "ab" and "xy" are one subword, all other words a subword a letter. The second pair has an empty
# side and the fourth is too long, so the kept ones are 0, 2 and 4 of five.
PAIRS = [
    ("ab cd ab", "xy zw"),
    ("ab", ""),
    ("cde", "xy zw xy"),
    ("ab cdefgh", "xy"),
    ("ab ab", "w"),
]
MERGES = "#version: 0.2\na b</w>\nx y</w>\n"


def corpus_of(folder: Path, pairs=PAIRS, **changes) -> PreparedCorpus:
    for language, side in (("en", 0), ("de", 1)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"train.{language}").write_text(text, encoding="utf-8")
    chosen = {"tokenizer": "none", "subwords": "bpe", "merges": 2, "max_length": 5, **changes}
    options = PreprocessOptions("en", "de", (str(folder / "train"),), **chosen)
    preprocess(options, folder / "data", overwrite=True)
    return PreparedCorpus.open(folder / "data")


def write(folder: Path, *lines: str) -> Path:
    path = folder / "guide.links"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def links_of(guide: Guide) -> list[list[tuple[int, int]]]:
    return [[(int(s), int(t)) for s, t in guide.of(i)] for i in range(len(guide))]


# cut: ab c@@ d ab | xy z@@ w;  c@@ d@@ e | xy z@@ w xy;  ab ab | w
BY_HAND = [
    [(0, 1), (0, 2), (1, 0), (2, 0), (3, 0)],
    [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)],
    [],
]


def test_by_hand_a_line_for_every_pair_kept(tmp_path):
    corpus = corpus_of(tmp_path)
    assert corpus.train_lines.tolist() == [0, 2, 4]
    guide = read_guide(write(tmp_path, "2-0 1-0 0-1", "0-1", ""), corpus)
    assert links_of(guide) == BY_HAND
    assert guide.of(0).shape == (5, 2)
    assert guide.of(0).dtype == np.int32


def test_by_hand_a_line_for_every_pair_read(tmp_path):
    # Links of pairs that were dropped may say anything, as long as they are links.
    path = write(tmp_path, "2-0 1-0 0-1", "77-88", "0-1", "5-5", "")
    assert links_of(read_guide(path, corpus_of(tmp_path))) == BY_HAND


def test_attention_by_hand(tmp_path):
    guide = read_guide(write(tmp_path, "2-0 1-0 0-1", "0-1", ""), corpus_of(tmp_path))
    found = guide.batch([2, 0], source=6, target=5)
    third = 1 / 3
    expected = [
        # ab ab <end> | w <end>: nothing is linked
        [[0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0] * 6, [0] * 6, [0] * 6],
        # ab c@@ d ab <end> | xy z@@ w <end>
        [
            [0, third, third, third, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 1, 0],
            [0] * 6,
        ],
    ]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor(expected))


def test_the_same_links_for_another_segmentation(tmp_path):
    # "a@@" and "b" are known from the second pair.
    corpus = corpus_of(tmp_path, [("ab cd ab", "xy"), ("ac b", "xy")])
    links = read_word_links(write(tmp_path, "0-0 1-0", "1-0"), corpus)
    assert links_of(links.guide(corpus.train)) == [[(0, 0), (1, 0), (2, 0)], [(2, 0)]]
    assert corpus.source_text.vocabulary is not None
    ids = corpus.source_text.vocabulary.ids("a@@ b c@@ d ab a@@ c b".split(" "))
    assert UNK not in ids
    letters = Ids(np.array(ids, np.int32), np.array([0, 5, 8]))
    again = links.guide(Bitext(letters, corpus.train.target_ids))
    assert links_of(again) == [[(0, 0), (1, 0), (2, 0), (3, 0)], [(2, 0)]]
    fewer = Bitext(Ids(letters.numbers, np.array([0, 2, 8])), corpus.train.target_ids)
    with pytest.raises(ValueError, match="other words"):
        links.guide(fewer)


ERRORS = {
    "out of bounds, source": (
        ["2-0 3-1", "", ""],
        "guide.links:1: link 3-1 is out of bounds: the source has 3 tok",
    ),
    "out of bounds, target": (
        ["", "", "1-0 1-1"],
        "guide.links:3: link 1-1 is out of bounds: the target has 1 tok",
    ),
    "of all pairs": (
        ["", "", "1-0", "", ""],
        "guide.links:3: link 1-0 is out of bounds: the source has 1 tok",
    ),
    "malformed": (["", "0-0 x", ""], "guide.links:2: 'x' is not a link"),
    "malformed, of a dropped pair": (["", "0:0", "", "", ""], "guide.links:2: '0:0' is not a link"),
    "number of lines": (["0-0"] * 4, "has 4 lines, but"),
    "one line": (["0-0"], "has 1 line, but"),
    "no line": ([], "was made from 5 pairs and kept 3: it must have a line"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_in_one_line(tmp_path, name):
    lines, words = ERRORS[name]
    with pytest.raises(UserError) as raised:
        read_guide(write(tmp_path, *lines), corpus_of(tmp_path))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unknown_subwords_hide_words(tmp_path):
    with pytest.raises(UserError, match="the en training text has unknown subwords"):
        read_guide(write(tmp_path, "", "", ""), corpus_of(tmp_path, vocabulary_size=3))
    whole = corpus_of(tmp_path, subwords="none", vocabulary_size=1, max_ratio=2)
    assert links_of(read_guide(write(tmp_path, "2-1", "", "", "1-0", "0-0"), whole)) == [
        [(2, 1)],
        [(1, 0)],
        [(0, 0)],
    ]


TOKENS = st.lists(st.text("abc@▁_é", min_size=1, max_size=6), min_size=1, max_size=5)


def words_of(text: Text, ids: list[int]) -> list[int]:
    assert text.vocabulary is not None
    return text.words_with_map(text.vocabulary.tokens(ids))[1]


def ids_of(sentences) -> Ids:
    return Ids(np.array([*chain(*sentences)], np.int32), np.cumsum([0, *map(len, sentences)]))


def vocabulary_of(lines) -> Vocabulary:
    return Vocabulary.build(dict.fromkeys(chain(*lines), 1))


def check_spans(text: Text, sentences: list[list[int]]) -> None:
    ids = ids_of(sentences)
    words = Words(text)
    spans = words.spans(ids, 0, len(sentences))
    for i, sentence in enumerate(sentences):
        begin, end = spans.first[i], spans.first[i + 1]
        sizes, places = spans.sizes[begin:end], spans.places[begin:end]
        found = [word for word, size in enumerate(sizes) for _ in range(size)]
        assert found == words_of(text, sentence)
        assert places.tolist() == [found.index(word) for word in range(end - begin)]
    assert words.counts(ids).tolist() == np.diff(spans.first).tolist()


@settings(max_examples=60)
@given(st.lists(TOKENS, min_size=1, max_size=4))
def test_words_are_those_of_words_with_map(lines):
    text = Text(TextConfig("en", "none"), codes=MERGES + "a b\nab c</w>\n@ @</w>\n")
    subwords = [text.segment_tokens(tokens).subwords for tokens in lines]
    text.vocabulary = vocabulary_of(subwords)
    check_spans(text, [text.vocabulary.ids(line) for line in subwords])


@settings(max_examples=60)
@given(
    st.sampled_from(["bpe", "none"]),
    st.lists(st.lists(st.integers(4, 9), min_size=1, max_size=6), min_size=1, max_size=4),
)
def test_words_of_what_no_encoder_writes(subwords, sentences):
    text = Text(TextConfig("en", "none", subwords=subwords))
    text.vocabulary = Vocabulary.build(dict.fromkeys(["a@@", "b@@", "a", "@", "@@@", "▁"], 1))
    check_spans(text, sentences)


@pytest.fixture(scope="module")
def pieces() -> Text:
    pytest.importorskip("sentencepiece")
    lines = ["abc aab ab", "ca bca cab", "_ab é abab", "a b c @ _"] * 5
    return Text(
        TextConfig("en", "none", subwords="sentencepiece"), pieces=learn_sentencepiece(lines, 14)
    )


@settings(max_examples=60)
@given(lines=st.lists(TOKENS, min_size=1, max_size=4))
def test_words_of_sentencepiece(pieces, lines):
    subwords = [pieces.segment_tokens(tokens).subwords for tokens in lines]
    pieces.vocabulary = vocabulary_of(subwords)
    check_spans(pieces, [pieces.vocabulary.ids(line) for line in subwords])


def slow_guide(links, pairs, text):
    """Links between subwords, one at a time."""
    found = []
    for line, (source, target) in zip(links, pairs, strict=True):
        words, others = words_of(text, source), words_of(text, target)
        every = ((s, t) for s in range(len(source)) for t in range(len(target)))
        found.append([(s, t) for s, t in every if (words[s], others[t]) in line])
    return found


@settings(max_examples=40)
@given(st.data())
def test_links_one_at_a_time(data):
    text = Text(TextConfig("en", "none"), codes=MERGES)
    text.vocabulary = Vocabulary.build(dict.fromkeys(["a@@", "b@@", "a", "b"], 1))
    sentence = st.lists(st.integers(4, 7), min_size=1, max_size=6)
    pairs = data.draw(st.lists(st.tuples(sentence, sentence), min_size=1, max_size=7))
    # A subword that goes on, at the end, is a word all the same.
    lengths = [tuple(words_of(text, ids)[-1] + 1 for ids in pair) for pair in pairs]
    links = [
        data.draw(st.sets(st.tuples(st.integers(0, s - 1), st.integers(0, t - 1))))
        for s, t in lengths
    ]
    sides = [ids_of(side) for side in zip(*pairs, strict=True)]
    ordered = [sorted(line) for line in links]
    word_links = module.WordLinks(
        np.array([*chain(*ordered)], np.int32).reshape(-1, 2),
        np.cumsum([0, *map(len, ordered)]),
        (Words(text), Words(text)),
        (np.array([s for s, _ in lengths]), np.array([t for _, t in lengths])),
    )
    saved, module.CHUNK = module.CHUNK, data.draw(st.integers(1, 3))
    try:
        guide = word_links.guide(Bitext(*sides))
    finally:
        module.CHUNK = saved
    expected = slow_guide(links, pairs, text)
    assert [sorted(found) for found in links_of(guide)] == expected
    check_attention(guide, pairs, expected, data)


def check_attention(guide, pairs, expected, data):
    rows = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=4))
    longest = [max(len(pairs[row][side]) for row in rows) + 1 for side in (0, 1)]
    found = guide.batch(np.array(rows), *longest).numpy()
    assert found.shape == (len(rows), longest[1], longest[0])
    for matrix, row in zip(found, rows, strict=True):
        source, target = pairs[row]
        for t, weights in enumerate(matrix):
            linked = [s for s, other in expected[row] if other == t] or [len(source)]
            slow = np.zeros(longest[0], np.float32)
            if t <= len(target):
                slow[linked] = 1 / len(linked)
            np.testing.assert_allclose(weights, slow, rtol=1e-6)
