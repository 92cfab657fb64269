"""Drawing from the model: the right distribution, and the same draws in every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.search import Hypothesis, Sampling, SearchOptions, beam_search, sample
from nmtkit.vocabulary import BOS, EOS, PAD, UNK
from tests import reference_search as reference
from tests.test_models import TARGET_SIZE, VARIANTS, padded
from tests.test_search import SOURCES, Next, Variant, check_equal, lean, sharp
from tests.test_search_constraints import PREFIXES, check_log_probs

LIMITS: dict[str, Any] = {"max_ratio": 0.0, "max_extra": 3}


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    return found


def drawn(
    models: Sequence[AnySeq2Seq],
    sources: Sequence[Sequence[int]],
    numbers: Sequence[int] | None = None,
    n: int = 1,
    prefixes: Sequence[Sequence[int]] | None = None,
    forbid_unknown: bool = False,
    limits: dict[str, Any] = LIMITS,
    **sampling: Any,
) -> list[list[Hypothesis]]:
    options = SearchOptions(
        n_best=n, sampling=Sampling(**sampling), forbid_unknown=forbid_unknown, **limits
    )
    known = range(len(sources)) if numbers is None else numbers
    return sample(models, *padded(sources), options, known, prefixes)


def exact(
    model: AnySeq2Seq, source: Sequence[int], temperature: float, top_k: int
) -> dict[tuple[int, ...], float]:
    """The probability of every output of at most two words, by the definition."""
    following = Next([model], source, 3)
    found = {}
    for ids in reference.all_sequences(TARGET_SIZE, 3):
        probability = 1.0
        for position, word in enumerate([*ids, EOS]):
            weights = np.exp(following(ids[:position]) / temperature)
            weights[[PAD, BOS]] = 0.0
            if position == 2:
                weights[np.arange(TARGET_SIZE) != EOS] = 0.0
            weights[np.argsort(-weights)[top_k:]] = 0.0
            probability *= weights[word] / weights.sum()
        found[ids] = probability
    assert sum(found.values()) == pytest.approx(1.0)
    return found


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 0), (0.5, 0), (3.0, 0), (1.5, 2)])
def test_samples_have_the_models_distribution(
    variant: Variant, temperature: float, top_k: int
) -> None:
    """4000 draws of each of two sentences: every output as often as it should, within 4 sigma."""
    model = sharp(variant, seed=3)
    n = 1000
    found = drawn([model], SOURCES[:2] * 4, n=n, temperature=temperature, top_k=top_k, seed=5)
    for place in (0, 1):
        counts = Counter(h.ids for hypotheses in found[place::2] for h in hypotheses)
        expected = exact(model, SOURCES[place], temperature, top_k or TARGET_SIZE)
        total = counts.total()
        assert total == 4 * n
        for ids, probability in expected.items():
            sigma = (total * probability * (1 - probability)) ** 0.5
            assert abs(counts[ids] - total * probability) <= 4 * sigma + 1


def test_log_probabilities_are_the_models_own(variant: Variant) -> None:
    """Whatever temperature, cut, prefix and what is forbidden make of the choice."""
    models = [sharp(variant, seed) for seed in (1, 2)]
    sources = SOURCES * 3
    found = drawn(
        models, sources, n=4, prefixes=PREFIXES * 3, forbid_unknown=True, temperature=2.0, top_k=3
    )
    check_log_probs(models, sources, found)
    for prefix, hypotheses in zip(PREFIXES * 3, found, strict=True):
        assert [h.value for h in hypotheses] == sorted((h.value for h in hypotheses), reverse=True)
        for hypothesis in hypotheses:
            assert hypothesis.ids[: len(prefix)] == prefix
            assert UNK not in hypothesis.ids[len(prefix) :]
            assert len(hypothesis.ids) < max(LIMITS["max_extra"], len(prefix) + 3)
            assert hypothesis.value == pytest.approx(
                hypothesis.log_prob / (len(hypothesis.ids) + 1)
            )


def test_draws_are_each_sentences_own(variant: Variant) -> None:
    """The same number draws the same, alone or in company, in any order; another draws another."""
    models = [sharp(variant, seed=4)]
    limits = {"max_ratio": 2.0, "max_extra": 4}
    sources = SOURCES * 4
    whole = drawn(models, sources, n=3, limits=limits)
    order = list(reversed(range(len(sources))))
    turned = drawn(models, [sources[i] for i in order], order, n=3, limits=limits)
    for one, other in zip(whole, reversed(turned), strict=True):
        check_equal(one, other)
    for number in (0, 7, 13):
        [alone] = drawn(models, [sources[number]], [number], n=3, limits=limits)
        check_equal(whole[number], alone)
        [first] = drawn(models, [sources[number]], [number], n=1, limits=limits)
        assert first[0].ids in [h.ids for h in alone]
    same = [[h.ids for h in hypotheses] for hypotheses in whole]
    assert any(same[i] != same[i + 5 * k] for i in range(5) for k in (1, 2, 3))
    other_seed = drawn(models, sources, n=3, limits=limits, seed=2)
    assert same != [[h.ids for h in hypotheses] for hypotheses in other_seed]


def test_cold_draws_are_greedy_search(variant: Variant) -> None:
    models = [sharp(variant, seed=6)]
    greedy = beam_search(models, *padded(SOURCES), SearchOptions(beam=1, **LIMITS))
    for sampling in ({"temperature": 1e-4}, {"top_k": 1}):
        found = drawn(models, SOURCES, n=2, **sampling)
        for [best], hypotheses in zip(greedy, found, strict=True):
            check_equal(hypotheses, [best, best])


def test_a_model_that_never_ends_is_ended(variant: Variant) -> None:
    models = [lean(sharp(variant, seed=7), EOS, -80.0)]
    found = drawn(models, SOURCES, n=2, limits={"max_ratio": 2.5, "max_extra": 2})
    lengths = [[len(h.ids) + 1 for h in hypotheses] for hypotheses in found]
    assert lengths == [[places] * 2 for places in (4, 12, 2, 7, 9)]


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": 0.0}, {"temperature": float("nan")}, {"top_k": -1}, {"seed": -1}],
)
def test_impossible_sampling_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Sampling(**wrong)


def test_sampling_and_beams_are_apart() -> None:
    assert SearchOptions(n_best=50, sampling=Sampling()).n_best == 50
    for wrong in ({"diversity": 1.0}, {"n_best": 0}, {"n_best": 1001}):
        with pytest.raises(ValueError, match="must be"):
            SearchOptions(sampling=Sampling(), **wrong)
    with pytest.raises(ValueError, match="no sampling"):
        sample([], *padded([(3,)]), SearchOptions(), [0])
