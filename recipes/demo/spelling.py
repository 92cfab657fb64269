"""From words to written sentences: elision, contraction, capitals, spaces, links.

Words are objects, so that a French word can name the English words it translates before either
has a position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

VOWELS = frozenset("aeiouhàâéèêëîïôûœ")
ELIDED = frozenset({"le", "la", "je", "ne", "que", "de", "me", "se"})
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
# English words that begin with a vowel letter but not with a vowel
CONSONANT_SOUND = ("eu", "uni", "use")
MARKS = frozenset({",", ".", "?"})


@dataclass(eq=False)
class English:
    """One English word; its identity, not its text, is what links refer to."""

    text: str


@dataclass(frozen=True)
class French:
    """One French word with the English words it is linked to, surely or possibly.

    A leading star in ``text`` forbids elision before the word. An ``article`` contracts with "de"
    and "à".
    """

    text: str
    sure: tuple[English, ...] = ()
    possible: tuple[English, ...] = ()
    article: bool = False

    @property
    def vowel(self) -> bool:
        """Whether the word begins with a vowel sound."""
        return self.text[0].lower() in VOWELS


@dataclass(frozen=True)
class Pair:
    """A tokenised sentence pair with its gold links, and the phenomena it shows.

    ``sure`` and ``possible`` are disjoint sets of 0-based (English, French) positions.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]
    phenomena: frozenset[str]

    @property
    def source_text(self) -> str:
        """The English line as people write it."""
        return join(self.source, frozenset({",", ".", "?", "%"}))

    @property
    def target_text(self) -> str:
        """The French line as people write it (a space before "?" and "%")."""
        return join(self.target, frozenset({",", "."}))

    @property
    def gold(self) -> str:
        """The links in the talp format: ``i-j`` sure, ``ipj`` possible."""
        marked = [(i, j, "-") for i, j in self.sure] + [(i, j, "p") for i, j in self.possible]
        return " ".join(f"{i}{mark}{j}" for i, j, mark in sorted(marked))


def join(tokens: Iterable[str], closing: frozenset[str]) -> str:
    """Tokens to text: no space before ``closing`` marks, none after an apostrophe."""
    text = ""
    for token in tokens:
        glued = not text or text.endswith("'") or token in closing
        text += token if glued else f" {token}"
    return text


def contract(words: Sequence[French]) -> list[French]:
    """Merge "de" and "à" with a following article: "de le" is "du", unless the article elides."""
    written: list[French] = []
    for word, following in zip(words, [*words[1:], French(".")], strict=True):
        before = written[-1].text if written else ""
        merged = CONTRACTED.get((before, word.text)) if word.article else None
        if merged and not (word.text == "le" and following.vowel):
            possible = (*written[-1].possible, *word.sure, *word.possible)
            written[-1] = replace(written[-1], text=merged, possible=possible)
        else:
            written.append(word)
    return written


def elide(words: Sequence[French]) -> list[French]:
    """Cut the last vowel of "le", "ne", ... before a vowel sound, and of "si" before "il"."""
    written = []
    for word, following in zip(words, [*words[1:], French(".")], strict=True):
        cut = word.text in ELIDED and following.vowel
        cut = cut or (word.text == "si" and following.text in {"il", "ils"})
        written.append(replace(word, text=word.text[:-1] + "'") if cut else word)
    return written


def capital(text: str) -> str:
    """The text with its first letter capital."""
    return text[:1].upper() + text[1:]


def indefinite(words: Sequence[English]) -> None:
    """Write "an" for "a" before a vowel sound, in place."""
    for word, following in pairwise(words):
        start = following.text.lower()
        vowel = start[0] in "aeiou" and not start.startswith(CONSONANT_SOUND)
        if word.text == "a" and (vowel or start == "honest"):
            word.text = "an"


def write(english: Sequence[English], french: Sequence[French], phenomena: Iterable[str]) -> Pair:
    """Spell both sentences out and turn the links into positions."""
    indefinite(english)
    words = elide(contract(french))
    where = {id(word): i for i, word in enumerate(english)}
    sure = {(where[id(e)], j) for j, word in enumerate(words) for e in word.sure}
    possible = {(where[id(e)], j) for j, word in enumerate(words) for e in word.possible}
    source = [word.text for word in english]
    target = [word.text.lstrip("*") for word in words]
    source[0], target[0] = capital(source[0]), capital(target[0])
    links = frozenset(sure), frozenset(possible - sure)
    return Pair(tuple(source), tuple(target), *links, frozenset(phenomena))
