"""Luong, Pham and Manning, "Effective approaches to attention-based neural machine translation"
(2015, arXiv 1508.04025).

    annotations  h_s, the top layer of a stack of LSTMs over the source, read from its end to its
                 start (`reverse_source`, as in the paper's models after the first)
    decoder      a stack of LSTMs over the target that starts from the encoder's last states
                 h_t = LSTM([E y_{t-1} ; h~_{t-1}])   h~ only with input feeding, section 3.3
    attention    after the step, from h_t: global over all source positions (section 3.1; the
                 scores of attention.py, eqs. 7-8), or local (section 3.2; local_attention.py)
    h~_t = tanh(W_c [c_t ; h_t])                                                          (eq. 5)
    p(y_t) = softmax(W_s h~_t + b)                                                        (eq. 6)

Row t of the attention has read y_{t-1} and predicts y_t. The end of the source is a token like
every other; it is read first when the source is reversed, and annotations, and with them local
attention's positions, are always in the sentence's order.

Preset `paper`, section 4.1: 4 layers, 1000 cells and embeddings, parameters uniform in [-0.1, 0.1],
128 sentences a batch, gradient norm clipped to 5, dropout 0.2, D = 10, 12 epochs as the models with
dropout, for its best kind of model, local-p with the general score and input feeding; the loss is
averaged over sentences. The paper halves the learning rate 1 every epoch after the 8th; here it is
halved after every epoch that the validation set does not gain from (schedule = plateau). Dropout is
that of Zaremba et al. (2014): on embeddings, between layers, on h~; on no recurrence, nor on the h~
that is fed.

Letters: B sentences, K hypotheses a sentence, R = B·K rows, S source length, T target length,
E embedding, N layers, D state size, X key size, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nmtkit.models.attention import Attention
from nmtkit.models.copying import Copying
from nmtkit.models.feeding import feeding
from nmtkit.models.local_attention import LocalAttention
from nmtkit.models.lstm import ADAM, LSTMConfig, LSTMModel
from nmtkit.models.products import Linear
from nmtkit.models.rnn import Presets
from nmtkit.models.seq2seq import Chosen, Memory, Rows
from nmtkit.models.stack import LSTMStack


@dataclass(frozen=True)
class LuongConfig(LSTMConfig):
    """Sizes and kinds of attention; the defaults of LSTMConfig are the sizes of section 4.1."""

    architecture: Literal["luong"] = "luong"
    attention: Literal["dot", "general", "concat", "location"] = "general"
    window: Literal["global", "local-m", "local-p"] = "global"
    window_size: int = 10  # the paper's D: local attention looks so far to either side
    input_feeding: bool = True
    reverse_source: bool = True
    copy: bool = False  # words of the source may be copied (copying.py)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window != "global" and self.attention == "location":
            raise ValueError(f"attention = location goes with window = global, not {self.window}")


PRESETS: Presets = {
    name: {
        "model": {
            "embedding": size,
            "hidden": 2 * size,
            "layers": 2,
            "initialisation": "glorot",
            "dropout_embedding": dropout,
            "dropout_layers": dropout,
            "dropout_readout": dropout,
        },
        "training": ADAM,
    }
    for name, size, dropout in (("tiny", 64, 0.1), ("small", 256, 0.2), ("base", 512, 0.3))
} | {
    "paper": {
        "model": {
            "window": "local-p",
            "dropout_embedding": 0.2,
            "dropout_layers": 0.2,
            "dropout_readout": 0.2,
        },
        "training": {
            "optimizer": "sgd",
            "learning_rate": 1.0,
            "clip": 5.0,
            "batch_sentences": 128,
            "normalise": "sentences",
            "epochs": 12,
            "schedule": "plateau",
            "decay": 0.5,
            "decay_patience": 1,
        },
    }
}


@dataclass(frozen=True)
class LuongMemory(Memory):
    """The annotations, their keys, and the encoder's last state."""

    annotations: Tensor  # (B, S, D)
    keys: Tensor  # (B, S, X)
    h: Tensor  # (B, N, D)
    c: Tensor  # (B, N, D)


@dataclass(frozen=True)
class LuongState(Rows):
    """The decoder between two words."""

    h: Tensor  # (R, N, D)
    c: Tensor  # (R, N, D)
    readout: Tensor  # (R, D): h~, which input feeding reads
    position: Tensor  # (R,): of the next word, from 0


class Luong(LSTMModel[LuongMemory, LuongState]):
    """See the module's docstring. `plain` runs input feeding as the equations read (tests)."""

    config: LuongConfig
    paper_bound = 0.1

    def __init__(self, config: LuongConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self.plain = False
        size, layers = config.hidden, (config.layers, config.dropout_layers)
        self.attention_is_local = config.window != "global"
        self.encoder = LSTMStack(config.embedding, size, *layers)
        read = config.embedding + (size if config.input_feeding else 0)
        self.decoder = LSTMStack(read, size, *layers)
        self.attention: Attention | LocalAttention
        if config.window == "global":
            self.attention = Attention(config.attention, size, size, size)
        else:
            predictive = config.window == "local-p"
            self.attention = LocalAttention(
                config.attention, size, size, size, config.window_size, predictive
            )
        self.readout = Linear(2 * size, size, bias=False)  # W_c
        self.output = self._make_output(target_size)
        if config.copy:
            self.copying = Copying(size)

    def encode(self, source: Tensor, mask: Tensor) -> LuongMemory:
        words = self._embed(self.source_embedding, source)
        annotations, (h, c) = self.encoder.read(words, mask, self.config.reverse_source)
        keys = self.attention.keys(annotations)
        return LuongMemory(mask, annotations, keys, h.transpose(0, 1), c.transpose(0, 1))

    def start(self, memory: LuongMemory, beam: int = 1) -> LuongState:
        h, c = (each.repeat_interleave(beam, 0) for each in (memory.h, memory.c))
        position = torch.zeros(len(h), dtype=torch.long, device=h.device)
        return LuongState(h, c, torch.zeros_like(h[:, 0]), position)

    def step(
        self, tokens: Tensor, state: LuongState, memory: LuongMemory
    ) -> tuple[Tensor, Tensor, LuongState]:
        return self._step(self._embed(self.target_embedding, tokens), state, memory)

    def _step(
        self, words: Tensor, state: LuongState, memory: LuongMemory
    ) -> tuple[Tensor, Tensor, LuongState]:
        """`step` with the words' embeddings (R, E)."""
        if self.config.input_feeding:
            words = torch.cat([words, state.readout], 1)
        top, h, c = self.decoder.step(words, state.h, state.c)
        sentences = len(memory.mask)
        position = state.position.view(sentences, -1)
        contexts, weights = self._attend(top.view(sentences, -1, top.shape[1]), position, memory)
        readout = torch.tanh(self.readout(torch.cat([contexts.flatten(0, 1), top], 1)))
        return readout, weights.flatten(0, 1), LuongState(h, c, readout, state.position + 1)

    def features(
        self, target_in: Tensor, memory: LuongMemory, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        words = self._embed(self.target_embedding, target_in)
        if self.config.input_feeding:
            readouts, weights = (self._feed_plain if self.plain else self._feed)(words, memory)
        else:
            h, c = (each.transpose(0, 1).contiguous() for each in (memory.h, memory.c))
            tops, _ = self.decoder.run(words, (h, c))
            positions = torch.arange(words.shape[1], device=words.device)
            contexts, weights = self._attend(tops, positions.expand(target_in.shape), memory)
            readouts = torch.tanh(self.readout(torch.cat([contexts, tops], 2)))
        return self._read_out(readouts, chosen), weights

    def _feed(self, words: Tensor, memory: LuongMemory) -> tuple[Tensor, Tensor]:
        """Words (B, T, E) -> h~ (B, T, D), attention (B, T, S)."""

        def attend(query: Tensor, t: int) -> tuple[Tensor, Tensor]:
            position = torch.full((len(query), 1), t, device=query.device)
            contexts, weights = self._attend(query.unsqueeze(1), position, memory)
            return contexts.squeeze(1), weights.squeeze(1)

        return feeding(self.decoder, self.readout.weight, words, (memory.h, memory.c), attend)

    def _feed_plain(self, words: Tensor, memory: LuongMemory) -> tuple[Tensor, Tensor]:
        """Reference for `_feed`: the same arguments and results."""
        state = self.start(memory)
        readouts, weights = [], []
        for word in words.unbind(1):
            readout, alpha, state = self._step(word, state, memory)
            readouts.append(readout)
            weights.append(alpha)
        return torch.stack(readouts, 1), torch.stack(weights, 1)

    def _attend(
        self, query: Tensor, positions: Tensor, memory: LuongMemory
    ) -> tuple[Tensor, Tensor]:
        """h (B, K, D) at target positions (B, K) -> contexts (B, K, D), attention (B, K, S)."""
        keys, annotations, mask = memory.keys, memory.annotations, memory.mask
        if isinstance(self.attention, LocalAttention):
            local: tuple[Tensor, Tensor] = self.attention(query, keys, annotations, mask, positions)
            return local
        contexts, weights = self.attention(query.flatten(0, 1), keys, annotations, mask)
        return contexts.view(query.shape), weights.view(*positions.shape, -1)
