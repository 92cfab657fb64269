"""An epoch: what is read in it, and in which order."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmtkit.batches import Batch, Indices
from nmtkit.data import Bitext
from nmtkit.distributed import Group
from nmtkit.extended import ExtendedVocabulary
from nmtkit.train.gradient import Figures
from nmtkit.train.guide import Guide
from nmtkit.train.update import Updater


@dataclass(frozen=True)
class Plan:
    """The text of an epoch, its batches in their order, and what teaches the attention.

    `extended`: for a model that copies. `multiple`: what lengths are padded to a multiple of.
    """

    epoch: int
    bitext: Bitext
    batches: list[Indices]
    guide: Guide | None = None
    extended: ExtendedVocabulary | None = None
    multiple: int = 1

    def first(self, sentences: int) -> int:
        """The batch to go on with when so many sentences have been read; no text is read for it."""
        ends = np.cumsum([len(indices) for indices in self.batches])
        return int(np.searchsorted(ends, sentences, side="right"))

    def read(self, number: int, group: Group) -> tuple[Batch, Tensor | None]:
        """A process's share of a batch, perhaps of no sentence, and its guide (B, T, S)."""
        indices = self.batches[number][group.rank :: group.size]
        batch = Batch.read(self.bitext, indices, self.extended, self.multiple)
        lengths = batch.source.shape[1], batch.target_out.shape[1]
        return batch, None if self.guide is None else self.guide.batch(indices, *lengths)

    def upcoming(self, first: int, group: Group) -> Generator[tuple[Batch, Tensor | None]]:
        """As `read`, the batches from this one on; each is prepared while the one before is used.

        To be closed by whoever leaves it before its end.
        """
        numbers = range(first, len(self.batches))
        with ThreadPoolExecutor(1, "batches") as reader:
            ahead = [reader.submit(self.read, number, group) for number in numbers[:1]]
            for number in numbers:
                present = ahead.pop().result()
                if number + 1 in numbers:
                    ahead.append(reader.submit(self.read, number + 1, group))
                yield present

    def largest(self) -> list[int]:
        """The batches that need most memory: by their words, by the cells of their attention."""
        sizes = []
        for indices in self.batches:
            source, target = (
                int(lengths[indices].max()) + 1
                for lengths in (self.bitext.source_lengths, self.bitext.target_lengths)
            )
            sizes.append((len(indices) * (source + target), len(indices) * source * target))
        return sorted({int(np.argmax(column)) for column in zip(*sizes, strict=True)})


def try_largest(plan: Plan, updater: Updater) -> list[Figures]:
    """Take the gradients of the largest batches, so that memory too small for them shows now.

    Parameters, moments and random generators stay as they are.
    """
    optimizer, model = updater.optimizer, updater.objective.model
    device = updater.objective.device
    # An optimiser takes room for its moments at its first step: at most two numbers a parameter.
    like = [] if optimizer.state else [*model.parameters()] * 2
    moments = [torch.empty_like(parameter) for parameter in like]
    model.train()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        found = [updater.gradient(*plan.read(number, updater.group)) for number in plan.largest()]
    optimizer.zero_grad(set_to_none=True)
    del moments
    return found
