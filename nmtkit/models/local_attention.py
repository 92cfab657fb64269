"""Local attention of Luong, Pham and Manning (2015, arXiv 1508.04025), section 3.2.

Target position t looks at the source positions s with |s - p_t| ≤ D (`window_size`), and at no
others: keys and annotations outside of the window are not read.

    local-m   p_t = t, or the sentence's last position where it is shorter
              a_t(s) = softmax_s score(h_t, h_s)                     over the window  (eq. 7)
    local-p   p_t = S · sigmoid(v_pᵀ tanh(W_p h_t))                                   (eq. 9)
              a_t(s) = softmax_s score(h_t, h_s) · exp(-(s - p_t)² / (2σ²)), σ = D/2  (eq. 10)
    c_t = Σ_s a_t(s) h_s

Positions count from 0, in the order of the sentence. S is the sentence's own length, its end
included; of a window that leaves the sentence, the part inside is used. As in the paper, the
Gaussian is multiplied in after the softmax, so that local-p's a_t sums to less than 1 in c_t; what
is told of the attention to others is a_t / Σ_s a_t(s), a distribution.

Letters: B sentences, K queries a sentence (hypotheses, or all target positions), S source length,
W window columns, D decoder state, C annotation size, X key size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.attention import make_score
from nmtkit.models.products import linear


class LocalAttention(nn.Module):
    """See the module's docstring; `predictive` is local-p. The score must read keys."""

    def __init__(
        self, score: str, state: int, annotation: int, units: int, window: int, predictive: bool
    ) -> None:
        super().__init__()
        self.window = window
        self.score = make_score(score, state, annotation, units, 1.0, False)
        self.W_p = nn.Parameter(torch.empty(state, state)) if predictive else None
        self.v_p = nn.Parameter(torch.empty(state)) if predictive else None

    def keys(self, annotations: Tensor) -> Tensor:
        """Annotations (B, S, C) -> keys (B, S, X), once a sentence."""
        return self.score.keys(annotations)

    def centres(self, query: Tensor, positions: Tensor, lengths: Tensor) -> Tensor:
        """States (B, K, D), target positions (B, K), own lengths (B, 1) -> p_t (B, K)."""
        if self.W_p is None or self.v_p is None:
            return torch.minimum(positions, lengths - 1).to(query.dtype)
        inner = torch.tanh(linear(query, self.W_p))
        # The sum outside of bfloat16, in which positions beyond a few words are not exact.
        place = (inner * self.v_p).to(torch.promote_types(query.dtype, torch.float32)).sum(2)
        return lengths * torch.sigmoid(place)

    def forward(
        self, query: Tensor, keys: Tensor, annotations: Tensor, mask: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor]:
        """States (B, K, D) at target positions (B, K), keys (B, S, X), annotations (B, S, C), mask
        (B, S) -> contexts (B, K, C), attention (B, K, S).
        """
        length = keys.shape[1]
        lengths = mask.sum(1).unsqueeze(1)
        centres = self.centres(query, positions, lengths).unsqueeze(2)
        columns, inside = self.columns(centres, lengths.unsqueeze(2), length)  # (B, K, W)
        shared = columns.shape[2] == length  # windows for the whole source are one for all queries
        if shared:
            energies = self.score(query, keys)
        else:
            energies = self.score(query.flatten(0, 1).unsqueeze(1), _read(keys, columns))
        lowest = torch.finfo(energies.dtype).min
        weights = energies.view(columns.shape).masked_fill(~inside, lowest).softmax(2)
        if self.W_p is not None:
            distance = (columns - centres) / self.window
            weights = weights * torch.exp(-2 * distance * distance) * inside
        attention = weights / weights.sum(2, keepdim=True)
        if shared:
            return torch.bmm(weights.to(annotations.dtype), annotations), attention
        read = _read(annotations, columns)
        contexts = torch.bmm(weights.to(read.dtype).flatten(0, 1).unsqueeze(1), read)
        everywhere = attention.new_zeros((*query.shape[:2], length))
        # Columns that repeat the last one have no weight.
        attention = everywhere.scatter_add(2, columns, attention)
        return contexts.view(*query.shape[:2], -1), attention

    def columns(self, centres: Tensor, lengths: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Centres (B, K, 1), own lengths (B, 1, 1), S -> the source positions to read, and which
        of them are in the window, both (B, K, W), W = min(2D + 1, S).

        Only where W = S are positions outside of the window among them; else its last one stands
        for those that it has less than W.
        """
        centres = centres.detach()
        first = torch.ceil(centres - self.window).long().clamp_min(0)
        last = torch.floor(centres + self.window).long().clamp_min(0).minimum(lengths - 1)
        width = min(2 * self.window + 1, length)
        columns = torch.arange(width, device=centres.device)
        if width == length:
            columns = columns.expand(*centres.shape[:2], -1)
            return columns, (columns >= first) & (columns <= last)
        columns = first + columns
        return columns.minimum(last), columns <= last


def _read(rows: Tensor, columns: Tensor) -> Tensor:
    """Rows (B, S, X) at columns (B, K, W) -> (B·K, W, X)."""
    sentences, length, size = rows.shape
    begins = length * torch.arange(sentences, device=rows.device)
    places = (columns + begins.view(-1, 1, 1)).flatten(0, 1)
    return F.embedding(places, rows.reshape(-1, size))  # its gradient is faster than gather's
