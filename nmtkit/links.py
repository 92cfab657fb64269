"""Word alignment links: reading, checking and writing them, and combining two directions.

A link is a pair (source, target) of token positions counted from 0; the links of one sentence pair
are a frozenset, so repeated links are harmless. Tokens are the line split on the ASCII space only.

Symmetrisation follows symal of Moses (Koehn et al., "Edinburgh System Description for the 2005
IWSLT Speech Translation Evaluation"; Och and Ney, 2003, section 5 for union and intersection).
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError, unknown

Link = tuple[int, int]
Links = frozenset[Link]

MAX_POSITION = 99_999  # no sentence is this long: a larger number is a broken file
SHOWN = 40  # characters of a faulty token that an error message repeats

First = TypeVar("First")
Second = TypeVar("Second")


@dataclass(frozen=True)
class Gold:
    """The reference links of one sentence pair: ``sure`` is a subset of ``possible``.

    Raises ValueError when it is not.
    """

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise ValueError("every sure link must be a possible link too")


# ---------------------------------------------------------------------------- one line of links


def parse_links(line: str, where: str, one_based: bool = False, swap: bool = False) -> Links:
    """The links of a Pharaoh line, ``0-0 1-2``. An empty line has none.

    ``where`` is FILE:LINE for the error. ``one_based`` says that the line counts from 1, ``swap``
    that it says target-source. Raises UserError for anything but two numbers from 0 (or 1) and "-".
    """
    return _parse("pharaoh", line, where, one_based, swap).sure


def parse_gold(line: str, where: str, one_based: bool = False, swap: bool = False) -> Gold:
    """The links of a gold line, ``0-0 1p2``: "-" is sure; "p" or "?" is possible only.

    A link given both ways is sure. Otherwise like ``parse_links``.
    """
    return _parse("talp", line, where, one_based, swap)


def format_pharaoh(links: Collection[Link]) -> str:
    """``0-0 1-2``, sorted by source, then target."""
    return " ".join([f"{source}-{target}" for source, target in sorted(links)])


def format_talp(gold: Gold) -> str:
    """``0-0 1p2``, sorted by source, then target; "p" marks possible-only links."""
    marked = [(link, "-" if link in gold.sure else "p") for link in sorted(gold.possible)]
    return " ".join([f"{source}{mark}{target}" for (source, target), mark in marked])


def transpose(links: Collection[Link]) -> Links:
    """The same links seen from the other side: (target, source)."""
    return frozenset([(second, first) for first, second in links])


@lru_cache(maxsize=1 << 16)  # a file has millions of links, but few different ones
def _read_token(token: str, marks: str, one_based: bool, swap: bool) -> tuple[Link, bool]:
    """One token such as ``3-4`` -> (link, sure). Raises ValueError that says what is wrong."""
    shown = token if len(token) <= SHOWN else f"{token[:SHOWN]}…"
    match = re.fullmatch(r"([0-9]+)([-p?])([0-9]+)", token)
    if match is None:
        start = 1 if one_based else 0
        raise ValueError(f"{shown!r} is not a link: expected two positions from {start}, like 3-4")
    if match[2] not in marks:
        raise ValueError(f"{shown!r} is a possible link, which only gold files may have")
    first, second = _position(match[1], shown, one_based), _position(match[3], shown, one_based)
    return (second, first) if swap else (first, second), match[2] == "-"


def _position(digits: str, shown: str, one_based: bool) -> int:
    number = int(digits) if len(digits) <= 2 * len(str(MAX_POSITION)) else MAX_POSITION + 2
    if one_based and number == 0:
        raise ValueError(f"{shown!r} has position 0, but the file is said to count from 1")
    if number - one_based > MAX_POSITION:
        raise ValueError(f"{shown!r} has a position beyond {MAX_POSITION}: the file is damaged")
    return number - one_based


def _parse_pharaoh(line: str, one_based: bool, swap: bool) -> Gold:
    tokens = [token for token in line.split(" ") if token]
    links = frozenset([_read_token(token, "-", one_based, swap)[0] for token in tokens])
    return Gold(links, links)


def _parse_talp(line: str, one_based: bool, swap: bool) -> Gold:
    tokens = [token for token in line.split(" ") if token]
    marked = [_read_token(token, "-p?", one_based, swap) for token in tokens]
    return Gold(
        frozenset([link for link, sure in marked if sure]),
        frozenset([link for link, _ in marked]),
    )


@dataclass(frozen=True)
class Format:
    """How a file states the links of one sentence pair on one line.

    ``parse(line, one_based, swap)`` raises ValueError for a malformed line.
    """

    summary: str
    parse: Callable[[str, bool, bool], Gold]
    format: Callable[[Gold], str]


FORMATS: dict[str, Format] = {
    "pharaoh": Format("0-0 1-2", _parse_pharaoh, lambda gold: format_pharaoh(gold.sure)),
    "talp": Format("0-0 sure, 1p2 possible", _parse_talp, format_talp),
}


def _parse(format: str, line: str, where: str, one_based: bool, swap: bool) -> Gold:
    try:
        return FORMATS[format].parse(line, one_based, swap)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


# ------------------------------------------------------------------------------- files of links


def read_links(
    path: Path | str, one_based: bool = False, swap: bool = False, format: str = "pharaoh"
) -> Iterator[Links]:
    """The (sure) links of every line of ``path`` ("-" is stdin), read as they are asked for.

    Raises UserError "FILE:LINE: …" for a malformed line, or for an unknown ``format`` at once.
    """
    return (gold.sure for gold in read_gold(path, one_based, swap, format))


def read_gold(
    path: Path | str, one_based: bool = False, swap: bool = False, format: str = "talp"
) -> Iterator[Gold]:
    """The sure and possible links of every line of ``path``. Errors as in ``read_links``."""
    if format not in FORMATS:
        raise unknown("link format", format, FORMATS)
    name = "standard input" if str(path) == "-" else path
    numbered = enumerate(read_lines(path), start=1)
    return (_parse(format, line, f"{name}:{n}", one_based, swap) for n, line in numbered)


def split_tokens(line: str) -> list[str]:
    """The tokens that positions count: split on single ASCII spaces, as gold alignments are.

    Two spaces in a row have an empty token between them; an empty line has no token.
    """
    return line.split(" ") if line else []


def check_bounds(
    links: Collection[Link], source_length: int, target_length: int, where: str
) -> None:
    """Raise UserError "FILE:LINE: …" for a link beyond the tokens of its sentence pair."""
    for source, target in sorted(links):
        if source < source_length and target < target_length:
            continue
        side, length = (
            ("source", source_length) if source >= source_length else ("target", target_length)
        )
        raise UserError(
            f"{where}: link {source}-{target} is out of bounds: the {side} has {length} tokens, "
            "counted from 0 (is the file of other sentences, one-based, or target-source?)"
        )


def check_pairs(
    links: Iterable[Links],
    sources: Iterable[str],
    targets: Iterable[str],
    names: tuple[str, str, str] = ("links", "source", "target"),
) -> Iterator[Links]:
    """Hand the links through, checked against the lines of their sentence pairs.

    ``names`` are the three files for messages. Raises UserError for a link out of bounds, or when
    the three have different numbers of lines.
    """
    pairs = in_step(sources, targets, names[1:])
    every = in_step(links, pairs, (names[0], names[1]))
    for number, (line_links, (source, target)) in enumerate(every, start=1):
        lengths = len(split_tokens(source)), len(split_tokens(target))
        check_bounds(line_links, *lengths, where=f"{names[0]}:{number}")
        yield line_links


def in_step(
    first: Iterable[First], second: Iterable[Second], names: tuple[str, str]
) -> Iterator[tuple[First, Second]]:
    """``zip`` for two files that must have a line for each other's lines.

    Raises UserError with both names and both numbers of lines when they have not.
    """
    missing = object()
    ones, others = iter(first), iter(second)
    for count, (one, other) in enumerate(zip_longest(ones, others, fillvalue=missing)):
        if one is missing or other is missing:
            longer = count + 1 + sum(1 for _ in (others if one is missing else ones))
            raise mismatch(names, (count, longer) if one is missing else (longer, count))
        yield one, other  # type: ignore[misc]  # neither is the fill value


def mismatch(names: tuple[str, str], counts: tuple[int, int]) -> UserError:
    """The error for two files with different numbers of lines."""
    first, second = (f"{count} line{'s' if count != 1 else ''}" for count in counts)
    return UserError(
        f"{names[0]} has {first}, but {names[1]} has {second}: they must correspond line by line"
    )


# ------------------------------------------------------------------------------- symmetrisation
#
# symal keeps points as (target, source) in an ordered set and walks it target by target, source by
# source within. A point added ahead of the walk is met in the same pass, one behind it in the next
# pass. Additions count at once, so this order decides between rivals; it is kept here exactly.
# Which of symal's two inputs is ours: `forward` links come from the model source -> target, where
# every target word chooses its source word (GIZA++ and fast_align "forward"; symal's array b,
# "tgttosrc"). "final" visits those first, then the backward ones (symal's array a).

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def _union(forward: Links, backward: Links) -> Links:
    return forward | backward


def _intersection(forward: Links, backward: Links) -> Links:
    return forward & backward


def _grow_diag(
    forward: Links, backward: Links, final: Callable[[bool, bool], bool] | None = None
) -> Links:
    """Grow the intersection into the union by neighbours of which either word is unaligned.

    ``final(source_aligned, target_aligned)`` says which of the remaining links join at the end.
    """
    union = forward | backward
    links = set(forward & backward)
    if len(links) == len(union):
        return union
    sources = {source for source, _ in links}
    targets = {target for _, target in links}
    _grow(links, union - links, sources, targets)
    if final is not None:
        for direction in (forward - backward, backward - forward):
            # Only links that share a word are rivals; of those, symal's order is this one too.
            for source, target in sorted(direction - links):
                if final(source in sources, target in targets):
                    links.add((source, target))
                    sources.add(source)
                    targets.add(target)
    return frozenset(links)


def _grow(links: set[Link], candidates: Links, sources: set[int], targets: set[int]) -> None:
    """Add the ``candidates`` that grow-diag reaches to ``links``, ``sources`` and ``targets``.

    Points are numbers, target * width + source, so that their order is symal's; the spare column
    keeps neighbours from wrapping round. Each point is walked once: afterwards all its neighbours
    in the union are either links or have both words aligned, and stay so.
    """
    width = max(source for source, _ in links | candidates) + 2 if links else 0
    offsets = [down * width + across for down, across in NEIGHBOURS]
    pending = {target * width + source for source, target in candidates}
    points = sorted([target * width + source for source, target in links])
    while points and pending:
        later = []
        for point in points:  # grows while it is walked
            for offset in offsets:
                near = point + offset
                if near not in pending:
                    continue
                pending.remove(near)
                target, source = divmod(near, width)
                if source in sources and target in targets:
                    continue
                links.add((source, target))
                sources.add(source)
                targets.add(target)
                if offset > 0:
                    insort(points, near)
                else:
                    later.append(near)
        points = sorted(later)


def _either_unaligned(source_aligned: bool, target_aligned: bool) -> bool:
    return not (source_aligned and target_aligned)


def _both_unaligned(source_aligned: bool, target_aligned: bool) -> bool:
    return not (source_aligned or target_aligned)


SYMMETRISATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "union": _union,
    "intersection": _intersection,
    "grow-diag": _grow_diag,
    "grow-diag-final": partial(_grow_diag, final=_either_unaligned),
    "grow-diag-final-and": partial(_grow_diag, final=_both_unaligned),
}


def symmetrise(
    forward: Iterable[Links],
    backward: Iterable[Links],
    method: str,
    names: tuple[str, str] = ("forward", "backward"),
) -> Iterator[Links]:
    """Combine two directions line by line; both are given as (source, target).

    Raises UserError for an unknown ``method`` at once, and when the two (``names`` for the message)
    have different numbers of lines.
    """
    if method not in SYMMETRISATIONS:
        raise unknown("symmetrisation", method, SYMMETRISATIONS)
    combine = SYMMETRISATIONS[method]
    return (combine(*pair) for pair in in_step(forward, backward, names))
