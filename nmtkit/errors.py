"""The one error class that users see, and "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: In the messages of errors that are not of classes of their own.
NO_MEMORY = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "bad_alloc",
    "STATUS_ALLOC_FAILED",
)


class UserError(Exception):
    """The user's mistake or bad data. ``str(error)`` is one line: what, where, what to do."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory, on a GPU or the CPU."""
    known = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's
    return known or any(words in str(error) for words in NO_MEMORY)


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a ``name`` that is not one of the ``known`` names of its ``kind``.

    >>> str(unknown("metric", "belu", ["bleu", "chrf", "ter"]))
    "unknown metric 'belu': did you mean 'bleu'? (one of: bleu, chrf, ter)"
    """
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    choices = f"one of: {', '.join(names)}" if names else "there are none"
    return UserError(f"unknown {kind} {name!r}: {hint}({choices})")
