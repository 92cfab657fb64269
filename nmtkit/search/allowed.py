"""Which words may come next: never PAD and BOS, the end where the room ends, forced prefixes.

Letters: B sentences (L of them still live), K hypotheses a sentence, P the longest prefix, S source
length, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.search.options import SearchOptions
from nmtkit.vocabulary import BOS, EOS, PAD, UNK

#: For every sentence the ids that its translation begins with, perhaps none.
Prefixes = Sequence[Sequence[int]]


class Allowed:
    """The rules of every live sentence, which depend on nothing but that sentence."""

    def __init__(self, mask: Tensor, options: SearchOptions, prefixes: Prefixes | None) -> None:
        """The source's mask (B, S); B prefixes without EOS, or None."""
        lengths = mask.sum(1) - 1  # without EOS
        #: (L,) places for words and EOS.
        self.limit = (lengths * options.max_ratio + options.max_extra).long()
        self._never = [PAD, BOS, UNK] if options.forbid_unknown else [PAD, BOS]
        self._prefixes: Tensor | None = None
        if prefixes is not None and any(prefixes):
            longest = max(map(len, prefixes))
            rows = [[*ids, *[PAD] * (longest - len(ids))] for ids in prefixes]
            self._prefixes = torch.tensor(rows, device=mask.device)
            least = (self._prefixes != PAD).sum(1) + options.max_extra
            self.limit = torch.where(self._prefixes[:, 0] != PAD, self.limit.max(least), self.limit)

    def __call__(self, log_probs: Tensor, length: int) -> None:
        """Set all other words of the place `length` (from 1) to -inf in log_probs (L, K, V)."""
        forced = chosen = None
        if self._prefixes is not None and length <= self._prefixes.shape[1]:
            forced = self._prefixes[:, length - 1].view(-1, 1, 1)
            chosen = log_probs.gather(2, forced.expand(-1, log_probs.shape[1], 1))
        log_probs[:, :, self._never] = -math.inf
        last = self.limit == length
        if last.any():  # nothing but the end may come here
            others = torch.arange(log_probs.shape[2], device=log_probs.device) != EOS
            log_probs.masked_fill_(last.view(-1, 1, 1) & others, -math.inf)
        if forced is not None and chosen is not None:  # an unknown word that is given is no guess
            log_probs.masked_fill_(forced != PAD, -math.inf)
            chosen = chosen.masked_fill(forced == PAD, -math.inf)
            log_probs.scatter_(2, forced.expand_as(chosen), chosen)

    def select(self, sentences: Tensor) -> None:
        """Go on with these sentences."""
        self.limit = self.limit[sentences]
        if self._prefixes is not None:
            self._prefixes = self._prefixes[sentences]
