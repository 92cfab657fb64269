"""The softmax layer and its loss, in chunks, so that (N, V) logits never stand in memory whole."""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmtkit.errors import UserError
from nmtkit.models.products import linear, product, sum_of_outer
from nmtkit.vocabulary import PAD

CHUNK_BYTES = 1 << 26  # of logits held at a time
LEAST_ROWS = 256  # of them, however large the vocabulary


class TiedOutput(nn.Module):
    """The softmax layer whose matrix is an embedding's (Press and Wolf, 2017, arXiv 1608.05859).

    The matrix stays the embedding's parameter and has no second name here, so that saving and
    loading need not know of it.
    """

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self._embedding = (embedding,)  # in a tuple it is no part of this module
        self.bias = nn.Parameter(torch.empty(embedding.num_embeddings))

    @property
    def weight(self) -> Tensor:
        """(V, F)."""
        return self._embedding[0].weight

    def forward(self, features: Tensor) -> Tensor:
        """Features (…, F) -> logits (…, V)."""
        return linear(features, self.weight, self.bias)


def check_one_vocabulary(source_size: int, target_size: int) -> None:
    """UserError unless one embedding may serve both sides."""
    if source_size != target_size:
        raise UserError(
            "model.tied_embeddings = all needs one vocabulary for both sides, but they have "
            f"{source_size} and {target_size} tokens: say target"
        )


def chunks(rows: int, logits: int) -> list[slice]:
    """The parts of that many rows of logits, about equally long, that are held at a time."""
    most = max(LEAST_ROWS, CHUNK_BYTES // (4 * logits))
    count = -(-rows // most)
    return [slice(rows * i // count, rows * (i + 1) // count) for i in range(count)]


def linear_cross_entropy_plain(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The reference: features (N, F), weight (V, F), bias (V,), targets (N,) -> two sums, nats.

    Targets that are PAD are not counted.
    """
    logits = linear(features, weight, bias)

    def entropy(logits: Tensor, smoothing: float) -> Tensor:
        return F.cross_entropy(
            logits, targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing
        )

    return entropy(logits, label_smoothing), entropy(logits.detach(), 0.0)


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients in the forward pass, a chunk at a time; the backward scales them.

    In place: a second backward pass through the same graph is refused.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        size = weight.shape[0]
        d_features = torch.empty_like(features)
        d_bias = torch.zeros_like(bias)
        loss = features.new_zeros(())
        nll = features.new_zeros(())
        transposed = weight.t()
        parts = chunks(len(features), size)
        d_weight = None
        for part in parts:
            rows, target = features[part], targets[part].unsqueeze(1)
            counted = (target != PAD).to(features.dtype)
            logits = product(rows, transposed, bias)
            logits -= logits.amax(1, keepdim=True)
            at_target = logits.gather(1, target)
            mean = logits.mean(1, keepdim=True) if smoothing else at_target
            total = logits.exp_().sum(1, keepdim=True)
            log_total = total.log()
            nll += (counted * (log_total - at_target)).sum()
            smoothed = log_total - (1 - smoothing) * at_target - smoothing * mean
            loss += (counted * smoothed).sum()
            # d loss / d logits = softmax - [(1 - smoothing) one-hot + smoothing / V]
            gradient = logits.mul_(counted / total)
            if smoothing:
                gradient -= counted * (smoothing / size)
            gradient.scatter_add_(1, target, counted * (smoothing - 1))
            d_features[part] = product(gradient, weight)
            d_weight = sum_of_outer(rows, gradient, d_weight)  # transposed
            d_bias += gradient.sum(0)
        d_weight = torch.zeros_like(transposed) if d_weight is None else d_weight
        ctx.save_for_backward(d_features, d_weight.t(), d_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, d_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *(saved.mul_(d_loss) for saved in ctx.saved_tensors), None, None


def linear_cross_entropy(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """`linear_cross_entropy_plain` with bounded memory."""
    loss: Tensor
    nll: Tensor
    if torch.is_grad_enabled():
        loss, nll = _LinearCrossEntropy.apply(features, weight, bias, targets, label_smoothing)
        return loss, nll
    loss = nll = features.new_zeros(())
    for part in chunks(len(features), len(weight)):
        smoothed, plain = linear_cross_entropy_plain(
            features[part], weight, bias, targets[part], label_smoothing
        )
        loss, nll = loss + smoothed, nll + plain
    return loss, nll
