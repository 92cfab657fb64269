"""Batches of sentence pairs as tensors, and how an epoch is divided into them.

Letters: B sentences of a batch, S and T the longest source and target, the end included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmtkit.data import Bitext
from nmtkit.errors import UserError
from nmtkit.extended import ExtendedVocabulary
from nmtkit.vocabulary import BOS, EOS, PAD, UNK

LONGEST = 5000  # subwords of a line that a model reads
MULTIPLE = 80  # of targets that are read out at once, if padding fills them up

Ids = npt.NDArray[np.int32] | Sequence[int]
Indices = npt.NDArray[np.int64]


def check_length(subwords: int, where: str) -> None:
    """UserError for a line that no memory may be large enough for: attention needs its square."""
    if subwords > LONGEST:
        raise UserError(f"{where}: {subwords} subwords, more than {LONGEST}: cut it into sentences")


@dataclass(frozen=True)
class Batch:
    """source (B, S) ends in EOS · source_mask (B, S) True on real tokens · target_in (B, T)
    BOS y_1 … y_n · target_out (B, T) y_1 … y_n EOS · target_mask (B, T) · chosen, the rows and the
    positions (N,) of the real targets, and then of as much padding as makes N a multiple of 80,
    where there is so much: libraries make a kernel anew for every N. No loss counts padding.

    For models that copy also, over the source-extended vocabulary (`nmtkit.extended`): copied
    (B, S), what copying from a place writes, or -1 · extended_out (B, T), target_out with the ids
    of words that only the source has.
    """

    source: Tensor
    source_mask: Tensor
    target_in: Tensor
    target_out: Tensor
    target_mask: Tensor
    copied: Tensor | None = None
    extended_out: Tensor | None = None
    chosen: tuple[Tensor, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        real, padding = self.target_mask.nonzero(), (~self.target_mask).nonzero()
        chosen = torch.cat([real, padding[: -len(real) % MULTIPLE]])
        object.__setattr__(self, "chosen", chosen.unbind(1))

    @property
    def targets(self) -> Tensor:
        """What is to be written (B, T): target_out, or extended_out where there is one."""
        return self.target_out if self.extended_out is None else self.extended_out

    def to(self, device: torch.device) -> Batch:
        moved = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                object.__setattr__(moved, name, value.to(device))
        object.__setattr__(moved, "chosen", (self.chosen[0].to(device), self.chosen[1].to(device)))
        return moved

    def part(self, rows: slice) -> Batch:
        """Some sentences, without the padding that only the others need."""
        masks = self.source_mask[rows], self.target_mask[rows]
        source, target = (int(mask.sum(1).max()) for mask in masks)
        lengths = {"source": source, "source_mask": source, "copied": source}
        there = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return Batch(**{name: v[rows, : lengths.get(name, target)] for name, v in there.items()})

    @staticmethod
    def of(
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        extended: ExtendedVocabulary | None = None,
        multiple: int = 1,
    ) -> Batch:
        """From the numbers of B sources and B targets, without EOS; `extended`: to copy.

        S and T become multiples of `multiple`, by padding.
        """
        numbers = with_end(sources, multiple), with_end(targets, multiple)
        source, target_out = (one.masked_fill(one < 0, UNK) for one in numbers)
        copied = extended_out = None
        if extended is not None:
            arrays = numbers[0].numpy(), numbers[1].numpy()
            places = extended.copied(arrays[0])
            copied = torch.from_numpy(places)
            extended_out = torch.from_numpy(extended.target_ids(arrays[0], places, arrays[1]))
        begin = torch.full((len(target_out), 1), BOS)
        target_in = torch.cat([begin, target_out[:, :-1]], 1)
        target_mask = target_out != PAD
        target_in = target_in.masked_fill(~target_mask, PAD)
        masks = source != PAD, target_mask
        return Batch(source, masks[0], target_in, target_out, masks[1], copied, extended_out)

    @staticmethod
    def read(
        bitext: Bitext,
        indices: Indices | Sequence[int],
        extended: ExtendedVocabulary | None = None,
        multiple: int = 1,
    ) -> Batch:
        """The pairs of these numbers; `extended` and `multiple` as of `of`."""
        rows = [int(i) for i in indices]
        sources = [bitext.source_ids.numbers_of(i) for i in rows]
        targets = [bitext.target_ids.numbers_of(i) for i in rows]
        batch = Batch.of(sources, targets, extended, multiple)
        bitext.release()
        return batch


def of_sources(
    sources: Sequence[Ids], extended: ExtendedVocabulary | None = None
) -> tuple[Tensor, Tensor | None]:
    """The numbers of B sources, without EOS -> their ids (B, S), and what can be copied (B, S)."""
    numbers = with_end(sources)
    copied = None if extended is None else torch.from_numpy(extended.copied(numbers.numpy()))
    return numbers.masked_fill(numbers < 0, UNK), copied


def with_end(sentences: Sequence[Ids], multiple: int = 1) -> Tensor:
    """The ids of B sentences (perhaps 0), closed by EOS, padded to the longest: (B, S) int64.

    S is the next multiple of `multiple`.
    """
    longest = max(map(len, sentences), default=0) + 1
    longest = -(-longest // multiple) * multiple
    padded = np.full((len(sentences), longest), PAD, dtype=np.int64)
    for row, ids in zip(padded, sentences, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS
    return torch.from_numpy(padded)


@dataclass(frozen=True)
class BatchSize:
    """A batch holds at most `sentences`, and at most `tokens` padded tokens on its longer side.

    0 means no limit; a sentence longer than `tokens` still makes a batch of its own. `pool`
    batches' worth of sentences, drawn at random, are sorted by length together before they are
    cut into batches.
    """

    sentences: int
    tokens: int
    pool: int

    @staticmethod
    def of_search(sentences: int = 64) -> BatchSize:
        """For decoding: at most so many sentences, and room for them if they are short."""
        return BatchSize(sentences, max(4000, sentences), pool=1)


def cut(lengths: npt.NDArray[np.int64], size: BatchSize) -> list[tuple[int, int]]:
    """Runs [begin, end) of the sentences in the given order that fit `size`; lengths with EOS."""
    runs = []
    begin, longest = 0, 0
    for index, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        rows = index - begin + 1
        full = size.sentences and rows > size.sentences
        if index > begin and (full or (size.tokens and rows * longest > size.tokens)):
            runs.append((begin, index))
            begin, longest = index, length
    if begin < len(lengths):
        runs.append((begin, len(lengths)))
    return runs


def epoch_batches(
    source_lengths: npt.NDArray[np.int32],
    target_lengths: npt.NDArray[np.int32],
    size: BatchSize,
    seed: int,
    epoch: int,
) -> list[Indices]:
    """The sentence indices of every batch of an epoch: a function of the arguments alone."""
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(source_lengths))
    longer = np.maximum(source_lengths, target_lengths).astype(np.int64) + 1
    average = float(longer.mean()) if len(longer) else 1.0
    by_tokens = size.tokens / average if size.tokens else np.inf
    a_batch = min(size.sentences or np.inf, by_tokens)
    pool = len(order) if np.isinf(a_batch) else max(1, round(size.pool * a_batch))
    batches = []
    for begin in range(0, len(order), pool):
        part = order[begin : begin + pool]
        # By target length; within one length by source, up and down in turn, so that a batch on the
        # border of two target lengths does not hold the longest and the shortest sources.
        turned = np.where(target_lengths[part] % 2, -source_lengths[part], source_lengths[part])
        part = part[np.lexsort((turned, target_lengths[part]))]
        batches += [part[b:e] for b, e in cut(longer[part], size)]
    return [batches[i] for i in random.permutation(len(batches))]


def length_sorted(lengths: Sequence[int], size: BatchSize) -> Iterator[list[int]]:
    """Batches of positions, longest sentences first, for search; lengths without EOS."""
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    longer = np.asarray(lengths, dtype=np.int64)[order] + 1
    for begin, end in cut(longer, size):
        yield order[begin:end].tolist()
