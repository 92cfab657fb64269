"""What the formats share: numbers, and errors that say what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nmtkit.errors import UserError

MAX_POSITION = 99_999  # no sentence is this long: a larger number is a broken file
MAX_SENTENCE = 10**12
SHOWN = 40  # characters of a faulty token that an error message repeats


@contextmanager
def at(where: str) -> Iterator[None]:
    """Turn a ValueError into the UserError "FILE:LINE: …"."""
    try:
        yield
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def shown(text: str) -> str:
    """``text`` quoted for an error message, and shortened where it is long."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


def read_number(digits: str, limit: int = MAX_POSITION + 1) -> int:
    """A count or a position: decimal digits up to ``limit``. Raises ValueError for all else."""
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{shown(digits)} is not a number")
    if len(digits) > 2 * len(str(limit)) or int(digits) > limit:  # int() refuses the longest
        raise ValueError(f"the number {shown(digits)} is beyond {limit}: the file is damaged")
    return int(digits)


def write_probability(value: float) -> str:
    """Six significant digits: what rounding has added to 1 goes. Raises ValueError outside 0 to 1.

    >>> write_probability(1.0000001), write_probability(0.25), write_probability(1 / 3)
    ('1', '0.25', '0.333333')
    """
    text = f"{value:.6g}"
    if not 0 <= float(text) <= 1:
        raise ValueError(f"{text} is not a probability")
    return text
