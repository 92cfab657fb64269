"""RNNencdec: the fixed-vector encoder-decoder of Cho et al. (2014, arXiv 1406.1078), as Bahdanau
et al. (2015, arXiv 1409.0473) compare it with RNNsearch (sections 2.1 and 5).

    c = h_S, the last state of a forward gated recurrence over the source
    s_0 = tanh(W_s c + b_s)
    s_i = GRU(s_{i-1}, [E y_{i-1} ; c])
    readout and output as in RNNsearch, with the same c at every word

All that the source says must fit into c: nothing is attended to, and nothing can be aligned.

Letters: B sentences, R = B·K hypothesis rows, S source length, T target length, E embedding,
H encoder state, D decoder state, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.cells import GRU, stacked
from nmtkit.models.products import Linear, linear
from nmtkit.models.recurrent import recurrence, recurrence_plain
from nmtkit.models.rnn import PRESETS as PRESETS
from nmtkit.models.rnn import Readout, RNNConfig, RNNModel
from nmtkit.models.seq2seq import Chosen, Memory, Rows, at, no_attention
from nmtkit.models.words import EmbeddedWords


@dataclass(frozen=True)
class RNNencdecConfig(RNNConfig):
    """Sizes; the defaults are those of the comparison (Bahdanau et al., 2015, section A.2.3)."""

    architecture: Literal["rnnencdec"] = "rnnencdec"


@dataclass(frozen=True)
class FixedMemory(Memory):
    """One vector a sentence."""

    context: Tensor  # (B, H)
    initial: Tensor  # (B, D)


@dataclass(frozen=True)
class FixedState(Rows):
    """The decoder between two words."""

    hidden: Tensor  # (R, D)


class RNNencdec(RNNModel[FixedMemory, FixedState]):
    """See the module's docstring."""

    config: RNNencdecConfig
    has_attention = False

    def __init__(self, config: RNNencdecConfig, source_size: int, target_size: int) -> None:
        context = config.encoder_hidden
        super().__init__(config)
        self.source_embedding = nn.Embedding(source_size, config.embedding)
        self.target_embedding = nn.Embedding(target_size, config.embedding)
        self.encoder_gru = GRU(config.embedding, config.encoder_hidden, config.reset)
        self.initial = Linear(config.encoder_hidden, config.hidden)
        self.decoder_gru = GRU(config.embedding + context, config.hidden, config.reset)
        self.readout = Readout(config, context)
        self.output = Linear(config.maxout, target_size)

    def encode(self, source: Tensor, mask: Tensor) -> FixedMemory:
        words = self._words(self.source_embedding, source, self.config.dropout_source_word)
        unit = self.encoder_gru
        initial = words.rows.new_zeros((len(source), self.config.encoder_hidden))
        states = self._run(unit, words.transposed().linear(unit.W, unit.b), initial)  # (S, B, H)
        last = mask.sum(1) - 1
        context = states[last, torch.arange(len(source), device=source.device)]
        return FixedMemory(mask, context, torch.tanh(self.initial(context)))

    def start(self, memory: FixedMemory, beam: int = 1) -> FixedState:
        return FixedState(memory.initial.repeat_interleave(beam, 0))

    def step(
        self, tokens: Tensor, state: FixedState, memory: FixedMemory
    ) -> tuple[Tensor, Tensor, FixedState]:
        word = self._embed(self.target_embedding, tokens, 0.0)
        beam = len(tokens) // len(memory.context)
        context = memory.context.repeat_interleave(beam, 0)
        hidden = self.decoder_gru(torch.cat([word, context], 1), state.hidden)
        readout = self.readout(hidden, EmbeddedWords(word), context)
        return readout, no_attention(memory.mask, readout, len(tokens)), FixedState(hidden)

    def features(
        self, target_in: Tensor, memory: FixedMemory, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        words = self._words(self.target_embedding, target_in, self.config.dropout_target_word)
        W, size = self.decoder_gru.W, self.config.embedding
        x = words.transposed().linear(W[:, :size], self.decoder_gru.b)
        x = x + linear(memory.context, W[:, size:])
        states = self._run(self.decoder_gru, x, memory.initial).transpose(0, 1)  # (B, T, D)
        contexts = memory.context.unsqueeze(1).expand(-1, target_in.shape[1], -1)
        readout = self.readout(at(chosen, states), words.at(chosen), at(chosen, contexts))
        readout = F.dropout(readout, self.config.dropout_readout, self.training)
        return readout, no_attention(memory.mask, readout, *target_in.shape)

    def _run(self, unit: GRU, x: Tensor, initial: Tensor) -> Tensor:
        """One recurrence, with dropout in training: x (T, B, 3D), initial (B, D) -> (T, B, D)."""
        dropout = self._recurrent_mask(tuple(initial.shape), x)
        mask = None if dropout is None else dropout.unsqueeze(0)
        run = recurrence_plain if self.plain else recurrence
        return run(x.unsqueeze(0), initial.unsqueeze(0), stacked([unit]), mask).squeeze(1)
