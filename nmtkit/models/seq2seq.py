"""The contract every architecture fulfils: encode, start, step, decode.

Search, forced decoding, training and alignment know nothing but this file.

Letters: B sentences, K hypotheses a sentence (the beam), R = B·K hypothesis rows, S source
length, T target length, V target vocabulary, F features before the output layer. Masks are
bool, True = real token. `target_in` is BOS y_1 … y_n, `target_out` is y_1 … y_n EOS; the source
ends in EOS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.copying import Copies, Copying
from nmtkit.models.output import TiedOutput, linear_cross_entropy
from nmtkit.models.stepping import Stepper

MOST_LAYERS = 1000  # more would only take a model directory's lie for a size
#: Rows and positions (N,) of N chosen targets of a batch: `Batch.chosen`.
Chosen = tuple[Tensor, ...]
RowsT = TypeVar("RowsT", bound="Rows")


def at(chosen: Chosen | None, x: Tensor) -> Tensor:
    """The rows (N, F) of x (B, T, F) at the chosen targets, or all of x.

    What `x[chosen]` is, which takes a CPU several times as long, both ways.
    """
    if chosen is None:
        return x
    rows, positions = chosen
    if x.transpose(0, 1).is_contiguous():  # as recurrences leave it
        return x.transpose(0, 1).flatten(0, 1).index_select(0, positions * len(x) + rows)
    return x.flatten(0, 1).index_select(0, rows * x.shape[1] + positions)


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

    output: nn.Linear | TiedOutput  # (V, F): the softmax layer
    has_attention: bool = True
    #: Whether attention looks at a part of the source only: other real tokens have none of it.
    attention_is_local: bool = False
    #: How many layers of the decoder attend to the source, and with how many heads …
    attention_layers: int = 1
    attention_heads: int = 1
    #: … and whose attention is returned, from 1; head 0: the mean of all.
    attention_layer: int = 1
    attention_head: int = 0
    #: How many rows after the one that predicts y_i the attention query has first consumed y_i.
    consumed_shift: int = 1

    def __init__(self) -> None:
        super().__init__()
        #: The attention that has read the whole target, where there is one: see `align`.
        self.head: nn.Module | None = None  # in the class it would hide the module
        #: The choice between generating and copying, where there is one.
        self.copying: Copying | None = None

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

    def stepper(self, int8: bool = False) -> Stepper:
        """How search steps the model as it is now: the same results, perhaps faster.

        With `int8` (CPU only) weights and what they multiply are rounded to 8 bits.
        """
        return Stepper(self, int8)

    def features(
        self, target_in: Tensor, memory: MemoryT, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        """Teacher forcing up to the output: target_in (B, T) -> features, attention (B, T, S).

        The features are (B, T, F); with `chosen`, only those of the chosen targets, (N, F).
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

    def log_probs(
        self,
        logits: Tensor,
        features: Tensor,
        attention: Tensor,
        copied: Tensor | None = None,
    ) -> Tensor:
        """Of a step the output (R, V), what it was made of (R, F), and the attention (R, S) ->
        log-probabilities (R, V), float32.

        With `copied` (R, S) they are (R, V + S), over the source-extended vocabulary (copying.py);
        -inf from V on in a model that does not copy.
        """
        generated = F.log_softmax(logits.float(), 1)
        if copied is None:
            return generated
        if self.copying is None:
            return F.pad(generated, (0, copied.shape[1]), value=-math.inf)
        return self.copying.log_probs(features, generated, Copies(attention, copied))

    def loss(
        self,
        features: Tensor,
        targets: Tensor,
        label_smoothing: float = 0.0,
        copies: Copies | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Features (N, F), target ids (N,) -> smoothed loss and plain negative log-likelihood.

        Both are sums over the words that are not PAD, in nats; only the first carries a gradient.
        In a model that copies, `copies` says what there is to copy; without it nothing.
        """
        if self.copying is not None and copies is not None:
            return self.copying.loss(features, self.output, targets, copies, label_smoothing)
        return linear_cross_entropy(
            features, self.output.weight, self.output.bias, targets, label_smoothing
        )


AnySeq2Seq = Seq2Seq[Any, Any]


def no_attention(mask: Tensor, like: Tensor, *rows: int) -> Tensor:
    """Attention weights for a model that has none: zeros (…, S) that take no memory."""
    return like.new_zeros(()).expand(*rows, mask.shape[1])
