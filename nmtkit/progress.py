"""How long loops report progress without knowing who shows it (the command line does)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

Item = TypeVar("Item")


class Progress(Protocol):
    """Passes ``items`` on unchanged and in order, and may show how far the loop has come."""

    def __call__(
        self, items: Iterable[Item], label: str, total: int | None = None
    ) -> Iterable[Item]:
        """``label`` says what is going on; ``total`` is the number of items, where known."""
        ...


def silent(items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
    """The progress that shows nothing."""
    return items
