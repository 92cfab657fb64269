"""RNNsearch: Bahdanau, Cho and Bengio, "Neural machine translation by jointly learning to align
and translate" (2015, arXiv 1409.0473), sections 3 and A.

    annotations  h_j = [fwd_j ; bwd_j], both gated recurrences, h_0 = 0               (eq. 7, A.2.1)
    s_0 = tanh(W_s bwd_1 + b_s)                                                       (A.2.2)
    c_i = Σ_j α_ij h_j, additive attention (attention.py)                             (eqs. 5, 6)
    t~_i = U_o s + V_o E y_{i-1} + C_o c_i + b_o,  t_i = maxout over pairs,
    p(y_i) = softmax(W_o t_i + b)                                                     (A.2.2)

The published sources disagree on which state attention and readout see; `order` names all four
readings (E y_0 = 0):

    main-text    c_i = att(s_{i-1}); s_i = GRU(s_{i-1}, [E y_{i-1}; c_i]); readout sees s_i  (eq. 4)
    appendix     the same, but the readout sees s_{i-1}                                      (A.2.2)
    groundhog    the authors' own code: u_1 = s_0, u_i = GRU(u_{i-1}, [E y_{i-1}; c_{i-1}]);
                 c_i = att(u_i); the readout sees u_i
    conditional  dl4mt and Nematus: s'_i = GRU(s_{i-1}, E y_{i-1}); c_i = att(s'_i);
                 s_i = GRU(s'_i, c_i); the readout sees s_i

Letters: B sentences, R = B·K hypothesis rows, S source length, T target length, E embedding,
H encoder state a direction, D decoder state (the paper's n for both), A attention units,
L maxout units, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.alignment_head import AlignmentHead
from nmtkit.models.attending import Inputs, attending, attending_plain
from nmtkit.models.attention import AdditiveAttention, mask_bias
from nmtkit.models.encoder import Encoder
from nmtkit.models.recurrent import GRU
from nmtkit.models.rnn import PRESETS as RNN_PRESETS
from nmtkit.models.rnn import Presets, Readout, RNNConfig, RNNModel
from nmtkit.models.seq2seq import Memory, Rows
from nmtkit.vocabulary import BOS


@dataclass(frozen=True)
class RNNsearchConfig(RNNConfig):
    """Sizes and readings; the defaults are the paper's (section A.2.3)."""

    architecture: Literal["rnnsearch"] = "rnnsearch"
    attention: int = 1000  # A, the paper's n'
    order: Literal["main-text", "appendix", "groundhog", "conditional"] = "main-text"
    temperature: float = 1.0  # τ: energies are divided by it; below 1, attention is sharper
    coverage: bool = False  # energies see the attention each word has had (Tu et al., 2016)
    alignment_head: bool = False  # also an attention that has read the whole target, to align by

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.01 <= self.temperature <= 100:
            raise ValueError(f"temperature must be from 0.01 to 100, got {self.temperature}")


def _with_attention(preset: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """As many attention units as the decoder has state units, as in the paper."""
    model = dict(preset["model"])
    if "hidden" in model:
        model["attention"] = model["hidden"]
    return {**preset, "model": model}


#: A small network that only aligns, taught the links of a guide; its decoder is not trained.
_ALIGNER: dict[str, dict[str, Any]] = {
    "model": {
        "embedding": 128,
        "encoder_hidden": 128,
        "hidden": 128,
        "attention": 128,
        "maxout": 64,
        "order": "conditional",
        "initialisation": "glorot",
        "alignment_head": True,
        "dropout_embedding": 0.2,
    },
    "training": {
        "optimizer": "adam",
        "learning_rate": 4e-3,
        "batch_sentences": 16,
        "warmup": 100,
        "schedule": "cosine",
        "epochs": 8,
        "patience": 0,
        "translation_weight": 0.0,
    },
}

PRESETS: Presets = {name: _with_attention(preset) for name, preset in RNN_PRESETS.items()} | {
    "aligner": _ALIGNER
}


@dataclass(frozen=True)
class RNNMemory(Memory):
    """The annotations, and what is computed from them once a sentence."""

    annotations: Tensor  # (B, S, 2H)
    keys: Tensor  # (B, S, A): U_a h_j + b_a
    initial: Tensor  # (B, D): s_0


@dataclass(frozen=True)
class RNNState(Rows):
    """The decoder between two words."""

    hidden: Tensor  # (R, D)
    context: Tensor  # (R, 2H): of the step before; only order = groundhog looks at it
    coverage: Tensor  # (R, S): the attention so far; only model.coverage looks at it


class RNNsearch(RNNModel[RNNMemory, RNNState]):
    """See the module's docstring. `plain` runs the reference recurrences (tests, benchmarks)."""

    config: RNNsearchConfig

    def __init__(self, config: RNNsearchConfig, source_size: int, target_size: int) -> None:
        context = 2 * config.encoder_hidden
        super().__init__(config)
        self.consumed_shift = 2 if config.order in ("main-text", "appendix") else 1
        self.source_embedding = nn.Embedding(source_size, config.embedding)
        self.target_embedding = nn.Embedding(target_size, config.embedding)
        self.encoder = Encoder(config)
        self.initial = nn.Linear(config.encoder_hidden, config.hidden)
        self.attention = AdditiveAttention(
            config.hidden, context, config.attention, config.temperature, config.coverage
        )
        self.context_gru: GRU | None = None
        if config.order == "conditional":
            self.decoder_gru = GRU(config.embedding, config.hidden, config.reset)
            self.context_gru = GRU(context, config.hidden, config.reset)
        else:
            self.decoder_gru = GRU(config.embedding + context, config.hidden, config.reset)
        self.readout = Readout(config, context)
        self.output = nn.Linear(config.maxout, target_size)
        if config.alignment_head:
            self.head = AlignmentHead(config, config.attention, config.temperature)

    def encode(self, source: Tensor, mask: Tensor) -> RNNMemory:
        embedded = self._embed(self.source_embedding, source, self.config.dropout_source_word)
        rows = (2, source.shape[0], self.config.encoder_hidden)
        dropout = self._recurrent_mask(rows, embedded)
        annotations = self.encoder(embedded, mask, dropout, self.plain)
        first_backward = annotations[:, 0, self.config.encoder_hidden :]
        initial = torch.tanh(self.initial(first_backward))
        return RNNMemory(mask, annotations, self.attention.keys(annotations), initial)

    def start(self, memory: RNNMemory, beam: int = 1) -> RNNState:
        hidden = memory.initial.repeat_interleave(beam, 0)
        rows, length = hidden.shape[0], memory.mask.shape[1]
        context = hidden.new_zeros((rows, memory.annotations.shape[2]))
        return RNNState(hidden, context, hidden.new_zeros((rows, length)))

    def step(
        self, tokens: Tensor, state: RNNState, memory: RNNMemory
    ) -> tuple[Tensor, Tensor, RNNState]:
        word = self._embed(self.target_embedding, tokens, 0.0)
        hidden = state.hidden
        if self.config.order == "groundhog":
            consumed = self.decoder_gru(torch.cat([word, state.context], 1), hidden)
            hidden = torch.where((tokens == BOS).unsqueeze(1), hidden, consumed)
        elif self.context_gru is not None:
            hidden = self.decoder_gru(word, hidden)
        context, weights = self.attention(
            hidden, memory.keys, memory.annotations, memory.mask, state.coverage
        )
        seen = hidden
        if self.context_gru is not None:
            seen = hidden = self.context_gru(context, hidden)
        elif self.config.order != "groundhog":
            hidden = self.decoder_gru(torch.cat([word, context], 1), hidden)
            seen = hidden if self.config.order == "main-text" else seen
        readout = self.readout(seen, word, context)
        return readout, weights, RNNState(hidden, context, state.coverage + weights)

    def features(
        self, target_in: Tensor, memory: RNNMemory, real: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        config = self.config
        words = self._embed(self.target_embedding, target_in, config.dropout_target_word)
        words = words.transpose(0, 1)  # (T, B, E)
        consumed = words
        if config.order == "groundhog":
            # At position i this recurrence consumes y_i itself, after c_i was read out.
            consumed = torch.cat([words[1:], torch.zeros_like(words[:1])])
        unit, W = self.decoder_gru, self.decoder_gru.W
        W_y = W[:, : config.embedding]
        common: dict[str, Any] = {
            "x": F.linear(consumed, W_y, unit.b),
            "initial": memory.initial,
            "keys": memory.keys,
            "annotations": memory.annotations,
            "bias": mask_bias(memory.mask, memory.keys.dtype),
            "dropout": self._recurrent_mask((len(target_in), config.hidden), words),
            "W_a": self.attention.W_a,
            "v_a": self.attention.scale(),
            "V_c": self.attention.V_c,
        }
        second = self.context_gru
        if second is None:
            inputs = Inputs(
                **common, W_c=W[:, config.embedding :], U=unit.U, b_candidate=unit.b_candidate
            )
        else:
            inputs = Inputs(
                **common,
                W_c=second.W,
                U=second.U,
                b_candidate=second.b_candidate,
                first_U=unit.U,
                first_b_candidate=unit.b_candidate,
                b=second.b,
            )
        states, contexts, weights = (attending_plain if self.plain else attending)(inputs)
        if config.order in ("appendix", "groundhog"):
            states = torch.cat([memory.initial.unsqueeze(0), states[:-1]])
        seen = [part.transpose(0, 1) for part in (states, words, contexts)]
        if real is not None:
            seen = [part[real] for part in seen]
        readout = F.dropout(self.readout(*seen), config.dropout_readout, self.training)
        return readout, weights.transpose(0, 1)

    def align(
        self, source: Tensor, target: Tensor, mask: Tensor, memory: RNNMemory
    ) -> tuple[Tensor, Tensor]:
        assert self.head is not None
        config = self.config
        words = self._embed(self.source_embedding, source, config.dropout_source_word)
        translation = self._embed(self.target_embedding, target, config.dropout_target_word)
        dropout = self._recurrent_mask((2, len(target), config.encoder_hidden), words)
        forward: Tensor
        backward: Tensor
        forward, backward = self.head(
            words, memory.annotations, memory.mask, translation, mask, dropout, self.plain
        )
        return forward, backward
