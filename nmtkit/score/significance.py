"""Is a difference in AER more than chance? Resampling over sentence pairs.

The corpus AER is computed anew from summed counts for every resample; it is no mean of sentences.

- **Interval** (Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation"):
  R times, as many sentence pairs as there are are drawn with replacement. The 95 % interval is
  what is left of the R values when the R/40 (rounded down) smallest and as many largest are
  dropped.
- **Paired approximate randomisation** (Riezler and Maxwell, 2005, "On Some Pitfalls in Automatic
  Evaluation and Significance Testing for MT"): if two systems are equally good, it does not matter
  whose links a sentence pair has. R times, the systems' links are exchanged in every sentence pair
  with probability ½; p is how often the difference is then at least as large as the observed one.
- **Paired bootstrap**: the same resamples for both systems; p is how often the resampled difference
  is at least as far from the observed one as that is from 0 (two-sided; one-sided in
  Berg-Kirkpatrick, Burkett and Klein, 2012; sacrebleu shifts |difference| by its mean instead).

Both p-values are (c + 1) / (R + 1) for c such cases in R: never 0, and 1 for equal systems. Riezler
and Maxwell found the bootstrap more ready to take chance for a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nmtkit.errors import UserError, unknown
from nmtkit.score.links import AlignmentScore

# (sentences, 2): a sentence pair's errors (wrong + missed) and |A| + |S|; their sums' ratio is AER
Counts = npt.NDArray[np.int64]
Rates = npt.NDArray[np.float64]

FEWEST = 100  # resamples; fewer say nothing about 2.5 % at either end
ROUNDING = 1e-12  # two ways to the same difference may differ by this


def check_resamples(resamples: int) -> None:
    """Raise UserError for too few."""
    if resamples < FEWEST:
        raise UserError(f"{resamples} resamples are too few: use {FEWEST} or more")


@dataclass(frozen=True)
class Resampling:
    """``test`` is one of ``TESTS``. Raises UserError for another, or for too few resamples."""

    resamples: int = 1000
    test: str = "randomisation"
    seed: int = 1

    def __post_init__(self) -> None:
        check_resamples(self.resamples)
        if self.seed < 0:
            raise UserError(f"seed must be 0 or more, got {self.seed}")
        if self.test not in TESTS:
            raise unknown("test", self.test, TESTS)


@dataclass(frozen=True)
class Interval:
    """The 95 % bootstrap interval of a number, and how to compute it again."""

    low: float
    high: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class Paired:
    """One system's AER minus another's; and how probable one as large is if they are equals."""

    difference: float
    interval: Interval
    p: float
    test: str


def error_counts(scores: Sequence[AlignmentScore]) -> Counts:
    """What AER needs of every sentence pair: (sentences, 2)."""
    return np.array([(one.errors, one.links + one.sure) for one in scores], np.int64)


def corpus_aer(sums: npt.NDArray[Any]) -> Rates:
    """(…, 2) summed counts -> (…) AER; 0 where there was neither a link nor a sure one."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1), np.float64)


def bootstrap(counts: Counts, resampling: Resampling) -> Rates:
    """The AER of every resample (resamples,).

    What is drawn depends on the seed and the number of sentence pairs only: two systems have the
    same resamples, and a system's numbers do not depend on which others are scored beside it.
    """
    generator = np.random.default_rng(resampling.seed)
    n = len(counts)
    # A row at a time: all at once would take resamples x sentences of memory.
    draws = (generator.integers(n, size=n) for _ in range(resampling.resamples))
    return corpus_aer(np.array([counts[draw].sum(axis=0) for draw in draws]))


def aer_interval(counts: Counts, resampling: Resampling) -> Interval:
    """Where a system's AER lies."""
    return _interval(bootstrap(counts, resampling), resampling)


def compare(baseline: Counts, other: Counts, resampling: Resampling) -> Paired:
    """``other`` minus ``baseline``; both are of the same sentence pairs."""
    observed = _difference(baseline.sum(axis=0), other.sum(axis=0))
    resampled = bootstrap(other, resampling) - bootstrap(baseline, resampling)
    p = TESTS[resampling.test](baseline, other, resampling)
    return Paired(float(observed), _interval(resampled, resampling), p, resampling.test)


def paired_bootstrap(baseline: Counts, other: Counts, resampling: Resampling) -> float:
    """The p-value of the paired bootstrap."""
    observed = _difference(baseline.sum(axis=0), other.sum(axis=0))
    resampled = bootstrap(other, resampling) - bootstrap(baseline, resampling)
    return _p_value(resampled - observed, observed)


def randomisation(baseline: Counts, other: Counts, resampling: Resampling) -> float:
    """The p-value of paired approximate randomisation."""
    generator = np.random.default_rng(resampling.seed)
    gaps = other - baseline
    draws = (generator.random(len(gaps)) < 0.5 for _ in range(resampling.resamples))
    exchanged = np.array([gaps[draw].sum(axis=0) for draw in draws])
    sums = baseline.sum(axis=0), other.sum(axis=0)
    return _p_value(_difference(sums[0] + exchanged, sums[1] - exchanged), _difference(*sums))


TESTS: dict[str, Callable[[Counts, Counts, Resampling], float]] = {
    "randomisation": randomisation,
    "bootstrap": paired_bootstrap,
}


def _interval(values: Rates, resampling: Resampling) -> Interval:
    ordered = np.sort(values)
    dropped = len(ordered) // 40
    low, high = float(ordered[dropped]), float(ordered[-1 - dropped])
    return Interval(low, high, resampling.resamples, resampling.seed)


def _difference(baseline: Counts, other: Counts) -> Rates:
    return corpus_aer(other) - corpus_aer(baseline)


def _p_value(by_chance: Rates, observed: Rates) -> float:
    as_large = int(np.sum(np.abs(by_chance) >= np.abs(observed) - ROUNDING))
    return (as_large + 1) / (len(by_chance) + 1)
