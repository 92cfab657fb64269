"""The bidirectional encoder of Bahdanau et al. (2015), section 3.2.

Letters: B sentences, S length, E embedding, H state a direction.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from nmtkit.models.recurrent import GRU, GRUWeights, gru, gru_plain
from nmtkit.models.rnn import RNNConfig


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


def _reversal(mask: Tensor) -> Tensor:
    """Mask (B, S) -> the permutation of the S·B time-major rows that turns every sentence round."""
    batch, length = mask.shape
    lengths = mask.sum(1)
    positions = torch.arange(length, device=mask.device).unsqueeze(1)
    turned = torch.where(positions < lengths, lengths - 1 - positions, positions)  # (S, B)
    return (turned * batch + torch.arange(batch, device=mask.device)).flatten()


class Encoder(nn.Module):
    """The bidirectional recurrence; both directions run as one batched product a position."""

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        self.forward_gru = GRU(config.embedding, config.encoder_hidden, config.reset)
        self.backward_gru = GRU(config.embedding, config.encoder_hidden, config.reset)

    def forward(
        self, embedded: Tensor, mask: Tensor, dropout: Tensor | None, plain: bool
    ) -> Tensor:
        """Embeddings (B, S, E), mask (B, S), dropout mask (2, B, H) -> annotations (B, S, 2H).

        The backward direction starts at the last real token, wherever the padding ends; at
        padding the annotations mean nothing.
        """
        order = _reversal(mask)
        forwards = embedded.transpose(0, 1).contiguous()
        directions = (self.forward_gru, self.backward_gru)
        inputs = (forwards, _reversed(forwards, order))
        x = torch.stack([unit.input_part(e) for unit, e in zip(directions, inputs, strict=True)])
        U = torch.stack((self.forward_gru.U, self.backward_gru.U))
        biases = tuple(u.b_candidate for u in directions if u.b_candidate is not None)
        weights = GRUWeights(U, torch.stack(biases) if biases else None)
        initial = x.new_zeros((2, x.shape[2], U.shape[2]))
        states = (gru_plain if plain else gru)(x, initial, weights, dropout)  # (S, 2, B, H)
        backwards = _reversed(states[:, 1], order)
        return torch.cat([states[:, 0], backwards], dim=2).transpose(0, 1).contiguous()
