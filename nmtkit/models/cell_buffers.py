"""A cell's steps into buffers, forwards and backwards: the inside of the fast recurrences.

The equations are those of `cells.py`; everything is time-major, (T, …, D), with D innermost and
products batched over G where there are groups. `dropped` is h after dropout, which is what enters
matrix products; the state itself is interpolated. Nothing happens at a position but what depends
on the one before, and weight gradients are one product each, after the loop.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from nmtkit.models.cells import CellWeights, is_lstm
from nmtkit.models.products import Packed, product, stack, sum_of_outer
from nmtkit.models.tanh import tanh


class Saved(NamedTuple):
    """What a cell keeps of every position for its backward pass."""

    gates: Tensor  # (T, …, 2D): z, r; of an LSTM (T, …, 3D): i, f, o
    candidate: Tensor  # (T, …, D)
    inner: Tensor  # (T, …, D): r∘h (reset = before), U h + b_candidate (after), tanh(c) (LSTM)

    @staticmethod
    def empty(like: Tensor, lead: tuple[int, ...], U: Tensor) -> Saved:
        size = U.shape[-1]

        def buffer(width: int) -> Tensor:
            return like.new_empty((*lead, width))

        return Saved(buffer(U.shape[-2] - size), buffer(size), buffer(size))


class ForwardCell:
    """A cell's forward steps."""

    def __init__(self, weights: CellWeights, saved: Saved) -> None:
        U, self.b_candidate = weights
        self.saved, self.size = saved, U.shape[-1]
        self.rows = U.shape[-2] - self.size  # of the gates; the candidate's come last
        self.of_gates = Packed(U[..., : self.rows, :])
        self.of_candidate = Packed(U[..., self.rows :, :])
        if self.b_candidate is not None and U.dim() == 3:
            self.b_candidate = self.b_candidate.unsqueeze(1)

    def step(self, t: int, x: Tensor, state: Tensor, dropped: Tensor, out: Tensor) -> None:
        """Input part x (…, 3D or 4D), state (…, N), dropped h (…, D) -> `out` (…, N)."""
        raise NotImplementedError


class ForwardGRU(ForwardCell):
    """Both kinds of reset."""

    def step(self, t: int, x: Tensor, state: Tensor, dropped: Tensor, out: Tensor) -> None:
        rows = self.rows
        gates, candidate, inner = (buffer[t] for buffer in self.saved)
        torch.sigmoid(self.of_gates(dropped, x[..., :rows]), out=gates)
        z, r = gates[..., : self.size], gates[..., self.size :]
        if self.b_candidate is None:
            torch.mul(r, dropped, out=inner)
            tanh(self.of_candidate(inner, x[..., rows:]), out=candidate)
        else:
            torch.add(self.of_candidate(dropped), self.b_candidate, out=inner)
            tanh(torch.addcmul(x[..., rows:], r, inner, out=candidate), out=candidate)
        torch.lerp(state, candidate, z, out=out)


class ForwardLSTM(ForwardCell):
    """c stands behind h in every state."""

    def step(self, t: int, x: Tensor, state: Tensor, dropped: Tensor, out: Tensor) -> None:
        gates, candidate, inner = (buffer[t] for buffer in self.saved)
        torch.sigmoid(self.of_gates(dropped, x[..., : self.rows]), out=gates)
        tanh(self.of_candidate(dropped, x[..., self.rows :]), out=candidate)
        i, f, o = gates.chunk(3, dim=-1)
        hidden, cell = out.chunk(2, dim=-1)
        torch.mul(f, state[..., self.size :], out=cell)
        cell.addcmul_(i, candidate)
        tanh(cell, out=inner)
        torch.mul(o, inner, out=hidden)


class BackwardCell:
    """A cell's backward steps, and its weight gradients after the loop.

    All that depends on saved values alone is multiplied out before the loop. `states` (T, …, N)
    and `dropped` (T, …, D) are what every step started from.
    """

    def __init__(self, weights: CellWeights, saved: Saved, states: Tensor, dropped: Tensor) -> None:
        self.size, self.dropped = weights.U.shape[-1], dropped
        self.d_x = states.new_empty((*states.shape[:-1], weights.U.shape[-2]))

    def step(self, t: int, d: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient d (…, N) of the new state -> of the old (…, N), of the dropped h (…, D)."""
        raise NotImplementedError

    def weights(self) -> tuple[Tensor, Tensor | None]:
        """The gradients of U and b_candidate, each one large product."""
        raise NotImplementedError


class BackwardGRU(BackwardCell):
    """Both kinds of reset."""

    def __init__(self, weights: CellWeights, saved: Saved, states: Tensor, dropped: Tensor) -> None:
        super().__init__(weights, saved, states, dropped)
        after = weights.b_candidate is not None
        rows = 2 * self.size
        self.U_gates = weights.U[..., :rows, :].contiguous()
        self.U_candidate = weights.U[..., rows:, :].contiguous()
        z, r = saved.gates.chunk(2, dim=-1)
        self.r, self.inner = r, saved.inner
        self.keep = 1 - z
        self.f_z = (saved.candidate - states) * z * self.keep
        self.f_candidate = z * (1 - saved.candidate * saved.candidate)
        self.f_r = (saved.inner if after else dropped) * r * (1 - r)
        self.d_inner = torch.empty_like(saved.inner) if after else None

    def step(self, t: int, d: Tensor) -> tuple[Tensor, Tensor]:
        size, rows = self.size, 2 * self.size
        d_x = self.d_x[t]
        d_candidate = d_x[..., rows:]
        torch.mul(d, self.f_z[t], out=d_x[..., :size])
        torch.mul(d, self.f_candidate[t], out=d_candidate)
        if self.d_inner is None:
            d_inner = product(d_candidate, self.U_candidate)
            torch.mul(d_inner, self.f_r[t], out=d_x[..., size:rows])
            # d (r∘h) reaches h through r; f_r has already taken the way through the gate.
            d_dropped = d_inner.mul_(self.r[t])
        else:
            torch.mul(d_candidate, self.f_r[t], out=d_x[..., size:rows])
            d_inner = torch.mul(d_candidate, self.r[t], out=self.d_inner[t])
            d_dropped = product(d_inner, self.U_candidate)
        return d * self.keep[t], product(d_x[..., :rows], self.U_gates, d_dropped)

    def weights(self) -> tuple[Tensor, Tensor | None]:
        rows = 2 * self.size
        d_gates = outer(self.d_x[..., :rows], self.dropped)
        if self.d_inner is None:
            d_candidate = outer(self.d_x[..., rows:], self.inner)
            return torch.cat([d_gates, d_candidate], dim=-2), None
        d_candidate = outer(self.d_inner, self.dropped)
        d_b = self.d_inner.sum((0, -2))
        return torch.cat([d_gates, d_candidate], dim=-2), d_b


class BackwardLSTM(BackwardCell):
    """c stands behind h in every state."""

    def __init__(self, weights: CellWeights, saved: Saved, states: Tensor, dropped: Tensor) -> None:
        super().__init__(weights, saved, states, dropped)
        self.U = weights.U.contiguous()
        i, f, o = saved.gates.chunk(3, dim=-1)
        candidate, cell = saved.candidate, saved.inner  # the cell's after tanh
        self.f = f
        self.f_cell = o * (1 - cell * cell)
        self.f_o = cell * o * (1 - o)
        old = states[..., self.size :]
        #: What the gradient of c' is multiplied by on its way to i, f and the candidate.
        self.f_i, self.f_f = candidate * i * (1 - i), old * f * (1 - f)
        self.f_candidate = i * (1 - candidate * candidate)

    def step(self, t: int, d: Tensor) -> tuple[Tensor, Tensor]:
        d_hidden, d_new = d.chunk(2, dim=-1)
        d_cell = torch.addcmul(d_new, d_hidden, self.f_cell[t])
        i, f, o, candidate = self.d_x[t].chunk(4, dim=-1)
        torch.mul(d_cell, self.f_i[t], out=i)
        torch.mul(d_cell, self.f_f[t], out=f)
        torch.mul(d_hidden, self.f_o[t], out=o)
        torch.mul(d_cell, self.f_candidate[t], out=candidate)
        d_dropped = product(self.d_x[t], self.U)
        # h enters products only, and so the old state's gradient there comes with d_dropped.
        return torch.cat([torch.zeros_like(d_hidden), d_cell.mul_(self.f[t])], -1), d_dropped

    def weights(self) -> tuple[Tensor, Tensor | None]:
        return outer(self.d_x, self.dropped), None


def forward_cell(weights: CellWeights, saved: Saved) -> ForwardCell:
    """The steps of the cell whose weights these are."""
    return (ForwardLSTM if is_lstm(weights.U) else ForwardGRU)(weights, saved)


def backward_cell(
    weights: CellWeights, saved: Saved, states: Tensor, dropped: Tensor
) -> BackwardCell:
    """The backward steps of the cell whose weights these are; see `BackwardCell`."""
    kind = BackwardLSTM if is_lstm(weights.U) else BackwardGRU
    return kind(weights, saved, states, dropped)


def add_dropped(d: Tensor, d_dropped: Tensor, dropout: Tensor | None) -> None:
    """Put the gradient of the dropped h (…, D) to that of the state (…, N), in place."""
    d_hidden = d[..., : d_dropped.shape[-1]]
    if dropout is None:
        d_hidden.add_(d_dropped)
    else:
        d_hidden.addcmul_(d_dropped, dropout)


def outer(left: Tensor, right: Tensor) -> Tensor:
    """Σ over positions and sentences: (T, B, M), (T, B, N) -> (M, N); with G: -> (G, M, N)."""
    if left.dim() == 3:
        return sum_of_outer(left.flatten(0, 1), right.flatten(0, 1))
    groups = zip(left.unbind(1), right.unbind(1), strict=True)
    return stack([outer(*each) for each in groups])


def with_initial(initial: Tensor, positions: int) -> Tensor:
    """Room for the states of all positions after the initial one: (T+1, …, N)."""
    states = initial.new_empty((positions + 1, *initial.shape))
    states[0] = initial
    return states
