"""The architectures `--arch` offers. To add one: a file here, its settings in AnyConfig, and a
line in ARCHITECTURES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nmtkit.errors import unknown
from nmtkit.models.aligner import Aligner
from nmtkit.models.gnmt import GNMT, GNMTConfig
from nmtkit.models.gnmt import PRESETS as GNMT_PRESETS
from nmtkit.models.ibm import HMM, IBM1, HMMConfig, IBM1Config
from nmtkit.models.lstm_seq2seq import PRESETS as SEQ2SEQ_PRESETS
from nmtkit.models.lstm_seq2seq import LSTMSeq2Seq, LSTMSeq2SeqConfig
from nmtkit.models.luong import PRESETS as LUONG_PRESETS
from nmtkit.models.luong import Luong, LuongConfig
from nmtkit.models.rnnencdec import PRESETS as RNNENCDEC_PRESETS
from nmtkit.models.rnnencdec import RNNencdec, RNNencdecConfig
from nmtkit.models.rnnsearch import PRESETS as RNNSEARCH_PRESETS
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.models.transformer import PRESETS as TRANSFORMER_PRESETS
from nmtkit.models.transformer import Transformer, TransformerConfig

AnyConfig = (
    RNNsearchConfig
    | RNNencdecConfig
    | LuongConfig
    | LSTMSeq2SeqConfig
    | GNMTConfig
    | TransformerConfig
    | IBM1Config
    | HMMConfig
)
AnyModel = AnySeq2Seq | Aligner


@dataclass(frozen=True)
class Architecture:
    """A settings class, a model class, and named sizes: overrides of [model] and [training]."""

    config: type[Any]
    model: Callable[[Any, int, int], AnyModel]
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]]


ARCHITECTURES: dict[str, Architecture] = {
    "rnnsearch": Architecture(RNNsearchConfig, RNNsearch, RNNSEARCH_PRESETS),
    "rnnencdec": Architecture(RNNencdecConfig, RNNencdec, RNNENCDEC_PRESETS),
    "seq2seq": Architecture(LSTMSeq2SeqConfig, LSTMSeq2Seq, SEQ2SEQ_PRESETS),
    "luong": Architecture(LuongConfig, Luong, LUONG_PRESETS),
    "gnmt": Architecture(GNMTConfig, GNMT, GNMT_PRESETS),
    "transformer": Architecture(TransformerConfig, Transformer, TRANSFORMER_PRESETS),
    "ibm1": Architecture(IBM1Config, IBM1, {}),
    "hmm": Architecture(HMMConfig, HMM, {}),
}


def architecture(name: str) -> Architecture:
    """The entry of ARCHITECTURES; UserError with the choices when there is none."""
    if name not in ARCHITECTURES:
        raise unknown("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]


def blank_model(config: AnyConfig, source_size: int, target_size: int) -> AnyModel:
    """The model without values in its parameters; sizes are those of the vocabularies."""
    return architecture(config.architecture).model(config, source_size, target_size)


def build_model(config: AnyConfig, source_size: int, target_size: int) -> AnyModel:
    """The model before training; a network's fresh parameters are from torch's generator."""
    model = blank_model(config, source_size, target_size)
    if not isinstance(model, Aligner):
        model.initialise()
    return model
