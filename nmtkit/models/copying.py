"""Copying: at every word the model either generates, or copies a source word that it attends to.

A. See, P. J. Liu, C. D. Manning, *Get to the point: summarization with pointer-generator networks*,
ACL 2017 (arXiv 1704.04368), equations 8 and 9; the same choice for rare words of a translation:
C. Gulcehre et al., *Pointing the unknown words*, ACL 2016 (arXiv 1603.08148).

    p = σ(wᵀ f_i + b)                             the share of copying; 1 - p_gen of the paper
    m = Σ_{j a word} α_ij
    P(y) = (1 - p m) softmax(W_o f_i + b_o)_y + p Σ_{j: copied_j = y} α_ij

over the target vocabulary and the source's own other words (`nmtkit.extended`). f_i are the
features before the output layer, α_i the attention. A source's end is no word: what attention it
has counts as generating (1 - p m, where the paper, whose sources have no end, has 1 - p), so that
P sums to 1.

Letters: N words, R hypothesis rows, S source length, F features, V target vocabulary. `copied` is
a target id, V + j, or -1 where nothing can be copied.
"""

# torch.autograd.Function has no types.
# mypy: disable-error-code="untyped-decorator, no-untyped-call, override"

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmtkit.models.output import TiedOutput, chunks
from nmtkit.models.products import Linear, linear, product, sum_of_outer
from nmtkit.vocabulary import PAD


class Copies(NamedTuple):
    """What N words may copy."""

    attention: Tensor  # (N, S)
    copied: Tensor  # (N, S) int64


def mixture(log_generated: Tensor, gate: Tensor, copies: Copies, targets: Tensor) -> Tensor:
    """log P of the targets (N,), ids below V + S.

    log_generated (N,) are the generator's log-probabilities of them, -inf from V on; gate (N,) is
    the argument of σ.
    """
    weights, log_rest = _words(gate, copies)
    chosen = weights * (copies.copied == targets.unsqueeze(1))
    log_copied = F.logsigmoid(gate) + _log(chosen.sum(1))
    return torch.logaddexp(log_rest + log_generated, log_copied)


def _words(gate: Tensor, copies: Copies) -> tuple[Tensor, Tensor]:
    """The attention on what can be copied (N, S), and log(1 - p m) (N,)."""
    weights = copies.attention.masked_fill(copies.copied < 0, 0.0)
    elsewhere = (1 - weights.sum(1)).clamp(min=0.0)  # rounded, the sum may be above 1
    # As 1 - p m, without its cancellation where p and m are nearly 1.
    return weights, _log(torch.sigmoid(-gate) + torch.sigmoid(gate) * elsewhere)


def _log(probability: Tensor) -> Tensor:
    """The logarithm, finite where a weight has become 0: so is its gradient then."""
    return probability.clamp(min=torch.finfo(probability.dtype).tiny).log()


class Copying(nn.Module):
    """See the module's docstring."""

    def __init__(self, feature_size: int) -> None:
        super().__init__()
        self.gate = Linear(feature_size, 1)

    def log_probs(self, features: Tensor, log_generated: Tensor, copies: Copies) -> Tensor:
        """Of R rows: features (R, F), the generator's log-probabilities (R, V) -> (R, V + S)."""
        dtype, copied = log_generated.dtype, copies.copied.clamp(min=0)
        copies = Copies(copies.attention.to(dtype), copies.copied)
        gate = self.gate(features).squeeze(1).to(dtype)
        weights, log_rest = _words(gate, copies)
        both = F.pad(log_generated, (0, copied.shape[1]), value=-torch.inf)
        both += log_rest.unsqueeze(1)
        # The sums at the words that can be copied; PAD, where the others put their 0, is none.
        sums = torch.zeros_like(both).scatter_add_(1, copied, weights).gather(1, copied)
        log_copied = F.logsigmoid(gate).unsqueeze(1) + _log(sums)
        return both.scatter_(1, copied, torch.logaddexp(both.gather(1, copied), log_copied))

    def loss(
        self,
        features: Tensor,
        output: nn.Linear | TiedOutput,
        targets: Tensor,
        copies: Copies,
        label_smoothing: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """Features (N, F), target ids (N,) below V + S -> smoothed and plain loss, sums in nats.

        The plain one is -Σ log P. Smoothing mixes in the generator's mean -log-probability over
        its V words, as it does without copying. Only the first carries a gradient. Targets that are
        PAD are not counted.
        """
        weight, bias, gate = output.weight, output.bias, self.gate(features).squeeze(1)
        smoothed: Tensor
        nll: Tensor
        if torch.is_grad_enabled():
            smoothed, nll = _CopyingLoss.apply(
                features, weight, bias, gate, *copies, targets, label_smoothing
            )
            return smoothed, nll
        smoothed = nll = features.new_zeros(())
        for part in chunks(len(features), len(weight)):
            some = Copies(copies.attention[part], copies.copied[part])
            found = copying_loss_plain(
                features[part], weight, bias, gate[part], some, targets[part], label_smoothing
            )
            smoothed, nll = smoothed + found[0], nll + found[1]
        return smoothed, nll


def copying_loss_plain(
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    gate: Tensor,
    copies: Copies,
    targets: Tensor,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """The reference of `Copying.loss`: weight (V, F), bias (V,), gate (N,) of the features."""
    log_probs = F.log_softmax(linear(features, weight, bias), 1)
    log_probs, gate = log_probs.to(copies.attention.dtype), gate.to(copies.attention.dtype)
    counted = (targets != PAD).to(log_probs.dtype)
    nll = -(counted * mixture(_at_targets(log_probs, targets), gate, copies, targets)).sum()
    smooth = -(counted * log_probs.mean(1)).sum()
    return (1 - label_smoothing) * nll + label_smoothing * smooth, nll.detach()


def _at_targets(log_probs: Tensor, targets: Tensor) -> Tensor:
    """(N, V) -> (N,): -inf for targets that the generator has not."""
    size = log_probs.shape[1]
    chosen = log_probs.gather(1, targets.clamp(max=size - 1).unsqueeze(1)).squeeze(1)
    return chosen.masked_fill(targets >= size, -torch.inf)


class _CopyingLoss(torch.autograd.Function):
    """Computes the gradients in the forward pass, a chunk at a time; the backward scales them.

    In place: a second backward pass through the same graph is refused.
    """

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        gate: Tensor,
        attention: Tensor,
        copied: Tensor,
        targets: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        size = weight.shape[0]
        d_features, d_gate = torch.empty_like(features), torch.empty_like(gate)
        d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        d_attention = torch.empty_like(attention)
        loss, nll = features.new_zeros(()), features.new_zeros(())
        for part in chunks(len(features), len(weight)):
            rows, target = features[part], targets[part]
            counted = (target != PAD).to(features.dtype)
            logits = product(rows, weight.t(), bias)
            log_probs = logits.sub_(logits.logsumexp(1, keepdim=True))
            # Beyond the V words the mixture is small: its gradient is autograd's.
            with torch.enable_grad():
                small = [
                    tensor.detach().requires_grad_()
                    for tensor in (_at_targets(log_probs, target), gate[part], attention[part])
                ]
                copies = Copies(small[2], copied[part])
                log_mixed = (counted * mixture(small[0], small[1], copies, target)).sum()
                generated, *others = torch.autograd.grad(log_mixed, small)
            nll -= log_mixed.detach()
            loss -= (1 - smoothing) * log_mixed.detach()
            d_gate[part], d_attention[part] = (other * (smoothing - 1) for other in others)
            if smoothing:
                loss -= smoothing * (counted * log_probs.mean(1)).sum()
            # -r log g_y - (ε/V) Σ_w log g_w, r the part that the generator has in P:
            # d / d logits = (r + ε) softmax - r one-hot - ε / V
            share = (generated * (1 - smoothing)).unsqueeze(1)
            even = (counted * smoothing).unsqueeze(1)
            gradient = log_probs.exp_().mul_(share + even)
            if smoothing:
                gradient -= even / size
            gradient.scatter_add_(1, target.clamp(max=size - 1).unsqueeze(1), -share)
            d_features[part] = product(gradient, weight)
            d_weight = sum_of_outer(gradient, rows, d_weight)
            d_bias += gradient.sum(0)
        ctx.save_for_backward(d_features, d_weight, d_bias, d_gate, d_attention)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, d_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return *(saved.mul_(d_loss) for saved in ctx.saved_tensors), None, None, None
