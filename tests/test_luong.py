"""Luong et al. (2015) against its equations, written out for one sentence at a time in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nmtkit.models import ARCHITECTURES, blank_model, build_model
from nmtkit.models.luong import Luong, LuongConfig
from nmtkit.vocabulary import BOS, EOS
from tests.test_models import (
    LUONG,
    PAIRS,
    build,
    gradients,
    in_numpy,
    padded,
    training_loss,
)

Array = np.ndarray
Parameters = dict[str, Array]
SCORES = ("dot", "general", "concat")
#: Every score goes with every window but location, which is global.
ATTENTIONS = [("location", "global"), *product(SCORES, ("global", "local-m", "local-p"))]
attentions = pytest.mark.parametrize(("score", "window"), ATTENTIONS)
feedings = pytest.mark.parametrize("input_feeding", [True, False], ids=["fed", "unfed"])


def luong(**changes: Any) -> Luong:
    model = build(("luong", {**LUONG, "layers": 2, **changes}))
    assert isinstance(model, Luong)
    return model


def dropped(rate: float) -> dict[str, float]:
    return {f"dropout_{what}": rate for what in ("embedding", "layers", "readout")}


# The reference


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm_step(
    p: Parameters, side: str, x: Array, hs: list[Array], cs: list[Array]
) -> tuple[list[Array], list[Array]]:
    """All layers at one position; the last column of a layer's input matrix is its bias."""
    new_h, new_c = [], []
    for n, (h, c) in enumerate(zip(hs, cs, strict=True)):
        W, U = (p[f"{side}.layers.{n}.weight_{part}_l0"] for part in ("ih", "hh"))
        i, f, g, o = np.split(W[:, :-1] @ x + W[:, -1] + U @ h, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        x = sigmoid(o) * np.tanh(c)
        new_h.append(x)
        new_c.append(c)
    return new_h, new_c


def energy(p: Parameters, score: str, h_t: Array, h_s: Array, s: int) -> float:
    if score == "dot":
        return float(h_t @ h_s)
    W_a = p["attention.score.W_a"]
    if score == "general":
        return float(h_t @ W_a @ h_s)
    if score == "location":
        return float(W_a[s] @ h_t)
    return float(p["attention.score.v_a"] @ np.tanh(W_a @ np.concatenate([h_t, h_s])))


def attend(
    p: Parameters, config: LuongConfig, h_t: Array, annotations: list[Array], t: int
) -> tuple[Array, Array]:
    """Context, and attention as told to others."""
    length, D = len(annotations), config.window_size
    p_t = float(min(t, length - 1))
    if config.window == "local-p":
        p_t = length * float(sigmoid(p["attention.v_p"] @ np.tanh(p["attention.W_p"] @ h_t)))
    near = [s for s in range(length) if config.window == "global" or abs(s - p_t) <= D]
    e = np.exp([energy(p, config.attention, h_t, annotations[s], s) for s in near])
    a = dict(zip(near, e / e.sum(), strict=True))
    if config.window == "local-p":
        sigma = D / 2
        a = {s: a[s] * np.exp(-((s - p_t) ** 2) / (2 * sigma**2)) for s in near}
    context = np.sum([a[s] * annotations[s] for s in near], axis=0)
    told = np.array([a.get(s, 0.0) for s in range(length)])
    return context, told / told.sum()


def reference(
    p: Parameters, config: LuongConfig, source: Sequence[int], target_in: Sequence[int]
) -> tuple[Array, Array]:
    """Log-probabilities (T, V), attention (T, S)."""
    h = [np.zeros(config.hidden)] * config.layers
    c = list(h)
    annotations: dict[int, Array] = {}
    places = range(len(source))
    for s in reversed(places) if config.reverse_source else places:
        h, c = lstm_step(p, "encoder", p["source_embedding.weight"][source[s]], h, c)
        annotations[s] = h[-1]
    read = np.zeros(config.hidden)
    rows, attention = [], []
    for t, token in enumerate(target_in):
        x = p["target_embedding.weight"][token]
        if config.input_feeding:
            x = np.concatenate([x, read])
        h, c = lstm_step(p, "decoder", x, h, c)
        context, a = attend(p, config, h[-1], [annotations[s] for s in places], t)
        read = np.tanh(p["readout.weight"] @ np.concatenate([context, h[-1]]))
        logits = p["output.weight"] @ read + p["output.bias"]
        rows.append(logits - np.log(np.exp(logits).sum()))
        attention.append(a)
    return np.array(rows), np.array(attention)


def reference_loss(p: Parameters, config: LuongConfig) -> float:
    loss = 0.0
    for source, target in PAIRS:
        log_probs, _ = reference(p, config, source, (BOS, *target))
        loss -= sum(row[token] for row, token in zip(log_probs, (*target, EOS), strict=True))
    return loss


# The model against it


@pytest.mark.parametrize("reverse", [True, False], ids=["reversed", "in-order"])
@feedings
@attentions
def test_values_equal_the_equations(
    score: str, window: str, input_feeding: bool, reverse: bool
) -> None:
    model = luong(
        attention=score, window=window, input_feeding=input_feeding, reverse_source=reverse
    )
    source, mask = padded([source for source, _ in PAIRS])
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS])
    logits, attention = model.decode(target_in, model.encode(source, mask))
    p = in_numpy(model)
    for b, (source_ids, target) in enumerate(PAIRS):
        rows = len(target) + 1
        expected, told = reference(p, model.config, source_ids, (BOS, *target))
        found = F.log_softmax(logits[b, :rows], 1).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        found = attention[b, :rows, : len(source_ids)].detach().numpy()
        np.testing.assert_allclose(found, told, rtol=0, atol=1e-12)


def test_gradients_equal_differences_of_the_equations() -> None:
    """Two numbers of every parameter; local-p has all there are, and p_t in its gradient."""
    model = luong(attention="concat", window="local-p")
    p = in_numpy(model)
    chooser = np.random.default_rng(1)
    step = 1e-5
    for name, gradient in gradients(model, training_loss(model, PAIRS)).items():
        used = gradient.flatten().nonzero().flatten().numpy()
        for place in chooser.choice(used, 2, replace=False):
            losses = []
            for change in (step, -step):
                changed = {**p, name: p[name].copy()}
                changed[name].flat[place] += change
                losses.append(reference_loss(changed, model.config))
            expected = (losses[0] - losses[1]) / (2 * step)
            assert float(gradient.flatten()[place]) == pytest.approx(expected, abs=1e-7), name


@attentions
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_fast_feeding_equals_the_plain_loop(
    score: str, window: str, layers: int, dropout: float
) -> None:
    """Values and gradients; both loops draw their dropout in the same order."""
    model = luong(attention=score, window=window, layers=layers, **dropped(dropout)).train()
    losses, found = [], []
    for plain in (False, True):
        model.plain = plain
        torch.manual_seed(5)
        losses.append(training_loss(model, PAIRS))
        found.append(gradients(model, losses[-1]))
    torch.testing.assert_close(*losses, rtol=0, atol=1e-12)
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name], rtol=0, atol=1e-12, msg=name)


def test_fast_feeding_gives_gradients_to_attention_alone() -> None:
    """A guide that teaches links only: the readout of the last position has no part in it."""
    model = luong()
    source, mask = padded([(3, 4, 5)])
    for plain in (False, True):
        model.plain = plain
        for target in ([[BOS]], [[BOS, 4, 5]]):
            model.zero_grad()
            _, attention = model.features(torch.tensor(target), model.encode(source, mask))
            attention[:, -1, 0].sum().backward()
            gradient = model.readout.weight.grad
            assert (gradient is None or not gradient.any()) == (len(target[0]) == 1)


def test_dropout_acts_in_training_only() -> None:
    without = training_loss(luong(), PAIRS)
    model = luong(**dropped(0.5))
    assert torch.equal(training_loss(model, PAIRS), without)
    model.train()
    assert not torch.equal(training_loss(model, PAIRS), without)


# Settings


def test_initialisation() -> None:
    """paper: uniform in [-0.1, 0.1]; glorot: biases 0, of forget gates 1, orthogonal blocks."""
    config = LuongConfig(embedding=20, hidden=30, layers=2, window="local-p")
    torch.manual_seed(1)
    for name, values in in_numpy(build_model(config, 50, 60)).items():
        assert 0.085 < np.abs(values).max() <= 0.1, name
        assert abs(values.std() - 0.2 / 12**0.5) < 0.01, name
    other = in_numpy(build_model(replace(config, initialisation="glorot"), 50, 60))
    assert not other["output.bias"].any()
    for side, layer in product(("encoder", "decoder"), range(2)):
        bias = other[f"{side}.layers.{layer}.weight_ih_l0"][:, -1]
        assert bias.tolist() == [0.0] * 30 + [1.0] * 30 + [0.0] * 60
        U = other[f"{side}.layers.{layer}.weight_hh_l0"][30:60]
        np.testing.assert_allclose(U @ U.T, np.eye(30), atol=1e-5)
    assert all(np.abs(values).max() > 0 for name, values in other.items() if name != "output.bias")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        *(({name: 0}, f"{name} must be at least 1") for name in ("layers", "window_size")),
        ({"dropout_layers": 1.0}, "dropout_layers must be at least 0 and below 1"),
        ({"attention": "location", "window": "local-m"}, "location goes with window = global"),
        (
            {"tied_embeddings": "target", "embedding": 9},
            "hidden as large as embedding, 9, got 1000",
        ),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        LuongConfig(**wrong)


def test_paper_preset_has_the_paper_size() -> None:
    """Section 4.1: 50 000 words a side, 4 layers of 1000 cells, embeddings of 1000."""
    tables = ARCHITECTURES["luong"].presets["paper"]
    assert tables["training"]["batch_sentences"] == 128
    with torch.device("meta"):
        model = blank_model(LuongConfig(**tables["model"]), 50_000, 50_000)
    layer = 4000 * 2001  # gates over input, bias and state
    stacks = 2 * 4 * layer + 4000 * 1000  # h~ beside the word
    attention = 1000 * 1000 + 1000 * 1000 + 1000  # W_a, W_p, v_p
    ends = 2 * 50_000_000 + 2 * 1000 * 1000 + 50_000 * 1001
    assert sum(p.numel() for p in model.parameters()) == stacks + attention + ends
