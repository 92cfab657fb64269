"""Predicates and noun phrases with complements. Every method builds both languages together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import lexicon
import tables
from lexicon import ADJECTIVES, VERBS, Verb
from nouns import BARE, NEGATED, NONE, OBJECT, OF, SUBJECT, Dice, NounPhrase, NounPhrases, adjective
from spelling import English, French
from verbs import COMPOUND, Manner, be, conjugate, passive

Both = tuple[list[English], list[French]]

TIMES = (
    *(("present", 40), ("past", 26), ("perfect", 12), ("pluperfect", 4), ("future", 12)),
    *(("can", 3), ("must", 3), ("want", 2)),
)
RELATIVE_TIMES = (("present", 25), ("past", 35), ("perfect", 25), ("pluperfect", 15))
PASSIVE_TIMES = (("past", 55), ("perfect", 20), ("future", 25))
COPULA_TIMES = (("present", 60), ("past", 22), ("future", 12), ("perfect", 6))
# What "of" may join: class of the head, classes of the complement
OF_KINDS = {"D": "PG", "A": "PG", "T": "P", "L": "P", "E": "G"}
JOBS = frozenset({"director", "president", "lawyer"})
# English subject pronoun, French, person, feminine; English object pronoun, French
SUBJECTS = (
    ("I", "je", 0),
    ("he", "il", 1),
    ("she", "elle", 1),
    ("we", "nous", 2),
    ("you", "vous", 3),
)
OBJECTS = (("me", "me"), ("us", "nous"), ("you", "vous"))


@dataclass
class Predicate:
    """What follows a subject. Questions move ``first``, the auxiliary, before it."""

    first: list[English]
    rest: list[English]
    french: list[French]
    time: str


def pair(english: str, french: str) -> Both:
    """Words that translate each other as a whole, every one linked to every other."""
    words = [English(text) for text in english.split()]
    return words, [French(text, tuple(words)) for text in french.split()]


def together(*parts: Both) -> Both:
    """Parts in the same order in both languages."""
    return [e for part in parts for e in part[0]], [f for part in parts for f in part[1]]


@dataclass
class Predicates:
    """Chooses predicates, with the noun phrases of ``nouns``."""

    dice: Dice
    nouns: NounPhrases = field(init=False)

    def __post_init__(self) -> None:
        self.nouns = NounPhrases(self.dice)

    def note(self, phenomenon: str) -> None:
        self.nouns.phenomena.add(phenomenon)

    # Verbs and what follows them

    def manner(self, time: str, negatable: bool = True, adverbial: bool = True) -> Manner:
        """Draw negation, adverb, or neither."""
        polarity = ""
        if negatable and self.dice.chance(0.15):
            polarity = "never" if self.dice.chance(0.25) else "not"
            self.note("ne ... pas")
        adverb = None
        allowed = [
            a for a in tables.ADVERBS if a[0] != "already" or time in {"perfect", "pluperfect"}
        ]
        if adverbial and polarity != "never" and self.dice.chance(0.08):
            english, french, negated = self.dice.pick(allowed)
            if not polarity or negated:
                adverb = english, french
                self.note("adverb moved")
        return Manner(polarity, adverb)

    def copula(self, subject: NounPhrase, time: str = "") -> Predicate:
        """is important; is more important than ..."""
        time = time if time in {"present", "past", "future"} else self.dice.weighted(COPULA_TIMES)
        group = be(subject.person, time, self.manner(time))
        fitting = [a for a in ADJECTIVES if subject.kind in a.kinds and a.place == "after"]
        chosen = self.dice.pick(
            [*fitting, *(a for a in ADJECTIVES if subject.kind in a.kinds and self._plain(a))]
        )
        word, mot = adjective(chosen, subject.feminine, subject.plural)
        rest, french = [*group.rest, word], [*group.french, mot]
        if chosen in fitting and len(chosen.english) > 6 and self.dice.chance(0.15):
            self.note("comparison")
            degree, degre = pair(*self.dice.pick((("more", "plus"), ("less", "moins"))))
            than, que = pair("than", "que")
            other = self.nouns.simple(subject.kind, SUBJECT)
            rest[-1:] = [*degree, word, *than, *other.english]
            french[-1:] = [*degre, mot, *que, *other.french]
        return Predicate(group.auxiliaries, rest, french, time)

    @staticmethod
    def _plain(word: lexicon.Adjective) -> bool:
        """Adjectives before the noun that also make good predicates."""
        return word.english in {"old", "beautiful", "young", "big", "small", "long"}

    def passive(self, subject: NounPhrase, time: str = "") -> Predicate:
        """was written by the director: a été écrite par le directeur."""
        self.note("passive")
        time = time if time in {"past", "future"} else self.dice.weighted(PASSIVE_TIMES)
        verb = self.dice.pick([v for v in VERBS if subject.kind in v.objects and v.passive])
        agreement = subject.feminine, subject.plural
        group = passive(verb, subject.person, time, agreement, self.manner(time, adverbial=False))
        agent = self.phrase(verb.subjects, OBJECT, 0)
        by, par = pair("by", "par")
        rest = [*group.rest, *by, *agent.english]
        return Predicate(group.auxiliaries, rest, [*group.french, *par, *agent.french], time)

    def verb(self, subject: NounPhrase, time: str, ditransitive: bool = False) -> Verb:
        """A transitive verb that this subject can have at this time."""
        return self.dice.pick([
            v for v in VERBS
            if subject.kind in v.subjects and v.objects and ("to" in v.flags) == ditransitive
            and self.allows(v, time)
        ])  # fmt: skip

    @staticmethod
    def allows(verb: Verb, time: str) -> bool:
        """Past "read" looks like the present; stative verbs have only the present here."""
        if "stative" in verb.flags:
            return time == "present"
        return time != "past" or verb.past != verb.base

    def time(self, subject: NounPhrase, times: Sequence[tuple[str, float]] = TIMES) -> str:
        """A time for the subject; "nous écrirons" and the like stay rare, as forms seen once."""
        chosen = self.dice.weighted(times)
        if chosen == "want" and subject.kind not in "PG":
            return "must"
        return "perfect" if chosen == "future" and subject.person in {0, 2, 3} else chosen

    def fitting_time(
        self, verb: Verb, subject: NounPhrase, times: Sequence[tuple[str, float]] = TIMES
    ) -> str:
        """A time that the verb allows, for the subject."""
        return self.time(subject, [row for row in times if self.allows(verb, row[0])])

    def intransitive(
        self, subject: NounPhrase, time: str, manner: Manner | None = None
    ) -> Predicate:
        """works; has arrived ("est arrivée")."""
        moving = subject.person in {1, 4} or time not in COMPOUND  # "I have arrived": no gender
        verbs = [v for v in VERBS if not v.objects and subject.kind in v.subjects]
        verb = self.dice.pick([v for v in verbs if moving or "être" not in v.flags])
        agreement = (subject.feminine, subject.plural) if "être" in verb.flags else None
        group = conjugate(verb, subject.person, time, manner or self.manner(time), agreement)
        return Predicate(group.auxiliaries, group.rest, group.french, time)

    def verbal(
        self, subject: NounPhrase, verb: Verb, time: str, depth: int,
        about: NounPhrase | None = None, question: bool = False,
    ) -> Predicate:  # fmt: skip
        """Verb and object, or a clitic before the verb; ``about`` is what a pronoun means."""
        manner = self.manner(time, negatable=not question)
        manner = Manner(manner.polarity, manner.adverb, (), question)
        objects, clitic, agreement = self._object(subject, verb, time, manner, depth, about)
        recipient, to_clitic = self._recipient(verb)
        clitics = [*clitic, *to_clitic]
        if clitics:
            self.note("clitic pronoun")
        manner = Manner(manner.polarity, manner.adverb, clitics, question)
        group = conjugate(verb, subject.person, time, manner, agreement)
        rest = [*group.rest, *objects[0], *recipient[0]]
        to = [French("à", possible=(group.rest[-1],))] if "à" in verb.flags else []
        french = [*group.french, *to, *objects[1], *recipient[1]]
        return Predicate(group.auxiliaries, rest, french, time)

    def _object(
        self, subject: NounPhrase, verb: Verb, time: str, manner: Manner, depth: int,
        about: NounPhrase | None,
    ) -> tuple[Both, list[French], tuple[bool, bool] | None]:  # fmt: skip
        """The object after the verb, or before it in French, and then what agrees with it."""
        if about:
            _, english, _, french = about.pronouns
            words, clitic = pair(english, french)
            return (words, []), clitic, (about.feminine, about.plural)
        if "P" in verb.objects and verb.relatable and self.dice.chance(0.2):
            return self._personal_object(subject, time)
        role = NEGATED if manner.polarity else OBJECT
        if "generic" in verb.flags:
            role = SUBJECT
        if "à" in verb.flags:
            phrase = self.phrase(verb.objects, OF, depth, BARE)
        else:
            phrase = self.phrase(verb.objects, role, depth)
        return (phrase.english, phrase.french), [], None

    def _personal_object(
        self, subject: NounPhrase, time: str
    ) -> tuple[Both, list[French], tuple[bool, bool] | None]:
        """him, her; and where no participle shows their gender, me, us, you."""
        if time in COMPOUND or self.dice.chance(0.5):
            feminine = self.dice.chance(0.5)
            words, clitic = pair("her", "la") if feminine else pair("him", "le")
            return (words, []), clitic, (feminine, False)
        own = {0: "me", 2: "us", 3: "you"}.get(subject.person)
        words, clitic = pair(*self.dice.pick([o for o in OBJECTS if o[0] != own]))
        return (words, []), clitic, None

    def _recipient(self, verb: Verb) -> tuple[Both, list[French]]:
        """to the student: à l'étudiant; to him: lui, before the verb."""
        if "to" not in verb.flags:
            return ([], []), []
        to = English("to")
        if self.dice.chance(0.35):
            text, french = self.dice.pick((("him", "lui"), ("her", "lui"), ("them", "leur")))
            word = English(text)
            return ([to, word], []), [French(french, (word,), (to,))]
        phrase = self.nouns.simple("P", OF, BARE)
        return ([to, *phrase.english], [French("à", (to,)), *phrase.french]), []

    # Noun phrases with complements

    def subject(self, kinds: str, depth: int) -> NounPhrase:
        """A noun phrase, or a personal pronoun."""
        if "P" in kinds and self.dice.chance(0.2):
            english, french, person = self.dice.pick(SUBJECTS)
            return NounPhrase(
                *pair(english, french), "P", english == "she", person in {2, 3}, person
            )
        return self.phrase(kinds, SUBJECT, depth, BARE)

    def phrase(
        self, kinds: str, role: str, depth: int, excluded: frozenset[str] = NONE
    ) -> NounPhrase:
        """A noun phrase, perhaps with "and", "of", or relative clauses (``depth`` deep)."""
        phrase = self.nouns.simple(kinds, role, excluded)
        richness = self.nouns.richness
        if role in {SUBJECT, OBJECT} and self.dice.chance(0.05 * richness):
            return self._coordinated(phrase, role, excluded)
        complements = "G" if phrase.noun in JOBS else OF_KINDS.get(phrase.kind, "")
        possessed = phrase.determiner in {"", "possessive"} or phrase.kind in "MW"
        if complements and not possessed and self.dice.chance(0.14 * richness):
            inner = self.phrase(complements, OF, depth)
            if not inner.coordinated:
                return self._of(phrase, inner)
        if depth and phrase.determiner and self.dice.chance(0.17 * richness):
            return self._with_relative(phrase, depth - 1)
        return phrase

    def _coordinated(self, first: NounPhrase, role: str, excluded: frozenset[str]) -> NounPhrase:
        """the letter and the report: masculine unless both are feminine."""
        self.note("coordinated noun phrase")
        second = self.nouns.simple(first.kind, role, excluded)
        words = together(
            (first.english, first.french), pair("and", "et"), (second.english, second.french)
        )
        feminine = first.feminine and second.feminine
        return NounPhrase(
            *words, first.kind, feminine, True, person=4, noun="both", coordinated=True
        )

    def _of(self, phrase: NounPhrase, inner: NounPhrase) -> NounPhrase:
        self.note("noun of noun")
        of = English("of")
        english = [*phrase.english, of, *inner.english]
        french = [*phrase.french, French("de", (of,)), *inner.french]
        return replace(phrase, english=english, french=french)

    def _with_relative(self, phrase: NounPhrase, depth: int) -> NounPhrase:
        """A relative clause on the phrase's head, which is also the noun nearest to it."""
        self.note("relative clause")
        if phrase.kind in "PG" and self.dice.chance(0.5):
            link, clause = self._subject_relative(phrase, depth)
        else:
            link, clause = self._object_relative(phrase, depth)
        words = together((phrase.english, phrase.french), link, clause)
        return replace(phrase, english=words[0], french=words[1])

    def _subject_relative(self, phrase: NounPhrase, depth: int) -> tuple[Both, Both]:
        """who wrote the letter: qui a écrit la lettre."""
        time = self.dice.weighted(RELATIVE_TIMES)
        if phrase.kind == "P" and self.dice.chance(0.4):
            predicate = self.intransitive(phrase, time)
        else:
            predicate = self.verbal(phrase, self.verb(phrase, time), time, depth)
        link = pair("who" if phrase.kind == "P" else "that", "qui")
        return link, ([*predicate.first, *predicate.rest], predicate.french)

    def _object_relative(self, phrase: NounPhrase, depth: int) -> tuple[Both, Both]:
        """that the director had written: que le directeur avait écrites."""
        verb = self.dice.pick(
            [v for v in VERBS if phrase.kind in v.objects and v.relatable and "to" not in v.flags]
        )
        agent = self.subject(verb.subjects, depth)
        time = self.fitting_time(verb, agent, RELATIVE_TIMES)
        if time in COMPOUND and (phrase.feminine or phrase.plural):
            self.note("agreement across a relative clause")
        agreement = phrase.feminine, phrase.plural
        group = conjugate(verb, agent.person, time, self.manner(time), agreement)
        english = [*agent.english, *group.auxiliaries, *group.rest]
        return pair("that", "que"), (english, [*agent.french, *group.french])
