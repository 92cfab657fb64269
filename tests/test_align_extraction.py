"""From matrices to links: values by hand, and laws over every method."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align import BOTH, METHODS, SYMMETRIZE, AlignOptions, Matrix, extract
from nmtkit.links import SYMMETRISATIONS, Links, transpose

# One direction: four target words, three source words, NULL.
ATTENTION = np.array(
    [
        [0.2, 0.5, 0.1, 0.2],
        [0.4, 0.1, 0.0, 0.5],  # NULL is the strongest
        [0.5, 0.3, 0.0, 0.2],
        [0.2, 0.4, 0.2, 0.2],
    ]
)


@pytest.mark.parametrize(
    ("method", "threshold", "wanted"),
    [
        ("argmax", None, {(1, 0), (0, 2), (1, 3)}),
        ("argmax", 0.45, {(1, 0), (0, 2)}),
        # Source word 1 prefers target word 0 to 3; source word 2 prefers target word 3, which
        # prefers source word 1.
        ("mutual", None, {(1, 0), (0, 2)}),
        ("mutual", 0.51, set()),
        ("threshold", None, {(1, 0), (0, 1), (0, 2), (1, 2), (1, 3)}),
        ("threshold", 0.5, {(1, 0), (0, 2)}),
    ],
)
def test_one_direction_by_hand(method, threshold, wanted):
    options = AlignOptions(method=method, threshold=threshold)
    assert METHODS[method](ATTENTION, options) == wanted
    assert extract(ATTENTION, None, options) == wanted


def test_equals_are_decided_alike():
    """Among equals the first; NULL must be stronger, not as strong, to win."""
    even = np.array([[0.25, 0.25, 0.5], [0.4, 0.4, 0.2], [0.3, 0.2, 0.5]])
    assert METHODS["argmax"](even, AlignOptions()) == {(0, 1)}
    assert METHODS["argmax"](even[:, [0, 2]], AlignOptions()) == {(0, 1)}
    tie = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert METHODS["argmax"](tie, AlignOptions()) == {(0, 0), (0, 1)}
    assert METHODS["mutual"](tie, AlignOptions()) == {(0, 0)}


# Two directions: two target words, three source words.
FORWARD = np.array([[0.64, 0.16, 0.0, 0.2], [0.36, 0.25, 0.04, 0.35]])
BACKWARD = np.array([[0.49, 0.36, 0.15], [0.16, 0.64, 0.2], [0.04, 0.25, 0.71]])
# Geometric means, a row for a target word: 0.56 0.16 0 | 0.36 0.4 0.1; NULL is, by hand,
# sqrt(0.2 · (0.15, 0.2, 0.71)) = 0.173 0.2 0.377 and sqrt(0.35 · …) = 0.229 0.265 0.498.
# Harmonic means: 0.5550 0.16 0 | 0.36 0.3596 0.0690.


@pytest.mark.parametrize(
    ("way", "threshold", "wanted"),
    [
        ("product", None, {(0, 0), (1, 1)}),
        ("product", 0.41, {(0, 0)}),
        # 0-1 and 1-1 are nearly equals, and the harmonic mean ranks them the other way round: the
        # second target word takes source word 0, which prefers the first.
        ("harmonic", None, {(0, 0)}),
        ("harmonic", 0.56, set()),
        ("competitive", None, {(0, 0), (1, 1)}),
        ("competitive", 0.41, {(0, 0)}),
        ("posterior-union", None, {(0, 0), (1, 1)}),
        ("posterior-union", 0.3, {(0, 0), (0, 1), (1, 1)}),
        ("posterior-intersection", None, {(0, 0), (0, 1), (1, 1)}),
        ("posterior-intersection", 0.3, {(0, 0), (0, 1)}),
        ("posterior-product", None, {(0, 0), (0, 1), (1, 1)}),
        ("posterior-product", 0.39, {(0, 0), (1, 1)}),
    ],
)
def test_two_directions_by_hand(way, threshold, wanted):
    options = AlignOptions(symmetrize=way, threshold=threshold)
    assert BOTH[way](FORWARD, BACKWARD, options) == wanted
    assert extract(FORWARD, BACKWARD, options) == wanted


def test_competitive_linking_goes_on_to_the_next_best():
    """Products (0.81, 0.72 | 0.64, 0.02): the second target word wants 0, taken, and gets 1."""
    forward = np.array([[0.9, 0.08, 0.02], [0.8, 0.1, 0.1]])
    backward = np.array([[0.9, 0.09, 0.01], [0.1, 0.2, 0.05]])
    backward[0, 1] = 0.8  # only the products matter
    assert extract(forward, backward, AlignOptions(symmetrize="product")) == {(0, 0)}
    found = extract(forward, backward, AlignOptions(symmetrize="competitive"))
    assert found == {(0, 0), (1, 1)}  # 0.1 · 0.2 beats NULL's 0.1 · 0.05


@pytest.mark.parametrize("way", ["product", "harmonic", "competitive"])
def test_a_link_must_beat_null(way):
    """One direction that is sure outvotes one that leans to NULL; an even vote makes no link."""
    options = AlignOptions(symmetrize=way)
    lean = np.array([[0.4, 0.6]])
    assert extract(lean, np.array([[0.9, 0.1]]), options) == {(0, 0)}
    assert extract(lean, np.array([[0.45, 0.55]]), options) == frozenset()
    assert extract(np.array([[0.5, 0.5]]), np.array([[0.5, 0.5]]), options) == frozenset()
    assert extract(np.array([[0.0, 1.0]]), np.array([[0.0, 1.0]]), options) == frozenset()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", SYMMETRISATIONS)
def test_symmetrisations_take_the_links_of_each(how, method):
    options = AlignOptions(symmetrize=how, method=method, threshold=0.36)
    one, other = METHODS[method](FORWARD, options), METHODS[method](BACKWARD, options)
    assert one != transpose(other)
    assert extract(FORWARD, BACKWARD, options) == SYMMETRISATIONS[how](one, transpose(other))


# -------------------------------------------------------------------------------------------- laws


@st.composite
def directions(draw: Any) -> tuple[Matrix, Matrix]:
    """Forward (I, J+1) and backward (J, I+1), at times with equal weights and with words of 0."""
    targets, sources = draw(st.integers(0, 5)), draw(st.integers(0, 5))
    seed, flat = draw(st.integers(0, 10_000)), draw(st.booleans())
    made = np.random.default_rng(seed)
    both = []
    for rows, columns in ((targets, sources + 1), (sources, targets + 1)):
        weights = made.integers(0, 3, (rows, columns)) if flat else made.random((rows, columns))
        weights = weights.astype(np.float64)
        weights[:, -1] += weights.sum(1) == 0
        both.append(weights / weights.sum(1, keepdims=True))
    return both[0], both[1]


THRESHOLDS = st.none() | st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.9])
ONE_TO_ONE = ("product", "harmonic", "competitive")


def both_links(matrices: tuple[Matrix, Matrix], way: str, threshold: float | None = None) -> Links:
    forward, backward = matrices
    return extract(forward, backward, AlignOptions(symmetrize=way, threshold=threshold))


@given(directions(), st.sampled_from(SYMMETRIZE), st.sampled_from([*METHODS]), THRESHOLDS)
def test_links_are_of_the_words(matrices, way, method, threshold):
    options = AlignOptions(symmetrize=way, method=method, threshold=threshold)
    forward, backward = matrices
    targets, sources = len(forward), len(backward)
    for links in (extract(forward, backward, options), extract(forward, None, options)):
        for j, i in links:
            assert type(j) is type(i) is int
            assert 0 <= j < sources
            assert 0 <= i < targets
            assert forward[i, j] + backward[j, i] > 0


@given(directions(), st.sampled_from([*METHODS, *BOTH]))
def test_a_higher_threshold_only_takes_links_away(matrices, name):
    key = "method" if name in METHODS else "symmetrize"
    other = None if name in METHODS else matrices[1]
    found = [
        extract(matrices[0], other, AlignOptions(**{key: name}, threshold=threshold))
        for threshold in (0.01, 0.2, 0.4, 0.8)
    ]
    for more, fewer in pairwise(found):
        assert fewer <= more


@given(directions(), st.sampled_from([way for way in BOTH if way != "competitive"]), THRESHOLDS)
def test_neither_direction_comes_first(matrices, way, threshold):
    """(Among equal products competitive linking takes the first target word's.)"""
    turned = both_links(matrices[::-1], way, threshold)
    assert both_links(matrices, way, threshold) == transpose(turned)


@given(directions(), st.sampled_from(ONE_TO_ONE), THRESHOLDS)
def test_one_link_a_word(matrices, way, threshold):
    links = both_links(matrices, way, threshold)
    assert len({j for j, _ in links}) == len({i for _, i in links}) == len(links)


@given(directions())
def test_agreement_is_part_of_competitive_linking(matrices):
    """Words that are each other's strongest are never taken by others (equals left aside)."""
    weights = matrices[0][:, :-1] * matrices[1][:, :-1].T
    if len(np.unique(weights)) == weights.size:
        assert both_links(matrices, "product") <= both_links(matrices, "competitive")


@given(directions(), st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.9]))
def test_posterior_ways_nest(matrices, threshold):
    fewest, middle, most = (
        both_links(matrices, f"posterior-{name}", threshold)
        for name in ("intersection", "product", "union")
    )
    assert fewest <= middle <= most
    hard = AlignOptions(method="threshold", threshold=threshold, symmetrize="union")
    forward, backward = matrices
    assert most == extract(forward, backward, hard)


@given(directions())
def test_mutual_links_are_argmax_links(matrices):
    links = extract(matrices[0], None, AlignOptions(method="mutual"))
    assert links <= extract(matrices[0], None, AlignOptions(method="argmax"))
    assert len({j for j, _ in links}) == len({i for _, i in links}) == len(links)
