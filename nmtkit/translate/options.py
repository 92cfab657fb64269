"""What to make of a line, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nmtkit.align import Aligned, AlignOptions
from nmtkit.batches import BatchSize
from nmtkit.links import Links
from nmtkit.search import SearchOptions


@dataclass(frozen=True)
class TranslateOptions:
    """How to search and what to make of the hypotheses."""

    search: SearchOptions = field(default_factory=SearchOptions)
    align: AlignOptions = field(default_factory=AlignOptions)
    links: bool = False  # also link every output to its source line
    replace_unknown: bool = False  # UNK becomes the source word it attends to most …
    dictionary: Mapping[str, str] = field(default_factory=dict)  # … or that word's entry here
    tokenized: bool = False  # leave the output as tokens
    #: Source word -> target words, the most probable first: search among these (shortlist.py).
    shortlist: Mapping[str, Sequence[str]] = field(default_factory=dict)
    int8: bool = False  # weights and what they multiply rounded to 8 bits: faster on a CPU
    batch: BatchSize = field(default_factory=BatchSize.of_search)
    read_ahead: int = 5000  # lines sorted by length together
    glossary: Mapping[str, str] = field(default_factory=dict)  # source term -> target term
    markup: bool = False  # lines hold XML or HTML tags, which come out around the linked words
    attention: bool = False  # also give the attention of every output

    def __post_init__(self) -> None:
        if self.markup and self.links:
            raise ValueError("links are of lines without tags: they do not go with markup")
        if self.shortlist and self.search.sampling:
            raise ValueError("a shortlist is for beams: it does not go with sampling")

    @property
    def reads_attention(self) -> bool:
        """Whether anything is made of the model's attention."""
        return bool(
            self.links or self.replace_unknown or self.glossary or self.markup or self.attention
        )


class TermCount(NamedTuple):
    """How many terms of the glossary a source line has, by what became of them."""

    present: int = 0  # the translation had the target term already
    put: int = 0  # it took the place of the words linked to the source term
    missing: int = 0  # no word that it may replace is linked to the source term

    def __add__(self, other: object) -> TermCount:
        """The sum, count by count."""
        if not isinstance(other, TermCount):
            return NotImplemented
        return TermCount(*map(sum, zip(self, other, strict=True)))


@dataclass(frozen=True)
class Output:
    """One translation of a line; links are between the space-separated tokens of both lines.

    `aligned` has the model's own tokens of both sides and the attention between them.
    """

    text: str
    log_prob: float = 0.0
    value: float = 0.0
    links: Links = frozenset()
    aligned: Aligned | None = field(default=None, compare=False)
    terms: TermCount = field(default_factory=TermCount)
