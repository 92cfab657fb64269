"""The embedded words of a batch, and what matrices make of them.

A batch holds the same words again and again. On a CPU, where the matrix products are nearly all of
an update, each distinct one is multiplied once and then looked up: W E x for the distinct x, at
every place of x. The gradient comes together in the same way, a sum for each distinct word before
it meets a matrix. Numbers that dropout makes different at every place leave nothing to share.

Letters: U distinct words, E embedding, G rows of a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.models.products import ROWS, linear
from nmtkit.models.seq2seq import Chosen, at
from nmtkit.vocabulary import PAD

#: Looking up is worth it when at most this share of a batch's words is distinct.
MOST_DISTINCT = 0.8


def distinct(ids: Tensor) -> tuple[Tensor, Tensor] | None:
    """Ids (…) -> the distinct ones (U,), perhaps some PAD, and at every place which it is (…).

    None where that gains nothing; on CUDA, where it would wait for the device.
    """
    if not ids.is_cpu:
        return None
    found, places = torch.unique(ids, return_inverse=True)
    most = int(MOST_DISTINCT * ids.numel())
    if len(found) > most:
        return None
    more = -len(found) % ROWS  # words that are nowhere, so that there are few shapes
    return F.pad(found, (0, more if len(found) + more <= most else 0), value=PAD), places


@dataclass(frozen=True)
class EmbeddedWords:
    """Embeddings (…, E) in any order of their places."""

    rows: Tensor  # (U, E) with `places`; without, (…, E)
    places: Tensor | None = None  # (…): the row of each

    def embedded(self) -> Tensor:
        """The embeddings themselves, (…, E)."""
        return self.rows if self.places is None else F.embedding(self.places, self.rows)

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Weight (G, E), bias (G,) -> W E x + b, (…, G)."""
        found = linear(self.rows, weight, bias)
        return found if self.places is None else F.embedding(self.places, found)

    def transposed(self) -> EmbeddedWords:
        """(B, T) <-> (T, B)."""
        if self.places is None:
            return EmbeddedWords(self.rows.transpose(0, 1).contiguous())
        return replace(self, places=self.places.t().contiguous())

    def at(self, chosen: Chosen | None) -> EmbeddedWords:
        """Those at the chosen targets (N,), of (B, T)."""
        if self.places is None:
            return EmbeddedWords(at(chosen, self.rows))
        return replace(self, places=at(chosen, self.places))

    def following(self) -> EmbeddedWords:
        """Of (T, B): at every place the next word of its sentence; zeros at the last."""
        if self.places is None:
            return EmbeddedWords(torch.cat([self.rows[1:], torch.zeros_like(self.rows[:1])]))
        nothing = torch.full_like(self.places[:1], len(self.rows))
        rows = torch.cat([self.rows, torch.zeros_like(self.rows[:1])])
        return EmbeddedWords(rows, torch.cat([self.places[1:], nothing]))
