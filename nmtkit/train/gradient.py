"""The gradient of a batch: in pieces that fit into memory, summed over the processes."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.distributed import Group
from nmtkit.errors import out_of_memory
from nmtkit.train.objective import Objective
from nmtkit.train.settings import TrainingConfig

BUCKET = 1 << 25  # numbers that are summed over the processes at once


@dataclass
class Figures:
    """What the gradient of a batch was made of, ends of sentence included.

    `loss`: summed over the tokens, nats; on the device, which is not waited for here. `split`:
    sentences, source and target length of every (part of a) batch that did not fit into memory.
    `left_out`: source and target length of every sentence that did not even alone.
    """

    loss: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64))
    tokens: int = 0
    sentences: int = 0
    split: list[tuple[int, ...]] = field(default_factory=list)
    left_out: list[tuple[int, ...]] = field(default_factory=list)


class Gradient:
    """Puts the gradient of a batch into the parameters; `group`: of all processes' shares of it."""

    def __init__(self, config: TrainingConfig, objective: Objective, group: Group) -> None:
        self.config, self.objective, self.group = config, objective, group
        self.parameters = list(objective.model.parameters())

    def __call__(self, batch: Batch, guide: Tensor | None) -> Figures:
        """Of the loss a token (or a sentence) of the whole batch; the figures are of it too.

        `batch`: this process's share, on the CPU, perhaps of no sentence; `guide` (B, T, S) what
        its attention should be. What does not fit into memory is split in two, by sentences, as
        often as needed; a sentence that does not fit alone is left out of the batch.

        N processes sum the same numbers that one would: with a weight for every token,
        Σ_r Σ_{i of r} L_i / n, n the tokens of all.
        """
        for parameter in self.parameters:
            parameter.grad = None
        both = self.group.sum(torch.tensor([int(batch.target_mask.sum()), len(batch.source)]))
        over = self._over(*both.tolist())
        figures = Figures()
        self._add(batch, guide, over, figures)
        if self.group.size > 1:
            self._sum(figures)
        used = self._over(figures.tokens, figures.sentences)
        if used not in (0, over):
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad *= over / used
        return figures

    def _over(self, tokens: int, sentences: int) -> int:
        return tokens if self.config.normalise == "tokens" else sentences

    def _add(self, batch: Batch, guide: Tensor | None, over: int, figures: Figures) -> None:
        """Add the gradient of a part of the batch, split where it must be."""
        sentences = len(batch.source)
        if not sentences:
            return
        fits = True
        try:
            loss = self._backward(batch, guide, over)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            fits = False  # what the error still holds is freed with it, at the end of this block
        if fits:
            figures.loss = figures.loss + loss
            figures.tokens += int(batch.target_mask.sum())
            figures.sentences += sentences
            return
        if self.objective.device.type == "cuda":
            torch.cuda.empty_cache()
        lengths = batch.source.shape[1], batch.target_out.shape[1]
        if sentences == 1:
            figures.left_out.append(lengths)
            return
        figures.split.append((sentences, *lengths))
        for rows in (slice(0, sentences // 2), slice(sentences // 2, sentences)):
            self._add(*_part(batch, guide, rows), over, figures)

    def _backward(self, batch: Batch, guide: Tensor | None, over: int) -> Tensor:
        """Add the gradient of this part to what is there, or change nothing; the loss."""
        before = [parameter.grad for parameter in self.parameters]
        try:
            for parameter in self.parameters:
                parameter.grad = None
            device = self.objective.device
            on_device = None if guide is None else guide.to(device)
            objective, figure = self.objective(batch.to(device), on_device)
            (objective / over).backward()  # type: ignore[no-untyped-call]
            loss = figure.detach().double()
        except BaseException:
            for parameter, gradient in zip(self.parameters, before, strict=True):
                parameter.grad = gradient
            raise
        for parameter, gradient in zip(self.parameters, before, strict=True):
            if parameter.grad is None:
                parameter.grad = gradient
            elif gradient is not None:
                parameter.grad += gradient
        return loss

    def _sum(self, figures: Figures) -> None:
        """Sum gradients and figures over the processes.

        A parameter without a gradient in any process stays without one, as in one process.
        """
        events = len(figures.split) + len(figures.left_out)
        numbers = [float(figures.loss), figures.tokens, figures.sentences, events]
        numbers += [parameter.grad is not None for parameter in self.parameters]
        summed = self.group.sum(torch.tensor(numbers, dtype=torch.float64)).tolist()
        figures.loss = torch.tensor(summed[0], dtype=torch.float64)
        figures.tokens, figures.sentences = int(summed[1]), int(summed[2])
        if summed[3]:
            every = self.group.gather([figures.split, figures.left_out])
            figures.split = [tuple(one) for split, _ in every for one in split]
            figures.left_out = [tuple(one) for _, left_out in every for one in left_out]
        bucket: list[Tensor] = []
        for parameter, count in zip(self.parameters, summed[4:], strict=True):
            if not count:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if bucket and sum(map(Tensor.numel, bucket)) + parameter.numel() > BUCKET:
                self._sum_at_once(bucket)
                bucket = []
            bucket.append(parameter.grad)
        if bucket:
            self._sum_at_once(bucket)

    def _sum_at_once(self, gradients: list[Tensor]) -> None:
        flat = self.group.sum(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        parts = torch.split(flat, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def _part(batch: Batch, guide: Tensor | None, rows: slice) -> tuple[Batch, Tensor | None]:
    """Some sentences of a batch, without the padding that only the others need."""
    part = batch.part(rows)
    (_, target), (_, source) = part.target_out.shape, part.source.shape
    return part, None if guide is None else guide[rows, :target, :source]
