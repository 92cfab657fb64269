"""The cells that recurrences run on: their parameters, and one step as the equations read.

The gated unit of Cho et al. (2014), as Bahdanau et al. (2015, appendix A.1.1) use it:

    z = σ(W_z x + U_z h)    r = σ(W_r x + U_r h)
    h~ = tanh(W x + U (r∘h))               reset = before
    h~ = tanh(W x + r∘(U h + b_candidate)) reset = after, the variant of cuDNN and torch
    h' = (1 - z)∘h + z∘h~                  z takes the NEW state (torch.nn.GRU: the old one)

Long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates, Gers et al., 2000):

    i = σ(W_i x + U_i h)    f = σ(W_f x + U_f h)    o = σ(W_o x + U_o h)
    c' = f∘c + i∘tanh(W x + U h)
    h' = o∘tanh(c')

A cell's state is one tensor: h, and behind it the LSTM's c. What others see of it is h.

Letters: X input size, D size of h, N size of the state (D, or 2D with c).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nmtkit.models.products import linear, stack


class CellWeights(NamedTuple):
    """The recurrent half of a cell; row blocks in the order z, r, candidate or i, f, o, candidate.

    How many blocks there are says which cell it is.
    """

    U: Tensor  # (…, 3D, D) of a GRU, (…, 4D, D) of an LSTM
    b_candidate: Tensor | None = None  # (…, D) of a GRU with reset = after


def is_lstm(U: Tensor) -> bool:
    """Whether a recurrent matrix is an LSTM's."""
    return U.shape[-2] == 4 * U.shape[-1]


class Cell(nn.Module):
    """What both cells share."""

    b_candidate: nn.Parameter | None

    def __init__(self, input_size: int, size: int, blocks: int) -> None:
        super().__init__()
        self.size = size
        self.W = nn.Parameter(torch.empty(blocks * size, input_size))
        self.U = nn.Parameter(torch.empty(blocks * size, size))
        self.b = nn.Parameter(torch.empty(blocks * size))

    @property
    def recurrent(self) -> CellWeights:
        return CellWeights(self.U, self.b_candidate)

    def input_part(self, x: Tensor) -> Tensor:
        """x (…, X) -> W x + b, (…, 3D) or (…, 4D)."""
        return linear(x, self.W, self.b)

    def hidden(self, state: Tensor) -> Tensor:
        """State (…, N) -> h (…, D)."""
        return state[..., : self.size]

    def begin(self, hidden: Tensor) -> Tensor:
        """The state (…, N) that starts with h (…, D); an LSTM's c starts at 0."""
        return cell_state(hidden, self.U)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """One step without dropout: x (B, X), state (B, N) -> state (B, N)."""
        return cell_step(self.input_part(x), state, self.hidden(state), self.recurrent)


class GRU(Cell):
    """The gated unit."""

    def __init__(self, input_size: int, size: int, reset: str) -> None:
        super().__init__(input_size, size, 3)
        self.b_candidate = nn.Parameter(torch.empty(size)) if reset == "after" else None


class LSTM(Cell):
    """Long short-term memory."""

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__(input_size, size, 4)
        self.b_candidate = None

    def forget_bias(self) -> Tensor:
        """The forget gates' part (D,) of the bias."""
        return self.b[self.size : 2 * self.size]


def make_cell(kind: str, input_size: int, size: int, reset: str) -> Cell:
    """A cell by its name, gru or lstm; `reset` is of the GRU."""
    return LSTM(input_size, size) if kind == "lstm" else GRU(input_size, size, reset)


def stacked(cells: Sequence[Cell]) -> CellWeights:
    """The weights of cells of one kind side by side, (G, …)."""
    biases = [cell.b_candidate for cell in cells if cell.b_candidate is not None]
    return CellWeights(stack([cell.U for cell in cells]), stack(biases) if biases else None)


def cell_state(hidden: Tensor, U: Tensor) -> Tensor:
    """h (…, D) -> the state (…, N) of the cell with the recurrent matrix U; c is 0."""
    return torch.cat([hidden, torch.zeros_like(hidden)], -1) if is_lstm(U) else hidden


def cell_step(x: Tensor, state: Tensor, dropped: Tensor, weights: CellWeights) -> Tensor:
    """Input part x (B, 3D or 4D), state (B, N), h after dropout (B, D) -> next state (B, N)."""
    step = lstm_step if is_lstm(weights.U) else gru_step
    return step(x, state, dropped, weights)


def gru_step(x: Tensor, state: Tensor, dropped: Tensor, weights: CellWeights) -> Tensor:
    """Input part x (B, 3D), state (B, D), the same after dropout (B, D) -> next state (B, D)."""
    U_z, U_r, U = weights.U.chunk(3)
    x_z, x_r, x_candidate = x.chunk(3, dim=-1)
    z = torch.sigmoid(x_z + linear(dropped, U_z))
    r = torch.sigmoid(x_r + linear(dropped, U_r))
    if weights.b_candidate is None:
        candidate = torch.tanh(x_candidate + linear(r * dropped, U))
    else:
        candidate = torch.tanh(x_candidate + r * linear(dropped, U, weights.b_candidate))
    return (1 - z) * state + z * candidate


def lstm_step(x: Tensor, state: Tensor, dropped: Tensor, weights: CellWeights) -> Tensor:
    """Input part x (B, 4D), state (B, 2D), h after dropout (B, D) -> next state (B, 2D)."""
    i, f, o, candidate = (x + linear(dropped, weights.U)).chunk(4, dim=-1)
    _, old = state.chunk(2, dim=-1)
    cell = torch.sigmoid(f) * old + torch.sigmoid(i) * torch.tanh(candidate)
    return torch.cat([torch.sigmoid(o) * torch.tanh(cell), cell], -1)
