"""How links are read from attention."""

from __future__ import annotations

from dataclasses import dataclass, field

from nmtkit.align.extraction import METHODS, SYMMETRIZE
from nmtkit.align.reading import ROWS
from nmtkit.batches import BatchSize
from nmtkit.errors import unknown


@dataclass(frozen=True)
class AlignOptions:
    """How links are read from attention, and how many pairs are decoded at once."""

    rows: str | None = None  # None: the alignment head, where there is one, else predicting
    method: str = "argmax"  # of each direction; a way that reads both at once has no use for it
    threshold: float | None = None  # the least weight of a link; None: as the method has it
    symmetrize: str = "grow-diag-final-and"  # of two directions
    raw: bool = False  # tokenise the lines; links still speak of their space-separated tokens
    batch: BatchSize = field(default_factory=BatchSize.of_search)
    read_ahead: int = 5000  # pairs sorted by length together

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows not in ROWS:
            raise unknown("row reading", self.rows, ROWS)
        if self.method not in METHODS:
            raise unknown("extraction method", self.method, METHODS)
        if self.symmetrize not in SYMMETRIZE:
            raise unknown("symmetrisation", self.symmetrize, SYMMETRIZE)
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, got {self.threshold}")
