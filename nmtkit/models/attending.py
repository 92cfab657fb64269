"""The decoder's recurrence: query the annotations, take the context in, at every position.

As in `recurrent.py`, once as the equations read (`attending_plain`) and once as it runs fast:
inside the loop stands only what depends on the previous state, all weight gradients are one
product each after it. Time-major, (T, …).

Letters: T positions, B sentences, S source length, D state size, A attention units, C = 2H
annotation size.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.models.recurrent import (
    BackwardUnit,
    ForwardUnit,
    GRUWeights,
    Saved,
    add_product,
    gru_step,
    outer,
    with_initial,
)

#: Above this many bytes tanh(W_a s + U_a h_j) is computed again in the backward pass, not kept.
KEEP_BYTES = 1 << 28


class Inputs(NamedTuple):
    """All that the recurrence reads."""

    x: Tensor  # (T, B, 3D): what the gates get from the target words, biases included
    initial: Tensor  # (B, D): s_0
    keys: Tensor  # (B, S, A): U_a h_j + b_a
    annotations: Tensor  # (B, S, C)
    bias: Tensor  # (B, S): 0, or the lowest number at padding
    dropout: Tensor | None  # (B, D), already scaled, the same at every position
    W_a: Tensor  # (A, D)
    v_a: Tensor  # (A,)
    W_c: Tensor  # (3D, C): the context's part of the gates
    U: Tensor  # (3D, D)
    b_candidate: Tensor | None  # (D,)
    #: The unit that consumes the word before attention looks (order = conditional), if there.
    first_U: Tensor | None = None  # (3D, D)
    first_b_candidate: Tensor | None = None  # (D,)
    b: Tensor | None = None  # (3D,): then the bias of the unit that consumes the context
    #: What attention that a source word has had so far does to its energy, if anything.
    V_c: Tensor | None = None  # (A,)


def attending_plain(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Reference for `attending`: the same arguments and results."""
    i = inputs

    def drop(state: Tensor) -> Tensor:
        return state if i.dropout is None else state * i.dropout

    state, coverage = i.initial, torch.zeros_like(i.bias)
    states, contexts, weights = [], [], []
    for x_t in i.x:
        x = x_t
        if i.first_U is not None and i.b is not None:
            first = GRUWeights(i.first_U, i.first_b_candidate)
            state, x = gru_step(x_t, state, drop(state), first), i.b
        query = F.linear(drop(state), i.W_a).unsqueeze(1)
        hidden = i.keys + query
        if i.V_c is not None:
            hidden = hidden + coverage.unsqueeze(2) * i.V_c
        scores = torch.tanh(hidden).matmul(i.v_a) + i.bias
        alpha = torch.softmax(scores, dim=1)
        coverage = coverage + alpha
        context = torch.bmm(alpha.unsqueeze(1), i.annotations).squeeze(1)
        x = x + F.linear(context, i.W_c)
        state = gru_step(x, state, drop(state), GRUWeights(i.U, i.b_candidate))
        states.append(state)
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
        i = Inputs(*arguments)  # type: ignore[arg-type]
        positions, batch, _ = i.x.shape
        length, units = i.keys.shape[1:]
        size = i.initial.shape[-1]
        states = with_initial(i.initial, positions)
        contexts = i.x.new_empty((positions, batch, i.annotations.shape[2]))
        weights = i.x.new_empty((positions, batch, length))
        queries = i.x.new_empty((positions, batch, units))
        coverage = i.x.new_zeros((0 if i.V_c is None else positions + 1, batch, length))
        # Where the attention looks from: s_{t-1}, or what the first unit made of it.
        looking = states if i.first_U is None else i.x.new_empty((positions, batch, size))
        dropped = looking if i.dropout is None else torch.empty_like(looking[:positions])
        keep = positions * i.keys.numel() * i.keys.element_size() <= KEEP_BYTES
        hidden = i.x.new_empty((positions if keep else 1, batch, length, units))

        saved = Saved.empty(i.x, (positions, batch), size)
        unit = ForwardUnit(i.U, i.b_candidate, saved)
        W_a_T, W_c_T = i.W_a.t().contiguous(), i.W_c.t().contiguous()
        gates_x = i.x.new_empty((batch, 3 * size))
        if i.first_U is not None:
            first_saved = Saved.empty(i.x, (positions, batch), size)
            first = ForwardUnit(i.first_U, i.first_b_candidate, first_saved)
            first_dropped = states if i.dropout is None else torch.empty_like(states[:-1])
        for t in range(positions):
            if i.first_U is not None:
                if i.dropout is not None:
                    torch.mul(states[t], i.dropout, out=first_dropped[t])
                first.step(t, i.x[t], states[t], first_dropped[t], looking[t])
            if i.dropout is not None:
                torch.mul(looking[t], i.dropout, out=dropped[t])
            torch.mm(dropped[t], W_a_T, out=queries[t])
            u = hidden[t if keep else 0]
            torch.add(i.keys, queries[t].unsqueeze(1), out=u)
            if i.V_c is not None:
                u.addcmul_(coverage[t].unsqueeze(2), i.V_c)
            scores = torch.mv(u.tanh_().view(-1, units), i.v_a).view(batch, length)
            torch.softmax(scores.add_(i.bias), 1, out=weights[t])
            if i.V_c is not None:
                torch.add(coverage[t], weights[t], out=coverage[t + 1])
            torch.bmm(weights[t].unsqueeze(1), i.annotations, out=contexts[t].unsqueeze(1))
            base = i.x[t] if i.b is None else i.b
            torch.addmm(base, contexts[t], W_c_T, out=gates_x)
            unit.step(t, gates_x, looking[t], dropped[t], states[t + 1])

        ctx.set_materialize_grads(False)
        ctx.kept = keep
        own = (states, looking, dropped, contexts, weights, queries, hidden, coverage, *saved)
        more = () if i.first_U is None else (first_dropped, *first_saved)
        ctx.save_for_backward(*i, *own, *more)
        return states[1:], contexts, weights

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(
        ctx: Any, d_states: Tensor | None, d_contexts: Tensor | None, d_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        arguments = len(Inputs._fields)
        i = Inputs(*ctx.saved_tensors[:arguments])
        states, looking, dropped, contexts, weights, queries, hidden, coverage, *rest = (
            ctx.saved_tensors[arguments:]
        )
        positions, units = len(weights), i.v_a.shape[0]
        unit = BackwardUnit(
            i.U,
            i.b_candidate is not None,
            Saved(*rest[:3]),
            looking[:positions],
            dropped[:positions],
        )
        if i.first_U is not None:
            first_after = i.first_b_candidate is not None
            first = BackwardUnit(
                i.first_U, first_after, Saved(*rest[4:]), states[:-1], rest[3][:positions]
            )
        d_context = torch.zeros_like(contexts) if d_contexts is None else d_contexts.clone()
        d_query = torch.empty_like(queries)
        d_keys, d_v = torch.zeros_like(i.keys), torch.zeros_like(i.v_a)
        d_hidden, u = torch.empty_like(hidden[0]), hidden[0]
        d_coverage = torch.zeros_like(weights[0])  # of what the following position finds
        d_V_c = torch.zeros_like(i.v_a)
        d = torch.zeros_like(states[0])
        for t in reversed(range(positions)):
            if d_states is not None:
                d += d_states[t]
            d, d_dropped = unit.step(t, d)
            d_context[t].addmm_(unit.d_x[t], i.W_c)
            alpha = weights[t]
            d_alpha = torch.bmm(i.annotations, d_context[t].unsqueeze(2)).squeeze(2)
            if d_weights is not None:
                d_alpha += d_weights[t]
            if i.V_c is not None:
                d_alpha += d_coverage
            d_scores = alpha * (d_alpha - (alpha * d_alpha).sum(1, keepdim=True))
            if ctx.kept:
                u = hidden[t]
            else:
                torch.add(i.keys, queries[t].unsqueeze(1), out=u)
                if i.V_c is not None:
                    u.addcmul_(coverage[t].unsqueeze(2), i.V_c)
                u.tanh_()
            d_v += torch.mv(u.view(-1, units).t(), d_scores.view(-1))
            # tanh' (1 - u²) d_scores; v_a, the same everywhere, is multiplied in at the end.
            torch.ops.aten.tanh_backward.grad_input(
                d_scores.unsqueeze(2).expand_as(u), u, grad_input=d_hidden
            )
            d_keys += d_hidden
            if i.V_c is not None:
                d_coverage += d_hidden.matmul(i.v_a * i.V_c)
                d_V_c += torch.mv(d_hidden.view(-1, units).t(), coverage[t].view(-1))
            torch.sum(d_hidden, 1, out=d_query[t])
            d_query[t].mul_(i.v_a)
            add_product(d_dropped, d_query[t], i.W_a)
            d = d.add_(d_dropped) if i.dropout is None else d.addcmul_(d_dropped, i.dropout)
            if i.first_U is not None:
                d, d_dropped = first.step(t, d)
                d = d.add_(d_dropped) if i.dropout is None else d.addcmul_(d_dropped, i.dropout)

        d_U, d_b_candidate = unit.weights()
        d_annotations = torch.bmm(weights.permute(1, 2, 0), d_context.transpose(0, 1))
        gradients: dict[str, Tensor | None] = {
            "x": unit.d_x if i.first_U is None else first.d_x,
            "initial": d,
            "keys": d_keys.mul_(i.v_a),
            "annotations": d_annotations,
            "W_a": outer(d_query, dropped[:positions]),
            "v_a": d_v,
            "W_c": outer(unit.d_x, contexts),
            "U": d_U,
            "b_candidate": d_b_candidate,
        }
        if i.first_U is not None:
            gradients["first_U"], gradients["first_b_candidate"] = first.weights()
            gradients["b"] = unit.d_x.sum((0, 1))
        if i.V_c is not None:
            gradients["V_c"] = d_V_c * i.v_a
        return tuple(gradients.get(name) for name in Inputs._fields)
