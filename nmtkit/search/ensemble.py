"""Models that step together; of any architectures, with the same vocabularies.

Letters: B sentences, R rows (hypotheses of all sentences), S source length, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.models.seq2seq import AnySeq2Seq, Rows
from nmtkit.models.stepping import Stepper
from nmtkit.search.shortlist import Listed
from nmtkit.vocabulary import UNK

#: What search takes: a model, or a stepper of it (`AnySeq2Seq.stepper`).
Searched = AnySeq2Seq | Stepper


class Ensemble:
    """Models whose probabilities are averaged; the source sides are held once a sentence."""

    def __init__(
        self,
        models: Sequence[Searched],
        source: Tensor,
        mask: Tensor,
        copied: Tensor | None = None,
        listed: Listed | None = None,
    ) -> None:
        """Source ids (B, S), mask (B, S); `copied` (B, S): what models that copy can copy;
        `listed`: the only target words there are, which then stand for the vocabulary.
        """
        self.steppers = [m if isinstance(m, Stepper) else Stepper(m) for m in models]
        if listed is not None:
            self.steppers = [stepper.only(listed.words) for stepper in self.steppers]
        self.copied, self.listed = copied, listed
        self.memories = [stepper.encode(source, mask) for stepper in self.steppers]
        self.states: list[Rows] = []
        self._attention: list[Tensor] = []

    def start(self, rows: int) -> None:
        """Begin with so many rows a sentence."""
        pairs = zip(self.steppers, self.memories, strict=True)
        self.states = [stepper.start(memory, rows) for stepper, memory in pairs]

    def step(self, tokens: Tensor) -> Tensor:
        """y_{i-1} (R,) -> log-probabilities of y_i (R, V); with `copied` (R, V + S)."""
        copied, closed = self.copied, None if self.listed is None else self.listed.closed
        if copied is not None:
            copied = copied.repeat_interleave(len(tokens) // len(copied), 0)
            tokens = without_copies([stepper.model for stepper in self.steppers], tokens)
        log_probs = []
        self._attention = []
        for m, stepper in enumerate(self.steppers):
            features, attention, self.states[m] = stepper.step(
                tokens, self.states[m], self.memories[m]
            )
            log_probs.append(stepper.log_probs(features, attention, copied, closed))
            self._attention.append(attention)
        return mean_probability(log_probs)

    def attention(self) -> Tensor:
        """The models' mean attention in the last step, (R, S)."""
        return torch.stack(self._attention).mean(0)

    def select(self, rows: Tensor, sentences: Tensor | None) -> None:
        """Go on with these rows, and these sentences (None: all)."""
        self.states = [state.select(rows) for state in self.states]
        if sentences is not None:
            self.memories = [memory.select(sentences) for memory in self.memories]
            self.copied = None if self.copied is None else self.copied[sentences]
            self.listed = None if self.listed is None else self.listed.select(sentences)


def without_copies(models: Sequence[AnySeq2Seq], ids: Tensor) -> Tensor:
    """Target ids as a model reads them: UNK for a word that only the source has."""
    return ids.masked_fill(ids >= len(models[0].output.bias), UNK)


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Log of the models' mean probability; all tensors of one shape."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(list(log_probs)), 0) - math.log(len(log_probs))
