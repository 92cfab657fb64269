"""RNNsearch against its equations; its dropout, its initialisation, its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.models import blank_model, build_model
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from nmtkit.vocabulary import BOS, PAD
from tests import reference_rnnsearch as reference
from tests.test_models import (
    ABLATIONS,
    PAIRS,
    PLAIN,
    SOURCE_SIZE,
    TARGET_SIZE,
    TINY,
    build,
    called,
    close,
    gradients,
    in_numpy,
    padded,
    training_loss,
)

orders = pytest.mark.parametrize("order", reference.ORDERS)
PAPER = [
    {**PLAIN, "order": order, "reset": reset, **attention}
    for order in reference.ORDERS
    for reset in reference.RESETS
    for attention in ({}, {"coverage": True, "temperature": 0.7})
]


def named(variants: Sequence[dict[str, Any]]) -> pytest.MarkDecorator:
    """A test for each of these settings."""
    return pytest.mark.parametrize("settings", variants, ids=[called("", v) for v in variants])


def rnnsearch(settings: dict[str, Any], plain: bool = False) -> RNNsearch:
    found = build(("rnnsearch", settings))
    assert isinstance(found, RNNsearch)
    found.plain = plain
    return found


def kind(model: RNNsearch) -> reference.Kind:
    """The same model for the reference, which calls its readings as the settings do."""
    return reference.Kind(*(getattr(model.config, name) for name in reference.Kind._fields))


def parameters_of(model: RNNsearch) -> dict[str, np.ndarray]:
    """By name; a tied one is one array under all its names."""
    found = in_numpy(model)
    for name in ("output.weight", "source_embedding.weight"):
        found.setdefault(name, found["target_embedding.weight"])
    return found


def fix_dropout(model: RNNsearch, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, np.ndarray]]:
    """Recurrent dropout with given masks, one of each kind a sentence of PAIRS."""
    generator = np.random.default_rng(3)
    config, batch = model.config, len(PAIRS)
    directions = model.encoder.directions
    encoder = generator.choice([0.0, 2.0], (len(directions), batch, config.encoder_hidden))
    decoder = generator.choice([0.0, 2.0], (batch, config.hidden))

    def mask(shape: tuple[int, ...], like: Tensor) -> Tensor:
        [found] = [m for m in (encoder, decoder) if m.shape == shape]
        return torch.from_numpy(found)

    monkeypatch.setattr(model, "_recurrent_mask", mask)
    return [
        {**dict(zip(directions, encoder[:, b], strict=True)), "decoder": decoder[b]}
        for b in range(batch)
    ]


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
@named([*PAPER, *ABLATIONS])
def test_values_equal_the_equations(settings: dict[str, Any], plain: bool) -> None:
    model = rnnsearch(settings, plain)
    pairs = [*PAIRS, ((5, 3), (PAD, 4))]  # PAD is no word either
    source, mask = padded([source for source, _ in pairs])
    target_in, _ = padded([(BOS, *target) for _, target in pairs])
    memory = model.encode(source, mask)
    logits, weights = model.decode(target_in, memory)
    for b, (source_ids, target) in enumerate(pairs):
        target_ids = (BOS, *target)
        expected = reference.forward(parameters_of(model), kind(model), source_ids, target_ids)
        rows, columns = len(target) + 1, len(source_ids)
        given = {
            "attention": weights[b, :rows, :columns],
            "log_probs": F.log_softmax(logits[b, :rows], 1),
        }
        if model.has_attention:
            given["annotations"] = memory.annotations[b, :columns]
        for name, found in given.items():
            np.testing.assert_allclose(found.detach().numpy(), expected[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dropout", [False, True], ids=["all", "dropout"])
@named(PAPER)
def test_training_equals_the_equations(
    settings: dict[str, Any], dropout: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss and, by central differences on the reference, the gradient of every single number."""
    model = rnnsearch(settings)
    masks = fix_dropout(model, monkeypatch) if dropout else None
    parameters = parameters_of(model)

    def loss() -> float:
        return reference.loss(parameters, kind(model), PAIRS, masks)

    found_loss = training_loss(model, PAIRS)
    assert found_loss.item() == pytest.approx(loss(), abs=1e-11)
    step = 1e-5
    for name, gradient in gradients(model, found_loss).items():
        values = parameters[name]
        expected = np.empty_like(values)
        for index in np.ndindex(values.shape):
            value = values[index]
            values[index] = value + step
            above = loss()
            values[index] = value - step
            expected[index] = (above - loss()) / (2 * step)
            values[index] = value
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("dropout", [False, True], ids=["all", "dropout"])
@named(ABLATIONS)
def test_fast_training_is_the_plain_one(
    settings: dict[str, Any], dropout: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is that of the equations, and its gradients are those that autograd finds."""
    model = rnnsearch(settings)
    masks = fix_dropout(model, monkeypatch) if dropout else None
    found_loss = training_loss(model, PAIRS)
    expected = reference.loss(parameters_of(model), kind(model), PAIRS, masks)
    assert found_loss.item() == pytest.approx(expected, abs=1e-11)
    found = gradients(model, found_loss)
    model.plain = True
    plain = gradients(model, training_loss(model, PAIRS))
    assert found.keys() == plain.keys()
    for name, gradient in plain.items():
        close(found[name], gradient, 1e-11, name)
        assert gradient.any(), name


def test_recurrent_dropout_is_one_scaled_mask_and_only_in_training() -> None:
    config = RNNsearchConfig(
        embedding=3, encoder_hidden=2, hidden=4, attention_units=3, maxout=2, dropout_recurrent=0.25
    )
    torch.manual_seed(1)
    model = RNNsearch(config, SOURCE_SIZE, TARGET_SIZE)
    like = torch.zeros(1)
    mask = model._recurrent_mask((40, 50), like)
    assert mask is not None
    assert mask.unique().tolist() == [0.0, pytest.approx(1 / 0.75)]
    assert (mask == 0).double().mean().item() == pytest.approx(0.25, abs=0.05)
    assert model.eval()._recurrent_mask((40, 50), like) is None


@pytest.mark.parametrize(
    "rate", ["embedding", "readout", "recurrent", "source_word", "target_word"]
)
def test_each_dropout_acts_in_training_only(rate: str) -> None:
    settings = TINY["rnnsearch"][0]
    model = build(("rnnsearch", settings))
    dropped = build(("rnnsearch", settings | {f"dropout_{rate}": 0.5}))
    expected = training_loss(model, PAIRS)
    assert training_loss(dropped, PAIRS) == expected
    assert training_loss(model.train(), PAIRS) == expected
    dropped.train()
    torch.manual_seed(1)
    assert len({training_loss(dropped, PAIRS).item() for _ in range(4)} - {expected.item()}) == 4


def test_initialisation_is_the_papers() -> None:
    """Section B.1."""
    torch.manual_seed(1)
    config = RNNsearchConfig(
        embedding=30,
        encoder_hidden=40,
        hidden=50,
        attention_units=60,
        maxout=35,
        reset="after",
        coverage=True,
    )
    model = build_model(config, 100, 100)
    assert "attention.V_c" in dict(model.named_parameters())
    for name, parameter in model.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if leaf == "U":
            for block in parameter.chunk(3):
                product = (block @ block.T).detach()
                torch.testing.assert_close(product, torch.eye(len(block)), rtol=0, atol=1e-5)
        elif leaf in ("v_a", "V_c", "b", "b_candidate", "b_a", "b_o", "bias"):
            assert not parameter.any(), name
        else:
            deviation = 0.001 if leaf in ("W_a", "U_a") else 0.01
            assert parameter.std().item() == pytest.approx(deviation, rel=0.1), name
            assert abs(parameter.mean().item()) < deviation / 10, name


@orders
def test_coverage_begins_as_if_it_were_not_there(order: str) -> None:
    """V_c starts at 0 and draws nothing: the model is the one without, and it can learn."""
    found = []
    for coverage in (True, False):
        chosen = {**PLAIN, "order": order, "coverage": coverage}
        torch.manual_seed(1)
        made = build_model(
            RNNsearchConfig(**chosen, initialisation="glorot"), SOURCE_SIZE, TARGET_SIZE
        )
        assert isinstance(made, RNNsearch)
        found.append(gradients(made, training_loss(made, PAIRS)))
    covered, plain = found
    assert covered.pop("attention.V_c").any()
    assert covered.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(covered[name], gradient, msg=name)


def test_size_of_the_papers_model() -> None:
    """By hand, with the defaults: E 620, n 1000, n' 1000, l 500, and 14 words a side."""
    gru_encoder = 3 * (1000 * 620 + 1000 * 1000 + 1000)
    gru_decoder = 3 * (1000 * (620 + 2000) + 1000 * 1000 + 1000)
    attention = 1000 * 1000 + 1000 * 2000 + 1000 + 1000
    readout = 1000 * (1000 + 620 + 2000) + 1000
    embeddings, softmax, initial = 2 * 14 * 620, 14 * 500 + 14, 1000 * 1000 + 1000
    expected = embeddings + 2 * gru_encoder + initial + gru_decoder + attention + readout + softmax
    model = blank_model(RNNsearchConfig(), 14, 14)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
