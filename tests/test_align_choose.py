"""--method auto: what it measures, and that it finds the best there is."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.align import SYMMETRIZE, Aligned, AlignOptions, Choice, Space, choose, extract
from nmtkit.align.choose import agreement
from nmtkit.errors import UserError
from nmtkit.links import Gold, Links, parse_gold
from nmtkit.score import score_links

MODULE = importlib.import_module("nmtkit.align.choose")  # the name is also the function's
WORDS = ["a", "b", "c"]
OPTIONS = AlignOptions()
NOBODY: Any = ["a model"]


def rows_of(*strongest: int) -> Any:
    """Attention (I, J+1) that gives 0.7 to a column of every row, 0.1 to each of three others."""
    attention = np.full((len(strongest), 4), 0.1)
    attention[np.arange(len(strongest)), strongest] = 0.7
    return attention


#: By row reading: forward strongest, backward strongest of one pair of three words each.
READ = {
    "predicting": ((0, 0, 0), (2, 1, 1)),  # no link in common
    "next": ((0, 1, 2), (0, 1, 1)),  # two in common
    "consumed": ((0, 1, 2), (0, 1, 1)),
}


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The row readings asked for; the attention is that of READ, twice."""
    asked: list[str] = []

    def made(models: Any, pairs: Any, options: Any, progress: Any, reverse: Any) -> Any:
        asked.append(options.rows)
        forward, backward = (rows_of(*strongest) for strongest in READ[options.rows])
        for _ in pairs:
            yield Aligned(WORDS, WORDS, forward, frozenset(), backward if reverse else None)

    monkeypatch.setattr(MODULE, "align", made)
    return asked


PAIRS = [("a b c", "x y z")] * 2
EVERYTHING = Space(rows=tuple(READ), symmetrize=SYMMETRIZE)


def test_gold_finds_the_lowest_aer(reads):
    gold = [parse_gold("0-0 1-1 2-2", "here")] * 2
    ranking, aligned = choose(NOBODY, PAIRS, OPTIONS, EVERYTHING, gold, reverse=NOBODY)
    assert reads == list(READ)
    assert {choice.options.rows for choice in ranking} == {"predicting", "next"}  # no equals
    assert {choice.options.symmetrize for choice in ranking} == {*SYMMETRIZE}
    for choice in ranking:
        links = [
            extract(rows_of(*f), rows_of(*b), choice.options)
            for f, b in [READ[str(choice.options.rows)]] * 2
        ]
        found = score_links(links, gold)
        assert choice.figures["AER"] == pytest.approx(100 * found.aer)
        assert choice.figures["precision"] == pytest.approx(100 * found.precision)
        assert choice.figures["recall"] == pytest.approx(100 * found.recall)
    errors = [choice.figures["AER"] for choice in ranking]
    assert errors == sorted(errors)
    assert errors[0] == 0.0 < errors[-1]
    # Argmax has 2-1 backward, which `mutual` leaves out: target word 1 prefers source word 1.
    assert ranking[0].arguments == "--rows next --method mutual --symmetrize union"
    assert [one.links for one in aligned] == [{(0, 0), (1, 1), (2, 2)}] * 2


def test_gold_and_one_direction(reads):
    gold = [parse_gold("0-0 1-0", "here")] * 2
    space = Space(rows=("predicting",), symmetrize=SYMMETRIZE)
    ranking, aligned = choose(NOBODY, PAIRS, OPTIONS, space, gold)
    assert reads == ["predicting"]
    # Only 0-0 is there to be found, beside 0-1 and 0-2, and by `mutual` alone.
    assert ranking[0].arguments == "--rows predicting --method mutual"
    assert ranking[0].figures == pytest.approx({"AER": 100 / 3, "precision": 100.0, "recall": 50.0})
    assert [one.links for one in aligned] == [{(0, 0)}] * 2
    assert all("symmetrize" not in choice.arguments for choice in ranking)


def test_what_is_fixed_stays(reads):
    gold = [parse_gold("0-0", "here")] * 2
    space = Space(rows=("next",), symmetrize=("posterior-union",))
    ranking, _ = choose(NOBODY, PAIRS, OPTIONS, space, gold, reverse=NOBODY)
    assert reads == ["next"]
    assert {choice.options.symmetrize for choice in ranking} == {"posterior-union"}
    thresholds = [choice.options.threshold for choice in ranking]
    assert len(set(thresholds)) == len(thresholds) > 10
    assert all("--method" not in choice.arguments for choice in ranking)


def test_without_gold_the_directions_judge(reads):
    space = Space(rows=tuple(READ), symmetrize=("union",))
    ranking, aligned = choose(NOBODY, PAIRS, OPTIONS, space, reverse=NOBODY)
    best = ranking[0]
    assert best.arguments == "--rows next --method mutual --symmetrize union"
    # Forward three links, backward two of them, where three could be; by chance 3 · 2 / 9.
    assert best.figures == {"agreement": pytest.approx(100 * (4 - 4 / 3) / (6 - 4 / 3))}
    assert [one.links for one in aligned] == [{(0, 0), (1, 1), (2, 2)}] * 2
    values = [choice.figures["agreement"] for choice in ranking]
    assert values == sorted(values, reverse=True)


def test_without_gold_a_soft_way_chooses_only_rows(reads):
    space = Space(rows=tuple(READ), symmetrize=("product",))
    ranking, aligned = choose(NOBODY, PAIRS, OPTIONS, space, reverse=NOBODY)
    assert [choice.arguments for choice in ranking] == [
        f"--rows {rows} --symmetrize product" for rows in ("next", "predicting")
    ]
    assert [one.links for one in aligned] == [{(0, 0), (1, 1)}] * 2


@pytest.mark.parametrize(
    ("pairs", "gold", "message"),
    [
        ([], None, "there are no pairs"),
        (PAIRS, [Gold(frozenset(), frozenset())] * 2, "the gold file has no links"),
    ],
)
def test_nothing_to_choose_by(reads, pairs, gold, message):
    with pytest.raises(UserError, match=message):
        choose(NOBODY, pairs, OPTIONS, EVERYTHING, gold, reverse=NOBODY)
    assert reads == []


def test_arguments_say_all_that_matters():
    options = AlignOptions("next", "threshold", 0.05, "product")
    assert Choice(options, False, {}).arguments == "--rows next --method threshold --threshold 0.05"
    assert Choice(options, True, {}).arguments == (
        "--rows next --threshold 0.05 --symmetrize product"
    )


# --------------------------------------------------------------------------------------- agreement


ALL = frozenset((j, i) for j in range(3) for i in range(3))
DIAGONAL = frozenset({(0, 0), (1, 1), (2, 2)})


@pytest.mark.parametrize(
    ("forward", "backward", "wanted"),
    [
        (DIAGONAL, DIAGONAL, 1.0),
        (ALL, ALL, 0.0),  # no more than chance
        (frozenset(), frozenset(), 0.0),
        # One link each of three words: 2 · (1 - 1/9) of 3 + 3 - 2/9.
        (frozenset({(0, 0)}), frozenset({(0, 0)}), (2 - 2 / 9) / (6 - 2 / 9)),
        (DIAGONAL, frozenset({(0, 1), (1, 2), (2, 0)}), (0 - 2) / (6 - 2)),
        (DIAGONAL, ALL, 0.0),  # 3 in common, 3 by chance
    ],
)
def test_agreement_by_hand(forward, backward, wanted):
    assert agreement([forward], [backward], [(3, 3)]) == pytest.approx(wanted)


def links(draw: Any, sources: int, targets: int) -> Links:
    places = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1))
    found: Links = draw(st.frozensets(places))
    return found


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_agreement_is_kappa_where_no_word_lacks_a_link(data, sources, targets):
    """Against Cohen's formula over all cells, 1 - disagreement / disagreement by chance."""
    one, other = links(data.draw, sources, targets), links(data.draw, sources, targets)
    found = agreement([one], [other], [(sources, targets)])
    assert found <= 1
    cells = sources * targets
    p, q = len(one) / cells, len(other) / cells
    by_chance = p * (1 - q) + q * (1 - p)
    if len(one) >= targets and len(other) >= sources and by_chance:
        assert found == pytest.approx(1 - len(one ^ other) / cells / by_chance)
