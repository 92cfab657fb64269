"""Glossaries: which terms a line has, and where the required translations go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.checkpoint import Trained, load
from nmtkit.links import parse_links
from nmtkit.search import SearchOptions
from nmtkit.text import Text, TextConfig
from nmtkit.translate import TermCount, TranslateOptions, translate
from nmtkit.translate.glossary import Glossary
from tests.conftest import COMMON, SOURCE, TARGET
from tests.micro import CPU

PLAIN = Text(TextConfig("xx", subwords="none"))
LOWER = Text(TextConfig("xx", subwords="none", case="lower"))


def found(entries: dict[str, str], line: str) -> list[tuple[str, int]]:
    matches = Glossary(entries, PLAIN, PLAIN).matches(PLAIN.tokenise(line))
    return [(match.term.text, match.span[0]) for match in matches]


def edited(
    entries: dict[str, str],
    source: str,
    target: str,
    links: str,
    fixed: int = 0,
    text: Text = PLAIN,
    tokens: bool = False,
) -> tuple[str, TermCount]:
    """Source and target tokenised at spaces."""
    glossary = Glossary(entries, PLAIN, text)
    words = target.split()
    linked = parse_links(links, "here")
    result = glossary.edit(glossary.matches(source.split()), words, linked, fixed, tokens)
    assert len(result.moved) == len(words)
    assert sorted(set(result.moved)) == list(range(len(result.words)))
    return " ".join(result.words), result.count


PRESENT, PUT, MISSING = TermCount(1), TermCount(0, 1), TermCount(0, 0, 1)


# Finding terms


def test_the_longest_term_comes_first() -> None:
    entries = {"b": "1", "a b": "2", "b c d": "3", "d e": "4"}
    assert found(entries, "a b c d e") == [("3", 1)]
    assert found(entries, "a b c") == [("2", 0)]
    assert found(entries, "b a b, d e b") == [("1", 0), ("2", 1), ("4", 4), ("1", 6)]
    assert found(entries, "ab bc") == []


def test_case() -> None:
    """In lower case: in any case. With a capital: so alone."""
    entries = {"engine": "x", "IT": "y", "it": "z", "New York": "w"}
    assert found(entries, "Engine ENGINE engine") == [("x", 0), ("x", 1), ("x", 2)]
    assert found(entries, "IT it It iT") == [("y", 0), ("z", 1), ("z", 2), ("z", 3)]
    assert found(entries, "New York new york NEW YORK") == [("w", 0)]


def test_terms_are_tokenised_like_the_text() -> None:
    assert found({"rock'n'roll (live)": "x"}, "A rock'n'roll (live)!") == [("x", 1)]
    assert found({"\u00a0": "x", "a": "\u00a0"}, "a \u00a0 b") == []


# Putting terms


@pytest.mark.parametrize(
    ("source", "target", "links", "expected", "count"),
    [
        ("a t b", "B X A", "0-2 1-1 2-0", "B Term A", PUT),
        ("a t b", "B X Y Z A", "0-4 1-1 1-2 1-3 2-0", "B Term A", PUT),
        ("a t b", "B X Y Z A", "0-4 1-1 1-3 2-0", "B Term A", PUT),  # nothing is linked to Y
        ("a t b", "X B Y Z A", "0-4 1-0 2-1 1-2 1-3", "X B Term A", PUT),  # the longer part
        ("a t b", "X B Y A", "0-3 1-0 2-1 1-2", "Term B Y A", PUT),  # the first of equals
        ("a t b", "B Term A", "0-2 1-1 2-0", "B Term A", PRESENT),
        ("a t b", "Term B X A", "0-3 1-2 2-1", "Term B X A", PRESENT),  # elsewhere
        ("a t b", "B term A", "0-2 1-1 2-0", "B Term A", PRESENT),  # here, in another case
        ("a t b", "B X A term", "0-2 1-1 2-0", "B Term A term", PUT),  # not elsewhere
        ("a t b", "B X A", "0-2 2-0", "B X A", MISSING),
        ("t b t", "X B", "0-0 1-1 2-0", "Term B", TermCount(0, 1, 1)),
        ("t b t", "Term B Y", "0-0 1-1 2-2", "Term B Term", TermCount(1, 1)),
        ("t b t", "Y B Term", "0-0 1-1 2-2", "Term B Term", TermCount(1, 1)),
        ("t b t", "Term B Term", "2-0 1-1 0-2", "Term B Term", TermCount(2)),
        ("a b", "A B", "0-0 1-1", "A B", TermCount()),
        ("t", "", "", "", MISSING),
    ],
)
def test_one_word(source: str, target: str, links: str, expected: str, count: TermCount) -> None:
    assert edited({"t": "Term"}, source, target, links) == (expected, count)


@pytest.mark.parametrize(
    ("source", "target", "links", "expected", "count"),
    [
        ("a t u b", "B X A", "0-2 1-1 3-0", "B der (Term) A", PUT),
        ("a t u b", "B X Y A", "0-3 1-1 2-2 3-0", "B der (Term) A", PUT),
        ("a t u b", "B der ( Term ) A", "0-5 1-1 2-3 3-0", "B der ( Term ) A", PRESENT),
        ("a t u b", "B der Term A", "0-3 1-1 2-2 3-0", "B der (Term) A", PUT),
        ("t u b", "X B", "0-0 1-0 2-1", "Der (Term) B", PUT),  # as X does at the start
        ("t u b", "x B", "0-0 1-0 2-1", "der (Term) B", PUT),
        ("t u b", "Der ( Term ) B", "0-0 1-3 2-4", "Der ( Term ) B", PRESENT),
    ],
)
def test_several_words(
    source: str, target: str, links: str, expected: str, count: TermCount
) -> None:
    assert edited({"t u": "der (Term)"}, source, target, links) == (expected, count)


def test_tokens_prefixes_and_folded_text() -> None:
    entries = {"t u": "der (Term)", "a": "Das"}
    line = ("a t u", "das x y", "0-0 1-1 2-2")
    assert edited(entries, *line) == ("Das der (Term)", TermCount(1, 1))
    assert edited(entries, *line, tokens=True)[0] == "Das der ( Term )"
    assert edited(entries, *line, fixed=1)[0] == "das der (Term)"
    assert edited(entries, *line, fixed=3) == ("das x y", TermCount(1, 0, 1))
    assert edited(entries, "a", "x das", "0-0", text=LOWER) == ("x Das", PRESENT)


@given(
    source=st.lists(st.sampled_from("abct"), max_size=6),
    target=st.lists(st.sampled_from(["A", "B", "x", "y", "Term"]), max_size=6),
    links=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))),
    fixed=st.integers(0, 3),
)
def test_counts_are_true_whatever_is_linked(source, target, links, fixed) -> None:
    entries = {"t": "Term", "a b": "x y", "c": "Two\u00a0words (c)"}
    glossary = Glossary(entries, PLAIN, PLAIN)
    kept = frozenset((j, i) for j, i in links if j < len(source) and i < len(target))
    matches = glossary.matches(source)
    fixed = min(fixed, len(target))
    result = glossary.edit(matches, target, kept, fixed, tokens=True)
    assert sum(result.count) == len(matches)
    assert result.words[:fixed] == target[:fixed]
    text = f" {' '.join(result.words)} ".lower()
    wanted = [" ".join(match.term.target).lower() for match in matches]
    if not result.count.missing:
        assert all(f" {one} " in text for one in wanted)
        for one in set(wanted):
            assert f" {text} ".replace(" ", "  ").count(one.replace(" ", "  ")) >= wanted.count(one)
    if not matches:
        assert result.words == target


# With a model


@pytest.fixture(scope="module")
def trained(toy) -> Trained:
    return load(toy.model, CPU)


def outputs(model: Trained, lines: list[str], entries: dict[str, str], **options: Any) -> Any:
    given = TranslateOptions(glossary=entries, **options)
    return [n_best[0] for n_best in translate([model], lines, given)]


def test_terms_of_the_toy_language(trained) -> None:
    a, b, c = SOURCE[:3]
    x, _, z = TARGET[:3]
    entries = {b: "Neue Wörter (neu)", a: x, f"{b} {c}": "Paar"}
    [one, other, third, blank] = outputs(
        trained, [f"{a} {b}.", f"{a} {b} {c}!", f"{c.upper()} {c}?", ""], entries
    )
    assert (one.text, one.terms) == (f"Neue Wörter (neu) {x}.", TermCount(1, 1))
    assert (other.text, other.terms) == (f"Paar {x}!", TermCount(1, 1))
    assert (third.text, third.terms) == (f"{z} {z}?", TermCount())
    assert (blank.text, blank.terms) == ("", TermCount())
    # What there is besides speaks of the new words.
    [linked] = outputs(trained, [f"{a} {b}."], entries, links=True, tokenized=True)
    assert linked.text == f"Neue Wörter ( neu ) {x} ."
    assert sorted(linked.links) == [(0, 5), (1, 0), (1, 6)]
    [marked] = outputs(trained, [f"{a} <b>{b}</b>."], entries, markup=True)
    assert marked.text == f"<b>Neue Wörter (neu)</b> {x}."


def test_terms_come_after_replaced_unknown_words(trained) -> None:
    line = f"{SOURCE[0]} {SOURCE[COMMON]} XyZ"
    entries = {"XyZ": "Eigenname"}
    [one] = outputs(trained, [line], entries, replace_unknown=True)
    assert one.text == f"Eigenname {SOURCE[COMMON]} {TARGET[0]}"


def test_every_hypothesis_has_the_terms(trained) -> None:
    options = TranslateOptions(glossary={SOURCE[0]: "Q7"}, search=SearchOptions(beam=4, n_best=4))
    [n_best] = translate([trained], [f"{SOURCE[0]} {SOURCE[1]}"], options)
    assert len(n_best) == 4
    assert all("Q7" in output.text or output.terms.missing for output in n_best)
    assert n_best[0].text == f"{TARGET[1]} Q7"
