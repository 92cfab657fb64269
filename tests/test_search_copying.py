"""Search and forced decoding of models that copy, alone and beside models that do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.search import (
    Hypothesis,
    Sampling,
    SearchOptions,
    beam_search,
    force_decode,
    sample,
)
from nmtkit.vocabulary import BOS, EOS, PAD, UNK
from tests import reference_search as reference
from tests.test_copying import COPYING, V, copied_of, defined, fed
from tests.test_models import PAIRS, TINY, build, called, padded

ROWS = range(len(PAIRS))
SOURCES = [source for source, _ in PAIRS]
EXTRA = 3
LIMITS = [len(source) - 1 + EXTRA for source in SOURCES]
#: Beside each model that copies, one that does not, of another architecture.
OTHER = ("rnnencdec", TINY["rnnencdec"][0])
ENSEMBLES = [
    pytest.param(variants, id=" + ".join(called(*variant) for variant in variants))
    for name in {name: None for name, _ in COPYING}
    for first in [next(variant for variant in COPYING if variant[0] == name)]
    for variants in ([first], [first, OTHER], [first, (name, TINY[name][0]), COPYING[-1]])
]


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-5, abs=1e-5)


@pytest.fixture(params=ENSEMBLES)
def models(request: pytest.FixtureRequest) -> list[AnySeq2Seq]:
    """With a liking for copying: what is tested here must happen."""
    found = [build(one, seed, sharpness=2.0) for seed, one in enumerate(request.param, 3)]
    with torch.no_grad():
        for model in found:
            if model.copying is not None:
                model.copying.gate.bias.add_(2.0)
    return found


class Next:
    """Log-probabilities (V+S,) of the next word of a sentence: of the models' mean probability."""

    def __init__(self, models: Sequence[AnySeq2Seq], b: int) -> None:
        self.models, self.b = models, b

    def __call__(self, prefix: tuple[int, ...]) -> NDArray[np.float64]:
        every = [self.probabilities(model, prefix) for model in self.models]
        with np.errstate(divide="ignore"):
            found: NDArray[np.float64] = np.log(np.mean(every, axis=0))
        return found

    def probabilities(self, model: AnySeq2Seq, prefix: tuple[int, ...]) -> NDArray[np.float64]:
        if model.copying is not None:
            return defined(model, self.b, prefix)[-1]
        memory = model.encode(*padded([SOURCES[self.b]]))
        with torch.no_grad():
            logits, _ = model.decode(torch.tensor([[BOS, *fed(prefix)]]), memory)
        row = np.zeros(V + len(SOURCES[self.b]))
        row[:V] = torch.softmax(logits[0, -1], 0).numpy()
        return row


def search(
    models: Sequence[AnySeq2Seq],
    rows: Sequence[int] = ROWS,
    prefixes: Sequence[Sequence[int]] | None = None,
    **options: Any,
) -> list[list[Hypothesis]]:
    chosen = SearchOptions(**{"max_ratio": 1.0, "max_extra": EXTRA} | options)
    source, mask = padded([SOURCES[b] for b in rows])
    return beam_search(models, source, mask, chosen, prefixes, copied_of(rows))


def forced(models: Sequence[AnySeq2Seq], pairs: Sequence[tuple[int, Sequence[int]]]) -> Tensor:
    """log P (N,) of targets of sentences, read in one batch."""
    target_out, _ = padded([(*ids, EOS) for _, ids in pairs])
    rows = [b for b, _ in pairs]
    source, mask = padded([SOURCES[b] for b in rows])
    return force_decode(models, source, mask, target_out, copied_of(rows)).log_probs.sum(1)


def test_beam_is_the_plain_one(models: list[AnySeq2Seq]) -> None:
    written = set()
    for beam, penalty in ((1, 0.0), (3, 1.0)):
        found = search(models, beam=beam, n_best=beam, length_penalty=penalty)
        for b, hypotheses in enumerate(found):
            expected = reference.plain_beam(Next(models, b), beam, LIMITS[b], penalty)
            assert [h.ids for h in hypotheses] == [h.ids for h in expected]
            for one, other in zip(hypotheses, expected, strict=True):
                assert one.log_prob == near(other.log_prob)
                written |= set(one.ids)
    assert any(i >= V for i in written)  # words that only the source has were copied …
    assert any(i < V for i in written)  # … and words of the vocabulary were written


def test_reported_log_probability_is_the_forced_one(models: list[AnySeq2Seq]) -> None:
    found = search(models, beam=4, n_best=4)
    pairs = [(b, h) for b in ROWS for h in found[b]]
    both = forced(models, [(b, h.ids) for b, h in pairs]).tolist()
    for (b, hypothesis), log_prob in zip(pairs, both, strict=True):
        assert hypothesis.log_prob == near(log_prob)
        [alone] = forced(models, [(b, hypothesis.ids)]).tolist()
        assert hypothesis.log_prob == near(alone)
        table = [Next(models, b)(hypothesis.ids[:i]) for i in range(len(hypothesis.ids) + 1)]
        sums = sum(row[y] for row, y in zip(table, (*hypothesis.ids, EOS), strict=True))
        assert hypothesis.log_prob == near(float(sums))


def test_batch_search_is_single_search(models: list[AnySeq2Seq]) -> None:
    """Ids beyond V are places of the sentence, whatever stands beside it in the batch."""
    rows = [*ROWS, *reversed(ROWS)]
    for b, hypotheses in zip(rows, search(models, rows, beam=3, n_best=3), strict=True):
        [alone] = search(models, [b], beam=3, n_best=3)
        assert [h.ids for h in hypotheses] == [h.ids for h in alone]
        assert [h.log_prob for h in hypotheses] == [near(h.log_prob) for h in alone]


def test_samples_are_of_the_same_distribution(models: list[AnySeq2Seq]) -> None:
    options = SearchOptions(
        n_best=6, max_ratio=1.0, max_extra=EXTRA, sampling=Sampling(top_k=7, seed=2)
    )
    batch = sample(models, *padded(SOURCES), options, ROWS, copied=copied_of(ROWS))
    pairs = [(b, h) for b in ROWS for h in batch[b]]
    expected = forced(models, [(b, h.ids) for b, h in pairs]).tolist()
    assert [h.log_prob for _, h in pairs] == [near(value) for value in expected]
    assert any(i >= V for _, h in pairs for i in h.ids)
    for b in ROWS:
        one = sample(models, *padded([SOURCES[b]]), options, [b], copied=copied_of([b]))
        assert [h.ids for h in one[0]] == [h.ids for h in batch[b]]


def test_nothing_but_words_is_copied(models: list[AnySeq2Seq]) -> None:
    """Though the gate stands open: no end, no padding; forbidding UNK forbids no copies."""
    with torch.no_grad():
        for model in models:
            model.output.bias[UNK].add_(3.0)
            if model.copying is not None:
                model.copying.gate.bias.add_(4.0)
    for forbid_unknown in (False, True):
        for b, hypotheses in enumerate(search(models, beam=5, n_best=5)):
            words = len(SOURCES[b]) - 1
            for hypothesis in hypotheses:
                assert not {PAD, BOS, EOS} & set(hypothesis.ids)
                assert all(i < V + words for i in hypothesis.ids)
        found = search(models, beam=5, n_best=5, forbid_unknown=forbid_unknown)
        ids = {i for hypotheses in found for h in hypotheses for i in h.ids}
        assert any(i >= V for i in ids)
        assert not (forbid_unknown and UNK in ids)


def test_prefixes_with_copied_words(models: list[AnySeq2Seq]) -> None:
    prefixes = [(V, UNK), (V + 2, 4, V + 1), (), ()]
    found = search(models, beam=3, n_best=2, prefixes=prefixes, forbid_unknown=True)
    for b, prefix in enumerate(prefixes):
        assert found[b]
        for hypothesis in found[b]:
            assert hypothesis.ids[: len(prefix)] == prefix
            assert hypothesis.log_prob == near(float(forced(models, [(b, hypothesis.ids)])))
    free = search(models, beam=3, n_best=2, forbid_unknown=True)
    assert [h.ids for h in found[2]] == [h.ids for h in free[2]]


def test_a_word_that_cannot_be_copied_from_may_be_given() -> None:
    """The prefix names a place that has no attention at all."""
    model = build(COPYING[0])
    with torch.no_grad():
        assert model.copying is not None
        model.copying.gate.bias.sub_(300.0)
    [[hypothesis]] = search([model], [1], beam=1, prefixes=[(V + 1,)])
    assert hypothesis.ids[0] == V + 1
    assert math.isfinite(hypothesis.log_prob)
    assert hypothesis.log_prob == near(float(forced([model], [(1, hypothesis.ids)])))


def test_a_model_that_does_not_copy_adds_nothing_there() -> None:
    """Half of what the one says, where the other says nothing."""
    first, other = build(COPYING[0]), build(OTHER)
    arguments = *padded([SOURCES[1]]), torch.tensor([[V + 1, EOS]]), copied_of([1])
    alone, both = (force_decode(m, *arguments).log_probs for m in ([first], [first, other]))
    assert float(both[0, 0]) == near(float(alone[0, 0]) - math.log(2))
