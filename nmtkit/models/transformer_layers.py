"""The parts of the Transformer: Vaswani et al. (2017, arXiv 1706.03762), sections 3.1 to 3.5.

    MultiHead(Q, K, V) = [head_1 ; … ; head_h] W_O,  head_k = softmax(q_k k_kᵀ / √d) v_k    (3.2.2)
    FeedForward(x) = max(0, x W_1 + b_1) W_2 + b_2                                          (eq. 2)
    PE(p, 2i) = sin(p / 10000^(2i/D)),  PE(p, 2i+1) = cos(p / 10000^(2i/D))                 (3.5)

Every block stands in a residual connection and reads the norm of its input, x + Block(Norm(x)):
pre-norm, which trains without the care that the paper's Norm(x + Block(x)) needs (Xiong et al.,
2020, arXiv 2002.04745).

Letters: B rows, T queries, S keys, D model size, h heads, d = D/h.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.products import Linear

#: Attention weights (B, h, t, S) worked out at a time, where they are asked for.
HELD = 1 << 24


def positions(begin: int, length: int, size: int, like: Tensor) -> Tensor:
    """The sinusoids of the positions `begin` … `begin + length - 1`, (length, D)."""
    place = torch.arange(begin, begin + length, dtype=like.dtype, device=like.device)
    pair = torch.arange(0, size, 2, dtype=like.dtype, device=like.device)
    angles = place.unsqueeze(1) * torch.exp(pair * (-math.log(10000) / size))
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)[:, :size]


def visible(mask: Tensor) -> Tensor:
    """Mask (B, S) -> what every head and query may look at, (B, 1, 1, S).

    Where a row is nothing but padding, all of it: a softmax over nothing is not a number.
    """
    return (mask | ~mask.any(1, keepdim=True))[:, None, None, :]


def attend_with_weights(
    queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, head: int, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`scaled_dot_product_attention`, and the weights that it keeps to itself.

    Queries (B, h, T, d), keys and values (B, h, S, d), `allowed` (B, 1, 1, S) -> contexts
    (B, h, T, d), and the weights (B, T, S) of the head `head`, from 1, or of all heads the mean, 0.
    `dropout` acts on the contexts only.
    """
    rows, count, _, size = queries.shape
    contexts, weights = [], []
    places = max(1, HELD // max(1, rows * count * keys.shape[2]))
    for part in torch.split(queries, places, 2):
        energies = (part * size**-0.5) @ keys.mT
        alpha = torch.softmax(energies.masked_fill(~allowed, -math.inf), 3)
        contexts.append(F.dropout(alpha, dropout) @ values)
        weights.append(alpha[:, head - 1] if head else alpha.mean(1))
    return torch.cat(contexts, 2), torch.cat(weights, 1)


class MultiHead(nn.Module):
    """A block of multi-head attention, with the norm of what it reads."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.norm = nn.LayerNorm(size)
        self.query = Linear(size, size)
        self.key = Linear(size, size)
        self.value = Linear(size, size)
        self.output = Linear(size, size)

    @property
    def dropout(self) -> float:
        """The rate at which attention weights are dropped."""
        return self.rate if self.training else 0.0

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, h, T, d), a view."""
        rows, length, size = x.shape
        return x.view(rows, length, self.heads, size // self.heads).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        """Contexts (B, h, T, d) -> what the block adds (B, T, D)."""
        joined: Tensor = self.output(x.transpose(1, 2).flatten(2))
        return joined


class SelfAttention(MultiHead):
    """Positions that look at one another."""

    def forward(self, x: Tensor, allowed: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D); `allowed` (B, 1, 1, T), or None: at none that comes later."""
        x = self.norm(x)
        queries, keys, values = (self.split(one(x)) for one in (self.query, self.key, self.value))
        found = F.scaled_dot_product_attention(
            queries, keys, values, allowed, self.dropout, is_causal=allowed is None
        )
        return self.join(found)

    def step(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The last of t positions, (R, 1, D) -> (R, 1, D).

        `keys` and `values` (R, t, D) are those of all positions; the last is filled in here.
        """
        x = self.norm(x)
        keys[:, -1:], values[:, -1:] = self.key(x), self.value(x)
        queries, keys, values = (self.split(one) for one in (self.query(x), keys, values))
        return self.join(F.scaled_dot_product_attention(queries, keys, values))


class SourceAttention(MultiHead):
    """Target positions that look at the source."""

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, head: int | None
    ) -> tuple[Tensor, Tensor | None]:
        """(B, T, D), keys and values (B, S, D), `allowed` (B, 1, 1, S) -> (B, T, D), weights.

        The weights (B, T, S) are those of `head`, as `attend_with_weights` has it; None: none.
        """
        sides = (self.split(one) for one in (self.query(self.norm(x)), keys, values))
        queries, keys, values = sides
        if head is None:
            found = F.scaled_dot_product_attention(queries, keys, values, allowed, self.dropout)
            return self.join(found), None
        found, weights = attend_with_weights(queries, keys, values, allowed, head, self.dropout)
        return self.join(found), weights


class FeedForward(nn.Module):
    """Two affine maps with a rectifier between them, at every position alike."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.inner = Linear(size, inner)
        self.outer = Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        """(…, D) -> (…, D)."""
        found: Tensor = self.outer(F.relu(self.inner(self.norm(x))))
        return found


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float, weights: float) -> None:
        """`dropout` is of what a block adds, `weights` of attention weights."""
        super().__init__()
        self.self_attention = SelfAttention(size, heads, weights)
        self.feed_forward = FeedForward(size, inner)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        """(B, S, D), `allowed` (B, 1, 1, S) -> (B, S, D)."""
        x = x + self.dropout(self.self_attention(x, allowed))
        found: Tensor = x + self.dropout(self.feed_forward(x))
        return found


class DecoderLayer(nn.Module):
    """Self-attention (`read`, `read_next`), then attention to the source and feed-forward."""

    def __init__(self, size: int, heads: int, inner: int, dropout: float, weights: float) -> None:
        """As for EncoderLayer."""
        super().__init__()
        self.self_attention = SelfAttention(size, heads, weights)
        self.source_attention = SourceAttention(size, heads, weights)
        self.feed_forward = FeedForward(size, inner)
        self.dropout = nn.Dropout(dropout)

    def read(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Self-attention over (B, T, D): of those `allowed` (B, 1, 1, T); None: of the past."""
        found: Tensor = x + self.dropout(self.self_attention(x, allowed))
        return found

    def read_next(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Self-attention of the last position alone: see `SelfAttention.step`."""
        found: Tensor = x + self.dropout(self.self_attention.step(x, keys, values))
        return found

    def look(
        self, x: Tensor, keys: Tensor, values: Tensor, allowed: Tensor, head: int | None
    ) -> tuple[Tensor, Tensor | None]:
        """What follows self-attention: arguments and weights as of SourceAttention."""
        found, weights = self.source_attention(x, keys, values, allowed, head)
        x = x + self.dropout(found)
        return x + self.dropout(self.feed_forward(x)), weights


class AlignmentHead(nn.Module):
    """One head more, that only aligns: energies q_i · k_j / √d of target and source positions."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.query = Linear(size, size // heads)
        self.key = Linear(size, size // heads)

    def forward(self, target: Tensor, annotations: Tensor) -> Tensor:
        """(B, T, D) and (B, S, D) -> energies (B, T, S), unmasked."""
        queries: Tensor = self.query(self.norm(target))
        keys: Tensor = self.key(annotations)
        energies: Tensor = queries @ keys.mT * queries.shape[2] ** -0.5
        return energies
