"""TMX, the exchange format of translation memories (LISA OSCAR, versions 1.1 to 1.4b), as a stream.

A ``tu`` (translation unit) holds a ``tuv`` for every language, and that a ``seg``: the text, with
the codes of some other format in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from xml.parsers import expat

from nmtkit.corpus.streams import read_blocks
from nmtkit.errors import UserError

CODES = frozenset(["bpt", "ept", "it", "ph", "ut"])  # what they hold is no text of the sentence
SHOWN = 10  # languages of a file in an error line
#: Beyond these a file is no translation memory: it would only fill the memory.
LARGEST = 1 << 23  # characters of a unit with its variants, bytes of a tag or comment
DEEPEST = 1000  # elements within elements
MOST_NAMES = 10_000  # different names of elements and attributes
VARIANT = 100  # characters that a variant counts besides its own
_SPACE = re.compile("[ \t\r\n]+")  # XML's; line breaks in a seg are layout


def read_tmx(path: Path, source_lang: str, target_lang: str) -> Iterator[tuple[str, str]]:
    """The pairs of the translation units that have both languages, in the order of the file.

    A language is named by the ``xml:lang`` (or, before 1.4, ``lang``) of a ``tuv``, in capitals or
    not; "en" takes in "en-US", "en_GB" and so on. Where a unit has several variants of a language,
    the first source goes with the first target, the second with the second …; the side with fewer
    repeats its last. Codes are left out with their contents (a ``sub`` too); the text of any other
    element in a ``seg`` (``hi``) is kept. Runs of white space are one space. Memory grows with the
    longest unit, not with the file.

    Raises UserError, with the line, for malformed XML, an entity that the file declares or does
    not declare, an encoding that is not there, a ``tuv`` without a language, and when no unit has
    both languages.
    """
    memory = _Memory(path, source_lang, target_lang)
    for block in read_blocks(path):
        memory.parse(block)
        yield from memory.taken()
    memory.parse(b"", last=True)
    if not memory.pairs:
        seen = ", ".join(sorted(memory.languages)) or "none"
        raise UserError(
            f"{path}: no translation unit has both {source_lang} and {target_lang} "
            f"(languages found: {seen})"
        )


class _Memory:
    """The state between two events of the parser."""

    def __init__(self, path: Path, *languages: str) -> None:
        self.path = path
        self.wanted = [language.lower().replace("_", "-") for language in languages]
        self.languages: set[str] = set()  # the first few that the file names
        self.pairs = 0
        self._found: list[tuple[str, str]] = []
        self._unit: tuple[list[str], list[str]] = ([], [])  # the variants of either side
        self._sides: list[int] = []  # of this tuv: none, one, or both where the languages overlap
        self._text: list[str] | None = None  # in a seg of such a tuv
        self._codes = 0  # how many code elements are open
        self._depth = 0
        self._size = 0  # of this unit
        self._bytes = 0  # that the parser has been given
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.specified_attributes = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = self._declared
        parser.SkippedEntityHandler = self._skipped

    def parse(self, block: bytes, last: bool = False) -> None:
        self._bytes += len(block)
        try:
            self._parser.Parse(block, last)
        except expat.ExpatError as error:
            what = expat.ErrorString(error.code)
            raise UserError(f"{self.path}:{error.lineno}: malformed XML ({what})") from error
        except (LookupError, ValueError) as error:  # by Python's side of the parser
            raise UserError(
                f"{self._here}: unusable encoding ({error}): convert the file to UTF-8"
            ) from error
        if self._bytes - self._parser.CurrentByteIndex > LARGEST:  # in a tag without end
            raise self._too_large()

    def taken(self) -> list[tuple[str, str]]:
        """The pairs found since the last call."""
        found, self._found = self._found, []
        return found

    @property
    def _here(self) -> str:
        return f"{self.path}:{self._parser.CurrentLineNumber}"

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEEPEST or len(self._parser.intern) > MOST_NAMES:
            raise self._too_large()
        if self._depth == 1 and name != "tmx":
            raise UserError(f"{self._here}: not TMX: the root is <{name}>, not <tmx>")
        if name == "tu":
            self._unit = ([], [])
            self._size = 0
        elif name == "tuv":
            self._grow(VARIANT)
            self._sides = self._sides_of(attributes)
        elif name == "seg":
            self._text = [] if self._sides else None
            self._codes = 0
        elif name in CODES:
            self._codes += 1

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name in CODES:
            self._codes -= 1
        elif name == "seg" and self._text is not None:
            text = _SPACE.sub(" ", "".join(self._text)).strip(" ")
            for side in self._sides:
                self._unit[side].append(text)
            self._text = None
        elif name == "tuv":
            self._sides = []
        elif name == "tu":
            self._pair_up()

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._grow(len(text))
            self._text.append(text)

    def _pair_up(self) -> None:
        sources, targets = self._unit
        if sources and targets:
            last = sources[-1], targets[-1]
            for source, target in zip_longest(sources, targets):
                source = last[0] if source is None else source
                self._found.append((source, last[1] if target is None else target))
            self.pairs += max(len(sources), len(targets))
        self._unit = ([], [])

    def _sides_of(self, attributes: dict[str, str]) -> list[int]:
        name = attributes.get("xml:lang") or attributes.get("lang")
        if not name:
            raise UserError(f"{self._here}: a <tuv> has no xml:lang")
        if len(self.languages) < SHOWN:
            self.languages.add(name)
        language = name.lower().replace("_", "-")
        return [
            side
            for side, wanted in enumerate(self.wanted)
            if language == wanted or language.startswith(f"{wanted}-")
        ]

    def _grow(self, characters: int) -> None:
        self._size += characters
        if self._size > LARGEST:
            raise self._too_large()

    def _too_large(self) -> UserError:
        return UserError(
            f"{self._here}: a unit of more than {LARGEST} characters, more than {DEEPEST} elements "
            f"within each other, or more than {MOST_NAMES} names: that is no translation memory"
        )

    def _declared(self, name: str, *_: object) -> None:
        raise UserError(
            f"{self._here}: the file declares an entity ({name!r}), which TMX never needs: "
            f"remove it"
        )

    def _skipped(self, name: str, *_: object) -> None:
        raise UserError(
            f"{self._here}: the entity &{name}; is not declared: write the character itself"
        )
