"""The recurrent encoder of Bahdanau et al. (2015), section 3.2, or one direction of it.

Letters: B sentences, S length, E embedding, H state a direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nmtkit.models.cells import GRU, Cell, make_cell, stacked
from nmtkit.models.products import stack
from nmtkit.models.recurrent import recurrence, recurrence_plain
from nmtkit.models.rnn import RNNConfig
from nmtkit.models.words import EmbeddedWords


class _ReverseRows(torch.autograd.Function):
    """Rows (N, F) in the order of a permutation that is its own inverse."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.order = order
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *d_rows: Tensor) -> tuple[Tensor, None]:
        return d_rows[0].index_select(0, ctx.order), None


def _reversed(states: Tensor, order: Tensor) -> Tensor:
    """Every sentence of (S, B, F) back to front, its padding left where it stands."""
    flipped: Tensor = _ReverseRows.apply(states.flatten(0, 1), order)  # type: ignore[no-untyped-call]
    return flipped.view(states.shape)


def _turned(words: EmbeddedWords, order: Tensor) -> EmbeddedWords:
    """The same of words (S, B)."""
    if words.places is None:
        return EmbeddedWords(_reversed(words.rows, order))
    return EmbeddedWords(words.rows, words.places.flatten()[order].view(words.places.shape))


def _reversal(mask: Tensor) -> Tensor:
    """Mask (B, S) -> the permutation of the S·B time-major rows that turns every sentence round."""
    batch, length = mask.shape
    lengths = mask.sum(1)
    positions = torch.arange(length, device=mask.device).unsqueeze(1)
    turned = torch.where(positions < lengths, lengths - 1 - positions, positions)  # (S, B)
    return (turned * batch + torch.arange(batch, device=mask.device)).flatten()


DIRECTIONS: dict[str, tuple[str, ...]] = {
    "bidirectional": ("forward", "backward"),
    "forward": ("forward",),
    "backward": ("backward",),
}


def has_torch_kernel(cell: Cell) -> bool:
    """Whether `torch_gru` computes this cell."""
    return isinstance(cell, GRU) and cell.b_candidate is not None


def torch_gru(x: Tensor, cell: Cell) -> Tensor:
    """x (S, B, E) -> h (S, B, H) of a gated unit with reset = after, by torch's kernel (cuDNN).

    Its row blocks are r, z, candidate, and its z takes the OLD state: 1 - σ(a) = σ(-a).
    """
    assert cell.b_candidate is not None

    def rows(weight: Tensor) -> Tensor:
        z, r, candidate = weight.chunk(3)
        return torch.cat([r, -z, candidate])

    b = torch.cat([cell.b.new_zeros(2 * cell.size), cell.b_candidate])
    weights = [rows(cell.W), rows(cell.U), rows(cell.b), b]
    initial = x.new_zeros((1, x.shape[1], cell.size))
    with torch.autocast(x.device.type, enabled=False):  # the state stays float32
        given, start = x.to(cell.W.dtype), initial.to(cell.W.dtype)
        learning = torch.is_grad_enabled()  # cuDNN keeps what the backward pass needs only then
        found: Tensor
        found, _ = torch.gru(given, start, weights, True, 1, 0.0, learning, False, False)
    return found


class Encoder(nn.Module):
    """One recurrence a direction; both run as one batched product a position."""

    def __init__(self, config: RNNConfig, kind: str = "bidirectional", cell: str = "gru") -> None:
        super().__init__()
        self.directions = DIRECTIONS[kind]
        self.size = config.encoder_hidden
        self.cells: list[Cell] = []
        for direction in self.directions:
            made = make_cell(cell, config.embedding, self.size, config.reset)
            self.add_module(f"{direction}_{cell}", made)
            self.cells.append(made)

    def forward(
        self, words: EmbeddedWords, mask: Tensor, dropout: Tensor | None, plain: bool
    ) -> Tensor:
        """Words (B, S), mask (B, S), dropout mask (directions, B, H) -> annotations.

        They are (B, S, 2H), forward before backward, or (B, S, H). The backward direction starts at
        the last real token, wherever the padding ends; at padding the annotations mean nothing.
        """
        order = _reversal(mask)
        forwards = words.transposed()
        read = [
            forwards if direction == "forward" else _turned(forwards, order)
            for direction in self.directions
        ]
        kernel = mask.is_cuda and dropout is None and has_torch_kernel(self.cells[0])
        if kernel and not plain:
            each = [torch_gru(x.embedded(), cell) for x, cell in zip(read, self.cells, strict=True)]
        else:
            parts = [x.linear(cell.W, cell.b) for x, cell in zip(read, self.cells, strict=True)]
            each = self._run(parts, dropout, recurrence_plain if plain else recurrence)
        ordered = [
            states if direction == "forward" else _reversed(states, order)
            for direction, states in zip(self.directions, each, strict=True)
        ]
        return torch.cat(ordered, dim=2).transpose(0, 1).contiguous()

    def _run(
        self, parts: list[Tensor], dropout: Tensor | None, run: Callable[..., Tensor]
    ) -> list[Tensor]:
        """What the cells get (S, B, 3H or 4H), a direction each -> their states (S, B, H).

        On a GPU side by side; a CPU has enough to do with one, and copies less.
        """
        groups = [slice(None)] if parts[0].is_cuda else [slice(g, g + 1) for g in range(len(parts))]
        states: list[Tensor] = []
        for group in groups:
            x = stack(parts[group])
            initial = x.new_zeros((len(x), x.shape[2], self.size))
            drop = None if dropout is None else dropout[group]
            found = run(x, initial, stacked(self.cells[group]), drop)  # (S, directions, B, H)
            states += found.unbind(1)
        return states

    def last(self, annotations: Tensor, mask: Tensor) -> list[Tensor]:
        """The state (B, H) that each direction ends in: forward's at the last real token."""
        found = []
        for g, direction in enumerate(self.directions):
            states = annotations[:, :, g * self.size : (g + 1) * self.size]
            if direction == "forward":
                rows = torch.arange(len(mask), device=mask.device)
                found.append(states[rows, mask.sum(1) - 1])
            else:
                found.append(states[:, 0])
        return found
