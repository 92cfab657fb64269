"""Verb groups: auxiliaries, negation, clitic pronouns, adverbs and agreement, in both languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lexicon import MODALS, Verb, agree
from spelling import English, French
from tables import AVOIR, ETRE, FUTURE_ENDINGS

COMPOUND = frozenset({"past", "perfect", "pluperfect"})
MODAL_TIMES = frozenset({"can", "must", "want"})
_BE_PRESENT = ("am", "is", "are", "are", "are")
_BE_PAST = ("was", "was", "were", "were", "were")


@dataclass
class VerbGroup:
    """``auxiliaries`` + ``rest`` in English; a question's subject stands between them."""

    auxiliaries: list[English]
    rest: list[English]
    french: list[French]


@dataclass(frozen=True)
class Manner:
    """What stands around the verb: "", "not" or "never", an adverb (English, French), clitics."""

    polarity: str = ""
    adverb: tuple[str, str] | None = None
    clitics: Sequence[French] = ()
    question: bool = False


PLAIN = Manner()


@dataclass
class _Parts:
    """A conjugated verb before its company is placed; ``clitics_late``: before the infinitive."""

    auxiliaries: list[English]
    main: list[English]
    finite: French
    nonfinite: list[French] = field(default_factory=list)
    clitics_late: bool = False


def _future(stem: str, person: int) -> str:
    return stem + FUTURE_ENDINGS[person]


def _helper(verb: Verb, person: int, time: str, agreement: tuple[bool, bool] | None) -> _Parts:
    """Compound times: "wrote" and "has written": "a écrit"; "had written": "avait écrit"."""
    forms = ETRE if "être" in verb.flags else AVOIR
    have = English({"perfect": "has" if person == 1 else "have", "pluperfect": "had"}.get(time, ""))
    main = English(verb.past if time == "past" else verb.participle)
    form = forms["past" if time == "pluperfect" else "present"][person]
    participle = verb.agreeing_participle(*agreement) if agreement else verb.french_participle
    if time == "past":
        return _Parts([], [main], French(form, possible=(main,)), [French(participle, (main,))])
    return _Parts([have], [main], French(form, (have,)), [French(participle, (main,))])


def _modal(verb: Verb, person: int, time: str) -> _Parts:
    english, present, with_to = MODALS[("can", "must", "want").index(time)]
    modal = English(english[person == 1])
    main, to = English(verb.base), English("to")
    infinitive = French(verb.infinitive, (main,), (to,) if with_to else ())
    words = [modal, to, main] if with_to else [main]
    auxiliaries = [] if with_to else [modal]
    return _Parts(auxiliaries, words, French(present[person], (modal,)), [infinitive], True)


def _plain(verb: Verb, person: int, time: str) -> _Parts:
    if time == "future":
        will, main = English("will"), English(verb.base)
        return _Parts([will], [main], French(_future(verb.future, person), (main,), (will,)))
    main = English(verb.third if person == 1 else verb.base)
    return _Parts([], [main], French(verb.present[person], (main,)))


def _supported(parts: _Parts, verb: Verb, person: int, time: str) -> _Parts:
    """Put "do" before a verb without auxiliary, as "not" and questions need it."""
    do = English("did" if time == "past" else "does" if person == 1 else "do")
    first = parts.main[0]
    first.text = "want" if time == "want" else verb.base
    linked = parts.finite
    if time == "past":
        linked = French(linked.text, (do,), (first,))
    else:
        linked = French(linked.text, linked.sure, (*linked.possible, do))
    return _Parts([do], parts.main, linked, parts.nonfinite, parts.clitics_late)


def _assemble(parts: _Parts, manner: Manner) -> VerbGroup:
    """Place negation, adverb and clitics: "ne les a pas souvent lues", "peut les lire"."""
    word = English(manner.polarity)
    negators = [word] if manner.polarity else []
    if manner.polarity == "not" and parts.auxiliaries and parts.auxiliaries[-1].text == "can":
        parts.auxiliaries[-1].text = "cannot"
        word, negators = parts.auxiliaries[-1], []
    middle, adverbs = [*negators], []
    if manner.adverb:
        english = English(manner.adverb[0])
        middle.append(english)
        adverbs = [French(manner.adverb[1], (english,))]
    finite = [parts.finite] if parts.clitics_late else [*manner.clitics, parts.finite]
    if manner.polarity:
        second = "pas" if manner.polarity == "not" else "jamais"
        finite = [French("ne", (word,)), *finite, French(second, (word,))]
    late = list(manner.clitics) if parts.clitics_late else []
    french = [*finite, *adverbs, *late, *parts.nonfinite]
    first, others = parts.auxiliaries[:1], parts.auxiliaries[1:]
    return VerbGroup(first, [*middle, *others, *parts.main], french)


def conjugate(
    verb: Verb,
    person: int,
    time: str,
    manner: Manner = PLAIN,
    agreement: tuple[bool, bool] | None = None,
) -> VerbGroup:
    """A verb group in both languages.

    ``time`` is present, past, perfect, pluperfect, future, can, must or want. ``agreement`` is the
    (feminine, plural) of what the participle agrees with: the subject with "être", a preceding
    object with "avoir".
    """
    if time in COMPOUND:
        parts = _helper(verb, person, time, agreement)
    elif time in MODAL_TIMES:
        parts = _modal(verb, person, time)
    else:
        parts = _plain(verb, person, time)
    if not parts.auxiliaries and (manner.polarity == "not" or manner.question):
        parts = _supported(parts, verb, person, time)
    group = _assemble(parts, manner)
    if verb.particle:
        group.rest.append(English(verb.particle))
    return group


def _be(person: int, time: str, passive: bool) -> _Parts:
    if time == "future":
        will, be = English("will"), English("be")
        return _Parts([will, be], [], French(ETRE["future"][person], (be,), (will,)))
    if time == "perfect":
        have, been = English("has" if person == 1 else "have"), English("been")
        form = French(AVOIR["present"][person], (have,))
        return _Parts([have, been], [], form, [French("été", (been,))])
    if time == "past" and passive:
        was = English(_BE_PAST[person])
        form = French(AVOIR["present"][person], possible=(was,))
        return _Parts([was], [], form, [French("été", (was,))])
    forms = _BE_PAST if time == "past" else _BE_PRESENT
    is_ = English(forms[person])
    return _Parts([is_], [], French(ETRE["past" if time == "past" else "present"][person], (is_,)))


def be(person: int, time: str, manner: Manner = PLAIN) -> VerbGroup:
    """The copula; ``time`` is present, past ("était"), perfect or future."""
    return _assemble(_be(person, time, passive=False), manner)


def passive(
    verb: Verb, person: int, time: str, agreement: tuple[bool, bool], manner: Manner
) -> VerbGroup:
    """The passive: "was written" is "a été écrite"."""
    group = _assemble(_be(person, time, passive=True), manner)
    main = English(verb.participle)
    group.rest.append(main)
    group.french.append(French(agree(verb.french_participle, *agreement), (main,)))
    return group
