"""One step of the optimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.distributed import Group
from nmtkit.errors import UserError
from nmtkit.train.gradient import Gradient
from nmtkit.train.objective import Objective
from nmtkit.train.settings import TrainingConfig

MOST_EMPTY = 10  # batches in a row of which no sentence fitted into memory


@dataclass(frozen=True)
class Update:
    """One update's figures: loss summed over the target tokens in nats, tokens, gradient norm.

    `split`, `left_out`: what did not fit into memory, as in `gradient.Figures`.
    """

    loss: float
    tokens: int
    norm: float
    split: tuple[tuple[int, ...], ...] = ()
    left_out: tuple[tuple[int, ...], ...] = ()

    @property
    def skipped(self) -> bool:
        """Whether the gradient was not finite, so that nothing was changed."""
        return not math.isfinite(self.norm)


class Updater:
    """Gradient, clipping, step: the same in every process of the group."""

    def __init__(
        self,
        config: TrainingConfig,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        group: Group | None = None,
    ) -> None:
        self.config, self.objective, self.optimizer = config, objective, optimizer
        self.group = group or Group()
        self.gradient = Gradient(config, objective, self.group)
        self.empty_in_a_row = 0

    def __call__(self, batch: Batch, guide: Tensor | None, rate: float) -> Update:
        """One step at this learning rate, unless the gradient is not finite.

        `batch`: this process's share of the batch, perhaps of no sentence. `guide` (B, T, S): what
        the attention should be. UserError when nothing fits into memory any more.
        """
        self.objective.model.train()
        figures = self.gradient(batch, guide)
        self.empty_in_a_row = 0 if figures.sentences else self.empty_in_a_row + 1
        if self.empty_in_a_row == MOST_EMPTY:
            source, target = figures.left_out[-1]
            raise UserError(
                f"not one sentence of {MOST_EMPTY} batches in a row fits into memory (the last: "
                f"{source} source and {target} target subwords): train a smaller model, or on "
                "shorter sentences (preprocess --max-length)"
            )
        parameters = self.gradient.parameters
        total = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        # Here, once an update, the device is waited for.
        loss, norm = torch.stack([figures.loss.to(total.device), total.double()]).tolist()
        if self.config.clip and self.config.clip < norm < math.inf:
            torch.nn.utils.clip_grads_with_norm_(parameters, self.config.clip, total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if math.isfinite(norm):
            self.optimizer.step()
        return Update(loss, figures.tokens, norm, tuple(figures.split), tuple(figures.left_out))


def seed_of(seed: int, update: int, rank: int) -> int:
    """The seed of a process's random numbers in an update, where there are several processes.

    A function of its arguments, so that a resumed run may have another number of processes.
    """
    return int(np.random.SeedSequence([seed, update, rank]).generate_state(1, np.uint64)[0] >> 1)
