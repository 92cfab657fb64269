"""Scores: translations against references (sacrebleu), links against gold links (AER)."""

from nmtkit.score.links import (
    AlignmentScore,
    PairFile,
    Sentence,
    in_parallel,
    score_links,
    score_sentence,
    text_file,
)
from nmtkit.score.text import (
    DETAILS,
    METRICS,
    TOKENISED_LINES,
    TOKENIZERS,
    Score,
    TextOptions,
    Texts,
    looks_tokenised,
    score_text,
)

__all__ = [
    "DETAILS",
    "METRICS",
    "TOKENISED_LINES",
    "TOKENIZERS",
    "AlignmentScore",
    "PairFile",
    "Score",
    "Sentence",
    "TextOptions",
    "Texts",
    "in_parallel",
    "looks_tokenised",
    "score_links",
    "score_sentence",
    "score_text",
    "text_file",
]
