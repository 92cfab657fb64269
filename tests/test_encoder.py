"""The encoder by torch's kernel, which CUDA has as cuDNN's, against the equations."""

from __future__ import annotations

import torch

from nmtkit.models.cells import make_cell, stacked
from nmtkit.models.encoder import has_torch_kernel, torch_gru
from nmtkit.models.recurrent import recurrence_plain
from tests.draw import Draw, close


def test_torchs_kernel_is_the_unit_with_reset_after() -> None:
    draw = Draw()
    cell = make_cell("gru", 3, 4, "after").double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(draw(*parameter.shape))
    assert has_torch_kernel(cell)
    x = draw(5, 2, 3).requires_grad_()
    upstream = draw(5, 2, 4)
    initial = torch.zeros(1, 2, 4, dtype=torch.float64)
    plain = recurrence_plain(cell.input_part(x).unsqueeze(0), initial, stacked([cell]), None)
    given = [x, *cell.parameters()]
    results = []
    for states in (plain.squeeze(1), torch_gru(x, cell)):
        results.append([states, *torch.autograd.grad((states * upstream).sum(), given)])
    for expected, found in zip(*results, strict=True):
        close(found, expected)


def test_other_cells_have_none() -> None:
    assert not has_torch_kernel(make_cell("gru", 3, 4, "before"))
    assert not has_torch_kernel(make_cell("lstm", 3, 4, "before"))
