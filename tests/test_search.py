"""Beam search and forced decoding, of every architecture, against the slow searches and as laws."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.search import Forced, Hypothesis, SearchOptions, beam_search, force_decode
from nmtkit.vocabulary import BOS, EOS, PAD, UNK
from tests import reference_search as reference
from tests.test_models import TARGET_SIZE, VARIANTS, build, forced, padded

Variant = tuple[str, dict[str, Any]]
SOURCES = ((6, 3), (4, 5, 1, 7, 3), (3,), (5, 5, 3), (7, 4, 4, 3))
RATIO, EXTRA = 1.0, 2  # the limits of SOURCES are 3, 6, 2, 4 and 5 places, EOS among them
LIMITS = tuple(len(source) - 1 + EXTRA for source in SOURCES)


# Search ranks in float32, in sums of a few terms of size 10.
def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-5, abs=1e-5)


WORDS = (UNK, 4, 5, 6)


class Next:
    """Log-probabilities of the next word of one sentence; an ensemble's mean probabilities.

    By teacher forcing of all targets of `limit` - 1 ordinary words at once: every prefix of fewer
    places is the beginning of some of them, the first being that which goes on with UNK.
    """

    def __init__(self, models: Sequence[AnySeq2Seq], source: Sequence[int], limit: int) -> None:
        self.words = limit - 1
        targets = torch.tensor([(BOS, *ids) for ids in product(WORDS, repeat=self.words)])
        each = []
        with torch.inference_mode():
            for model in models:
                memory = model.encode(*padded([source]))
                memory = memory.select(torch.zeros(len(targets), dtype=torch.long))
                each.append(F.softmax(model.decode(targets, memory)[0], 2).numpy())
        self.log_probs: NDArray[np.float64] = np.log(np.mean(each, axis=0))

    def __call__(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
        row = 0
        for word in prefix + (UNK,) * (self.words - len(prefix)):
            row = row * len(WORDS) + WORDS.index(word)
        return self.log_probs[row, len(prefix)]


def sharp(variant: Variant, seed: int) -> AnySeq2Seq:
    """A model sure enough of itself that hypotheses of several lengths end."""
    return build(variant, seed, sharpness=3.0)


@torch.no_grad()
def lean(model: AnySeq2Seq, word: int, bias: float) -> AnySeq2Seq:
    """The model with a liking for a word."""
    model.output.bias[word] += bias
    return model


def search(
    models: Sequence[AnySeq2Seq], sources: Sequence[Sequence[int]], **options: Any
) -> list[list[Hypothesis]]:
    chosen = {"max_ratio": RATIO, "max_extra": EXTRA} | options
    return beam_search(models, *padded(sources), SearchOptions(**chosen))


def check_equal(
    found: Sequence[Hypothesis], expected: Sequence[reference.Found | Hypothesis]
) -> None:
    assert [h.ids for h in found] == [h.ids for h in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.log_prob == near(other.log_prob)
        assert one.value == near(other.value)


@pytest.fixture(params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    return found


# Against the slow searches


@pytest.mark.parametrize("penalty", [0.0, 1.0, 1.5])
def test_wide_beam_finds_all_there_is(variant: Variant, penalty: float) -> None:
    """Four ordinary words, four places: 85 hypotheses, and a beam that holds them all."""
    models = [sharp(variant, seed=2)]
    limits = {"max_ratio": 0.0, "max_extra": 4}
    found = search(models, SOURCES[:2], beam=85, n_best=85, length_penalty=penalty, **limits)
    for source, hypotheses in zip(SOURCES, found):
        expected = reference.brute_force(Next(models, source, 4), TARGET_SIZE, 4, penalty)
        assert len(expected) == 85
        check_equal(hypotheses[:20], expected[:20])
        assert sorted(h.ids for h in hypotheses) == sorted(h.ids for h in expected)


@pytest.mark.parametrize("seed", range(4))
def test_batched_beam_is_the_plain_one(variant: Variant, seed: int) -> None:
    models = [sharp(variant, seed)]
    nexts = [Next(models, source, limit) for source, limit in zip(SOURCES, LIMITS, strict=True)]
    lengths = set()
    for beam, penalty in ((1, 0.0), (2, 1.0), (3, 0.0), (5, 1.0), (5, 2.0), (12, 0.6)):
        found = search(models, SOURCES, beam=beam, n_best=beam, length_penalty=penalty)
        for next_log_probs, limit, hypotheses in zip(nexts, LIMITS, found, strict=True):
            expected = reference.plain_beam(next_log_probs, beam, limit, penalty)
            check_equal(hypotheses, expected)
            lengths |= {limit - len(h.ids) for h in hypotheses}
    assert len(lengths) > 3  # some ended on their own, at several lengths


def test_beam_search_needs_its_width(variant: Variant) -> None:
    """The models of these tests are no easy ones: greedy search misses what a beam finds."""
    better = 0
    for seed in range(4):
        narrow, wide = (
            search([sharp(variant, seed)], SOURCES, beam=beam, length_penalty=0.0)
            for beam in (1, 5)
        )
        better += sum(w[0].value > n[0].value + 1e-3 for n, w in zip(narrow, wide, strict=True))
    assert better > 0


def test_ensemble_averages_probabilities(variant: Variant) -> None:
    models = [sharp(variant, seed) for seed in (1, 2, 3)]
    found = search(models, SOURCES, beam=4, n_best=4)
    for source, limit, hypotheses in zip(SOURCES, LIMITS, found, strict=True):
        expected = reference.plain_beam(Next(models, source, limit), 4, limit, 1.0)
        check_equal(hypotheses, expected)
    twice = search(models[:1] * 2, SOURCES, beam=4, n_best=4)
    for one, other in zip(search(models[:1], SOURCES, beam=4, n_best=4), twice, strict=True):
        check_equal(one, other)


# Laws


@pytest.mark.parametrize("beam", [1, 4])
def test_batch_search_is_single_search(variant: Variant, beam: int) -> None:
    models = [sharp(variant, seed=5)]
    sources = SOURCES * 2
    found = search(models, sources, beam=beam, n_best=beam)
    for source, hypotheses in zip(sources, found, strict=True):
        [alone] = search(models, [source], beam=beam, n_best=beam)
        check_equal(hypotheses, alone)


@pytest.mark.parametrize("ensemble", [1, 2])
@pytest.mark.parametrize("beam", [1, 5])
def test_reported_log_probability_is_the_forced_one(
    variant: Variant, beam: int, ensemble: int
) -> None:
    models = [sharp(variant, seed) for seed in range(6, 6 + ensemble)]
    found = search(models, SOURCES, beam=beam, n_best=beam, length_penalty=0.5)
    rows = [(source, h) for source, hypotheses in zip(SOURCES, found) for h in hypotheses]
    target_out, _ = padded([(*h.ids, EOS) for _, h in rows])
    log_probs = force_decode(models, *padded([source for source, _ in rows]), target_out).log_probs
    for (_, hypothesis), forced_log_prob in zip(rows, log_probs.sum(1).tolist(), strict=True):
        assert hypothesis.log_prob == near(forced_log_prob)
        expected = hypothesis.log_prob / (len(hypothesis.ids) + 1) ** 0.5
        assert hypothesis.value == near(expected)


def test_hypotheses_are_distinct_and_best_first(variant: Variant) -> None:
    for hypotheses in search([sharp(variant, seed=7)], SOURCES, beam=6, n_best=6):
        assert len({h.ids for h in hypotheses}) == len(hypotheses)
        values = [h.value for h in hypotheses]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("n_best", [1, 3])
def test_stopping_early_changes_nothing(
    variant: Variant, n_best: int, penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And, with models that like short outputs, it does stop: fewer rows go through the model."""
    rows = {True: 0, False: 0}
    for seed in range(4):
        model = lean(sharp(variant, seed), EOS, 5.0)
        step = model.step
        found = {}
        for early_stop in (True, False):

            def counted(
                tokens: Tensor, state: Any, memory: Any, how: bool = early_stop, step: Any = step
            ) -> Any:
                rows[how] += len(tokens)
                return step(tokens, state, memory)

            monkeypatch.setattr(model, "step", counted)
            options = {"beam": 8, "n_best": n_best, "length_penalty": penalty, "max_extra": 4}
            found[early_stop] = search([model], SOURCES, early_stop=early_stop, **options)
        for early, full in zip(found[True], found[False], strict=True):
            check_equal(early, full)
    if n_best == 1:  # else it can hardly ever stop
        assert rows[True] < rows[False]


def test_specials_are_never_generated(variant: Variant) -> None:
    """Though the model wants nothing else; their probability stays theirs."""
    models = [lean(lean(sharp(variant, seed=9), PAD, 60.0), BOS, 60.0)]
    for source, hypotheses in zip(SOURCES, search(models, SOURCES, beam=9, n_best=9)):
        assert hypotheses
        for hypothesis in hypotheses:
            assert not {PAD, BOS, EOS} & set(hypothesis.ids)
            log_probs = forced(models[0], source, hypothesis.ids)[0]
            expected = log_probs.gather(1, torch.tensor([[*hypothesis.ids, EOS]]).T).sum().item()
            assert hypothesis.log_prob == near(expected)


@pytest.mark.parametrize("alone", [False, True])
def test_length_limit_is_each_sentences_own(variant: Variant, alone: bool) -> None:
    """A model that never wants to end: max_ratio · n + max_extra places, the last of them EOS."""
    models = [lean(sharp(variant, seed=10), EOS, -60.0)]
    batches = [[source] for source in SOURCES] if alone else [list(SOURCES)]
    options = {"beam": 2, "n_best": 2, "max_ratio": 2.5, "max_extra": 2}
    found = [hypotheses for batch in batches for hypotheses in search(models, batch, **options)]
    # n = 1, 4, 0, 2, 3 words without EOS; 2.5 n + 2 = 4.5, 12, 2, 7, 9.5
    expected = [4, 12, 2, 7, 9]
    assert [[len(h.ids) + 1 for h in hypotheses] for hypotheses in found] == [
        [places] * 2 for places in expected
    ]


def test_model_that_ends_at_once(variant: Variant) -> None:
    models = [lean(sharp(variant, seed=10), EOS, 80.0)]
    for hypotheses in search(models, SOURCES, beam=3, n_best=3):
        assert hypotheses[0].ids == ()
        assert hypotheses[0].log_prob == pytest.approx(0.0, abs=1e-6)


def test_unknown_word_may_be_generated(variant: Variant) -> None:
    models = [lean(sharp(variant, seed=10), UNK, 80.0)]
    for hypotheses, limit in zip(search(models, SOURCES, beam=1), LIMITS):
        assert hypotheses[0].ids == (UNK,) * (limit - 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0},
        {"beam": 3, "n_best": 4},
        {"n_best": 0},
        {"length_penalty": -0.5},
        {"length_penalty": float("nan")},
        {"max_ratio": -1.0},
        {"max_extra": 0},
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        SearchOptions(**wrong)


# Forced decoding

TARGETS = ((1,), (4, 6, 5), (), (6, 6, 4, 4, 1), (5, 4))


def force(
    models: Sequence[AnySeq2Seq],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
) -> Forced:
    target_out, _ = padded([(*target, EOS) for target in targets])
    return force_decode(models, *padded(sources), target_out)


def test_forced_decoding_is_each_sentence_by_itself(variant: Variant) -> None:
    """Log-probabilities of the words and EOS; attention of one row more, that has read EOS."""
    models = [sharp(variant, seed) for seed in (1, 2)]
    both = force(models, SOURCES, TARGETS)
    first = force(models[:1], SOURCES, TARGETS)
    words = max(map(len, TARGETS)) + 1
    assert both.log_probs.shape == (len(SOURCES), words)
    for b, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        n = len(target)
        each = [forced(model, source, (*target, EOS)) for model in models]
        rows = [log_probs[: n + 1] for log_probs, _ in each]
        for found, expected in (
            (first.log_probs, rows[0]),
            (both.log_probs, torch.stack(rows).exp().mean(0).log()),
        ):
            of_words = expected.gather(1, torch.tensor([[*target, EOS]]).T).squeeze(1)
            torch.testing.assert_close(found[b, : n + 1].double(), of_words, rtol=0, atol=1e-5)
            assert not found[b, n + 1 :].any()
        if all(model.has_attention for model in models):
            mean = torch.stack([attention for _, attention in each]).mean(0)
            for weights, alone in ((first.attention, each[0][1]), (both.attention, mean)):
                assert weights.shape[:2] == (len(SOURCES), words + 1)
                found = weights[b, : n + 2, : len(source)]
                torch.testing.assert_close(found, alone, rtol=0, atol=1e-12)
                assert not weights[b, :, len(source) :].any()
