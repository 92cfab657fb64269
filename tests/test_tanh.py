"""tanh by the logistic function against torch's."""

from __future__ import annotations

import torch

from nmtkit.models.tanh import energies_, energies_backward, tanh_
from tests.draw import Draw, close


def test_tanh_is_torchs() -> None:
    x = torch.cat([torch.linspace(-50, 50, 1001), torch.tensor([1e-9, torch.inf, -torch.inf])])
    for dtype, least in ((torch.float64, 1e-15), (torch.float32, 2e-7)):
        given = x.to(dtype)
        assert float((tanh_(given.clone()) - torch.tanh(given)).abs().max()) <= least


def test_energies_are_those_of_the_equation_and_so_are_their_gradients() -> None:
    draw = Draw()
    x, v = draw(2, 3, 5, 4).requires_grad_(), draw(4).requires_grad_()
    expected = torch.tanh(x) @ v
    d = draw(2, 3, 5)
    d_x, d_v = torch.autograd.grad(expected, (x, v), d)
    found, logistic = energies_(2 * x.detach(), v.detach())
    close(found, expected)
    without_v, of_v = energies_backward(d, logistic)
    close(without_v * (4 * v.detach()), d_x)
    close(of_v, d_v)
    out = torch.empty_like(logistic)
    assert energies_backward(d, logistic, out)[0] is out
    close(out, without_v)
