"""Whole clauses: something is, does, costs, or is said. Both languages are built together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import lexicon
from lexicon import VERBS
from nouns import BARE, DEFINITE, NONE, OBJECT, OF, SUBJECT, NounPhrase
from predicates import Both, Predicate, Predicates, pair, together
from spelling import English, French
from verbs import conjugate

CLAUSES = (
    *(("copula", 27), ("transitive", 32), ("intransitive", 12), ("ditransitive", 8)),
    *(("passive", 9), ("existence", 4), ("change", 3), ("cost", 2), ("report", 3)),
)
COPULA_KINDS = "PGDTLAEDTLAMW"


@dataclass
class Clause:
    """A clause in both languages; ``subject`` is what a later pronoun may mean, None if nothing.

    ``places``: the classes of nouns that an adverbial of the clause may have ("in the garden": L).
    """

    english: list[English]
    french: list[French]
    subject: NounPhrase | None
    time: str
    places: Sequence[str] = ("L", "L", "P", "E", "MW")


def finish(subject: NounPhrase, predicate: Predicate, remembered: bool = True) -> Clause:
    """Subject and predicate; a later pronoun may mean a ``remembered`` noun subject."""
    english = [*subject.english, *predicate.first, *predicate.rest]
    later = subject if remembered and subject.noun else None
    return Clause(english, [*subject.french, *predicate.french], later, predicate.time)


class Clauses(Predicates):
    """Chooses clauses."""

    def clause(self, antecedent: NounPhrase | None = None, time: str = "") -> Clause:
        """Any clause; with an ``antecedent``, often one that says a pronoun for it."""
        if antecedent and self.dice.chance(0.6):
            return self.about(antecedent, time)
        kind = self.dice.weighted(CLAUSES)
        special = {"existence": self.existence, "change": self.change, "cost": self.cost}
        if kind in special and time != "past":
            return special[kind](time)
        if kind == "report":
            return self.report(time)
        if kind == "copula" or kind in special:
            excluded = NONE if time in {"", "present"} else BARE
            subject = self.phrase(COPULA_KINDS, SUBJECT, 1, excluded)
            time = "present" if subject.determiner == "bare" else time
            return replace(finish(subject, self.copula(subject, time)), places=("E",))
        if kind == "passive":
            subject = self.phrase("DTLADA", SUBJECT, 1, BARE)
            return finish(subject, self.passive(subject, time))
        subject = self.subject("PPPPT" if kind == "intransitive" else "PPPG", 1)
        time = time or self.time(subject)
        if kind == "intransitive":
            return finish(subject, self.intransitive(subject, time))
        verb = self.verb(subject, time, ditransitive=kind == "ditransitive")
        return finish(subject, self.verbal(subject, verb, time, 1), remembered=False)

    def about(self, antecedent: NounPhrase, time: str) -> Clause:
        """A clause with a pronoun for the first clause's subject, as its object or its subject."""
        self.note("pronoun for a noun")
        english, _, french, _ = antecedent.pronouns
        kind = antecedent.kind
        verbs = [v for v in VERBS if kind in v.objects and v.relatable and "to" not in v.flags]
        verbs = [v for v in verbs if self.allows(v, time or "present")]
        if verbs and self.dice.chance(0.5):
            verb = self.dice.pick(verbs)
            agent = self.subject(verb.subjects, 0)
            time = time or self.fitting_time(verb, agent)
            return finish(agent, self.verbal(agent, verb, time, 0, about=antecedent))
        plural, feminine = antecedent.plural, antecedent.feminine
        it = NounPhrase(*pair(english, french), kind, feminine, plural, 4 if plural else 1)
        if kind == "P" and self.dice.chance(0.6):
            time = time or self.time(it)
            return finish(it, self.verbal(it, self.verb(it, time), time, 0))
        if kind in "DTLA" and self.dice.chance(0.25):
            return finish(it, self.passive(it, time))
        return replace(finish(it, self.copula(it, time)), places=("E",))

    def existence(self, time: str) -> Clause:
        """There is ... in the ...: il y a ... dans la ..."""
        time = time if time == "present" or not time else "future"
        phrase = self.nouns.simple("TTF", OBJECT, DEFINITE)
        form = {"": "is", "present": "is", "future": "will be"}[time]
        if phrase.plural and form == "is":
            form = "are"
        block = [English("there"), *(English(text) for text in form.split())]
        possible = tuple(block)
        has = "aura" if time == "future" else "a"
        french = [French(text, possible=possible) for text in ("il", "y", has)]
        place = together(pair("in", "dans"), self.place())
        english = [*block, *phrase.english, *place[0]]
        return Clause(english, [*french, *phrase.french, *place[1]], None, time or "present")

    def place(self) -> Both:
        phrase = self.nouns.simple("L", OF, BARE)
        return phrase.english, phrase.french

    def change(self, time: str) -> Clause:
        """The price of ... increased by 7.5 %."""
        self.note("number")
        time = time or self.dice.weighted((("past", 50), ("perfect", 30), ("future", 20)))
        the, price, of = English("the"), English("price"), English("of")
        what = self.nouns.substance(SUBJECT)
        group = conjugate(self.dice.pick(lexicon.CHANGES), 1, time)
        number, nombre = self.decimal()
        amount = together(pair("by", "de"), ([number], [nombre]), pair("%", "%"))
        french = [
            French("le", (the,), article=True), French("prix", (price,)), French("de", (of,)),
            *what.french, *group.french, *amount[1],
        ]  # fmt: skip
        english = [the, price, of, *what.english, *group.auxiliaries, *group.rest, *amount[0]]
        return Clause(english, french, None, time, places=())

    def cost(self, time: str) -> Clause:
        """The project will cost 3.5 million euros."""
        self.note("number")
        time = time if time in {"present", "future"} else self.dice.pick(("present", "future"))
        subject = self.phrase("LA", SUBJECT, 1)
        group = conjugate(lexicon.COST, subject.person, time)
        number, nombre = self.decimal()
        million, euros = English("million"), English("euros")
        french = [nombre, French("millions", (million,)), French("de", possible=(million, euros))]
        rest = [*group.rest, number, million, euros]
        predicate = Predicate(
            group.auxiliaries, rest, [*group.french, *french, French("euros", (euros,))], time
        )
        return replace(finish(subject, predicate), places=())

    def decimal(self) -> tuple[English, French]:
        whole, tenth = self.dice.between(2, 9), self.dice.between(1, 9)
        word = English(f"{whole}.{tenth}")
        return word, French(f"{whole},{tenth}", (word,))

    def report(self, time: str) -> Clause:
        """The minister says that ..."""
        self.note("reported speech")
        subject = self.subject("PPG", 0)
        verb, in_past = self.dice.pick(lexicon.REPORTING)
        said = in_past and time != "present" and self.dice.chance(0.4)
        time = "past" if said else "present"
        group = conjugate(verb, subject.person, time)
        said_clause = self.clause()
        link, conjunction = pair("that", "que")
        rest = [*group.rest, *link, *said_clause.english]
        french = [*group.french, *conjunction, *said_clause.french]
        return finish(subject, Predicate(group.auxiliaries, rest, french, "said"), remembered=False)
