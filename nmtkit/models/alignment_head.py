"""Additive attention between two sentences that are both known.

A decoder asks for y_i's partner before it knows y_i; to align, the whole target is there to read.
Here a bidirectional recurrence reads it, and each of its states g_i, with the word itself, queries
the annotations h_j, with theirs, as the decoder's state does (Bahdanau et al., 2015, A.1.2):

    e_ij = v_aᵀ tanh(W_a [g_i ; E y_i] + U_a [h_j ; E x_j] + b_a) / τ

One energy serves both directions: softmax over j says which source word target word i comes from,
softmax over i the reverse. The end of either sentence stands for "no partner".

Letters: B sentences, S source length, T target length (ends included), A attention units, E
embedding, C = 2H annotations.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmtkit.models.attention import AdditiveAttention, mask_bias
from nmtkit.models.encoder import Encoder
from nmtkit.models.products import linear
from nmtkit.models.rnn import RNNConfig
from nmtkit.models.tanh import energies_, energies_backward
from nmtkit.models.words import EmbeddedWords

#: Numbers of σ(…) (B, t, S, A) held at a time.
HELD = 1 << 22


def energies_plain(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """Reference: queries (B, T, A), keys (B, S, A), v (A,) -> vᵀ tanh(query + key), (B, T, S)."""
    return torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1)).matmul(v)


class _Energies(torch.autograd.Function):
    """Some target positions at a time; the backward pass works them out again."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(queries, keys, v)
        doubled = (2 * keys).unsqueeze(1)
        parts = [
            energies_((2 * part).unsqueeze(2) + doubled, v)[0] for part in _parts(queries, keys)
        ]
        return torch.cat(parts, 1)

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, d_energies: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, v = ctx.saved_tensors
        d_queries, d_keys, d_v = [], torch.zeros_like(keys), torch.zeros_like(v)
        parts = _parts(queries, keys)
        doubled = (2 * keys).unsqueeze(1)
        begin = 0
        for part in parts:
            d = d_energies[:, begin : begin + part.shape[1]]
            begin += part.shape[1]
            logistic = ((2 * part).unsqueeze(2) + doubled).sigmoid_()
            inner, of_v = energies_backward(d, logistic)
            d_v += of_v
            d_queries.append(inner.sum(2))
            d_keys += inner.sum(1)
        return torch.cat(d_queries, 1) * (4 * v), d_keys * (4 * v), d_v


def _parts(queries: Tensor, keys: Tensor) -> tuple[Tensor, ...]:
    return torch.split(queries, max(1, HELD // max(1, keys.numel())), 1)


def energies(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """`energies_plain` with bounded memory."""
    found: Tensor = _Energies.apply(queries, keys, v)
    return found


class AlignmentHead(nn.Module):
    """See the module's docstring."""

    def __init__(
        self, config: RNNConfig, annotation: int, units: int, temperature: float, cell: str
    ) -> None:
        super().__init__()
        self.reader = Encoder(config, cell=cell)
        query = 2 * config.encoder_hidden + config.embedding
        key = annotation + config.embedding
        self.attention = AdditiveAttention(query, key, units, temperature)

    def forward(
        self,
        source: Tensor,
        annotations: Tensor,
        source_mask: Tensor,
        target: Tensor,
        target_mask: Tensor,
        dropout: Tensor | None = None,
        plain: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Embeddings (B, S, E) and (B, T, E), annotations (B, S, C), masks (B, S) and (B, T).

        `dropout` (2, B, H) is the reader's. Returns the log-attention of target positions over the
        source and of source positions over the target, (B, T, S) both: their exponentials sum to 1
        over S, and over T.
        """
        read = self.reader(EmbeddedWords(target), target_mask, dropout, plain)
        queries = linear(torch.cat([read, target], 2), self.attention.W_a)
        keys = self.attention.keys(torch.cat([annotations, source], 2))
        found = (energies_plain if plain else energies)(queries, keys, self.attention.scale())
        forward = found + mask_bias(source_mask, found.dtype).unsqueeze(1)
        backward = found + mask_bias(target_mask, found.dtype).unsqueeze(2)
        return torch.log_softmax(forward, 2), torch.log_softmax(backward, 1)
