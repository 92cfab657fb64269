"""GNMT against its equations, written out for one sentence at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nmtkit.models.gnmt import GNMT, GNMTConfig
from nmtkit.vocabulary import BOS
from tests import reference_lstm as reference
from tests.test_models import PAIRS, TINY, build, in_numpy, padded
from tests.test_seq2seq import check_gradients

VARIANTS = [pytest.param(each, id=f"{each}") for each in TINY["gnmt"]]


def gnmt(settings: dict[str, Any], seed: int = 1) -> GNMT:
    found = build(("gnmt", settings), seed)
    assert isinstance(found, GNMT)
    return found


def encoded(parameters, config: GNMTConfig, source) -> list[np.ndarray]:
    """The first layer both ways; the second reads both; from the third on what is read is added."""
    words = [parameters["source_embedding.weight"][word] for word in source]
    forwards, _ = reference.run(parameters, "forward_layer.layers.0", words)
    backwards, _ = reference.run(parameters, "backward_layer.layers.0", words[::-1])
    below = [np.concatenate(both) for both in zip(forwards, backwards[::-1], strict=True)]
    for number in range(2, config.encoder_layers + 1):
        outputs, _ = reference.run(parameters, f"encoder.layers.{number - 2}", below)
        residual = number >= 3
        below = [m + x if residual else m for m, x in zip(outputs, below, strict=True)]
    return below


def forward(parameters, config: GNMTConfig, source, target_in) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities (T, V), attention (T, S)."""
    annotations = encoded(parameters, config, source)
    names = ["bottom.layers.0", *(f"decoder.layers.{n}" for n in range(config.layers - 1))]
    states = [reference.zero(parameters, name) for name in names]
    context = np.zeros(config.encoder_hidden)
    rows, attention = [], []
    for token in target_in:
        word = parameters["target_embedding.weight"][token]
        if config.order == "previous":
            context, weights = reference.attend(
                parameters, "attention.score", states[0][0], annotations
            )
        bottom = np.concatenate([word, context])
        states[0] = reference.lstm(parameters, names[0], bottom, states[0])
        if config.order == "current":
            context, weights = reference.attend(
                parameters, "attention.score", states[0][0], annotations
            )
        x = states[0][0]
        for number in range(2, config.layers + 1):
            both = np.concatenate([x, context])
            state = reference.lstm(parameters, names[number - 1], both, states[number - 1])
            states[number - 1] = state
            x = state[0] + x if number >= 3 else state[0]
        rows.append(reference.log_probs(parameters, x))
        attention.append(weights)
    return np.array(rows), np.array(attention)


@pytest.mark.parametrize("settings", VARIANTS)
def test_values_equal_the_equations(settings: dict[str, Any]) -> None:
    model = gnmt(settings)
    source, mask = padded([source for source, _ in PAIRS])
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS])
    logits, attention = model.decode(target_in, model.encode(source, mask))
    for b, (source_ids, target) in enumerate(PAIRS):
        log_probs, weights = forward(in_numpy(model), model.config, source_ids, (BOS, *target))
        rows = len(target) + 1
        found = F.log_softmax(logits[b, :rows], 1).detach().numpy()
        np.testing.assert_allclose(found, log_probs, rtol=0, atol=1e-12)
        seen = attention[b, :rows, : len(source_ids)].detach().numpy()
        np.testing.assert_allclose(seen, weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", VARIANTS)
def test_gradients_are_those_of_the_loss(settings: dict[str, Any]) -> None:
    check_gradients(gnmt(settings))


def test_dropout_is_between_layers_and_on_the_contexts_above() -> None:
    """Not on the bottom layer or its attention: they are the same in every training step."""
    source, mask = padded([source for source, _ in PAIRS])
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS])
    model = gnmt({**TINY["gnmt"][0], "encoder_layers": 2, "dropout_layers": 0.5}).train()
    memory = model.eval().encode(source, mask)
    model.train()
    found = [model.decode(target_in, memory) for _ in range(2)]
    assert torch.equal(found[0][1], found[1][1])
    assert not torch.equal(found[0][0], found[1][0])
    annotations = [model.encode(source, mask).annotations for _ in range(2)]
    assert not torch.equal(*annotations)


@pytest.mark.parametrize("wrong", [{"layers": 1}, {"encoder_layers": 1}])
def test_one_layer_is_too_few(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be at least 2"):
        GNMTConfig(**wrong)
