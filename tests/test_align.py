"""Word links from attention: hand-made matrices, and the toy model's sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align import (
    SHIFTS,
    Aligned,
    AlignOptions,
    Line,
    align,
    extract,
    read_attention,
    reading,
    word_attention,
)
from nmtkit.batches import BatchSize
from nmtkit.checkpoint import Trained, load
from nmtkit.errors import UserError
from nmtkit.links import format_pharaoh, split_tokens
from nmtkit.models import build_model
from nmtkit.models.rnnsearch import RNNsearchConfig
from nmtkit.models.seq2seq import Seq2Seq
from nmtkit.search import Forced
from nmtkit.text import Text, TextConfig
from tests.conftest import SOURCE, raw, toy_links
from tests.hostile import LINES
from tests.micro import CPU, run


@pytest.fixture(scope="module")
def trained(toy) -> Trained:
    return load(toy.model, CPU)


def pharaoh(models: Any, pairs: Any, **options: Any) -> list[str]:
    found = align(models, pairs, AlignOptions(**options))
    return [format_pharaoh(one.links) for one in found]


# ------------------------------------------------------------------------------ subwords to words

SOURCE_LINE = Line(["ab", "", "c"], [11, 12, 13], [0, 0, 2])  # "a@@ b c", a token of nothing
TARGET_LINE = Line(["x", "yz", ""], [21, 22, 23], [0, 1, 1])  # "x y@@ z", a token of nothing
# Columns: a@@, b, c, the end, padding. Rows: predict x, y@@, z, the end; have consumed; padding.
ATTENTION = np.array(
    [
        [0.1, 0.2, 0.3, 0.4, 0.0],
        [0.5, 0.1, 0.1, 0.3, 0.0],
        [0.0, 0.0, 0.9, 0.1, 0.0],
        [0.2, 0.2, 0.2, 0.4, 0.0],
        [0.6, 0.2, 0.1, 0.1, 0.0],
        [9.0, 9.0, 9.0, 9.0, 9.0],
    ]
)


@pytest.mark.parametrize(
    ("shift", "wanted"),
    [
        # x: row 0. yz: the mean of rows 1 and 2.
        (0, [[0.3, 0.0, 0.3, 0.4], [0.3, 0.0, 0.5, 0.2], [0.0, 0.0, 0.0, 1.0]]),
        # x: row 1. yz: the mean of rows 2 and 3.
        (1, [[0.6, 0.0, 0.1, 0.3], [0.2, 0.0, 0.55, 0.25], [0.0, 0.0, 0.0, 1.0]]),
        # x: row 2. yz: the mean of rows 3 and 4.
        (2, [[0.0, 0.0, 0.9, 0.1], [0.6, 0.0, 0.15, 0.25], [0.0, 0.0, 0.0, 1.0]]),
    ],
)
def test_word_attention_by_hand(shift, wanted):
    found = word_attention(ATTENTION, SOURCE_LINE, TARGET_LINE, shift)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_subwords_of_no_word():
    """What normalisation put in belongs to no word: NULL on the source, left out on the target."""
    source = replace(SOURCE_LINE, word_of=[0, -1, 2])
    target = replace(TARGET_LINE, word_of=[0, -1, 1])
    found = word_attention(ATTENTION, source, target, 0)
    wanted = [[0.1, 0.0, 0.3, 0.6], [0.0, 0.0, 0.9, 0.1], [0.0, 0.0, 0.0, 1.0]]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@st.composite
def segmented(draw: Any) -> Line:
    words = draw(st.integers(1, 5))
    word_of = sorted(draw(st.lists(st.integers(0, words - 1), min_size=1, max_size=8)))
    return Line(["w"] * words, [9] * len(word_of), word_of)


@given(segmented(), segmented(), st.integers(0, 2), st.integers(0, 99))
def test_word_attention_is_a_distribution(source, target, shift, seed):
    attention = np.random.default_rng(seed).dirichlet(
        np.ones(len(source.ids) + 1), len(target.ids) + 2
    )
    found = word_attention(attention, source, target, shift)
    assert found.shape == (len(target.words), len(source.words) + 1)
    np.testing.assert_allclose(found.sum(1), 1.0)
    for word in range(len(target.words)):
        if word not in target.word_of:
            assert found[word, -1] == 1.0


def test_one_subword_a_word_is_the_attention_itself():
    line = Line(["a", "b"], [5, 6], [0, 1])
    attention = np.arange(12.0).reshape(4, 3)
    for shift in (0, 1, 2):
        found = word_attention(attention, line, line, shift)
        np.testing.assert_array_equal(found, attention[shift : shift + 2])


@pytest.mark.parametrize(
    ("order", "shifts"),
    [
        ("main-text", (0, 1, 2)),
        ("appendix", (0, 1, 2)),
        ("groundhog", (0, 1, 1)),
        ("conditional", (0, 1, 1)),
    ],
)
def test_readings_of_the_rows(order, shifts):
    model = build_model(RNNsearchConfig(embedding=2, hidden=2, order=order), 9, 9)
    assert isinstance(model, Seq2Seq)
    assert tuple(SHIFTS[name](model) for name in ("predicting", "next", "consumed")) == shifts


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [("predicting", "0-0 1-1 2-2"), ("next", "0-2 1-0 2-1"), ("consumed", "0-1 1-2 2-0")],
)
def test_the_reading_chosen_is_the_one_taken(trained, monkeypatch, rows, wanted):
    """Row r looks at column r mod 3, in a model of order main-text."""

    def made(models: Any, source: Any, mask: Any, target: Any) -> Forced:
        attention = torch.zeros((len(source), target.shape[1] + 1, source.shape[1]))
        for row in range(attention.shape[1]):
            attention[:, row, row % 3] = 1.0
        return Forced(torch.zeros(target.shape), attention)

    monkeypatch.setattr(reading, "force_decode", made)
    pair = (" ".join(SOURCE[:3]), "a b c")
    assert pharaoh([trained], [pair], rows=rows) == [wanted]


# ----------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "predictin"}, "unknown row reading 'predictin': did you mean 'predicting'"),
        ({"method": "argmx"}, "unknown extraction method 'argmx': did you mean 'argmax'"),
        ({"symmetrize": "prodct"}, "unknown symmetrisation 'prodct': did you mean 'product'"),
        ({"threshold": 0.0}, "threshold must be above 0"),
        ({"threshold": 1.1}, "threshold must be above 0"),
        ({"threshold": float("nan")}, "threshold must be above 0"),
    ],
)
def test_options_check_themselves(options, message):
    with pytest.raises((UserError, ValueError), match=message):
        AlignOptions(**options)


# ------------------------------------------------------------------------------------------- lines


def test_lines_of_given_tokens(trained):
    line = Line.of_tokens(trained.source, f"{SOURCE[0]}  {SOURCE[1]}? \u2028 ?")
    assert line.words == [SOURCE[0], f"{SOURCE[1]}?", "\u2028", "?"]
    assert line.word_of == [0, 1, 3]  # the separator is nothing to the model
    known = trained.source_vocabulary.ids([SOURCE[0], "?"])
    assert line.ids == [known[0], 1, known[1]]


def test_raw_lines_keep_their_own_words(trained):
    line = Line.of_raw(trained.source, f"{SOURCE[0]}  {SOURCE[1].upper()}? !")
    assert line.words == [SOURCE[0], f"{SOURCE[1].upper()}?", "!"]
    assert line.word_of == [0, 1, 1, 2]
    assert 1 not in line.ids


@st.composite
def widened(draw: st.DrawFn, line: str) -> str:
    """The line with more spaces where it has some, and at its ends."""
    parts = line.split(" ")
    more = st.integers(0, 3).map(lambda number: number * " ")
    inside = "".join(f"{part} {draw(more)}" for part in parts[:-1])
    return f"{draw(more)}{inside}{parts[-1]}{draw(more)}"


@given(st.text("ab?-\u00a0\u3000é "))
def test_preprocess_counts_the_same_tokens(line):
    """So links made by `align` fit `train --guide` where the text is tokenised already."""
    assert Text(TextConfig("en", tokenizer="none")).tokenise(line) == split_tokens(line)


@given(data=st.data(), pair=st.tuples(LINES, LINES), raw=st.booleans())
def test_more_spaces_change_no_link(trained, data, pair, raw):
    wide = tuple(data.draw(widened(line)) for line in pair)
    for options in (
        AlignOptions(raw=raw),
        AlignOptions(raw=raw, method="threshold", threshold=0.1),
    ):
        one, other = align([trained], [pair, wide], options)
        assert (one.source, one.target, one.links) == (other.source, other.target, other.links)
        assert (one.source, one.target) == tuple(map(split_tokens, pair))
        np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)


# ----------------------------------------------------------------------------------- the toy model


AWKWARD = [
    ("", ""),
    ("", "rysyro"),
    ("bebabi", ""),
    (" ", " "),
    ("  bebabi ", "rysyro  "),
    ("\u2028", "\x85\x0b\x0c\r\t"),
    ("bebabi\u2028dadila", "\ufeffrysyro\x85suvosy \u00a0"),
    ("@@ </s> <unk>", "<s> <pad> @@"),
]


def test_batches_change_nothing(toy, trained):
    pairs = [pair for two in zip(toy.test, AWKWARD * 9, strict=False) for pair in two]
    whole = [*align([trained], pairs, AlignOptions())]
    assert len(whole) == len(pairs) > 100
    for sentences, ahead in ((1, 5000), (7, 5000), (64, 5), (7, 1)):
        size = BatchSize(sentences=sentences, tokens=0, pool=1)
        found = align([trained], pairs, AlignOptions(batch=size, read_ahead=ahead))
        for one, other in zip(whole, found, strict=True):
            assert (one.source, one.target, one.links) == (other.source, other.target, other.links)
            np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)


def test_links_stay_within_the_given_tokens(trained):
    for is_raw in (False, True):
        found = list(align([trained], AWKWARD, AlignOptions(raw=is_raw)))
        assert len(found) == len(AWKWARD)
        for (source, target), one in zip(AWKWARD, found, strict=True):
            given = split_tokens(source), split_tokens(target)
            assert (one.source, one.target) == given
            assert one.attention.shape == (len(given[1]), len(given[0]) + 1)
            np.testing.assert_allclose(one.attention.sum(1), 1.0, atol=1e-5)
            assert all(j < len(given[0]) and i < len(given[1]) for j, i in one.links)
        assert not any(one.links for one in found[:4])


def test_toy_sentences(toy, trained):
    pairs = toy.common
    wanted = [toy_links(source) for source, _ in pairs]
    found = pharaoh([trained], pairs)
    right = sum(one == other for one, other in zip(found, wanted, strict=True))
    assert right > 0.8 * len(pairs) > 20


def test_raw_is_the_same_but_for_the_joined_marks(toy, trained):
    """In running text the mark is part of the last word, which then has two halves."""
    pair = next(p for p in toy.common if p[0].count(" ") == 2 and p[0][-1] in ".!?")
    running = raw(pair[0]), raw(pair[1])
    assert pharaoh([trained], [pair], method="threshold") == ["0-1 1-0 2-2"]
    assert pharaoh([trained], [running], method="threshold", raw=True) == ["0-1 1-0 1-1"]
    (joined,) = align([trained], [running], AlignOptions(raw=True))
    np.testing.assert_allclose(joined.attention, [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], atol=0.2)


def test_an_ensemble_reads_the_mean(micro, tmp_path):
    models = [
        load(run(micro, tmp_path / order, "updates=2", f"seed={seed}", f"model.order={order}"), CPU)
        for seed, order in ((1, "main-text"), (2, "groundhog"))
    ]
    lines = [("bebabi dadila .", "suvosy rysyro ."), ("bebabi", "rysyro")]
    pairs = [
        (Line.of_tokens(models[0].source, s), Line.of_tokens(models[0].target, t)) for s, t in lines
    ]
    options = AlignOptions(rows="consumed")
    with torch.inference_mode():
        both, one, other = (
            read_attention(some, pairs, options) for some in (models, models[:1], models[1:])
        )
    for mean, first, second in zip(both, one, other, strict=True):
        np.testing.assert_allclose(mean, (first + second) / 2, atol=1e-7)
        assert not np.allclose(first, second, atol=1e-7)


def test_pairs_are_read_as_they_are_needed(trained):
    def endless() -> Any:
        while True:
            yield "bebabi", "rysyro"

    stream = align([trained], endless(), AlignOptions(read_ahead=3))
    assert [next(stream).links for _ in range(4)] == [frozenset({(0, 0)})] * 4


def test_two_directions_read_the_same_pairs(toy, trained):
    other = load(toy.reverse, CPU)
    pairs = [(source, target) for source, target in (*toy.test[:20], *AWKWARD)]
    turned = [(target, source) for source, target in pairs]
    options = AlignOptions(read_ahead=7, symmetrize="product")
    forward, backward = align([trained], pairs, options), align([other], turned, options)
    both = align([trained], iter(pairs), options, reverse=[other])
    for one, back, found in zip(forward, backward, both, strict=True):
        assert one.backward is None
        assert (
            (found.source, found.target) == (one.source, one.target) == (back.target, back.source)
        )
        np.testing.assert_allclose(found.attention, one.attention, atol=1e-5)
        assert found.backward is not None
        np.testing.assert_allclose(found.backward, back.attention, atol=1e-5)
        assert found.links == extract(found.attention, found.backward, options)
    assert any(one.links for one in align([trained], pairs, options, reverse=[other]))


def test_weights_of_links():
    attention = np.array([[0.1, 0.7, 0.2], [0.6, 0.1, 0.3]])
    links = frozenset({(1, 0), (0, 1)})
    one = Aligned(["a", "b"], ["x", "y"], attention, links)
    assert one.weights() == {(0, 1): 0.6, (1, 0): 0.7}
    assert list(one.weights()) == [(0, 1), (1, 0)]
    backward = np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])  # source words' own rows
    both = replace(one, backward=backward).weights()
    assert both == pytest.approx({(0, 1): 0.4, (1, 0): 0.4})
