"""What a training run is made of: the prepared corpus, [model], [training]; all in config.toml."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from nmtkit.checkpoint import model_config
from nmtkit.config import Table, build, override, read_toml, to_table
from nmtkit.errors import UserError, unknown
from nmtkit.models import ARCHITECTURES, AnyConfig, architecture
from nmtkit.models.ibm import TablesConfig
from nmtkit.search import WIDEST
from nmtkit.train.em import EMConfig

DEFAULT_ARCHITECTURE = "rnnsearch"
#: Of networks only, by their keys.
OPTIONS = ("seed", "updates", "minutes", "precision", "deterministic", "guide")
MAX_SEED = 2**63 - 1  # of torch's generators, and of TOML's integers


@dataclass(frozen=True)
class TrainingConfig:
    """How to train. A limit of 0 is no limit; the first limit that is reached ends the run."""

    seed: int = 1
    epochs: int = 0
    updates: int = 0
    minutes: float = 0.0  # by the clock, validation included; such a run cannot repeat exactly
    patience: int = 10  # validations in a row without a new best; 0: never stop for that

    batch_sentences: int = 80
    batch_tokens: int = 0  # padded tokens on the longer side of a batch
    pool: int = 500  # batches whose sentences are sorted by length together

    optimizer: Literal["adadelta", "adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 1e-3
    beta1: float = 0.9  # adam, adamw
    beta2: float = 0.999  # adam, adamw
    rho: float = 0.95  # adadelta (torch's own default is 0.9)
    epsilon: float = 1e-8
    weight_decay: float = 0.0  # adamw
    clip: float = 1.0  # greatest L2 norm of the gradient; 0: as it comes
    normalise: Literal["tokens", "sentences"] = "tokens"  # what the loss is averaged over
    label_smoothing: float = 0.0
    bpe_dropout: float = 0.0  # Provilkov et al. (2020): fresh segmentations every epoch

    translation_weight: float = 1.0  # of the translation's loss; 0: the decoder is not trained
    guide: str = ""  # file of links that attention is to learn (Chen et al., 2016)
    guide_weight: float = 1.0  # of that loss, a target subword
    guide_rows: Literal["own", "predicting", "next", "consumed", "head"] = "own"  # as in align

    schedule: Literal["constant", "cosine", "inverse-sqrt", "plateau"] = "constant"
    warmup: int = 0  # updates in which the learning rate rises from 0
    least_rate: float = 0.0  # cosine, plateau: the learning rate falls to this part of itself
    decay: float = 0.5  # plateau: factor when validation does not improve …
    decay_patience: int = 2  # … for so many validations

    valid_every: int = 0  # updates; 0: at the end of every epoch
    valid_beam: int = 1
    valid_gold: str = ""  # file of gold links of the validation pairs: measure AER too
    select: Literal["bleu", "loss", "aer"] = "bleu"  # which validation figure says what is best
    average: int = 1  # in the end also try the mean of so many last validations' models

    save_minutes: float = 10.0  # between checkpoints, besides those of validations; 0: no matter
    save_every: int = 0  # the same in updates

    precision: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    cuda_graphs: bool = False  # on a GPU: record the recurrences once a shape, and play them
    deterministic: bool = False  # on a GPU only what gives the same bytes again; a CPU does anyway

    @property
    def figure(self) -> str:
        """The validation figure that says what is best."""
        return f"valid_{self.select}"

    def __post_init__(self) -> None:
        for name in ("learning_rate", "epsilon"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        for name in ("beta1", "beta2", "rho", "label_smoothing", "bpe_dropout", "decay"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 0 and below 1, got {getattr(self, name)}"
                )
        least_one = ("pool", "valid_beam", "average", "decay_patience")
        not_negative = (
            "seed", "epochs", "updates", "minutes", "patience", "batch_sentences", "batch_tokens",
            "weight_decay", "clip", "warmup", "valid_every", "least_rate",
            "translation_weight", "guide_weight", "save_minutes", "save_every",
        )  # fmt: skip
        for names, least in ((least_one, 1), (not_negative, 0)):
            for name in names:
                value = getattr(self, name)
                if not (math.isfinite(value) and value >= least):
                    raise ValueError(f"{name} must be at least {least}, got {value}")
        if self.seed > MAX_SEED:
            raise ValueError(f"seed must be at most {MAX_SEED}, got {self.seed}")
        if self.valid_beam > WIDEST:
            raise ValueError(f"valid_beam must be at most {WIDEST}, got {self.valid_beam}")
        if not (self.batch_sentences or self.batch_tokens):
            raise ValueError("batch_sentences or batch_tokens must say how large a batch is")
        if not (self.epochs or self.updates or self.minutes or self.patience):
            raise ValueError("the run has no end: set epochs, updates, minutes or patience")
        if not self.translation_weight and not (self.guide and self.guide_weight):
            raise ValueError("there is nothing to learn: set translation_weight, or give a guide")
        if self.select == "aer" and not self.valid_gold:
            raise ValueError("select = aer needs valid_gold, the links of the validation pairs")
        if not self.translation_weight and self.select != "aer" and self.valid_gold:
            raise ValueError(
                "without translation there is no BLEU or loss to select by: set training.select=aer"
            )
        limited = bool(self.epochs or self.updates or self.minutes)
        if not self.translation_weight and not self.valid_gold and not limited:
            raise ValueError(
                "without translation there is no BLEU to stop by: set epochs, updates, minutes, "
                "or valid_gold with select = aer"
            )
        if self.schedule == "cosine" and not limited:
            raise ValueError("the cosine schedule needs an end: set epochs, updates or minutes")


@dataclass(frozen=True)
class Settings:
    """A complete run: config.toml of the model directory holds exactly this."""

    data: str
    model: AnyConfig
    training: TrainingConfig | EMConfig

    def to_table(self) -> Table:
        tables = {"model": to_table(self.model), "training": to_table(self.training)}
        return {"data": self.data, **tables}


def settings_from(
    data: str | None,
    arch: str | None = None,
    preset: str | None = None,
    config: Path | None = None,
    assignments: Sequence[str] = (),
) -> Settings:
    """Settings from, later over earlier: the defaults, a preset, a TOML file, assignments.

    `data` and `arch` go over the file's too. The file may itself say `preset = "small"`.
    Raises UserError for unknown keys and names, wrong types and values.
    """
    table = copy.deepcopy(read_toml(config)) if config else {}
    where = str(config) if config else "settings"
    table = override(table, assignments)
    inner = table.setdefault("model", {})
    if isinstance(inner, dict) and (arch or "architecture" not in inner):
        inner["architecture"] = arch or DEFAULT_ARCHITECTURE
    preset = preset or table.pop("preset", None)
    table.pop("preset", None)
    if preset is not None:
        table = _over_preset(table, str(preset))
    for key in table:
        if key not in ("data", "model", "training"):
            raise unknown(f"key in {where}", key, ("data", "preset", "model", "training"))
    for key in ("model", "training"):
        if not isinstance(table.get(key, {}), dict):
            raise UserError(f"{where}: {key} must be a table")
    folder = data or table.get("data")
    if not isinstance(folder, str):
        raise UserError(f"{where}: data must name the prepared corpus")
    model = model_config(table["model"], f"{where} [model]")
    chosen, what = table.get("training", {}), f"{where} [training]"
    training: TrainingConfig | EMConfig
    if isinstance(model, TablesConfig):
        _check_tables_training(chosen, what)
        training = build(EMConfig, chosen, what)
    else:
        training = build(TrainingConfig, chosen, what)
    return Settings(folder, model, training)


def _check_tables_training(chosen: Table, where: str) -> None:
    """UserError for a setting that only networks have."""
    ours, theirs = ({field.name for field in fields(one)} for one in (EMConfig, TrainingConfig))
    for key in chosen:
        if key in theirs - ours:
            option = f"--{key} (training.{key})" if key in OPTIONS else f"training.{key}"
            raise UserError(f"{where}: ibm1 and hmm have no {key}: leave out {option}")


def _over_preset(table: Table, preset: str) -> Table:
    name = table["model"].get("architecture") if isinstance(table["model"], dict) else None
    presets = architecture(str(name)).presets
    if preset not in presets:
        raise unknown(f"preset of {name}", preset, presets)
    result = dict(table)
    for key, values in presets[preset].items():
        if isinstance(table.get(key, {}), dict):
            result[key] = {**values, **table.get(key, {})}
    return result


def preset_names() -> list[str]:
    """Every preset that some architecture has, for help texts."""
    return list(dict.fromkeys(n for a in ARCHITECTURES.values() for n in a.presets))
