"""Gated recurrences, twice: as the equations read (`*_plain`) and as they run fast.

The gated unit of Cho et al. (2014), as Bahdanau et al. (2015, appendix A.1.1) use it:

    z = σ(W_z x + U_z h)    r = σ(W_r x + U_r h)
    h~ = tanh(W x + U (r∘h))               reset = before
    h~ = tanh(W x + r∘(U h + b_candidate)) reset = after, the variant of cuDNN and torch
    h' = (1 - z)∘h + z∘h~                  z takes the NEW state (torch.nn.GRU: the old one)

Everything here is time-major, (T, …): the loops run over positions and want contiguous slices.
The input parts W x + b of all positions are computed by the caller as one product. A fast path
puts nothing inside its loop but what depends on the previous state, and multiplies all weight
gradients once, after the loop.

Letters: G groups run at once (the two directions of an encoder), T positions, B sentences,
D state size. `dropout` is a mask, already
scaled, that is the same for every position: it multiplies the state wherever the state enters a
matrix product of the recurrence; the interpolation uses the state itself.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class GRUWeights(NamedTuple):
    """The recurrent half of a gated unit; row blocks in the order z, r, candidate."""

    U: Tensor  # (…, 3D, D)
    b_candidate: Tensor | None  # (…, D) when reset = after, None when reset = before


class GRU(nn.Module):
    """The parameters of one gated unit and its single step."""

    def __init__(self, input_size: int, size: int, reset: str) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.empty(3 * size, input_size))
        self.U = nn.Parameter(torch.empty(3 * size, size))
        self.b = nn.Parameter(torch.empty(3 * size))
        self.b_candidate = nn.Parameter(torch.empty(size)) if reset == "after" else None

    @property
    def recurrent(self) -> GRUWeights:
        return GRUWeights(self.U, self.b_candidate)

    def input_part(self, x: Tensor) -> Tensor:
        """x (…, X) -> W x + b (…, 3D)."""
        return F.linear(x, self.W, self.b)

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        """One step without dropout: x (B, X), state (B, D) -> state (B, D)."""
        return gru_step(self.input_part(x), state, state, self.recurrent)


def gru_step(x: Tensor, state: Tensor, dropped: Tensor, weights: GRUWeights) -> Tensor:
    """Input part x (B, 3D), state (B, D), the same after dropout (B, D) -> next state (B, D)."""
    U_z, U_r, U = weights.U.chunk(3)
    x_z, x_r, x_candidate = x.chunk(3, dim=-1)
    z = torch.sigmoid(x_z + F.linear(dropped, U_z))
    r = torch.sigmoid(x_r + F.linear(dropped, U_r))
    if weights.b_candidate is None:
        candidate = torch.tanh(x_candidate + F.linear(r * dropped, U))
    else:
        candidate = torch.tanh(x_candidate + r * F.linear(dropped, U, weights.b_candidate))
    return (1 - z) * state + z * candidate


def gru_plain(x: Tensor, initial: Tensor, weights: GRUWeights, dropout: Tensor | None) -> Tensor:
    """Reference for `gru`: the same arguments and result."""
    groups = []
    for g in range(x.shape[0]):
        b_candidate = weights.b_candidate
        own = GRUWeights(weights.U[g], None if b_candidate is None else b_candidate[g])
        state, states = initial[g], []
        for x_t in x[g]:
            dropped = state if dropout is None else state * dropout[g]
            state = gru_step(x_t, state, dropped, own)
            states.append(state)
        groups.append(torch.stack(states))
    return torch.stack(groups, dim=1)


def gru(x: Tensor, initial: Tensor, weights: GRUWeights, dropout: Tensor | None) -> Tensor:
    """G recurrences side by side: x (G, T, B, 3D), initial (G, B, D) -> states (T, G, B, D).

    `weights` are stacked over G, `dropout` is (G, B, D). Padding must stand at the end; states
    there are computed and mean nothing.
    """
    states: Tensor = _GRU.apply(x, initial, weights.U, weights.b_candidate, dropout)
    return states


class Saved(NamedTuple):
    """What one gated unit keeps of every position for its backward pass."""

    gates: Tensor  # (T, …, 2D): z, r
    candidate: Tensor  # (T, …, D)
    inner: Tensor  # (T, …, D): r∘h (reset = before), or U h + b_candidate (after)

    @staticmethod
    def empty(like: Tensor, lead: tuple[int, ...], size: int) -> Saved:
        def buffer(width: int) -> Tensor:
            return like.new_empty((*lead, width))

        return Saved(buffer(2 * size), buffer(size), buffer(size))


class ForwardUnit:
    """A gated unit's forward steps into buffers; D innermost, products batched over G if there."""

    def __init__(self, U: Tensor, b_candidate: Tensor | None, saved: Saved) -> None:
        self.saved, self.b_candidate, self.size = saved, b_candidate, U.shape[-1]
        gate_rows = 2 * self.size
        self.gates_T = U[..., :gate_rows, :].mT.contiguous()
        self.candidate_T = U[..., gate_rows:, :].mT.contiguous()
        if b_candidate is not None and U.dim() == 3:
            self.b_candidate = b_candidate.unsqueeze(1)

    def step(self, t: int, x: Tensor, state: Tensor, dropped: Tensor, out: Tensor) -> None:
        """Input part x (…, 3D), state and dropped state (…, D) -> `out` (…, D)."""
        rows = 2 * self.size
        gates, candidate, inner = (buffer[t] for buffer in self.saved)
        torch.matmul(dropped, self.gates_T, out=gates)
        gates.add_(x[..., :rows]).sigmoid_()
        z, r = gates[..., : self.size], gates[..., self.size :]
        if self.b_candidate is None:
            torch.mul(r, dropped, out=inner)
            torch.matmul(inner, self.candidate_T, out=candidate)
            candidate.add_(x[..., rows:])
        else:
            torch.matmul(dropped, self.candidate_T, out=inner)
            inner.add_(self.b_candidate)
            torch.addcmul(x[..., rows:], r, inner, out=candidate)
        candidate.tanh_()
        torch.lerp(state, candidate, z, out=out)


class BackwardUnit:
    """The backward steps of a gated unit, and its weight gradients after the loop.

    All that depends on saved values alone is multiplied out before the loop.
    """

    def __init__(
        self, U: Tensor, after: bool, saved: Saved, states: Tensor, dropped: Tensor
    ) -> None:
        self.size, self.after = U.shape[-1], after
        rows = 2 * self.size
        self.U_gates = U[..., :rows, :].contiguous()
        self.U_candidate = U[..., rows:, :].contiguous()
        z, r = saved.gates.chunk(2, dim=-1)
        self.r, self.inner, self.dropped = r, saved.inner, dropped
        self.keep = 1 - z
        self.f_z = (saved.candidate - states) * z * self.keep
        self.f_candidate = z * (1 - saved.candidate * saved.candidate)
        self.f_r = (saved.inner if after else dropped) * r * (1 - r)
        lead = states.shape[:-1]
        self.d_x = states.new_empty((*lead, 3 * self.size))
        self.d_inner = states.new_empty((*lead, self.size)) if after else None
        self.buffer = torch.empty_like(states[0])

    def step(self, t: int, d: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient d (…, D) of the new state -> of the old, of the dropped state."""
        size, rows = self.size, 2 * self.size
        d_x = self.d_x[t]
        d_candidate = d_x[..., rows:]
        torch.mul(d, self.f_z[t], out=d_x[..., :size])
        torch.mul(d, self.f_candidate[t], out=d_candidate)
        if self.d_inner is None:
            torch.matmul(d_candidate, self.U_candidate, out=self.buffer)
            torch.mul(self.buffer, self.f_r[t], out=d_x[..., size:rows])
            # d (r∘h) reaches h through r; f_r has already taken the way through the gate.
            d_dropped = torch.mul(self.buffer, self.r[t], out=self.buffer)
        else:
            torch.mul(d_candidate, self.f_r[t], out=d_x[..., size:rows])
            d_inner = torch.mul(d_candidate, self.r[t], out=self.d_inner[t])
            d_dropped = torch.matmul(d_inner, self.U_candidate, out=self.buffer)
        add_product(d_dropped, d_x[..., :rows], self.U_gates)
        return d * self.keep[t], d_dropped

    def weights(self) -> tuple[Tensor, Tensor | None]:
        """The gradients of U and b_candidate, each one large product."""
        rows = 2 * self.size
        d_gates = outer(self.d_x[..., :rows], self.dropped)
        if self.d_inner is None:
            d_candidate = outer(self.d_x[..., rows:], self.inner)
            return torch.cat([d_gates, d_candidate], dim=-2), None
        d_candidate = outer(self.d_inner, self.dropped)
        d_b = self.d_inner.sum((0, -2))
        return torch.cat([d_gates, d_candidate], dim=-2), d_b


def add_product(target: Tensor, left: Tensor, right: Tensor) -> None:
    """target += left @ right, in place; all (B, ·), or (G, B, ·) for a product a group."""
    if target.dim() == 2:
        target.addmm_(left, right)
    else:
        target.baddbmm_(left, right)


def outer(left: Tensor, right: Tensor) -> Tensor:
    """Σ over positions and sentences: (T, B, M), (T, B, N) -> (M, N); with G: -> (G, M, N)."""
    if left.dim() == 3:
        return left.flatten(0, 1).t() @ right.flatten(0, 1)
    grouped = [side.transpose(0, 1).flatten(1, 2) for side in (left, right)]
    return grouped[0].mT @ grouped[1]


def with_initial(initial: Tensor, positions: int) -> Tensor:
    """Room for the states of all positions after the initial one: (T+1, …, D)."""
    states = initial.new_empty((positions + 1, *initial.shape))
    states[0] = initial
    return states


class _GRU(torch.autograd.Function):
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
        positions, size = x.shape[1], initial.shape[-1]
        states = with_initial(initial, positions)
        saved = Saved.empty(x, (positions, *initial.shape[:-1]), size)
        dropped = states if dropout is None else torch.empty_like(states[:-1])
        unit = ForwardUnit(U, b_candidate, saved)
        for t in range(positions):
            if dropout is not None:
                torch.mul(states[t], dropout, out=dropped[t])
            unit.step(t, x[:, t], states[t], dropped[t], states[t + 1])
        ctx.save_for_backward(states, dropped, U, b_candidate, dropout, *saved)
        return states[1:]

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, d_states: Tensor) -> tuple[Tensor | None, ...]:
        states, dropped, U, b_candidate, dropout, *saved = ctx.saved_tensors
        positions = d_states.shape[0]
        after = b_candidate is not None
        unit = BackwardUnit(U, after, Saved(*saved), states[:-1], dropped[:positions])
        d = torch.zeros_like(states[0])
        for t in reversed(range(positions)):
            d += d_states[t]
            d, d_dropped = unit.step(t, d)
            d = d.add_(d_dropped) if dropout is None else d.addcmul_(d_dropped, dropout)
        return unit.d_x.transpose(0, 1), d, *unit.weights(), None
