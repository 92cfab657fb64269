"""The contract of models that only align: they read both sentences and cannot translate."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


class Aligner(nn.Module):
    """A model of the links between two given sentences."""

    has_attention = True

    def attention(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        """How probable each source subword is as the partner of each target subword.

        Source ids (B, S), mask (B, S), target ids (B, T), both closed by EOS -> (B, T, S). The
        column of the source's EOS is NULL's; rows at padding and of the target's EOS mean nothing.
        """
        raise NotImplementedError

    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Make the tensors read from a model directory its own.

        Raises ValueError, which says what is wrong, for tensors that are none of this model.
        """
        raise NotImplementedError
