"""Noun phrases: determiners, agreeing adjectives, chains, names; and the dice that choose."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import tables
from lexicon import ADJECTIVES, NOUNS, Adjective, Noun
from spelling import English, French, capital

T = TypeVar("T")

# The role of a noun decides what French does for a missing article, and for "a".
SUBJECT = "subject"  # or object of a generic verb: the kind is meant, "l'eau", "les lettres"
OBJECT = "object"  # "de l'eau", "des lettres", "de vieilles lettres"
NEGATED = "negated"  # object of a negated verb: "pas d'eau", "pas de lettre"
OF = "of"  # after "de": no article

# Determiners that some places do not want
NONE: frozenset[str] = frozenset()
BARE = frozenset({"bare"})
DEFINITE = frozenset({"the", "this", "possessive", "each", "all", "the numeral"})


class Dice:
    """Choices from ``random.Random.random`` alone, whose sequence no Python version changes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.between(0, len(choices) - 1)]

    def weighted(self, choices: Sequence[tuple[T, float]]) -> T:
        """One of the choices, with probability proportional to its weight."""
        left = self._random.random() * sum(weight for _, weight in choices)
        for choice, weight in choices:
            left -= weight
            if left < 0:
                return choice
        return choices[-1][0]


@dataclass
class NounPhrase:
    """A phrase in both languages and what agreement needs to know about it.

    ``person`` indexes (je, il, nous, vous, ils). ``determiner`` is "" for pronouns and names;
    ``noun`` is the English noun, "name" for names, "" for pronouns.
    """

    english: list[English]
    french: list[French]
    kind: str
    feminine: bool = False
    plural: bool = False
    person: int = 1
    determiner: str = ""
    noun: str = ""
    coordinated: bool = False

    @property
    def pronouns(self) -> tuple[str, str, str, str]:
        """The pronouns that mean it: English subject and object, French subject and object."""
        if self.plural:
            return "they", "them", "elles" if self.feminine else "ils", "les"
        if self.kind == "P":
            names = ("she", "her") if self.feminine else ("he", "him")
        else:
            names = ("it", "it")
        return *names, *(("elle", "la") if self.feminine else ("il", "le"))


@dataclass
class Group:
    """Adjectives and noun, before the determiner is chosen."""

    english: list[English]
    french: list[French]
    head: English
    feminine: bool
    plural: bool
    adjective_first: bool = False


def adjective(word: Adjective, feminine: bool, plural: bool) -> tuple[English, French]:
    """An adjective in both languages, agreeing."""
    english = English(word.english)
    return english, French(word.form(feminine, plural), (english,))


def common_group(noun: Noun, plural: bool, adjectives: Sequence[Adjective]) -> Group:
    """Noun with adjectives, in English order before, after, relational: "new important economic".

    French puts the relational adjective next to the noun and the other one after that.
    """
    head = English(noun.plural if plural else noun.singular)
    name = French(noun.french_plural if plural else noun.french_singular, (head,))
    english: list[English] = []
    before: list[French] = []
    after: list[French] = []
    for word in adjectives:
        one, un = adjective(word, noun.feminine, plural)
        english.append(one)
        if word.place == "before":
            liaison = word.liaison and name.vowel and not noun.feminine and not plural
            before.append(French(word.liaison, (one,)) if liaison else un)
        else:
            after.insert(0, un)
    french = [*before, name, *after]
    return Group([*english, head], french, head, noun.feminine, plural, bool(before))


def chain_group(
    modifiers: Sequence[tuple[str, ...]],
    noun: Noun,
    plural: bool,
    adjectives: Sequence[Adjective],
) -> Group:
    """A chain of nouns, turned round: "energy market reform", "réforme du marché de l'énergie".

    ``modifiers`` in English order, each (English, French article or "-", French noun, gender).
    """
    group = common_group(noun, plural, adjectives)
    english = [English(modifier[0]) for modifier in modifiers]
    governor = group.head
    for one, (_, article, name, *_) in reversed(list(zip(english, modifiers, strict=True))):
        group.french.append(French("de", possible=(governor, one)))
        if article != "-":
            group.french.append(French(article, possible=(one,), article=True))
        group.french.append(French(name, (one,)))
        governor = one
    group.english[-1:] = [*english, group.head]
    return group


def definite(
    group: Group, sure: tuple[English, ...] = (), possible: tuple[English, ...] = ()
) -> French:
    """The definite article that agrees with the group (elision comes later)."""
    text = "les" if group.plural else "la" if group.feminine else "le"
    return French(text, sure, possible, article=True)


def determine(
    name: str, group: Group, role: str, choice: int = 0
) -> tuple[list[English], list[French]]:
    """The determiner ``name`` in both languages; ``choice`` selects a possessive or numeral."""
    if name == "bare":
        return [], _bare(group, role)
    if name == "the":
        the = English("the")
        return [the], [definite(group, (the,))]
    if name == "a":
        one = English("a")
        if role == NEGATED:
            return [one], [French("de", possible=(one, group.head))]
        return [one], [French("une" if group.feminine else "un", (one,))]
    if name == "all":
        both = English("all"), English("the")
        return list(both), [
            French("toutes" if group.feminine else "tous", both[:1]),
            definite(group, both[1:]),
        ]
    if name == "the numeral":
        the, number = English("the"), _numeral(choice)
        return [the, number[0]], [definite(group, (the,)), number[1]]
    if name == "numeral":
        number = _numeral(choice)
        return [number[0]], [number[1]]
    if name == "possessive":
        english, masculine, feminine, plural = tables.POSSESSIVES[choice % len(tables.POSSESSIVES)]
        word = English(english)
        like_masculine = not group.feminine or group.french[0].vowel
        text = plural if group.plural else masculine if like_masculine else feminine
        return [word], [French(text, (word,))]
    return _quantifier(name, group)


def _quantifier(name: str, group: Group) -> tuple[list[English], list[French]]:
    word = English(name)
    if name == "many":
        return [word], [French("beaucoup", (word,)), French("de", possible=(word, group.head))]
    if name == "this":
        if group.plural:
            word.text = "these"
        before_vowel = "cet" if group.french[0].vowel else "ce"
        text = "ces" if group.plural else "cette" if group.feminine else before_vowel
        return [word], [French(text, (word,))]
    return [word], [French({"each": "chaque", "several": "plusieurs"}[name], (word,))]


def _bare(group: Group, role: str) -> list[French]:
    possible = (group.head,)
    if role == SUBJECT:
        return [definite(group, possible=possible)]
    if role == OF:
        return []
    if role == NEGATED or (group.plural and group.adjective_first):
        return [French("de", possible=possible)]
    if group.plural:
        return [French("des", possible=possible)]
    return [French("de", possible=possible), definite(group, possible=possible)]


def _numeral(choice: int) -> tuple[English, French]:
    words = tables.NUMERALS
    english, french = words[choice] if choice < len(words) else (str(choice + 3), str(choice + 3))
    word = English(english)
    return word, French(french, (word,))


SINGULAR = (("the", 46), ("a", 26), ("this", 8), ("possessive", 14), ("each", 6))
PLURAL = (
    *(("the", 40), ("bare", 16), ("this", 6), ("possessive", 10), ("numeral", 12), ("several", 4)),
    *(("many", 5), ("all", 4), ("the numeral", 3)),
)
RARE_NAMES = 0.38  # share among the surnames; gives about 2.5 % of the sentences
SUBSTANCE = (("bare", 60), ("the", 26), ("possessive", 14))


@dataclass
class NounPhrases:
    """Chooses noun phrases. ``phenomena`` collects what the sentence being built shows."""

    dice: Dice
    phenomena: set[str] = field(default_factory=set)
    richness: float = 1.0
    _names: set[str] = field(default_factory=set)

    def simple(self, kinds: str, role: str, excluded: frozenset[str] = NONE) -> NounPhrase:
        """A noun phrase of one of the ``kinds``, without complements."""
        kind = self.dice.pick(kinds)
        if kind == "P" and self.dice.chance(0.16):
            return self._person()
        if kind == "G" and self.dice.chance(0.25):
            return self._institution()
        if kind in "GA" and self.dice.chance(0.22):
            return self._chain(kind, role, excluded)
        noun = self.dice.pick([noun for noun in NOUNS if noun.kind == kind])
        plural = bool(noun.plural) and self.dice.chance(0.33)
        group = common_group(noun, plural, self._adjectives(kind))
        return self._determined(group, noun, role, excluded)

    def substance(self, role: str) -> NounPhrase:
        """A bare substance: "energy"."""
        noun = self.dice.pick([noun for noun in NOUNS if noun.kind in "MW"])
        group = common_group(noun, False, [])
        english, french = determine("bare", group, role)
        self._note("bare", group, role)
        words = [*english, *group.english], [*french, *group.french]
        return NounPhrase(*words, noun.kind, noun.feminine, determiner="bare", noun=noun.singular)

    def _determined(
        self, group: Group, noun: Noun, role: str, excluded: frozenset[str]
    ) -> NounPhrase:
        weights = PLURAL if group.plural else SINGULAR if noun.plural else SUBSTANCE
        name = self.dice.weighted([row for row in weights if row[0] not in excluded])
        choice = self.dice.between(0, len(tables.NUMERALS) - 1)
        if "numeral" in name and self.dice.chance(0.3):
            choice = self.dice.between(10, 96)
        english, french = determine(name, group, role, choice)
        self._note(name, group, role)
        words = [*english, *group.english], [*french, *group.french]
        person = 4 if group.plural else 1
        return NounPhrase(
            *words, noun.kind, group.feminine, group.plural, person, name, noun.singular
        )

    def _note(self, determiner: str, group: Group, role: str) -> None:
        if determiner == "bare" and role != OF:
            self.phenomena.add("article English lacks")
        if "numeral" in determiner:
            self.phenomena.add("number")
        if len(group.french) > 1 and group.french[0].sure != (group.head,):
            self.phenomena.add("adjective before")
        if len(group.english) > 1 and group.french[-1].sure != (group.head,):
            self.phenomena.add("adjective after or chain")

    def _adjectives(
        self, kind: str, places: Sequence[str] = ("before", "after", "relational")
    ) -> list[Adjective]:
        chosen = []
        for place, share in (("before", 0.17), ("after", 0.13), ("relational", 0.13)):
            fitting = [a for a in ADJECTIVES if a.place == place and kind in a.kinds]
            if place in places and fitting and self.dice.chance(share * self.richness):
                chosen.append(self.dice.pick(fitting))
        return chosen

    def _chain(self, kind: str, role: str, excluded: frozenset[str]) -> NounPhrase:
        material = self.dice.pick(tables.MATERIALS)
        middle = self.dice.pick(tables.FIELDS)
        activity = self.dice.pick(tables.ACTIVITIES)
        head = self.dice.pick([noun for noun in tables.CHAIN_HEADS if noun.kind == kind])
        modifiers = self.dice.pick(
            (
                (material, middle),
                (material, middle, activity),
                (middle, activity),
                (activity,),
                (material, activity),
            )
        )
        if kind == "A" and len(modifiers) > 1 and self.dice.chance(0.5):
            english, _, french, gender = modifiers[-1]
            head = Noun("A", english, english, french, french, gender == "f")
            modifiers = modifiers[:-1]
        self.phenomena.add("chain of nouns")
        plural = head.plural != head.singular and self.dice.chance(0.2)
        adjectives = self._adjectives(kind, ("before", "relational"))
        group = chain_group(modifiers, head, plural, adjectives)
        return self._determined(group, head, role, excluded)

    def _institution(self) -> NounPhrase:
        self.phenomena.add("institution's name")
        region, domain = self.dice.pick(tables.REGIONS), self.dice.pick(tables.DOMAINS)
        body, name, gender = self.dice.pick(tables.BODIES)
        feminine = gender == "f"
        the, *words = (English(text) for text in ("the", region[0], domain[0], body))
        names = (name, domain[1 + feminine], region[1 + feminine])
        article = French("la" if feminine else "le", (the,), article=True)
        french = [article, *(French(n, (w,)) for n, w in zip(names, reversed(words), strict=True))]
        return NounPhrase([the, *words], french, "G", feminine, noun="name")

    def _person(self) -> NounPhrase:
        if self.dice.chance(0.55):
            name, gender = self.dice.pick(tables.FIRST_NAMES)
            word = English(name)
            return NounPhrase([word], [French(name, (word,))], "P", gender == "f", noun="name")
        feminine = self.dice.chance(0.5)
        title, name = English("Mrs." if feminine else "Mr."), self.dice.pick(tables.SURNAMES)
        if self.dice.chance(RARE_NAMES):
            self.phenomena.add("rare name")
            name = self.rare_name()
        word = English(name)
        french = [French("Mme" if feminine else "M.", (title,)), French(name, (word,))]
        return NounPhrase([title, word], french, "P", feminine, noun="name")

    def rare_name(self) -> str:
        """A surname that this grammar has not used and will not use again."""
        while True:
            syllables = [self.dice.pick(tables.SYLLABLES) for _ in range(self.dice.between(1, 2))]
            name = capital("".join([*syllables, self.dice.pick(tables.NAME_ENDINGS)]))
            if name not in self._names:
                self._names.add(name)
                return name
