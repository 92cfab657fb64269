"""RNNencdec against its equations, written out for one sentence at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from nmtkit.align import AlignOptions, read_attention
from nmtkit.checkpoint import Trained
from nmtkit.errors import UserError
from nmtkit.models.rnnencdec import RNNencdec
from nmtkit.text import Text, TextConfig
from nmtkit.vocabulary import BOS
from tests import reference_rnnsearch as reference
from tests.test_models import PAIRS, TINY, build, gradients, in_numpy, padded, training_loss


def fixed(reset: str) -> RNNencdec:
    [settings] = [s for s in TINY["rnnencdec"] if s["reset"] == reset]
    found = build(("rnnencdec", settings))
    assert isinstance(found, RNNencdec)
    return found


def forward(parameters, reset: str, source, target_in) -> np.ndarray:
    """Log-probabilities (T, V): c is the last forward state, the same at every word."""
    c = np.zeros(parameters["encoder_gru.U"].shape[1])
    for word in source:
        embedded = parameters["source_embedding.weight"][word]
        c = reference.gru(parameters, "encoder_gru", reset, c, embedded)
    s = np.tanh(parameters["initial.weight"] @ c + parameters["initial.bias"])
    rows = []
    for token in target_in:
        word = parameters["target_embedding.weight"][token] * (token != BOS)
        s = reference.gru(parameters, "decoder_gru", reset, s, np.concatenate([word, c]))
        rows.append(reference.read_out(parameters, s, word, c))
    return np.array(rows)


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
@pytest.mark.parametrize("reset", reference.RESETS)
def test_values_equal_the_equations(reset: str, plain: bool) -> None:
    model = fixed(reset)
    model.plain = plain
    source, mask = padded([source for source, _ in PAIRS])
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS])
    logits, _ = model.decode(target_in, model.encode(source, mask))
    for b, (source_ids, target) in enumerate(PAIRS):
        expected = forward(in_numpy(model), reset, source_ids, (BOS, *target))
        found = F.log_softmax(logits[b, : len(target) + 1], 1).detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reset", reference.RESETS)
def test_fast_gradients_equal_the_plain_ones(reset: str) -> None:
    model = fixed(reset)
    found = []
    for plain in (False, True):
        model.plain = plain
        found.append(gradients(model, training_loss(model, PAIRS)))
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name], rtol=0, atol=1e-12)


def test_there_is_nothing_to_align_by() -> None:
    text = Text(TextConfig("en", tokenizer="none", subwords="none"))
    trained = Trained(Path("models/fixed"), fixed("before"), text, text)
    with pytest.raises(UserError, match="models/fixed: its architecture has no attention"):
        read_attention([trained], [], AlignOptions())
