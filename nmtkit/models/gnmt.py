"""GNMT: Wu et al., "Google's neural machine translation system: bridging the gap between human and
machine translation" (2016, arXiv 1609.08144), section 3.

    encoder   layer 1 in both directions, [fwd_j ; bwd_j] to layer 2; all above forwards only
    decoder   all layers forwards; from the third layer on, in encoder and decoder, what a layer
              reads is added to what it gives (eqs. 5, 6); p(y_i) = softmax(W_o top_i + b)
    context   a_i = Σ_j p_ij x_j over the encoder's top layer x, p_i the softmax of a network with
              one hidden layer (attention.py, additive)                                    (eq. 4)

The attention asks with the BOTTOM decoder layer's output m_i alone, and every decoder layer reads
the context (figure 1): only the bottom layer and the attention run word by word in training, the
layers above over whole sentences. `order` says which output asks:

    previous  a_i = att(m_{i-1}); m_i = LSTM([E y_{i-1} ; a_i])       eq. 4: "the decoder-RNN output
              from the past decoding time step"; row i has consumed y_{i-2}
    current   m_i = LSTM([E y_{i-1} ; a_{i-1}]); a_i = att(m_i), a_0 = 0    a later variant of the
              same authors' code; row i has consumed y_{i-1}

The decoder starts from zeros: the paper passes it no state of the encoder. The residual path takes
what the layer below gave, not the context beside it, and no dropout.

The preset `paper` has the 8 + 8 layers of 1024 (section 3) and the first stage of training (section
8): parameters uniform in [-0.04, 0.04], Adam at 0.0002, batches of 128, gradient norm at most 5,
dropout 0.2. The later stages, SGD with a falling rate after 60 000 updates and refinement by
reinforcement learning, are not in it, nor is the clipping of states for quantised inference.

Letters: B sentences, K hypotheses a sentence, R = B·K hypothesis rows, S source length, T target
length, E embedding, H encoder state, N decoder layers, D decoder state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.models.attention import Attention
from nmtkit.models.lstm import ADAM, LSTMConfig, LSTMModel
from nmtkit.models.rnn import Presets
from nmtkit.models.seq2seq import Chosen, Memory, Rows
from nmtkit.models.stack import LSTMStack


@dataclass(frozen=True)
class GNMTConfig(LSTMConfig):
    """The defaults are the sizes of the paper."""

    architecture: Literal["gnmt"] = "gnmt"
    embedding: int = 1024
    encoder_hidden: int = 1024  # H, of each direction of the first layer and of all above
    encoder_layers: int = 8  # the one in both directions among them
    hidden: int = 1024
    layers: int = 8
    attention_units: int = 1024
    order: Literal["previous", "current"] = "previous"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, what in (("encoder_layers", "encoder"), ("layers", "decoder")):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2: gnmt's {what} has a layer above")


PRESETS: Presets = {
    name: {
        "model": {
            "embedding": size,
            "encoder_hidden": size,
            "encoder_layers": layers,
            "hidden": size,
            "layers": layers,
            "attention_units": size,
            "initialisation": "glorot",
            "dropout_embedding": dropout,
            "dropout_layers": dropout,
            "dropout_readout": dropout,
        },
        "training": ADAM,
    }
    for name, size, layers, dropout in (
        ("tiny", 64, 3, 0.1),
        ("small", 256, 4, 0.2),
        ("base", 512, 4, 0.3),
    )
} | {
    "paper": {
        "model": {"dropout_layers": 0.2},
        "training": {
            "optimizer": "adam",
            "learning_rate": 2e-4,
            "clip": 5.0,
            "batch_sentences": 128,
        },
    }
}


@dataclass(frozen=True)
class GNMTMemory(Memory):
    """The encoder's top layer, and what the attention computes from it once a sentence."""

    annotations: Tensor  # (B, S, H)
    keys: Tensor  # (B, S, A)


@dataclass(frozen=True)
class GNMTState(Rows):
    """The decoder between two words."""

    h: Tensor  # (R, N, D); the bottom layer's is what asks
    c: Tensor  # (R, N, D)
    context: Tensor  # (R, H): of the step before; only order = current looks at it


class GNMT(LSTMModel[GNMTMemory, GNMTState]):
    """See the module's docstring."""

    config: GNMTConfig
    paper_bound = 0.04

    def __init__(self, config: GNMTConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        E, H, D = config.embedding, config.encoder_hidden, config.hidden
        dropout = config.dropout_layers
        self.consumed_shift = 2 if config.order == "previous" else 1
        self.forward_layer = LSTMStack(E, H, 1, dropout)
        self.backward_layer = LSTMStack(E, H, 1, dropout)
        self.encoder = LSTMStack(2 * H, H, config.encoder_layers - 1, dropout, residual_from=1)
        self.attention = Attention("additive", D, H, config.attention_units)
        self.bottom = LSTMStack(E, D, 1, dropout, beside=H)
        self.decoder = LSTMStack(D, D, config.layers - 1, dropout, residual_from=1, beside=H)
        self.output = self._make_output(target_size)

    def encode(self, source: Tensor, mask: Tensor) -> GNMTMemory:
        words = self._embed(self.source_embedding, source)
        forwards, _ = self.forward_layer.run(words)
        backwards, _ = self.backward_layer.read(words, mask, backwards=True)
        annotations, _ = self.encoder.run(self._dropped(torch.cat([forwards, backwards], 2)))
        return GNMTMemory(mask, annotations, self.attention.keys(annotations))

    def start(self, memory: GNMTMemory, beam: int = 1) -> GNMTState:
        rows, config = len(memory.mask) * beam, self.config
        zeros = memory.annotations.new_zeros((rows, config.layers, config.hidden))
        context = memory.annotations.new_zeros((rows, config.encoder_hidden))
        return GNMTState(zeros, zeros, context)

    def step(
        self, tokens: Tensor, state: GNMTState, memory: GNMTMemory
    ) -> tuple[Tensor, Tensor, GNMTState]:
        word = self._embed(self.target_embedding, tokens)
        below = GNMTState(state.h[:, :1], state.c[:, :1], state.context)
        below, weights = self._bottom_step(word, below, memory)
        top, h, c = self.decoder.step(
            below.h[:, 0], state.h[:, 1:], state.c[:, 1:], beside=below.context
        )
        h, c = torch.cat([below.h, h], 1), torch.cat([below.c, c], 1)
        return top, weights, GNMTState(h, c, below.context)

    def features(
        self, target_in: Tensor, memory: GNMTMemory, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        words = self._embed(self.target_embedding, target_in)
        start = self.start(memory)
        below = GNMTState(start.h[:, :1], start.c[:, :1], start.context)
        outputs, contexts, attention = [], [], []
        for word in words.unbind(1):
            below, weights = self._bottom_step(word, below, memory)
            outputs.append(below.h[:, 0])
            contexts.append(below.context)
            attention.append(weights)
        above = [self._dropped(torch.stack(each, 1)) for each in (outputs, contexts)]
        top, _ = self.decoder.run(above[0], beside=above[1])
        return self._read_out(top, chosen), torch.stack(attention, 1)

    def _bottom_step(
        self, word: Tensor, below: GNMTState, memory: GNMTMemory
    ) -> tuple[GNMTState, Tensor]:
        """One word (R, E): the bottom layer's next state and context, the attention (R, S)."""
        source = (memory.keys, memory.annotations, memory.mask)
        context = below.context
        if self.config.order == "previous":
            context, weights = self.attention(below.h[:, 0], *source)
        output, h, c = self.bottom.step(word, below.h, below.c, beside=context)
        if self.config.order == "current":
            context, weights = self.attention(output, *source)
        return GNMTState(h, c, context), weights

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.config.dropout_layers, self.training)
