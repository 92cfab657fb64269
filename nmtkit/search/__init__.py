"""Searching the target language: beam search, sampling and forced decoding, for any architecture
and for ensembles.
"""

from nmtkit.search.beam import beam_search
from nmtkit.search.ensemble import mean_probability
from nmtkit.search.forced import Forced, force_decode
from nmtkit.search.options import WIDEST, Hypothesis, Sampling, SearchOptions
from nmtkit.search.sampling import sample

__all__ = [
    "WIDEST",
    "Forced",
    "Hypothesis",
    "Sampling",
    "SearchOptions",
    "beam_search",
    "force_decode",
    "mean_probability",
    "sample",
]
