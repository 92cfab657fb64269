"""Additive attention, the alignment model of Bahdanau et al. (2015), appendix A.1.2.

e_ij = v_aᵀ tanh(W_a s + U_a h_j + b_a) / τ;  α_i = softmax_j over real tokens;  c_i = Σ_j α_ij h_j

With coverage (Tu et al., "Modeling coverage for neural machine translation", 2016, eq. 6, in the
simple form without fertilities), V_c Σ_{k<i} α_kj stands inside the tanh as well. The temperature τ
is 1 in the paper; below 1 it sharpens the attention.

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

    def __init__(
        self,
        state_size: int,
        annotation_size: int,
        units: int,
        temperature: float = 1.0,
        coverage: bool = False,
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.W_a = nn.Parameter(torch.empty(units, state_size))
        self.U_a = nn.Parameter(torch.empty(units, annotation_size))
        self.b_a = nn.Parameter(torch.empty(units))
        self.v_a = nn.Parameter(torch.empty(units))
        self.V_c = nn.Parameter(torch.empty(units)) if coverage else None

    def scale(self) -> Tensor:
        """v_a / τ, (A,)."""
        return self.v_a / self.temperature

    def keys(self, annotations: Tensor) -> Tensor:
        """Annotations (B, S, C) -> U_a h_j + b_a, (B, S, A)."""
        return F.linear(annotations, self.U_a, self.b_a)

    def forward(
        self,
        query: Tensor,
        keys: Tensor,
        annotations: Tensor,
        mask: Tensor,
        coverage: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """States (B·K, D) that share keys (B, S, A), annotations (B, S, C), mask (B, S).

        `coverage` (B·K, S): the attention that every source word has had so far.
        Returns the context vectors (B·K, C) and the weights α (B·K, S).
        """
        sentences, length, units = keys.shape
        queries = F.linear(query, self.W_a).view(sentences, -1, 1, units)  # (B, K, 1, A)
        hidden = keys.unsqueeze(1) + queries
        if self.V_c is not None and coverage is not None:
            hidden = hidden + coverage.view(sentences, -1, length, 1) * self.V_c
        scores = torch.tanh(hidden).matmul(self.scale())  # (B, K, S)
        scores = scores + mask_bias(mask, scores.dtype).unsqueeze(1)
        weights = torch.softmax(scores, dim=2)
        contexts = torch.bmm(weights, annotations)
        return contexts.flatten(0, 1), weights.view(-1, length)
