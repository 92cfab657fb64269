"""Expectation maximisation against literal, slow implementations of it."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.checkpoint import Trained
from nmtkit.data import Bitext, Ids
from nmtkit.models.ibm import HMM, IBM1, HMMConfig, IBM1Config
from nmtkit.models.lexicon import UNSEEN
from nmtkit.text import Text, TextConfig
from nmtkit.train import em
from nmtkit.train.em import EMConfig, Expectation, expectation_maximisation, word_classes
from nmtkit.vocabulary import SPECIALS, Vocabulary

Corpus = list[tuple[str, str]]
NULL = "NULL"

CORPUS: Corpus = [
    ("da haro", "pesi nuto"),
    ("da bilo", "pesi vuny"),
    ("bilo", "vuny"),
    ("bilo harona da bilo", "nuta vuny pesi"),
    ("da haro", "nuto"),
    ("haro", "nuto zy zy pes"),
]


def side(lines: list[str]) -> tuple[Vocabulary, Ids]:
    counts: dict[str, int] = defaultdict(int)
    for line in lines:
        for word in line.split():
            counts[word] += 1
    vocabulary = Vocabulary.build(counts)
    ids = [vocabulary.ids(line.split()) for line in lines]
    offsets = np.cumsum([0, *map(len, ids)]).astype(np.int64)
    return vocabulary, Ids(np.array([i for row in ids for i in row], dtype=np.int32), offsets)


def text(language: str, vocabulary: Vocabulary) -> Text:
    return Text(TextConfig(language, tokenizer="none", subwords="none"), vocabulary=vocabulary)


class Run:
    """A corpus in memory, a model in float64, and its training."""

    def __init__(self, corpus: Corpus, model: IBM1Config | HMMConfig, **training: object) -> None:
        (sources, source), (targets, target) = (side([pair[k] for pair in corpus]) for k in (0, 1))
        kind = HMM if isinstance(model, HMMConfig) else IBM1
        self.model: IBM1 = kind(model, len(sources), len(targets)).double()  # type: ignore[arg-type]
        self.trained = Trained(Path(), self.model, text("aa", sources), text("zz", targets))
        self.bitext, self.config = Bitext(source, target), EMConfig(**training)  # type: ignore[arg-type]

    def train(self) -> list[dict[str, object]]:
        given_ = (self.trained, self.model, self.bitext, self.config, lambda *_: None)
        return list(expectation_maximisation(*given_))

    def passes(self) -> Expectation:
        return Expectation(self.trained, self.model, self.bitext, self.config)

    def tables(self) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
        """n(e, f), and NULL's n(f)."""
        lexicon = self.model.lexicon
        sources, targets = lexicon.words()
        names = [
            self.trained.source_vocabulary.tokens(sources.tolist()),
            self.trained.target_vocabulary.tokens(targets.tolist()),
        ]
        pairs = dict(zip(zip(*names, strict=True), lexicon.counts.tolist(), strict=True))
        words = self.trained.target_vocabulary.tokens(range(lexicon.target_size))
        null = dict(zip(words, lexicon.null_counts.tolist(), strict=True))
        return pairs, {word: count for word, count in null.items() if count}


def test_two_epochs_by_hand():
    # NULL aside, t is uniform at first, over 4 + 3 entries of the vocabulary: each word has 1/5
    # of NULL's and 4/5 to share.
    run = Run(
        [("da haro", "pesi nuto"), ("da", "pesi")],
        IBM1Config(null=0.2, smoothing=0.0, prefix=0),
        epochs=1,
        estimate="em",
    )
    run.train()
    pairs, null = run.tables()
    assert pairs == pytest.approx(
        {("da", "pesi"): 1.2, ("da", "nuto"): 0.4, ("haro", "pesi"): 0.4, ("haro", "nuto"): 0.4}
    )
    assert null == pytest.approx({"pesi": 0.4, "nuto": 0.2})
    # t(pesi|da) = 3/4, t(nuto|da) = 1/4, haro's and NULL's: 1/2, 1/2 and 2/3, 1/3.
    run.config = EMConfig(epochs=2, estimate="em")
    run.train()
    pairs, null = run.tables()
    pesi = 0.4 * 3 / 4 + 0.4 / 2 + 0.2 * 2 / 3
    nuto = 0.4 / 4 + 0.4 / 2 + 0.2 / 3
    alone = 0.8 * 3 / 4 + 0.2 * 2 / 3
    wanted = {
        ("da", "pesi"): 0.3 / pesi + 0.6 / alone,
        ("da", "nuto"): 0.1 / nuto,
        ("haro", "pesi"): 0.2 / pesi,
        ("haro", "nuto"): 0.2 / nuto,
    }
    assert pairs == pytest.approx(wanted)
    assert null == pytest.approx({"pesi": 0.4 / 3 * (1 / pesi + 1 / alone), "nuto": 0.2 / 3 / nuto})


def textbook(corpus: Corpus, epochs: int, p_0: float) -> dict[tuple[str, str], float]:
    """t(f | e) by expectation maximisation of Model 1, NULL an entry like the others."""
    t: dict[tuple[str, str], float] = defaultdict(lambda: 1.0)
    for _ in range(epochs):
        count: dict[tuple[str, str], float] = defaultdict(float)
        for source, target in corpus:
            words = source.split()
            prior = [(NULL, p_0), *((e, (1 - p_0) / len(words)) for e in words)]
            for f in target.split():
                total = sum(p * t[e, f] for e, p in prior)
                for e, p in prior:
                    count[e, f] += p * t[e, f] / total
        of_source: dict[str, float] = defaultdict(float)
        for (e, _), n in count.items():
            of_source[e] += n
        t = defaultdict(float, {(e, f): n / of_source[e] for (e, f), n in count.items()})
    return dict(t)


@pytest.mark.parametrize("epochs", [1, 2, 7])
def test_em_is_the_textbooks(epochs):
    config = IBM1Config(null=0.3, smoothing=0.0, prefix=0)
    run = Run(CORPUS, config, epochs=epochs, estimate="em")
    run.train()
    pairs, null = run.tables()
    of_source: dict[str, float] = defaultdict(float)
    for (e, _), n in pairs.items():
        of_source[e] += n
    found = {(e, f): n / of_source[e] for (e, f), n in pairs.items()}
    found |= {(NULL, f): n / sum(null.values()) for f, n in null.items()}
    assert found == pytest.approx(textbook(CORPUS, epochs, 0.3), abs=1e-9)
    table = dict(zip(pairs, run.model.lexicon.table().tolist(), strict=True))
    assert table == pytest.approx({p: t for p, t in found.items() if p[0] != NULL}, abs=1e-9)


class Collapsed:
    """CVB0 for Model 1 with classes, word by word."""

    def __init__(self, corpus: Corpus, p_0: float, m: float, prefix: int) -> None:
        self.corpus = [(s.split(), t.split()) for s, t in corpus]
        self.p_0, self.m, self.prefix = p_0, m, prefix
        self.sources = [*SPECIALS, *sorted({e for s, _ in self.corpus for e in s})]
        self.targets = [*SPECIALS, *sorted({f for _, t in self.corpus for f in t})]
        self.gammas: dict[tuple[int, int], list[float]] = {}

    def class_of(self, word: str) -> str:
        return word if word in SPECIALS else word[: self.prefix]

    def gamma(self, k: int, i: int) -> list[float]:
        """Posteriors of word i of sentence k: of each source word, and of NULL."""
        source, target = self.corpus[k]
        f, v = target[i], len(self.targets)
        if not self.gammas:
            each = [(1 - self.p_0) / len(source)] * len(source)
            return [*each, self.p_0]
        pair: dict[tuple[str, str], float] = defaultdict(float)
        of_target: dict[str, float] = defaultdict(float)
        for (other, place), gamma in self.gammas.items():
            words, translation = self.corpus[other]
            of_target[translation[place]] += 1.0
            if (other, place) == (k, i):
                continue
            for e, n in zip([*words, NULL], gamma, strict=True):
                pair[e, translation[place]] += n
        classes = {self.class_of(g) for g in self.targets}
        alike = [g for g in self.targets if self.class_of(g) == self.class_of(f)]
        number = {g: max(of_target[g], UNSEEN) for g in alike}
        weights = []
        for e in source:
            n_e = sum(n for (d, _), n in pair.items() if d == e)
            with_e = {
                (d, g): n
                for (d, g), n in pair.items()
                if d != NULL and self.class_of(d) == self.class_of(e)
            }
            with_f = sum(n for (_, g), n in with_e.items() if g in alike)
            base = (with_f + self.m / len(classes)) / (sum(with_e.values()) + self.m)
            base *= number[f] / sum(number.values())
            t = (pair[e, f] + self.m * base) / (n_e + self.m)
            weights.append((1 - self.p_0) / len(source) * t)
        n_null = sum(n for (d, _), n in pair.items() if d == NULL)
        weights.append(self.p_0 * (pair[NULL, f] + self.m / v) / (n_null + self.m))
        return [w / sum(weights) for w in weights]

    def epoch(self) -> None:
        self.gammas = {
            (k, i): self.gamma(k, i)
            for k, (_, target) in enumerate(self.corpus)
            for i in range(len(target))
        }


def test_collapsed_is_the_literal_one():
    slow = Collapsed(CORPUS, p_0=0.2, m=3.0, prefix=3)
    for epochs in (1, 2, 3):
        slow.epoch()
        run = Run(CORPUS, IBM1Config(null=0.2, smoothing=3.0, prefix=3), epochs=epochs)
        run.train()
        pairs: dict[tuple[str, str], float] = defaultdict(float)
        for (k, i), gamma in slow.gammas.items():
            words, translation = slow.corpus[k]
            for e, n in zip([*words, NULL], gamma, strict=True):
                pairs[e, translation[i]] += n
        found, null = run.tables()
        found |= {(NULL, f): n for f, n in null.items()}
        assert found == pytest.approx(dict(pairs), abs=1e-9), epochs


words = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=5).map(" ".join)
corpora = st.lists(st.tuples(words, words), min_size=1, max_size=6)


@settings(max_examples=40)
@given(corpora, st.booleans())
def test_plain_em_never_lowers_the_likelihood(corpus, jumps):
    model: IBM1Config | HMMConfig = IBM1Config(smoothing=0.0, prefix=0)
    if jumps:
        model = HMMConfig(smoothing=0.0, prefix=0, jump_smoothing=1e-9, longest_jump=3)
    passes = Run(corpus, model, estimate="em").passes()
    losses = [passes.epoch(False, lambda _: None)[0] for _ in range(6)]
    for before, after in pairwise(losses):
        assert after <= before + 1e-7


def test_the_hmm_learns_how_wide_jumps_are():
    # Every sentence the other way round: the width is -1.
    draw = random.Random(4)
    corpus = []
    for _ in range(200):
        drawn = draw.sample("abcdefghijklmnop", draw.randint(2, 7))
        corpus.append((" ".join(drawn), " ".join(reversed(drawn))))
    run = Run(corpus, HMMConfig(longest_jump=7, jump_smoothing=1.0))
    records = run.train()
    assert isinstance(run.model, HMM)
    likely = run.model.jumps[run.model.widths(5)]
    assert likely.argmax(1).tolist()[2:] == [0, 1, 2, 3]  # from places 1 … 4
    assert likely.argmax(1)[0] == 4  # from before the first to the last
    assert [record["of"] for record in records] == ["ibm1"] * 5 + ["hmm"] * 4


@pytest.mark.parametrize("kind", [IBM1Config, HMMConfig])
@pytest.mark.parametrize("cells", [1, 7, 14])
def test_results_do_not_depend_on_the_groups(kind, cells, monkeypatch):
    whole, cut = Run(CORPUS * 3, kind(prefix=3)), Run(CORPUS * 3, kind(prefix=3))
    groups, records = len(whole.passes().groups), whole.train()
    monkeypatch.setattr(em, "BATCH_CELLS", cells)
    assert len(cut.passes().groups) > groups
    for one, other in zip(records, cut.train(), strict=True):
        for name in ("train_loss", "null", "pairs"):
            assert one[name] == pytest.approx(other[name])
    for name, tensor in whole.model.state_dict().items():
        torch.testing.assert_close(cut.model.state_dict()[name], tensor)


def test_groups_hold_the_corpus():
    run = Run(CORPUS, IBM1Config())
    passes, lexicon = run.passes(), run.model.lexicon
    found = []
    for group in passes.groups:
        for source, target, places in zip(group.source, group.target, group.places, strict=True):
            real = [f for f in target.tolist() if f]
            found.append((source.tolist(), real))
            for i, f in enumerate(target.tolist()):
                for j, e in enumerate(source.tolist()):
                    place = int(places[i, j])
                    if i < len(real):
                        assert lexicon.keys[place] == e * lexicon.target_size + f
                    else:
                        assert place == len(lexicon.keys)
    bitext = run.bitext
    wanted = [(bitext.source(k).tolist(), bitext.target(k).tolist()) for k in range(len(bitext))]
    assert sorted(found) == sorted(wanted)
    assert (lexicon.keys.diff() > 0).all()


@pytest.mark.parametrize("most", [0, 5, 10**9, 2**62])
def test_keys_are_numbered_as_numpy_does(most):
    keys = np.random.default_rng(1).integers(0, most, (3, 40, 5), endpoint=True)
    keys[0, 0, 0] = most  # the largest decides how
    unique, numbers = em._numbered(keys)
    np.testing.assert_array_equal(unique, np.unique(keys))
    np.testing.assert_array_equal(unique[numbers], keys)
    assert numbers.shape == keys.shape


def test_word_classes():
    vocabulary = Vocabulary(
        [(w, 1) for w in ("haro", "harona", "három", "har", "ha", "Haro", "<unk")]
    )
    assert word_classes(vocabulary, 0).tolist() == [0] * 11
    # A special is alone, accents do not count, a short word is all of itself, case counts.
    assert word_classes(vocabulary, 3).tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 5, 6, 7]
    assert word_classes(vocabulary, 1).tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 4, 5, 6]


@pytest.mark.parametrize("values", [{"epochs": 0}, {"ibm1_epochs": -1}])
def test_settings_out_of_range(values):
    (name,) = values
    with pytest.raises(ValueError, match=name):
        EMConfig(**values)
