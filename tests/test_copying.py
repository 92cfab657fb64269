"""Copying: the mixture and its loss by hand and by differences, and as laws of every architecture
that has `copy`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.batches import Batch
from nmtkit.models import ARCHITECTURES
from nmtkit.models import output as output_layer
from nmtkit.models.copying import Copies, Copying, copying_loss_plain, mixture
from nmtkit.models.rnnsearch import RNNsearchConfig
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.train.objective import Objective
from nmtkit.train.settings import TrainingConfig
from nmtkit.vocabulary import BOS, EOS, PAD, UNK
from tests.test_models import PAIRS, SOURCE_SIZE, TARGET_SIZE, TINY, build, called, close, padded

V = TARGET_SIZE
Variant = tuple[str, dict[str, Any]]
#: Those without attention cannot copy; one joint vocabulary (tied: all) is not that of PAIRS.
COPYING: list[Variant] = [
    (name, {**settings, "copy": True})
    for name in ARCHITECTURES
    if "copy" in {field.name for field in fields(ARCHITECTURES[name].config)}
    for settings in TINY[name]
    if settings.get("context") != "fixed"
    and settings.get("tied_embeddings") != "all"
    and not settings.get("alignment_head")
]
#: What copying from each place of the sources of PAIRS writes, without the end: the target words
#: of some, and words of their own, one of them twice.
COPIED: list[list[int]] = [[V + 0], [4, V + 1, V + 2, 6], [V + 0, V + 0], []]
#: Targets with these words among them, without the end.
TARGETS = ((V + 0, 4), (4, V + 2, 1, V + 1, 6), (V + 0, 5, V + 0), ())


@pytest.fixture(params=[pytest.param(v, id=called(*v)) for v in COPYING])
def model(request: pytest.FixtureRequest) -> AnySeq2Seq:
    return build(request.param)


def copied_of(rows: Sequence[int]) -> Tensor:
    """(B, S) of some sentences of PAIRS."""
    width = max(len(PAIRS[b][0]) for b in rows)
    return torch.tensor([[*COPIED[b], *[-1] * (width - len(COPIED[b]))] for b in rows])


def fed(ids: Sequence[int]) -> list[int]:
    return [UNK if i >= V else i for i in ids]


def defined(model: AnySeq2Seq, b: int, target: Sequence[int]) -> np.ndarray:
    """P (n+1, V+S) of one sentence alone, word by word, as the equation reads.

    A word out of a local attention's sight has next to no probability, so that its logarithm is
    finite.
    """
    least = float(np.finfo(np.float64).tiny)
    assert model.copying is not None
    source, mask = padded([PAIRS[b][0]])
    target_in = torch.tensor([[BOS, *fed(target)]])
    with torch.no_grad():
        features, attention = model.features(target_in, model.encode(source, mask))
        gates = torch.sigmoid(features @ model.copying.gate.weight[0] + model.copying.gate.bias)
        generated = torch.softmax(model.output(features), 2)
    table = np.zeros((len(target) + 1, V + len(PAIRS[b][0])))
    for i, row in enumerate(table):
        p = float(gates[0, i])
        row[:V] = generated[0, i].numpy()
        on_words = float(attention[0, i, : len(COPIED[b])].sum())
        row[:V] *= 1 - p * on_words
        for word in set(COPIED[b]):
            places = [j for j, other in enumerate(COPIED[b]) if other == word]
            row[word] += p * max(float(attention[0, i, places].sum()), least)
    return table


# The mixture


def test_mixture_by_hand() -> None:
    """Two words: p = 3/4 and 1/4; the third place is the end, the fourth padding."""
    gate = torch.tensor([math.log(3), -math.log(3)], dtype=torch.float64)
    attention = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.7, 0.0]], dtype=torch.float64)
    copied = torch.tensor([[4, 7, -1, -1], [5, 5, -1, -1]])
    generated = torch.tensor([0.4, 0.1], dtype=torch.float64)

    def found(targets: Sequence[int], log_generated: Tensor) -> list[float]:
        both = mixture(log_generated, gate, Copies(attention, copied), torch.tensor(targets))
        return both.exp().tolist()

    # (1 - 0.75 · 0.8) 0.4 + 0.75 · 0.5;  (1 - 0.25 · 0.3) 0.1 + 0.25 · 0.3
    assert found([4, 5], generated.log()) == pytest.approx([0.535, 0.1675])
    # the words that are not in the source; one that only the source has
    assert found([5, 4], generated.log()) == pytest.approx([0.16, 0.0925])
    nothing = torch.full_like(generated, -math.inf)
    assert found([7, 6], nothing) == pytest.approx([0.75 * 0.3, 0.0])


def random_case(words: int, places: int, size: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    copied = torch.randint(4, size + places, (words, places), generator=generator)
    copied[:, -1] = -1
    targets = torch.randint(3, size, (words,), generator=generator)
    places_of = torch.randint(0, places - 1, (words, 1), generator=generator)
    some = copied.gather(1, places_of).squeeze(1)
    targets = torch.where(torch.arange(words) % 2 == 0, some, targets)
    targets[-1] = PAD  # not counted
    return {
        "features": normal(words, 3),
        "output": nn.Linear(3, size).double(),
        "attention": torch.softmax(2 * normal(words, places), 1),
        "copied": copied,
        "targets": targets,
        "copying": Copying(3).double(),
    }


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("local", [False, True])
def test_loss_in_chunks_is_the_plain_one(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, local: bool
) -> None:
    """Values and gradients, 23 words in chunks of 5; `local`: attention of less than 1 in all."""
    monkeypatch.setattr(output_layer, "CHUNK_BYTES", 0)
    monkeypatch.setattr(output_layer, "LEAST_ROWS", 5)
    case = random_case(23, 6, 9)
    output, module = case["output"], case["copying"]
    attention = case["attention"] * (0.7 if local else 1.0)
    assert {bool(t >= 9) for t in case["targets"].tolist()} == {True, False}
    results = []
    for plain in (True, False):
        features = case["features"].clone().requires_grad_()
        weights = attention.clone().requires_grad_()
        copies = Copies(weights, case["copied"])
        if plain:
            layer, gate = (output.weight, output.bias), module.gate(features).squeeze(1)
            loss, nll = copying_loss_plain(
                features, *layer, gate, copies, case["targets"], smoothing
            )
        else:
            loss, nll = module.loss(features, output, case["targets"], copies, smoothing)
        parameters = [features, weights, *output.parameters(), *module.parameters()]
        results.append([loss, nll, *torch.autograd.grad(3 * loss, parameters)])
    with torch.no_grad():
        copies = Copies(attention, case["copied"])
        results.append(
            list(module.loss(case["features"], output, case["targets"], copies, smoothing))
        )
    for expected, *found in zip(*results[:2], strict=True):
        close(found[0], expected)
    for found_one, expected in zip(results[2], results[0]):
        close(found_one, expected)
    if not smoothing:
        close(results[0][0], results[0][1])


def test_gradients_are_those_of_differences() -> None:
    """Of the plain loss, which the test above compares with the other."""
    case = random_case(7, 4, 6)
    names = ("features", "attention")
    inputs = [case[name].clone().requires_grad_() for name in names]
    parameters = [*case["output"].parameters(), *case["copying"].parameters()]

    def loss(features: Tensor, attention: Tensor, *_: Tensor) -> Tensor:
        copies = Copies(attention, case["copied"])
        output, gate = case["output"], case["copying"].gate(features).squeeze(1)
        return copying_loss_plain(
            features, output.weight, output.bias, gate, copies, case["targets"], 0.1
        )[0]

    assert torch.autograd.gradcheck(loss, (*inputs, *parameters))


def test_smoothing_is_the_generators() -> None:
    """(1 - ε) (-log P) + ε (mean over the V words of -log softmax)."""
    case = random_case(4, 5, 8)
    copies = Copies(case["attention"], case["copied"])
    loss = case["copying"].loss(case["features"], case["output"], case["targets"], copies, 0.3)
    plain = case["copying"].loss(case["features"], case["output"], case["targets"], copies)
    real = case["features"][case["targets"] != PAD]
    mean = -F.log_softmax(case["output"](real), 1).mean(1).sum()
    close(loss[0], 0.7 * plain[0] + 0.3 * mean)
    close(loss[1], plain[1])


@pytest.mark.parametrize("bias", [-300.0, 300.0])
def test_extremes_stay_finite(bias: float) -> None:
    """The gate shut or open as far as can be, and no attention at all on what should be copied."""
    case = random_case(9, 5, 8)
    module, output = case["copying"].float(), case["output"].float()
    with torch.no_grad():
        module.gate.bias += bias
    attention = torch.zeros(9, 5)
    attention[:5, -1] = 1.0  # on the end
    attention[5:, 0] = 1.0
    attention.requires_grad_()
    features = case["features"].float().requires_grad_()
    copies = Copies(attention, case["copied"])
    loss, _ = module.loss(features, output, case["targets"], copies, 0.1)
    gradients = torch.autograd.grad(loss, [features, attention, *module.parameters()])
    assert all(torch.isfinite(one).all() for one in (loss, *gradients))
    generated = F.log_softmax(output(features), 1)
    found = module.log_probs(features, generated, copies)
    at_words = found.gather(1, case["copied"].clamp(min=4))
    assert torch.isfinite(at_words).all()
    close(found.exp().sum(1), torch.ones(9), 1e-5)


def test_log_probabilities_are_the_mixtures() -> None:
    case = random_case(6, 5, 8)
    copies = Copies(case["attention"], case["copied"])
    generated = F.log_softmax(case["output"](case["features"]), 1)
    found = case["copying"].log_probs(case["features"], generated, copies)
    assert found.shape == (6, 13)
    gate = case["copying"].gate(case["features"]).squeeze(1)
    for word in range(13):
        targets = torch.full((6,), word)
        of_generator = generated[:, word] if word < 8 else torch.full((6,), -math.inf).double()
        expected = mixture(of_generator, gate, copies, targets).exp()
        close(found[:, word].exp(), expected)
    close(found.exp().sum(1), torch.ones(6, dtype=torch.float64))


# Laws


def test_the_law_has_architectures() -> None:
    assert {name for name, _ in COPYING} >= {"rnnsearch", "luong", "transformer"}


def test_probabilities_are_as_defined(model: AnySeq2Seq) -> None:
    """In a padded batch, under teacher forcing and in steps of two rows a sentence."""
    rows = range(len(PAIRS))
    source, mask = padded([source for source, _ in PAIRS], junk=(5, 7))
    target_in, _ = padded([(BOS, *fed(target)) for target in TARGETS], junk=(6, 4))
    copied = copied_of(rows)
    expected = [defined(model, b, TARGETS[b]) for b in rows]
    memory = model.encode(source, mask)
    features, attention = model.features(target_in, memory)
    state = model.start(memory, 2)
    for t in range(target_in.shape[1]):
        twice = target_in[:, t].repeat_interleave(2)
        given = features[:, t], attention[:, t], copied
        forced = model.log_probs(model.output(given[0]), *given)
        stepped, weights, state = model.step(twice, state, memory)
        given = stepped, weights, copied.repeat_interleave(2, 0)
        found = model.log_probs(model.output(stepped), *given)
        for b, table in enumerate(expected):
            if t < len(table):
                columns = table.shape[1]
                alone = torch.from_numpy(table[t]).float()
                for log_probs in (forced[b], found[2 * b], found[2 * b + 1]):
                    close(log_probs[:columns].exp(), alone, 1e-6)
                    assert (log_probs[columns:] == -math.inf).all()
                close(alone.sum(), torch.tensor(1.0), 1e-6)


def batch_of(rows: Sequence[int]) -> Batch:
    source, mask = padded([PAIRS[b][0] for b in rows])
    target_in, real = padded([(BOS, *fed(TARGETS[b])) for b in rows])
    extended_out, _ = padded([(*TARGETS[b], EOS) for b in rows])
    target_out = extended_out.masked_fill(extended_out >= V, UNK)
    return Batch(source, mask, target_in, target_out, real, copied_of(rows), extended_out)


def test_training_loss_is_the_likelihood_as_defined(model: AnySeq2Seq) -> None:
    objective = Objective(TrainingConfig(), model, "predicting")
    batch = batch_of(range(len(PAIRS)))
    loss, figure = objective(batch, None)
    expected = 0.0
    for b, target in enumerate(TARGETS):
        table = defined(model, b, target)
        expected -= sum(math.log(table[i, y]) for i, y in enumerate((*target, EOS)))
    for found in (loss, figure, objective.likelihood(batch)):
        assert found.item() == pytest.approx(expected, rel=1e-9)


def test_padding_and_batch_change_no_gradient(model: AnySeq2Seq) -> None:
    objective = Objective(TrainingConfig(), model, "predicting")

    def gradients(rows: Sequence[int]) -> dict[str, Tensor]:
        model.zero_grad()
        objective(batch_of(rows), None)[0].backward()
        return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}

    found = gradients(range(len(PAIRS)))
    assert {"copying.gate.weight", "copying.gate.bias"} < found.keys()
    alone = [gradients([b]) for b in range(len(PAIRS))]
    for name, gradient in found.items():
        expected = torch.stack([one[name] for one in alone if name in one]).sum(0)
        close(gradient, expected, 1e-11, name)


def test_gradient_is_that_of_differences(model: AnySeq2Seq) -> None:
    """Along a direction of all parameters: what is copied teaches the attention too."""
    objective, batch = Objective(TrainingConfig(), model, "predicting"), batch_of([0, 1, 2])
    generator = torch.Generator().manual_seed(4)
    parameters = list(model.parameters())
    directions = [
        torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters
    ]

    gradients = torch.autograd.grad(objective(batch, None)[0], parameters, allow_unused=True)
    pairs = zip(gradients, directions, strict=True)
    along = sum(float((g * d).sum()) for g, d in pairs if g is not None)
    losses, step = [], 1e-6
    with torch.no_grad():
        for change in (step, -2 * step):
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=change)
            losses.append(float(objective(batch, None)[0]))
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(along, rel=1e-4, abs=1e-4)


def test_guided_rows_that_consume_the_end(model: AnySeq2Seq) -> None:
    """The attention then has a row more; what is copied stays the same."""
    batch = batch_of(range(len(PAIRS)))
    guide = torch.zeros(*batch.target_out.shape, batch.source.shape[1], dtype=torch.float64)
    config = TrainingConfig(guide="links", guide_rows="next", guide_weight=0.0)
    loss, _ = Objective(config, model, "next")(batch, guide)
    close(loss, Objective(config, model, "next")(batch, None)[0], 1e-10)


# Settings


def test_nothing_to_copy_is_generating(model: AnySeq2Seq) -> None:
    source, mask = padded([PAIRS[1][0]])
    features, attention = model.features(torch.tensor([[BOS, 4]]), model.encode(source, mask))
    copied = torch.full((1, source.shape[1]), -1)
    given = model.output(features[:, 1]), features[:, 1], attention[:, 1]
    found, expected = model.log_probs(*given, copied), model.log_probs(*given)
    close(found[:, :V], expected, 1e-6)
    assert (found[:, V:] == -math.inf).all()


def test_without_attention_there_is_nothing_to_copy_by() -> None:
    with pytest.raises(ValueError, match="copy = true needs attention"):
        RNNsearchConfig(attention="none", context="fixed", copy=True)


def test_sizes_are_those_of_the_other_tests() -> None:
    assert (SOURCE_SIZE, TARGET_SIZE) == (8, 7)
    assert [len(row) + 1 for row in COPIED] == [len(source) for source, _ in PAIRS]
