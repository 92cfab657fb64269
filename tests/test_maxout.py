"""Maxout against torch's maximum."""

from __future__ import annotations

import torch

from nmtkit.models.maxout import maxout, maxout_plain
from tests.draw import Draw, close


def test_values_by_hand() -> None:
    assert maxout(torch.tensor([[1.0, 2.0, -3.0, -4.0]])).tolist() == [[2.0, -3.0]]


def test_gradients_are_torchs() -> None:
    draw = Draw()
    x = draw(3, 4, 10).requires_grad_()
    d = draw(3, 4, 5)
    expected, found = maxout_plain(x), maxout(x)
    close(found, expected)
    close(torch.autograd.grad(found, x, d)[0], torch.autograd.grad(expected, x, d)[0])


def test_of_two_equal_units_one_learns() -> None:
    x = torch.ones(1, 2, requires_grad=True)
    maxout(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[1.0, 0.0]]
