"""Products of float32 matrices on a CPU, by oneDNN.

torch's own products there are MKL's, which on processors of other makers leaves half of the
machine unused, and even elsewhere much of it where there are few rows. oneDNN comes with torch too,
and writes its kernels for the processor it finds. Whatever it cannot do, of other types, on other
devices or under autocast, is torch's.

The environment variable NMTKIT_ONEDNN=0, or `torch.backends.mkldnn.set_flags(False)`, turns it off.

Letters: M rows, K the inner size, N columns, G groups.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

ROWS = 80  # as many in a typical product by a packed matrix; all others are nearly as fast
#: oneDNN makes a kernel for every shape, which takes time and stays in memory, and lengths vary: so
#: many rows at a time, and what is left where batches have ROWS sentences, are few shapes.
BLOCK = 5 * ROWS
SWITCH = "NMTKIT_ONEDNN"


def _one_dnn() -> Any:
    """Its products, as torch has them for compiled models; None where there are none."""
    if os.environ.get(SWITCH) == "0":
        return None
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):  # of x86
        return None
    names = ("_linear_pointwise", "_reorder_linear_weight")
    there = torch.backends.mkldnn.is_available()
    return torch.ops.mkldnn if there and all(hasattr(torch.ops.mkldnn, n) for n in names) else None


ONE_DNN = _one_dnn()


def by_one_dnn(*operands: Tensor) -> bool:
    """Whether a product of these is oneDNN's: float32, on a CPU, of at least one number."""
    if ONE_DNN is None or not torch.backends.mkldnn.enabled or torch.is_autocast_enabled("cpu"):
        return False
    return all(x.dtype == torch.float32 and x.is_cpu and x.numel() > 0 for x in operands)


def _add_product(plus: Tensor | None, a: Tensor, b_T: Tensor) -> Tensor:
    """plus (M, N) or (N,) + a (M, K) b (K, N), oneDNN's; b transposed, perhaps packed."""
    # Of a vector with gaps it would read the gaps; a matrix with gaps takes ten times as long.
    plus = None if plus is None else plus.contiguous()
    found: Tensor
    if plus is None or plus.dim() == 1:
        found = ONE_DNN._linear_pointwise.default(a, b_T, plus, "none", [], "")
    else:
        found = ONE_DNN._linear_pointwise.binary(a, plus, b_T, None, "add")
    return found


def _in_blocks(plus: Tensor | None, a: Tensor, b_T: Tensor) -> Tensor:
    """The same, some rows at a time."""
    if len(a) <= BLOCK:
        return _add_product(plus, a, b_T)
    found = a.new_empty((len(a), b_T.shape[0]))
    for start in range(0, len(a), BLOCK):
        part = slice(start, start + BLOCK)
        some = plus[part] if plus is not None and plus.dim() == 2 else plus
        found[part] = _add_product(some, a[part], b_T)
    return found


def _add_products(plus: Tensor | None, a: Tensor, b_T: Sequence[Tensor]) -> Tensor:
    """The same with groups, b one by one."""
    if a.dim() == 2:
        return _in_blocks(plus, a, b_T[0])
    rows = [None] * len(a) if plus is None else plus.unbind()
    return stack([_add_product(*each) for each in zip(rows, a, b_T, strict=True)])


def _by_torch(plus: Tensor | None, a: Tensor, b: Tensor) -> Tensor:
    if plus is None:
        return torch.matmul(a, b)
    return torch.addmm(plus, a, b) if a.dim() == 2 else torch.baddbmm(plus, a, b)


def product(a: Tensor, b: Tensor, plus: Tensor | None = None) -> Tensor:
    """plus (M, N) or (N,) + a (M, K) b (K, N), without a gradient; fastest if b is contiguous.

    With groups, plus (G, M, N) + a (G, M, K) b (G, K, N).
    """
    if not by_one_dnn(a, b, *(() if plus is None else (plus,))):
        return _by_torch(plus, a, b)
    b_T = [_dense(matrix.t()) for matrix in (b if b.dim() == 3 else [b])]
    return _add_products(plus, a, b_T)


def sum_of_outer(left: Tensor, right: Tensor, plus: Tensor | None = None) -> Tensor:
    """plus (M, N) + leftᵀ right, of rows (R, M) and (R, N), without a gradient."""
    if not by_one_dnn(left, right):
        return product(left.t(), right, plus)
    for some, others in zip(left.split(BLOCK), right.split(BLOCK), strict=True):
        plus = _add_product(plus, some.t(), _dense(others.t()))
    assert plus is not None
    return plus


def _dense(matrix: Tensor) -> Tensor:
    """Without gaps between its rows, or its columns: else oneDNN has slow kernels only."""
    dense = matrix.is_contiguous() or matrix.t().is_contiguous()
    return matrix if dense else matrix.contiguous()


class Packed:
    """a b for many a and one b, which is laid out once as that is fastest; without a gradient.

    b (K, N), or (G, K, N), is given transposed, as weights are: (N, K).
    """

    def __init__(self, b_T: Tensor) -> None:
        self.packed: list[Tensor] | None = None
        if by_one_dnn(b_T):
            pack = ONE_DNN._reorder_linear_weight
            groups = b_T if b_T.dim() == 3 else [b_T]
            self.packed = [pack(group.contiguous(), ROWS) for group in groups]
            self.b = b_T.mT
        else:
            self.b = b_T.mT.contiguous()

    def __call__(self, a: Tensor, plus: Tensor | None = None) -> Tensor:
        """`product` of a and b."""
        if self.packed is None or not by_one_dnn(a, *(() if plus is None else (plus,))):
            return _by_torch(plus, a, self.b)
        return _add_products(plus, a, self.packed)


def stack(tensors: Sequence[Tensor]) -> Tensor:
    """`torch.stack`, which copies; of one tensor there is nothing to copy."""
    return torch.stack(tuple(tensors)) if len(tensors) > 1 else tensors[0].unsqueeze(0)


class _Linear(torch.autograd.Function):
    """x (M, K), weight (N, K), bias (N,) -> x Wᵀ + b (M, N)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _add_products(bias, x, [_dense(weight)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad
        return (
            product(d, weight) if needed[0] else None,
            sum_of_outer(d, x) if needed[1] else None,
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
        found = _add_products(bias, rows, [_dense(weight)])
    return found.view(*x.shape[:-1], len(weight))


class Linear(nn.Linear):
    """`torch.nn.Linear` with `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """x (…, K) -> (…, N)."""
        return linear(x, self.weight, self.bias)
