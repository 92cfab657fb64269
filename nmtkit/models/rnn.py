"""What the recurrent architectures share: settings, readout, embeddings, initialisation.

Letters: B sentences, E embedding, H encoder state a direction, D decoder state (the paper's n for
both), L maxout units, C context vector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.cells import LSTM
from nmtkit.models.maxout import maxout
from nmtkit.models.products import linear
from nmtkit.models.seq2seq import MemoryT, Seq2Seq, StateT
from nmtkit.models.words import EmbeddedWords, distinct
from nmtkit.vocabulary import BOS, PAD


@dataclass(frozen=True)
class RNNConfig:
    """Sizes and dropout; the defaults are those of Bahdanau et al. (2015), section A.2.3."""

    architecture: str = ""
    embedding: int = 620  # E, the paper's m
    encoder_hidden: int = 1000  # H, a direction; the paper's n
    hidden: int = 1000  # D; the paper's n
    maxout: int = 500  # L, the paper's l
    reset: Literal["before", "after"] = "before"
    initialisation: Literal["paper", "glorot", "unit"] = "paper"
    dropout_embedding: float = 0.0  # single numbers of the embeddings, both sides
    dropout_readout: float = 0.0  # maxout units
    dropout_recurrent: float = 0.0  # states, one mask a sequence (Gal and Ghahramani, 2016)
    dropout_source_word: float = 0.0  # whole source embeddings
    dropout_target_word: float = 0.0  # whole target embeddings

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
            if name.startswith("dropout_") and not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {value}")


_ADAM = {"optimizer": "adam", "learning_rate": 1e-3, "batch_sentences": 80}

Presets = dict[str, dict[str, dict[str, Any]]]

#: Named sizes, overrides of the tables [model] and [training].
PRESETS: Presets = {
    name: {
        "model": {
            "embedding": size,
            "encoder_hidden": size,
            "hidden": 2 * size,
            "maxout": size,
            "initialisation": "glorot",
            "dropout_embedding": dropout,
            "dropout_readout": dropout,
        },
        "training": _ADAM,
    }
    for name, size, dropout in (("tiny", 64, 0.1), ("small", 256, 0.2), ("base", 512, 0.3))
} | {
    # Sections A.2.3 and B.2; one epoch shuffle, 20 batches sorted by length together.
    "paper": {
        "model": {},
        "training": {
            "optimizer": "adadelta",
            "learning_rate": 1.0,
            "rho": 0.95,
            "epsilon": 1e-6,
            "clip": 1.0,
            "batch_sentences": 80,
            "pool": 20,
            "normalise": "sentences",
        },
    }
}


class Readout(nn.Module):
    """The deep output's layer: maxout (Goodfellow et al., 2013) over pairs 2k and 2k+1, or tanh."""

    def __init__(self, config: RNNConfig, context: int, kind: str = "maxout") -> None:
        super().__init__()
        self.kind = kind
        rows = (2 if kind == "maxout" else 1) * config.maxout
        self.U_o = nn.Parameter(torch.empty(rows, config.hidden))
        self.V_o = nn.Parameter(torch.empty(rows, config.embedding))
        self.C_o = nn.Parameter(torch.empty(rows, context))
        self.b_o = nn.Parameter(torch.empty(rows))

    def forward(self, state: Tensor, word: EmbeddedWords, context: Tensor) -> Tensor:
        """State (…, D), E y_{i-1} (…, E), context (…, C) -> (…, L)."""
        both = linear(state, self.U_o, self.b_o) + word.linear(self.V_o) + linear(context, self.C_o)
        return self.units(both)

    def units(self, both: Tensor) -> Tensor:
        """The three parts' sum (…, 2L), of tanh (…, L) -> (…, L)."""
        if self.kind == "tanh":
            return torch.tanh(both)
        return maxout(both)


class RNNModel(Seq2Seq[MemoryT, StateT]):
    """Embeddings and readout around a recurrence; `plain` runs the reference ones (tests).

    The modules are made by the architecture, in the order in which `initialise` draws them.
    """

    config: RNNConfig
    source_embedding: nn.Embedding
    target_embedding: nn.Embedding

    def __init__(self, config: RNNConfig) -> None:
        super().__init__()
        self.plain = False
        self.config = config

    def _embed(self, table: nn.Embedding, ids: Tensor, word_dropout: float) -> Tensor:
        """Ids (…) -> embeddings (…, E), dropped out in training; BOS and PAD are zero."""
        keep = ((ids != BOS) & (ids != PAD)).unsqueeze(-1).to(table.weight.dtype)
        if self.training and word_dropout:
            keep = F.dropout(keep, word_dropout)
        embedded: Tensor = table(ids) * keep
        return F.dropout(embedded, self.config.dropout_embedding, self.training)

    def _words(self, table: nn.Embedding, ids: Tensor, word_dropout: float) -> EmbeddedWords:
        """The same for a batch of sentences (B, S), multiplied once a distinct word if possible."""
        dropped = self.training and (word_dropout or self.config.dropout_embedding)
        if dropped or self.plain or (found := distinct(ids)) is None:
            return EmbeddedWords(self._embed(table, ids, word_dropout))
        return EmbeddedWords(self._embed(table, found[0], 0.0), found[1])

    def _recurrent_mask(self, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
        rate = self.config.dropout_recurrent
        if not self.training or not rate:
            return None
        return F.dropout(like.new_ones(shape), rate)

    @torch.no_grad()
    def initialise(self) -> None:
        """Fresh parameters from torch's generator.

        paper: section B.1: recurrent matrices random orthogonal, W_a and U_a ~ N(0, 0.001²), v_a
        and all biases 0, everything else ~ N(0, 0.01²). glorot: recurrent matrices orthogonal,
        embeddings ~ N(0, 1/E), other matrices and v_a uniform as Glorot and Bengio (2010), biases
        0; it starts faster than the paper's under Adam. unit: the same, but embeddings ~ N(0, 1)
        and the output layer's matrix ~ N(0, 1/L), so that numbers everywhere are about as large as
        1: faster again, above all where LSTM or tanh bounds what the output layer reads; embeddings
        that are tied to the output layer are as it is. With all, the forget gates of an LSTM start
        with a bias of 1 (Jozefowicz et al., 2015).
        """
        paper, unit = (self.config.initialisation == name for name in ("paper", "unit"))
        for name, parameter in self.named_parameters():
            place, _, leaf = name.rpartition(".")
            if leaf == "U":
                for block in torch.split(parameter, parameter.shape[1]):
                    nn.init.orthogonal_(block)
            elif leaf.startswith("b") or leaf == "V_c":
                nn.init.zeros_(parameter)
                if leaf == "b" and isinstance(cell := self.get_submodule(place), LSTM):
                    cell.forget_bias().fill_(1.0)
            elif leaf == "v_a":
                bound = 0.0 if paper else (6 / (len(parameter) + 1)) ** 0.5
                nn.init.uniform_(parameter, -bound, bound)
            elif paper:
                nn.init.normal_(parameter, std=0.001 if leaf in ("W_a", "U_a") else 0.01)
            elif "embedding" in name:
                large = unit and parameter is not self.output.weight
                nn.init.normal_(parameter, std=1.0 if large else parameter.shape[1] ** -0.5)
            elif unit and parameter is self.output.weight:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
            elif leaf == "W":
                for block in torch.split(parameter, self.get_parameter(f"{place}.U").shape[1]):
                    nn.init.xavier_uniform_(block)
            else:
                nn.init.xavier_uniform_(parameter)
