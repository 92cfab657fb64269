"""What an update minimises: the translation's loss, the guide's, or both."""

from __future__ import annotations

import torch
from torch import Tensor

from nmtkit.align import HEAD, SHIFTS
from nmtkit.batches import Batch
from nmtkit.models.copying import Copies
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.train.guided import decoder_loss, head_loss
from nmtkit.train.settings import TrainingConfig


class Objective:
    """The loss of a batch, and the likelihood that validation reports.

    `rows` says which attention is guided, as in `align`.
    """

    def __init__(self, config: TrainingConfig, model: AnySeq2Seq, rows: str) -> None:
        self.config, self.model, self.rows = config, model, rows
        self.device = next(model.parameters()).device

    def __call__(self, batch: Batch, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        """What is minimised, and the figure to report; sums in nats.

        That figure is the plain negative log-likelihood of the translation; the guide's loss when
        only that is learnt.
        """
        model, config = self.model, self.config
        shift = 0 if guide is None or self.rows == HEAD else SHIFTS[self.rows](model)
        objective = figure = torch.zeros((), device=self.device)
        with self._precision():
            memory = model.encode(batch.source, batch.source_mask)
            if config.translation_weight or self.rows != HEAD:
                target_in = batch.target_in
                if shift:  # a row that has consumed the end, as `force_decode` has
                    target_in = torch.cat([target_in[:, :1], batch.target_out], 1)
                features, attention = model.features(target_in, memory, batch.chosen)
            if config.translation_weight:
                targets, copies = _targets(batch, attention)
                smoothed, figure = model.loss(features, targets, config.label_smoothing, copies)
                objective = config.translation_weight * smoothed
            if guide is not None and self.rows == HEAD:
                read = model.align(batch.source, batch.target_out, batch.target_mask, memory)
        if guide is None:
            return objective, figure
        if self.rows == HEAD:
            loss = head_loss(*read, guide, batch.source_mask, batch.target_mask)
        else:
            loss = decoder_loss(attention.float(), guide, shift)
        objective = objective + config.guide_weight * loss
        return objective, figure if config.translation_weight else loss.detach()

    def likelihood(self, batch: Batch) -> Tensor:
        """The negative log-likelihood of the targets, nats."""
        with self._precision():
            memory = self.model.encode(batch.source, batch.source_mask)
            features, attention = self.model.features(batch.target_in, memory, batch.chosen)
            targets, copies = _targets(batch, attention)
            return self.model.loss(features, targets, copies=copies)[1]

    def _precision(self) -> torch.autocast:
        half = self.config.precision == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half)


def _targets(batch: Batch, attention: Tensor) -> tuple[Tensor, Copies | None]:
    """The N chosen target ids of a batch, and for a model that copies what each word may copy.

    Attention (B, T, S), perhaps with a row more a sentence than the batch has.
    """
    targets = batch.targets[batch.chosen]
    if batch.copied is None:
        return targets, None
    return targets, Copies(attention[batch.chosen], batch.copied[batch.chosen[0]])
