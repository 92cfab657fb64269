"""The file formats of word alignments, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nmtkit.errors import UserError, unknown
from nmtkit.links.giza import read_giza, read_symal, write_giza, write_symal
from nmtkit.links.jsonl import format_json, parse_json
from nmtkit.links.naacl import read_naacl, write_naacl
from nmtkit.links.pair import Gold, LinkedPair, check_bounds
from nmtkit.links.parts import at
from nmtkit.links.pharaoh import format_pharaoh, format_talp, parse_pharaoh, parse_talp

Line = tuple[str, str]  # FILE:LINE and line
Reader = Callable[[Iterator[Line], bool], Iterator[LinkedPair | UserError]]


@dataclass(frozen=True)
class Format:
    """How a file states links.

    ``read(lines, one_based)`` yields the sentence pairs, and a UserError in place of what is
    malformed, so that a checker can go on. ``write(pair, number)`` gives the lines of pair
    ``number`` (from 1), ends included; it raises ValueError for what the format has no place for.
    """

    summary: str
    read: Reader
    write: Callable[[LinkedPair, int], str]
    one_based: bool = False  # may count from 1; the others say themselves where they begin
    possible: bool = False  # has a place for possible-only links
    by_pair: bool = True  # states every pair, also one without links
    directions: bool = False  # one file holds the links of both directions
    inverse: bool = False  # the backward file has source and target exchanged

    def lines(self, pair: LinkedPair, number: int) -> str:
        """What ``write`` gives, after a check of the links against the tokens.

        Raises UserError with the FILE:LINE that the pair was read from.
        """
        where = pair.where or f"pair {number}"
        if pair.source is not None and pair.target is not None:
            check_bounds(pair.every_link, len(pair.source), len(pair.target), where)
        with at(where):
            return self.write(pair, number)


def _by_line(parse: Callable[[str, bool], Gold]) -> Reader:
    """The reader of a format with a line for every pair, from what reads one line's links."""

    def read(lines: Iterator[Line], one_based: bool) -> Iterator[LinkedPair | UserError]:
        for where, line in lines:
            try:
                yield LinkedPair(parse(line, one_based), where=where)
            except ValueError as error:
                yield UserError(f"{where}: {error}")

    return read


def _fixed(read: Callable[[Iterator[Line]], Iterator[LinkedPair | UserError]]) -> Reader:
    """The reader of a format that is not asked where its positions begin."""
    return lambda lines, _: read(lines)


def _read_json(lines: Iterator[Line]) -> Iterator[LinkedPair | UserError]:
    for where, line in lines:
        try:
            yield replace(parse_json(line), where=where)
        except ValueError as error:
            yield UserError(f"{where}: {error}")


def _write_pharaoh(pair: LinkedPair, number: int) -> str:
    return format_pharaoh(pair.gold.sure) + "\n"


def _write_talp(pair: LinkedPair, number: int) -> str:
    return format_talp(pair.gold) + "\n"


def _write_json(pair: LinkedPair, number: int) -> str:
    return format_json(pair) + "\n"


FORMATS: dict[str, Format] = {
    "pharaoh": Format("0-0 1-2", _by_line(parse_pharaoh), _write_pharaoh, one_based=True),
    "talp": Format("0-0 1p2", _by_line(parse_talp), _write_talp, one_based=True, possible=True),
    "naacl": Format("0001 1 1 S", _fixed(read_naacl), write_naacl, possible=True, by_pair=False),
    "giza": Format("GIZA++ A3", _fixed(read_giza), write_giza, inverse=True),
    "symal": Format("Moses bal", _fixed(read_symal), write_symal, directions=True),
    "json": Format("an object a line", _fixed(_read_json), _write_json, possible=True),
}


def format_named(name: str) -> Format:
    """Raises UserError for an unknown name."""
    if name not in FORMATS:
        raise unknown("link format", name, FORMATS)
    return FORMATS[name]
