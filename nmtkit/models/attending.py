"""The decoder's recurrence: query the annotations, take the context in, at every position.

As in `recurrent.py`, once as the equations read (`attending_plain`) and once as it runs fast:
inside the loop stands only what depends on the previous state, all weight gradients are one
product each after it. Time-major, (T, …).

Two forms of energy, which all scores of `attention.py` can take:

    v_aᵀ tanh(W_a h + key_j + V_c coverage_j)     where there is a W_a
    hᵀ key_j                                      where there is none

Letters: T positions, B sentences, S source length, D size of h, N size of the state, G = 3D or 4D
rows of a cell, A attention units, X key size (A, or D without W_a), C annotation size.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.models.cell_buffers import (
    Saved,
    add_dropped,
    backward_cell,
    forward_cell,
    outer,
    with_initial,
)
from nmtkit.models.cells import CellWeights, cell_state, cell_step
from nmtkit.models.energy_buffers import (
    AdditiveBackward,
    AdditiveForward,
    DotBackward,
    DotForward,
    Gradients,
)
from nmtkit.models.graphs import Played, Tensors
from nmtkit.models.products import Packed, linear, product


class Inputs(NamedTuple):
    """All that the recurrence reads."""

    x: Tensor  # (T, B, G): what the cell gets from the target words, biases included
    initial: Tensor  # (B, D): s_0
    keys: Tensor  # (B, S, X): U_a h_j + b_a, or what h is multiplied by
    annotations: Tensor  # (B, S, C)
    bias: Tensor  # (B, S): 0, or the lowest number at padding
    dropout: Tensor | None  # (B, D), already scaled, the same at every position
    W_c: Tensor  # (G, C): the context's part of the cell
    U: Tensor  # (G, D)
    b_candidate: Tensor | None  # (D,)
    W_a: Tensor | None = None  # (A, D)
    v_a: Tensor | None = None  # (A,), there with W_a
    #: What attention that a source word has had so far does to its energy, if anything.
    V_c: Tensor | None = None  # (A,)
    #: The cell that consumes the word before attention looks (order = conditional), if there.
    first_U: Tensor | None = None  # (G, D)
    first_b_candidate: Tensor | None = None  # (D,)
    b: Tensor | None = None  # (G,) or (B, G): then the bias of the cell that consumes the context

    @property
    def cell(self) -> CellWeights:
        """The cell that consumes the context."""
        return CellWeights(self.U, self.b_candidate)

    @property
    def first(self) -> CellWeights:
        """The cell before it, where there is one."""
        assert self.first_U is not None
        return CellWeights(self.first_U, self.first_b_candidate)


def attending_plain(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Reference for `attending`: the same arguments and results."""
    i = inputs
    size = i.initial.shape[-1]

    def drop(state: Tensor) -> Tensor:
        hidden = state[:, :size]
        return hidden if i.dropout is None else hidden * i.dropout

    def energies(query: Tensor) -> Tensor:
        if i.W_a is None or i.v_a is None:
            return torch.bmm(i.keys, query.unsqueeze(2)).squeeze(2)
        hidden = i.keys + linear(query, i.W_a).unsqueeze(1)
        if i.V_c is not None:
            hidden = hidden + coverage.unsqueeze(2) * i.V_c
        return torch.tanh(hidden).matmul(i.v_a)

    state, coverage = cell_state(i.initial, i.U), torch.zeros_like(i.bias)
    states, contexts, weights = [], [], []
    for x_t in i.x:
        x = x_t
        if i.first_U is not None and i.b is not None:
            state, x = cell_step(x_t, state, drop(state), i.first), i.b
        alpha = torch.softmax(energies(drop(state)) + i.bias, dim=1)
        coverage = coverage + alpha
        context = torch.bmm(alpha.unsqueeze(1), i.annotations).squeeze(1)
        x = x + linear(context, i.W_c)
        state = cell_step(x, state, drop(state), i.cell)
        states.append(state[:, :size])
        contexts.append(context)
        weights.append(alpha)
    return torch.stack(states), torch.stack(contexts), torch.stack(weights)


def attending(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """The states s_1 … s_T (T, B, D), contexts c_1 … c_T (T, B, C), attention weights (T, B, S).

    c_t comes from s_{t-1}; with `first_U`, from the state that has just consumed the word (the
    conditional unit of dl4mt and Nematus).
    """
    states, contexts, weights = _Attending.apply(*inputs)
    return states, contexts, weights


class _Attending(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, *arguments: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        results = _forward(*arguments)
        contexts, weights, states = cast("tuple[Tensor, Tensor, Tensor]", results[:3])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*arguments, *results)
        size = Inputs(*arguments).initial.shape[-1]  # type: ignore[arg-type]
        return states[1:, :, :size], contexts, weights

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(
        ctx: Any, d_states: Tensor | None, d_contexts: Tensor | None, d_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        return _backward(d_states, d_contexts, d_weights, *ctx.saved_tensors)


class _Trace(NamedTuple):
    """What the forward pass leaves for the backward pass; nothing that is a view of another."""

    contexts: Tensor  # (T, B, C)
    weights: Tensor  # (T, B, S)
    states: Tensor  # (T+1, B, N)
    looking: Tensor | None  # (T, B, N): what the first cell made of s_{t-1}, where there is one
    dropped: Tensor | None  # (T, B, D): h there after dropout, where there is any
    first_dropped: Tensor | None  # (T, B, D): h after dropout that the first cell has read
    gates: Tensor  # `Saved` of the cell that consumes the context …
    candidate: Tensor
    inner: Tensor
    first_gates: Tensor | None = None  # … and of the first
    first_candidate: Tensor | None = None
    first_inner: Tensor | None = None
    queries: Tensor | None = None  # what the energies keep
    hidden: Tensor | None = None
    coverage: Tensor | None = None

    @property
    def saved(self) -> Saved:
        return Saved(self.gates, self.candidate, self.inner)

    @property
    def first_saved(self) -> Saved:
        """Where there is a first cell."""
        kept = self.first_gates, self.first_candidate, self.first_inner
        return Saved(*cast("tuple[Tensor, Tensor, Tensor]", kept))

    @property
    def of_energies(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where they are additive."""
        return cast("tuple[Tensor, Tensor, Tensor]", (self.queries, self.hidden, self.coverage))

    def seen(self, size: int) -> tuple[Tensor, Tensor]:
        """The state that attention looks from (T, B, N), and its h after dropout (T, B, D)."""
        looking = self.states[:-1] if self.looking is None else self.looking
        return looking, looking[..., :size] if self.dropped is None else self.dropped

    def first_read(self, size: int) -> Tensor:
        """h after dropout that the first cell has read."""
        return self.states[:-1, :, :size] if self.first_dropped is None else self.first_dropped


def _run_forward(*arguments: Tensor) -> Tensors:
    """The fields of _Trace, of the fields of Inputs."""
    i = Inputs(*arguments)
    positions, batch, _ = i.x.shape
    size = i.initial.shape[-1]
    states = with_initial(cell_state(i.initial, i.U), positions)
    contexts = i.x.new_empty((positions, batch, i.annotations.shape[2]))
    weights = i.x.new_empty((positions, batch, i.keys.shape[1]))
    energies = _energies(i, positions)
    room = states[:-1, :, :size]
    saved, first_saved = Saved.empty(i.x, (positions, batch), i.U), None
    trace = _Trace(
        contexts,
        weights,
        states,
        None if i.first_U is None else torch.empty_like(states[:-1]),
        None if i.dropout is None else torch.empty_like(room),
        None if i.dropout is None or i.first_U is None else torch.empty_like(room),
        *saved,
    )
    looking, dropped = trace.seen(size)
    cell = forward_cell(i.cell, saved)
    of_context = Packed(i.W_c)
    if i.first_U is not None:
        first_saved = Saved.empty(i.x, (positions, batch), i.first_U)
        first, first_dropped = forward_cell(i.first, first_saved), trace.first_read(size)
    for t in range(positions):
        if i.first_U is not None:
            if i.dropout is not None:
                torch.mul(states[t, :, :size], i.dropout, out=first_dropped[t])
            first.step(t, i.x[t], states[t], first_dropped[t], looking[t])
        if i.dropout is not None:
            torch.mul(looking[t, :, :size], i.dropout, out=dropped[t])
        torch.softmax(energies.step(t, dropped[t]).add_(i.bias), 1, out=weights[t])
        energies.attended(t, weights[t])
        torch.bmm(weights[t].unsqueeze(1), i.annotations, out=contexts[t].unsqueeze(1))
        x = of_context(contexts[t], i.x[t] if i.b is None else i.b)
        cell.step(t, x, looking[t], dropped[t], states[t + 1])
    kept = (None, None, None) if first_saved is None else first_saved
    return *trace[:9], *kept, *energies.saved


def _run_backward(
    d_states: Tensor | None,
    d_contexts: Tensor | None,
    d_weights: Tensor | None,
    *saved: Tensor,
) -> Tensors:
    """The gradients of the fields of Inputs; `saved` are those fields and those of _Trace."""
    i, trace = Inputs(*saved[: len(Inputs._fields)]), _Trace(*saved[len(Inputs._fields) :])
    contexts, weights, states = trace[:3]
    positions, size = len(weights), i.initial.shape[-1]
    looking, dropped = trace.seen(size)
    energies = _energies_backward(i, trace, positions)
    cell = backward_cell(i.cell, trace.saved, looking, dropped)
    if i.first_U is not None:
        first = backward_cell(i.first, trace.first_saved, states[:-1], trace.first_read(size))
    W_c = i.W_c.contiguous()
    d_context = torch.zeros_like(contexts) if d_contexts is None else d_contexts.clone()
    d = torch.zeros_like(states[0])
    for t in reversed(range(positions)):
        if d_states is not None:
            d[:, :size] += d_states[t]
        d, d_dropped = cell.step(t, d)
        d_context[t] = product(cell.d_x[t], W_c, d_context[t])
        alpha = weights[t]
        # A row times a matrix: torch is ten times slower with a matrix times a column.
        d_alpha = torch.bmm(d_context[t].unsqueeze(1), i.annotations.mT).squeeze(1)
        if d_weights is not None:
            d_alpha += d_weights[t]
        if energies.d_coverage is not None:
            d_alpha += energies.d_coverage
        d_energies = alpha * (d_alpha - (alpha * d_alpha).sum(1, keepdim=True))
        d_dropped = energies.step(t, d_energies, d_dropped)
        add_dropped(d, d_dropped, i.dropout)
        if i.first_U is not None:
            d, d_dropped = first.step(t, d)
            add_dropped(d, d_dropped, i.dropout)

    d_U, d_b_candidate = cell.weights()
    gradients: Gradients = {
        **energies.gradients(dropped),
        "x": cell.d_x if i.first_U is None else first.d_x,
        "initial": d[:, :size],
        "annotations": torch.bmm(weights.permute(1, 2, 0), d_context.transpose(0, 1)),
        "W_c": outer(cell.d_x, contexts),
        "U": d_U,
        "b_candidate": d_b_candidate,
    }
    if i.first_U is not None and i.b is not None:
        gradients["first_U"], gradients["first_b_candidate"] = first.weights()
        gradients["b"] = cell.d_x.sum((0, 1) if i.b.dim() == 1 else 0)
    return tuple(gradients.get(name) for name in Inputs._fields)


_forward, _backward = Played(_run_forward), Played(_run_backward)


def _energies(i: Inputs, positions: int) -> AdditiveForward | DotForward:
    if i.W_a is None or i.v_a is None:
        return DotForward(i.keys)
    return AdditiveForward(i.keys, i.W_a, i.v_a, i.V_c, positions)


def _energies_backward(i: Inputs, trace: _Trace, positions: int) -> AdditiveBackward | DotBackward:
    if i.W_a is None or i.v_a is None:
        return DotBackward(i.keys, positions)
    return AdditiveBackward(i.keys, i.W_a, i.v_a, i.V_c, trace.of_energies)
