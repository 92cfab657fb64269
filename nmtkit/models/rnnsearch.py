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

from nmtkit.models.attending import Inputs, attending, attending_plain
from nmtkit.models.attention import AdditiveAttention, mask_bias
from nmtkit.models.recurrent import GRU, GRUWeights, gru, gru_plain
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


def _with_attention(preset: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """As many attention units as the decoder has state units, as in the paper."""
    model = dict(preset["model"])
    if "hidden" in model:
        model["attention"] = model["hidden"]
    return {**preset, "model": model}


PRESETS: Presets = {name: _with_attention(preset) for name, preset in RNN_PRESETS.items()}


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


class _ReverseRows(torch.autograd.Function):
    """Rows (N, F) in the order of a permutation that is its own inverse."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.order = order
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *d_rows: Tensor) -> tuple[Tensor, None]:
        return d_rows[0].index_select(0, ctx.order), None


def _reversed(states: Tensor, order: Tensor) -> Tensor:
    """Every sentence of (S, B, F) back to front, its padding left where it stands."""
    flipped: Tensor = _ReverseRows.apply(states.flatten(0, 1), order)  # type: ignore[no-untyped-call]
    return flipped.view(states.shape)


def _reversal(mask: Tensor) -> Tensor:
    """Mask (B, S) -> the permutation of the S·B time-major rows that turns every sentence round."""
    batch, length = mask.shape
    lengths = mask.sum(1)
    positions = torch.arange(length, device=mask.device).unsqueeze(1)
    turned = torch.where(positions < lengths, lengths - 1 - positions, positions)  # (S, B)
    return (turned * batch + torch.arange(batch, device=mask.device)).flatten()


class Encoder(nn.Module):
    """The bidirectional recurrence; both directions run as one batched product a position."""

    def __init__(self, config: RNNsearchConfig) -> None:
        super().__init__()
        self.forward_gru = GRU(config.embedding, config.encoder_hidden, config.reset)
        self.backward_gru = GRU(config.embedding, config.encoder_hidden, config.reset)

    def forward(
        self, embedded: Tensor, mask: Tensor, dropout: Tensor | None, plain: bool
    ) -> Tensor:
        """Embeddings (B, S, E), mask (B, S), dropout mask (2, B, H) -> annotations (B, S, 2H).

        The backward direction starts at the last real token, wherever the padding ends; at
        padding the annotations mean nothing.
        """
        order = _reversal(mask)
        forwards = embedded.transpose(0, 1).contiguous()
        directions = (self.forward_gru, self.backward_gru)
        inputs = (forwards, _reversed(forwards, order))
        x = torch.stack([unit.input_part(e) for unit, e in zip(directions, inputs, strict=True)])
        U = torch.stack((self.forward_gru.U, self.backward_gru.U))
        biases = tuple(u.b_candidate for u in directions if u.b_candidate is not None)
        weights = GRUWeights(U, torch.stack(biases) if biases else None)
        initial = x.new_zeros((2, x.shape[2], U.shape[2]))
        states = (gru_plain if plain else gru)(x, initial, weights, dropout)  # (S, 2, B, H)
        backwards = _reversed(states[:, 1], order)
        return torch.cat([states[:, 0], backwards], dim=2).transpose(0, 1).contiguous()


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
        self.attention = AdditiveAttention(config.hidden, context, config.attention)
        self.context_gru: GRU | None = None
        if config.order == "conditional":
            self.decoder_gru = GRU(config.embedding, config.hidden, config.reset)
            self.context_gru = GRU(context, config.hidden, config.reset)
        else:
            self.decoder_gru = GRU(config.embedding + context, config.hidden, config.reset)
        self.readout = Readout(config, context)
        self.output = nn.Linear(config.maxout, target_size)

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
        return RNNState(hidden, hidden.new_zeros((hidden.shape[0], memory.annotations.shape[2])))

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
        context, weights = self.attention(hidden, memory.keys, memory.annotations, memory.mask)
        seen = hidden
        if self.context_gru is not None:
            seen = hidden = self.context_gru(context, hidden)
        elif self.config.order != "groundhog":
            hidden = self.decoder_gru(torch.cat([word, context], 1), hidden)
            seen = hidden if self.config.order == "main-text" else seen
        logits = self.output(self.readout(seen, word, context))
        return logits, weights, RNNState(hidden, context)

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
            "v_a": self.attention.v_a,
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
