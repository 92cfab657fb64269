"""The softmax layer's loss in chunks against the loss in one piece."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nmtkit.models import output
from tests.draw import Draw, close


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 4, 11, 256])
def test_loss_in_chunks_is_the_loss(
    chunk: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "CHUNK", chunk)
    draw = Draw()
    leaves = [draw(*shape).requires_grad_() for shape in ((11, 3), (7, 3), (7,))]
    targets = torch.randint(7, (11,), generator=draw.generator)

    def both(function: Any) -> list[Tensor]:
        return list(function(*leaves, targets, smoothing))

    expected, found = both(output.linear_cross_entropy_plain), both(output.linear_cross_entropy)
    with torch.no_grad():
        without = both(output.linear_cross_entropy)
    for losses in (expected, found):
        assert not losses[1].requires_grad
        losses += torch.autograd.grad(2 * losses[0], leaves)
    for one, other in zip(found + without, expected + expected[:2], strict=True):
        close(one, other)
