"""Searching the target language the slow way, to test the batched beam search against.

Both searches see the model as one function from a prefix y_1 .. y_i (a tuple of ids, without BOS)
to the log-probabilities (V,) of the next word, and one sentence at a time. A hypothesis is worth
log_prob / length ** penalty, its length counting EOS; every hypothesis ends with EOS, and at the
last place before the limit nothing but EOS may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

NextLogProbs = Callable[[tuple[int, ...]], NDArray[np.float64]]

EOS = 3
NEVER = (0, 2)  # PAD and BOS


@dataclass(frozen=True)
class Found:
    """Words without EOS, the log-probability of the words and EOS, and what ranks it."""

    ids: tuple[int, ...]
    log_prob: float
    value: float


def rank(ids: tuple[int, ...], log_prob: float, penalty: float) -> Found:
    return Found(ids, log_prob, log_prob / (len(ids) + 1) ** penalty)


def all_sequences(vocabulary_size: int, limit: int) -> list[tuple[int, ...]]:
    """Every target without EOS that leaves room for EOS within `limit` places."""
    words = [word for word in range(vocabulary_size) if word not in NEVER and word != EOS]
    return [ids for length in range(limit) for ids in product(words, repeat=length)]


def brute_force(
    next_log_probs: NextLogProbs, vocabulary_size: int, limit: int, penalty: float
) -> list[Found]:
    """All hypotheses of at most `limit` places, EOS among them, best first."""
    found = []
    for ids in all_sequences(vocabulary_size, limit):
        log_prob = 0.0
        for position, word in enumerate([*ids, EOS]):
            log_prob += float(next_log_probs(ids[:position])[word])
        found.append(rank(ids, log_prob, penalty))
    return sorted(found, key=lambda hypothesis: -hypothesis.value)


def plain_beam(
    next_log_probs: NextLogProbs, beam: int, limit: int, penalty: float, diversity: float = 0.0
) -> list[Found]:
    """Beam search as in the authors' own code: `beam` places, and who ends takes the place along.

    Runs until all places are gone: no stopping early. Returns the finished hypotheses, best first.
    With `diversity` (Li et al., 2016) the k-th best continuation of a parent, counted from 0,
    competes with k times that less.
    """
    places = beam
    living: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    finished: list[Found] = []
    for position in range(1, limit + 1):
        candidates: list[tuple[tuple[int, ...], float, float]] = []
        for ids, log_prob in living:
            log_probs = next_log_probs(ids)
            words: Sequence[int] = [EOS] if position == limit else range(len(log_probs))
            siblings = [
                ((*ids, w), log_prob + float(log_probs[w]))
                for w in words
                if w not in NEVER and log_probs[w] > -np.inf
            ]
            siblings.sort(key=lambda sibling: -sibling[1])
            candidates += [(*one, one[1] - diversity * k) for k, one in enumerate(siblings)]
        candidates.sort(key=lambda candidate: -candidate[2])
        living = []
        for ids, log_prob, _ in candidates[:places]:
            if ids[-1] == EOS:
                finished.append(rank(ids[:-1], log_prob, penalty))
            else:
                living.append((ids, log_prob))
        places = beam - len(finished)
        if not living:
            break
    return sorted(finished, key=lambda hypothesis: -hypothesis.value)
