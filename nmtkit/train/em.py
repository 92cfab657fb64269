"""Training of the statistical aligners: expectation maximisation over the whole corpus.

`estimate = "em"` is the classic algorithm. With `"collapsed"`, the default, the expected counts by
which a word is read leave out those that the same word gave to the tables in the epoch before: a
rare pair of words cannot be its own evidence. This is collapsed variational inference with the
zero-order approximation (CVB0: Asuncion, Welling, Smyth, Teh, "On smoothing and inference for topic
models", 2009) for the Dirichlet prior of the lexical table, and likewise of that of the classes;
here all words are read before any count is replaced.

Letters: B sentences, S source words, T target words, N pairs of words in the table.
"""

from __future__ import annotations

import math
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmtkit.checkpoint import Trained
from nmtkit.data import Bitext, Ids, known
from nmtkit.errors import UserError
from nmtkit.models.ibm import HMM, IBM1, Reading
from nmtkit.models.lexicon import Lexicon
from nmtkit.vocabulary import PAD, SPECIALS, Vocabulary

BATCH_CELLS = 400_000  # pairs of words read at once

Numbers = npt.NDArray[np.int64]

#: Told after every batch: the part of the run that is done, and its figures.
Updated = Callable[[float, dict[str, object]], None]


@dataclass(frozen=True)
class EMConfig:
    """How the statistical aligners are trained."""

    epochs: int = 4  # of the model itself
    ibm1_epochs: int = 5  # hmm only: of IBM Model 1 before that
    estimate: Literal["collapsed", "em"] = "collapsed"
    device: Literal["auto", "cpu", "cuda"] = "auto"

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("ibm1_epochs", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


@dataclass
class Group:
    """Sentence pairs of one source length that are read at once."""

    source: Tensor  # (B, S)
    target: Tensor  # (B, T), PAD after the end
    places: Tensor  # (B, T, S) int32 in the lexicon; N at padding
    links: Tensor | None = None  # (B, T, S): the posteriors of the epoch before
    null: Tensor | None = None  # (B, T)

    @property
    def real(self) -> Tensor:
        return self.target != PAD


class Counts:
    """Expected counts of an epoch, summed in float64."""

    def __init__(self, model: IBM1) -> None:
        lexicon = model.lexicon
        like = lexicon.counts.double()
        self.words = like.new_zeros(len(lexicon.keys) + 1)
        self.null = like.new_zeros(len(lexicon.null_counts))
        self.jumps: Tensor | None = None
        self.log_likelihood = 0.0

    def add(self, group: Group, reading: Reading) -> None:
        self.words.index_add_(0, group.places.flatten().long(), reading.links.flatten().double())
        self.null.index_add_(0, group.target.flatten(), reading.null.flatten().double())
        if reading.jumps is not None:
            self.jumps = reading.jumps if self.jumps is None else self.jumps + reading.jumps
        self.log_likelihood += float(reading.log_likelihood)

    def give(self, model: IBM1) -> None:
        """Put the counts into the model's tables."""
        lexicon = model.lexicon
        lexicon.counts.copy_(self.words[:-1])
        lexicon.null_counts.copy_(self.null)
        lexicon.prepare()
        if isinstance(model, HMM) and self.jumps is not None:
            model.learn(self.jumps)


class Expectation:
    """The corpus in groups, and one pass after another over it."""

    def __init__(self, trained: Trained, model: IBM1, bitext: Bitext, config: EMConfig) -> None:
        self.model, self.config = model, config
        self.words = int(bitext.target_lengths.sum())
        self.started = False
        lexicon = model.lexicon
        keys, self.groups = _groups(bitext, lexicon)
        texts = (trained.source_vocabulary, trained.target_vocabulary)
        classes = (word_classes(text, model.config.prefix).to(keys.device) for text in texts)
        lexicon.begin(keys, *classes)

    def epoch(self, plain: bool, progress: Callable[[float], None]) -> tuple[float, float]:
        """One pass; `plain` reads by IBM Model 1 even in an HMM.

        Returns the mean negative log-likelihood of a target word in nats, and the share of target
        words read as NULL's.
        """
        model, counts = self.model, Counts(self.model)
        for number, group in enumerate(self.groups):
            progress(number / len(self.groups))
            lexical, null = self._probabilities(group)
            if plain:
                reading = IBM1.read(model, lexical, null, group.real)
            else:
                reading = model.read(lexical, null, group.real)
            counts.add(group, reading)
            if self.config.estimate == "collapsed":
                group.links, group.null = reading.links, reading.null
        counts.give(model)
        self.started = True
        return -counts.log_likelihood / self.words, float(counts.null.sum()) / self.words

    def _probabilities(self, group: Group) -> tuple[Tensor, Tensor]:
        """t(f | e) (B, T, S) and t(f | NULL) (B, T)."""
        lexicon, source, target = self.model.lexicon, group.source, group.target
        if not self.started:  # nothing has been counted: every word is as probable
            lexical = lexicon.counts.new_full(group.places.shape, 1 / lexicon.target_size)
            return lexical, lexical[:, :, 0]
        cells = lexicon.known_cells(group.places)
        own = None if group.links is None else lexicon.own(source, group.links)
        lexical = lexicon.probabilities(cells, source, target, own)
        return lexical, lexicon.null_probabilities(target, group.null)


def expectation_maximisation(
    trained: Trained, model: IBM1, bitext: Bitext, config: EMConfig, updated: Updated
) -> Iterator[dict[str, object]]:
    """Train `model`; after every epoch its figures. UserError when they are not finite."""
    began = time.monotonic()
    passes = Expectation(trained, model, bitext, config)
    kinds = ["ibm1"] * config.epochs
    if isinstance(model, HMM):
        kinds = ["ibm1"] * config.ibm1_epochs + ["hmm"] * config.epochs
    for epoch, kind in enumerate(kinds, 1):

        def progress(part: float, epoch: int = epoch) -> None:
            minutes = (time.monotonic() - began) / 60
            updated((epoch - 1 + part) / len(kinds), {"epoch": epoch, "minutes": minutes})

        loss, null = passes.epoch(kind == "ibm1", progress)
        if not math.isfinite(loss):
            raise UserError(
                f"epoch {epoch}: the loss is not finite: set model.null and model.smoothing nearer "
                "to their defaults"
            )
        yield {
            "epoch": epoch,
            "of": kind,
            "train_loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "null": null,
            "pairs": len(model.lexicon.keys),
            "minutes": (time.monotonic() - began) / 60,
        }


def word_classes(vocabulary: Vocabulary, prefix: int) -> Tensor:
    """The class of every word (V,) int64: words with the same first letters; 0: all are one."""
    if not prefix:
        return torch.zeros(len(vocabulary), dtype=torch.int64)
    seen: dict[object, int] = {}
    classes = []
    for number, word in enumerate(vocabulary.tokens(range(len(vocabulary)))):
        letters = [c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c)]
        key = number if number < len(SPECIALS) else "".join(letters[:prefix])
        classes.append(seen.setdefault(key, len(seen)))
    return torch.tensor(classes)


def _groups(bitext: Bitext, lexicon: Lexicon) -> tuple[Tensor, list[Group]]:
    """The lexicon's keys: all pairs of words that meet in the corpus; and the corpus in groups."""
    device, groups, found = lexicon.keys.device, [], []
    no_pair = len(lexicon.source_class) * lexicon.target_size  # beyond all keys
    for indices in _cut(bitext):
        source, target = _padded(bitext.source_ids, indices), _padded(bitext.target_ids, indices)
        pairs = source[:, None] * lexicon.target_size + target[:, :, None]
        pairs[target == PAD] = no_pair
        keys, places = _numbered(pairs)
        found.append(keys)
        arrays = (source, target, places)
        groups.append(Group(*(torch.from_numpy(array).to(device) for array in arrays)))
    table = np.concatenate(found)
    table.sort()
    table = table[_changes(table)]
    table = table[: np.searchsorted(table, no_pair)]
    for group, keys in zip(groups, found, strict=True):  # from places in keys to places in table
        moved = torch.from_numpy(np.searchsorted(table, keys).astype(np.int32)).to(device)
        group.places = moved[group.places.long()]
    return torch.from_numpy(table).to(device), groups


def _padded(side: Ids, indices: Numbers) -> Numbers:
    """The ids of some sentences, PAD after their ends: (B, longest)."""
    begins, ends = side.offsets[indices, None], side.offsets[indices + 1, None]
    places = begins + np.arange((ends - begins).max())
    ids = known(side.numbers[np.minimum(places, ends - 1)])
    return np.where(places < ends, ids, PAD).astype(np.int64)


def _numbered(keys: Numbers) -> tuple[Numbers, npt.NDArray[np.int32]]:
    """The different keys, rising, and in place of each key its number among them.

    np.unique does this too. Faster is to sort key and place as one number, where it has the bits.
    """
    flat = keys.ravel()
    bits = len(flat).bit_length()
    if int(flat.max()) >> (63 - bits):
        unique, numbers = np.unique(flat, return_inverse=True)
    else:
        packed = (flat << bits) | np.arange(len(flat))
        packed.sort()
        places = packed & ((1 << bits) - 1)
        packed >>= bits
        first = _changes(packed)
        unique, numbers = packed[first], np.empty_like(flat)
        numbers[places] = np.cumsum(first) - 1
    return unique, numbers.reshape(keys.shape).astype(np.int32)


def _changes(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Where a number of a rising row is another than the one before it."""
    return np.concatenate([[True], numbers[1:] != numbers[:-1]])


def _cut(bitext: Bitext) -> Iterator[Numbers]:
    """Pairs of one source length, target lengths near each other, up to BATCH_CELLS."""
    sources, targets = bitext.source_lengths, bitext.target_lengths
    order = np.lexsort((targets, sources))
    begin = 0
    for end in range(1, len(order) + 1):
        if end < len(order):
            first, this = order[begin], order[end]
            cells = (end + 1 - begin) * int(sources[first]) * int(targets[this])
            if sources[this] == sources[first] and cells <= BATCH_CELLS:
                continue
        yield order[begin:end]
        begin = end
