"""The Transformer: Vaswani et al., "Attention is all you need" (2017, arXiv 1706.03762).

    encoder   x_j = √D E x_j + PE(j), N layers of self-attention and feed-forward; a last norm
    decoder   the same over y_0 … y_{i-1}, y_0 = BOS, with attention to the source in every layer;
              self-attention looks at the past only; a last norm
    output    p(y_i) = softmax(W_o x + b)

The layers are in transformer_layers.py; they are pre-norm, the paper's are post-norm. The output's
W_o may be the target embedding, or one matrix of both embeddings (section 3.4).

The attention that `features` and `step` return is that of one decoder layer, `attention_layer`, and
of one of its heads or their mean, `attention_head`. Row i has read y_0 … y_i.

With `alignment_head`, `align` reads the whole target at once, as in Garg et al. (2019,
arXiv 1909.02074): the decoder's layers up to that one run with no future hidden. They teach one of
that layer's own heads; here it is one head more, so that translation keeps its own, and both
softmaxes of its energies are the attention of the two directions.

Letters: B sentences, K hypotheses a sentence, R = B·K rows, S source length, T target length,
D model size, N decoder layers, h heads, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmtkit.models.attention import mask_bias
from nmtkit.models.copying import Copying
from nmtkit.models.output import TiedOutput, check_one_vocabulary
from nmtkit.models.products import Linear
from nmtkit.models.seq2seq import MOST_LAYERS, Chosen, Memory, Rows, Seq2Seq, at
from nmtkit.models.transformer_layers import (
    AlignmentHead,
    DecoderLayer,
    EncoderLayer,
    positions,
    visible,
)
from nmtkit.vocabulary import PAD


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes and dropout; the defaults are the paper's base model (table 3)."""

    architecture: Literal["transformer"] = "transformer"
    embedding: int = 512  # D
    encoder_layers: int = 6
    decoder_layers: int = 6
    heads: int = 8
    feed_forward: int = 2048
    tied_embeddings: Literal["none", "target", "all"] = "none"  # target: with the output layer
    attention_layer: int = 0  # whose attention is read, from 1; 0: the last but one
    attention_head: int = 0  # which of its heads, from 1; 0: the mean of all
    alignment_head: bool = False  # one more that has read the whole target, to align by
    copy: bool = False  # words of the source may be copied (copying.py)
    dropout_residual: float = 0.1  # what every block adds
    dropout_attention: float = 0.0  # attention weights
    dropout_embedding: float = 0.1  # sums of embedding and position

    def __post_init__(self) -> None:
        for name in ("embedding", "encoder_layers", "decoder_layers", "heads", "feed_forward"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
            if name.endswith("layers") and getattr(self, name) > MOST_LAYERS:
                raise ValueError(f"{name} must be at most {MOST_LAYERS}, got {getattr(self, name)}")
        for name in ("dropout_residual", "dropout_attention", "dropout_embedding"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 0 and below 1, got {getattr(self, name)}"
                )
        if self.embedding % self.heads:
            raise ValueError(
                f"embedding must be a multiple of heads, got {self.embedding} and {self.heads}"
            )
        for name, most in (("layer", self.decoder_layers), ("head", self.heads)):
            value = getattr(self, f"attention_{name}")
            if not 0 <= value <= most:
                raise ValueError(f"attention_{name} must be from 0 to {most}, got {value}")


def _preset(
    size: int, layers: int, heads: int, inner: int, dropout: float, **training: Any
) -> dict[str, dict[str, Any]]:
    return {
        "model": {
            "embedding": size,
            "encoder_layers": layers,
            "decoder_layers": layers,
            "heads": heads,
            "feed_forward": inner,
            "tied_embeddings": "target",
            "dropout_residual": dropout,
            "dropout_embedding": dropout,
        },
        "training": {
            "optimizer": "adam",
            "beta2": 0.98,
            "schedule": "inverse-sqrt",
            "label_smoothing": 0.1,
            **training,
        },
    }


#: Named sizes, overrides of the tables [model] and [training].
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": _preset(64, 2, 4, 256, 0.1, learning_rate=2e-3, warmup=400),
    "small": _preset(256, 3, 4, 1024, 0.2, learning_rate=1e-3, warmup=1000),
    "base": _preset(512, 6, 8, 2048, 0.3, learning_rate=5e-4, warmup=4000),
    # Sections 5.1 to 5.4, the base model: the peak of D^-0.5 · min(u^-0.5, u · 4000^-1.5).
    "paper": _preset(
        *(512, 6, 8, 2048, 0.1),
        learning_rate=7e-4,
        warmup=4000,
        epsilon=1e-9,
        clip=0.0,
        batch_sentences=0,
        batch_tokens=25000,
        average=5,
        updates=100_000,
        patience=0,
    ),
}


@dataclass(frozen=True)
class SourceMemory(Memory):
    """The annotations, and what the decoder's layers make of them once a sentence."""

    annotations: Tensor  # (B, S, D); only an alignment head looks at them
    keys: Tensor  # (B, N, S, D)
    values: Tensor  # (B, N, S, D)


@dataclass(frozen=True)
class Past(Rows):
    """What the layers made of the t words so far; it grows by one a step."""

    keys: Tensor  # (R, N, t, D)
    values: Tensor  # (R, N, t, D)


class Transformer(Seq2Seq[SourceMemory, Past]):
    """See the module's docstring."""

    def __init__(self, config: TransformerConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        size = config.embedding
        sizes = size, config.heads, config.feed_forward
        rates = config.dropout_residual, config.dropout_attention
        self.target_embedding = nn.Embedding(target_size, size)
        if config.tied_embeddings != "all":
            self.source_embedding = nn.Embedding(source_size, size)
        else:
            check_one_vocabulary(source_size, target_size)
        self.encoder = nn.ModuleList(
            EncoderLayer(*sizes, *rates) for _ in range(config.encoder_layers)
        )
        self.encoder_norm = nn.LayerNorm(size)
        self.decoder = nn.ModuleList(
            DecoderLayer(*sizes, *rates) for _ in range(config.decoder_layers)
        )
        self.decoder_norm = nn.LayerNorm(size)
        self.output: nn.Linear | TiedOutput
        if config.tied_embeddings == "none":
            self.output = Linear(size, target_size)
        else:
            self.output = TiedOutput(self.target_embedding)
        self.attention_layers, self.attention_heads = config.decoder_layers, config.heads
        #: The layer whose attention is read unless another is asked for, and where the head reads.
        self.own_layer = config.attention_layer or max(1, config.decoder_layers - 1)
        self.attention_layer, self.attention_head = self.own_layer, config.attention_head
        if config.alignment_head:
            self.head = AlignmentHead(size, config.heads)
        if config.copy:
            self.copying = Copying(size)

    @property
    def _layers(self) -> list[DecoderLayer]:
        """The decoder by the type of its layers."""
        return cast("list[DecoderLayer]", list(self.decoder))

    @torch.no_grad()
    def initialise(self) -> None:
        """Fresh parameters from torch's generator.

        Embeddings ~ N(0, 1/D), matrices uniform as Glorot and Bengio (2010), biases 0, norms 1.
        """
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "norm" in name:
                nn.init.ones_(parameter)
            elif "embedding" in name:
                nn.init.normal_(parameter, std=self.config.embedding**-0.5)
            else:
                nn.init.xavier_uniform_(parameter)

    def _embed(self, table: nn.Embedding, ids: Tensor, begin: int = 0) -> Tensor:
        """Ids (B, T), which stand at `begin` and after -> (B, T, D); the embedding of PAD is 0."""
        size = self.config.embedding
        scale = (ids != PAD).unsqueeze(2).to(table.weight.dtype) * size**0.5
        words: Tensor = table(ids) * scale
        placed = words + positions(begin, ids.shape[1], size, words)
        return F.dropout(placed, self.config.dropout_embedding, self.training)

    def encode(self, source: Tensor, mask: Tensor) -> SourceMemory:
        tied = self.config.tied_embeddings == "all"
        x = self._embed(self.target_embedding if tied else self.source_embedding, source)
        allowed = visible(mask)
        for layer in self.encoder:
            x = layer(x, allowed)
        annotations = self.encoder_norm(x)
        blocks = [layer.source_attention for layer in self._layers]
        keys = torch.stack([block.key(annotations) for block in blocks], 1)
        values = torch.stack([block.value(annotations) for block in blocks], 1)
        return SourceMemory(mask, annotations, keys, values)

    def start(self, memory: SourceMemory, beam: int = 1) -> Past:
        rows, layers, _, size = memory.keys.shape
        nothing = memory.keys.new_zeros((rows * beam, layers, 0, size))
        return Past(nothing, nothing)

    def step(
        self, tokens: Tensor, state: Past, memory: SourceMemory
    ) -> tuple[Tensor, Tensor, Past]:
        sentences, length = memory.mask.shape
        rows, size = len(tokens), self.config.embedding
        x = self._embed(self.target_embedding, tokens.unsqueeze(1), state.keys.shape[2])
        # The only copy of the past in a step; every layer fills in its own last place.
        past = Past(F.pad(state.keys, (0, 0, 0, 1)), F.pad(state.values, (0, 0, 0, 1)))
        attention: Tensor | None = None
        for n, layer in enumerate(self._layers):
            x = layer.read_next(x, past.keys[:, n], past.values[:, n])
            # The hypotheses of a sentence are so many queries to its source.
            x, found = self._look(n, x.view(sentences, -1, size), memory)
            x = x.view(rows, 1, size)
            attention = attention if found is None else found
        assert attention is not None
        return self.decoder_norm(x.squeeze(1)), attention.reshape(rows, length), past

    def features(
        self, target_in: Tensor, memory: SourceMemory, chosen: Chosen | None = None
    ) -> tuple[Tensor, Tensor]:
        x = self._embed(self.target_embedding, target_in)
        attention: Tensor | None = None
        for n, layer in enumerate(self._layers):
            x, found = self._look(n, layer.read(x), memory)
            attention = attention if found is None else found
        assert attention is not None
        return self.decoder_norm(at(chosen, x)), attention

    def _look(self, n: int, x: Tensor, memory: SourceMemory) -> tuple[Tensor, Tensor | None]:
        """Decoder layer n, from 0, after its self-attention: (B, T, D) -> (B, T, D), attention.

        The attention (B, T, S) is there in the layer whose attention is read.
        """
        head = self.attention_head if n + 1 == self.attention_layer else None
        keys, values = memory.keys[:, n], memory.values[:, n]
        return self._layers[n].look(x, keys, values, visible(memory.mask), head)

    def align(
        self, source: Tensor, target: Tensor, mask: Tensor, memory: SourceMemory
    ) -> tuple[Tensor, Tensor]:
        assert self.head is not None
        # y_i stands where the decoder has it, after BOS.
        x, allowed = self._embed(self.target_embedding, target, begin=1), visible(mask)
        *below, last = self._layers[: self.own_layer]
        for n, layer in enumerate(below):
            x, _ = self._look(n, layer.read(x, allowed), memory)
        energies = self.head(last.read(x, allowed), memory.annotations)
        forward = energies + mask_bias(memory.mask, energies.dtype).unsqueeze(1)
        backward = energies + mask_bias(mask, energies.dtype).unsqueeze(2)
        return torch.log_softmax(forward, 2), torch.log_softmax(backward, 1)
