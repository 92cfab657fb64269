"""Files of links: reading, writing and checking them, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import IO, TypeVar

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError
from nmtkit.links.formats import format_named
from nmtkit.links.pair import Gold, LinkedPair, Links, check_bounds, split_tokens

First = TypeVar("First")
Second = TypeVar("Second")


def read_pairs(
    path: Path | str, format: str, *, one_based: bool = False, swap: bool = False
) -> Iterator[LinkedPair]:
    """The sentence pairs of an alignment file ("-" is stdin), read as they are asked for.

    ``one_based`` says that pharaoh or talp positions count from 1; ``swap`` that the file's source
    is our target. Raises UserError "FILE:LINE: …" for what is malformed, and at once for an unknown
    ``format`` and for ``one_based`` with a format that says itself where it begins.
    """
    return (_good(item) for item in read_items(path, format, one_based=one_based, swap=swap))


def read_items(
    path: Path | str, format: str, *, one_based: bool = False, swap: bool = False
) -> Iterator[LinkedPair | UserError]:
    """Like ``read_pairs``, but what is malformed comes as its error, and reading goes on."""
    known = format_named(format)
    if one_based and not known.one_based:
        raise UserError(f"--one-based is for pharaoh and talp: {format} itself says how it counts")
    name = name_of(path)
    lines = ((f"{name}:{n}", line) for n, line in enumerate(read_lines(path), start=1))
    items = known.read(lines, one_based)
    if not swap:
        return items
    return (item.swapped() if isinstance(item, LinkedPair) else item for item in items)


def _good(item: LinkedPair | UserError) -> LinkedPair:
    if isinstance(item, UserError):
        raise item
    return item


def name_of(path: Path | str) -> str:
    """How messages name a file."""
    return "standard input" if str(path) == "-" else str(path)


def read_links(
    path: Path | str, one_based: bool = False, swap: bool = False, format: str = "pharaoh"
) -> Iterator[Links]:
    """The (sure) links of every sentence pair of ``path``. Otherwise as ``read_pairs``."""
    return (gold.sure for gold in read_gold(path, one_based, swap, format))


def read_gold(
    path: Path | str, one_based: bool = False, swap: bool = False, format: str = "talp"
) -> Iterator[Gold]:
    """The sure and possible links of every pair of ``path``. Otherwise as ``read_pairs``."""
    return (pair.gold for pair in read_pairs(path, format, one_based=one_based, swap=swap))


def write_pairs(file: IO[str], pairs: Iterable[LinkedPair], format: str) -> None:
    """Write ``pairs`` as they come.

    Raises UserError, with the FILE:LINE the pair was read from, for what ``format`` has no place
    for: giza and symal need the tokens and have one link a word. Possible-only links, probabilities
    and tokens are left out where the format has none.
    """
    known = format_named(format)
    for number, pair in enumerate(pairs, start=1):
        file.write(known.lines(pair, number))


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
    first: Iterable[First], second: Iterable[Second], names: tuple[str, str], unit: str = "line"
) -> Iterator[tuple[First, Second]]:
    """``zip`` for two files that must have a line (a ``unit``) for each other's lines.

    Raises UserError with both names and both numbers of lines when they have not.
    """
    missing = object()
    ones, others = iter(first), iter(second)
    for count, (one, other) in enumerate(zip_longest(ones, others, fillvalue=missing)):
        if one is missing or other is missing:
            longer = count + 1 + sum(1 for _ in (others if one is missing else ones))
            counts = (count, longer) if one is missing else (longer, count)
            raise mismatch(names, counts, unit)
        yield one, other  # type: ignore[misc]  # neither is the fill value


def mismatch(names: tuple[str, str], counts: tuple[int, int], unit: str = "line") -> UserError:
    """The error for two files with different numbers of lines, or of whatever ``unit``."""
    first, second = (f"{count} {unit}{'s' if count != 1 else ''}" for count in counts)
    return UserError(
        f"{names[0]} has {first}, but {names[1]} has {second}: "
        f"they must correspond {unit} by {unit}"
    )
