"""The Transformer's alignment head: its equation, and the laws of an attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.vocabulary import EOS
from tests import reference_transformer as reference
from tests.test_alignment_head import ended, read, weighed
from tests.test_models import PAIRS, TRANSFORMER, build, close, in_numpy, padded

LAYERS = (1, 2, 3)
JUNK = (5, 6, 3, 4)


@pytest.fixture(params=LAYERS, ids="layer {}".format)
def model(request: pytest.FixtureRequest) -> AnySeq2Seq:
    return headed(attention_layer=request.param)


def headed(**settings: Any) -> AnySeq2Seq:
    return build(("transformer", {**TRANSFORMER, "alignment_head": True, **settings}))


def gradients(model: AnySeq2Seq, value: Tensor) -> dict[str, Tensor]:
    """Of the parameters that the value depends on."""
    model.zero_grad()
    value.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("layer", LAYERS)
def test_values_equal_the_equations(layer: int) -> None:
    model = headed(attention_layer=layer)
    parameters = in_numpy(model)
    forward, backward, _, _ = read(model, PAIRS)
    for b, (source, target) in enumerate(zip(*ended(PAIRS), strict=True)):
        annotations = reference.encode(parameters, 2, 2, source)
        energies = reference.align(parameters, layer, 2, target, annotations)
        both = forward[b, : len(target), : len(source)], backward[b, : len(target), : len(source)]
        rows = np.array([reference.softmax(row) for row in energies.tolist()])
        columns = np.array([reference.softmax(column) for column in energies.T.tolist()]).T
        for found, wanted in zip(both, (rows, columns), strict=True):
            np.testing.assert_allclose(found.exp().detach().numpy(), wanted, rtol=0, atol=1e-11)


def test_padding_and_batch_change_nothing(model: AnySeq2Seq) -> None:
    both = read(model, PAIRS, JUNK)
    for b, pair in enumerate(PAIRS):
        alone = read(model, [pair])
        rows, columns = len(pair[1]) + 1, len(pair[0]) + 1
        for found, wanted in zip(both[:2], alone[:2], strict=True):
            close(found[b, :rows, :columns], wanted[0], 1e-11)


def test_padding_and_batch_change_no_gradient(model: AnySeq2Seq) -> None:
    found = gradients(model, weighed(model, PAIRS, JUNK))
    alone = [gradients(model, weighed(model, [pair])) for pair in PAIRS]
    for name, gradient in found.items():
        close(gradient, torch.stack([each[name] for each in alone]).sum(0), 1e-10, name)
    assert {"head.query.weight", "source_embedding.weight", "target_embedding.weight"} <= {*found}


def test_both_are_distributions_over_real_words(model: AnySeq2Seq) -> None:
    forward, backward, source_mask, target_mask = read(model, PAIRS, JUNK)
    for sums in (forward.exp().sum(2)[target_mask], backward.exp().sum(1)[source_mask]):
        close(sums, torch.ones_like(sums))
    assert not forward.exp()[~source_mask.unsqueeze(1).expand_as(forward)].any()
    assert not backward.exp()[~target_mask.unsqueeze(2).expand_as(backward)].any()
    assert forward.exp()[1].std() > 0.01  # not uniform


def test_it_has_read_the_whole_target(model: AnySeq2Seq) -> None:
    """Unlike the decoder's attention: another y_n moves the row of y_1."""
    source, target = PAIRS[1]
    before, after = (read(model, [(source, (*target[:-1], y))])[0].exp() for y in (5, 6))
    assert (before[0, 0] - after[0, 0]).abs().max() > 1e-6


def test_it_reads_by_the_decoders_layers_up_to_its_own(model: AnySeq2Seq) -> None:
    found = {name for name, g in gradients(model, weighed(model, PAIRS)).items() if g.any()}
    layer = model.attention_layer
    assert isinstance(layer, int)
    read_by = {name.split(".")[1] for name in found if name.startswith("decoder.")}
    assert read_by == {str(n) for n in range(layer)}
    assert f"decoder.{layer - 1}.self_attention.query.weight" in found
    assert f"decoder.{layer - 1}.feed_forward.inner.weight" not in found


@pytest.mark.parametrize("rate", ["residual", "embedding"])
def test_dropout_acts_in_training_only(rate: str) -> None:
    off = {"dropout_residual": 0.0, "dropout_embedding": 0.0}
    model = headed(**{**off, f"dropout_{rate}": 0.5})
    (source, source_mask), (target, target_mask) = (padded(ids) for ids in ended(PAIRS))
    assert target[0].tolist()[1] == EOS
    memory = model.encode(source, source_mask)
    torch.manual_seed(1)

    def value() -> float:
        return model.align(source, target, target_mask, memory)[0][target_mask].exp().std().item()

    assert len({value() for _ in range(3)}) == 1
    model.train()
    assert len({value() for _ in range(3)}) == 3
