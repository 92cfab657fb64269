"""The cells by hand, and against torch's."""

from __future__ import annotations

import pytest
import torch

from nmtkit.models.cells import GRU, LSTM, Cell, make_cell
from tests.draw import Draw, close

B, D = 3, 4
#: The cells by their names in these tests: `cell` and `reset`.
KINDS = {"gru-before": ("gru", "before"), "gru-after": ("gru", "after"), "lstm": ("lstm", "")}
kinds = pytest.mark.parametrize("kind", KINDS)


def drawn(kind: str, reset: str = "before", seed: int = 1) -> Cell:
    """A cell in float64, of 3 inputs, whose every parameter matters."""
    made = make_cell(kind, 3, D, reset).double()
    draw = Draw(seed)
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
    draw = Draw(2)
    made, cell = drawn("gru", "after"), torch.nn.GRUCell(3, D).double()
    z, r, candidate = slice(0, D), slice(D, 2 * D), slice(2 * D, 3 * D)
    with torch.no_grad():
        for ours, theirs in ((made.W, cell.weight_ih), (made.U, cell.weight_hh)):
            theirs.copy_(torch.cat([ours[r], -ours[z], ours[candidate]]))
        cell.bias_ih.copy_(torch.cat([made.b[r], -made.b[z], made.b[candidate]]))
        assert made.b_candidate is not None
        cell.bias_hh.copy_(torch.cat([torch.zeros(2 * D), made.b_candidate]))
    x, state = draw(B, 3), draw(B, D)
    close(made(x, state), cell(x, state))


def test_lstm_by_hand() -> None:
    """σ(log 3) = 3/4: i = f = o = 3/4, candidate = tanh(atanh 0.6) = 0.6, old c = 0.4."""
    made = LSTM(1, 1).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        made.b.copy_(torch.tensor([3.0, 3.0, 3.0, 0.6]))
        made.b[:3].log_()
        made.b[3].atanh_()
    state = made(torch.zeros(1, 1).double(), torch.tensor([[0.2, 0.4]]).double())
    cell = 0.75 * 0.4 + 0.75 * 0.6
    expected = torch.tensor([[0.75 * torch.tensor(cell).double().tanh().item(), cell]]).double()
    torch.testing.assert_close(state, expected, rtol=0, atol=1e-7)


def test_lstm_is_torchs_with_the_rows_in_another_order() -> None:
    """torch: i, f, candidate, o."""
    draw = Draw(2)
    made, theirs = drawn("lstm"), torch.nn.LSTMCell(3, D).double()
    i, f, o, candidate = (torch.arange(n * D, (n + 1) * D) for n in range(4))
    rows = torch.cat([i, f, candidate, o])
    with torch.no_grad():
        theirs.weight_ih.copy_(made.W[rows])
        theirs.weight_hh.copy_(made.U[rows])
        theirs.bias_ih.copy_(made.b[rows])
        theirs.bias_hh.zero_()
    x, state = draw(B, 3), draw(B, 2 * D)
    hidden, cell = theirs(x, (state[:, :D], state[:, D:]))
    close(made(x, state), torch.cat([hidden, cell], 1))
    close(made.hidden(state), state[:, :D])


@pytest.mark.parametrize(("kind", "width"), [("gru", D), ("lstm", 2 * D)])
def test_a_state_begins_with_what_is_seen_of_it(kind: str, width: int) -> None:
    made, hidden = drawn(kind), Draw()(B, D)
    state = made.begin(hidden)
    assert state.shape == (B, width)
    assert torch.equal(made.hidden(state), hidden)
    assert not state[:, D:].any()
