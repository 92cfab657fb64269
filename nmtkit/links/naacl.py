"""A line a link, ``sentence source target [S|P] [confidence]``, all counted from 1.

The format of the shared tasks on word alignment (Mihalcea and Pedersen, 2003; Martin et al., 2005)
and their gold files. A link without S or P is sure. Position 0 is the NULL word: such a line says
that a word is unaligned, so it makes no link here. A sentence without links has no line: one at
the end of the text can only be told from the text. Sentences come in order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from nmtkit.errors import UserError
from nmtkit.links.pair import Gold, Link, LinkedPair, split_tokens
from nmtkit.links.parts import MAX_SENTENCE, at, read_number, shown, write_probability

MAX_GAP = 99_999  # more sentences in a row without a link: a broken number, not a sparse file
DECIMAL = re.compile(r"[0-9]{0,30}\.?[0-9]{1,30}([eE][-+]?[0-9]{1,3})?")


class _Sentence:
    """The lines of one sentence, put together."""

    def __init__(self, number: int, where: str) -> None:
        self.number = number
        self.where = where
        self.sure: set[Link] = set()
        self.possible: set[Link] = set()
        self.probabilities: dict[Link, float] = {}

    def add(self, link: Link, sure: bool, confidence: float | None) -> None:
        """A link counted from 1, or one with the NULL word. ValueError where lines disagree."""
        if 0 in link:
            return
        link = link[0] - 1, link[1] - 1
        if confidence is not None:
            if self.probabilities.get(link, confidence) != confidence:
                raise ValueError("the same link came with another confidence before")
            self.probabilities[link] = confidence
        self.possible.add(link)
        if sure:
            self.sure.add(link)

    def pair(self) -> LinkedPair:
        gold = Gold(frozenset(self.sure), frozenset(self.possible))
        return LinkedPair(gold, probabilities=self.probabilities or None, where=self.where)


def read_naacl(lines: Iterator[tuple[str, str]]) -> Iterator[LinkedPair | UserError]:
    """The pairs of a file, from sentence 1 to the last one that it names.

    ``lines`` are FILE:LINE and line. A bad line comes as its error, which stands for no pair.
    """
    now = _Sentence(0, "")
    for where, line in lines:
        try:
            with at(where):
                number, link, sure, confidence = _parse(line)
                if not now.number <= number <= now.number + MAX_GAP + 1:
                    raise ValueError(
                        f"sentence {number} comes after sentence {now.number}: "
                        + ("sort the file" if number < now.number else "the file is damaged")
                    )
                if number == now.number:
                    now.add(link, sure, confidence)
        except UserError as error:
            yield error
            continue
        if number == now.number:
            continue
        if now.number:
            yield now.pair()
        for _ in range(now.number + 1, number):
            yield LinkedPair(Gold(frozenset(), frozenset()), where=where)
        now = _Sentence(number, where)
        now.add(link, sure, confidence)
    if now.number:
        yield now.pair()


def _parse(line: str) -> tuple[int, Link, bool, float | None]:
    """One line -> sentence, link (both from 1), sure, confidence. Raises ValueError."""
    fields = split_tokens(line)
    if not 3 <= len(fields) <= 5:
        raise ValueError(f"{shown(line)} should be: sentence source target [S|P] [confidence]")
    number = read_number(fields[0], MAX_SENTENCE)
    if number == 0:
        raise ValueError("sentence 0, but sentences count from 1")
    link = read_number(fields[1]), read_number(fields[2])
    rest = fields[3:]
    mark = rest.pop(0) if len(rest) == 2 or rest in (["S"], ["P"]) else "S"
    if mark not in ("S", "P"):
        raise ValueError(f"{shown(mark)} should be S or P")
    return number, link, mark == "S", _confidence(rest[0]) if rest else None


def _confidence(text: str) -> float:
    value = float(text) if DECIMAL.fullmatch(text) else math.nan
    if not 0 <= value <= 1:
        raise ValueError(f"{shown(text)} should be S, P or a confidence between 0 and 1")
    return value


def write_naacl(pair: LinkedPair, number: int) -> str:
    """The lines of sentence ``number``, which has four digits at least, as published files have."""
    known = pair.probabilities or {}
    lines = []
    for link in sorted(pair.gold.possible):
        mark = "S" if link in pair.gold.sure else "P"
        confidence = f" {write_probability(known[link])}" if link in known else ""
        lines.append(f"{number:04d} {link[0] + 1} {link[1] + 1} {mark}{confidence}\n")
    return "".join(lines)
