"""The decoder's fast loop against the plain one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from nmtkit.models import energy_buffers
from nmtkit.models.attending import Inputs, attending, attending_plain
from tests.draw import Draw, close, ragged_mean
from tests.test_cells import kinds

B, D, S, A, C = 3, 4, 5, 2, 6


def decoder_inputs(
    conditional: bool, kind: str, dropout: bool, energy: str = "additive", positions: int = 5
) -> Inputs:
    """Junk where the source is padded: the bias alone must keep it out."""
    draw = Draw()
    after, rows = kind == "gru-after", 4 * D if kind == "lstm" else 3 * D
    additive = energy != "dot"
    bias = torch.zeros(B, S, dtype=torch.float64)
    for b, length in enumerate((5, 1, 3)):
        bias[b, length:] = torch.finfo(torch.float64).min
    return Inputs(
        x=draw(positions, B, rows),
        initial=draw(B, D),
        keys=draw(B, S, A if additive else D),
        annotations=draw(B, S, C),
        bias=bias,
        dropout=draw.mask(B, D) if dropout else None,
        W_c=draw(rows, C),
        U=draw(rows, D),
        b_candidate=draw(D) if after else None,
        W_a=draw(A, D) if additive else None,
        v_a=draw(A) if additive else None,
        V_c=draw(A) if energy == "coverage" else None,
        first_U=draw(rows, D) if conditional else None,
        first_b_candidate=draw(D) if conditional and after else None,
        b=draw(rows) if conditional else None,
    )


GIVEN = ("bias", "dropout")  # no gradient is asked for these
RESULTS = ("states", "contexts", "weights")
Attending = Callable[[Inputs], tuple[Tensor, Tensor, Tensor]]


def run_attending(
    function: Attending, inputs: Inputs, used: Sequence[str]
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Results, and the gradients of a number that sees the results named in `used`."""
    leaves = {
        name: value.clone().requires_grad_()
        for name, value in inputs._asdict().items()
        if value is not None and name not in GIVEN
    }
    results = function(inputs._replace(**leaves))
    draw = Draw(7)
    loss = torch.zeros((), dtype=torch.float64)
    for name, result in zip(RESULTS, results, strict=True):
        upstream = draw(*result.shape)
        if name in used:
            loss = loss + ragged_mean(result, upstream)
    found = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return results, dict(zip(leaves, found, strict=True))


conditionals = pytest.mark.parametrize(
    "conditional", [False, True], ids=["one-unit", "conditional"]
)
energies = pytest.mark.parametrize("energy", ["additive", "coverage", "dot"])


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "recomputed"])
@energies
@pytest.mark.parametrize("dropout", [False, True], ids=["all", "dropout"])
@kinds
@conditionals
def test_fast_decoder_is_the_plain_one(
    conditional: bool,
    kind: str,
    dropout: bool,
    energy: str,
    kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not kept:
        monkeypatch.setattr(energy_buffers, "KEEP_BYTES", 0)
    inputs = decoder_inputs(conditional, kind, dropout, energy)
    results, found = run_attending(attending, inputs, RESULTS)
    same_results, expected = run_attending(attending_plain, inputs, RESULTS)
    for name, one, other in zip(RESULTS, results, same_results, strict=True):
        close(one, other, name)
    for name, gradient in expected.items():
        close(found[name], gradient, name)
        assert gradient.abs().max() > 1e-4, name


@pytest.mark.parametrize("used", [("states",), ("contexts",), ("weights",)], ids=lambda u: u[0])
@energies
@conditionals
def test_fast_decoder_with_one_result_in_use(
    conditional: bool, energy: str, used: tuple[str, ...]
) -> None:
    inputs = decoder_inputs(conditional, "gru-before", True, energy)
    _, found = run_attending(attending, inputs, used)
    _, expected = run_attending(attending_plain, inputs, used)
    for name, gradient in expected.items():
        close(found[name], gradient, name)


@pytest.mark.parametrize(("energy", "positions"), [("additive", 1), ("coverage", 3), ("dot", 3)])
@conditionals
def test_fast_decoder_backward_can_run_again_and_takes_any_layout(
    conditional: bool, energy: str, positions: int
) -> None:
    inputs = decoder_inputs(conditional, "gru-after", False, energy, positions)
    inputs = inputs._replace(
        x=inputs.x.transpose(0, 1).contiguous().transpose(0, 1),
        annotations=inputs.annotations.transpose(0, 1).contiguous().transpose(0, 1),
        W_c=inputs.W_c.t().contiguous().t(),
    )
    leaves = [inputs.x, inputs.annotations, inputs.W_c, inputs.keys, inputs.U]
    if inputs.V_c is not None:
        leaves.append(inputs.V_c)
    for leaf in leaves:
        leaf.requires_grad_()
    losses = []
    for function in (attending, attending_plain):
        states, contexts, _ = function(inputs)
        losses.append(states.sum() + contexts.sum())  # expanded gradients
    expected = torch.autograd.grad(losses[1], leaves)
    for _ in range(2):
        found = torch.autograd.grad(losses[0], leaves, retain_graph=True)
        for one, other in zip(found, expected, strict=True):
            close(one, other)


@pytest.mark.parametrize("function", [attending, attending_plain])
@energies
def test_padded_source_gets_neither_weight_nor_gradient(energy: str, function: Attending) -> None:
    inputs = decoder_inputs(False, "gru-before", False, energy)
    padding = inputs.bias != 0
    (_, _, weights), found = run_attending(function, inputs, RESULTS)
    assert padding.any()
    assert not weights[:, padding].any()
    for name in ("keys", "annotations"):
        assert not found[name][padding].any()
        for b in (0, 2):  # with one real token alone its weight is 1 whatever its key
            assert found[name][b, ~padding[b]].abs().min() > 0
