"""The update: learning rate, optimisers, loss, gradients, fresh segmentations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.batches import Batch
from nmtkit.checkpoint import load
from nmtkit.data import Ids, PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.models.rnnsearch import RNNsearchConfig
from nmtkit.train import Silent, TrainingConfig, settings_from
from nmtkit.train import trainer as module
from nmtkit.train.objective import Objective
from nmtkit.train.optimise import OPTIMIZERS, learning_rate
from nmtkit.train.resegment import resegment
from nmtkit.train.trainer import Trainer
from nmtkit.vocabulary import UNK
from tests.micro import CPU, batch_of, records, run, trainer

# --------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize(
    ("schedule", "update", "done", "decays", "wanted"),
    [
        ({}, 1, 0.0, 0, 0.1),
        ({}, 999, 1.0, 3, 0.1),
        ({"warmup": 4}, 1, 0.0, 0, 0.025),
        ({"warmup": 4}, 3, 0.0, 0, 0.075),
        ({"warmup": 4}, 4, 0.0, 0, 0.1),
        ({"warmup": 4}, 400, 0.0, 0, 0.1),
        ({"schedule": "cosine", "updates": 9}, 5, 0.0, 0, 0.1),
        ({"schedule": "cosine", "updates": 9}, 5, 0.5, 0, 0.05),
        ({"schedule": "cosine", "updates": 9}, 5, 1 / 3, 0, 0.075),
        ({"schedule": "cosine", "updates": 9}, 5, 1.0, 0, 0.0),
        ({"schedule": "cosine", "updates": 9}, 5, 1.1, 0, 0.0),  # the clock runs over
        ({"schedule": "cosine", "updates": 9, "least_rate": 0.2}, 5, 1.0, 0, 0.02),
        ({"schedule": "cosine", "updates": 9, "least_rate": 0.2}, 5, 0.5, 0, 0.06),
        ({"schedule": "cosine", "updates": 9, "warmup": 10}, 5, 0.5, 0, 0.025),
        ({"schedule": "inverse-sqrt", "warmup": 4}, 2, 0.5, 3, 0.05),
        ({"schedule": "inverse-sqrt", "warmup": 4}, 4, 0.5, 3, 0.1),
        ({"schedule": "inverse-sqrt", "warmup": 4}, 16, 0.5, 3, 0.05),
        ({"schedule": "inverse-sqrt"}, 1, 0.0, 0, 0.1),
        ({"schedule": "inverse-sqrt"}, 100, 0.0, 0, 0.01),
        ({"schedule": "plateau"}, 5, 0.5, 0, 0.1),
        ({"schedule": "plateau"}, 5, 0.5, 2, 0.025),
        ({"schedule": "plateau", "decay": 0.1, "least_rate": 0.05}, 5, 0.5, 1, 0.01),
        ({"schedule": "plateau", "decay": 0.1, "least_rate": 0.05}, 5, 0.5, 2, 0.005),
    ],
)
def test_learning_rate_by_hand(schedule, update, done, decays, wanted):
    config = TrainingConfig(learning_rate=0.1, **schedule)
    assert learning_rate(update, done, decays, config) == pytest.approx(wanted, abs=1e-12)


def test_the_rate_follows_the_schedule(micro, tmp_path):
    rates = []

    class Watching(Silent):
        def updated(self, done, record):
            rates.append(record["learning_rate"])

    run(micro, tmp_path / "m", "updates=6", "warmup=3", "learning_rate=0.6", reporter=Watching())
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.6, 0.6, 0.6])
    rates.clear()
    cosine = ("updates=4", "schedule=cosine", "learning_rate=0.6")
    run(micro, tmp_path / "c", *cosine, reporter=Watching())
    done = [1 / 4, 2 / 4, 3 / 4, 1]
    assert rates == pytest.approx([0.3 * (1 + math.cos(math.pi * part)) for part in done])


def follow(losses: list[float], subject: Trainer) -> list[int]:
    """The decays after validations that find these losses."""
    found = []
    figures = iter(losses)
    validation: Any = subject.validation
    validation.figures = lambda: {"valid_loss": next(figures)}
    for _ in losses:
        subject.position.update += 1
        subject._validate()
        found.append(subject.position.decays)
    return found


def test_plateau_and_patience_by_hand(micro, tmp_path):
    subject = trainer(micro, tmp_path / "m", "schedule=plateau", "decay_patience=2", "patience=5")
    losses = [5.0, 4.0, 4.0, 4.5, 3.0, 3.5, 3.0, 3.1, 3.2, 3.3]
    assert follow(losses, subject) == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert (subject.position.best, subject.position.best_update) == (3.0, 5)
    assert subject.position.stale == 5
    assert subject._over()


def test_stops_by_patience(micro, tmp_path):
    # A rate so small that no parameter moves: the first validation stays the best.
    options = ("learning_rate=1e-30", "valid_every=2", "patience=3", "updates=100")
    run(micro, tmp_path / "m", *options)
    found = records(tmp_path / "m")
    assert [record.get("best") for record in found] == [True, False, False, False, None]
    assert (found[-1]["updates"], found[-1]["best_update"]) == (8, 2)


def test_stops_by_the_clock(micro, tmp_path):
    run(micro, tmp_path / "m", "minutes=0.001", "patience=0")
    assert records(tmp_path / "m")[-1]["finished"]


# --------------------------------------------------------------- gradients that are not finite


def poison(monkeypatch: pytest.MonkeyPatch, updates: set[int], value: float = math.nan) -> None:
    """Let the loss of these updates be `value`."""
    objective = Objective.__call__
    number = itertools.count(1)
    monkeypatch.setattr(module, "try_largest", lambda *_: [])

    def poisoned(self: Objective, batch: Batch, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        smoothed, nll = objective(self, batch, guide)
        return (smoothed * value if next(number) in updates else smoothed), nll

    monkeypatch.setattr(Objective, "__call__", poisoned)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(micro, tmp_path, monkeypatch, value):
    monkeypatch.setattr(module, "RECORD_EVERY", 1)
    poison(monkeypatch, {3, 4}, value)
    run(micro, tmp_path / "m", "updates=6", "valid_every=1")
    models = [record for record in records(tmp_path / "m") if "valid_loss" in record]
    losses = [record["valid_loss"] for record in models]
    assert losses[1] == losses[2] == losses[3]
    assert len(set(losses)) == 4
    updates = [record for record in records(tmp_path / "m") if "gradient_norm" in record]
    assert [record["skipped_updates"] for record in updates] == [0, 0, 1, 2, 2, 2]
    assert [record["gradient_norm"] is None for record in updates] == [False] * 2 + [True] * 2 + [
        False
    ] * 2
    assert load(tmp_path / "m", CPU).model is not None


def test_nine_in_a_row_are_borne_and_ten_are_not(micro, tmp_path, monkeypatch):
    poison(monkeypatch, {*range(2, 11), *range(12, 22)})
    with pytest.raises(UserError, match=r"update 21: the gradient was not finite 10 times"):
        run(micro, tmp_path / "m", "updates=40", "valid_every=11", "patience=0")
    assert [record["update"] for record in records(tmp_path / "m")] == [11]


@pytest.mark.parametrize(
    ("first", "kept"), [(1, "nothing has been kept yet"), (21, r"the best model so far is in .*/m")]
)
def test_what_is_kept_when_gradients_fail(first, kept, micro, tmp_path, monkeypatch):
    poison(monkeypatch, {*range(first, 40)})
    with pytest.raises(UserError, match=f"training.clip; {kept}$"):
        run(micro, tmp_path / "m", "updates=40", "valid_every=20", "patience=0")
    assert (tmp_path / "m" / "model.safetensors").exists() == (first == 21)


def test_a_dev_loss_that_is_not_finite_is_never_the_best(micro, tmp_path):
    subject = trainer(micro, tmp_path / "m")
    follow([math.nan, 5.0, math.nan, math.inf, 4.0], subject)
    found = records(tmp_path / "m")
    assert [record["best"] for record in found] == [False, True, False, False, True]
    assert found[0]["valid_loss"] is None


# ------------------------------------------------------------------------------------- the update


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_label_smoothing_is_torchs(micro, tmp_path, smoothing):
    subject = trainer(micro, tmp_path / "m", f"label_smoothing={smoothing}")
    subject.model.eval()
    batch = batch_of(subject.corpus, list(range(9)))
    smoothed, nll = subject.objective(batch, None)
    memory = subject.model.encode(batch.source, batch.source_mask)
    logits, _ = subject.model.decode(batch.target_in, memory)
    logits, targets = logits[batch.target_mask], batch.target_out[batch.target_mask]
    wanted = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(smoothed, wanted, rtol=1e-5, atol=0.0)
    plain = F.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(nll, plain)
    torch.testing.assert_close(subject.objective.likelihood(batch), plain)


def test_loss_and_gradient_depend_on_no_padding(micro, tmp_path):
    subject = trainer(micro, tmp_path / "m", "label_smoothing=0.1")
    subject.model.eval()
    lengths = subject.corpus.train.target_lengths
    rows = [int(i) for i in (lengths.argmin(), lengths.argmax(), 0, 1, 2)]

    def loss_and_gradients(groups: list[list[int]]) -> tuple[float, list[Tensor]]:
        subject.model.zero_grad(set_to_none=True)
        total = 0.0
        for group in groups:
            loss, _ = subject.objective(batch_of(subject.corpus, group), None)
            loss.backward()
            total += float(loss.detach())
        return total, [p.grad.clone() for p in subject.model.parameters() if p.grad is not None]

    together, gradients = loss_and_gradients([rows])
    alone, gradients_alone = loss_and_gradients([[row] for row in rows])
    assert together == pytest.approx(alone, rel=1e-5)
    for one, other in zip(gradients, gradients_alone, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def gradients_after_update(subject: Trainer) -> tuple[list[Tensor], float]:
    update = subject._update(batch_of(subject.corpus, list(range(10))))
    found = [p.grad.clone() for p in subject.model.parameters() if p.grad is not None]
    return found, update.norm


def norm(gradients: list[Tensor]) -> float:
    return float(torch.cat([g.flatten() for g in gradients]).norm())


def test_normalised_by_tokens_or_sentences(micro, tmp_path):
    found = {}
    for over in ("tokens", "sentences"):
        subject = trainer(micro, tmp_path / over, f"normalise={over}", "clip=0")
        found[over], reported = gradients_after_update(subject)
        assert norm(found[over]) == pytest.approx(reported, rel=1e-5)
    tokens = int(subject.corpus.train.target_lengths[:10].sum()) + 10
    for by_tokens, by_sentences in zip(found["tokens"], found["sentences"], strict=True):
        torch.testing.assert_close(by_tokens * tokens, by_sentences * 10, rtol=1e-4, atol=1e-5)


def test_clip_shortens_the_gradient_and_keeps_its_direction(micro, tmp_path):
    free, length = gradients_after_update(trainer(micro, tmp_path / "a", "clip=0"))
    limit = length / 3
    short, reported = gradients_after_update(trainer(micro, tmp_path / "b", f"clip={limit}"))
    assert reported == pytest.approx(length, rel=1e-5)
    assert norm(short) == pytest.approx(limit, rel=1e-4)
    for one, other in zip(free, short, strict=True):
        torch.testing.assert_close(one / 3, other, rtol=1e-3, atol=1e-6)
    loose, _ = gradients_after_update(trainer(micro, tmp_path / "c", f"clip={2 * length}"))
    for one, other in zip(free, loose, strict=True):
        torch.testing.assert_close(one, other)


def stepped(name: str, gradients: list[float], **config: Any) -> list[float]:
    """A parameter that starts at 0, after each of the gradients."""
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = OPTIMIZERS[name]([parameter], TrainingConfig(**config))
    found = []
    for gradient in gradients:
        parameter.grad = torch.tensor([gradient])
        optimizer.step()
        found.append(float(parameter.detach()))
    return found


def test_sgd_by_hand():
    """No momentum: a step is the rate times the gradient."""
    assert stepped("sgd", [1.0, -2.0], learning_rate=0.5) == [-0.5, 0.5]


def test_adadelta_by_hand():
    """Zeiler (2012), algorithm 1, with the paper's ρ = 0.95 and ε = 1e-6."""
    squares = deltas = x = 0.0
    wanted = []
    for gradient in (1.0, -2.0, 0.5):
        squares = 0.95 * squares + 0.05 * gradient**2
        step = -math.sqrt(deltas + 1e-6) / math.sqrt(squares + 1e-6) * gradient
        deltas = 0.95 * deltas + 0.05 * step**2
        x += step
        wanted.append(x)
    found = stepped("adadelta", [1.0, -2.0, 0.5], learning_rate=1.0, epsilon=1e-6)
    assert found == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_by_hand(name):
    """Kingma and Ba (2015), algorithm 1; the weight decay of Loshchilov and Hutter (2019)."""
    first = second = x = 0.0
    decay = 0.5 if name == "adamw" else 0.0
    wanted = []
    for t, gradient in enumerate((1.0, -2.0, 0.5), start=1):
        first = 0.8 * first + 0.2 * gradient
        second = 0.9 * second + 0.1 * gradient**2
        x -= 0.1 * decay * x
        x -= 0.1 * (first / (1 - 0.8**t)) / (math.sqrt(second / (1 - 0.9**t)) + 1e-8)
        wanted.append(x)
    config = {"learning_rate": 0.1, "beta1": 0.8, "beta2": 0.9, "weight_decay": 0.5}
    assert stepped(name, [1.0, -2.0, 0.5], **config) == pytest.approx(wanted, rel=1e-5)


def test_the_paper_s_preset():
    chosen = settings_from("data", preset="paper")
    training, model = chosen.training, chosen.model
    assert isinstance(training, TrainingConfig)
    assert isinstance(model, RNNsearchConfig)
    assert (training.optimizer, training.rho, training.epsilon) == ("adadelta", 0.95, 1e-6)
    assert (training.clip, training.batch_sentences, training.pool) == (1.0, 80, 20)
    assert (model.hidden, model.maxout, model.embedding) == (1000, 500, 620)


# ------------------------------------------------------------------------------------- BPE-dropout


def test_resegmented_text_is_the_same_text(micro):
    corpus = PreparedCorpus.open(micro)
    text, vocabulary = corpus.source_text, corpus.source_text.vocabulary
    assert vocabulary is not None
    before = corpus.train.source_ids
    drawn = [resegment(before, text, vocabulary, 0.3, (1, epoch, 0)) for epoch in (0, 0, 1)]
    assert drawn[0].numbers.tolist() == drawn[1].numbers.tolist()
    assert drawn[0].numbers.tolist() != drawn[2].numbers.tolist()
    same = resegment(before, text, vocabulary, 1e-9, (1,))
    assert same.numbers.tolist() == before.numbers.tolist()
    different = 0
    for i in range(len(before)):
        ids = [before[i].tolist(), drawn[2][i].tolist()]
        subwords = [vocabulary.tokens(sentence) for sentence in ids]
        if UNK not in [*ids[0], *ids[1]]:
            assert text.words(subwords[0]) == text.words(subwords[1])
            different += subwords[0] != subwords[1]
    assert different > 20


@pytest.mark.parametrize("number", [UNK, -7])
def test_words_with_unknown_subwords_stay_as_they_are(micro, number):
    corpus = PreparedCorpus.open(micro)
    text, vocabulary = corpus.source_text, corpus.source_text.vocabulary
    assert vocabulary is not None
    known = corpus.train.source_ids[0].tolist()
    last = vocabulary.ids(["."])[0]
    ids = np.array([*known, number, last], dtype=np.int32)
    sentences = Ids(ids, np.array([0, len(ids)]))
    for epoch in range(5):
        found = resegment(sentences, text, vocabulary, 0.5, (epoch,))
        assert found.numbers[-2:].tolist() == [number, last]
        assert found[0].tolist()[-2:] == [UNK, last]
        assert found[0].tolist().count(UNK) == 1


def test_every_epoch_is_segmented_afresh(micro, tmp_path):
    subject = trainer(micro, tmp_path / "m", "bpe_dropout=0.3")
    epochs = [subject._bitext(epoch) for epoch in (0, 1, 0)]
    for side in ("source_ids", "target_ids"):
        ids = [getattr(bitext, side).numbers.tolist() for bitext in epochs]
        assert ids[0] == ids[2] != ids[1]
    plain = trainer(micro, tmp_path / "plain")
    assert plain._bitext(1) is plain.corpus.train
