"""Recurrences over whole sequences, twice: as the equations of `cells.py` read
(`recurrence_plain`) and as they run fast (`recurrence`).

Everything here is time-major, (T, …): the loops run over positions and want contiguous slices.
The input parts W x + b of all positions are computed by the caller as one product. A fast path
puts nothing inside its loop but what depends on the previous state, and multiplies all weight
gradients once, after the loop.

Letters: G groups run at once (the two directions of an encoder), T positions, B sentences,
D size of h, N size of the state. `dropout` is a mask, already scaled, that is the same for every
position: it multiplies h wherever h enters a matrix product of the recurrence; the interpolation
of a GRU uses the state itself.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.models.cell_buffers import (
    Saved,
    add_dropped,
    backward_cell,
    forward_cell,
    with_initial,
)
from nmtkit.models.cells import CellWeights, cell_state, cell_step
from nmtkit.models.graphs import Played, Tensors


def recurrence_plain(
    x: Tensor, initial: Tensor, weights: CellWeights, dropout: Tensor | None
) -> Tensor:
    """Reference for `recurrence`: the same arguments and result."""
    size = initial.shape[-1]
    groups = []
    for g in range(x.shape[0]):
        b_candidate = weights.b_candidate
        own = CellWeights(weights.U[g], None if b_candidate is None else b_candidate[g])
        state, states = cell_state(initial[g], own.U), []
        for x_t in x[g]:
            hidden = state[..., :size]
            dropped = hidden if dropout is None else hidden * dropout[g]
            state = cell_step(x_t, state, dropped, own)
            states.append(state[..., :size])
        groups.append(torch.stack(states))
    return torch.stack(groups, dim=1)


def recurrence(x: Tensor, initial: Tensor, weights: CellWeights, dropout: Tensor | None) -> Tensor:
    """G recurrences side by side: x (G, T, B, 3D or 4D), initial (G, B, D) -> h (T, G, B, D).

    `weights` are stacked over G, `dropout` is (G, B, D). An LSTM's c starts at 0. Padding must
    stand at the end; states there are computed and mean nothing.
    """
    states: Tensor = _Recurrence.apply(x, initial, *weights, dropout)
    return states


class _Recurrence(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        x: Tensor,
        initial: Tensor,
        U: Tensor,
        b_candidate: Tensor | None,
        dropout: Tensor | None,
    ) -> Tensor:
        states, *more = _forward(x, initial, U, b_candidate, dropout)
        assert states is not None
        ctx.save_for_backward(U, b_candidate, dropout, states, *more)
        return states[1:, ..., : initial.shape[-1]]

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        return *_backward(d_states, *ctx.saved_tensors), None


def _run_forward(
    x: Tensor, initial: Tensor, U: Tensor, b_candidate: Tensor | None, dropout: Tensor | None
) -> Tensors:
    """States (T+1, G, B, N), h after dropout (T, G, B, D) where there is any, `Saved`."""
    positions, size = x.shape[1], initial.shape[-1]
    states = with_initial(cell_state(initial, U), positions)
    hidden = states[..., :size]
    saved = Saved.empty(x, (positions, *initial.shape[:-1]), U)
    dropped = None if dropout is None else torch.empty_like(hidden[:-1])
    cell = forward_cell(CellWeights(U, b_candidate), saved)
    for t in range(positions):
        read = hidden[t]
        if dropout is not None and dropped is not None:
            read = torch.mul(hidden[t], dropout, out=dropped[t])
        cell.step(t, x[:, t], states[t], read, states[t + 1])
    return states, dropped, *saved


def _run_backward(
    d_states: Tensor,
    U: Tensor,
    b_candidate: Tensor | None,
    dropout: Tensor | None,
    states: Tensor,
    dropped: Tensor | None,
    *saved: Tensor,
) -> Tensors:
    """The gradients of x, initial, U and b_candidate."""
    positions, size = d_states.shape[0], U.shape[-1]
    weights = CellWeights(U, b_candidate)
    read = states[:-1, ..., :size] if dropped is None else dropped
    cell = backward_cell(weights, Saved(*saved), states[:-1], read)
    d = torch.zeros_like(states[0])
    for t in reversed(range(positions)):
        d[..., :size] += d_states[t]
        d, d_dropped = cell.step(t, d)
        add_dropped(d, d_dropped, dropout)
    return cell.d_x.transpose(0, 1), d[..., :size], *cell.weights()


_forward, _backward = Played(_run_forward), Played(_run_backward)
