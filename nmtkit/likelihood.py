"""How probable models find given translations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from nmtkit.batches import BatchSize, length_sorted, with_end
from nmtkit.checkpoint import Trained
from nmtkit.progress import Progress, silent
from nmtkit.search import force_decode


@dataclass(frozen=True)
class LikelihoodOptions:
    """How many pairs are decoded at once."""

    batch: BatchSize = field(default_factory=lambda: BatchSize(sentences=64, tokens=4000, pool=1))
    read_ahead: int = 5000  # pairs sorted by length together


@dataclass(frozen=True)
class LogProbability:
    """log p(target | source) in nats, over `subwords` of them, the end of sentence included."""

    value: float
    subwords: int


def log_probabilities(
    models: Sequence[Trained],
    pairs: Iterable[tuple[str, str]],
    options: LikelihoodOptions,
    progress: Progress = silent,
) -> Iterator[LogProbability]:
    """One for every pair of raw lines, in order; of an ensemble, of its mean probability.

    An empty source counts as a sentence of nothing but its end.
    """
    source, target = models[0].source, models[0].target
    device = models[0].device
    stream = iter(progress(pairs, "scoring"))
    while some := list(islice(stream, options.read_ahead)):
        ids = [(source.ids(s), target.ids(t)) for s, t in some]
        found = [LogProbability(0.0, 0)] * len(some)
        longer = [max(map(len, pair)) for pair in ids]
        for rows in length_sorted(longer, options.batch):
            inputs = with_end([ids[row][0] for row in rows]).to(device)
            outputs = with_end([ids[row][1] for row in rows]).to(device)
            forced = force_decode([m.seq2seq for m in models], inputs, inputs != 0, outputs)
            values = forced.log_probs.double().sum(1).tolist()
            for row, value in zip(rows, values, strict=True):
                found[row] = LogProbability(value, len(ids[row][1]) + 1)
        yield from found


def perplexity(found: Iterable[LogProbability]) -> float:
    """exp of the mean negative log-probability of a subword, the ends of sentence included."""
    rows = list(found)
    subwords = sum(row.subwords for row in rows)
    return math.exp(-sum(row.value for row in rows) / subwords) if subwords else 1.0
