"""seq2seq against its equations, written out for one sentence at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nmtkit.align import AlignOptions, read_attention
from nmtkit.checkpoint import Trained
from nmtkit.errors import UserError
from nmtkit.models import ARCHITECTURES, build_model
from nmtkit.models.lstm_seq2seq import LSTMSeq2Seq, LSTMSeq2SeqConfig
from nmtkit.models.seq2seq import Seq2Seq
from nmtkit.search import SearchOptions
from nmtkit.text import Text, TextConfig
from nmtkit.translate import TranslateOptions, translate
from nmtkit.vocabulary import BOS, EOS
from tests import reference_lstm as reference
from tests.test_models import PAIRS, TINY, build, in_numpy, padded, training_loss

VARIANTS = [pytest.param(each, id=f"{each}") for each in TINY["seq2seq"]]


def seq2seq(settings: dict[str, Any], seed: int = 1) -> LSTMSeq2Seq:
    found = build(("seq2seq", settings), seed)
    assert isinstance(found, LSTMSeq2Seq)
    return found


def forward(parameters, config: LSTMSeq2SeqConfig, source, target_in) -> np.ndarray:
    """Log-probabilities (T, V): layer after layer over the source, then word after word."""
    order = source[::-1] if config.reverse_source else source
    below = [parameters["source_embedding.weight"][word] for word in order]
    states = []
    for n in range(config.layers):
        below, state = reference.run(parameters, f"encoder.layers.{n}", below)
        states.append(state)
    rows = []
    for token in target_in:
        x = parameters["target_embedding.weight"][token]
        for n in range(config.layers):
            states[n] = reference.lstm(parameters, f"decoder.layers.{n}", x, states[n])
            x = states[n][0]
        table = "target_embedding" if config.tied_embeddings == "target" else "output"
        rows.append(reference.log_probs(parameters, x, table))
    return np.array(rows)


@pytest.mark.parametrize("settings", VARIANTS)
def test_values_equal_the_equations(settings: dict[str, Any]) -> None:
    model = seq2seq(settings)
    source, mask = padded([source for source, _ in PAIRS])
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS])
    logits, attention = model.decode(target_in, model.encode(source, mask))
    assert attention.shape == (*target_in.shape, source.shape[1])
    assert not attention.any()
    for b, (source_ids, target) in enumerate(PAIRS):
        expected = forward(in_numpy(model), model.config, source_ids, (BOS, *target))
        found = F.log_softmax(logits[b, : len(target) + 1], 1).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("settings", VARIANTS)
def test_gradients_are_those_of_the_loss(settings: dict[str, Any]) -> None:
    """By finite differences, a random direction in every parameter."""
    check_gradients(seq2seq(settings))


def check_gradients(model: Any) -> None:
    training_loss(model, PAIRS).backward()
    generator = torch.Generator().manual_seed(3)
    small = 1e-6
    for name, parameter in model.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        losses = []
        with torch.no_grad():
            for side in (small, -2 * small):
                parameter += side * direction
                losses.append(float(training_loss(model, PAIRS)))
            parameter += small * direction
        slope = (losses[0] - losses[1]) / (2 * small)
        expected = float((parameter.grad * direction).sum())
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-6), name


def test_the_first_word_is_read_last() -> None:
    """Of a source with its end: what the last step of the encoder reads decides its last state."""
    model = seq2seq(TINY["seq2seq"][0])
    assert model.config.reverse_source
    with torch.no_grad():  # a layer that forgets all but the word it reads
        W, U = model.encoder.weights()[0]
        size = model.config.hidden
        U.zero_()
        W[size : 2 * size] = 0.0
        W[size : 2 * size, -1] = -100.0
    same = model.encode(*padded([(4, 6, EOS), (4, 5, 5, EOS)]))
    other = model.encode(*padded([(6, 4, EOS)]))
    torch.testing.assert_close(same.h[0], same.h[1])
    assert not torch.allclose(same.h[0], other.h[0])


def test_it_has_no_attention_to_align_or_to_measure_coverage_by() -> None:
    text = Text(TextConfig("en", tokenizer="none", subwords="none"))
    trained = Trained(Path("models/deep"), seq2seq(TINY["seq2seq"][0]), text, text)
    with pytest.raises(UserError, match="models/deep: its architecture has no attention to read"):
        read_attention([trained], [], AlignOptions())
    options = TranslateOptions(search=SearchOptions(coverage_penalty=0.2))
    with pytest.raises(UserError, match="models/deep: its architecture has no attention to meas"):
        next(translate([trained], ["a"], options))


def test_dropout_stands_between_layers_on_embeddings_and_on_the_readout() -> None:
    """In training only, and one layer has nothing between."""
    source, mask = padded([source for source, _ in PAIRS])
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS])

    def varies(layers: int, **dropout: float) -> bool:
        model = seq2seq({"embedding": 3, "hidden": 4, "layers": layers, **dropout}).train()
        first, second = (model.decode(target_in, model.encode(source, mask))[0] for _ in range(2))
        return not torch.equal(first, second)

    assert not varies(2)
    assert not varies(1, dropout_layers=0.5)
    assert varies(2, dropout_layers=0.5)
    assert varies(1, dropout_embedding=0.5)
    assert varies(1, dropout_readout=0.5)


@pytest.mark.parametrize("architecture", ["seq2seq", "gnmt"])
@pytest.mark.parametrize("initialisation", ["paper", "glorot", "unit"])
def test_fresh_parameters(architecture: str, initialisation: str) -> None:
    entry = ARCHITECTURES[architecture]
    sizes = {"embedding": 30, "hidden": 40, "layers": 2}
    if architecture == "gnmt":
        sizes |= {"encoder_hidden": 40, "encoder_layers": 2, "attention_units": 40}
    torch.manual_seed(1)
    model = build_model(entry.config(initialisation=initialisation, **sizes), 50, 60)
    assert isinstance(model, Seq2Seq)
    drawn = dict(model.named_parameters())
    U = drawn["decoder.layers.0.weight_hh_l0"]
    if initialisation == "paper":
        bound = {"seq2seq": 0.08, "gnmt": 0.04}[architecture]
        for name, parameter in drawn.items():
            assert parameter.abs().max() <= bound, name
            assert parameter.abs().max() > 0.8 * bound, name
    else:
        for block in U.chunk(4):
            torch.testing.assert_close(block @ block.T, torch.eye(40), rtol=0, atol=1e-5)
        assert not drawn["output.bias"].any()
        bias = drawn["decoder.layers.0.weight_ih_l0"][:, -1]
        assert bias.tolist() == [0.0] * 40 + [1.0] * 40 + [0.0] * 80
        unit = initialisation == "unit"
        spread = drawn["target_embedding.weight"].std().item()
        assert spread == pytest.approx(1 if unit else 30**-0.5, rel=0.1)
        glorot = (2 / (40 + 60)) ** 0.5
        spread = drawn["output.weight"].std().item()
        assert spread == pytest.approx(40**-0.5 if unit else glorot, rel=0.1)
