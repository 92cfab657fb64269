"""What hypotheses are ranked by: length normalisation and coverage, against the slow search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from nmtkit.errors import UserError
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.search import Hypothesis, Sampling, SearchOptions, sample
from nmtkit.search.beam import GROUP, largest
from nmtkit.search.coverage import LEAST, Coverage
from nmtkit.vocabulary import EOS
from tests import reference_search as reference
from tests.test_models import TINY, VARIANTS, forced, padded
from tests.test_search import (
    LIMITS,
    SOURCES,
    Next,
    Variant,
    check_equal,
    lean,
    near,
    search,
    sharp,
)

PENALTIES = ((0.2, 0.2), (1.0, 0.0), (0.6, 5.0))
GNMT: Variant = ("gnmt", TINY["gnmt"][0])


def worth(
    models: Sequence[AnySeq2Seq],
    source: Sequence[int],
    found: reference.Found,
    alpha: float,
    beta: float,
) -> reference.Found:
    """Wu et al. (2016), eq. 14, of one hypothesis by teacher forcing."""
    each = [forced(model, source, found.ids)[1].detach().numpy() for model in models]
    had = np.mean(each, axis=0).sum(0)[:-1]  # the end of the source is no word
    penalty = sum(math.log(max(min(attention, 1.0), LEAST)) for attention in had)
    length = len(found.ids) + 1
    value = found.log_prob / ((5 + length) ** alpha / 6**alpha) + beta * penalty
    return reference.Found(found.ids, found.log_prob, value)


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    if not sharp(found, 0).has_attention:
        pytest.skip("no attention")
    return found


@pytest.mark.parametrize("ensemble", [1, 2])
def test_ranking_is_that_of_the_equation(variant: Variant, ensemble: int) -> None:
    models = [sharp(variant, seed) for seed in range(ensemble)]
    sources, limits = SOURCES[:3], LIMITS[:3]
    nexts = [Next(models, source, limit) for source, limit in zip(sources, limits, strict=True)]
    for alpha, beta in PENALTIES:
        found = search(
            models,
            sources,
            beam=5,
            n_best=5,
            length_penalty=alpha,
            length_normalisation="gnmt",
            coverage_penalty=beta,
        )
        for source, following, limit, hypotheses in zip(sources, nexts, limits, found, strict=True):
            plain = reference.plain_beam(following, 5, limit, 0.0)
            ranked = [worth(models, source, one, alpha, beta) for one in plain]
            check_equal(hypotheses, sorted(ranked, key=lambda one: -one.value))


@pytest.mark.parametrize(("alpha", "beta"), PENALTIES)
@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_changes_nothing(
    variant: Variant, n_best: int, alpha: float, beta: float
) -> None:
    options: dict[str, Any] = {"beam": 8, "n_best": n_best, "max_extra": 4}
    options |= {"length_penalty": alpha, "coverage_penalty": beta}
    models = [lean(sharp(variant, 1), EOS, 5.0)]
    for how in ("power", "gnmt"):
        early, full = (
            search(models, SOURCES, early_stop=stop, length_normalisation=how, **options)
            for stop in (True, False)
        )
        for one, other in zip(early, full, strict=True):
            check_equal(one, other)


def test_batch_search_is_single_search(variant: Variant) -> None:
    """A sentence's coverage is its own, whoever leaves the batch before it."""
    models = [lean(sharp(variant, 5), EOS, 3.0)]
    options: dict[str, Any] = {"beam": 4, "n_best": 4, "coverage_penalty": 2.0}
    for source, hypotheses in zip(SOURCES, search(models, SOURCES, **options), strict=True):
        [alone] = search(models, [source], **options)
        check_equal(hypotheses, alone)


def test_penalties_change_what_is_best() -> None:
    best: dict[tuple[float, float], list[list[Hypothesis]]] = {}
    for alpha, beta in ((0.0, 0.0), (2.0, 0.0), (0.0, 5.0)):
        options: dict[str, Any] = {"length_penalty": alpha, "coverage_penalty": beta}
        best[alpha, beta] = [
            hypotheses
            for seed in range(4)
            for hypotheses in search(
                [lean(sharp(GNMT, seed), EOS, 2.0)],
                SOURCES,
                beam=8,
                length_normalisation="gnmt",
                **options,
            )
        ]
    plain, longer, covering = best.values()
    lengths = [sum(len(h[0].ids) for h in found) for found in (plain, longer)]
    assert lengths[0] < lengths[1]
    assert any(a[0].ids != b[0].ids for a, b in zip(plain, covering, strict=True))


def test_coverage_by_hand() -> None:
    """Two places, the second with another parent; the last real column is the end, then padding."""
    coverage = Coverage(torch.tensor([[True, True, True, False]]), 2)
    coverage.advance(
        torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 1.0, 0.0]]), torch.tensor([[0, 0]])
    )
    assert coverage.log_sum()[0].tolist() == pytest.approx([math.log(0.5 * 0.25)] * 2)
    coverage.advance(
        torch.tensor([[0.75, 0.25, 0.0, 0.0], [0.25, 0.0, 0.75, 0.0]]), torch.tensor([[1, 0]])
    )
    expected = [math.log(0.75 * 0.25), math.log(1.0 * 0.5)]
    assert coverage.log_sum()[0].tolist() == pytest.approx(expected)


def test_a_word_without_attention_leaves_values_finite() -> None:
    coverage = Coverage(torch.tensor([[True, True]]), 1)
    coverage.advance(torch.tensor([[0.0, 1.0]]), torch.tensor([[0]]))
    assert coverage.log_sum().item() == near(math.log(LEAST))


def test_divisors_by_hand() -> None:
    assert SearchOptions(length_penalty=2.0).divisor(3.0) == 9.0
    gnmt = SearchOptions(length_penalty=2.0, length_normalisation="gnmt")
    assert gnmt.divisor(7.0) == 4.0
    assert gnmt.divisor(torch.tensor([1.0, 13.0])).tolist() == [1.0, 9.0]


def test_samples_are_ranked_by_it_too() -> None:
    models = [lean(sharp(GNMT, 1), EOS, 8.0)]
    options = SearchOptions(
        length_penalty=2.0, length_normalisation="gnmt", n_best=6, sampling=Sampling(seed=3)
    )
    [found] = sample(models, *padded([SOURCES[1]]), options, [0])
    assert len({len(one.ids) for one in found}) > 1
    for one in found:
        assert one.value == near(one.log_prob / ((6 + len(one.ids)) / 6) ** 2)


def test_impossible_penalties_are_refused() -> None:
    for wrong in (-0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="coverage_penalty must be 0 or more"):
            SearchOptions(coverage_penalty=wrong)
    with pytest.raises(ValueError, match="coverage_penalty must be 0 where hypotheses are drawn"):
        SearchOptions(coverage_penalty=1.0, sampling=Sampling())
    with pytest.raises(UserError, match="unknown length normalisation 'gmnt': did you mean 'gnmt'"):
        SearchOptions(length_normalisation="gmnt")


@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("size", [20, GROUP * 4 * 20, GROUP * 100 + 37])
def test_the_largest_are_those_of_topk(k: int, size: int) -> None:
    torch.manual_seed(size + k)
    values = torch.randn(7, size)
    values[1, size // 3 :] = -math.inf
    values[2, 5:] = -math.inf
    values[3] = values[3].round()  # many are equal
    values[4, -3:] = 10.0  # behind the last whole group
    best, places = largest(values, k)
    assert torch.equal(best, values.topk(k, 1).values)
    assert torch.equal(values.gather(1, places), best)
    assert all(len(set(row)) == k for row in places.tolist())
