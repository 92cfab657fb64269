"""Searching the target language: beam search, sampling and forced decoding, for any architecture
and for ensembles.
"""

from nmtkit.search.beam import beam_search
from nmtkit.search.ensemble import mean_probability
from nmtkit.search.forced import Forced, force_decode
from nmtkit.search.options import (
    LENGTH_NORMALISATIONS,
    WIDEST,
    Hypothesis,
    Sampling,
    SearchOptions,
    check_length_penalty,
)
from nmtkit.search.sampling import sample
from nmtkit.search.shortlist import Shortlist

__all__ = [
    "LENGTH_NORMALISATIONS",
    "WIDEST",
    "Forced",
    "Hypothesis",
    "Sampling",
    "SearchOptions",
    "Shortlist",
    "beam_search",
    "check_length_penalty",
    "force_decode",
    "mean_probability",
    "sample",
]
