"""Products of float32 matrices on a CPU, by oneDNN.

torch's own products there are MKL's, which on processors of other makers leaves half of the
machine unused, and even elsewhere much of it where there are few rows. oneDNN comes with torch too,
and writes its kernels for the processor it finds. Whatever it cannot do, of other types, on other
devices or under autocast, is torch's.

`torch.backends.mkldnn.enabled = False` turns it off. Letters: M rows, K the inner size, N columns,
G groups.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def _one_dnn() -> Any:
    """Its product a bᵀ as torch offers it to compiled models; None where there is none."""
    x86 = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    if not (x86 and torch.backends.mkldnn.is_available()):
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


_linear = _one_dnn()


def by_one_dnn(*operands: Tensor) -> bool:
    """Whether a product of these is oneDNN's: float32, on a CPU, of at least one number."""
    if _linear is None or not torch.backends.mkldnn.enabled or torch.is_autocast_enabled("cpu"):
        return False
    return all(x.dtype == torch.float32 and x.is_cpu and x.numel() > 0 for x in operands)


def _add_product(plus: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    """plus (M, N) or (N,) + a (M, K) b (K, N), oneDNN's."""
    # Of a matrix with gaps between its rows, oneDNN has slow kernels only.
    if not (b.is_contiguous() or b.t().is_contiguous()):
        b = b.contiguous()
    found: Tensor
    if plus is None or plus.dim() == 1:
        found = _linear.default(a, b.t(), plus, "none", [], "")
    else:
        found = _linear.binary(a, plus.contiguous(), b.t(), None, "add")
    return found


def product(a: Tensor, b: Tensor, plus: Tensor | None = None) -> Tensor:
    """plus (M, N) or (N,) + a (M, K) b (K, N), without a gradient; fastest if b is contiguous.

    With groups, plus (G, M, N) + a (G, M, K) b (G, K, N).
    """
    operands = (a, b) if plus is None else (a, b, plus)
    if not by_one_dnn(*operands):
        if plus is None:
            return torch.matmul(a, b)
        return torch.addmm(plus, a, b) if a.dim() == 2 else torch.baddbmm(plus, a, b)
    if a.dim() == 2:
        return _add_product(plus, a, b)
    return torch.stack(
        [_add_product(None if plus is None else plus[g], a[g], b[g]) for g in range(len(a))]
    )


class _Linear(torch.autograd.Function):
    """x (M, K), weight (N, K), bias (N,) -> x Wᵀ + b (M, N)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _add_product(bias, x, weight.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        return (
            product(d, weight) if needed[0] else None,
            product(d.t(), x) if needed[1] else None,
            d.sum(0) if needed[2] else None,
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`: x (…, K), weight (N, K), bias (N,) -> x Wᵀ + b (…, N)."""
    if not by_one_dnn(x, weight):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    found: Tensor
    if torch.is_grad_enabled():
        found = _Linear.apply(rows, weight, bias)
    else:
        found = _add_product(bias, rows, weight.t())
    return found.view(*x.shape[:-1], len(weight))


class Linear(nn.Linear):
    """`torch.nn.Linear` with `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """x (…, K) -> (…, N)."""
        return linear(x, self.weight, self.bias)
