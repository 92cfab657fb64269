"""Errors by kind and by class, and the sentences that differ most: by hand, and as laws."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.links import Gold, parse_gold, parse_links, transpose
from nmtkit.score import AlignmentScore, Sentence, score_sentence
from nmtkit.score.differences import differences
from nmtkit.score.errors import CLASSES, MISSED, WRONG, break_down


def sentence(gold: str, *links: str, source: str = "", target: str = "", number: int = 1):
    return Sentence(
        number,
        parse_gold(gold, "gold:1"),
        tuple(parse_links(line, "links:1") for line in links),
        source.split() if source else None,
        target.split() if target else None,
    )


PAIR: dict[str, Any] = {
    "source": "in 1984 the big house stood .",
    "target": "1984 stand das große Haus da .",
}


def kinds(gold: str, links: str) -> dict[str, int]:
    found = break_down([sentence(gold, links, **PAIR)])
    counts = {f"wrong {kind}": count for kind, count in found.wrong.items()}
    counts |= {f"missed {kind}": count for kind, count in found.missed.items()}
    return {kind: count for kind, count in counts.items() if count}


# --------------------------------------------------------------------------------- error kinds


@pytest.mark.parametrize(
    ("gold", "links", "expected"),
    [
        ("1-0 2p2", "1-0 2-2", {}),
        # "in" and "da" are unaligned in gold
        ("1-0 2-2", "1-0 2-2 0-0", {"wrong unaligned in gold": 1}),
        ("1-0 2-2", "1-0 2-2 0-5", {"wrong unaligned in gold": 1}),
        # "the" is linked rightly and to "große" as well
        ("2-2 3-3", "2-2 2-3 3-3", {"wrong in addition": 1}),
        # the two are exchanged: both wrong, both missed
        ("2-2 3-3", "2-3 3-2", {"wrong elsewhere": 2, "missed elsewhere": 2}),
        # half of "stood" = "stand … da"
        ("5-1 5-5", "5-1", {"missed in part": 1}),
        # a possible link of the word counts as a part found
        ("5-1 5p5", "5-5", {"missed in part": 1}),
        ("3-3", "", {"missed unaligned": 1}),
        # "große" is linked, but "big" is not
        ("3-3 4-4", "4-3", {"wrong elsewhere": 1, "missed unaligned": 2}),
        # possible links need not be found
        ("3p3", "", {}),
    ],
)
def test_kinds_by_hand(gold, links, expected):
    assert kinds(gold, links) == expected


# -------------------------------------------------------------------------------- word classes


def classes(gold: str, links: str, name: str, *more: Sentence) -> dict[str, tuple[int, int, int]]:
    """class -> (sure, wrong, missed) of the sentences."""
    found = break_down([sentence(gold, links, **PAIR), *more]).classes[name]
    return {
        label: (score.sure, score.wrong, score.missed)
        for label, score in found.items()
        if score.links or score.possible
    }


def test_characters_by_hand():
    gold, links = "1-0 6-6 4-4", "1-6 4-4"
    of_source = {"word": (1, 0, 0), "number": (1, 1, 1), "punctuation": (1, 0, 1)}
    assert classes(gold, links, "source characters") == of_source
    of_target = {"word": (1, 0, 0), "number": (1, 0, 1), "punctuation": (1, 1, 1)}
    assert classes(gold, links, "target characters") == of_target


def test_frequency_by_hand():
    more = sentence("", "", source="the . " * 5 + ". " * 96, target="x")
    # the: 6 times, ".": 102 times, big: once
    found = classes("2-2 6-6 3-3", "2-3 6-6", "source frequency", more)
    assert found == {"1": (1, 0, 1), "2-10": (1, 1, 1), "over 100": (1, 0, 0)}
    assert classes("2-2", "", "target frequency", more) == {"1": (1, 0, 1)}


def test_distance_by_hand():
    # 7 words a side: one place is 1/7 = 0.14
    found = classes("2-2 3-4 4-2", "2-2 0-6", "distance from diagonal")
    assert found == {"under 0.1": (1, 0, 0), "0.1-0.25": (1, 0, 1), "0.25 and more": (1, 1, 1)}


def test_words_in_gold_by_hand():
    # in: NULL · 1984 1-1 · the big = das große · house 1-n
    gold = "1-0 2-2 2-3 3-2 3-3 4-4 4p5"
    found = classes(gold, "0-0 1-0 2-2 4-5", "words in gold")
    assert found == {
        "1-1": (1, 0, 0),
        "1-n": (1, 0, 1),
        "n-n": (4, 0, 3),
        "unaligned": (0, 1, 0),
    }
    assert classes("4-4 3-4", "4-0", "words in gold") == {"n-1": (2, 0, 2), "unaligned": (0, 1, 0)}


def test_breakdown_becomes_json():
    record = json.loads(json.dumps(break_down([sentence("1-0", "1-0", **PAIR)]).to_json()))
    assert list(record["wrong"]) == list(WRONG)
    assert list(record["missed"]) == list(MISSED)
    assert list(record["classes"]) == list(CLASSES)
    assert record["classes"]["words in gold"]["1-1"]["aer"] == 0


def test_words_are_needed():
    with pytest.raises(UserError, match="give the words by --source and --target"):
        break_down([sentence("1-0", "1-0")])


# ---------------------------------------------------------------------------------------- laws

TOKENS = st.lists(st.sampled_from("the house 7 3rd , - 東京 ́ ²".split()), min_size=1, max_size=5)


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    source, target = draw(TOKENS), draw(TOKENS)
    places = [(s, t) for s in range(len(source)) for t in range(len(target))]
    some = st.frozensets(st.sampled_from(places))
    sure, more, links = draw(some), draw(some), draw(some)
    return Sentence(1, Gold(sure, sure | more), (links,), source, target)


corpora = st.lists(sentences(), min_size=1, max_size=4)


def turned(one: Sentence) -> Sentence:
    gold = Gold(transpose(one.gold.sure), transpose(one.gold.possible))
    return Sentence(1, gold, (transpose(one.links[0]),), one.target, one.source)


@given(corpora)
def test_the_parts_add_up_to_the_whole(corpus):
    whole = sum((score_sentence(one.links[0], one.gold) for one in corpus), AlignmentScore())
    found = break_down(corpus)
    assert (sum(found.wrong.values()), sum(found.missed.values())) == (whole.wrong, whole.missed)
    assert list(found.classes) == list(CLASSES)
    for name, scores in found.classes.items():
        assert tuple(scores) == CLASSES[name].classes
        total = sum(scores.values(), AlignmentScore()).counts
        assert total | {"sentences": 0} == whole.counts | {"sentences": 0}


@given(corpora)
def test_source_and_target_are_equals(corpus):
    found, exchanged = break_down(corpus), break_down([turned(one) for one in corpus])
    assert exchanged.wrong == found.wrong
    assert exchanged.missed == found.missed
    for name in ("frequency", "characters"):
        assert exchanged.classes[f"source {name}"] == found.classes[f"target {name}"]
    name = "distance from diagonal"
    assert exchanged.classes[name] == found.classes[name]
    name = "words in gold"
    other = {"-".join(reversed(label.split("-"))): x for label, x in found.classes[name].items()}
    assert exchanged.classes[name] == other


# --------------------------------------------------------------------------------- differences


def test_differences_by_hand():
    corpus = [
        sentence("0-0 1-1", "0-0 1-1", "0-0 1-1", number=1),  # the same
        sentence("0-0 1-1 1p2", "0-0 1-2", "0-1", number=2, source="a b", target="x y z"),
        sentence("0-0", "0-0", "", number=3),
        sentence("0-0 1-1", "0-1", "1-0", number=4),  # equally bad
        sentence("0-0", "", "0-0", number=5),
    ]
    found = differences(corpus, 10)
    assert [one.sentence.number for one in found] == [2, 3, 5]  # ties in the order of the text
    # errors: 1-1 missed; 0-1 wrong, 0-0 and 1-1 missed
    assert [one.size for one in found] == [2, 1, 1]
    assert found[0].only == ({(0, 0): "sure", (1, 2): "possible"}, {(0, 1): "wrong"})
    assert found[0].words((1, 2)) == ("b", "z")
    assert found[1].words((0, 0)) is None
    assert [one.sentence.number for one in differences(corpus, 1)] == [2]
    turned_round = differences(corpus, 10, (1, 0))[0]
    assert turned_round.only == (found[0].only[1], found[0].only[0])
    assert json.loads(json.dumps(found[0].to_json())) == {
        "sentence": 2,
        "source": ["a", "b"],
        "target": ["x", "y", "z"],
        "aer": [pytest.approx(1 - 3 / 4), 1.0],
        "wrong": [0, 1],
        "missed": [1, 2],
        "only": [
            [
                {"link": [0, 0], "gold": "sure", "words": ["a", "x"]},
                {"link": [1, 2], "gold": "possible", "words": ["b", "z"]},
            ],
            [{"link": [0, 1], "gold": "wrong", "words": ["a", "y"]}],
        ],
    }
    assert found[1].to_json()["only"] == [[{"link": (0, 0), "gold": "sure", "words": None}], []]
