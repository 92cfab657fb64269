"""Beam search and forced decoding, for any architecture and for ensembles.

The beam is that of the authors' own code: it has K places, and a hypothesis that ends takes its
place with it; the search of a sentence is over when all K have ended. All sentences' beams run in
one batch, source-side tensors are held once a sentence, and a finished sentence leaves.

Letters: B sentences (L of them still live), K places, R = L·K rows, S source length, T target
length, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.models.seq2seq import AnySeq2Seq, Memory, Rows
from nmtkit.vocabulary import BOS, EOS, PAD

#: The most hypotheses a sentence; far beyond what helps, and short of what no memory holds.
WIDEST = 1000


@dataclass(frozen=True)
class SearchOptions:
    """How to search. Lengths count the end of sentence."""

    beam: int = 5
    #: Hypotheses are ranked by log-probability / length ** length_penalty.
    length_penalty: float = 1.0
    n_best: int = 1
    #: The longest output of a source of n subwords: max_ratio · n + max_extra.
    max_ratio: float = 3.0
    max_extra: int = 10
    #: Stop a sentence once what is left in its beam cannot change its n best.
    early_stop: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= WIDEST:
            raise ValueError(f"beam must be from 1 to {WIDEST}, got {self.beam}")
        if not 1 <= self.n_best <= self.beam:
            raise ValueError(f"n_best must be from 1 to beam ({self.beam}), got {self.n_best}")
        if not (math.isfinite(self.length_penalty) and self.length_penalty >= 0):
            raise ValueError(f"length_penalty must be 0 or more, got {self.length_penalty}")
        if not (math.isfinite(self.max_ratio) and self.max_ratio >= 0 and self.max_extra >= 1):
            raise ValueError("max_ratio must be 0 or more and max_extra at least 1")


@dataclass(frozen=True)
class Hypothesis:
    """ids without EOS; log_prob in nats, EOS included; value: what the ranking used."""

    ids: tuple[int, ...]
    log_prob: float
    value: float


class Forced(NamedTuple):
    """What forced decoding gives; the models' mean for an ensemble."""

    log_probs: Tensor  # (B, T): of y_1 … y_n EOS, in nats; 0 at padding
    attention: Tensor  # (B, T+1, S): row i predicts y_{i+1}; the last has consumed EOS


class _Ensemble:
    """Models that step together; their probabilities are averaged."""

    def __init__(self, models: Sequence[AnySeq2Seq], source: Tensor, mask: Tensor) -> None:
        self.models = models
        self.memories: list[Memory] = [model.encode(source, mask) for model in models]
        self.states: list[Rows] = []

    def start(self, beam: int) -> None:
        pairs = zip(self.models, self.memories, strict=True)
        self.states = [model.start(memory, beam) for model, memory in pairs]

    def step(self, tokens: Tensor) -> Tensor:
        """y_{i-1} (R,) -> log-probabilities of y_i (R, V)."""
        log_probs = []
        for m, model in enumerate(self.models):
            logits, _, self.states[m] = model.step(tokens, self.states[m], self.memories[m])
            log_probs.append(F.log_softmax(logits.float(), 1))
        return mean_probability(log_probs)

    def select(self, rows: Tensor, sentences: Tensor | None) -> None:
        self.states = [state.select(rows) for state in self.states]
        if sentences is not None:
            self.memories = [memory.select(sentences) for memory in self.memories]


def mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Log of the models' mean probability; all tensors of one shape."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(list(log_probs)), 0) - math.log(len(log_probs))


class _Beams:
    """The live sentences' hypotheses; every tensor has the live sentences as dimension 0."""

    def __init__(self, mask: Tensor, options: SearchOptions) -> None:
        sentences, device = len(mask), mask.device
        lengths = mask.sum(1) - 1  # without EOS
        self.options = options
        self.sentence = torch.arange(sentences, device=device)
        self.limit = (lengths * options.max_ratio + options.max_extra).long()
        self.log_probs = torch.full((sentences, options.beam), -math.inf, device=device)
        self.log_probs[:, 0] = 0.0
        self.places = torch.full((sentences,), options.beam, device=device)
        self.prefixes = torch.empty((sentences, options.beam, 0), dtype=torch.long, device=device)
        self.best_done = torch.full((sentences, options.n_best), -math.inf, device=device)
        self.done: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def value(self, log_probs: Tensor, length: int | Tensor) -> Tensor:
        penalty = torch.as_tensor(length, device=log_probs.device).double()
        return log_probs / (penalty**self.options.length_penalty)

    def advance(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the next word (L·K, V) -> chosen words and their parents, (L, K).

        Ended hypotheses move to `done`; a place without a hypothesis has log-probability -inf.
        """
        live, beam = self.log_probs.shape
        size = log_probs.shape[1]
        length = self.prefixes.shape[2] + 1
        log_probs = log_probs.view(live, beam, size)
        log_probs[:, :, [PAD, BOS]] = -math.inf
        last = self.limit == length
        if last.any():  # nothing but the end may come here
            others = torch.arange(size, device=log_probs.device) != EOS
            log_probs.masked_fill_(last.view(-1, 1, 1) & others, -math.inf)
        candidates = (log_probs + self.log_probs.unsqueeze(2)).view(live, -1)
        best, flat = candidates.topk(min(beam, candidates.shape[1]), 1)
        if best.shape[1] < beam:
            spare = beam - best.shape[1]
            best, flat = F.pad(best, (0, spare), value=-math.inf), F.pad(flat, (0, spare))
        parents, words = flat // size, flat % size
        ranks = torch.arange(beam, device=best.device)
        best = best.masked_fill(ranks >= self.places.unsqueeze(1), -math.inf)
        history = self.prefixes.gather(1, parents.unsqueeze(2).expand(-1, -1, length - 1))
        ended = (words == EOS) & (best > -math.inf)
        if ended.any():
            self._finish(ended, best, history, length)
        self.log_probs = best.masked_fill(ended, -math.inf)
        self.places = self.places - ended.sum(1)
        self.prefixes = torch.cat([history, words.unsqueeze(2)], 2)
        return words, parents

    def _finish(self, ended: Tensor, best: Tensor, history: Tensor, length: int) -> None:
        values = self.value(best.double(), length).float()
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
            # A log-probability only falls, and no length divides it by more than the limit does.
            bound = self.value(best_live.double(), self.limit).float()
            more &= self.best_done[:, -1] < bound
        return more

    def select(self, sentences: Tensor) -> None:
        for name in ("sentence", "limit", "log_probs", "places", "prefixes", "best_done"):
            setattr(self, name, getattr(self, name)[sentences])


@torch.inference_mode()
def beam_search(
    models: Sequence[AnySeq2Seq], source: Tensor, mask: Tensor, options: SearchOptions
) -> list[list[Hypothesis]]:
    """Translate source ids (B, S), mask (B, S): each sentence's n best hypotheses, best first.

    The length limit of a sentence depends on its own length only, so that neither padding nor
    the other sentences of the batch change its result.
    """
    ensemble, beams = _Ensemble(models, source, mask), _Beams(mask, options)
    ensemble.start(options.beam)
    tokens = source.new_full((len(source) * options.beam,), BOS)
    for _ in range(int(beams.limit.max())):
        if not len(beams.sentence):
            break
        words, parents = beams.advance(ensemble.step(tokens))
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


@torch.inference_mode()
def force_decode(
    models: Sequence[AnySeq2Seq], source: Tensor, mask: Tensor, target_out: Tensor
) -> Forced:
    """Read the given targets: source ids (B, S), mask (B, S), target_out (B, T) = y_1 … y_n EOS."""
    target_in = F.pad(target_out, (1, 0), value=BOS)
    log_probs, attention = [], []
    for model in models:
        features, weights = model.features(target_in, model.encode(source, mask))
        attention.append(weights)
        log_probs.append(_at_targets(model, features[:, :-1], target_out))
    mean = mean_probability(log_probs).masked_fill(target_out == PAD, 0.0)
    return Forced(mean, torch.stack(attention).mean(0))


def _at_targets(model: AnySeq2Seq, features: Tensor, target_out: Tensor) -> Tensor:
    """Features (B, T, F) -> log-probabilities of the targets (B, T), a position at a time."""
    columns = []
    for t in range(target_out.shape[1]):
        logits = model.output(features[:, t]).float()
        chosen = logits.gather(1, target_out[:, t : t + 1]).squeeze(1)
        columns.append(chosen - logits.logsumexp(1))
    return torch.stack(columns, 1)
