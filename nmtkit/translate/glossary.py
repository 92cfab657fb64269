"""A glossary: required translations of terms, put where the links say.

A term is looked for in the tokens of the source line. In the translation the required target term
either stands already, or takes the place of the words that are linked to the source term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmtkit.links import Links
from nmtkit.text import Text
from nmtkit.translate.options import TermCount
from nmtkit.translate.places import Span, longest_run


@dataclass(frozen=True)
class Term:
    """One entry: the tokens of both sides, and the target as it is written."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Match:
    """A term in a source line, at these of its tokens."""

    term: Term
    span: Span


@dataclass(frozen=True)
class Edited:
    """The words of a translation with its terms in place.

    A term that was put is one word, spaces and all. `moved` has for every former word the one that
    now stands there.
    """

    words: list[str]
    moved: list[int]
    count: TermCount


class Glossary:
    """Terms by their source, for one model's text."""

    def __init__(self, entries: Mapping[str, str], source: Text, target: Text) -> None:
        self._target = target
        self._terms: dict[tuple[str, ...], list[Term]] = {}
        self._longest = 0
        for one, other in entries.items():
            tokens = tuple(source.tokenise(one))
            term = Term(tokens, tuple(target.tokenise(other)), other)
            if tokens and term.target:
                self._terms.setdefault(_lower(tokens), []).append(term)
                self._longest = max(self._longest, len(tokens))

    def matches(self, tokens: Sequence[str]) -> list[Match]:
        """The terms in a source line, in order: the longest first, none over another.

        A term in lower case is found in any case, one with a capital only as it is written, and
        where both are there, the one that is written the same way.
        """
        lowered = _lower(tokens)
        found: list[Match] = []
        for length in range(min(self._longest, len(tokens)), 0, -1):
            for start in range(len(tokens) - length + 1):
                key = lowered[start : start + length]
                written = tuple(tokens[start : start + length])
                fitting = [t for t in self._terms.get(key, ()) if t.source in (written, key)]
                fitting.sort(key=lambda term: term.source != written)
                if fitting and not any(_overlap(m.span, (start, start + length)) for m in found):
                    found.append(Match(fitting[0], (start, start + length)))
        return sorted(found, key=lambda match: match.span)

    def edit(
        self, matches: Sequence[Match], words: Sequence[str], links: Links, fixed: int, tokens: bool
    ) -> Edited:
        """See that the required terms are in the translation `words`.

        `links` are (source token, target word). The first `fixed` words stay as they are. `tokens`:
        write the terms as tokens.
        """
        own = [{i for j, i in links if m.span[0] <= j < m.span[1]} for m in matches]
        rest = [{i for j, i in links if not m.span[0] <= j < m.span[1]} for m in matches]
        places: list[Span | None] = [None] * len(matches)
        kept = put = 0
        taken: set[int] = set()
        # First what stands where it should, in whatever case; then what stands anywhere else.
        for strict in (False, True):
            for m, match in enumerate(matches):
                where = longest_run(own[m], rest[m])
                if places[m] is None:
                    places[m] = self._standing(match.term, words, where, taken, strict)
                    taken.update(range(*(places[m] or (0, 0))))
                    kept += places[m] is not None
        locked = set(range(fixed))
        for m in range(len(matches)):
            if places[m] is None:
                barred = taken | locked
                places[m] = longest_run(own[m] - barred, rest[m] | barred)
                taken.update(range(*(places[m] or (0, 0))))
                put += places[m] is not None
        changes = {
            place: self._spelled(match.term, words, place, tokens)
            for match, place in zip(matches, places, strict=True)
            if place is not None and place[0] >= fixed
        }
        count = TermCount(kept, put, len(matches) - kept - put)
        return Edited(*_replaced(words, changes), count)

    def _standing(
        self,
        term: Term,
        words: Sequence[str],
        where: Span | None,
        taken: set[int],
        strict: bool,
    ) -> Span | None:
        """Where the translation has the term: unless `strict`, over `where` and in any case."""
        length = len(term.target)
        exact = (term.target, tuple(self._target.fold(term.target)))
        for start in range(len(words) - length + 1):
            span = start, start + length
            if not taken.isdisjoint(range(*span)):
                continue
            written = tuple(words[start : start + length])
            if strict and (written in exact or (start == 0 and written == _capital(term.target))):
                return span
            near = where is not None and _overlap(span, where)
            if not strict and near and _lower(written) == _lower(term.target):
                return span
        return None

    def _spelled(self, term: Term, words: Sequence[str], place: Span, tokens: bool) -> str | None:
        """The term as it is to stand there; None where it does already.

        It begins with a capital, as the first word did, at the start of the line.
        """
        capital = place[0] == 0 and words[0][:1] != words[0][:1].lower()
        target = _capital(term.target) if capital else term.target
        if tuple(words[slice(*place)]) == target:
            return None
        text = " ".join(term.target) if tokens else term.text.strip()
        return text[:1].upper() + text[1:] if capital else text


def _replaced(
    words: Sequence[str], changes: Mapping[Span, str | None]
) -> tuple[list[str], list[int]]:
    """The words with one in the place of every changed span; also where every former one went."""
    new = {start: (end, word) for (start, end), word in changes.items() if word is not None}
    edited: list[str] = []
    moved: list[int] = []
    while len(moved) < len(words):
        end, word = new.get(len(moved), (len(moved) + 1, words[len(moved)]))
        moved += [len(edited)] * (end - len(moved))
        edited.append(word)
    return edited, moved


def _lower(tokens: Sequence[str]) -> tuple[str, ...]:
    return tuple(token.lower() for token in tokens)


def _capital(tokens: Sequence[str]) -> tuple[str, ...]:
    return (tokens[0][:1].upper() + tokens[0][1:], *tokens[1:])


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
