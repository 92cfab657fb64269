"""One step of the optimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.train.objective import Objective
from nmtkit.train.settings import TrainingConfig


@dataclass(frozen=True)
class Update:
    """One update's figures: loss summed over the target tokens in nats, tokens, gradient norm."""

    loss: float
    tokens: int
    norm: float

    @property
    def skipped(self) -> bool:
        """Whether the gradient was not finite, so that nothing was changed."""
        return not math.isfinite(self.norm)


class Updater:
    """Gradient, clipping, step."""

    def __init__(
        self, config: TrainingConfig, objective: Objective, optimizer: torch.optim.Optimizer
    ) -> None:
        self.config, self.objective, self.optimizer = config, objective, optimizer
        self.model = objective.model

    def __call__(self, batch: Batch, guide: Tensor | None, rate: float) -> Update:
        """One step at this learning rate, unless the gradient is not finite.

        `guide` (B, T, S): what the attention should be.
        """
        config = self.config
        batch = batch.to(self.objective.device)
        guide = None if guide is None else guide.to(self.objective.device)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        objective, figure = self.objective(batch, guide)
        tokens = int(batch.target_mask.sum())
        over = tokens if config.normalise == "tokens" else len(batch.source)
        (objective / over).backward()  # type: ignore[no-untyped-call]
        limit = config.clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if math.isfinite(norm):
            self.optimizer.step()
        return Update(float(figure), tokens, norm)
