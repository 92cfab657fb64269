"""A line of links for every sentence pair: Pharaoh's ``0-0 1-2`` and talp's ``0-0 1p2``.

Moses, fast_align, eflomal and others write the first; gold files (talp) mark possible-only links
with "p", the P without S of Och and Ney (2003).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache, lru_cache

from nmtkit.errors import UserError
from nmtkit.links.pair import Gold, Link, Links, split_tokens
from nmtkit.links.parts import MAX_POSITION, shown

__all__ = [
    "format_pharaoh",
    "format_talp",
    "parse_gold",
    "parse_links",
    "parse_pharaoh",
    "parse_talp",
]


def parse_links(line: str, where: str, one_based: bool = False, swap: bool = False) -> Links:
    """The links of a Pharaoh line, ``0-0 1-2``. An empty line has none.

    ``where`` is FILE:LINE for the error. ``one_based`` says that the line counts from 1, ``swap``
    that it says target-source. Raises UserError for anything but two numbers from 0 (or 1) and "-".
    """
    try:
        return parse_pharaoh(line, one_based, swap).sure
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def parse_gold(line: str, where: str, one_based: bool = False, swap: bool = False) -> Gold:
    """The links of a gold line, ``0-0 1p2``: "-" is sure; "p" or "?" is possible only.

    A link given both ways is sure. Otherwise like ``parse_links``.
    """
    try:
        return parse_talp(line, one_based, swap)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def format_pharaoh(links: Collection[Link]) -> str:
    """``0-0 1-2``, sorted by source, then target."""
    return " ".join([f"{source}-{target}" for source, target in sorted(links)])


def format_talp(gold: Gold) -> str:
    """``0-0 1p2``, sorted by source, then target; "p" marks possible-only links."""
    marked = [(link, "-" if link in gold.sure else "p") for link in sorted(gold.possible)]
    return " ".join([f"{source}{mark}{target}" for (source, target), mark in marked])


def parse_pharaoh(line: str, one_based: bool = False, swap: bool = False) -> Gold:
    """Like ``parse_links``; all links are sure. Raises ValueError for a malformed line."""
    read = _token_reader("-", one_based, swap)
    links = frozenset([read(token)[0] for token in split_tokens(line)])
    return Gold(links, links)


def parse_talp(line: str, one_based: bool = False, swap: bool = False) -> Gold:
    """Like ``parse_gold``. Raises ValueError for a malformed line."""
    read = _token_reader("-p?", one_based, swap)
    marked = [read(token) for token in split_tokens(line)]
    return Gold(
        frozenset([link for link, sure in marked if sure]),
        frozenset([link for link, _ in marked]),
    )


@cache
def _token_reader(marks: str, one_based: bool, swap: bool) -> Callable[[str], tuple[Link, bool]]:
    """What turns a token such as ``3-4`` into (link, sure), or raises ValueError."""

    # A file has millions of links, but few different ones. The cache is quickest with one argument.
    @lru_cache(maxsize=1 << 16)
    def read(token: str) -> tuple[Link, bool]:
        match = re.fullmatch(r"([0-9]+)([-p?])([0-9]+)", token)
        if match is None:
            start = 1 if one_based else 0
            raise ValueError(
                f"{shown(token)} is not a link: expected two positions from {start}, like 3-4"
            )
        if match[2] not in marks:
            raise ValueError(f"{shown(token)} is a possible link, which only gold files may have")
        first, second = (_position(digits, token, one_based) for digits in match.group(1, 3))
        return (second, first) if swap else (first, second), match[2] == "-"

    return read


def _position(digits: str, token: str, one_based: bool) -> int:
    number = int(digits) if len(digits) <= 2 * len(str(MAX_POSITION)) else MAX_POSITION + 2
    if one_based and number == 0:
        raise ValueError(f"{shown(token)} has position 0, but the file is said to count from 1")
    if number - one_based > MAX_POSITION:
        raise ValueError(
            f"{shown(token)} has a position beyond {MAX_POSITION}: the file is damaged"
        )
    return number - one_based
