"""Beam search.

The beam is that of the authors' own code: it has K places, and a hypothesis that ends takes its
place with it; the search of a sentence is over when all K have ended. All sentences' beams run in
one batch, source-side tensors are held once a sentence, and a finished sentence leaves.

Letters: B sentences (L of them still live), K places, R = L·K rows, S source length, T target
length, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmtkit.search.allowed import Allowed, Prefixes
from nmtkit.search.coverage import Coverage
from nmtkit.search.ensemble import Ensemble, Searched
from nmtkit.search.options import Hypothesis, SearchOptions
from nmtkit.search.shortlist import Shortlist
from nmtkit.vocabulary import BOS, EOS

#: Numbers of which a CPU first looks at the largest alone, when it seeks the K largest of many.
GROUP = 64


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values (L, N) -> the k largest of each row, best first, and where they stand, (L, k).

    As `topk`, which takes a CPU several times as long: the k largest lie in the k groups whose
    largest are the largest.
    """
    rows, size = values.shape
    groups = size // GROUP
    if not values.is_cpu or groups < 4 * k:
        best, places = values.topk(k, 1)
        return best, places
    grouped = values[:, : groups * GROUP].view(rows, groups, GROUP)
    chosen = grouped.amax(2).topk(k, 1).indices.unsqueeze(2)  # (L, k, 1)
    within = torch.arange(GROUP)
    rest = torch.arange(groups * GROUP, size)
    found = grouped.gather(1, chosen.expand(-1, -1, GROUP)).flatten(1)
    places = (chosen * GROUP + within).flatten(1)
    found = torch.cat([found, values[:, groups * GROUP :]], 1)
    places = torch.cat([places, rest.expand(rows, -1)], 1)
    best, at = found.topk(k, 1)
    return best, places.gather(1, at)


class _Beams:
    """The live sentences' hypotheses; every tensor has the live sentences as dimension 0."""

    def __init__(self, mask: Tensor, options: SearchOptions, prefixes: Prefixes | None) -> None:
        sentences, device = len(mask), mask.device
        self.options = options
        self.allowed = Allowed(mask, options, prefixes)
        self.coverage = Coverage(mask, options.beam) if options.coverage_penalty else None
        self.sentence = torch.arange(sentences, device=device)
        self.log_probs = torch.full((sentences, options.beam), -math.inf, device=device)
        self.log_probs[:, 0] = 0.0
        self.places = torch.full((sentences,), options.beam, device=device)
        self.history = torch.empty((sentences, options.beam, 0), dtype=torch.long, device=device)
        self.best_done = torch.full((sentences, options.n_best), -math.inf, device=device)
        self.done: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def normalised(self, log_probs: Tensor, length: int | Tensor) -> Tensor:
        length = torch.as_tensor(length, device=log_probs.device).double()
        return log_probs.double() / self.options.divisor(length)

    def advance(self, ensemble: Ensemble, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The last words (L·K,) -> the chosen next ones and their parents, (L, K).

        Ended hypotheses move to `done`; a place without a hypothesis has log-probability -inf.
        """
        live, beam = self.log_probs.shape
        log_probs = ensemble.step(tokens)
        size = log_probs.shape[1]
        length = self.history.shape[2] + 1
        log_probs = log_probs.view(live, beam, size)
        self.allowed(log_probs, length)
        candidates = log_probs.add_(self.log_probs.unsqueeze(2))
        choose = self._diverse if self.options.diversity else self._best
        best, words, parents = choose(candidates)
        if ensemble.listed is not None:
            words = ensemble.listed.words[words]
        ranks = torch.arange(beam, device=best.device)
        best = best.masked_fill(ranks >= self.places.unsqueeze(1), -math.inf)
        history = self.history.gather(1, parents.unsqueeze(2).expand(-1, -1, length - 1))
        if self.coverage is not None:
            self.coverage.advance(ensemble.attention(), parents)
        ended = (words == EOS) & (best > -math.inf)
        if ended.any():
            self._finish(ended, best, history, length)
        self.log_probs = best.masked_fill(ended, -math.inf)
        self.places = self.places - ended.sum(1)
        self.history = torch.cat([history, words.unsqueeze(2)], 2)
        return words, parents

    def _best(self, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The K best of the candidates (L, K, V): log-probabilities, words and parents, (L, K)."""
        live, beam, size = candidates.shape
        best, flat = largest(candidates.view(live, -1), beam)
        return best, flat % size, flat // size

    def _diverse(self, candidates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As _best, but every candidate is put back by `diversity` for each better sibling.

        Li, Monroe and Jurafsky (2016). The penalty only chooses who stays: it is part of no
        log-probability, and not carried on.
        """
        live, beam, size = candidates.shape
        siblings = min(beam, size)  # of one parent no more can stay
        log_probs, words = candidates.topk(siblings, 2)
        behind = torch.arange(siblings, device=candidates.device) * self.options.diversity
        _, flat = (log_probs - behind).view(live, -1).topk(beam, 1)
        best = log_probs.view(live, -1).gather(1, flat)
        return best, words.view(live, -1).gather(1, flat), flat // siblings

    def _finish(self, ended: Tensor, best: Tensor, history: Tensor, length: int) -> None:
        values = self.normalised(best, length)
        if self.coverage is not None:
            values = values + self.options.coverage_penalty * self.coverage.log_sum()
        values = values.float()
        of_ended = values.masked_fill(~ended, -math.inf)
        both = torch.cat([self.best_done, of_ended], 1)
        self.best_done = both.topk(self.options.n_best, 1).values
        sentences = self.sentence.unsqueeze(1).expand_as(ended)[ended].tolist()
        columns = (best[ended].tolist(), values[ended].tolist(), history[ended].tolist())
        for b, log_prob, value, ids in zip(sentences, *columns, strict=True):
            self.done[b].append(Hypothesis(tuple(ids), log_prob, value))

    def going_on(self) -> Tensor:
        """(L,) True where a live hypothesis is left that could still change the n best."""
        best_live = self.log_probs.amax(1)
        more = (self.places > 0) & (best_live > -math.inf)
        if self.options.early_stop:
            # A log-probability only falls, no length divides it by more than the limit does, and
            # coverage adds 0 at most.
            bound = self.normalised(best_live, self.allowed.limit).float()
            more &= self.best_done[:, -1] < bound
        return more

    def select(self, sentences: Tensor) -> None:
        for name in ("sentence", "log_probs", "places", "history", "best_done"):
            setattr(self, name, getattr(self, name)[sentences])
        self.allowed.select(sentences)
        if self.coverage is not None:
            self.coverage.select(sentences)


@torch.inference_mode()
def beam_search(
    models: Sequence[Searched],
    source: Tensor,
    mask: Tensor,
    options: SearchOptions,
    prefixes: Prefixes | None = None,
    copied: Tensor | None = None,
    shortlist: Shortlist | None = None,
) -> list[list[Hypothesis]]:
    """Translate source ids (B, S), mask (B, S): each sentence's n best hypotheses, best first.

    A hypothesis begins with its sentence's prefix. With `copied` (B, S) the ids are those of the
    source-extended vocabulary, and so may a prefix's be. The length limit of a sentence depends on
    its own length and prefix only, so that neither padding nor the other sentences of the batch
    change its result. With a `shortlist` each sentence has words of its own; it does not go with
    `copied`.
    """
    listed = None if shortlist is None else shortlist.of(source, prefixes)
    if listed is not None and prefixes is not None:
        prefixes = [listed.places(ids) for ids in prefixes]
    ensemble = Ensemble(models, source, mask, copied, listed)
    beams = _Beams(mask, options, prefixes)
    ensemble.start(options.beam)
    tokens = source.new_full((len(source) * options.beam,), BOS)
    for _ in range(int(beams.allowed.limit.max())):
        if not len(beams.sentence):
            break
        words, parents = beams.advance(ensemble, tokens)
        going_on = beams.going_on()
        rows = torch.arange(len(going_on), device=mask.device).unsqueeze(1) * options.beam + parents
        kept = None
        if not going_on.all():
            kept = going_on.nonzero().squeeze(1)
            rows, words = rows[kept], words[kept]
            beams.select(kept)
        ensemble.select(rows.flatten(), kept)
        tokens = words.flatten()
    return [sorted(done, key=lambda h: -h.value)[: options.n_best] for done in beams.done]
