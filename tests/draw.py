"""Numbers for the tests of the recurrences."""

from __future__ import annotations

import torch
from torch import Tensor

LENGTHS = torch.tensor([3, 5, 1])  # real target positions of the B = 3 sentences


class Draw:
    """Normal float64 tensors from one seed."""

    def __init__(self, seed: int = 1) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def mask(self, *shape: int) -> Tensor:
        """A dropout mask of rate 1/2, scaled, with both kinds of number in it."""
        keep = torch.rand(shape, generator=self.generator, dtype=torch.float64) < 0.5
        assert keep.any()
        assert not keep.all()
        return keep * 2.0


def close(found: Tensor, expected: Tensor, name: str = "") -> None:
    torch.testing.assert_close(
        found, expected, rtol=0, atol=1e-11, msg=lambda text: f"{name}: {text}"
    )


def ragged_mean(states: Tensor, upstream: Tensor) -> Tensor:
    """A number that sees each state (T, …, B, ·) of a real position, and no other."""
    positions = torch.arange(len(states)).unsqueeze(1)
    real = (positions < LENGTHS).unsqueeze(2)
    if states.dim() == 4:
        real = real.unsqueeze(1)
    return (states * upstream * real).sum()
