"""Inline markup: taken out of a line before it is translated, and put around the linked words.

An element comes out around the stretch from the first to the last word that is linked to its words
(Hanneman and Dinu, 2020), cut off where words of a sibling begin, so that elements never cross. One
without words, or whose words are not linked, stays with the word that it touches in the source.
Nothing but tags is ever inserted, so that the text is the same as without markup.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.entities import html5

from nmtkit.errors import UserError
from nmtkit.links import Links
from nmtkit.translate.places import Span, longest_run, token_spans

DEEPEST = 100  # elements within elements
MOST = 2000  # elements of a line; placing them takes time with the square of their number
EMPTY = {"br", "hr", "img", "input", "wbr"}  # HTML elements that are never closed
BREAKS = {"br", "hr"}  # and those that part words

_ATTRIBUTE = r"""\s+[^\s"'<>/=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?"""
_PART = re.compile(
    rf"""(?P<comment><!--.*?-->|<\?.*?\?>)
    |</(?P<closing>[A-Za-z_:][^\s<>/]*)\s*>
    |<(?P<opening>[A-Za-z_:][^\s<>/="']*)(?:{_ATTRIBUTE})*\s*(?P<empty>/?)>
    |(?P<entity>&(?:\#[0-9]+|\#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);)
    |(?P<text>[^<&]+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass
class Element:
    """Tags as they were written, and the characters of the text between them.

    The whole line is an element without tags. A tag that stands alone has no closing one.
    """

    opening: str
    start: int
    end: int = -1
    closing: str = ""
    children: list[Element] = field(default_factory=list)


@dataclass(frozen=True)
class Marked:
    """A line's text without its markup, entities resolved, and what the markup was."""

    text: str
    root: Element

    def around(self, tokens: Sequence[str], text: str, words: Sequence[str], links: Links) -> str:
        """The translation `text`, escaped, with the tags in it.

        `tokens` were cut from the source, `words` stand in `text`, links are (token, word).
        """
        source, target = token_spans(self.text, tokens), token_spans(text, words)
        whole = _Place((0, len(words)), (0, len(text)))
        placing = _Placing(self.text, text, source, target, links)
        return "".join(placing.written(self.root, list(range(len(tokens))), whole))


def parse(line: str, where: str) -> Marked:
    """The text and the elements of a line that is well-formed by itself.

    Tags, comments and instructions are XML's, or HTML's: attributes may lack quotes or a value,
    and br, hr, img, input and wbr are never closed. Raises UserError "FILE:LINE: …" for any other.
    """
    text: list[str] = []
    length = place = elements = 0
    root = Element("", 0)
    opened = [(root, "")]
    while place < len(line):
        part = _PART.match(line, place)
        if part is None:
            sign, entity = line[place], "&lt;" if line[place] == "<" else "&amp;"
            raise UserError(
                f"{where}: no tag or entity begins at character {place + 1} "
                f"({line[place : place + 20]!r}): write {sign} itself as {entity}"
            )
        place = part.end()
        piece = part["text"] or ""
        if part["entity"]:
            piece = _character(part["entity"], where)
        elif part["closing"]:
            element, name = opened.pop()
            if part["closing"] != name:
                expected = f"</{name}> must come first" if name else "nothing is open there"
                raise UserError(f"{where}: {part[0]} closes nothing: {expected}")
            element.end, element.closing = length, part[0]
        elif part["comment"] or part["opening"]:
            element = Element(part[0], length, length)
            opened[-1][0].children.append(element)
            elements += 1
            if elements > MOST:
                raise UserError(f"{where}: more than {MOST} elements: cut the line into sentences")
            name = part["opening"] or ""
            if name.lower() in BREAKS and text and not text[-1][-1:].isspace():
                piece = " "
            elif name and not part["empty"] and name.lower() not in EMPTY:
                opened.append((element, name))
            if len(opened) > DEEPEST + 1:
                raise UserError(f"{where}: more than {DEEPEST} elements within each other")
        if piece:
            text.append(piece)
            length += len(piece)
    if len(opened) > 1:
        raise UserError(f"{where}: <{opened[-1][1]}> is not closed: lines stand by themselves")
    root.end = length
    return Marked("".join(text), root)


def _character(entity: str, where: str) -> str:
    if entity[1] != "#" and entity[1:] not in html5:
        raise UserError(f"{where}: unknown entity {entity}: write & itself as &amp;")
    return html.unescape(entity)


@dataclass(frozen=True)
class _Place:
    """Where an element goes: words of the translation, and characters of its text."""

    words: Span
    characters: Span


@dataclass(frozen=True)
class _Placing:
    """What is needed to put tags into one translation."""

    source_text: str
    text: str
    source: list[Span]
    target: list[Span]
    links: Links

    def written(self, element: Element, tokens: list[int], place: _Place) -> Iterator[str]:
        """The element with all that is in it. `tokens` are the source's that belong to it."""
        yield element.opening
        start, end = place.characters
        for child, inner, within in self._children(element, tokens, place):
            yield html.escape(self.text[start : within.characters[0]], quote=False)
            yield from self.written(child, inner, within)
            start = within.characters[1]
        yield html.escape(self.text[start:end], quote=False)
        yield element.closing

    def _children(
        self, element: Element, tokens: list[int], place: _Place
    ) -> list[tuple[Element, list[int], _Place]]:
        """The elements directly within, with their tokens and places, in the order of places."""
        inner: list[list[int]] = []  # disjoint too: of a token that tags cut up
        left = tokens
        for child in element.children:
            inner.append([token for token in left if self._has(child, token)])
            left = [token for token in left if token not in inner[-1]]
        of_words: list[set[int]] = []  # disjoint: a word is of the first child it is linked to
        for owned in inner:
            of_words.append(self._linked(owned, place).difference(*of_words))
        every: set[int] = set().union(*of_words)
        places: list[_Place | None] = []
        for owned, own in zip(inner, of_words, strict=True):
            run = longest_run(own, every - own)
            if owned and len(owned) == len(tokens):
                places.append(place)  # also around words that nothing is linked to
            elif run is None:
                places.append(None)
            else:
                characters = self.target[run[0]][0], self.target[run[1] - 1][1]
                places.append(_Place(run, characters))
        found = []
        for child, owned, where in zip(element.children, inner, places, strict=True):
            if where is None:
                taken = [other.characters for other in places if other is not None]
                point = self._point(child, owned, tokens, place, taken)
                where = _Place((0, 0), (point, point))
            found.append((child, owned, where))
        return sorted(found, key=lambda one: one[2].characters)

    def _has(self, element: Element, token: int) -> bool:
        start, end = self.source[token]
        return start < element.end and end > element.start

    def _linked(self, tokens: Sequence[int], place: _Place) -> set[int]:
        """The words within the place that are linked to the tokens."""
        wanted = set(tokens)
        return {i for j, i in self.links if j in wanted and place.words[0] <= i < place.words[1]}

    def _point(
        self, child: Element, owned: list[int], tokens: list[int], place: _Place, taken: list[Span]
    ) -> int:
        """The character before which an element without words stands.

        After the word before it, or before the word after it where it touches only that; at the
        start or end of its parent as in the source; never inside a sibling.
        """
        before = [t for t in tokens if self.source[t][0] < child.start and t not in owned]
        after = [t for t in tokens if self.source[t][0] >= child.start and t not in owned]
        if not before or not after:
            return place.characters[bool(before)]
        backward = self._at(reversed(before), place, 1)
        forward = self._at(after, place, 0)
        around = self.source_text[child.start - 1 : child.start], self.source_text[child.end :][:1]
        leans_forward = around[0].isspace() and not around[1].isspace()
        point = forward if backward is None or (leans_forward and forward is not None) else backward
        if point is None:
            return place.characters[0]
        for start, end in taken:
            if start < point < end:
                return start if point == forward else end
        return point

    def _at(self, tokens: Iterator[int] | list[int], place: _Place, side: int) -> int | None:
        """The start (side 0) or end (1) of the words linked to the first token that has any."""
        for token in tokens:
            words = self._linked([token], place)
            if words:
                return self.target[(min, max)[side](words)][side]
        return None
