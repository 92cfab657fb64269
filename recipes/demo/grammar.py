"""The demo grammar: English and French sentences built side by side, with their word links.

Every function that builds a phrase makes both languages at once. All choice happens in what is
meant or in the English; the French is a function of the English, so that a perfect model can be
perfect. The one rule for pronouns: "it", "they" and "them" mean the subject of the first clause.

Here are sentences. From here downward: ``clauses.py``, ``predicates.py`` (also relative clauses),
``nouns.py`` and ``verbs.py``, ``spelling.py`` (elision, and the links' positions), ``lexicon.py``.
"""

from __future__ import annotations

import tables
from clauses import Clause, Clauses
from nouns import BARE, OF, Dice
from predicates import Both, pair, together
from spelling import English, French, Pair, write

MIN_LENGTH, MAX_LENGTH = 3, 60  # tokens, in either language

CLAUSE_COUNTS = ((1, 76), (2, 18), (3, 3.5), (4, 1.7), (5, 0.8))
QUESTION_TIMES = (("present", 1), ("past", 1), ("perfect", 1), ("future", 1))
# English and French; "près" gets its "de"
PREPOSITIONS = {
    "L": (("in", "dans"), ("near", "près"), ("behind", "derrière"), ("in front of", "devant")),
    "P": (("with", "avec"), ("for", "pour")),
    "E": (("before", "avant"), ("after", "après"), ("during", "pendant")),
    "MW": (("without", "sans"),),
}


class Grammar:
    """A source of sentence pairs; the same seed gives the same pairs on every Python version."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(seed)
        self.clauses = Clauses(self.dice)

    def sentence(self) -> Pair:
        """A pair of ordinary length: mostly one clause, sometimes up to five."""
        while True:
            richness = self.dice.weighted(((0.7, 75), (1.4, 25)))
            made = self._build(self.dice.weighted(CLAUSE_COUNTS), richness)
            lengths = len(made.source), len(made.target)
            if min(lengths) >= MIN_LENGTH and max(lengths) <= MAX_LENGTH:
                return made

    def long_sentence(self, low: int, high: int) -> Pair:
        """A pair with ``low`` to ``high`` English tokens, and no more than 60 French ones."""
        while True:
            made = self._build(max(1, low // 11) + self.dice.between(0, 1), 1.3)
            if low <= len(made.source) <= high and len(made.target) <= MAX_LENGTH:
                return made

    def _build(self, count: int, richness: float) -> Pair:
        self.clauses.nouns.phenomena = set()
        self.clauses.nouns.richness = richness
        mark = "."
        if count == 1 and self.dice.chance(0.06):
            words = self._question()
            mark = "?"
        elif count == 2 and self.dice.chance(0.15):
            words = self._condition()
        else:
            words = self._statement(count)
        return write(*together(words, pair(mark, mark)), self.clauses.nouns.phenomena)

    def _statement(self, count: int) -> Both:
        first = self.clauses.clause()
        words = self._with_adverbial(first)
        for _ in range(count - 1):
            conjunction, time = self._conjunction(first.time)
            later = self.clauses.clause(antecedent=first.subject, time=time)
            words = together(words, conjunction, self._with_adverbial(later, may_front=False))
        return words

    def _condition(self) -> Both:
        """If the water is cold, ... will ..."""
        self.clauses.note("condition")
        first = self.clauses.clause(time="present")
        second = self.clauses.clause(antecedent=first.subject, time="future")
        parts = (first.english, first.french), pair(",", ","), (second.english, second.french)
        return together(pair("if", "si"), *parts)

    def _conjunction(self, time: str) -> tuple[Both, str]:
        """A conjunction, and the time of its clause where the first clause's time decides it."""
        text, french = self.dice.pick(tables.CONJUNCTIONS)
        words = pair(text, french)
        if text in {"and", "but"}:
            return together(pair(",", ","), words), ""
        if text == "because" or time not in {"present", "past"}:
            return pair("because", "parce que"), ""
        return words, time

    def _question(self) -> Both:
        """Does the minister ... ? Est-ce que le ministre ... ?"""
        self.clauses.note("question")
        subject = self.clauses.subject("PG", 0)
        time = self.clauses.time(subject, QUESTION_TIMES)
        verb = self.clauses.verb(subject, time)
        predicate = self.clauses.verbal(subject, verb, time, 0, question=True)
        moved = tuple(predicate.first)
        french = [French(text, possible=moved) for text in ("est-ce", "que")]
        english = [*predicate.first, *subject.english, *predicate.rest]
        words = english, [*french, *subject.french, *predicate.french]
        return together(pair("why", "pourquoi"), words) if self.dice.chance(0.3) else words

    def _with_adverbial(self, clause: Clause, may_front: bool = True) -> Both:
        words = clause.english, clause.french
        if not self.dice.chance(0.28 * self.clauses.nouns.richness):
            return words
        adverbial = self._adverbial(clause)
        if may_front and self.dice.chance(0.4):
            return together(adverbial, pair(",", ","), words)
        return together(words, adverbial)

    def _adverbial(self, clause: Clause) -> Both:
        if clause.time in {"past", "future"} and self.dice.chance(0.55):
            return self._date(clause.time)
        if not clause.places or self.dice.chance(0.25):
            place, preposition, lieu = self.dice.pick(tables.CITIES)
            return together(pair("in", preposition), pair(place, lieu))
        return self._prepositional(self.dice.pick(clause.places))

    def _prepositional(self, kinds: str) -> Both:
        english, french = self.dice.pick(PREPOSITIONS[kinds])
        words = pair(english, french)
        if english == "near":
            words[1].append(French("de", possible=tuple(words[0])))
        nouns = self.clauses.nouns
        phrase = nouns.substance(OF) if kinds == "MW" else nouns.simple(kinds, OF, BARE)
        return together(words, (phrase.english, phrase.french))

    def _date(self, time: str) -> Both:
        if time == "future":
            tomorrow = self.dice.chance(0.5)
            return pair("tomorrow", "demain") if tomorrow else self._year("next", "prochaine")
        kind = self.dice.pick(("yesterday", "last year", "day", "year", "date"))
        if kind == "yesterday":
            return pair("yesterday", "hier")
        if kind == "last year":
            return self._year("last", "dernière")
        if kind == "day":
            english, french = self.dice.pick(tables.DAYS)
            words = English("on"), English(english)
            return list(words), [French(french, words[1:], words[:1])]
        self.clauses.note("number")
        year = pair(*[str(self.dice.between(1980, 2019))] * 2)
        if kind == "year":
            return together(pair("in", "en"), year)
        day, month = str(self.dice.between(2, 28)), self.dice.pick(tables.MONTHS)
        return together(pair("on", "le"), pair(day, day), pair(*month), year)

    @staticmethod
    def _year(which: str, french: str) -> Both:
        """next year: l'année prochaine, its words turned round."""
        (one,), (un,) = pair(which, french)
        (year,), (annee,) = pair("year", "année")
        return [one, year], [French("la", possible=(year,), article=True), annee, un]
