"""How to search, and what a search finds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from nmtkit.errors import unknown

Length = TypeVar("Length", float, Tensor)


def _power(length: Length, exponent: float) -> Length:
    result: Length = length**exponent
    return result


def _gnmt(length: Length, exponent: float) -> Length:
    """Wu et al. (2016), section 7, eq. 14."""
    result: Length = ((5 + length) / 6) ** exponent
    return result


#: What the log-probability of a hypothesis is divided by; 1 or more, and rising with the length.
LENGTH_NORMALISATIONS: dict[str, Callable[[Length, float], Length]] = {
    "power": _power,
    "gnmt": _gnmt,
}

#: The most hypotheses a sentence; far beyond what helps, and short of what no memory holds.
WIDEST = 1000


#: The largest exponent; far beyond what helps, and short of what no number holds.
STEEPEST = 20


def check_length_penalty(exponent: float) -> None:
    """ValueError unless lengths can be raised to it."""
    if not 0 <= exponent <= STEEPEST:  # nor NaN
        raise ValueError(f"length_penalty must be from 0 to {STEEPEST}, got {exponent}")


@dataclass(frozen=True)
class Sampling:
    """How words are drawn: from the softmax of log-probability / temperature."""

    temperature: float = 1.0
    top_k: int = 0  # only from so many most probable words; 0: from all
    seed: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be above 0, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (all words) or more, got {self.top_k}")
        if self.seed < 0:
            raise ValueError(f"seed must be 0 or more, got {self.seed}")


@dataclass(frozen=True)
class SearchOptions:
    """How to search. Lengths count the end of sentence."""

    beam: int = 5
    #: The exponent of length normalisation; hypotheses are ranked by their log-probability over
    #: length ** length_penalty, or as another of LENGTH_NORMALISATIONS says …
    length_penalty: float = 1.0
    length_normalisation: str = "power"
    #: … plus so many times the sum of the log-attention that each source word has had, 1 at most.
    coverage_penalty: float = 0.0
    n_best: int = 1
    #: The longest output of a source of n subwords: max_ratio · n + max_extra.
    max_ratio: float = 3.0
    max_extra: int = 10
    #: Stop a sentence once what is left in its beam cannot change its n best.
    early_stop: bool = True
    #: What each better continuation of the same hypothesis costs the next one (Li et al., 2016).
    diversity: float = 0.0
    forbid_unknown: bool = False
    #: Draw n_best hypotheses instead of searching for them; beam then has no meaning.
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= WIDEST:
            raise ValueError(f"beam must be from 1 to {WIDEST}, got {self.beam}")
        if self.sampling is None and not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must be from 1 to beam ({self.beam}), got {self.n_best}")
        if not 1 <= self.n_best <= WIDEST:
            raise ValueError(f"n_best must be from 1 to {WIDEST}, got {self.n_best}")
        check_length_penalty(self.length_penalty)
        if self.length_normalisation not in LENGTH_NORMALISATIONS:
            raise unknown("length normalisation", self.length_normalisation, LENGTH_NORMALISATIONS)
        if not (math.isfinite(self.coverage_penalty) and self.coverage_penalty >= 0):
            raise ValueError(f"coverage_penalty must be 0 or more, got {self.coverage_penalty}")
        if not (math.isfinite(self.max_ratio) and self.max_ratio >= 0 and self.max_extra >= 1):
            raise ValueError("max_ratio must be 0 or more and max_extra at least 1")
        if not (math.isfinite(self.diversity) and self.diversity >= 0):
            raise ValueError(f"diversity must be 0 or more, got {self.diversity}")
        if self.diversity and self.sampling is not None:
            raise ValueError("diversity must be 0 where hypotheses are drawn: it is of beams")
        if self.coverage_penalty and self.sampling is not None:
            raise ValueError(
                "coverage_penalty must be 0 where hypotheses are drawn: it is of beams"
            )

    def divisor(self, length: Length) -> Length:
        """What the log-probability of so many places, EOS among them, is divided by."""
        return LENGTH_NORMALISATIONS[self.length_normalisation](length, self.length_penalty)


@dataclass(frozen=True)
class Hypothesis:
    """ids without EOS; log_prob in nats, EOS included; value: what the ranking used.

    log_prob is the models' own whatever was forbidden, forced, penalised or sharpened; with a
    shortlist it is that among its words.
    """

    ids: tuple[int, ...]
    log_prob: float
    value: float
