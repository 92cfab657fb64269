"""The one error class that users see, and "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """The user's mistake or bad data. ``str(error)`` is one line: what, where, what to do."""


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
