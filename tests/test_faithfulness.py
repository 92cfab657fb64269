"""Faithfulness of attention: a model whose reasons are known, and one sentence at a time."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from nmtkit.align import AlignOptions, Line, align, argmax_links
from nmtkit.align.faithfulness import Faithfulness, faithfulness, judge, kendall
from nmtkit.batches import BatchSize, with_end
from nmtkit.checkpoint import Trained, load
from nmtkit.errors import UserError
from nmtkit.models.seq2seq import Chosen, Memory, Seq2Seq
from nmtkit.search import force_decode
from nmtkit.text import Text, TextConfig
from nmtkit.vocabulary import EOS, UNK, Vocabulary
from tests.conftest import toy_pairs
from tests.micro import CPU

FIGURES = (
    *("drop_attended", "drop_second", "drop_random"),
    *("most_influential", "chance", "correlation"),
)
BASE = -5.0  # log-probability of a target subword when no source word speaks for it


@dataclass(frozen=True)
class Read(Memory):
    source: Tensor


class Known(Seq2Seq[Read, Any]):
    """log p(y) = BASE + what each subword of the source gives y; the attention on a source subword
    is a fixed weight for the target subword that is read next.
    """

    def __init__(self, gives: Any, weights: Any, source: Text, target: Text) -> None:
        super().__init__()
        assert source.vocabulary is not None
        assert target.vocabulary is not None
        size = len(target.vocabulary)
        self.output = nn.Linear(size, size)
        nn.init.eye_(self.output.weight)
        nn.init.zeros_(self.output.bias)
        ids = [source.vocabulary.ids([s])[0] if s != "end" else EOS for s in [*"abcd", "?", "end"]]
        self.gives = torch.zeros(len(source.vocabulary), size)
        self.weights = torch.zeros(len(target.vocabulary), len(source.vocabulary))
        previous = 2  # BOS
        for y, row in weights.items():
            self.weights[previous, ids] = torch.tensor(row)
            (previous,) = target.vocabulary.ids([y])
            self.gives[ids[:-1], previous] = torch.tensor(gives[y])

    def encode(self, source: Tensor, mask: Tensor) -> Read:
        return Read(mask, source)

    def features(
        self, target_in: Tensor, memory: Read, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        log_probs = BASE + (self.gives[memory.source] * memory.mask[..., None]).sum(1)
        log_probs[:, 0] = (1 - log_probs[:, 1:].exp().sum(1)).log()  # the rest, on PAD
        features = log_probs[:, None].expand(-1, target_in.shape[1], -1)
        weights = self.weights[target_in].gather(
            2, memory.source[:, None].expand(-1, target_in.shape[1], -1)
        )
        return features, weights * memory.mask[:, None]


# What the source subwords a, b, c, d and the unknown one give each target subword …
GIVES = {
    "x": [2.0, 0.5, 0.0, 0.0, 0.25],
    "y@@": [0.0, 0.7, -0.1, 0.0, 0.0],
    "w": [0.0, 0.3, -0.4, 0.0, 0.0],
    "z": [0.0, 0.0, 0.0, 1.0, 0.0],
}
# … and the attention on them and on the source's end where it is predicted.
WEIGHTS = {
    "x": [0.5, 0.3, 0.1, 0.0, 0.0, 0.1],
    "y@@": [0.2, 0.2, 0.6, 0.0, 0.0, 0.0],
    "w": [0.2, 0.3, 0.4, 0.0, 0.0, 0.1],
    "z": [0.1, 0.2, 0.2, 0.0, 0.0, 0.5],
}


@pytest.fixture
def known() -> Trained:
    source = Text(
        TextConfig("en", "none", subwords="none"),
        vocabulary=Vocabulary([(s, 1) for s in "abcd"]),
    )
    target = Text(
        TextConfig("de", "none"),
        codes="#version: 0.2\n",
        vocabulary=Vocabulary([(t, 1) for t in WEIGHTS]),
    )
    return Trained(Path("known"), Known(GIVES, WEIGHTS, source, target), source, target)


def figures(found: Faithfulness) -> list[float]:
    return [getattr(found, name) for name in FIGURES]


# Attended by x: a, b, c in this order; they give 2, 0.5, 0. By yw (y@@ and w, the mean): c 0.5,
# b 0.25, a 0.2; they give -0.5, 1, 0. z is NULL's.
#           first      second     others               most        chance     tau
X_WORD = (2.0, 0.5, (0.5 + 0.0) / 2, 1.0, 1 / 3, 1.0)
YW_WORD = (-0.5, 1.0, (1.0 + 0.0) / 2, 0.0, 1 / 3, -1 / 3)


def test_by_hand(known):
    found = faithfulness([known], [("a b c", "x yw z")], AlignOptions())
    assert (found.pairs, found.pairs_judged, found.words, found.words_unlinked) == (1, 1, 2, 1)
    assert figures(found) == pytest.approx(
        [(x + y) / 2 for x, y in zip(X_WORD, YW_WORD, strict=True)], abs=1e-5
    )


def test_the_unknown_word_in_its_place(known):
    found = faithfulness([known], [("a b c", "x")], AlignOptions(), how="unknown")
    # The unknown word gives x 0.25: without a 1.75 is lost, without b 0.25; without c 0.25 is won.
    assert figures(found) == pytest.approx([1.75, 0.25, 0.0, 1.0, 1 / 3, 1.0], abs=1e-5)
    assert found.how == "unknown"


def test_what_cannot_be_judged_is_counted(known):
    pairs = [("a", "x"), ("", "x"), ("a b", ""), ("", ""), ("a b c", "x"), ("a  b", "x")]
    found = faithfulness([known], pairs, AlignOptions())
    assert (found.pairs, found.pairs_judged, found.words) == (6, 2, 2)
    # Two words, and a token of nothing between them: the second is every other word.
    second = (2.0, 0.5, 0.5, 1.0, 1 / 2, 1.0)
    assert figures(found) == pytest.approx(
        [(x + y) / 2 for x, y in zip(X_WORD, second, strict=True)], abs=1e-5
    )


def test_the_table_and_the_file(known):
    found = faithfulness([known], [("a b c", "x yw z")], AlignOptions())
    assert [value for _, value in found.rows()] == [
        *("1", "1", "2", "1", ""),
        *("0.750", "0.750", "0.375", "50.0 %", "33.3 %", "0.333"),
    ]
    table = json.loads(json.dumps(found.to_json()))
    assert table["words_unlinked"] == 1
    assert table["drop_random"] == found.drop_random
    assert set(FIGURES) < set(table)


def test_an_ensemble_is_the_mean_probability(known):
    source, target = known.source, known.target
    other = Known({y: [0.0] * 5 for y in GIVES}, WEIGHTS, source, target)
    both = [known, Trained(Path("other"), other, source, target)]
    found = faithfulness(both, [("a b", "x")], AlignOptions())
    whole, without_a, without_b = (
        math.log((math.exp(BASE + given) + math.exp(BASE)) / 2) for given in (2.5, 0.5, 2.0)
    )
    wanted = [whole - without_a, whole - without_b, whole - without_b]
    assert figures(found)[:3] == pytest.approx(wanted, abs=1e-5)


# ---------------------------------------------------------------------------------- what goes wrong


def test_errors(known):
    with pytest.raises(UserError, match="unknown way to leave a word out 'delet'"):
        faithfulness([known], [], AlignOptions(), how="delet")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="none of the 2 pairs has a target word"):
        faithfulness([known], [("a", "x"), ("d d", "x")], AlignOptions())
    known.model.has_attention = False
    with pytest.raises(UserError, match="no attention"):
        faithfulness([known], [("a b", "x")], AlignOptions())
    table: Any = SimpleNamespace(has_attention=True)
    with pytest.raises(UserError, match="does not say how probable a translation is"):
        faithfulness([Trained(Path("ibm"), table, known.source, known.target)], [], AlignOptions())


# ------------------------------------------------------------------------------------------- ranks


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=7))
def test_kendall_pair_by_pair(points):
    def sign(value: int) -> int:
        return (value > 0) - (value < 0)

    pairs = [(sign(a[0] - b[0]), sign(a[1] - b[1])) for a, b in combinations(points, 2)]
    untied = [sum(abs(pair[side]) for pair in pairs) for side in (0, 1)]
    found = kendall(*(np.array(values, np.float64) for values in zip(*points, strict=True)))
    if not all(untied):
        assert found == 0
    else:
        agreement = sum(one * other for one, other in pairs)
        assert found == pytest.approx(agreement / math.sqrt(untied[0] * untied[1]))


@given(st.integers(1, 5), st.integers(2, 5), st.integers(0, 99))
def test_the_words_judged_are_those_argmax_links(targets, sources, seed):
    random = np.random.default_rng(seed)
    attention = random.dirichlet(np.ones(sources + 1), targets)
    drops = random.normal(size=(targets, sources))
    found = judge(attention, drops)
    links = sorted(argmax_links(attention, 0.0), key=lambda link: link[1])
    assert [drops[i, j] for j, i in links] == found.figures[:, 0].tolist()
    assert found.unlinked == targets - len(links)
    for (j, i), figure in zip(links, found.figures, strict=True):
        assert figure[3] == (drops[i].argmax() == j)
        others = np.delete(drops[i], j)
        assert figure[2] == pytest.approx(others.mean())
        assert figure[1] == others[np.delete(attention[i, :-1], j).argmax()]


# ------------------------------------------------------------------------------------ a real model


def one_at_a_time(trained: Trained, pairs: Any, how: str) -> list[list[float]]:
    """The figures of every linked word: the source is cut up anew without each of its words."""

    def log_probs(source: list[int], target: Line) -> list[float]:
        ids = with_end([source])
        values = force_decode([trained.seq2seq], ids, ids != 0, with_end([target.ids])).log_probs[0]
        return [
            sum(float(v) for v, of in zip(values, target.word_of, strict=False) if of == i)
            for i in range(len(target.words))
        ]

    found = []
    for (source, target), one in zip(pairs, align([trained], pairs, AlignOptions()), strict=True):
        words = source.split(" ")
        line = Line.of_tokens(trained.target, target)
        whole = log_probs(trained.source.ids(trained.source.segment_tokens(words)), line)
        lost = []
        for j in range(len(words)):
            parts = [trained.source.segment_tokens([word]).subwords for word in words]
            parts[j] = [] if how == "delete" else ["<unk>"] * len(parts[j])
            changed = [i for part in parts for i in trained.source_vocabulary.ids(part)]
            lost.append([w - v for w, v in zip(whole, log_probs(changed, line), strict=True)])
        for j, i in sorted(one.links):
            drops = [row[i] for row in lost]
            ranked = sorted(range(len(words)), key=lambda k: -one.attention[i, k])
            assert ranked[0] == j
            others = [drop for k, drop in enumerate(drops) if k != j]
            mean = sum(others) / len(others)
            best = float(drops[j] >= max(drops))
            found.append([drops[j], drops[ranked[1]], mean, best, 1 / len(words)])
    return found


@pytest.fixture(scope="module")
def trained(model) -> Trained:
    found = load(model, CPU)
    generator = torch.Generator().manual_seed(3)
    for weight in found.model.parameters():  # far from uniform, so that every word matters
        weight.data = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return found


PAIRS = [pair for pair in toy_pairs(12, 9) if " " in pair[0]]


@pytest.mark.parametrize("how", ["delete", "unknown"])
def test_one_sentence_at_a_time(trained, how):
    expected = one_at_a_time(trained, PAIRS, how)
    found = faithfulness([trained], PAIRS, AlignOptions(), how=how)
    assert found.words == len(expected) > 20
    assert figures(found)[:5] == pytest.approx(np.mean(expected, 0).tolist(), abs=1e-5)
    assert UNK not in trained.source.ids(PAIRS[0][0])


@pytest.mark.parametrize(("sentences", "ahead"), [(1, 200), (7, 200), (64, 2), (5, 1)])
def test_batches_change_nothing(trained, monkeypatch, sentences, ahead):
    expected = faithfulness([trained], PAIRS, AlignOptions())
    monkeypatch.setattr("nmtkit.align.faithfulness.AHEAD", ahead)
    size = BatchSize(sentences=sentences, tokens=0, pool=1)
    found = faithfulness([trained], iter(PAIRS), AlignOptions(batch=size))
    assert figures(found) == pytest.approx(figures(expected), abs=1e-6)
    assert (found.words, found.words_unlinked) == (expected.words, expected.words_unlinked)


def test_raw_lines_and_rows(trained):
    one, other, raw = (
        faithfulness([trained], PAIRS, AlignOptions(**options))
        for options in ({}, {"rows": "consumed"}, {"raw": True})
    )
    assert figures(one) != figures(other)
    assert figures(raw) == pytest.approx(figures(one), abs=1e-6)  # nothing to tokenise in these
