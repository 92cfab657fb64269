"""The decoder's loop with input feeding (Luong et al., 2015, section 3.3), and its products.

    h_t = LSTM([E y_{t-1} ; h~_{t-1}], h_{t-1})
    c_t = attention from h_t;  h~_t = tanh(W_c [c_t ; h_t])                              (eq. 5)

h~_{t-1} makes a loop over positions necessary. As in `recurrent.py`, it runs twice: as the
equations read (`LSTMStack.step` in `luong.py`) and fast (`feeding`): the words' part of the first
layer stands before the loop, and the gradients of all weights of the loop are one product each,
after it. The attention is left to autograd: its keys are made before the loop.

Letters: B sentences, T positions, S source length, E embedding, N layers, D state size, C
annotation size, X input size, M rows of a weight.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.models.products import linear, product
from nmtkit.models.stack import LSTMStack
from nmtkit.models.tanh import tanh_

#: Query (B, D) at a position -> context (B, C), attention (B, S).
Attend = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def feeding(
    stack: LSTMStack, W_c: Tensor, words: Tensor, state: tuple[Tensor, Tensor], attend: Attend
) -> tuple[Tensor, Tensor]:
    """Words (B, T, E), state h and c (B, N, D), W_c (D, C+D) -> h~ (B, T, D), attention (B, T, S).

    h~_0 is zero. `stack` reads [word ; h~], and has no residual connections.
    """
    size = words.shape[2]
    # Of every layer what it reads, its last column the bias, and the recurrence.
    weights = [(W, U) for W, U in (layer.parameters() for layer in stack.layers)]
    starts = [size, *[0] * (len(weights) - 1)]  # where what the loop reads begins
    cells = [
        Deferred(torch.cat([W[:, start:-1], U], 1))
        for (W, U), start in zip(weights, starts, strict=True)
    ]
    readout = Deferred(W_c)
    first, _ = weights[0]
    x = linear(words.transpose(0, 1), first[:, :size], first[:, -1])  # (T, B, 4D)
    x = after_the_loop(x, [*cells, readout])
    biases = [W[:, -1] for W, _ in weights]
    h, c = ([*each.unbind(1)] for each in state)
    fed = torch.zeros_like(h[-1])
    readouts, attention = [], []
    for t, x_t in enumerate(x.unbind(0)):
        below = fed
        for n, weight in enumerate(cells):
            below = F.dropout(below, stack.dropout, stack.training) if n else below
            base = biases[n] if n else x_t
            h[n], c[n] = _Cell.apply(base, torch.cat([below, h[n]], 1), c[n], weight)
            below = h[n]
        context, alpha = attend(below, t)
        fed = torch.tanh(_Product.apply(torch.cat([context, below], 1), readout))
        readouts.append(fed)
        attention.append(alpha)
    return torch.stack(readouts, 1), torch.stack(attention, 1)


class Deferred:
    """A weight (M, X) of a loop, whose gradient is one product after it."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.inputs: list[Tensor] = []  # (B, X), a position each
        self.gradients: list[Tensor] = []  # (B, M), of what the products gave

    def used(self, read: Tensor, gradient: Tensor) -> Tensor:
        """Note one use in the backward pass; returns the gradient of what was read (B, X)."""
        self.inputs.append(read)
        self.gradients.append(gradient)
        return product(gradient, self.weight.detach())

    def gradient(self) -> Tensor | None:
        """The gradient (M, X) of all uses, None where there was no use."""
        if not self.inputs:
            return None
        found = product(torch.cat(self.gradients).t(), torch.cat(self.inputs))
        self.inputs, self.gradients = [], []
        return found


def after_the_loop(x: Tensor, deferred: list[Deferred]) -> Tensor:
    """x itself. Every use of the weights must come from it, so that its gradient is known last."""
    result: Tensor = _AfterTheLoop.apply(x, deferred, *(each.weight for each in deferred))
    return result


class _AfterTheLoop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, deferred: list[Deferred], *weights: Tensor) -> Tensor:
        ctx.deferred = deferred
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_x: Tensor) -> tuple[Tensor | None, ...]:
        return d_x, None, *(each.gradient() for each in ctx.deferred)


class _Product(torch.autograd.Function):
    """Read (B, X) -> (B, M)."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, read: Tensor, weight: Deferred) -> Tensor:
        ctx.weight = weight
        ctx.save_for_backward(read)
        return linear(read, weight.weight)

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor, None]:
        (read,) = ctx.saved_tensors
        return ctx.weight.used(read, d), None


class _Cell(torch.autograd.Function):
    """Base (B, 4D) or (4D,), read (B, X), cell (B, D) -> output and cell (B, D).

    The row blocks of the weight are torch's: input gate, forget gate, candidate, output gate.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, base: Tensor, read: Tensor, c: Tensor, weight: Deferred
    ) -> tuple[Tensor, Tensor]:
        gates = product(read, weight.weight.t(), base)
        size = c.shape[1]
        gates[:, : 2 * size].sigmoid_()
        tanh_(gates[:, 2 * size : 3 * size])
        gates[:, 3 * size :].sigmoid_()
        i, f, g, o = gates.chunk(4, 1)
        new = torch.addcmul(f * c, i, g)
        tanh = tanh_(new.clone())
        ctx.weight, ctx.one = weight, base.dim() == 1
        ctx.save_for_backward(read, c, gates, tanh)
        return o * tanh, new

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, d_h: Tensor, d_c: Tensor) -> tuple[Tensor | None, ...]:
        read, c, gates, tanh = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, 1)
        d_c = d_c + d_h * o * (1 - tanh * tanh)
        d_gates = torch.empty_like(gates)
        d_i, d_f, d_g, d_o = d_gates.chunk(4, 1)
        torch.mul(d_c * g, i * (1 - i), out=d_i)
        torch.mul(d_c * c, f * (1 - f), out=d_f)
        torch.mul(d_c * i, 1 - g * g, out=d_g)
        torch.mul(d_h * tanh, o * (1 - o), out=d_o)
        d_base = d_gates.sum(0) if ctx.one else d_gates
        return d_base, ctx.weight.used(read, d_gates), d_c * f, None
