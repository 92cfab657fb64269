"""Lexical shortlists: search among the words that a sentence is likely to be translated by.

The output layer is the largest product of most models, and nearly all of its words have nothing to
do with the sentence. Jean et al. (2015, arXiv 1412.2007) search among the most frequent words and,
for each source word, the most probable in a lexical table; so does this.
Probabilities are those among a sentence's own words: what stands beside it in the batch changes
nothing.

Letters: B sentences, S source length, N translations of a word, V target vocabulary, U words that
any sentence of a batch may use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmtkit.vocabulary import EOS, SPECIALS, Vocabulary

COMMON = 100  # the most frequent words of the table's target side: every sentence may use them
EACH = 50  # translations of a source word


@dataclass(frozen=True)
class Listed:
    """The words of a batch; specials keep their ids as places."""

    words: Tensor  # (U,): ids, rising
    closed: Tensor  # (B, U): True where a sentence may not use the word

    def select(self, sentences: Tensor) -> Listed:
        """Go on with these sentences."""
        return Listed(self.words, self.closed[sentences])

    def places(self, ids: Sequence[int]) -> list[int]:
        """Where words that are listed stand."""
        if not ids:
            return []
        wanted = torch.tensor(ids, dtype=torch.long, device=self.words.device)
        found: list[int] = torch.searchsorted(self.words, wanted).tolist()
        return found


class Shortlist:
    """What the words of a source vocabulary may become."""

    def __init__(
        self, table: Mapping[str, Sequence[str]], source: Vocabulary, target: Vocabulary
    ) -> None:
        """`table`: source word -> target words, the most probable first; others have none.

        Raises ValueError when it has no translation between words of these vocabularies.
        """
        self.size = len(target)
        rows = torch.full((len(source), EACH), EOS)  # EOS may come anyway
        found: set[int] = set()
        for word, translations in table.items():
            if word not in source:
                continue
            ids = target.ids(one for one in translations if one in target)
            found.update(ids)
            kept = ids[:EACH]
            rows[source.ids([word])[0], : len(kept)] = torch.tensor(kept, dtype=torch.long)
        if not found:
            raise ValueError("it has no translation between words of the model's vocabularies")
        self.rows = rows
        # Ids fall in frequency; of a joint vocabulary some are the source's alone.
        self.common = torch.tensor([*range(len(SPECIALS)), *sorted(found)[:COMMON]])

    def of(self, source: Tensor, prefixes: Sequence[Sequence[int]] | None) -> Listed:
        """The words for source ids (B, S), each sentence's prefix among them."""
        device = source.device
        self.rows, self.common = self.rows.to(device), self.common.to(device)
        allowed = torch.zeros((len(source), self.size), dtype=torch.bool, device=device)
        allowed[:, self.common] = True
        allowed.scatter_(1, self.rows[source].flatten(1), True)
        if prefixes is not None and any(prefixes):
            for row, ids in zip(allowed, prefixes, strict=True):
                row[list(ids)] = True
        words = allowed.any(0).nonzero().squeeze(1)
        return Listed(words, ~allowed[:, words])
