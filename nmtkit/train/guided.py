"""Guided alignment: the attention learns links (Chen, Matusov, Khadivi, Peter, 2016).

    L = -Σ_i Σ_j g_ij log α_ij

with g_i the links of target subword i, spread evenly, or all on the source's end when it has none
(`guide.Guide.batch`).

Letters: B sentences, S source length, T target length, ends included.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-20  # attention below this is as good as none


def decoder_loss(attention: Tensor, guide: Tensor, shift: int) -> Tensor:
    """The decoder's attention (B, T', S) against the guide (B, T, S), summed; nats.

    The reading of target subword t is row t + shift: T' is at least T + shift - 1. With a shift the
    target's end has no reading of its own, so that what the guide says of it is left out.
    """
    if shift:
        guide = guide.masked_fill(_end(guide.sum(2) > 0).unsqueeze(2), 0.0)
    read = attention[:, shift : shift + guide.shape[1]].clamp_min(TINY).log()
    return -(guide[:, : read.shape[1]] * read).sum()


def head_loss(
    forward: Tensor, backward: Tensor, guide: Tensor, source_mask: Tensor, target_mask: Tensor
) -> Tensor:
    """The head's two log-attentions (B, T, S) against the guide, the mean of both sums; nats.

    What the guide says of target words it says of source words too: the links of a source subword
    are spread evenly over the target, or are all on the target's end when it has none.
    """
    source_end, target_end = _end(source_mask), _end(target_mask)
    links = (guide > 0) & ~source_end.unsqueeze(1) & ~target_end.unsqueeze(2)
    of_source = links.sum(1, keepdim=True)
    unlinked = (of_source == 0) & source_mask.unsqueeze(1)  # the source's end is the target end's
    turned = links / of_source.clamp_min(1) + (target_end.unsqueeze(2) & unlinked).float()
    return -((guide * forward).sum() + (turned * backward).sum()) / 2


def _end(mask: Tensor) -> Tensor:
    """Mask (B, S) -> True at the last real position of every sentence."""
    following = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], 1)
    return mask & ~following
