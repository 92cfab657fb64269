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

What its parts are worth is asked by leaving them out or changing them; docs/model.md has the
options. With `encoder` = forward, h_j = fwd_j and s_0 = tanh(W_s fwd_S + b_s). With `context` =
fixed, every c_i is what the encoder has of [fwd_S ; bwd_1], as in Cho et al. (2014). With `cell` =
lstm, LSTM stands for GRU (cells.py); the decoder's c starts at 0.

Letters: B sentences, R = B·K hypothesis rows, S source length, T target length, E embedding,
H encoder state a direction, C = 2H or H annotation size, D decoder state (the paper's n for H and
D), N = D or 2D the state of a cell, A attention units, X key size, L readout units, V target
vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.alignment_head import AlignmentHead
from nmtkit.models.attending import Inputs, attending, attending_plain
from nmtkit.models.attention import Score, attend, check_score, make_score, mask_bias
from nmtkit.models.cells import Cell, make_cell, stacked
from nmtkit.models.copying import Copying
from nmtkit.models.encoder import DIRECTIONS, Encoder
from nmtkit.models.output import TiedOutput, check_one_vocabulary
from nmtkit.models.products import Linear, linear
from nmtkit.models.recurrent import recurrence, recurrence_plain
from nmtkit.models.rnn import PRESETS as RNN_PRESETS
from nmtkit.models.rnn import Presets, Readout, RNNConfig, RNNModel
from nmtkit.models.rnnsearch_stepping import RNNsearchStepper
from nmtkit.models.seq2seq import Chosen, Memory, Rows, at, no_attention
from nmtkit.models.stepping import Stepper
from nmtkit.models.words import EmbeddedWords
from nmtkit.vocabulary import BOS


@dataclass(frozen=True)
class RNNsearchConfig(RNNConfig):
    """Sizes and readings; the defaults are the paper's (section A.2.3)."""

    architecture: Literal["rnnsearch"] = "rnnsearch"
    encoder: Literal["bidirectional", "forward", "backward"] = "bidirectional"
    cell: Literal["gru", "lstm"] = "gru"  # of encoder and decoder; `reset` is of gru
    context: Literal["dynamic", "fixed"] = "dynamic"  # fixed: the same at every word
    attention: Literal["additive", "dot", "general", "concat", "location", "none"] = "additive"
    attention_units: int = 1000  # A, the paper's n'; of additive and concat
    order: Literal["main-text", "appendix", "groundhog", "conditional"] = "main-text"
    temperature: float = 1.0  # τ: energies are divided by it; below 1, attention is sharper
    coverage: bool = False  # energies see the attention each word has had (Tu et al., 2016)
    readout: Literal["maxout", "tanh"] = "maxout"
    tied_embeddings: Literal["none", "target", "all"] = "none"  # target: with the output layer
    alignment_head: bool = False  # also an attention that has read the whole target, to align by
    copy: bool = False  # also copy source words (See et al., 2017; copying.py)

    @property
    def annotation(self) -> int:
        """C, the size of an annotation."""
        return len(DIRECTIONS[self.encoder]) * self.encoder_hidden

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.01 <= self.temperature <= 100:
            raise ValueError(f"temperature must be from 0.01 to 100, got {self.temperature}")
        if (self.attention == "none") != (self.context == "fixed"):
            raise ValueError(
                "attention = none and context = fixed go together: set both, or neither"
            )
        check_score(self.attention, self.hidden, self.annotation, self.coverage)
        for name in ("alignment_head", "copy"):
            if getattr(self, name) and self.context == "fixed":
                raise ValueError(f"{name} = true needs attention: leave out context = fixed")
        if self.tied_embeddings != "none" and self.maxout != self.embedding:
            raise ValueError(
                f"tied_embeddings = {self.tied_embeddings} needs maxout as large as embedding, "
                f"got {self.maxout} and {self.embedding}"
            )


def _with_attention(preset: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """As many attention units as the decoder has state units, as in the paper."""
    model = dict(preset["model"])
    if "hidden" in model:
        model["attention_units"] = model["hidden"]
    return {**preset, "model": model}


#: A small network that only aligns, taught the links of a guide; its decoder is not trained.
_ALIGNER: dict[str, dict[str, Any]] = {
    "model": {
        "embedding": 128,
        "encoder_hidden": 128,
        "hidden": 128,
        "attention_units": 128,
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

    annotations: Tensor  # (B, S, C); with context = fixed (B, 1, C), every word's context
    keys: Tensor  # (B, S, X) of the score; (B, 1, 0) without one
    initial: Tensor  # (B, D): s_0


@dataclass(frozen=True)
class RNNState(Rows):
    """The decoder between two words."""

    cell: Tensor  # (R, N): the cell's state, which is s in a GRU
    context: Tensor  # (R, C): of the step before; only order = groundhog looks at it
    coverage: Tensor  # (R, S): the attention so far; only model.coverage looks at it


class RNNsearch(RNNModel[RNNMemory, RNNState]):
    """See the module's docstring. `plain` runs the reference recurrences (tests, benchmarks)."""

    config: RNNsearchConfig
    attention: Score | None

    def __init__(self, config: RNNsearchConfig, source_size: int, target_size: int) -> None:
        context = config.annotation
        super().__init__(config)
        self.has_attention = config.attention != "none"
        self.consumed_shift = 2 if config.order in ("main-text", "appendix") else 1
        if config.tied_embeddings != "all":
            self.source_embedding = nn.Embedding(source_size, config.embedding)
        else:
            check_one_vocabulary(source_size, target_size)
        self.target_embedding = nn.Embedding(target_size, config.embedding)
        self.encoder = Encoder(config, config.encoder, config.cell)
        self.initial = Linear(config.encoder_hidden, config.hidden)
        self.attention = None
        if config.attention != "none":
            sizes = config.hidden, context, config.attention_units
            self.attention = make_score(
                config.attention, *sizes, config.temperature, config.coverage
            )
        conditional = config.order == "conditional"
        inputs = {"decoder": config.embedding + (0 if conditional else context)}
        if conditional:
            inputs["context"] = context
        for name, size in inputs.items():
            made = make_cell(config.cell, size, config.hidden, config.reset)
            self.add_module(f"{name}_{config.cell}", made)
        self.readout = Readout(config, context, config.readout)
        if config.tied_embeddings == "none":
            self.output = Linear(config.maxout, target_size)
        else:
            self.output = TiedOutput(self.target_embedding)
        if config.alignment_head:
            self.head = AlignmentHead(
                config, context, config.attention_units, config.temperature, config.cell
            )
        if config.copy:
            self.copying = Copying(config.maxout)

    @property
    def cells(self) -> tuple[Cell, Cell | None]:
        """What consumes the word, and (order = conditional) what consumes the context after it."""
        decoder, context = (
            getattr(self, f"{name}_{self.config.cell}", None) for name in ("decoder", "context")
        )
        return cast("tuple[Cell, Cell | None]", (decoder, context))

    @property
    def _source_table(self) -> nn.Embedding:
        tied = self.config.tied_embeddings == "all"
        return self.target_embedding if tied else self.source_embedding

    def encode(self, source: Tensor, mask: Tensor) -> RNNMemory:
        words = self._words(self._source_table, source, self.config.dropout_source_word)
        rows = (len(self.encoder.directions), source.shape[0], self.config.encoder_hidden)
        dropout = self._recurrent_mask(rows, words.rows)
        annotations = self.encoder(words, mask, dropout, self.plain)
        last = self.encoder.last(annotations, mask)
        initial = torch.tanh(self.initial(last[-1]))
        if self.attention is None:
            context = torch.cat(last, 1).unsqueeze(1)
            return RNNMemory(mask, context, context[:, :, :0], initial)
        return RNNMemory(mask, annotations, self.attention.keys(annotations), initial)

    def start(self, memory: RNNMemory, beam: int = 1) -> RNNState:
        hidden = memory.initial.repeat_interleave(beam, 0)
        rows, length = hidden.shape[0], memory.mask.shape[1]
        context = hidden.new_zeros((rows, memory.annotations.shape[2]))
        cell = self.cells[0].begin(hidden)
        return RNNState(cell, context, hidden.new_zeros((rows, length)))

    def _look(self, query: Tensor, memory: RNNMemory, coverage: Tensor) -> tuple[Tensor, Tensor]:
        """From s (R, D), with the attention so far (R, S): context (R, C), attention (R, S)."""
        sentences, length = memory.mask.shape
        if self.attention is None:
            context = memory.annotations.squeeze(1).repeat_interleave(len(query) // sentences, 0)
            return context, no_attention(memory.mask, context, len(query))
        queries = query.reshape(sentences, -1, self.config.hidden)
        seen = coverage.view(sentences, -1, length)
        energies = self.attention(queries, memory.keys, seen)
        return attend(energies, memory.annotations, memory.mask)

    def step(
        self, tokens: Tensor, state: RNNState, memory: RNNMemory
    ) -> tuple[Tensor, Tensor, RNNState]:
        word = self._embed(self.target_embedding, tokens, 0.0)
        decoder, second = self.cells
        order, cell = self.config.order, state.cell
        if order == "groundhog":
            consumed = decoder(torch.cat([word, state.context], 1), cell)
            cell = torch.where((tokens == BOS).unsqueeze(1), cell, consumed)
        elif second is not None:
            cell = decoder(word, cell)
        seen = decoder.hidden(cell)
        context, weights = self._look(seen, memory, state.coverage)
        if second is not None:
            cell = second(context, cell)
        elif order != "groundhog":
            cell = decoder(torch.cat([word, context], 1), cell)
        if order != "appendix":
            seen = decoder.hidden(cell)
        readout = self.readout(seen, EmbeddedWords(word), context)
        return readout, weights, RNNState(cell, context, state.coverage + weights)

    def stepper(self, int8: bool = False) -> Stepper:
        if self.config.cell == "lstm" or self.attention is None:
            return Stepper(self, int8)
        return RNNsearchStepper(self, int8)

    def features(
        self, target_in: Tensor, memory: RNNMemory, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        config = self.config
        words = self._words(self.target_embedding, target_in, config.dropout_target_word)
        consumed = words.transposed()  # (T, B)
        if config.order == "groundhog":
            # At position i this recurrence consumes y_i itself, after c_i was read out.
            consumed = consumed.following()
        dropout = self._recurrent_mask((len(target_in), config.hidden), words.rows)
        run = self._fixed if self.attention is None else self._attending
        states, contexts, weights = run(consumed, memory, dropout)
        if config.order in ("appendix", "groundhog"):
            states = torch.cat([memory.initial.unsqueeze(0), states[:-1]])
        seen, looked = (at(chosen, part.transpose(0, 1)) for part in (states, contexts))
        readout = self.readout(seen, words.at(chosen), looked)
        readout = F.dropout(readout, config.dropout_readout, self.training)
        return readout, weights.transpose(0, 1)

    def _attending(
        self, words: EmbeddedWords, memory: RNNMemory, dropout: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Words (T, B) -> states (T, B, D), contexts (T, B, C), attention (T, B, S)."""
        assert self.attention is not None
        visible = self.attention.visible(memory.mask)
        return self._loop(
            words,
            dropout,
            initial=memory.initial,
            annotations=memory.annotations,
            bias=mask_bias(visible, memory.keys.dtype),
            **self.attention.form(memory.keys)._asdict(),
        )

    def _fixed(
        self, words: EmbeddedWords, memory: RNNMemory, dropout: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same with one context a sentence: its part of the cell is there before the loop."""
        context = memory.annotations.squeeze(1)
        decoder, second = self.cells
        size = self.config.embedding
        if second is None:
            W = decoder.W
            x = words.linear(W[:, :size], decoder.b) + linear(context, W[:, size:])
            run = recurrence_plain if self.plain else recurrence
            mask = None if dropout is None else dropout.unsqueeze(0)
            initial = memory.initial.unsqueeze(0)
            states = run(x.unsqueeze(0), initial, stacked([decoder]), mask).squeeze(1)
        else:
            # One place to look at, with nothing in it.
            states, _, _ = self._loop(
                words,
                dropout,
                initial=memory.initial,
                annotations=memory.keys,
                bias=context.new_zeros((len(context), 1)),
                keys=torch.zeros_like(memory.initial).unsqueeze(1),
                b=second.input_part(context),
                W_c=second.W[:, :0],
            )
        contexts = context.expand(len(states), -1, -1)
        return states, contexts, no_attention(memory.mask, context, *states.shape[:2])

    def _loop(
        self, words: EmbeddedWords, dropout: Tensor | None, **given: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The recurrence over words (T, B); `given` are Inputs of attending.py."""
        decoder, second = self.cells
        size = self.config.embedding
        W_y, W_c = torch.split(decoder.W, [size, decoder.W.shape[1] - size], 1)
        cells: dict[str, Any] = {"W_c": W_c, "U": decoder.U, "b_candidate": decoder.b_candidate}
        if second is not None:
            cells = {
                "W_c": second.W,
                "U": second.U,
                "b_candidate": second.b_candidate,
                "first_U": decoder.U,
                "first_b_candidate": decoder.b_candidate,
                "b": second.b,
            }
        inputs = Inputs(x=words.linear(W_y, decoder.b), dropout=dropout, **{**cells, **given})
        return (attending_plain if self.plain else attending)(inputs)

    def align(
        self, source: Tensor, target: Tensor, mask: Tensor, memory: RNNMemory
    ) -> tuple[Tensor, Tensor]:
        assert self.head is not None
        config = self.config
        words = self._embed(self._source_table, source, config.dropout_source_word)
        translation = self._embed(self.target_embedding, target, config.dropout_target_word)
        dropout = self._recurrent_mask((2, len(target), config.encoder_hidden), words)
        forward: Tensor
        backward: Tensor
        forward, backward = self.head(
            words, memory.annotations, memory.mask, translation, mask, dropout, self.plain
        )
        return forward, backward
