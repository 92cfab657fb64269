"""All settings of `preprocess` that change what it writes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nmtkit.data import check_languages


@dataclass(frozen=True)
class PreprocessOptions:
    """Lengths (``max_length``, ``max_ratio``) count subwords without EOS: the model's own steps.

    So the limit is a promise to training about memory, whatever the segmentation.
    """

    source_lang: str
    target_lang: str
    train: tuple[str, ...]
    """PREFIX (for PREFIX.LANG and PREFIX.LANG.gz) or one .tsv file; several are concatenated."""
    valid: str | None = None
    """Like ``train``. Its lines are never dropped or reordered."""
    tokenizer: Literal["moses", "none"] = "moses"
    normalise: bool = False
    """Moses' punctuation normaliser before the tokeniser; translations keep its punctuation."""
    case: Literal["keep", "lower", "true"] = "keep"
    subwords: Literal["bpe", "none", "sentencepiece"] = "bpe"
    merges: int = 8000
    """BPE merges; for sentencepiece the number of pieces."""
    separate: bool = False
    """Learn codes (or pieces) for each side alone instead of one set for both."""
    joint_vocabulary: bool = False
    """One vocabulary, of both sides' subwords, for both: what tying all embeddings needs."""
    vocabulary_size: int | None = None
    """Shortlist: so many of the most frequent subwords a side, the rest is UNK; None: all."""
    vocabulary_threshold: int | None = None
    """Subwords seen less often in training are not in the vocabulary, and BPE never makes them
    (it undoes such merges); None: all, and BPE as learned."""
    max_length: int = 100
    """Pairs with more subwords than this on a side are dropped from training."""
    max_ratio: float = 9.0
    """Pairs are dropped from training when one side has more than so many times the other's."""
    deduplicate: bool = False
    """Keep only the first of pairs with equal tokens on both sides."""

    def __post_init__(self) -> None:
        check_languages(self.source_lang, self.target_lang)
        if not self.train:
            raise ValueError("train needs at least one file")
        for name in ("merges", "max_length", "vocabulary_size", "vocabulary_threshold"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not (math.isfinite(self.max_ratio) and self.max_ratio >= 1):
            raise ValueError(f"max_ratio must be at least 1, got {self.max_ratio}")
        if self.vocabulary_threshold is not None and self.subwords == "sentencepiece":
            raise ValueError("vocabulary_threshold has no meaning for sentencepiece pieces")
