"""Additive attention, the alignment model of Bahdanau et al. (2015), appendix A.1.2.

e_ij = v_aᵀ tanh(W_a s + U_a h_j + b_a);  α_i = softmax_j over the real tokens;  c_i = Σ_j α_ij h_j

Letters: B sentences, K hypotheses a sentence, S source length, A attention units, D decoder
state, C = 2H annotation size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mask_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask (B, S), True = real -> what to add to the scores: 0, or the lowest number at padding."""
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return bias.masked_fill_(~mask, torch.finfo(dtype).min)


class AdditiveAttention(nn.Module):
    """The alignment MLP; its source side U_a h_j is computed once a sentence (`keys`)."""

    def __init__(self, state_size: int, annotation_size: int, units: int) -> None:
        super().__init__()
        self.W_a = nn.Parameter(torch.empty(units, state_size))
        self.U_a = nn.Parameter(torch.empty(units, annotation_size))
        self.b_a = nn.Parameter(torch.empty(units))
        self.v_a = nn.Parameter(torch.empty(units))

    def keys(self, annotations: Tensor) -> Tensor:
        """Annotations (B, S, C) -> U_a h_j + b_a, (B, S, A)."""
        return F.linear(annotations, self.U_a, self.b_a)

    def forward(
        self, query: Tensor, keys: Tensor, annotations: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """States (B·K, D) that share keys (B, S, A), annotations (B, S, C), mask (B, S).

        Returns the context vectors (B·K, C) and the weights α (B·K, S).
        """
        sentences, length, units = keys.shape
        queries = F.linear(query, self.W_a).view(sentences, -1, 1, units)  # (B, K, 1, A)
        scores = torch.tanh(keys.unsqueeze(1) + queries).matmul(self.v_a)  # (B, K, S)
        scores = scores + mask_bias(mask, scores.dtype).unsqueeze(1)
        weights = torch.softmax(scores, dim=2)
        contexts = torch.bmm(weights, annotations)
        return contexts.flatten(0, 1), weights.view(-1, length)
