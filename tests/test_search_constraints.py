"""Diverse beams, forced prefixes and forbidden unknown words, against the slow searches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.search import Hypothesis, SearchOptions, beam_search, force_decode
from nmtkit.vocabulary import BOS, EOS, PAD, UNK
from tests import reference_search as reference
from tests.test_models import TARGET_SIZE, VARIANTS, padded
from tests.test_search import LIMITS, SOURCES, Next, Variant, check_equal, lean, near, search, sharp


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    return found


def check_log_probs(
    models: Sequence[AnySeq2Seq],
    sources: Sequence[Sequence[int]],
    found: Sequence[Sequence[Hypothesis]],
) -> None:
    """What is reported is what the models themselves think of the hypotheses."""
    rows = [(source, h) for source, hypotheses in zip(sources, found) for h in hypotheses]
    target_out, _ = padded([(*h.ids, EOS) for _, h in rows])
    log_probs = force_decode(models, *padded([source for source, _ in rows]), target_out).log_probs
    for (_, hypothesis), forced in zip(rows, log_probs.sum(1).tolist(), strict=True):
        assert hypothesis.log_prob == near(forced)


# Diversity


@pytest.mark.parametrize("diversity", [0.3, 2.0, 50.0])
def test_diverse_beam_is_the_plain_one(variant: Variant, diversity: float) -> None:
    models = [sharp(variant, seed=11)]
    for beam, penalty in ((1, 0.0), (2, 1.0), (5, 0.6), (12, 1.0)):
        found = search(
            models, SOURCES, beam=beam, n_best=beam, length_penalty=penalty, diversity=diversity
        )
        for source, limit, hypotheses in zip(SOURCES, LIMITS, found, strict=True):
            following = Next(models, source, limit)
            expected = reference.plain_beam(following, beam, limit, penalty, diversity)
            check_equal(hypotheses, expected)
        check_log_probs(models, SOURCES, found)


def test_no_diversity_is_plain_search(variant: Variant) -> None:
    """And next to none is, too, though it goes another way: no sibling that counts is lost."""
    models = [sharp(variant, seed=seed) for seed in (12, 13)]
    plain = search(models, SOURCES, beam=6, n_best=6)
    assert search(models, SOURCES, beam=6, n_best=6, diversity=0.0) == plain
    assert search(models, SOURCES, beam=6, n_best=6, diversity=1e-12) == plain


def test_diversity_makes_a_difference(variant: Variant) -> None:
    """With siblings kept apart, the hypotheses share less of their beginnings."""
    words = {}
    for diversity in (0.0, 50.0):
        found = [
            hypotheses
            for seed in range(6)
            for hypotheses in search(
                [sharp(variant, seed)], SOURCES, beam=4, n_best=4, diversity=diversity
            )
        ]
        words[diversity] = sum(len({h.ids[:1] for h in hypotheses}) for hypotheses in found)
    assert words[0.0] != words[50.0]


# Prefixes

PREFIXES = ((4,), (UNK, 5), (), (6, 6, 4), (5, 5))


class Beginning(Next):
    """The next word's log-probabilities with a prefix forced: all other words are impossible."""

    def __init__(
        self,
        models: Sequence[AnySeq2Seq],
        source: Sequence[int],
        prefix: tuple[int, ...],
        limit: int,
    ) -> None:
        super().__init__(models, source, limit)
        self.prefix = prefix

    def __call__(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
        log_probs = super().__call__(prefix)
        if len(prefix) >= len(self.prefix):
            return log_probs
        only = np.full_like(log_probs, -np.inf)
        only[self.prefix[len(prefix)]] = log_probs[self.prefix[len(prefix)]]
        return only


def with_prefixes(
    models: Sequence[AnySeq2Seq], options: SearchOptions
) -> list[tuple[tuple[int, ...], list[Hypothesis]]]:
    found = beam_search(models, *padded(SOURCES), options, PREFIXES)
    return list(zip(PREFIXES, found, strict=True))


@pytest.mark.parametrize("ensemble", [1, 2])
def test_wide_beam_finds_all_that_begins_so(variant: Variant, ensemble: int) -> None:
    """Two ordinary words and EOS may follow: 1 + 4 + 16 hypotheses, wherever the prefix ends."""
    models = [sharp(variant, seed) for seed in range(14, 14 + ensemble)]
    options = SearchOptions(beam=21, n_best=21, max_ratio=0.0, max_extra=3)
    found = with_prefixes(models, options)
    for source, (prefix, hypotheses) in zip(SOURCES, found, strict=True):
        limit = len(prefix) + 3
        everything = reference.brute_force(Next(models, source, limit), TARGET_SIZE, limit, 1.0)
        expected = [one for one in everything if one.ids[: len(prefix)] == prefix]
        assert len(expected) == 21
        assert sorted(h.ids for h in hypotheses) == sorted(one.ids for one in expected)
        check_equal(hypotheses[:8], expected[:8])
    check_log_probs(models, SOURCES, [hypotheses for _, hypotheses in found])


@pytest.mark.parametrize("diversity", [0.0, 1.0])
def test_narrow_beam_with_prefixes(variant: Variant, diversity: float) -> None:
    models = [sharp(variant, seed=15)]
    options = SearchOptions(
        beam=3, n_best=3, max_ratio=1.0, max_extra=2, length_penalty=0.5, diversity=diversity
    )
    for (source, limit), (prefix, hypotheses) in zip(
        zip(SOURCES, LIMITS, strict=True), with_prefixes(models, options), strict=True
    ):
        room = max(limit, len(prefix) + 2) if prefix else limit
        following = Beginning(models, source, prefix, room)
        check_equal(hypotheses, reference.plain_beam(following, 3, room, 0.5, diversity))


def test_prefixes_of_the_others_change_nothing(variant: Variant) -> None:
    models = [sharp(variant, seed=16)]
    options = SearchOptions(beam=4, n_best=4, max_ratio=1.0, max_extra=2)
    for source, (prefix, hypotheses) in zip(SOURCES, with_prefixes(models, options), strict=True):
        [alone] = beam_search(models, *padded([source]), options, [prefix])
        check_equal(hypotheses, alone)
    plain = beam_search(models, *padded(SOURCES), options)
    assert beam_search(models, *padded(SOURCES), options, [()] * len(SOURCES)) == plain


# Unknown words


def test_unknown_words_can_be_forbidden(variant: Variant) -> None:
    """A model that wants nothing else writes the best of the rest, at its own low probability."""
    models = [lean(sharp(variant, seed=17), UNK, 30.0)]
    options = {"beam": 21, "n_best": 21, "max_ratio": 0.0, "max_extra": 3}
    plain = search(models, SOURCES, **options)
    assert any(UNK in h.ids for hypotheses in plain for h in hypotheses[:1])
    found = search(models, SOURCES, forbid_unknown=True, **options)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        everything = reference.brute_force(Next(models, source, 3), TARGET_SIZE, 3, 1.0)
        check_equal(hypotheses, [one for one in everything if UNK not in one.ids])
    check_log_probs(models, SOURCES, found)


def test_an_unknown_word_that_is_given_stays(variant: Variant) -> None:
    models = [lean(lean(sharp(variant, seed=18), UNK, 30.0), PAD, 60.0)]
    options = SearchOptions(beam=3, n_best=3, forbid_unknown=True, max_extra=3)
    for prefix, hypotheses in with_prefixes(models, options):
        assert hypotheses
        for hypothesis in hypotheses:
            assert hypothesis.ids[: len(prefix)] == prefix
            assert not {UNK, PAD, BOS} & set(hypothesis.ids[len(prefix) :])
            assert torch.isfinite(torch.tensor(hypothesis.log_prob))


@pytest.mark.parametrize("wrong", [-0.5, float("nan"), float("inf")])
def test_impossible_diversity_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        SearchOptions(diversity=wrong)
