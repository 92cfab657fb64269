"""Reading given targets.

Letters: B sentences, S source length, T target length, F features before the output layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.search.ensemble import mean_probability, without_copies
from nmtkit.vocabulary import BOS, PAD


class Forced(NamedTuple):
    """What forced decoding gives; the models' mean for an ensemble."""

    log_probs: Tensor  # (B, T): of y_1 … y_n EOS, in nats; 0 at padding
    attention: Tensor  # (B, T+1, S): row i predicts y_{i+1}; the last has consumed EOS


@torch.inference_mode()
def force_decode(
    models: Sequence[AnySeq2Seq],
    source: Tensor,
    mask: Tensor,
    target_out: Tensor,
    copied: Tensor | None = None,
) -> Forced:
    """Read the given targets: source ids (B, S), mask (B, S), target_out (B, T) = y_1 … y_n EOS.

    With `copied` (B, S), target_out is over the source-extended vocabulary; without, models that
    copy have nothing to copy.
    """
    target_in = without_copies(models, F.pad(target_out, (1, 0), value=BOS))
    log_probs, attention = [], []
    for model in models:
        features, weights = model.features(target_in, model.encode(source, mask))
        attention.append(weights)
        log_probs.append(_at_targets(model, features[:, :-1], weights, target_out, copied))
    mean = mean_probability(log_probs).masked_fill(target_out == PAD, 0.0)
    return Forced(mean, torch.stack(attention).mean(0))


def _at_targets(
    model: AnySeq2Seq,
    features: Tensor,
    attention: Tensor,
    target_out: Tensor,
    copied: Tensor | None,
) -> Tensor:
    """Features (B, T, F) -> log-probabilities of the targets (B, T), a position at a time."""
    columns = []
    for t in range(target_out.shape[1]):
        log_probs = model.log_probs(
            model.output(features[:, t]), features[:, t], attention[:, t], copied
        )
        columns.append(log_probs.gather(1, target_out[:, t : t + 1]).squeeze(1))
    return torch.stack(columns, 1)
