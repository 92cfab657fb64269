"""How much of the source a hypothesis has attended to: Wu et al. (2016), section 7, eq. 14.

    cp = β Σ_j log min(Σ_i p_ij, 1)

over the source words j and all target places i so far, the end's among them. The source's end is no
word: nothing is missed where it had no attention. cp is 0 at most.

Letters: L live sentences, K places of the beam, S source length.
"""

from __future__ import annotations

import torch
from torch import Tensor

#: A word that had no attention at all counts as one that had this much, so that values are finite.
LEAST = 1e-10


class Coverage:
    """The attention that every source word has had, of every hypothesis in the beam."""

    def __init__(self, mask: Tensor, beam: int) -> None:
        """The source's mask (B, S)."""
        positions = torch.arange(mask.shape[1], device=mask.device)
        self._words = mask & (positions < mask.sum(1, keepdim=True) - 1)  # (L, S)
        self._sums = torch.zeros((len(mask), beam, mask.shape[1]), device=mask.device)

    def advance(self, attention: Tensor, parents: Tensor) -> None:
        """Every place takes its parent's (L, K) coverage, and the parent's attention (L·K, S)."""
        sums = self._sums + attention.view(self._sums.shape)
        self._sums = sums.gather(1, parents.unsqueeze(2).expand_as(sums))

    def log_sum(self) -> Tensor:
        """Σ_j log min(coverage of word j, 1), (L, K)."""
        covered = self._sums.clamp(LEAST, 1).log()
        return covered.masked_fill(~self._words.unsqueeze(1), 0.0).sum(2)

    def select(self, sentences: Tensor) -> None:
        """Go on with these sentences."""
        self._words, self._sums = self._words[sentences], self._sums[sentences]
