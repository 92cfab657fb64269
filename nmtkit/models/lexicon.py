"""The lexical table t(target word | source word) of the statistical aligners.

It holds the expected counts n(e, f) of the pairs that occur together in the training text. Their
estimate is that of a Dirichlet prior with m pseudo-counts a source word, spread as b says:

    t(f | e) = (n(e, f) + m b(f | e)) / (n(e) + m)

b is uniform over the target vocabulary; or, with word classes (words that begin alike), what the
same estimate one level up says of the classes E and F of the two words, C being the number of
target classes, and n(f) and n(F) counted with all source words and NULL:

    b(f | e) = (n(E, F) + m / C) / (n(E) + m) · n(f) / n(F)

NULL's own table t(f | NULL) has a uniform b. For m > 0 every row sums to 1.

Letters: B sentences, S source words, T target words, N pairs in the table, V_s, V_t vocabularies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

TENSORS = ("keys", "counts", "null_counts", "source_class", "target_class")
LEAST = 1e-30  # probability: of a word that nothing explains each way is equally improbable
UNSEEN = 1e-3  # count of a target word that has none: its share of its class
LARGEST = 1e15  # count; more words than any text has


class Cells(NamedTuple):
    """Where pairs of words stand in the tables; the place after the last is that of no pair."""

    words: Tensor  # (…) int64, up to N
    classes: Tensor  # (…) int64, up to the number of pairs of classes


class Own(NamedTuple):
    """Expected counts that one target word of a sentence itself gave to the tables: (B, T, S)."""

    words: Tensor  # to its pair with the source word
    classes: Tensor  # to the pair of their classes


class Lexicon(nn.Module):
    """Expected counts, and the probabilities that follow from them."""

    keys: Tensor  # (N,) int64, rising: source id · V_t + target id
    counts: Tensor  # (N,)
    null_counts: Tensor  # (V_t,): of target words without a partner
    source_class: Tensor  # (V_s,) int64
    target_class: Tensor  # (V_t,) int64

    # What follows from the pairs of words and the classes:
    classes: int  # C
    class_keys: Tensor  # (M,) int64, rising: source class · C + target class
    class_of: Tensor  # (N+1,) int64: the place in class_keys of every pair of words; M of no pair
    # … and from the counts:
    totals: Tensor  # (V_s,): n(e)
    null_total: Tensor  # ()
    class_counts: Tensor  # (M+1,): n(E, F); 0 of no pair
    class_totals: Tensor  # (V_s,) by class: n(E)
    share: Tensor  # (V_t,): n(f) / n(F)
    padded: Tensor  # (N+1,): n(e, f); 0 of no pair

    def __init__(self, source_size: int, target_size: int, smoothing: float) -> None:
        super().__init__()
        self.target_size, self.smoothing = target_size, smoothing
        for name, size in zip(TENSORS, (0, 0, target_size, source_size, target_size), strict=True):
            kind = torch.float32 if name.endswith("counts") else torch.int64
            self.register_buffer(name, torch.zeros(size, dtype=kind))

    def begin(self, keys: Tensor, source_class: Tensor, target_class: Tensor) -> None:
        """A table of these pairs (N,) and classes, in which nothing has been counted."""
        self.keys, self.counts = keys, self.counts.new_zeros(len(keys))
        self.source_class, self.target_class = source_class, target_class
        self.null_counts = torch.zeros_like(self.null_counts)
        self._index()
        self.prepare()

    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Tensors by name, checked. Raises ValueError."""
        for name in TENSORS:
            if name not in tensors:
                raise ValueError(f"the tensor {name} is missing")
            found, wanted = tensors[name], getattr(self, name)
            if found.dtype != wanted.dtype or found.dim() != 1:
                kind = str(wanted.dtype).removeprefix("torch.")
                raise ValueError(f"{name} is not a vector of {kind}")
            if name not in ("keys", "counts") and found.shape != wanted.shape:
                raise ValueError(f"{name} has {len(found)} entries, the vocabulary {len(wanted)}")
            # (What is not a number compares as false.)
            if name.endswith("counts") and not ((found >= 0) & (found <= LARGEST)).all():
                raise ValueError(f"{name} holds numbers that are no counts")
            if name.endswith("class") and not ((found >= 0) & (found < len(found))).all():
                raise ValueError(f"{name} holds numbers that are no classes")
        keys, pairs = tensors["keys"], len(self.source_class) * self.target_size
        if len(keys) != len(tensors["counts"]):
            raise ValueError("keys and counts differ in length")
        # Compared, not subtracted: the difference of two damaged numbers can overflow.
        if len(keys) and not (keys[0] >= 0 and keys[-1] < pairs and (keys[1:] > keys[:-1]).all()):
            raise ValueError("keys are not the rising numbers of word pairs")
        for name in TENSORS:
            setattr(self, name, tensors[name])
        self._index()
        self.prepare()

    def _index(self) -> None:
        self.classes = int(self.target_class.amax()) + 1
        sources, targets = self.words()
        pairs = self.source_class[sources] * self.classes + self.target_class[targets]
        self.class_keys, places = torch.unique(pairs, return_inverse=True)
        self.class_of = torch.cat([places, places.new_tensor([len(self.class_keys)])])

    def words(self) -> tuple[Tensor, Tensor]:
        """The source and the target word of every pair: (N,) each."""
        return self.keys // self.target_size, self.keys % self.target_size

    def prepare(self) -> None:
        """Work out the sums that the probabilities need; to be called after counts have changed."""
        sources, targets = self.words()
        self.padded = torch.cat([self.counts, self.counts.new_zeros(1)])
        self.totals = _sums(self.counts, sources, len(self.source_class))
        self.null_total = self.null_counts.sum()
        self.class_counts = _sums(self.padded, self.class_of, len(self.class_keys) + 1)
        self.class_totals = _sums(self.totals, self.source_class, len(self.source_class))
        of_target = self.null_counts.double().index_add(0, targets, self.counts.double())
        of_target = of_target.clamp_min(UNSEEN)
        of_class = _sums(of_target, self.target_class, self.classes)
        self.share = (of_target / of_class[self.target_class]).to(self.counts.dtype)

    def cells(self, source: Tensor, target: Tensor) -> Cells:
        """Where each pair of source words (B, S) and target words (B, T) stands: (B, T, S)."""
        pairs = source.unsqueeze(1) * self.target_size + target.unsqueeze(2)
        classes = self.source_class[source].unsqueeze(1) * self.classes
        classes = classes + self.target_class[target].unsqueeze(2)
        return Cells(_find(self.keys, pairs), _find(self.class_keys, classes))

    def known_cells(self, places: Tensor) -> Cells:
        """The same of pairs whose places in the table are known; N: no pair."""
        words = places.long()
        return Cells(words, self.class_of[words])

    def own(self, source: Tensor, links: Tensor) -> Own:
        """What every target word gave to the tables by its posteriors `links` (B, T, S).

        A source word that stands twice in its sentence (B, S) has been given both.
        """
        return Own(
            links @ _alike(source).to(links), links @ _alike(self.source_class[source]).to(links)
        )

    def probabilities(
        self, cells: Cells, source: Tensor, target: Tensor, own: Own | None = None
    ) -> Tensor:
        """t(f | e) of every pair (B, T, S), of source (B, S) and target (B, T).

        With `own` as if these counts had not been given.
        """
        m = self.smoothing
        counts, totals = self.padded[cells.words], self.totals[source].unsqueeze(1)
        if own is not None:
            counts, totals = _without(counts, own.words), _without(totals, own.words)
        base = self._base(cells, source, target, own)
        return ((counts + m * base) / (totals + m).clamp_min(LEAST)).clamp_min_(LEAST)

    def _base(
        self, cells: Cells, source: Tensor, target: Tensor, own: Own | None
    ) -> Tensor | float:
        """b(f | e), as `probabilities`."""
        m = self.smoothing
        if self.classes == 1 or not m:
            return 1 / self.target_size
        counts = self.class_counts[cells.classes]
        totals = self.class_totals[self.source_class[source]].unsqueeze(1)
        if own is not None:
            counts, totals = _without(counts, own.classes), _without(totals, own.classes)
        return (counts + m / self.classes) / (totals + m) * self.share[target].unsqueeze(2)

    def null_probabilities(self, target: Tensor, own: Tensor | None = None) -> Tensor:
        """t(f | NULL) of target words (B, T); `own` (B, T): counts they gave to it, left out."""
        m = self.smoothing
        counts, total = self.null_counts[target], self.null_total
        if own is not None:
            counts, total = _without(counts, own), _without(total, own)
        return ((counts + m / self.target_size) / (total + m).clamp_min(LEAST)).clamp_min_(LEAST)

    def table(self) -> Tensor:
        """t(f | e) of all pairs of the table: (N,)."""
        source, target = (words.unsqueeze(1) for words in self.words())
        places = torch.arange(len(self.keys), device=self.keys.device)
        cells = self.known_cells(places.view(-1, 1, 1))
        return self.probabilities(cells, source, target).flatten()


def _alike(numbers: Tensor) -> Tensor:
    """Which of the numbers (B, S) are equal: (B, S, S)."""
    return numbers.unsqueeze(1) == numbers.unsqueeze(2)


def _without(counts: Tensor, own: Tensor) -> Tensor:
    """Never below 0, where rounding would put it."""
    return (counts - own).clamp_min_(0)


def _sums(values: Tensor, places: Tensor, size: int) -> Tensor:
    """Sums of values (N,) by place, in float64; (size,) of the values' type."""
    zeros = torch.zeros(size, dtype=torch.float64, device=values.device)
    return zeros.index_add(0, places, values.double()).to(values.dtype)


def _find(keys: Tensor, wanted: Tensor) -> Tensor:
    """The places of `wanted` in the rising keys (N,); N where there is none."""
    if not len(keys):
        return torch.zeros_like(wanted)
    places = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
    return torch.where(keys[places] == wanted, places, len(keys))
