"""Maxout (Goodfellow et al., 2013, arXiv 1302.4389) over pairs of neighbours."""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def maxout_plain(x: Tensor) -> Tensor:
    """Reference for `maxout`: the same argument and result."""
    return torch.maximum(x[..., 0::2], x[..., 1::2])


def maxout(x: Tensor) -> Tensor:
    """x (…, 2L) -> (…, L), of places 2k and 2k+1 the greater."""
    if not torch.is_grad_enabled():
        return maxout_plain(x)
    greater: Tensor = _Maxout.apply(x)
    return greater


class _Maxout(torch.autograd.Function):
    """Keeps a bit a pair. Torch's own backward pass keeps x, and takes four times as long."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x[..., 0::2] >= x[..., 1::2])
        return maxout_plain(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> Tensor:
        (first,) = ctx.saved_tensors
        d_x = d.new_empty((*d.shape[:-1], 2 * d.shape[-1]))
        torch.mul(d, first, out=d_x[..., 0::2])
        torch.mul(d, ~first, out=d_x[..., 1::2])
        return d_x
