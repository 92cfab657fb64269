"""seq2seq: Sutskever, Vinyals and Le, "Sequence to sequence learning with neural networks" (2014,
arXiv 1409.3215), sections 2 and 3.

A deep LSTM reads the source, another one, with parameters of its own, writes the target. All that
passes between them is the state of every layer after the last token read:

    encoder   (h, c)_n = LSTM_n over the source, from zero, n = 1 … N
    decoder   starts from (h, c)_n in layer n, reads BOS y_1 y_2 …;  p(y_i) = softmax(W_o h_N + b)

The source is read from its end to its start (section 3.3): EOS first and the first word last, so
that it stands next to BOS, and few steps before the words that translate it. BOS is what the
paper's figure 1 calls <EOS>. With `reverse_source = false` EOS is read last.

The preset `paper` has the sizes and the training of section 3.4: uniform in [-0.08, 0.08], SGD
without momentum, batches of 128 sentences, the gradient divided by 128 and its norm held at 5. The
rate, 0.7, was halved every half epoch after the fifth, 7.5 epochs in all; here it is halved where
validation does not improve.

Letters: B sentences, R = B·K hypothesis rows, S source length, T target length, E embedding,
N layers, D state of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from nmtkit.models.lstm import ADAM, LSTMConfig, LSTMModel
from nmtkit.models.rnn import Presets
from nmtkit.models.seq2seq import Chosen, Memory, Rows, no_attention
from nmtkit.models.stack import LSTMStack


@dataclass(frozen=True)
class LSTMSeq2SeqConfig(LSTMConfig):
    """The defaults are the sizes of the paper, section 3.4."""

    architecture: Literal["seq2seq"] = "seq2seq"
    reverse_source: bool = True


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
        "model": {},
        "training": {
            "optimizer": "sgd",
            "learning_rate": 0.7,
            "clip": 5.0,
            "batch_sentences": 128,
            "normalise": "sentences",
            "schedule": "plateau",
            "decay": 0.5,
            "decay_patience": 1,
        },
    }
}


@dataclass(frozen=True)
class StackMemory(Memory):
    """The encoder's last states."""

    h: Tensor  # (B, N, D)
    c: Tensor  # (B, N, D)


@dataclass(frozen=True)
class StackState(Rows):
    """The decoder between two words."""

    h: Tensor  # (R, N, D)
    c: Tensor  # (R, N, D)


class LSTMSeq2Seq(LSTMModel[StackMemory, StackState]):
    """See the module's docstring."""

    config: LSTMSeq2SeqConfig
    paper_bound = 0.08
    has_attention = False

    def __init__(self, config: LSTMSeq2SeqConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        sizes = (config.embedding, config.hidden, config.layers, config.dropout_layers)
        self.encoder = LSTMStack(*sizes)
        self.decoder = LSTMStack(*sizes)
        self.output = self._make_output(target_size)

    def encode(self, source: Tensor, mask: Tensor) -> StackMemory:
        words = self._embed(self.source_embedding, source)
        _, (h, c) = self.encoder.read(words, mask, backwards=self.config.reverse_source)
        return StackMemory(mask, h.transpose(0, 1), c.transpose(0, 1))

    def start(self, memory: StackMemory, beam: int = 1) -> StackState:
        return StackState(memory.h.repeat_interleave(beam, 0), memory.c.repeat_interleave(beam, 0))

    def step(
        self, tokens: Tensor, state: StackState, memory: StackMemory
    ) -> tuple[Tensor, Tensor, StackState]:
        word = self._embed(self.target_embedding, tokens)
        top, h, c = self.decoder.step(word, state.h, state.c)
        return top, no_attention(memory.mask, top, len(tokens)), StackState(h, c)

    def features(
        self, target_in: Tensor, memory: StackMemory, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        words = self._embed(self.target_embedding, target_in)
        initial = tuple(each.transpose(0, 1).contiguous() for each in (memory.h, memory.c))
        top, _ = self.decoder.run(words, (initial[0], initial[1]))
        return self._read_out(top, chosen), no_attention(memory.mask, top, *target_in.shape)
