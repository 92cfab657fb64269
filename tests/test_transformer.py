"""The Transformer: its equations, its cache, its ties, and what attention it shows."""

from __future__ import annotations

import copy
import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.models import blank_model, build_model
from nmtkit.models import transformer_layers as layers
from nmtkit.models.transformer import PRESETS, Transformer, TransformerConfig
from nmtkit.models.transformer_layers import attend_with_weights, positions, visible
from nmtkit.vocabulary import BOS, PAD
from tests import reference_transformer as reference
from tests.test_models import (
    PAIRS,
    SOURCE_SIZE,
    TARGET_SIZE,
    TINY,
    TRANSFORMER,
    build,
    close,
    forced,
    gradients,
    in_numpy,
    padded,
    training_loss,
)


def built(**settings: Any) -> Transformer:
    model = build(("transformer", {**TRANSFORMER, **settings}))
    assert isinstance(model, Transformer)
    return model


def fresh(**settings: Any) -> Transformer:
    """Of equal vocabularies, with the parameters of a run before its first update."""
    torch.manual_seed(1)
    model = build_model(TransformerConfig(**{**TRANSFORMER, **settings}), TARGET_SIZE, TARGET_SIZE)
    assert isinstance(model, Transformer)
    return model


# ----------------------------------------------------------------------------------- the equations


def read_off(settings: dict[str, Any], weights: np.ndarray) -> np.ndarray:
    """The attention (T, S) that the settings ask for, of (layers, heads, T, S)."""
    layer = settings.get("attention_layer") or max(1, settings["decoder_layers"] - 1)
    head = settings.get("attention_head", 0)
    chosen = weights[layer - 1]
    return chosen[head - 1] if head else chosen.mean(0)


#: Of two vocabularies of one size: not for tests of search, which know how many words there are.
ONE_TABLE = {**TRANSFORMER, "tied_embeddings": "all", "decoder_layers": 2, "attention_layer": 2}


@pytest.mark.parametrize("settings", [*TINY["transformer"], ONE_TABLE])
def test_values_equal_the_equations(settings: dict[str, Any]) -> None:
    model = build(("transformer", settings))
    parameters, heads = in_numpy(model), settings["heads"]
    assert ("source_embedding.weight" in parameters) == (settings.get("tied_embeddings") != "all")
    for source, target in PAIRS:
        annotations = reference.encode(parameters, settings["encoder_layers"], heads, source)
        log_probs, weights = reference.decode(
            parameters, settings["decoder_layers"], heads, (BOS, *target), annotations
        )
        found, attention = forced(model, source, target)
        np.testing.assert_allclose(found.detach().numpy(), log_probs, rtol=0, atol=1e-10)
        wanted = read_off(settings, weights)
        np.testing.assert_allclose(attention.detach().numpy(), wanted, rtol=0, atol=1e-12)


def test_positions_by_hand() -> None:
    """D = 4: the wavelengths are 2π and 200π."""
    found = positions(2, 2, 4, torch.zeros((), dtype=torch.double))
    wanted = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in (2, 3)]
    close(found, torch.tensor(wanted, dtype=torch.double))
    odd = np.array([reference.sinusoid(p, 3) for p in (2, 3)])
    close(positions(2, 2, 3, found), torch.from_numpy(odd))


def test_gradients_are_the_slopes() -> None:
    """Of the training loss, at the largest gradient and two others of every parameter."""
    model = built(tied_embeddings="target", attention_layer=2, attention_head=1)
    found = gradients(model, training_loss(model, PAIRS))
    step = 1e-5
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            flat, gradient = parameter.view(-1), found[name].view(-1)
            for place in {int(gradient.abs().argmax()), 0, len(flat) - 1}:
                losses = []
                for change in (step, -2 * step):
                    flat[place] += change
                    losses.append(training_loss(model, PAIRS).item())
                flat[place] += step
                slope = (losses[0] - losses[1]) / (2 * step)
                assert float(gradient[place]) == pytest.approx(slope, rel=1e-5, abs=1e-5), name


# --------------------------------------------------------------------------------------- attention


def scene() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries (3, 2, 5, 4), keys and values (3, 2, 6, 4), and a mask (3, 6)."""
    torch.manual_seed(1)
    queries, keys, values = (torch.randn(3, 2, n, 4).double().requires_grad_() for n in (5, 6, 6))
    mask = torch.arange(6) < torch.tensor([[6], [2], [5]])
    return queries, keys, values, mask


@pytest.mark.parametrize("rows", [1, 2, 5, 100], ids="{} queries at a time".format)
@pytest.mark.parametrize("head", [0, 1, 2])
def test_with_weights_is_the_fused_attention(
    rows: int, head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts and all gradients; the weights are those of the values' identity."""
    queries, keys, values, mask = scene()
    allowed, above = visible(mask), torch.randn(3, 2, 5, 4).double()
    monkeypatch.setattr(layers, "HELD", rows * 3 * 2 * 6)
    contexts, weights = attend_with_weights(queries, keys, values, allowed, head)
    wanted = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
    close(contexts, wanted)
    pairs = zip(
        torch.autograd.grad((contexts * above).sum(), (queries, keys, values)),
        torch.autograd.grad((wanted * above).sum(), (queries, keys, values)),
        strict=True,
    )
    for one, other in pairs:
        close(one, other)
    every = torch.eye(6, dtype=torch.double).expand(3, 2, 6, 6)
    alpha = F.scaled_dot_product_attention(queries, keys, every, attn_mask=allowed)
    close(weights, alpha[:, head - 1] if head else alpha.mean(1))


def test_weights_stand_in_memory_for_a_part_of_the_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries, keys, values, mask = scene()
    sizes: list[int] = []
    softmax = torch.softmax

    def watched(energies: Tensor, dim: int) -> Tensor:
        sizes.append(energies.numel())
        return softmax(energies, dim)

    monkeypatch.setattr(layers, "HELD", 2 * 3 * 2 * 6)
    monkeypatch.setattr(torch, "softmax", watched)
    attend_with_weights(queries, keys, values, visible(mask), 0)
    assert sizes == [72, 72, 36]


def test_dropout_leaves_the_weights_a_distribution() -> None:
    queries, keys, values, mask = scene()
    kept, weights = attend_with_weights(queries, keys, values, visible(mask), 0, dropout=0.0)
    dropped, same = attend_with_weights(queries, keys, values, visible(mask), 0, dropout=0.5)
    close(weights, same)
    assert (kept - dropped).abs().max() > 0.1


def test_a_sentence_of_padding_hurts_nobody() -> None:
    """Not itself either: there is no NaN, and no gradient of one."""
    model = built(alignment_head=True)
    source, mask = padded([source for source, _ in PAIRS])
    target_in, real = padded([(BOS, *target) for _, target in PAIRS])
    mask[0], real[0], target_in[0] = False, False, PAD
    memory = model.encode(source, mask)
    features, attention = model.features(target_in, memory)
    both = model.align(source, target_in, real, memory)
    assert all(torch.isfinite(found[0]).all() for found in (features, attention))
    assert not torch.isnan(both[0]).any()
    alone = model.encode(source[1:], mask[1:])
    close(features[1:], model.features(target_in[1:], alone)[0])
    (
        features[1:].sum() + attention[1:].square().sum() + both[0].exp()[1:].square().sum()
    ).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_no_sentence_at_all() -> None:
    model = built()
    source, mask = torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, 3, dtype=torch.bool)
    features, attention = model.features(
        source[:, :2], model.encode(source, mask), (source[:, 0], source[:, 0])
    )
    assert (features.shape, attention.shape) == ((0, 6), (0, 2, 3))


@pytest.mark.parametrize(
    ("settings", "layer"),
    [({}, 2), ({"decoder_layers": 1}, 1), ({"attention_layer": 3}, 3), ({"decoder_layers": 6}, 5)],
)
def test_the_layer_before_the_last_is_read(settings: dict[str, int], layer: int) -> None:
    assert built(**settings).attention_layer == layer


def test_other_heads_are_other_attention_of_the_same_model() -> None:
    """What is read changes nothing but what is read."""
    log_probs, attention = zip(
        *(forced(built(attention_head=head), *PAIRS[1]) for head in (0, 1, 2)), strict=True
    )
    for other in log_probs[1:]:
        close(log_probs[0], other)
    close(attention[0], (attention[1] + attention[2]) / 2)
    assert (attention[1] - attention[2]).abs().max() > 0.01


# --------------------------------------------------------------------------------------- the cache


@torch.no_grad()
def test_a_state_may_be_stepped_from_twice() -> None:
    """Search throws states away; it must not be forced to."""
    model = built()
    memory = model.encode(*padded([PAIRS[1][0], PAIRS[0][0]]))
    _, _, state = model.step(torch.tensor([BOS, BOS]), model.start(memory), memory)
    before = copy.deepcopy(state)
    first = model.step(torch.tensor([4, 5]), state, memory)[0]
    model.step(torch.tensor([6, 6]), state, memory)
    close(model.step(torch.tensor([4, 5]), state, memory)[0], first)
    for field in fields(state):
        assert torch.equal(getattr(state, field.name), getattr(before, field.name))
        assert getattr(state, field.name).shape == (2, 3, 1, 6)


def test_the_beam_shares_the_source() -> None:
    """No tensor of a step has a row a hypothesis and a column a source position, bar attention."""
    model = built()
    source, mask = padded([tuple(range(4, 8)) * 3, (4, 5)])  # S = 12, B = 2
    memory = model.encode(source, mask)
    seen: list[tuple[int, ...]] = []
    product = F.scaled_dot_product_attention

    def watched(*given: Any, **options: Any) -> Tensor:
        seen.extend(tuple(one.shape) for one in given[:3])
        return product(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", watched)
        model.step(torch.full((10,), BOS), model.start(memory, 5), memory)
    assert (2, 2, 5, 3) in seen  # (B, h, K, d): the hypotheses as queries
    assert (2, 2, 12, 3) in seen
    assert not [shape for shape in seen if shape[0] == 10 and 12 in shape[1:]]


def test_sentences_longer_than_any_in_training() -> None:
    """There is no table of positions to run out of."""
    model = fresh().eval()
    source, target = torch.randint(4, TARGET_SIZE, (1, 3000)), torch.full((1, 2500), 5)
    with torch.inference_mode():
        memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
        features, attention = model.features(target, memory)
    assert torch.isfinite(features).all()
    close(attention.sum(2), torch.ones(1, 2500), 1e-4)
    assert (features[0, 1000] - features[0, 1001]).abs().max() > 1e-4


def test_half_precision() -> None:
    """What autocast makes of it is near."""
    model = fresh().eval()
    source, mask = padded([source for source, _ in PAIRS])
    exact = model.decode(torch.full((4, 3), 5), model.encode(source % TARGET_SIZE, mask))
    with torch.autocast("cpu", torch.bfloat16):
        memory = model.encode(source % TARGET_SIZE, mask)
        found = model.decode(torch.full((4, 3), 5), memory)
        _, attention, state = model.step(torch.full((4,), 5), model.start(memory), memory)
        _, second, _ = model.step(torch.full((4,), 5), state, memory)
    for half, single in zip(found, exact, strict=True):
        close(half.float(), single, 0.05)
    for place, stepped in enumerate((attention, second)):
        close(stepped.float(), exact[1][:, place], 0.05)


# ---------------------------------------------------------------------------- parameters, settings


def test_tied_parameters_are_one() -> None:
    sizes = {tied: sum(p.numel() for p in fresh(tied_embeddings=tied).parameters())
             for tied in ("none", "target", "all")}  # fmt: skip
    table = TARGET_SIZE * TRANSFORMER["embedding"]
    assert sizes["none"] - sizes["target"] == sizes["target"] - sizes["all"] == table


def test_a_tied_model_can_be_loaded_copied_and_taught() -> None:
    model = fresh(tied_embeddings="all")
    with torch.device("meta"):
        blank = blank_model(model.config, TARGET_SIZE, TARGET_SIZE)
    blank.load_state_dict({name: p.clone() for name, p in model.state_dict().items()}, assign=True)
    assert isinstance(blank, Transformer)
    pairs = [((4, 6, 3), (5,)), ((5, 3), (4, 6))]
    for one in (model, blank, copy.deepcopy(model)):
        table = one.target_embedding.weight
        assert one.output.weight is table
        found = gradients(one.eval(), training_loss(one, pairs))
        with torch.no_grad():
            table -= 0.1 * found["target_embedding.weight"]
    close(model.output.weight, blank.output.weight, 0.0)
    assert training_loss(blank, pairs) == training_loss(model, pairs)


def test_one_vocabulary_or_none() -> None:
    config = TransformerConfig(**TRANSFORMER, tied_embeddings="all")
    with pytest.raises(UserError, match="they have 8 and 7 tokens: say target"):
        blank_model(config, SOURCE_SIZE, TARGET_SIZE)


def test_fresh_parameters() -> None:
    torch.manual_seed(1)
    config = TransformerConfig(embedding=64, feed_forward=128, heads=4, encoder_layers=1)
    model = build_model(config, 900, 800)
    assert isinstance(model, Transformer)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        elif "embedding" in name:
            assert float(parameter.detach().std()) == pytest.approx(1 / 8, rel=0.02)
        else:
            bound = math.sqrt(6 / sum(parameter.shape))
            largest = float(parameter.detach().abs().max())
            assert largest == pytest.approx(bound, rel=0.01), name


@pytest.mark.parametrize("rate", ["residual", "attention", "embedding"])
def test_dropout_acts_in_training_only(rate: str) -> None:
    off = {f"dropout_{name}": 0.0 for name in ("residual", "attention", "embedding")}
    model = built(**{**off, f"dropout_{rate}": 0.5})
    torch.manual_seed(1)
    assert len({training_loss(model, PAIRS).item() for _ in range(3)}) == 1
    model.train()
    assert len({training_loss(model, PAIRS).item() for _ in range(3)}) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"feed_forward": 0}, "feed_forward must be at least 1, got 0"),
        ({"dropout_residual": 1.0}, "dropout_residual must be at least 0 and below 1, got 1.0"),
        ({"embedding": 7}, "embedding must be a multiple of heads, got 7 and 2"),
        ({"attention_layer": 4}, "attention_layer must be from 0 to 3, got 4"),
        ({"attention_layer": -1}, "attention_layer must be from 0 to 3, got -1"),
        ({"attention_head": 3}, "attention_head must be from 0 to 2, got 3"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**{**TRANSFORMER, **wrong})


def test_the_papers_base_model() -> None:
    """65 million parameters with one vocabulary of 37 000 tokens (table 3), less the norms' few."""
    config = TransformerConfig(**{**PRESETS["paper"]["model"], "tied_embeddings": "all"})
    with torch.device("meta"):
        model = blank_model(config, 37000, 37000)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(63e6, rel=0.01)
