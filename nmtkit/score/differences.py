"""The sentence pairs in which two systems differ most."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nmtkit.links import Gold, Link, Links
from nmtkit.score.links import AlignmentScore, Sentence, score_sentence

Marked = dict[Link, str]  # "sure", "possible" or "wrong", as gold has it; sorted by link


@dataclass(frozen=True)
class Difference:
    """One sentence pair: the scores of two systems, and the links that only one of them has."""

    sentence: Sentence
    scores: tuple[AlignmentScore, AlignmentScore]
    only: tuple[Marked, Marked]

    @property
    def size(self) -> int:
        """By how many errors (wrong + missed, AER's numerator) the systems differ."""
        return abs(self.scores[0].errors - self.scores[1].errors)

    def words(self, link: Link) -> tuple[str, str] | None:
        """The two tokens of a link, where the texts are known."""
        source, target = self.sentence.source, self.sentence.target
        if source is None or target is None:
            return None
        return source[link[0]], target[link[1]]

    def to_json(self) -> dict[str, Any]:
        """Lists of two have the first system's value, then the second's."""
        return {
            "sentence": self.sentence.number,
            "source": self.sentence.source,
            "target": self.sentence.target,
            "aer": [score.aer for score in self.scores],
            "wrong": [score.wrong for score in self.scores],
            "missed": [score.missed for score in self.scores],
            "only": [self._listed(side) for side in self.only],
        }

    def _listed(self, links: Marked) -> list[dict[str, Any]]:
        return [
            {"link": link, "gold": mark, "words": self.words(link)} for link, mark in links.items()
        ]


def differences(
    sentences: Iterable[Sentence], most: int, systems: tuple[int, int] = (0, 1)
) -> list[Difference]:
    """At most ``most`` sentence pairs in which two of the systems differ, most different first.

    They differ by their numbers of errors: that is how much a sentence pair contributes to the
    difference of the corpus's AERs. (The AERs of single sentences would put the shortest on top.)
    Ties are in the order of the text; pairs with equally many errors are left out.
    """
    found = (_difference(sentence, *systems) for sentence in sentences)
    differing = (one for one in found if one.size)
    return heapq.nlargest(most, differing, key=lambda one: one.size)


def _difference(sentence: Sentence, first: int, second: int) -> Difference:
    one, other = sentence.links[first], sentence.links[second]
    gold = sentence.gold
    scores = score_sentence(one, gold), score_sentence(other, gold)
    return Difference(sentence, scores, (_marked(one - other, gold), _marked(other - one, gold)))


def _marked(links: Links, gold: Gold) -> Marked:
    return {link: _mark(link, gold) for link in sorted(links)}


def _mark(link: Link, gold: Gold) -> str:
    if link in gold.sure:
        return "sure"
    return "possible" if link in gold.possible else "wrong"
