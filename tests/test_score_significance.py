"""Intervals and p-values against naive loops over the sentence pairs themselves, and by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.links import Gold, Links
from nmtkit.score import score_links, score_sentence
from nmtkit.score.significance import (
    TESTS,
    Counts,
    Resampling,
    aer_interval,
    bootstrap,
    compare,
    corpus_aer,
    error_counts,
    paired_bootstrap,
    randomisation,
)

FEW = Resampling(200, seed=3)


def counts_of(links: list[Links], gold: list[Gold]) -> Counts:
    return error_counts([score_sentence(*pair) for pair in zip(links, gold)])


def corpus(sentences: int, seed: int = 0) -> tuple[list[Gold], list[Links], list[Links]]:
    """Gold and two systems of different quality, the second one worse."""
    generator = np.random.default_rng(seed)

    def some(rate: float) -> Links:
        grid = generator.random((6, 6)) < rate
        return frozenset((int(i), int(j)) for i, j in zip(*np.nonzero(grid)))

    def system(gold: Gold, right: float, wrong: float) -> Links:
        kept = frozenset(link for link in sorted(gold.possible) if generator.random() < right)
        return kept | some(wrong)

    sure = [some(0.12) for _ in range(sentences)]
    gold = [Gold(links, links | some(0.1)) for links in sure]
    return gold, [system(g, 0.8, 0.03) for g in gold], [system(g, 0.6, 0.06) for g in gold]


# --------------------------------------------------------------- against loops over links


def test_bootstrap_is_a_loop_over_resampled_corpora():
    gold, links, _ = corpus(23)
    generator = np.random.default_rng(3)
    expected = []
    for _ in range(200):
        drawn = [int(i) for i in generator.integers(23, size=23)]
        expected.append(score_links([links[i] for i in drawn], [gold[i] for i in drawn]).aer)
    assert bootstrap(counts_of(links, gold), FEW) == pytest.approx(expected)
    found = aer_interval(counts_of(links, gold), FEW)
    in_order = sorted(expected)  # 200 / 40 = 5 values are dropped at either end
    assert (found.low, found.high) == pytest.approx((in_order[5], in_order[-6]))
    assert (found.resamples, found.seed) == (200, 3)
    assert found.low < score_links(links, gold).aer < found.high


def test_paired_bootstrap_is_a_loop_over_resampled_corpora():
    gold, one, other = corpus(9)
    other[:6] = one[:6]  # or p would be the least there is
    observed = score_links(other, gold).aer - score_links(one, gold).aer
    generator = np.random.default_rng(3)
    gaps = []
    for _ in range(200):
        drawn = [int(i) for i in generator.integers(9, size=9)]
        some = [gold[i] for i in drawn]
        first = score_links([one[i] for i in drawn], some).aer
        gaps.append(score_links([other[i] for i in drawn], some).aer - first)
    as_large = sum(abs(gap - observed) >= abs(observed) - 1e-9 for gap in gaps)
    found = compare(counts_of(one, gold), counts_of(other, gold), Resampling(200, "bootstrap", 3))
    assert 3 < as_large < 200
    assert found.p == (as_large + 1) / 201
    assert found.difference == pytest.approx(observed)
    in_order = sorted(gaps)
    limits = in_order[5], in_order[-6]
    assert (found.interval.low, found.interval.high) == pytest.approx(limits)
    assert found.test == "bootstrap"


def test_randomisation_is_a_loop_over_exchanged_links():
    gold, one, other = corpus(9)
    other[:6] = one[:6]
    observed = score_links(other, gold).aer - score_links(one, gold).aer
    generator = np.random.default_rng(3)
    as_large = 0
    for _ in range(200):
        exchanged = generator.random(9) < 0.5
        first = [b if flip else a for a, b, flip in zip(one, other, exchanged)]
        second = [a if flip else b for a, b, flip in zip(one, other, exchanged)]
        gap = score_links(second, gold).aer - score_links(first, gold).aer
        as_large += abs(gap) >= abs(observed) - 1e-9
    assert 3 < as_large < 200
    p = randomisation(counts_of(one, gold), counts_of(other, gold), FEW)
    assert p == (as_large + 1) / 201


def test_randomisation_nears_the_exact_probability():
    """All 2^7 exchanges are counted out."""
    gold, one, other = corpus(7, seed=4)
    first, second = counts_of(one, gold), counts_of(other, gold)
    gaps = []
    for flips in product((False, True), repeat=7):
        chosen = np.array(flips)[:, None]
        sums = np.where(chosen, second, first).sum(0), np.where(chosen, first, second).sum(0)
        gaps.append(sums[1][0] / sums[1][1] - sums[0][0] / sums[0][1])
    exact = np.mean([abs(gap) >= abs(gaps[0]) - 1e-12 for gap in gaps])
    assert 0.02 < exact < 0.9
    assert randomisation(first, second, Resampling(4000)) == pytest.approx(exact, abs=0.03)


# ------------------------------------------------------------------------------------- by hand


def test_corpus_aer_by_hand():
    # (1 + 3) errors of (4 + 4) links and sure links; nothing of nothing
    sums = np.array([[4, 8], [0, 0], [2, 2]])
    assert corpus_aer(sums).tolist() == [0.5, 0, 1]


def test_one_link_in_every_sentence_by_hand():
    """The baseline is right throughout, the other system wrong throughout: 0 against 1."""
    right, wrong = np.array([[0, 2]] * 12), np.array([[2, 2]] * 12)
    found = compare(right, wrong, Resampling(1000))
    assert (found.difference, found.interval.low, found.interval.high) == (1, 1, 1)
    # |difference| is 1 again only if all or none of 12 are exchanged, 2 in 4096
    assert 1 / 1001 <= found.p <= 4 / 1001
    # Every resample has the difference 1: none is as far from it as 0 is.
    assert paired_bootstrap(right, wrong, Resampling(1000)) == 1 / 1001


@pytest.mark.parametrize("test", TESTS)
def test_a_clearly_better_system_and_one_that_is_the_same(test):
    gold, good, bad = corpus(100)
    drawn = Resampling(500, test)
    better = compare(counts_of(bad, gold), counts_of(good, gold), drawn)
    assert better.difference < 0
    assert better.interval.high < 0
    assert better.p == 1 / 501
    same = compare(counts_of(good, gold), counts_of(good, gold), drawn)
    assert (same.difference, same.interval.low, same.interval.high, same.p) == (0, 0, 0, 1)


@pytest.mark.parametrize("test", TESTS)
def test_equally_good_systems_seldom_differ(test):
    """Under the null hypothesis p is below 0.1 in about a tenth of the cases."""
    below = 0
    for seed in range(60):
        gold, one, other = corpus(40, seed)
        counts = counts_of(one, gold), counts_of(other, gold)
        exchanged = np.random.default_rng(seed).random((40, 1)) < 0.5
        mixed = np.where(exchanged, *counts), np.where(exchanged, *reversed(counts))
        below += TESTS[test](*mixed, Resampling(100)) < 0.1
    assert 1 <= below <= 14


def test_numbers_are_the_seeds():
    gold, one, other = corpus(30)
    counts = counts_of(one, gold), counts_of(other, gold)
    for test in TESTS:
        found = compare(*counts, Resampling(100, test, 5))
        assert found == compare(*counts, Resampling(100, test, 5))
        assert found != compare(*counts, Resampling(100, test, 6))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resamples": 99}, "99 resamples are too few: use 100 or more"),
        ({"test": "bootstrp"}, "unknown test 'bootstrp': did you mean 'bootstrap'"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
    ],
)
def test_resamplings_that_are_refused(settings, message):
    with pytest.raises(UserError, match=message):
        Resampling(**settings)


# ---------------------------------------------------------------------------------------- laws

rows = st.integers(0, 9).flatmap(lambda errors: st.tuples(st.just(errors), st.integers(errors, 12)))
pairs_of_counts = st.lists(st.tuples(rows, rows), min_size=1, max_size=6).map(
    lambda rows: (np.array([row[0] for row in rows]), np.array([row[1] for row in rows]))
)


@settings(max_examples=40)
@given(pairs_of_counts, st.sampled_from(sorted(TESTS)), st.integers(0, 5))
def test_exchanging_two_systems_turns_the_sign_and_nothing_else(counts, test, seed):
    one, other = counts
    drawn = Resampling(100, test, seed)
    there, back = compare(one, other, drawn), compare(other, one, drawn)
    assert there.difference == pytest.approx(-back.difference)
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert there.p == back.p
    assert 1 / 101 <= there.p <= 1
    assert compare(one, one, drawn).p == 1
    found = aer_interval(one, drawn)
    assert 0 <= found.low <= found.high <= 1


@settings(max_examples=40)
@given(rows, st.integers(1, 6))
def test_sentences_that_are_all_alike_leave_no_doubt(row, times):
    found = aer_interval(np.array([row] * times), Resampling(100))
    assert found.low == found.high == pytest.approx(row[0] / max(row[1], 1))
