"""What the architectures of LSTM layers share: settings, embeddings, initialisation.

Letters: B sentences, E embedding, D decoder state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.output import TiedOutput
from nmtkit.models.products import Linear
from nmtkit.models.seq2seq import MOST_LAYERS, Chosen, MemoryT, Seq2Seq, StateT, at


@dataclass(frozen=True)
class LSTMConfig:
    """Sizes and dropout."""

    architecture: str = ""
    embedding: int = 1000  # E
    hidden: int = 1000  # D
    layers: int = 4
    initialisation: Literal["paper", "glorot", "unit"] = "paper"
    dropout_embedding: float = 0.0  # single numbers of the embeddings, both sides
    dropout_layers: float = 0.0  # what a layer reads of the one below (Zaremba et al., 2014)
    dropout_readout: float = 0.0  # what the output layer reads
    tied_embeddings: Literal["none", "target"] = "none"  # target: with the output layer

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
            if name.endswith("layers") and value > MOST_LAYERS:
                raise ValueError(f"{name} must be at most {MOST_LAYERS}, got {value}")
            if name.startswith("dropout_") and not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, got {value}")
        if self.tied_embeddings != "none" and self.embedding != self.hidden:
            raise ValueError(
                f"tied_embeddings = target needs hidden as large as embedding, {self.embedding}, "
                f"got {self.hidden}"
            )


#: The training of the presets that are no paper's.
ADAM: dict[str, Any] = {"optimizer": "adam", "learning_rate": 1e-3, "batch_sentences": 80}


class LSTMModel(Seq2Seq[MemoryT, StateT]):
    """Embeddings around a recurrence."""

    config: LSTMConfig
    #: The paper draws all its fresh parameters uniformly from [-this, this].
    paper_bound: float

    def __init__(self, config: LSTMConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = nn.Embedding(source_size, config.embedding)
        self.target_embedding = nn.Embedding(target_size, config.embedding)

    def _make_output(self, target_size: int) -> nn.Linear | TiedOutput:
        if self.config.tied_embeddings == "none":
            return Linear(self.config.hidden, target_size)
        return TiedOutput(self.target_embedding)

    def _embed(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """Ids (…) -> embeddings (…, E), dropped out in training."""
        return F.dropout(table(ids), self.config.dropout_embedding, self.training)

    def _read_out(self, top: Tensor, chosen: Chosen | None) -> Tensor:
        """The top layer (B, T, D), of these positions only -> what the output layer reads."""
        return F.dropout(at(chosen, top), self.config.dropout_readout, self.training)

    @torch.no_grad()
    def initialise(self) -> None:
        """Fresh parameters from torch's generator.

        paper: all uniform in [-paper_bound, paper_bound]. glorot: embeddings ~ N(0, 1/E),
        recurrent matrices orthogonal, all others uniform as Glorot and Bengio (2010), biases 0
        but those of the forget gates, which are 1 (Jozefowicz et al., 2015). unit: as glorot, but
        embeddings ~ N(0, 1), unless they are tied, and the output layer's matrix ~ N(0, 1/D).
        """
        unit = self.config.initialisation == "unit"
        for name, parameter in self.named_parameters():
            leaf = name.rsplit(".", 1)[-1]
            if self.config.initialisation == "paper":
                nn.init.uniform_(parameter, -self.paper_bound, self.paper_bound)
            elif "embedding" in name:
                large = unit and parameter is not self.output.weight
                nn.init.normal_(parameter, std=1.0 if large else parameter.shape[1] ** -0.5)
            elif unit and parameter is self.output.weight:
                nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
            elif leaf == "weight_hh_l0":
                for block in parameter.chunk(4):
                    nn.init.orthogonal_(block)
            elif leaf == "weight_ih_l0":  # its last column is the bias
                for block in parameter.chunk(4):
                    nn.init.xavier_uniform_(block[:, :-1])
                nn.init.zeros_(parameter[:, -1])
                nn.init.ones_(parameter[:, -1].chunk(4)[1])
            elif leaf in ("bias", "b_a"):
                nn.init.zeros_(parameter)
            else:
                nn.init.xavier_uniform_(parameter.view(-1, parameter.shape[-1]))
