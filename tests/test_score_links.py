"""AER, precision, recall and F1 of links; several systems in parallel."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.links import Gold, LinkedPair, Links, parse_gold, parse_links, transpose
from nmtkit.score import (
    AlignmentScore,
    PairFile,
    Sentence,
    in_parallel,
    score_links,
    score_sentence,
    text_file,
)

positions = st.integers(0, 3)
links_lists = st.lists(
    st.frozensets(st.tuples(positions, positions), max_size=8), min_size=1, max_size=4
)


def score(hypothesis: list[str], gold: list[str]) -> AlignmentScore:
    return score_links(
        [parse_links(line, "h:1") for line in hypothesis],
        [parse_gold(line, "g:1") for line in gold],
    )


def rates(result: AlignmentScore) -> tuple[float, float, float, float]:
    return result.precision, result.recall, result.f1, result.aer


def test_aer_by_hand():
    # A = {00 11 22 30}, S = {00 12}, P = S + {11 22}: |A∩S| = 1, |A∩P| = 3
    result = score(["0-0 1-1 2-2 3-0"], ["0-0 1-2 1p1 2p2"])
    assert result.counts == {
        "sentences": 1,
        "links": 4,
        "sure": 2,
        "possible": 4,
        "links_in_sure": 1,
        "links_in_possible": 3,
    }
    # 3/4, 1/2, 2 · 0.375 / 1.25, 1 - (1 + 3) / (4 + 2)
    assert rates(result) == pytest.approx((0.75, 0.5, 0.6, 1 / 3))


def test_sure_links_alone_by_hand():
    # A = {00 12}, S = P = {00 11}:  1 - (1 + 1) / (2 + 2)     (Och and Ney, 2003)
    assert rates(score(["0-0 1-2"], ["0-0 1-1"])) == pytest.approx((0.5, 0.5, 0.5, 0.5))


def test_the_corpus_counts_not_the_mean_of_sentences():
    hypothesis, gold = ["0-0", "0-0 1-1 2-2"], ["0-0", "0-1"]
    sentences = [score([h], [g]).aer for h, g in zip(hypothesis, gold)]
    assert sentences == [0, 1]  # mean 1/2
    assert score(hypothesis, gold).aer == pytest.approx(1 - (1 + 1) / (4 + 2))


@pytest.mark.parametrize(
    ("hypothesis", "gold", "expected"),
    [
        ("", "0-0 1p1", (0, 0, 0, 1)),  # nothing said, something to find
        ("", "", (1, 1, 1, 0)),  # nothing said, nothing to find
        ("0-0", "", (0, 1, 0, 1)),  # all wrong, nothing missed
        ("0-0", "0p0", (1, 1, 1, 0)),  # no sure link to miss
        ("", "0p0", (1, 1, 1, 0)),  # possible links need not be said
        ("0-1", "0-0", (0, 0, 0, 1)),  # both wrong
    ],
)
def test_zero_denominators(hypothesis, gold, expected):
    assert rates(score([hypothesis], [gold])) == expected


def gold_of(sure: list[Links], more: list[Links] | None = None) -> list[Gold]:
    return [Gold(s, s | m) for s, m in zip(sure, more or sure)]


@given(links_lists, links_lists)
def test_aer_is_one_minus_f_without_possible_links(hypothesis, sure):
    n = min(len(hypothesis), len(sure))
    result = score_links(hypothesis[:n], gold_of(sure[:n]))
    assert result.aer == pytest.approx(1 - result.f1)
    assert all(0 <= rate <= 1 for rate in rates(result))


@given(links_lists, links_lists)
def test_perfect_links(sure, more):
    n = min(len(sure), len(more))
    gold = gold_of(sure[:n], more[:n])
    assert score_links(sure[:n], gold).aer == 0
    assert score_links([g.possible for g in gold], gold).aer == pytest.approx(0)
    assert score_links(sure[:n], gold_of(sure[:n])).f1 == 1


@given(links_lists, links_lists, links_lists)
def test_swapping_sides_changes_nothing_and_possible_links_never_hurt(hypothesis, sure, more):
    n = min(len(hypothesis), len(sure), len(more))
    gold = gold_of(sure[:n], more[:n])
    result = score_links(hypothesis[:n], gold)
    swapped = [Gold(transpose(g.sure), transpose(g.possible)) for g in gold]
    assert score_links([transpose(links) for links in hypothesis[:n]], swapped) == result
    assert result.aer <= score_links(hypothesis[:n], gold_of(sure[:n])).aer + 1e-12


def test_different_numbers_of_lines_name_both():
    links, gold = [frozenset({(0, 0)})], gold_of([frozenset({(0, 0)})])
    with pytest.raises(UserError, match=r"out\.links has 1 line, but test\.gold has 3"):
        score_links(links, gold * 3, ("out.links", "test.gold"))
    with pytest.raises(UserError, match=r"out\.links has 2 lines, but test\.gold has 0"):
        score_links(iter(links * 2), iter([]), ("out.links", "test.gold"))
    with pytest.raises(UserError, match=r"test\.gold is empty"):
        score_links([], [], ("out.links", "test.gold"))


def test_alignment_score_becomes_json():
    record = json.loads(json.dumps(score(["0-0 1-1"], ["0-0 1p1"]).to_json()))
    assert record["aer"] == 0
    assert list(record)[:4] == ["aer", "precision", "recall", "f1"]
    assert (record["links_in_possible"], record["links_per_sentence"]) == (2, 2)


def test_errors_by_hand():
    # A = {00 11 22 30}, S = {00 12}, P = S + {11 22}: 30 is wrong, 12 is missed
    result = score(["0-0 1-1 2-2 3-0", ""], ["0-0 1-2 1p1 2p2", ""])
    assert (result.wrong, result.missed, result.errors) == (1, 1, 2)
    assert result.links_per_sentence == 2
    assert AlignmentScore().links_per_sentence == 0


@given(links_lists, links_lists, links_lists)
def test_sentences_add_up_and_aer_is_the_rate_of_errors(hypothesis, sure, more):
    n = min(len(hypothesis), len(sure), len(more))
    gold = gold_of(sure[:n], more[:n])
    result = score_links(hypothesis[:n], gold)
    single = [score_sentence(links, reference) for links, reference in zip(hypothesis, gold)]
    assert sum(single, AlignmentScore()) == result
    assert result.aer == pytest.approx(result.errors / max(result.links + result.sure, 1))


# ------------------------------------------------------------------------------ several systems

A, B, NONE = frozenset({(0, 0)}), frozenset({(0, 1), (1, 0)}), frozenset[tuple[int, int]]()
GOLD = [Gold(A, A | B), Gold(NONE, NONE)]


Tokens = tuple[list[str], list[str]] | None


def file(name: str, *links: Links, by_pair: bool = True, tokens: Tokens = None) -> PairFile:
    source, target = tokens or (None, None)
    pairs = (
        LinkedPair(Gold(one, one), source, target, where=f"{name}:{n}")
        for n, one in enumerate(links, start=1)
    )
    return PairFile(name, pairs, by_pair)


def gold_file(by_pair: bool = True) -> PairFile:
    pairs = (LinkedPair(gold, where=f"gold:{n}") for n, gold in enumerate(GOLD, start=1))
    return PairFile("gold", pairs, by_pair)


def texts(*pairs: tuple[str, str]) -> PairFile:
    return text_file("src", iter(pairs))


def test_systems_and_texts_in_parallel():
    systems = [file("a", A, NONE), file("b", B, NONE)]
    found = list(in_parallel(systems, gold_file(), texts(("x  y", "u v"), ("", "w"))))
    assert found == [
        Sentence(1, GOLD[0], (A, B), ["x", "y"], ["u", "v"]),
        Sentence(2, GOLD[1], (NONE, NONE), [], ["w"]),
    ]
    found = list(in_parallel([file("a", A, NONE)], gold_file()))
    assert [(one.links, one.source, one.target) for one in found] == [
        ((A,), None, None),
        ((NONE,), None, None),
    ]


def test_possible_links_of_a_system_count():
    system = PairFile("a", [LinkedPair(Gold(A, A | B)), LinkedPair(GOLD[1])])
    assert next(in_parallel([system], gold_file())).links == (A | B,)


def test_words_that_a_file_of_links_has():
    tokens, others = (["x", "y"], ["u", "v"]), (["x", "y"], ["u", "w"])
    given = file("b", A, A, tokens=tokens)
    found = next(in_parallel([file("a", A, A), given], gold_file()))
    assert (found.source, found.target) == tokens
    given = file("b", A, A, tokens=tokens)
    with pytest.raises(UserError, match=r"^c:1: other tokens of the target than b:1$"):
        next(in_parallel([given, file("c", A, A, tokens=others)], gold_file()))
    given = file("b", A, A, tokens=tokens)
    with pytest.raises(UserError, match=r"^b:1: other tokens of the source than src:1$"):
        next(in_parallel([given], gold_file(), texts(("x x", "u v"))))
    short = file("a", A, tokens=(["x"], ["u", "v"]))
    with pytest.raises(UserError, match=r"^gold:1: link 1-0 is out of bounds"):
        next(in_parallel([short], gold_file()))


def test_files_that_end_early():
    found = list(in_parallel([file("a", A, A, B)], gold_file(by_pair=False)))
    assert [one.gold.possible for one in found] == [A | B, NONE, NONE]
    found = list(
        in_parallel([file("a", A, by_pair=False)], gold_file(), texts(*[("x y", "u v")] * 2))
    )
    assert [one.links for one in found] == [(A,), (NONE,)]
    both = [file("a", A, by_pair=False), file("b", by_pair=False)]
    assert [one.links for one in in_parallel(both, gold_file(by_pair=False))] == [
        (A, NONE),
        (NONE,) * 2,
    ]
    with pytest.raises(UserError, match=r"^gold has 2 pairs, but a has 3 pairs: "):
        list(in_parallel([file("a", A, A, A, by_pair=False)], gold_file()))


@pytest.mark.parametrize(
    ("systems", "lines", "message"),
    [
        ([[A, A], [A]], None, r"^s1 has 1 pair, but gold has 2 pairs: they must correspond pair"),
        ([[A, A, A, A], [A, A]], None, r"^gold has 2 pairs, but s0 has 4 pairs"),
        ([[A, A]], [("x y", "u v")] * 3, r"^gold has 2 pairs, but src has 3 pairs"),
        ([[A, A]], [("x y", "u v")], r"^src has 1 pair, but gold has 2 pairs"),
        ([[A, A], [A, B]], [("x y", "u v"), ("x", "u")], r"^s1:2: link 0-1 is out of bounds"),
        ([[A, A]], [("x", "u v"), ("x", "u")], r"^gold:1: link 1-0 is out of bounds: the source"),
    ],
)
def test_files_that_do_not_correspond(systems, lines, message):
    files = [file(f"s{n}", *links) for n, links in enumerate(systems)]
    with pytest.raises(UserError, match=message):
        list(in_parallel(files, gold_file(), texts(*lines) if lines else None))


def test_nothing_in_parallel():
    with pytest.raises(UserError, match=r"^gold is empty"):
        list(in_parallel([file("a")], PairFile("gold", [])))
