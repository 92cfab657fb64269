"""The losses of guided alignment: two sentences by hand, and their gradients."""

from __future__ import annotations

from math import log

import pytest
import torch
from torch import Tensor

from nmtkit.train.guided import TINY, decoder_loss, head_loss

# B 2, T 4, S 4, ends included. Sentence 0: x0 x1 end | y0 y1 y2 end; x1 is linked with y0 and y2,
# x0 with y0, y1 with nothing. Sentence 1: x0 x1 x2 end | y0 end; x2 is linked with y0.
SOURCE_MASK = torch.tensor([[True, True, True, False], [True] * 4])
TARGET_MASK = torch.tensor([[True] * 4, [True, True, False, False]])
GUIDE = torch.tensor(
    [
        [[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]],
        [[0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
    ],
    dtype=torch.float64,
)


def attention(rows: int) -> Tensor:
    """(B, T', S): every number another."""
    weights = torch.rand((2, rows, 4), generator=torch.Generator().manual_seed(1))
    return (0.1 + weights.double()) / 5


def test_decoder_loss_of_the_row_itself() -> None:
    a = attention(4)
    p = a.tolist()
    wanted = (
        *(log(p[0][0][0]) / 2, log(p[0][0][1]) / 2, log(p[0][1][2]), log(p[0][2][1])),
        *(log(p[0][3][2]), log(p[1][0][2]), log(p[1][1][3])),
    )
    assert decoder_loss(a, GUIDE, 0).item() == pytest.approx(-sum(wanted))


@pytest.mark.parametrize("rows", [4, 5])
def test_decoder_loss_of_the_row_after(rows: int) -> None:
    """The end is left out in both sentences: that of the shorter would be read at padding."""
    a = attention(rows)
    p = a.tolist()
    wanted = (
        *(log(p[0][1][0]) / 2, log(p[0][1][1]) / 2, log(p[0][2][2]), log(p[0][3][1])),
        log(p[1][1][2]),
    )
    assert decoder_loss(a, GUIDE, 1).item() == pytest.approx(-sum(wanted))


def test_decoder_loss_of_the_row_after_next() -> None:
    """The last word's reading is the row that has consumed the end."""
    a = attention(5)
    p = a.tolist()
    wanted = (
        *(log(p[0][2][0]) / 2, log(p[0][2][1]) / 2, log(p[0][3][2]), log(p[0][4][1])),
        log(p[1][2][2]),
    )
    assert decoder_loss(a, GUIDE, 2).item() == pytest.approx(-sum(wanted))


def test_head_loss() -> None:
    forward, backward = attention(4), attention(5)[:, 1:]
    p, q = forward.tolist(), backward.tolist()
    rows = (
        *(log(p[0][0][0]) / 2, log(p[0][0][1]) / 2, log(p[0][1][2]), log(p[0][2][1])),
        *(log(p[0][3][2]), log(p[1][0][2]), log(p[1][1][3])),
    )
    columns = (
        # x0 is all y0's, x1 half y0's and half y2's; the ends are each other's.
        *(log(q[0][0][0]), log(q[0][0][1]) / 2, log(q[0][2][1]) / 2, log(q[0][3][2])),
        # x0 and x1 have no partner: the target's end.
        *(log(q[1][1][0]), log(q[1][1][1]), log(q[1][0][2]), log(q[1][1][3])),
    )
    found = head_loss(forward.log(), backward.log(), GUIDE, SOURCE_MASK, TARGET_MASK)
    assert found.item() == pytest.approx(-(sum(rows) + sum(columns)) / 2)


def test_what_padding_holds_does_not_matter() -> None:
    lowest = torch.finfo(torch.float32).min
    forward, backward = (attention(4).log().float() for _ in range(2))
    guide = GUIDE.float()
    wanted = head_loss(forward, backward, guide, SOURCE_MASK, TARGET_MASK)
    pads = ~(TARGET_MASK.unsqueeze(2) & SOURCE_MASK.unsqueeze(1))
    junk = forward.masked_fill(pads, lowest), backward.masked_fill(pads, lowest)
    torch.testing.assert_close(head_loss(*junk, guide, SOURCE_MASK, TARGET_MASK), wanted)
    wanted = decoder_loss(forward.exp(), guide, 0)
    torch.testing.assert_close(decoder_loss(forward.exp().masked_fill(pads, 0.0), guide, 0), wanted)


def test_attention_of_zero_costs_much_but_not_everything() -> None:
    a = attention(4).float()
    a[0, 1, 2] = 0.0
    a.requires_grad_()
    loss = decoder_loss(a, GUIDE.float(), 0)
    loss.backward()
    assert a.grad is not None
    assert a.grad.isfinite().all()
    # The same with TINY in the place of zero.
    b = a.detach().clone()
    b[0, 1, 2] = TINY
    assert loss.item() == pytest.approx(decoder_loss(b, GUIDE.float(), 0).item())


@pytest.mark.parametrize(("rows", "shift"), [(4, 0), (4, 1), (5, 2)])
def test_gradients_of_the_decoder_loss(rows: int, shift: int) -> None:
    given = attention(rows).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: decoder_loss(a, GUIDE, shift), given)


def test_gradients_of_the_head_loss() -> None:
    given = [attention(4).log().requires_grad_(), attention(5)[:, 1:].log().requires_grad_()]
    assert torch.autograd.gradcheck(
        lambda a, b: head_loss(a, b, GUIDE, SOURCE_MASK, TARGET_MASK), given
    )
