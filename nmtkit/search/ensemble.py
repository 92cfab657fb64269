"""Models that step together.

Letters: B sentences, R rows (hypotheses of all sentences), S source length, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.models.seq2seq import AnySeq2Seq, Memory, Rows


class Ensemble:
    """Models whose probabilities are averaged; the source sides are held once a sentence."""

    def __init__(self, models: Sequence[AnySeq2Seq], source: Tensor, mask: Tensor) -> None:
        """Source ids (B, S), mask (B, S)."""
        self.models = models
        self.memories: list[Memory] = [model.encode(source, mask) for model in models]
        self.states: list[Rows] = []

    def start(self, rows: int) -> None:
        """Begin with so many rows a sentence."""
        pairs = zip(self.models, self.memories, strict=True)
        self.states = [model.start(memory, rows) for model, memory in pairs]

    def step(self, tokens: Tensor) -> Tensor:
        """y_{i-1} (R,) -> log-probabilities of y_i (R, V)."""
        log_probs = []
        for m, model in enumerate(self.models):
            features, _, self.states[m] = model.step(tokens, self.states[m], self.memories[m])
            log_probs.append(F.log_softmax(model.output(features).float(), 1))
        return mean_probability(log_probs)

    def select(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Go on with these rows, and these sentences (None: all)."""
        self.states = [state.select(rows) for state in self.states]
        if sentences is not None:
            self.memories = [memory.select(sentences) for memory in self.memories]


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Log of the models' mean probability; all tensors of one shape."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(list(log_probs)), 0) - math.log(len(log_probs))
