"""The contract every architecture fulfils: encode, start, step, decode.

Search, forced decoding, training and alignment know nothing but this file.

Letters: B sentences, K hypotheses a sentence (the beam), R = B·K hypothesis rows, S source
length, T target length, V target vocabulary, F features before the output layer. Masks are
bool, True = real token. `target_in` is BOS y_1 … y_n, `target_out` is y_1 … y_n EOS; the source
ends in EOS.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from nmtkit.models.output import linear_cross_entropy

RowsT = TypeVar("RowsT", bound="Rows")


@dataclass(frozen=True)
class Rows:
    """Tensors that all have the rows (sentences or hypotheses) as dimension 0."""

    def select(self: RowsT, index: Tensor) -> RowsT:
        """The rows `index` (R',), in that order, of every tensor."""
        chosen = {f.name: getattr(self, f.name).index_select(0, index) for f in fields(self)}
        return replace(self, **chosen)


@dataclass(frozen=True)
class Memory(Rows):
    """What the encoder leaves for the decoder, a row a sentence."""

    mask: Tensor  # (B, S)


MemoryT = TypeVar("MemoryT", bound=Memory)
StateT = TypeVar("StateT", bound=Rows)


class Seq2Seq(nn.Module, Generic[MemoryT, StateT]):
    """An encoder and a decoder over subword ids."""

    output: nn.Linear  # (V, F): the softmax layer
    has_attention: bool = True
    #: How many rows after the one that predicts y_i the attention query has first consumed y_i.
    consumed_shift: int = 1

    def __init__(self) -> None:
        super().__init__()
        #: The attention that has read the whole target, where there is one: see `align`.
        self.head: nn.Module | None = None  # in the class it would hide the module

    def initialise(self) -> None:
        """Draw fresh parameters from torch's generator."""
        raise NotImplementedError

    def encode(self, source: Tensor, mask: Tensor) -> MemoryT:
        """Read source ids (B, S), mask (B, S)."""
        raise NotImplementedError

    def start(self, memory: MemoryT, beam: int = 1) -> StateT:
        """The state before the first target word, B·K rows: sentence b owns rows b·K … b·K+K-1."""
        raise NotImplementedError

    def step(self, tokens: Tensor, state: StateT, memory: MemoryT) -> tuple[Tensor, Tensor, StateT]:
        """Consume y_{i-1}, tokens (R,) -> features of y_i (R, F), attention (R, S), next state.

        `memory` keeps its B rows: the K hypotheses of a sentence share them.
        """
        raise NotImplementedError

    def features(
        self, target_in: Tensor, memory: MemoryT, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Teacher forcing up to the output: target_in (B, T) -> features, attention (B, T, S).

        The features are (B, T, F); with `real` (B, T), only those where it is True, (N, F), in
        row-major order.
        """
        raise NotImplementedError

    def decode(self, target_in: Tensor, memory: MemoryT) -> tuple[Tensor, Tensor]:
        """Teacher forcing: target_in (B, T) -> logits (B, T, V), attention (B, T, S)."""
        features, attention = self.features(target_in, memory)
        return self.output(features), attention

    def align(
        self, source: Tensor, target: Tensor, mask: Tensor, memory: MemoryT
    ) -> tuple[Tensor, Tensor]:
        """Read both sentences whole, with the head: source ids (B, S) and their memory, target ids
        (B, T) closed by EOS, mask (B, T).

        Returns the log-attention of target positions over the source and of source positions over
        the target, both (B, T, S); their exponentials sum to 1 over S, and over T. The column of
        the source's end and the row of the target's end stand for "no partner".
        """
        raise NotImplementedError

    def loss(
        self, features: Tensor, targets: Tensor, label_smoothing: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """Features (N, F), target ids (N,) -> smoothed loss and plain negative log-likelihood.

        Both are sums over the N words, in nats; only the first carries a gradient.
        """
        return linear_cross_entropy(
            features, self.output.weight, self.output.bias, targets, label_smoothing
        )


AnySeq2Seq = Seq2Seq[Any, Any]
