"""The fast paths against the plain ones, and the plain ones against torch and by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from nmtkit.models import attending, output
from nmtkit.models.attending import Inputs
from nmtkit.models.recurrent import GRU, GRUWeights, gru, gru_plain

B, D, S, A, C, G = 3, 4, 5, 2, 6, 2
LENGTHS = torch.tensor([3, 5, 1])  # real target positions of the B sentences


class Draw:
    """Normal float64 tensors from one seed."""

    def __init__(self, seed: int = 1) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def mask(self, *shape: int) -> Tensor:
        """A dropout mask of rate 1/2, scaled, with both kinds of number in it."""
        keep = torch.rand(shape, generator=self.generator, dtype=torch.float64) < 0.5
        assert keep.any()
        assert not keep.all()
        return keep * 2.0


def close(found: Tensor, expected: Tensor, name: str = "") -> None:
    torch.testing.assert_close(
        found, expected, rtol=0, atol=1e-11, msg=lambda text: f"{name}: {text}"
    )


# One gated unit


def unit(reset: str, draw: Draw, inputs: int = 3) -> GRU:
    made = GRU(inputs, D, reset).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(draw(*parameter.shape))
    return made


@pytest.mark.parametrize("reset", ["before", "after"])
def test_update_gate_takes_the_new_state(reset: str) -> None:
    """By hand: without matrices h~ = tanh(b), or tanh(b + b_candidate / 2) as r = 1/2."""
    made = GRU(1, 1, reset).double()
    x, state = torch.zeros(1, 1).double(), torch.full((1, 1), -0.3, dtype=torch.float64)
    for gate, expected in ((50.0, 0.6), (-50.0, -0.3), (0.0, (0.6 - 0.3) / 2)):
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.zero_()
            made.b[0] = gate
            if made.b_candidate is None:
                made.b[2] = torch.atanh(torch.tensor(0.6, dtype=torch.float64))
            else:
                made.b_candidate[0] = 2 * torch.atanh(torch.tensor(0.6, dtype=torch.float64))
        assert made(x, state).item() == pytest.approx(expected, abs=1e-12)


def test_reset_before_the_product_by_hand() -> None:
    """z = 1, r = σ(log 3) = 3/4, h = 2, U = 1/2, W x = 0, b = 0.1: tanh(1/2 · 3/4 · 2 + 0.1)."""
    made = GRU(1, 1, "before").double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        made.b.copy_(torch.tensor([50.0, 3.0, 0.1]))
        made.b[1].log_()
        made.U[2] = 0.5
    x, state = torch.zeros(1, 1).double(), torch.full((1, 1), 2.0).double()
    expected = torch.tanh(torch.tensor(0.5 * 0.75 * 2 + 0.1).double()).item()
    assert made(x, state).item() == pytest.approx(expected, abs=1e-7)


def test_reset_after_the_product_is_torchs_unit_with_the_gate_turned_round() -> None:
    """torch: rows r, z, candidate, and h' = (1 - z) h~ + z h; σ(-a) = 1 - σ(a)."""
    draw = Draw()
    made, cell = unit("after", draw), torch.nn.GRUCell(3, D).double()
    z, r, candidate = slice(0, D), slice(D, 2 * D), slice(2 * D, 3 * D)
    with torch.no_grad():
        for ours, theirs in ((made.W, cell.weight_ih), (made.U, cell.weight_hh)):
            theirs.copy_(torch.cat([ours[r], -ours[z], ours[candidate]]))
        cell.bias_ih.copy_(torch.cat([made.b[r], -made.b[z], made.b[candidate]]))
        assert made.b_candidate is not None
        cell.bias_hh.copy_(torch.cat([torch.zeros(2 * D), made.b_candidate]))
    x, state = draw(B, 3), draw(B, D)
    close(made(x, state), cell(x, state))


# A recurrence


Recurrence = Callable[[Tensor, Tensor, GRUWeights, Tensor | None], Tensor]


def ragged_mean(states: Tensor, upstream: Tensor) -> Tensor:
    """A number that sees each state (T, …, B, ·) of a real position, and no other."""
    positions = torch.arange(len(states)).unsqueeze(1)
    real = (positions < LENGTHS).unsqueeze(2)
    if states.dim() == 4:
        real = real.unsqueeze(1)
    return (states * upstream * real).sum()


def run_gru(function: Recurrence, leaves: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor]]:
    """Leaves x, initial, U, b_candidate or None, dropout or None -> states, gradients."""
    own = [None if leaf is None else leaf.clone().requires_grad_() for leaf in leaves[:4]]
    x, initial, U, b_candidate = own
    assert x is not None
    assert initial is not None
    assert U is not None
    states = function(x, initial, GRUWeights(U, b_candidate), leaves[4])
    loss = ragged_mean(states, Draw(7)(*states.shape))
    return states, list(torch.autograd.grad(loss, [leaf for leaf in own if leaf is not None]))


def gru_leaves(reset: str, dropout: bool, positions: int) -> list[Tensor | None]:
    draw = Draw()
    return [
        draw(G, positions, B, 3 * D),
        draw(G, B, D),
        draw(G, 3 * D, D),
        draw(G, D) if reset == "after" else None,
        draw.mask(G, B, D) if dropout else None,
    ]


@pytest.mark.parametrize("positions", [1, 5])
@pytest.mark.parametrize("dropout", [False, True], ids=["all", "dropout"])
@pytest.mark.parametrize("reset", ["before", "after"])
def test_fast_recurrence_is_the_plain_one(reset: str, dropout: bool, positions: int) -> None:
    leaves = gru_leaves(reset, dropout, positions)
    states, found = run_gru(gru, leaves)
    same_states, expected = run_gru(gru_plain, leaves)
    close(states, same_states, "states")
    assert len(found) == (4 if reset == "after" else 3)
    for name, one, other in zip(("x", "initial", "U", "b_candidate"), found, expected):
        close(one, other, name)
        assert other.abs().max() > 1e-3, name


@pytest.mark.parametrize("reset", ["before", "after"])
def test_plain_recurrence_is_one_unit_after_the_other(reset: str) -> None:
    """Groups do not mix, positions see the state before, dropout enters products only."""
    draw = Draw()
    units = [unit(reset, draw) for _ in range(G)]
    words, initial, mask = draw(5, B, 3), draw(G, B, D), draw.mask(G, B, D)
    x = torch.stack([made.input_part(words) for made in units])
    biases: list[Tensor] = [u.b_candidate for u in units if u.b_candidate is not None]
    weights = GRUWeights(
        torch.stack([made.U for made in units]), torch.stack(biases) if biases else None
    )
    states = gru_plain(x, initial, weights, None)
    dropped = gru_plain(x, initial, weights, mask)
    for g, made in enumerate(units):
        state = initial[g]
        for t in range(5):
            state = made(words[t], state)
            close(states[t, g], state)
        # Where the mask keeps nothing at all but scales, W x + b and (1-z)∘h remain.
        nothing = gru_plain(x, initial, weights, torch.zeros_like(mask))
        part = x[g, 0]
        z = torch.sigmoid(part[:, :D])
        inner = part[:, 2 * D :]
        if made.b_candidate is not None:
            inner = inner + torch.sigmoid(part[:, D : 2 * D]) * made.b_candidate
        close(nothing[0, g], (1 - z) * initial[g] + z * torch.tanh(inner))
    assert (dropped - states).abs().max() > 1e-3


def test_fast_recurrence_backward_can_run_again_and_takes_any_layout() -> None:
    x, initial, U, _, _ = gru_leaves("before", False, 5)
    assert x is not None
    assert initial is not None
    assert U is not None
    x.requires_grad_()
    leaf = x.transpose(0, 1).contiguous().transpose(0, 1)  # not contiguous
    states = gru(leaf, initial, GRUWeights(U, None), None)
    [first] = torch.autograd.grad(states.sum(), x, retain_graph=True)  # an expanded gradient
    [again] = torch.autograd.grad(states.sum(), x)
    [expected] = torch.autograd.grad(gru_plain(x, initial, GRUWeights(U, None), None).sum(), x)
    close(first, expected)
    close(again, expected)


# The decoder's recurrence


def decoder_inputs(
    conditional: bool, reset: str, dropout: bool, coverage: bool = False, positions: int = 5
) -> Inputs:
    """Junk where the source is padded: the bias alone must keep it out."""
    draw = Draw()
    after = reset == "after"
    bias = torch.zeros(B, S, dtype=torch.float64)
    for b, length in enumerate((5, 1, 3)):
        bias[b, length:] = torch.finfo(torch.float64).min
    return Inputs(
        x=draw(positions, B, 3 * D),
        initial=draw(B, D),
        keys=draw(B, S, A),
        annotations=draw(B, S, C),
        bias=bias,
        dropout=draw.mask(B, D) if dropout else None,
        W_a=draw(A, D),
        v_a=draw(A),
        W_c=draw(3 * D, C),
        U=draw(3 * D, D),
        b_candidate=draw(D) if after else None,
        first_U=draw(3 * D, D) if conditional else None,
        first_b_candidate=draw(D) if conditional and after else None,
        b=draw(3 * D) if conditional else None,
        V_c=draw(A) if coverage else None,
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
coverages = pytest.mark.parametrize("coverage", [False, True], ids=["uncovered", "coverage"])


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "recomputed"])
@coverages
@pytest.mark.parametrize("dropout", [False, True], ids=["all", "dropout"])
@pytest.mark.parametrize("reset", ["before", "after"])
@conditionals
def test_fast_decoder_is_the_plain_one(
    conditional: bool,
    reset: str,
    dropout: bool,
    coverage: bool,
    kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not kept:
        monkeypatch.setattr(attending, "KEEP_BYTES", 0)
    inputs = decoder_inputs(conditional, reset, dropout, coverage)
    results, found = run_attending(attending.attending, inputs, RESULTS)
    same_results, expected = run_attending(attending.attending_plain, inputs, RESULTS)
    for name, one, other in zip(RESULTS, results, same_results, strict=True):
        close(one, other, name)
    for name, gradient in expected.items():
        close(found[name], gradient, name)
        assert gradient.abs().max() > 1e-4, name


@pytest.mark.parametrize("used", [("states",), ("contexts",), ("weights",)], ids=lambda u: u[0])
@coverages
@conditionals
def test_fast_decoder_with_one_result_in_use(
    conditional: bool, coverage: bool, used: tuple[str, ...]
) -> None:
    inputs = decoder_inputs(conditional, "before", True, coverage)
    _, found = run_attending(attending.attending, inputs, used)
    _, expected = run_attending(attending.attending_plain, inputs, used)
    for name, gradient in expected.items():
        close(found[name], gradient, name)


@pytest.mark.parametrize(("coverage", "positions"), [(False, 1), (True, 3)])
@conditionals
def test_fast_decoder_backward_can_run_again_and_takes_any_layout(
    conditional: bool, coverage: bool, positions: int
) -> None:
    inputs = decoder_inputs(conditional, "after", False, coverage, positions)
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
    for function in (attending.attending, attending.attending_plain):
        states, contexts, _ = function(inputs)
        losses.append(states.sum() + contexts.sum())  # expanded gradients
    expected = torch.autograd.grad(losses[1], leaves)
    for _ in range(2):
        found = torch.autograd.grad(losses[0], leaves, retain_graph=True)
        for one, other in zip(found, expected, strict=True):
            close(one, other)


@pytest.mark.parametrize("function", [attending.attending, attending.attending_plain])
@coverages
def test_padded_source_gets_neither_weight_nor_gradient(
    coverage: bool, function: Attending
) -> None:
    inputs = decoder_inputs(False, "before", False, coverage)
    padding = inputs.bias != 0
    (_, _, weights), found = run_attending(function, inputs, RESULTS)
    assert padding.any()
    assert not weights[:, padding].any()
    for name in ("keys", "annotations"):
        assert not found[name][padding].any()
        for b in (0, 2):  # with one real token alone its weight is 1 whatever its key
            assert found[name][b, ~padding[b]].abs().min() > 0


# The softmax layer


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 4, 11, 256])
def test_loss_in_chunks_is_the_loss(
    chunk: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "CHUNK", chunk)
    draw = Draw()
    leaves = [draw(*shape).requires_grad_() for shape in ((11, 3), (7, 3), (7,))]
    targets = torch.randint(7, (11,), generator=draw.generator)

    def both(function: Any) -> list[Tensor]:
        return list(function(*leaves, targets, smoothing))

    expected, found = both(output.linear_cross_entropy_plain), both(output.linear_cross_entropy)
    with torch.no_grad():
        without = both(output.linear_cross_entropy)
    for losses in (expected, found):
        assert not losses[1].requires_grad
        losses += torch.autograd.grad(2 * losses[0], leaves)
    for one, other in zip(found + without, expected + expected[:2], strict=True):
        close(one, other)
