"""The alignment head: its equation, its bounded memory, and the laws of an attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.align import common_rows, rows_of, turned
from nmtkit.align.reading import available_rows
from nmtkit.checkpoint import Trained
from nmtkit.errors import UserError
from nmtkit.models import AnyModel, blank_model
from nmtkit.models import alignment_head as module
from nmtkit.models.aligner import Aligner
from nmtkit.models.alignment_head import energies, energies_plain
from nmtkit.models.ibm import IBM1Config
from nmtkit.models.rnnsearch import RNNsearchConfig
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.text import Text, TextConfig
from nmtkit.vocabulary import EOS, PAD
from tests import reference_rnnsearch as reference
from tests.test_models import PAIRS, TINY, Pair, build, close, gradients, in_numpy, padded

HEADED, *OTHERS = (settings for settings in TINY["rnnsearch"] if settings["alignment_head"])
assert HEADED["temperature"] != 1
DECODER = ("initial", "attention", "decoder_gru", "context_gru", "readout", "output")


@pytest.fixture(params=reference.RESETS)
def model(request: pytest.FixtureRequest) -> AnySeq2Seq:
    return build(("rnnsearch", {**HEADED, "reset": request.param}))


def ended(pairs: Sequence[Pair]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return [(*source, EOS) for source, _ in pairs], [(*target, EOS) for _, target in pairs]


def read(model: AnySeq2Seq, pairs: Sequence[Pair], junk: Sequence[int] = (PAD,)) -> Any:
    """The two log-attentions (B, T, S), and the masks (B, S) and (B, T)."""
    (source, source_mask), (target, target_mask) = (padded(ids, junk) for ids in ended(pairs))
    found = model.align(source, target, target_mask, model.encode(source, source_mask))
    return *found, source_mask, target_mask


def weighed(model: AnySeq2Seq, pairs: Sequence[Pair], junk: Sequence[int] = (PAD,)) -> Tensor:
    """A sum over the real cells in which each has another weight, the same in any batch."""
    forward, backward, source_mask, target_mask = read(model, pairs, junk)
    real = target_mask.unsqueeze(2) & source_mask.unsqueeze(1)
    rows, columns = (torch.arange(size).double() for size in forward.shape[1:])
    weights = torch.sin(1 + rows.unsqueeze(1) + 3 * columns)
    both = weights * forward + weights.cos() * backward
    return both.masked_select(real).sum()


# ----------------------------------------------------------------------------------- the equations


def expected(model: AnySeq2Seq, pair: Pair) -> tuple[Any, Any]:
    """Both attentions (T, S) of one pair, an energy at a time."""
    config = model.config
    assert isinstance(config, RNNsearchConfig)
    kind = reference.Kind(reset=config.reset, cell=config.cell)
    parameters = in_numpy(model)
    [source], [target] = ended([pair])
    annotations, _ = reference.annotate(parameters, kind._replace(encoder=config.encoder), source)
    reader = {
        name.replace("head.reader", "encoder"): value
        for name, value in parameters.items()
        if name.startswith("head.reader.")
    }
    reader["source_embedding.weight"] = parameters["target_embedding.weight"]
    states, _ = reference.annotate(reader, kind, target)
    W, U, b, v = (parameters[f"head.attention.{name}"] for name in ("W_a", "U_a", "b_a", "v_a"))
    e = np.empty((len(target), len(source)))
    for i, j in np.ndindex(e.shape):
        word = parameters["target_embedding.weight"][target[i]]
        other = parameters["source_embedding.weight"][source[j]]
        query = W @ np.concatenate([states[i], word])
        key = U @ np.concatenate([annotations[j], other])
        e[i, j] = v @ np.tanh(query + key + b) / config.temperature
    forward = np.array([reference.softmax(row) for row in e.tolist()])
    backward = np.array([reference.softmax(column) for column in e.T.tolist()]).T
    return forward, backward


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "plain"])
@pytest.mark.parametrize("settings", [HEADED, {**HEADED, "reset": "before"}, *OTHERS])
def test_values_equal_the_equations(settings: dict[str, Any], plain: bool) -> None:
    model = build(("rnnsearch", settings))
    model.plain = plain  # type: ignore[assignment]
    forward, backward, _, _ = read(model, PAIRS)
    for b, pair in enumerate(PAIRS):
        rows, columns = len(pair[1]) + 1, len(pair[0]) + 1
        both = forward[b, :rows, :columns], backward[b, :rows, :columns]
        for found, wanted in zip(both, expected(model, pair), strict=True):
            np.testing.assert_allclose(found.exp().detach().numpy(), wanted, rtol=0, atol=1e-12)


def test_one_energy_by_hand() -> None:
    """v = (2, 1), queries (0, 1) and (1, 0), keys (0, 0) and (-1, 1)."""
    queries = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    keys = torch.tensor([[[0.0, 0.0], [-1.0, 1.0]]])
    t1, t2 = math.tanh(1), math.tanh(2)
    wanted = torch.tensor([[[t1, -2 * t1 + t2], [2 * t1, t1]]])
    for function in (energies, energies_plain):
        torch.testing.assert_close(function(queries, keys, torch.tensor([2.0, 1.0])), wanted)


# -------------------------------------------------------------------------------- fast and bounded


SIZES = (3, 5, 4, 2)  # B, T, S, A


@pytest.mark.parametrize("rows", [1, 2, 4, 100], ids="{} rows a part".format)
def test_energies_in_parts_are_the_plain_ones(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and all gradients."""
    B, T, S, A = SIZES
    monkeypatch.setattr(module, "HELD", rows * B * S * A)
    sizes: list[int] = []
    split = module._parts

    def watched(queries: Tensor, keys: Tensor) -> tuple[Tensor, ...]:
        parts = split(queries, keys)
        sizes.extend(part.shape[1] for part in parts)
        return parts

    monkeypatch.setattr(module, "_parts", watched)
    torch.manual_seed(1)
    given = [torch.randn(shape).double().requires_grad_() for shape in ((B, T, A), (B, S, A), (A,))]
    above = torch.randn(B, T, S).double()

    def run(function: Callable[..., Tensor]) -> list[Tensor]:
        values = function(*given)
        return [values, *torch.autograd.grad((values * above).sum(), given)]

    for fast, plain in zip(run(energies), run(energies_plain), strict=True):
        close(fast, plain)
    assert max(sizes) == min(rows, T)
    assert sum(sizes) == 2 * T  # forward and backward


def test_fast_gradients_equal_the_plain_ones(model: AnySeq2Seq) -> None:
    found = []
    for plain in (False, True):
        model.plain = plain  # type: ignore[assignment]
        found.append(gradients(model, weighed(model, PAIRS), DECODER))
    for name, gradient in found[0].items():
        close(gradient, found[1][name], 1e-11, name)


# -------------------------------------------------------------------------------- laws of attention


def test_padding_and_batch_change_nothing(model: AnySeq2Seq) -> None:
    both = read(model, PAIRS, junk=(5, 6, 3, 4))
    for b, pair in enumerate(PAIRS):
        alone = read(model, [pair])
        rows, columns = len(pair[1]) + 1, len(pair[0]) + 1
        for found, wanted in zip(both[:2], alone[:2], strict=True):
            close(found[b, :rows, :columns], wanted[0])


def test_padding_and_batch_change_no_gradient(model: AnySeq2Seq) -> None:
    found = gradients(model, weighed(model, PAIRS, junk=(5, 6, 3, 4)), DECODER)
    alone = [gradients(model, weighed(model, [pair]), DECODER) for pair in PAIRS]
    for name, gradient in found.items():
        close(gradient, torch.stack([each[name] for each in alone]).sum(0), 1e-11, name)
        assert gradient.any(), name


def test_both_are_distributions_over_real_words(model: AnySeq2Seq) -> None:
    forward, backward, source_mask, target_mask = read(model, PAIRS, junk=(5, 6))
    rows = forward.exp().sum(2)[target_mask]
    columns = backward.exp().sum(1)[source_mask]
    for sums in (rows, columns):
        close(sums, torch.ones_like(sums))
    assert not forward.exp()[~source_mask.unsqueeze(1).expand_as(forward)].any()
    assert not backward.exp()[~target_mask.unsqueeze(2).expand_as(backward)].any()
    assert forward.exp()[1].std() > 0.01  # not uniform
    assert (forward.exp() - backward.exp())[1, :4, :6].abs().max() > 0.01


def test_it_has_read_the_whole_target(model: AnySeq2Seq) -> None:
    """Unlike the decoder's attention: another y_n moves the row of y_1."""
    source, target = PAIRS[1]
    before, after = (read(model, [(source, (*target[:-1], y))])[0].exp() for y in (5, 6))
    assert (before[0, 0] - after[0, 0]).abs().max() > 1e-6


@pytest.mark.parametrize("rate", ["embedding", "recurrent", "source_word", "target_word"])
def test_dropout_acts_in_training_only(rate: str) -> None:
    """On the head's own reading: the annotations are those of evaluation."""
    model = build(("rnnsearch", {**HEADED, f"dropout_{rate}": 0.5}))
    (source, source_mask), (target, target_mask) = (padded(ids) for ids in ended(PAIRS))
    memory = model.encode(source, source_mask)
    torch.manual_seed(1)

    def value() -> float:
        forward, _ = model.align(source, target, target_mask, memory)
        return forward[target_mask].exp().std().item()

    assert len({value() for _ in range(3)}) == 1
    model.train()
    assert len({value() for _ in range(3)}) == 3


# ------------------------------------------------------------------------------- the two directions


def trained(model: AnyModel) -> Trained:
    texts = (Text(TextConfig(name, tokenizer="none", subwords="none")) for name in ("aa", "zz"))
    source, target = texts
    return Trained(Path("models/fixed"), model, source, target)


def test_turned_is_the_other_direction(model: AnySeq2Seq) -> None:
    """It is asked with target and source exchanged, and answers with columns of the target."""
    other = turned(trained(model))
    assert other is not None
    assert (other.source.config.language, other.target.config.language) == ("zz", "aa")
    _, backward, _, target_mask = read(model, PAIRS)
    (source, _), (target, _) = (padded(ids) for ids in ended(PAIRS))
    assert isinstance(other.model, Aligner)
    attention = other.model.attention(target, target_mask, source)
    for b, pair in enumerate(PAIRS):
        rows, columns = len(pair[1]) + 1, len(pair[0]) + 1
        close(attention[b, :columns, :rows], backward[b, :rows, :columns].exp().T)


def test_models_without_head_have_no_other_direction() -> None:
    headless = trained(build(("rnnsearch", {**HEADED, "alignment_head": False})))
    assert turned(headless) is None
    assert available_rows(headless) == ("predicting", "next", "consumed")
    assert rows_of(headless, None) == "predicting"
    with pytest.raises(UserError, match="models/fixed: it has no alignment head to read"):
        rows_of(headless, "head")
    assert rows_of(trained(build(("rnnsearch", HEADED))), None) == "head"


def test_models_that_only_align_have_no_choice_of_rows() -> None:
    aligner = trained(blank_model(IBM1Config(), 9, 9))
    assert available_rows(aligner) == ("predicting",)
    assert rows_of(aligner, None) == rows_of(aligner, "predicting") == "predicting"
    for rows in ("next", "consumed", "head"):
        with pytest.raises(UserError, match=f"models/fixed: .* leave out --rows {rows}"):
            rows_of(aligner, rows)


def test_rows_that_several_models_have() -> None:
    headed = trained(build(("rnnsearch", HEADED)))
    headless = trained(build(("rnnsearch", {**HEADED, "alignment_head": False})))
    aligner = trained(blank_model(IBM1Config(), 9, 9))
    plain = ("predicting", "next", "consumed")
    assert common_rows([aligner]) == ("predicting",)
    assert common_rows([aligner, headless]) == plain
    assert common_rows([headed, headed]) == (*plain, "head")
    assert common_rows([headed, headless]) == common_rows([headless, headed]) == (None, *plain)
