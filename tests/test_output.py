"""The softmax layer's loss in chunks against the loss in one piece."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nmtkit.models import output
from nmtkit.vocabulary import PAD
from tests.draw import Draw, close


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 4, 11, 256])
def test_loss_in_chunks_is_the_loss(
    chunk: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "CHUNK_BYTES", 0)
    monkeypatch.setattr(output, "LEAST_ROWS", chunk)
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


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(
    "function", [output.linear_cross_entropy, output.linear_cross_entropy_plain]
)
def test_padding_is_not_counted(function: Any, smoothing: float) -> None:
    draw = Draw()
    leaves = [draw(*shape).requires_grad_() for shape in ((5, 3), (7, 3), (7,))]
    targets = torch.tensor([4, PAD, 1, 2, PAD])
    real = targets != PAD
    with_padding = function(*leaves, targets, smoothing)
    without = function(leaves[0][real], *leaves[1:], targets[real], smoothing)
    found, expected = (torch.autograd.grad(one[0], leaves) for one in (with_padding, without))
    for one, other in zip([*with_padding, *found], [*without, *expected], strict=True):
        close(one, other)
    assert not found[0][~real].any()


def test_chunks_are_equally_long_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "CHUNK_BYTES", 4 * 7 * 300)  # 300 rows of 7 logits
    parts = output.chunks(1000, 7)
    assert [part.stop - part.start for part in parts] == [250] * 4
    assert [part.start for part in parts] == [0, 250, 500, 750]
    # A large vocabulary: some rows at the least; no rows: no part.
    assert [part.stop - part.start for part in output.chunks(512, 10**6)] == [256, 256]
    assert output.chunks(0, 7) == []


def test_a_second_backward_pass_is_refused() -> None:
    """The gradients have been scaled in place."""
    draw = Draw()
    features, weight, bias = (draw(*shape).requires_grad_() for shape in ((5, 3), (7, 3), (7,)))
    leaves = [features, weight, bias]
    loss, _ = output.linear_cross_entropy(features, weight, bias, torch.arange(5))
    torch.autograd.grad(loss, leaves, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, leaves)
