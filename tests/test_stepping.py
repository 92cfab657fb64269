"""What search steps instead of the model: the same, float64; in int8 nearly the same."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from nmtkit.models import build_model
from nmtkit.models import rnnsearch_stepping as module
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from nmtkit.models.rnnsearch_stepping import RNNsearchStepper
from nmtkit.models.seq2seq import AnySeq2Seq, Seq2Seq
from nmtkit.models.stepping import Product, Stepper
from nmtkit.vocabulary import BOS, PAD, UNK
from tests.test_models import PAIRS, TINY, VARIANTS, build, close, padded

Variant = tuple[str, dict[str, Any]]
SOURCES = [source for source, _ in PAIRS]


@torch.inference_mode()
def walk(model: AnySeq2Seq, stepper: Stepper, beam: int, atol: float) -> None:
    """Some steps of both, rows and sentences chosen in between as search does."""
    source, mask = padded(SOURCES)
    memory, other = model.encode(source, mask), stepper.encode(source, mask)
    state, fast = model.start(memory, beam), stepper.start(other, beam)
    rows = len(SOURCES) * beam
    tokens = torch.full((rows,), BOS)
    for t in range(5):
        features, attention, state = model.step(tokens, state, memory)
        found, weights, fast = stepper.step(tokens, fast, other)
        close(found, features, atol)
        close(weights, attention, atol)
        close(stepper.logits(found), model.output(features), 10 * atol)
        rows = len(tokens)
        tokens = torch.tensor([4, 6, UNK, 5, PAD, 4])[torch.arange(t, t + rows) % 6]
        order = torch.arange(rows).view(-1, beam).flip(1).flatten()
        if t == 2:  # the first and the third sentence stay
            order = order.view(-1, beam)[[0, 2]].flatten()
            memory, other = (one.select(torch.tensor([0, 2])) for one in (memory, other))
            tokens = tokens[order]
        state, fast = state.select(order), fast.select(order)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_stepper_is_the_models_own_step(variant: Variant, beam: int) -> None:
    model = build(variant)
    walk(model, model.stepper(), beam, 1e-12)


def test_gated_units_with_attention_have_one_of_their_own() -> None:
    for name, settings in chain(*([(name, one) for one in ones] for name, ones in TINY.items())):
        model = build((name, settings))
        lstm = getattr(model.config, "cell", "gru") == "lstm"
        own = isinstance(model, RNNsearch) and model.has_attention and not lstm
        assert isinstance(model.stepper(), RNNsearchStepper) == own


def test_without_a_table_of_words_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TABLE_BYTES", 0)
    for settings in TINY["rnnsearch"][:8]:
        model = build(("rnnsearch", settings))
        stepper = model.stepper()
        assert isinstance(stepper, RNNsearchStepper)
        assert stepper.words.table is None
        walk(model, stepper, 2, 1e-12)


def test_a_product_is_a_linear_layer() -> None:
    torch.manual_seed(1)
    x, bias = torch.randn(5, 7), torch.randn(6)
    weights = [torch.randn(2, 7), torch.randn(4, 7)]
    expected = F.linear(x, torch.cat(weights), bias)
    torch.testing.assert_close(Product(weights, bias, int8=False)(x), expected)


def test_int8_by_hand() -> None:
    """Factors: 2 and 1 for W, 0.01 for x; W in integers: (127, -64), (0, 127)."""
    weight = torch.tensor([[254.0, -127.3], [0.2, 127.0]])
    x = torch.tensor([[1.27, -0.504], [0.0, 0.0]])
    product = Product([weight], torch.tensor([0.5, 0.25]), int8=True)
    assert product.integers is not None
    assert product.integers.tolist() == [[127, 0], [-64, 127]]
    # x: (127, -50); (127·127 + 64·50)·2·0.01 and -50·127·1·0.01
    expected = torch.tensor([[386.58 + 0.5, -63.5 + 0.25], [0.5, 0.25]])
    torch.testing.assert_close(product(x), expected)


def test_a_row_in_int8_depends_on_no_other() -> None:
    torch.manual_seed(1)
    rows = torch.randn(37, 96) * torch.logspace(-3, 3, 37).unsqueeze(1)
    product = Product([torch.randn(40, 96)], torch.randn(40), int8=True)
    together = product(rows)
    for n in range(len(rows)):
        assert torch.equal(product(rows[n : n + 1])[0], together[n])


@pytest.mark.parametrize("order", ["main-text", "appendix", "groundhog", "conditional"])
@torch.inference_mode()
def test_int8_changes_log_probabilities_little(order: Any) -> None:
    torch.manual_seed(1)
    config = RNNsearchConfig(embedding=24, encoder_hidden=20, hidden=32, attention_units=16,
                             maxout=24, order=order, initialisation="glorot")  # fmt: skip
    model = build_model(config, 50, 60)
    assert isinstance(model, Seq2Seq)
    model.eval()
    source, mask = padded([(5, 6, 7, 8, 3), (9, 10, 3)])
    stepper = model.stepper(int8=True)
    memory = model.encode(source, mask)
    state, fast = model.start(memory), stepper.start(memory, 1)
    for tokens in ([BOS, BOS], [7, 30], [12, 41]):
        features, _, state = model.step(torch.tensor(tokens), state, memory)
        found, _, fast = stepper.step(torch.tensor(tokens), fast, memory)
        exact = F.log_softmax(model.output(features), 1)
        rounded = F.log_softmax(stepper.logits(found), 1)
        assert (exact - rounded).abs().max() < 0.2
        assert not torch.equal(exact, rounded)
