"""Drawing translations from the model's distribution, word by word.

Letters: B sentences (L of them still live), N samples a sentence, S source length, T target length,
V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nmtkit.search.allowed import Allowed, Prefixes
from nmtkit.search.ensemble import Ensemble, Searched
from nmtkit.search.options import Hypothesis, Sampling, SearchOptions
from nmtkit.vocabulary import BOS, EOS


@torch.inference_mode()
def sample(
    models: Sequence[Searched],
    source: Tensor,
    mask: Tensor,
    options: SearchOptions,
    numbers: Sequence[int],
    prefixes: Prefixes | None = None,
    copied: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Draw n_best translations of source ids (B, S), mask (B, S), independent of each other.

    They are sorted best first, and may be equal. Each has random numbers of its own, a function of
    the seed, the sentence's number in `numbers` and its own, so that they depend neither on the
    batch nor on n_best. Limits, prefixes and `copied` are as in `beam_search`.

    Raises ValueError when the options do not say how to sample.
    """
    sampling, n = options.sampling, options.n_best
    if sampling is None:
        raise ValueError("the search options have no sampling")
    ensemble, allowed = Ensemble(models, source, mask, copied), Allowed(mask, options, prefixes)
    ensemble.start(n)
    draws = _draws(sampling.seed, numbers, n, int(allowed.limit.max())).to(mask.device)
    sentence = torch.arange(len(source), device=mask.device)
    running = torch.ones((len(source), n), dtype=torch.bool, device=mask.device)
    log_probs = torch.zeros((len(source), n), dtype=torch.float64, device=mask.device)
    history = source.new_empty((len(source), n, 0))
    tokens = source.new_full((len(source) * n,), BOS)
    done: list[list[Hypothesis]] = [[] for _ in range(len(source))]
    for length in range(1, draws.shape[2] + 1):
        following = ensemble.step(tokens).view(len(sentence), n, -1)
        allowed(following, length)
        words = _drawn(following, draws[:, :, length - 1 : length], sampling)
        log_probs = log_probs + following.gather(2, words).squeeze(2)
        ended = running & (words.squeeze(2) == EOS)
        owners = sentence.unsqueeze(1).expand_as(ended)[ended].tolist()
        for b, ids, log_prob in zip(owners, history[ended].tolist(), log_probs[ended].tolist()):
            value = log_prob / options.divisor(float(length))
            done[b].append(Hypothesis(tuple(ids), log_prob, value))
        running = running & ~ended
        history = torch.cat([history, words], 2)
        going_on = running.any(1)
        if not going_on.all():
            kept = going_on.nonzero().squeeze(1)
            if not len(kept):
                break
            rows = kept.unsqueeze(1) * n + torch.arange(n, device=mask.device)
            ensemble.select(rows.flatten(), kept)
            allowed.select(kept)
            sentence, running, log_probs, history, draws, words = (
                one[kept] for one in (sentence, running, log_probs, history, draws, words)
            )
        tokens = words.flatten()
    return [sorted(found, key=lambda h: -h.value) for found in done]


def _draws(seed: int, numbers: Sequence[int], n: int, length: int) -> Tensor:
    """Numbers in [0, 1), (B, N, T): a row for every sample, from a generator of its own.

    They are float32 ones, which stay below 1 by enough that a product in float64 stays below, too.
    """
    rows = [
        [np.random.default_rng([seed, b, k]).random(length, dtype=np.float32) for k in range(n)]
        for b in numbers
    ]
    return torch.from_numpy(np.array(rows, dtype=np.float64).reshape(len(numbers), n, length))


def _drawn(log_probs: Tensor, draws: Tensor, sampling: Sampling) -> Tensor:
    """Log-probabilities (L, N, V), numbers (L, N, 1) -> words (L, N, 1), by inversion."""
    words = None
    if 0 < sampling.top_k < log_probs.shape[2]:
        log_probs, words = log_probs.topk(sampling.top_k, 2)
    summed = torch.softmax(log_probs.double() / sampling.temperature, 2).cumsum(2)
    # The first word whose sum is above: never one without probability.
    places = torch.searchsorted(summed, draws * summed[:, :, -1:], right=True)
    return places if words is None else words.gather(2, places)
