"""The demo grammar: its French, its links, and the corpus made from it."""

# ruff: noqa: E501  (one expected pair a line)

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from sacremoses import MosesPunctNormalizer, MosesTokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "recipes" / "demo"))
spelling, lexicon, tables, nouns, verbs, predicates, grammar, generate = (
    importlib.import_module(name)
    for name in (
        *("spelling", "lexicon", "tables", "nouns", "verbs", "predicates", "grammar", "generate"),
    )
)


def noun(english):
    return next(n for n in lexicon.NOUNS if english in {n.singular, n.plural})


def adjectives(*english):
    return [next(a for a in lexicon.ADJECTIVES if a.english == e) for e in english]


def verb(base):
    return next(v for v in lexicon.VERBS if v.base == base)


def noun_phrase(english, determiner="the", role=nouns.SUBJECT, words=(), choice=0):
    group = nouns.common_group(noun(english), noun(english).plural == english, adjectives(*words))
    before = nouns.determine(determiner, group, role, choice)
    return predicates.together(before, (group.english, group.french))


def verb_group(group):
    return [*group.auxiliaries, *group.rest], group.french


def written(*parts):
    """English and French in lower case, and the links."""
    made = spelling.write(*predicates.together(*parts), ())
    return made.source_text.lower(), made.target_text.lower(), made.gold


@pytest.mark.parametrize(
    ("english", "determiner", "role", "words", "expected"),
    [
        ("man", "the", "subject", ["old"], ("the old man", "le vieil homme", "0-0 1-1 2-2")),
        ("men", "the", "subject", ["old"], ("the old men", "les vieux hommes", "0-0 1-1 2-2")),
        ("hero", "the", "subject", [], ("the hero", "le héros", "0-0 1-1")),
        ("hospital", "this", "subject", ["new"], ("this new hospital", "ce nouvel hôpital", "0-0 1-1 2-2")),
        ("hospital", "this", "subject", [], ("this hospital", "cet hôpital", "0-0 1-1")),
        ("idea", "possessive", "subject", [], ("my idea", "mon idée", "0-0 1-1")),
        ("answer", "a", "object", ["urgent"], ("an urgent answer", "une réponse urgente", "0-0 1-2 2-1")),
        ("crisis", "a", "object", ["European"], ("a european crisis", "une crise européenne", "0-0 1-2 2-1")),
        (
            "reports", "the", "subject", ["new", "difficult", "economic"],
            ("the new difficult economic reports", "les nouveaux rapports économiques difficiles", "0-0 1-1 2-4 3-3 4-2"),
        ),
        ("water", "bare", "subject", [], ("water", "l'eau", "0p0 0-1")),
        ("water", "bare", "object", [], ("water", "de l'eau", "0p0 0p1 0-2")),
        ("wine", "bare", "object", ["good"], ("good wine", "du bon vin", "1p0 0-1 1-2")),
        ("wine", "bare", "negated", [], ("wine", "de vin", "0p0 0-1")),
        ("letters", "bare", "object", [], ("letters", "des lettres", "0p0 0-1")),
        ("letters", "bare", "object", ["old"], ("old letters", "de vieilles lettres", "1p0 0-1 1-2")),
        ("letters", "bare", "of", [], ("letters", "lettres", "0-0")),
        ("letter", "a", "negated", [], ("a letter", "de lettre", "0p0 1p0 1-1")),
        ("animals", "many", "object", [], ("many animals", "beaucoup d'animaux", "0-0 0p1 1p1 1-2")),
        ("houses", "all", "object", [], ("all the houses", "toutes les maisons", "0-0 1-1 2-2")),
    ],
)  # fmt: skip
def test_noun_phrases(english, determiner, role, words, expected):
    source, target, gold = written(noun_phrase(english, determiner, role, words))
    ordered = " ".join(sorted(expected[2].split(), key=lambda x: [*map(int, re.split("[-p]", x))]))
    assert (source, target, gold) == (*expected[:2], ordered)


def test_a_chain_of_nouns_is_turned_round():
    modifiers = tables.MATERIALS[0], tables.FIELDS[0], tables.ACTIVITIES[0]
    committee = next(n for n in tables.CHAIN_HEADS if n.singular == "committee")
    group = nouns.chain_group(modifiers, committee, False, [])
    source, target, gold = written(
        nouns.determine("the", group, nouns.SUBJECT), (group.english, group.french)
    )
    assert source == "the energy market reform committee"
    assert target == "le comité de réforme du marché de l'énergie"
    # le comité de réforme du marché de l' énergie; "du" is de + le, both without an English word
    assert set(gold.split()) == {
        *("0-0", "4-1", "4p2", "3p2", "3-3", "3p4", "2p4", "2-5", "2p6", "1p6", "1p7", "1-8"),
    }


def test_the_institution_of_the_brief():
    phrases = nouns.NounPhrases(nouns.Dice(1))
    made = {written((p.english, p.french)) for p in (phrases._institution() for _ in range(2000))}
    expected = "the european economic area", "l'espace économique européen", "0-0 1-3 2-2 3-1"
    assert expected in made


@pytest.mark.parametrize(
    ("base", "person", "time", "polarity", "clitics", "agreement", "expected"),
    [
        ("write", 1, "present", "", [], None, ("writes", "écrit", "0-0")),
        ("write", 1, "present", "not", [], None, ("does not write", "n'écrit pas", "0p1 1-0 1-2 2-1")),
        ("write", 1, "past", "", [], None, ("wrote", "a écrit", "0p0 0-1")),
        ("write", 1, "past", "not", [], None, ("did not write", "n'a pas écrit", "0-1 1-0 1-2 2p1 2-3")),
        ("write", 4, "pluperfect", "never", [], None, ("had never written", "n'avaient jamais écrit", "0-1 1-0 1-2 2-3")),
        ("write", 0, "future", "", [], None, ("will write", "écrirai", "0p0 1-0")),
        ("wait", 4, "present", "", [], None, ("wait for", "attendent", "0-0")),
        ("read", 2, "perfect", "not", ["les"], (True, True), ("have not read", "ne les avons pas lues", "0-2 1-0 1-3 2-4")),
        ("see", 1, "perfect", "", ["la"], (True, False), ("has seen", "l'a vue", "0-1 1-2")),
        ("arrive", 4, "perfect", "", [], (True, True), ("have arrived", "sont arrivées", "0-0 1-1")),
        ("read", 1, "can", "not", ["les"], None, ("cannot read", "ne peut pas les lire", "0-0 0-1 0-2 1-4")),
        ("read", 4, "want", "not", ["le"], None, ("do not want to read", "ne veulent pas le lire", "0p1 1-0 1-2 2-1 3p4 4-4")),
    ],
)  # fmt: skip
def test_verb_groups(base, person, time, polarity, clitics, agreement, expected):
    manner = verbs.Manner(polarity, None, [spelling.French(c) for c in clitics])
    group = verbs.conjugate(verb(base), person, time, manner, agreement)
    assert written(verb_group(group)) == expected


def test_agreement_across_a_relative_clause():
    relative = verbs.conjugate(verb("write"), 1, "pluperfect", agreement=(True, True))
    made = written(
        noun_phrase("letters"),
        predicates.pair("that", "que"),
        noun_phrase("director", words=["old"]),
        verb_group(relative),
        verb_group(verbs.be(4, "present")),
        tuple([part] for part in nouns.adjective(adjectives("important")[0], True, True)),
        predicates.pair(".", "."),
    )
    assert made[0] == "the letters that the old director had written are important."
    assert made[1] == "les lettres que le vieux directeur avait écrites sont importantes."
    assert made[2] == " ".join(f"{i}-{i}" for i in range(11))


def test_passive_and_contraction_and_elision():
    group = verbs.passive(verb("reject"), 1, "past", (True, False), verbs.Manner("not"))
    made = written(
        *(noun_phrase("proposal"), predicates.pair("of", "de"), noun_phrase("ministers")),
        *(verb_group(group), predicates.pair("because", "parce que")),
        *(predicates.pair("he", "il"), verb_group(verbs.be(1, "past"))),
    )
    assert made == (
        "the proposal of the ministers was not rejected because he was",
        "la proposition des ministres n'a pas été rejetée parce qu'il était",
        # la proposition des ministres n' a pas été rejetée parce qu' il était
        "0-0 1-1 2-2 3p2 4-3 5p5 5-7 6-4 6-6 7-8 8-9 8-10 9-11 10-12",
    )


def test_every_relative_clause_agrees():
    letters = noun_phrase("letters")
    phrase = nouns.NounPhrase(*letters, "D", True, True, 4, "the", "letter")
    seen: Counter[bool] = Counter()
    for seed in range(300):
        _, (_, french) = predicates.Predicates(nouns.Dice(seed))._object_relative(phrase, 0)
        compound = any(word.text in {"a", "ai", "avons", "avez", "ont", "avait"} for word in french)
        assert french[-1].text.endswith("es") or not compound
        seen[compound] += 1
    assert min(seen.values()) > 50


SEEDS = range(1, 7)


@pytest.fixture(scope="module")
def pairs():
    made = []
    for source in map(grammar.Grammar, SEEDS):
        made += [source.sentence() for _ in range(500)]
    return made


@pytest.fixture(scope="module")
def sets():
    return generate.corpus(pairs=1500, dev=60, test=80, long=60, seed=1)


def test_the_french_is_a_function_of_the_english(pairs):
    translations: dict[tuple[str, ...], tuple[str, ...]] = {}
    repeated = 0
    for pair in pairs:
        repeated += pair.source in translations
        assert translations.setdefault(pair.source, pair.target) == pair.target
    assert repeated > 3


def test_links_are_in_bounds_and_every_french_word_has_one(pairs):
    for pair in pairs:
        links = pair.sure | pair.possible
        assert not pair.sure & pair.possible
        assert all(0 <= i < len(pair.source) for i, _ in links)
        assert {j for _, j in links} == set(range(len(pair.target)))
        assert (len(pair.source) - 1, len(pair.target) - 1) in pair.sure


def test_lengths(pairs):
    lengths = [len(side) for pair in pairs for side in (pair.source, pair.target)]
    assert min(lengths) >= 3
    assert max(lengths) <= 60
    assert 10 < sum(lengths) / len(lengths) < 15
    assert max(lengths) > 40


@pytest.mark.parametrize(("language", "side"), [("en", "source"), ("fr", "target")])
def test_moses_tokens_are_the_grammar_s_tokens(sets, language, side):
    tokenizer, normalizer = MosesTokenizer(lang=language), MosesPunctNormalizer(lang=language)
    for pair in [*sets["long"], *sets["train"][:700]]:
        text, tokens = getattr(pair, f"{side}_text"), list(getattr(pair, side))
        assert tokenizer.tokenize(text, escape=False) == tokens
        assert tokenizer.tokenize(normalizer.normalize(text), escape=False) == tokens


def test_written_french(pairs):
    """Spelling rules stated on the text alone."""
    for pair in pairs:
        text = f" {pair.target_text} ".lower()
        assert not re.search(r" (de|à) les? ", text)
        assert not re.search(r" (le|la|je|ne|que|de|me) ([aeiouéèêâîôœ]|h(omme|ô|eure|onn))", text)
        assert not re.search(
            r" (beau|nouveau|vieux|ce) ([aeiouéèêâîôœ]|h(omme|ô))\w*[^sx\W] ", text
        )
        assert not re.search(r"\b(ma|ta|sa) [aeiouéèêâîô]", text)
        assert "'h" not in text or re.search(r"'h(omme|ô|eureu|onn)", text)
        assert "*" not in text


def test_negation_has_two_french_words(pairs):
    negated = 0
    for pair in pairs:
        for j, token in enumerate(pair.target):
            if token.lower() in {"ne", "n'"}:
                (english,) = (i for i, k in pair.sure if k == j)
                linked = {pair.target[k] for i, k in pair.sure if i == english}
                assert linked & {"pas", "jamais"}
                negated += 1
    assert negated > 200


def test_every_phenomenon_is_frequent_enough(pairs):
    shown = Counter(phenomenon for pair in pairs for phenomenon in pair.phenomena)
    assert len(shown) == 20
    assert min(shown.values()) > len(pairs) / 100
    assert 0.015 < shown["rare name"] / len(pairs) < 0.035


def test_rare_names_occur_once_and_are_copied(sets):
    names: Counter[str] = Counter()
    for pair in (pair for part in sets.values() for pair in part):
        for i, token in enumerate(pair.source[1:], 1):
            if pair.source[i - 1] in {"Mr.", "Mrs."} and token not in tables.SURNAMES:
                names[token] += 1
                assert token in [pair.target[j] for k, j in pair.sure if k == i]
    assert len(names) > 20
    assert set(names.values()) == {1}


def test_sets_are_disjoint(sets):
    sources = [pair.source for part in sets.values() for pair in part]
    assert len(sources) == len(set(sources)) == 1500 + 60 + 80 + 60


def test_long_set_is_even_over_lengths(sets):
    lengths = [len(pair.source) for pair in sets["long"]]
    assert [sum(a <= n <= b for n in lengths) for a, b in generate.LONG_BUCKETS] == [10] * 6


def test_more_training_pairs_leave_the_other_sets_alone(sets):
    fewer = generate.corpus(pairs=20, dev=60, test=80, long=60, seed=1)
    assert fewer["test"] == sets["test"]
    assert fewer["train"] == sets["train"][:20]


def test_dice_are_pinned():
    """random.Random(1).random() is 0.1343..., 0.8474..., 0.7637..., as the Python docs promise."""
    dice = nouns.Dice(1)
    assert [dice.between(0, 99) for _ in range(3)] == [13, 84, 76]


def test_command_writes_the_same_files_twice(tmp_path, capsys):
    options = ["--pairs", "40", "--dev", "10", "--test", "10", "--long", "6", "--seed", "3"]
    for name in ("one", "two"):
        generate.main(["--out", str(tmp_path / name), *options])
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    small = [
        f"{s}.{e}"
        for s in ("dev", "test", "long")
        for e in ("en", "fr", "tok.en", "tok.fr", "gold")
    ]
    assert files == sorted([*small, "train.en", "train.fr"])
    for name in files:
        one = (tmp_path / "one" / name).read_bytes()
        assert one == (tmp_path / "two" / name).read_bytes()
        assert (
            one.count(b"\n") == {"train": 40, "dev": 10, "test": 10, "long": 6}[name.split(".")[0]]
        )
    assert "train: 40 pairs" in capsys.readouterr().err
