"""Attention: an energy for every source position, a distribution over them, a context vector.

e_ij = score(s, h_j) / τ;  α_i = softmax_j over real tokens;  c_i = Σ_j α_ij h_j

The scores, for a decoder state s and an annotation h_j:

    additive   v_aᵀ tanh(W_a s + U_a h_j + b_a)     Bahdanau et al. (2015), A.1.2
    dot        sᵀ h_j                               Luong et al. (2015, arXiv 1508.04025), 3.1
    general    sᵀ W_a h_j                           Luong et al., 3.1
    concat     v_aᵀ tanh(W_a [s ; h_j])             Luong et al., 3.1
    location   (W_a s)_j                            Luong et al., eq. 8

With coverage (Tu et al., "Modeling coverage for neural machine translation", 2016, eq. 6, in the
simple form without fertilities), V_c Σ_{k<i} α_kj stands inside the additive tanh as well. The
temperature τ is 1 in the papers; below 1 it sharpens the attention.

Letters: B sentences, K hypotheses a sentence, S source length, A attention units, D decoder
state, C annotation size, X key size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.products import linear
from nmtkit.models.tanh import energies_

#: Source positions that `location` has an energy for; words after them get no attention.
LOCATIONS = 100


def mask_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask (B, S), True = real -> what to add to the scores: 0, or the lowest number at padding."""
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return bias.masked_fill_(~mask, torch.finfo(dtype).min)


class Form(NamedTuple):
    """A score in one of the two forms of energy that `attending.py` runs."""

    keys: Tensor
    W_a: Tensor | None = None
    v_a: Tensor | None = None
    V_c: Tensor | None = None


class Score(nn.Module):
    """How well a decoder state and an annotation go together."""

    temperature: float = 1.0

    def keys(self, annotations: Tensor) -> Tensor:
        """Annotations (B, S, C) -> what the energies need of them, (B, S, X), once a sentence."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """States (B, K, D) that share keys (B, S, X) -> energies / τ (B, K, S), unmasked.

        `coverage` (B, K, S): the attention that every source word has had so far; only the
        additive score looks at it.
        """
        raise NotImplementedError

    def form(self, keys: Tensor) -> Form:
        """The same energies, τ included, for a whole loop over states; keys (B, S, X)."""
        raise NotImplementedError

    def visible(self, mask: Tensor) -> Tensor:
        """Mask (B, S) -> the real tokens that have energies, (B, S)."""
        return mask


class AdditiveAttention(Score):
    """The alignment MLP; its source side U_a h_j is computed once a sentence."""

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
        return linear(annotations, self.U_a, self.b_a)

    def forward(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        return self.energies(linear(query, self.W_a), keys, coverage)

    def energies(self, queries: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        """The same from W_a s (B, K, A)."""
        doubled = (2 * keys).unsqueeze(1) + (2 * queries).unsqueeze(2)  # (B, K, S, A)
        if self.V_c is not None and coverage is not None:
            doubled = doubled + coverage.unsqueeze(3) * (2 * self.V_c)
        return energies_(doubled, self.scale())[0]

    def form(self, keys: Tensor) -> Form:
        return Form(keys, self.W_a, self.scale(), self.V_c)


class ConcatScore(Score):
    """The additive score without a bias, its two matrices written as one, (A, D+C)."""

    def __init__(self, state_size: int, annotation_size: int, units: int) -> None:
        super().__init__()
        self.state_size = state_size
        self.W_a = nn.Parameter(torch.empty(units, state_size + annotation_size))
        self.v_a = nn.Parameter(torch.empty(units))

    def keys(self, annotations: Tensor) -> Tensor:
        return linear(annotations, self.W_a[:, self.state_size :])

    def forward(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        queries = linear(query, self.W_a[:, : self.state_size])
        doubled = (2 * keys).unsqueeze(1) + (2 * queries).unsqueeze(2)  # (B, K, S, A)
        return energies_(doubled, self.v_a / self.temperature)[0]

    def form(self, keys: Tensor) -> Form:
        return Form(keys, self.W_a[:, : self.state_size], self.v_a / self.temperature)


class DotScore(Score):
    """No parameters: state and annotation must be of one size."""

    def __init__(self, state_size: int, annotation_size: int, units: int) -> None:
        super().__init__()
        check_score("dot", state_size, annotation_size)

    def keys(self, annotations: Tensor) -> Tensor:
        return annotations

    def forward(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        return torch.bmm(query, keys.mT) / self.temperature

    def form(self, keys: Tensor) -> Form:
        return Form(keys / self.temperature)


class GeneralScore(DotScore):
    """A bilinear form; its W_a h_j is computed once a sentence."""

    def __init__(self, state_size: int, annotation_size: int, units: int) -> None:
        super().__init__(state_size, state_size, units)
        self.W_a = nn.Parameter(torch.empty(state_size, annotation_size))

    def keys(self, annotations: Tensor) -> Tensor:
        return linear(annotations, self.W_a)


class LocationScore(Score):
    """Energies from the state alone: a row of W_a (LOCATIONS, D) for every source position."""

    def __init__(self, state_size: int, annotation_size: int, units: int) -> None:
        super().__init__()
        self.W_a = nn.Parameter(torch.empty(LOCATIONS, state_size))

    def keys(self, annotations: Tensor) -> Tensor:
        """Nothing but the source's length: (B, S, 0)."""
        return annotations[:, :, :0]

    def forward(self, query: Tensor, keys: Tensor, coverage: Tensor | None = None) -> Tensor:
        length = keys.shape[1]
        energies = linear(query, self.W_a[:length]) / self.temperature
        lowest = torch.finfo(energies.dtype).min
        return F.pad(energies, (0, max(0, length - LOCATIONS)), value=lowest)

    def form(self, keys: Tensor) -> Form:
        batch, length, _ = keys.shape
        rows = F.pad(self.W_a[:length], (0, 0, 0, max(0, length - LOCATIONS))) / self.temperature
        return Form(rows.expand(batch, -1, -1).contiguous())

    def visible(self, mask: Tensor) -> Tensor:
        return mask & (torch.arange(mask.shape[1], device=mask.device) < LOCATIONS)


#: (state size D, annotation size C, units A) -> the score; ValueError where sizes do not fit.
SCORES: dict[str, Callable[[int, int, int], Score]] = {
    "additive": AdditiveAttention,
    "dot": DotScore,
    "general": GeneralScore,
    "concat": ConcatScore,
    "location": LocationScore,
}


def check_score(name: str, state: int, annotation: int, coverage: bool = False) -> None:
    """ValueError where the sizes, or coverage, do not go with the score."""
    if name == "dot" and state != annotation:
        raise ValueError(
            "attention = dot needs a decoder state as large as an annotation, but they have "
            f"{state} and {annotation} numbers: change hidden, or say attention = general"
        )
    if coverage and name != "additive":
        raise ValueError(f"coverage goes with attention = additive, not with {name}")


def make_score(
    name: str, state: int, annotation: int, units: int, temperature: float, coverage: bool
) -> Score:
    """The score of SCORES; ValueError where the sizes, or coverage, do not go with it."""
    check_score(name, state, annotation, coverage)
    if coverage:
        return AdditiveAttention(state, annotation, units, temperature, coverage)
    score = SCORES[name](state, annotation, units)
    score.temperature = temperature
    return score


def attend(energies: Tensor, annotations: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Energies (B, K, S), annotations (B, S, C), mask (B, S) -> contexts (B·K, C), α (B·K, S)."""
    bias = mask_bias(mask, energies.dtype).unsqueeze(1)
    weights = torch.softmax(energies + bias, dim=2)
    return torch.bmm(weights, annotations).flatten(0, 1), weights.flatten(0, 1)


class Attention(nn.Module):
    """A score and what attention makes of it."""

    def __init__(
        self,
        score: str,
        state: int,
        annotation: int,
        units: int,
        temperature: float = 1.0,
        coverage: bool = False,
    ) -> None:
        super().__init__()
        self.score = make_score(score, state, annotation, units, temperature, coverage)

    def keys(self, annotations: Tensor) -> Tensor:
        """Annotations (B, S, C) -> keys (B, S, X), once a sentence."""
        return self.score.keys(annotations)

    def forward(
        self,
        query: Tensor,
        keys: Tensor,
        annotations: Tensor,
        mask: Tensor,
        coverage: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """States (B·K, D) that share keys (B, S, X), annotations (B, S, C), mask (B, S).

        `coverage` (B·K, S): the attention that every source word has had so far.
        Returns the context vectors (B·K, C) and the weights α (B·K, S).
        """
        sentences, length = mask.shape
        seen = None if coverage is None else coverage.view(sentences, -1, length)
        energies = self.score(query.view(sentences, -1, query.shape[-1]), keys, seen)
        return attend(energies, annotations, mask)
