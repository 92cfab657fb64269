"""The model directory: weights, settings and text side. Nothing in it is ever unpickled.

config.toml         every setting; `nmtkit train --config` with it repeats the run
model.safetensors   the parameters, with their checksum in the header
text.json, codes…   the text side, as in the prepared corpus (text.py)
metrics.jsonl       a record a report of the training
checkpoint/         all that resuming needs; checkpoint.previous/: the one before it
replaced/           the model that this one replaces, until it has parameters of its own
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from nmtkit.config import Table, build, read_toml
from nmtkit.errors import UserError
from nmtkit.extended import ExtendedVocabulary
from nmtkit.files import atomic_writer
from nmtkit.models import AnyConfig, AnyModel, architecture, blank_model
from nmtkit.models.aligner import Aligner
from nmtkit.models.ibm import TablesConfig
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.text import Text
from nmtkit.vocabulary import Vocabulary

CONFIG = "config.toml"
WEIGHTS = "model.safetensors"
REPLACED = "replaced"
DIGEST = "sha256"  # in the header of a safetensors file


@dataclass(frozen=True)
class Trained:
    """A loaded model with the text side it was trained on."""

    folder: Path
    model: AnyModel
    source: Text
    target: Text
    translates: bool = True  # its decoder has been trained

    @property
    def seq2seq(self) -> AnySeq2Seq:
        """The model as one that translates; UserError when it only aligns."""
        if isinstance(self.model, Aligner):
            raise UserError(
                f"{self.folder}: its architecture only aligns: translate and score with another"
            )
        return self.model

    @property
    def device(self) -> torch.device:
        """Where the model's numbers are."""
        numbers: Tensor = next(iter(self.model.state_dict().values()))
        return numbers.device

    @property
    def source_vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.source, self.folder)

    @property
    def target_vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.target, self.folder)

    @cached_property
    def extended(self) -> ExtendedVocabulary | None:
        """What a model that copies can write; None for others."""
        if isinstance(self.model, Aligner) or self.model.copying is None:
            return None
        return ExtendedVocabulary(self.source_vocabulary, self.target_vocabulary)


def vocabulary_of(text: Text, folder: Path) -> Vocabulary:
    """The vocabulary of a side read from `folder`; UserError when it has none."""
    if text.vocabulary is None:
        raise UserError(f"{folder}: has no vocabulary.{text.config.language}")
    return text.vocabulary


def model_config(table: Table, where: str) -> AnyConfig:
    """The settings in a table [model]; UserError when they are not."""
    name = table.get("architecture")
    if not isinstance(name, str):
        raise UserError(f"{where}: architecture is missing: it names the kind of model")
    try:
        config = architecture(name).config
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    built: AnyConfig = build(config, table, where)
    return built


def load(folder: Path, device: torch.device) -> Trained:
    """The model in `folder`, in evaluation mode on `device`.

    Raises UserError when the folder is not a model directory, or its parts do not fit together.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such model directory")
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder}: not a model directory: it has no {CONFIG}")
    table = read_toml(folder / CONFIG)
    where = f"{folder / CONFIG} [model]"
    inner = table.get("model")
    if not isinstance(inner, dict):
        raise UserError(f"{where}: the table is missing")
    config = model_config(inner, where)
    if not (folder / WEIGHTS).is_file():
        if isinstance(config, TablesConfig):
            raise UserError(f"{folder}: its {WEIGHTS} is missing: copy it again, or train again")
        if (folder / REPLACED).is_dir():
            raise UserError(
                f"{folder}: no {WEIGHTS} yet: no validation has been reached; the model that it "
                f"replaces is in {folder / REPLACED}"
            )
        raise UserError(f"{folder}: no {WEIGHTS} yet: no validation has been reached")
    source, target = Text.load(folder, "source"), Text.load(folder, "target")
    sizes = [len(vocabulary_of(text, folder)) for text in (source, target)]
    try:
        with torch.device("meta"):  # shapes only: a wrong config.toml must not fill the memory
            model = blank_model(config, *sizes)
    except (RuntimeError, OverflowError, TypeError) as error:  # how torch takes numbers too large
        raise UserError(f"{where}: no model can be so large") from error
    tensors = read_tensors(folder / WEIGHTS, device)
    if isinstance(model, Aligner):
        try:
            model.take(tensors)
        except ValueError as error:
            raise UserError(f"{folder / WEIGHTS}: {error}: it is damaged, or another's") from error
    else:
        check_tensors(tensors, model.state_dict(), folder / WEIGHTS)
        model.load_state_dict(tensors, assign=True)
    translates = not isinstance(model, Aligner) and _learnt_to_translate(table)
    return Trained(folder, model.eval().requires_grad_(False), source, target, translates)


def _learnt_to_translate(table: Table) -> bool:
    """Whether the run of a config.toml trained the decoder."""
    training = table.get("training")
    return not (isinstance(training, dict) and training.get("translation_weight") == 0)


def load_all(folders: Sequence[Path], device: torch.device) -> list[Trained]:
    """An ensemble; UserError unless all share one text side."""
    models = [load(folder, device) for folder in folders]
    first = models[0]
    for other in models[1:]:
        for side in ("source", "target"):
            ours, theirs = getattr(first, side), getattr(other, side)
            if ours.parts != theirs.parts:
                what = "text treatment" if ours.vocabulary == theirs.vocabulary else "vocabulary"
                raise UserError(
                    f"{other.folder}: its {side} {what} is not that of {first.folder}: "
                    "an ensemble needs models trained on one prepared corpus"
                )
    return models


def extended_vocabulary(models: Sequence[Trained]) -> ExtendedVocabulary | None:
    """What an ensemble can write, if one of its models copies."""
    return next((one.extended for one in models if one.extended is not None), None)


def read_tensors(path: Path, device: torch.device) -> dict[str, Tensor]:
    """The tensors in a safetensors file; UserError when it is missing or damaged.

    Files of other programs and older versions carry no checksum: they are taken as they are.
    """
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"{path}: not a whole safetensors file: {error}") from error
    if metadata.get(DIGEST, digest := _digest(tensors)) != digest:
        raise UserError(f"{path}: its checksum differs: it is damaged; copy it again")
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a safetensors file, whole or not at all, their checksum in its header."""
    own = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = safetensors.torch.save(own, metadata={DIGEST: _digest(own)})
    with atomic_writer(path, "wb") as file:
        file.write(content)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """A checksum of names, types, shapes and numbers: it goes into the same file."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {_kind(tensor)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_tensors(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor], path: Path) -> None:
    """UserError unless names, shapes and types agree, and every number is finite."""
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            raise UserError(f"{path}: the tensor {name} is missing: it belongs to another model")
        if name not in wanted:
            raise UserError(f"{path}: unexpected tensor {name}: it belongs to another model")
        ours, theirs = found[name], wanted[name]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            raise UserError(
                f"{path}: {name} is {_kind(ours)}, but config.toml and the vocabularies "
                f"make it {_kind(theirs)}"
            )
        if ours.is_floating_point() and not torch.isfinite(ours).all():
            raise UserError(f"{path}: {name} holds numbers that are not finite: it is damaged")


def _kind(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def average(models: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' parameters, summed in float64."""
    return {
        name: torch.stack([m[name].double() for m in models]).mean(0).to(tensor.dtype)
        for name, tensor in models[0].items()
    }
