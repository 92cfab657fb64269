"""Why a pair is dropped from training."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from hashlib import blake2b

REASONS = ("empty source", "empty target", "too long", "ratio", "duplicate")


@dataclass(frozen=True)
class Filters:
    """Which pairs of a training text are dropped (of validation text, none are)."""

    max_length: int | None = 100  # tokens, on either side
    max_ratio: float | None = 9.0  # of the longer side's tokens to the shorter one's

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {self.max_length}")
        if self.max_ratio is not None and not self.max_ratio >= 1:
            raise ValueError(f"max_ratio must be at least 1, got {self.max_ratio}")

    def reason(self, source: int, target: int) -> str | None:
        """One of ``REASONS``, the first that holds, or None for a pair to keep.

        ``source``, ``target``: the lengths in tokens, 0 for a line of nothing.
        """
        shorter, longer = (source, target) if source < target else (target, source)
        if shorter == 0:
            return "empty source" if source == 0 else "empty target"
        if self.max_length is not None and longer > self.max_length:
            return "too long"
        if self.max_ratio is not None and longer > self.max_ratio * shorter:
            return "ratio"
        return None


class Duplicates:
    """Which texts came before: a set of 64-bit digests in one array, 12 to 24 bytes a text.

    Two different texts have one digest with a probability of 2^-64: among a million pairs one is
    lost by mistake with a chance of 1 in 37 million, among a billion with one of 1 in 37.
    """

    def __init__(self) -> None:
        self._table = array("Q", bytes(8 << 10))  # open addressing; 0 is an empty place
        self._number = 0

    def is_known(self, text: str) -> bool:
        """Whether ``text`` was asked for before."""
        digest = blake2b(text.encode("utf-8"), digest_size=8).digest()
        key = int.from_bytes(digest, "little") or 1
        if self._number * 3 >= len(self._table) * 2:
            self._grow()
        if not _insert(self._table, key):
            return True
        self._number += 1
        return False

    def _grow(self) -> None:
        table = array("Q", bytes(16 * len(self._table)))
        for key in self._table:
            if key:
                _insert(table, key)
        self._table = table


def _insert(table: array[int], key: int) -> bool:
    """Put ``key`` in its place; False where it was there."""
    last = len(table) - 1  # the size is a power of 2
    place = key & last
    while (found := table[place]) != key:
        if not found:
            table[place] = key
            return True
        place = (place + 1) & last
    return False
