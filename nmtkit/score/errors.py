r"""Where and why links are wrong: by kind of error, and by class of the words that they join.

Links A, sure links S, possible links P. Every wrong link (A\P) and every missed one (S\A) is
of one kind, and every link of A and P in one class of every classifier, so the parts add up to the
score of the whole. All is symmetric: "a word" is the source or the target word of the link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from nmtkit.errors import UserError
from nmtkit.links import Gold, Link, Links
from nmtkit.score.links import AlignmentScore, Sentence, score_sentence

# --------------------------------------------------------------------------------- error kinds


class _Fertility:
    """How many links the words of each side have."""

    def __init__(self, links: Links) -> None:
        self.sides = Counter(s for s, _ in links), Counter(t for _, t in links)

    def of(self, link: Link) -> tuple[int, int]:
        """Of the source word and of the target word of ``link``."""
        return self.sides[0][link[0]], self.sides[1][link[1]]


class _Evidence(NamedTuple):
    """The sentence around an erroneous link: fertilities in A, in P, and in A∩P."""

    links: _Fertility
    gold: _Fertility
    right: _Fertility


Kinds = dict[str, Callable[[Link, _Evidence], bool]]


def _partly_right(link: Link, evidence: _Evidence) -> bool:
    return any(evidence.right.of(link))


# The first kind that fits is the one: "elsewhere" is what is left.
WRONG: Kinds = {
    # a word that gold leaves unaligned (NULL) was linked
    "unaligned in gold": lambda link, evidence: not all(evidence.gold.of(link)),
    # beside a right link of one of its words
    "in addition": _partly_right,
    # both words have gold links, and none of those was found
    "elsewhere": lambda link, evidence: True,
}
MISSED: Kinds = {
    # another gold link of one of its words was found: a group of words found in part
    "in part": _partly_right,
    # a word was left unaligned
    "unaligned": lambda link, evidence: not all(evidence.links.of(link)),
    # both words were linked, and wrongly
    "elsewhere": lambda link, evidence: True,
}


def _kind(link: Link, kinds: Kinds, evidence: _Evidence) -> str:
    return next(name for name, fits in kinds.items() if fits(link, evidence))


# -------------------------------------------------------------------------------- word classes


class _View(NamedTuple):
    """A sentence pair as classifiers see it; (source, target) of everything."""

    tokens: tuple[Sequence[str], Sequence[str]]
    frequencies: tuple[Mapping[str, int], Mapping[str, int]]  # in the whole text scored
    gold: _Fertility


FREQUENCIES = {1: "1", 10: "2-10", 100: "11-100"}  # most often -> class
FREQUENT = "over 100"


def _frequency(link: Link, view: _View, side: int) -> str:
    count = view.frequencies[side][view.tokens[side][link[side]]]
    return next((name for most, name in FREQUENCIES.items() if count <= most), FREQUENT)


def _character(link: Link, view: _View, side: int) -> str:
    token = view.tokens[side][link[side]]
    if any(character.isdigit() for character in token):
        return "number"
    return "word" if any(character.isalpha() for character in token) else "punctuation"


DISTANCES = {0.1: "under 0.1", 0.25: "0.1-0.25"}  # below -> class
FAR = "0.25 and more"


def _distance(link: Link, view: _View) -> str:
    """How far the words' middles are apart on sentences of length 1: 0 is the diagonal."""
    source, target = ((at + 0.5) / len(tokens) for at, tokens in zip(link, view.tokens))
    return next((name for limit, name in DISTANCES.items() if abs(source - target) < limit), FAR)


def _fertility(link: Link, view: _View) -> str:
    """Source words to target words, by how many possible links each of the two words has."""
    source, target = view.gold.of(link)
    if not source or not target:
        return "unaligned"
    return f"{'1' if target == 1 else 'n'}-{'1' if source == 1 else 'n'}"


class Classifier(NamedTuple):
    """``classes`` in the order to show them, and which of them a link in its sentence has."""

    classes: tuple[str, ...]
    of: Callable[[Link, _View], str]


_OFTEN = (*FREQUENCIES.values(), FREQUENT)
_CHARACTERS = ("word", "number", "punctuation")

# No tagger is needed, so every language has them.
CLASSES: dict[str, Classifier] = {
    "source frequency": Classifier(_OFTEN, partial(_frequency, side=0)),
    "target frequency": Classifier(_OFTEN, partial(_frequency, side=1)),
    "source characters": Classifier(_CHARACTERS, partial(_character, side=0)),
    "target characters": Classifier(_CHARACTERS, partial(_character, side=1)),
    "distance from diagonal": Classifier((*DISTANCES.values(), FAR), _distance),
    "words in gold": Classifier(("1-1", "1-n", "n-1", "n-n", "unaligned"), _fertility),
}

# ----------------------------------------------------------------------------------- breakdown


@dataclass(frozen=True)
class Breakdown:
    """The errors of one system. ``sentences`` in a class are those that have a link in it."""

    wrong: dict[str, int]  # by kind, as in WRONG
    missed: dict[str, int]  # by kind, as in MISSED
    classes: dict[str, dict[str, AlignmentScore]]  # classifier -> class -> its links' score

    def to_json(self) -> dict[str, Any]:
        """Counts of the kinds, and every class's score."""
        classes = {
            name: {label: score.to_json() for label, score in scores.items()}
            for name, scores in self.classes.items()
        }
        return {"wrong": self.wrong, "missed": self.missed, "classes": classes}


def break_down(sentences: Sequence[Sentence], system: int = 0) -> Breakdown:
    """The errors of one of the systems by kind and by class.

    Raises UserError when the sentences have no tokens.
    """
    frequencies = (
        Counter(token for one in sentences for token in _tokens(one)[0]),
        Counter(token for one in sentences for token in _tokens(one)[1]),
    )
    wrong, missed = Counter(dict.fromkeys(WRONG, 0)), Counter(dict.fromkeys(MISSED, 0))
    classes = {
        name: dict.fromkeys(classifier.classes, AlignmentScore())
        for name, classifier in CLASSES.items()
    }
    for one in sentences:
        links, gold = one.links[system], one.gold
        fertility = _Fertility(gold.possible)
        evidence = _Evidence(_Fertility(links), fertility, _Fertility(links & gold.possible))
        wrong.update(_kind(link, WRONG, evidence) for link in links - gold.possible)
        missed.update(_kind(link, MISSED, evidence) for link in gold.sure - links)
        view = _View(_tokens(one), frequencies, fertility)
        for name, classifier in CLASSES.items():
            for label, group in _groups(links | gold.possible, classifier, view).items():
                classes[name][label] += _restricted(links, gold, group)
    return Breakdown(dict(wrong), dict(missed), classes)


def _tokens(sentence: Sentence) -> tuple[Sequence[str], Sequence[str]]:
    if sentence.source is None or sentence.target is None:
        raise UserError("errors are told by word class: give the words by --source and --target")
    return sentence.source, sentence.target


def _groups(links: Iterable[Link], classifier: Classifier, view: _View) -> dict[str, set[Link]]:
    groups: dict[str, set[Link]] = defaultdict(set)
    for link in links:
        groups[classifier.of(link, view)].add(link)
    return groups


def _restricted(links: Links, gold: Gold, group: set[Link]) -> AlignmentScore:
    return score_sentence(links & group, Gold(gold.sure & group, gold.possible & group))
