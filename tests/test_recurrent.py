"""The fast recurrence against the plain one, and that against single steps and torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from nmtkit.models.cells import CellWeights, stacked
from nmtkit.models.recurrent import recurrence, recurrence_plain
from tests.draw import Draw, close, ragged_mean
from tests.test_cells import KINDS, drawn, kinds

B, D, G = 3, 4, 2


Recurrence = Callable[[Tensor, Tensor, CellWeights, Tensor | None], Tensor]


def run(function: Recurrence, leaves: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor]]:
    """Leaves x, initial, U, b_candidate or None, dropout or None -> states, gradients."""
    own = [None if leaf is None else leaf.clone().requires_grad_() for leaf in leaves[:4]]
    x, initial, U, b_candidate = own
    assert x is not None
    assert initial is not None
    assert U is not None
    states = function(x, initial, CellWeights(U, b_candidate), leaves[4])
    loss = ragged_mean(states, Draw(7)(*states.shape))
    return states, list(torch.autograd.grad(loss, [leaf for leaf in own if leaf is not None]))


def leaves_of(kind: str, dropout: bool, positions: int) -> list[Tensor | None]:
    draw = Draw()
    rows = 4 * D if kind == "lstm" else 3 * D
    return [
        draw(G, positions, B, rows),
        draw(G, B, D),
        draw(G, rows, D),
        draw(G, D) if kind == "gru-after" else None,
        draw.mask(G, B, D) if dropout else None,
    ]


@pytest.mark.parametrize("positions", [1, 5])
@pytest.mark.parametrize("dropout", [False, True], ids=["all", "dropout"])
@kinds
def test_fast_recurrence_is_the_plain_one(kind: str, dropout: bool, positions: int) -> None:
    leaves = leaves_of(kind, dropout, positions)
    states, found = run(recurrence, leaves)
    same_states, expected = run(recurrence_plain, leaves)
    close(states, same_states, "states")
    assert len(found) == (4 if kind == "gru-after" else 3)
    for name, one, other in zip(("x", "initial", "U", "b_candidate"), found, expected):
        close(one, other, name)
        assert other.abs().max() > 1e-3, name


@kinds
def test_plain_recurrence_is_one_cell_after_the_other(kind: str) -> None:
    """Groups do not mix, positions see the state before, dropout enters products only."""
    draw = Draw()
    cells = [drawn(*KINDS[kind], seed=seed) for seed in range(G)]
    words, initial, mask = draw(5, B, 3), draw(G, B, D), draw.mask(G, B, D)
    x = torch.stack([made.input_part(words) for made in cells])
    weights = stacked(cells)
    states = recurrence_plain(x, initial, weights, None)
    dropped = recurrence_plain(x, initial, weights, mask)
    nothing = recurrence_plain(x, initial, weights, torch.zeros_like(mask))
    for g, made in enumerate(cells):
        state = made.begin(initial[g])
        for t in range(5):
            state = made(words[t], state)
            close(states[t, g], made.hidden(state))
        # Where the mask keeps nothing at all but scales, W x + b and the old state remain.
        with torch.no_grad():
            made.U.zero_()
        close(nothing[0, g], made.hidden(made(words[0], made.begin(initial[g]))))
    assert (dropped - states).abs().max() > 1e-3


def test_lstm_is_torchs_over_a_whole_sequence() -> None:
    """With gradients; torch's rows are i, f, candidate, o."""
    draw = Draw()
    made, theirs = drawn("lstm"), torch.nn.LSTM(3, D).double()
    i, f, o, candidate = (torch.arange(n * D, (n + 1) * D) for n in range(4))
    rows = torch.cat([i, f, candidate, o])
    torchs = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, value in (("weight_ih", made.W), ("weight_hh", made.U), ("bias_ih", made.b)):
            torchs[f"{name}_l0"].copy_(value[rows])
        torchs["bias_hh_l0"].zero_()
    words, initial = draw(5, B, 3), draw(1, B, D)
    outputs, _ = theirs(words, (initial, torch.zeros_like(initial)))
    states = recurrence(made.input_part(words).unsqueeze(0), initial, stacked([made]), None)
    close(states.squeeze(1), outputs)
    upstream = draw(5, B, D)
    (states.squeeze(1) * upstream).sum().backward()
    (outputs * upstream).sum().backward()
    for ours, name in ((made.W, "weight_ih"), (made.U, "weight_hh"), (made.b, "bias_ih")):
        assert ours.grad is not None
        expected = torchs[f"{name}_l0"].grad
        assert expected is not None
        close(ours.grad[rows], expected, name)


@kinds
def test_fast_recurrence_backward_can_run_again_and_takes_any_layout(kind: str) -> None:
    x, initial, U, b_candidate, _ = leaves_of(kind, False, 5)
    assert x is not None
    assert initial is not None
    assert U is not None
    weights = CellWeights(U, b_candidate)
    x.requires_grad_()
    leaf = x.transpose(0, 1).contiguous().transpose(0, 1)  # not contiguous
    states = recurrence(leaf, initial, weights, None)
    [first] = torch.autograd.grad(states.sum(), x, retain_graph=True)  # an expanded gradient
    [again] = torch.autograd.grad(states.sum(), x)
    [expected] = torch.autograd.grad(recurrence_plain(x, initial, weights, None).sum(), x)
    close(first, expected)
    close(again, expected)
