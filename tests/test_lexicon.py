"""The lexical table against its formula, written with dicts; and what it does not take."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from nmtkit.models.lexicon import LEAST, TENSORS, UNSEEN, Lexicon, Own

SOURCES, TARGETS = 5, 6
CLASSES = ([0, 1, 1, 2, 0], [0, 1, 1, 2, 3, 2])  # target class 3 is word 4 alone
NO_CLASSES = ([0] * SOURCES, [0] * TARGETS)
COUNTS = {(1, 1): 2.5, (1, 2): 0.25, (2, 1): 1.0, (3, 5): 4.0, (4, 0): 0.125, (1, 0): 0.0}
NULL = [0.0, 0.5, 0.0, 0.0, 0.0, 1.5]

Counts = dict[tuple[int, int], float]


def tensors(counts: Counts, null: list[float], classes: tuple[list[int], list[int]]):
    pairs = sorted(counts)
    return {
        "keys": torch.tensor([e * TARGETS + f for e, f in pairs], dtype=torch.int64),
        "counts": torch.tensor([counts[pair] for pair in pairs], dtype=torch.float32),
        "null_counts": torch.tensor(null),
        "source_class": torch.tensor(classes[0]),
        "target_class": torch.tensor(classes[1]),
    }


def lexicon(counts: Counts, null: list[float], classes=CLASSES, smoothing: float = 3.0) -> Lexicon:
    made = Lexicon(SOURCES, TARGETS, smoothing)
    made.take(tensors(counts, null, classes))
    return made


def translation(e: int, f: int, counts: Counts, share: list[float], classes, m: float) -> float:
    """t(f | e); share: n(f) / n(F) of every target word."""
    sources, targets = classes
    n_e = sum(n for (source, _), n in counts.items() if source == e)
    base = 1 / TARGETS
    if len(set(targets)) > 1:
        with_e = {p: n for p, n in counts.items() if sources[p[0]] == sources[e]}
        with_f = [n for p, n in with_e.items() if targets[p[1]] == targets[f]]
        estimate = (sum(with_f) + m / len(set(targets))) / (sum(with_e.values()) + m)
        base = estimate * share[f]
    return (counts.get((e, f), 0.0) + m * base) / (n_e + m)


def shares(counts: Counts, null: list[float], classes) -> list[float]:
    number = [sum(n for (_, t), n in counts.items() if t == f) + null[f] for f in range(TARGETS)]
    number = [max(n, UNSEEN) for n in number]
    targets = classes[1]
    of_class = [
        sum(number[g] for g in range(TARGETS) if targets[g] == targets[f]) for f in range(TARGETS)
    ]
    return [n / of for n, of in zip(number, of_class, strict=True)]


def all_pairs(table: Lexicon) -> torch.Tensor:
    """t of every target word (row) by every source word (column)."""
    source, target = torch.arange(SOURCES).unsqueeze(0), torch.arange(TARGETS).unsqueeze(0)
    return table.probabilities(table.cells(source, target), source, target)[0]


@pytest.mark.parametrize("classes", [CLASSES, NO_CLASSES])
@pytest.mark.parametrize("smoothing", [0.5, 30.0])
def test_probabilities_are_the_formula(classes, smoothing):
    found = all_pairs(lexicon(COUNTS, NULL, classes, smoothing))
    share = shares(COUNTS, NULL, classes)
    wanted = [
        [translation(e, f, COUNTS, share, classes, smoothing) for e in range(SOURCES)]
        for f in range(TARGETS)
    ]
    torch.testing.assert_close(found, torch.tensor(wanted))


def test_probabilities_by_hand():
    # n(e=1) = 2.75; no classes, b = 1/6, m = 3: t(1 | 1) = (2.5 + 0.5) / 5.75.
    found = all_pairs(lexicon(COUNTS, NULL, NO_CLASSES))
    assert found[1, 1].item() == pytest.approx(3 / 5.75)
    assert found[3, 1].item() == pytest.approx(0.5 / 5.75)  # never seen together
    # n(E=1) = 3.75 of words 1 and 2, n(E=1, F=1) = 3.75; n(f=2) = 0.25 of n(F=1) = 4.25.
    found = all_pairs(lexicon(COUNTS, NULL))
    base = (3.75 + 0.75) / 6.75 * 0.25 / 4.25
    assert found[2, 2].item() == pytest.approx(3 * base / (1 + 3))


def test_without_smoothing_it_is_relative_frequency():
    found = all_pairs(lexicon(COUNTS, NULL, smoothing=0.0))
    assert found[1, 1].item() == pytest.approx(2.5 / 2.75)
    assert found[3, 1].item() == pytest.approx(LEAST)
    assert found[0, 0].item() == pytest.approx(LEAST)  # word 0 has no counts at all


@st.composite
def tables(draw):
    """Counts, NULL's, classes without gaps, some without any count, and a smoothing."""
    pair = st.tuples(st.integers(0, SOURCES - 1), st.integers(0, TARGETS - 1))
    number = st.floats(0, 1e6, width=32)
    counts = draw(st.dictionaries(pair, number, max_size=20))
    null = draw(st.lists(number, min_size=TARGETS, max_size=TARGETS))
    classes = []
    for size in (SOURCES, TARGETS):
        drawn = draw(st.lists(st.integers(0, size - 1), min_size=size, max_size=size))
        classes.append([sorted(set(drawn)).index(c) for c in drawn])
    return counts, null, tuple(classes), draw(st.floats(0.1, 1000))


@given(tables())
@example((COUNTS, NULL, CLASSES, 30.0))
@example(({}, [0.0] * TARGETS, CLASSES, 30.0))
def test_every_source_word_has_a_distribution(table):
    counts, null, classes, smoothing = table
    made = lexicon(counts, null, classes, smoothing)
    torch.testing.assert_close(all_pairs(made).sum(0), torch.ones(SOURCES))
    every = made.null_probabilities(torch.arange(TARGETS).unsqueeze(0))
    torch.testing.assert_close(every.sum(), torch.tensor(1.0))
    assert (every > 0).all()
    assert (all_pairs(made) > 0).all()


@given(tables())
def test_the_table_is_the_probabilities_of_its_pairs(table):
    counts, null, classes, smoothing = table
    made = lexicon(counts, null, classes, smoothing)
    sources, targets = made.words()
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == sorted(counts)
    torch.testing.assert_close(made.table(), all_pairs(made)[targets, sources])


@pytest.mark.parametrize("classes", [CLASSES, NO_CLASSES])
def test_own_counts_are_left_out(classes):
    source = torch.tensor([[1, 2, 1, 3]])  # 1 stands twice; 1 and 2 are of one class
    target = torch.tensor([[1, 5]])
    links = torch.tensor([[[0.5, 0.25, 0.125, 0.0], [0.0, 0.0, 0.0, 1.0]]])
    made = lexicon(COUNTS, NULL, classes)
    found = made.probabilities(made.cells(source, target), source, target, made.own(source, links))
    share = shares(COUNTS, NULL, classes)
    for i, f in enumerate(target[0].tolist()):
        left = dict(COUNTS)
        for j, e in enumerate(source[0].tolist()):
            if links[0, i, j]:
                left[e, f] -= float(links[0, i, j])
        for j, e in enumerate(source[0].tolist()):
            wanted = translation(e, f, left, share, classes, 3.0)
            assert found[0, i, j].item() == pytest.approx(wanted, rel=1e-5), (i, j)
    # n(NULL) = 2, b = 1/6: word 5 had 1.5, of which its own 0.25 go.
    null = made.null_probabilities(target, torch.tensor([[0.0, 0.25]]))
    torch.testing.assert_close(null, torch.tensor([[(0.5 + 0.5) / 5, (1.25 + 0.5) / 4.75]]))


def test_own_counts_never_leave_less_than_nothing():
    made = lexicon({(1, 1): 1.0}, [0.0] * TARGETS, smoothing=0.0)
    place = torch.tensor([[1]])
    own = Own(*(torch.full((1, 1, 1), 1.0000001),) * 2)
    assert made.probabilities(made.cells(place, place), place, place, own).item() > 0


def test_an_empty_table_knows_nothing():
    made = lexicon({}, [0.0] * TARGETS, NO_CLASSES)
    torch.testing.assert_close(all_pairs(made), torch.full((TARGETS, SOURCES), 1 / TARGETS))
    assert made.table().shape == (0,)


def test_begin_forgets_the_counts():
    made = lexicon(COUNTS, NULL)
    made.begin(torch.tensor([7, 9]), *map(torch.tensor, NO_CLASSES))
    assert made.counts.tolist() == [0, 0]
    torch.testing.assert_close(all_pairs(made), torch.full((TARGETS, SOURCES), 1 / TARGETS))


LAST = SOURCES * TARGETS


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("keys", None, "the tensor keys is missing"),
        ("keys", torch.zeros(6), "not a vector of int64"),
        ("keys", torch.zeros(2, 3, dtype=torch.int64), "not a vector of int64"),
        ("keys", torch.arange(5), "differ in length"),
        ("keys", torch.tensor([0, 1, 2, 3, 5, 4]), "rising"),
        ("keys", torch.tensor([0, 1, 2, 3, 4, 4]), "rising"),
        ("keys", torch.tensor([-1, 1, 2, 3, 4, 5]), "rising"),
        ("keys", torch.tensor([0, 1, 2, 3, 4, LAST]), "rising"),
        # Steps that are all upward when a difference overflows.
        ("keys", torch.tensor([0, 2**62, -(2**63) + 9, -(2**62) - 1, 1, 2]), "rising"),
        ("counts", torch.zeros(5), "differ in length"),
        ("counts", torch.zeros(6, dtype=torch.float64), "not a vector of float32"),
        ("counts", torch.tensor(1.0), "not a vector"),
        ("counts", torch.tensor([1, 1, 1, 1, 1, -0.5]), "no counts"),
        ("counts", torch.tensor([1, 1, 1, 1, 1, torch.nan]), "no counts"),
        ("counts", torch.tensor([1, 1, 1, 1, 1, torch.inf]), "no counts"),
        ("counts", torch.tensor([1, 1, 1, 1, 1, 3e38]), "no counts"),
        ("null_counts", torch.zeros(TARGETS + 1), "has 7 entries, the vocabulary 6"),
        ("null_counts", torch.full((TARGETS,), -1.0), "no counts"),
        ("source_class", torch.arange(SOURCES) - 1, "no classes"),
        ("source_class", torch.arange(SOURCES) + 1, "no classes"),
        ("target_class", torch.arange(TARGETS) + 1, "no classes"),
        ("target_class", torch.zeros(0, dtype=torch.int64), "has 0 entries"),
        ("source_class", torch.zeros(SOURCES, dtype=torch.int32), "not a vector of int64"),
    ],
)
def test_damaged_tensors_are_refused(name, value, message):
    given_ = tensors(COUNTS, NULL, CLASSES)
    Lexicon(SOURCES, TARGETS, 1.0).take(given_)
    given_[name] = value
    if value is None:
        del given_[name]
    with pytest.raises(ValueError, match=message):
        Lexicon(SOURCES, TARGETS, 1.0).take(given_)


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_whatever_is_taken_gives_probabilities(seed, faults):
    draw = random.Random(seed)
    given_ = tensors(COUNTS, NULL, CLASSES)
    for name in draw.sample(TENSORS, faults):
        kind = draw.choice([torch.float32, torch.int64, torch.float64, torch.bfloat16, torch.bool])
        if draw.random() < 0.7:
            kind = given_[name].dtype
        size = len(given_[name]) if draw.random() < 0.8 else draw.randrange(9)
        most = draw.choice([2, 5, 6, LAST, 2**62])
        least = -1 if draw.random() < 0.1 else 0
        values: list[float] = [draw.randrange(least, most) for _ in range(size)]
        values = sorted(values) if name == "keys" else values
        if kind == torch.float32 and draw.random() < 0.2 and size:
            values[0] = draw.choice([float("nan"), float("inf"), 1e-45])
        given_[name] = torch.tensor(values).to(kind)
    made = Lexicon(SOURCES, TARGETS, 1.0)
    try:
        made.take(given_)
    except ValueError:
        return
    found = all_pairs(made)
    assert ((found > 0) & (found <= 1.00001)).all()
