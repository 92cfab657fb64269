"""Training: settings, the loop, resuming."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from nmtkit import device as devices
from nmtkit.checkpoint import CONFIG, Trained, vocabulary_of
from nmtkit.config import write_toml
from nmtkit.data import PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.files import check_output_folder
from nmtkit.models import build_model
from nmtkit.train.optimise import OPTIMIZERS
from nmtkit.train.settings import Settings, TrainingConfig, preset_names, settings_from
from nmtkit.train.state import Position
from nmtkit.train.trainer import Record, Reporter, Silent, Trainer

__all__ = [
    "Position",
    "Record",
    "Reporter",
    "Settings",
    "Silent",
    "TrainingConfig",
    "preset_names",
    "resume",
    "settings_from",
    "train",
]


MOVABLE = ("epochs", "updates", "minutes", "patience")  # what a resumed run may change


def train(
    settings: Settings, out: Path, reporter: Reporter | None = None, overwrite: bool = False
) -> Record:
    """Train a new model into the folder `out`; returns the last record of its metrics.jsonl.

    Raises UserError when `out` holds something (with `overwrite`: something else than a model),
    when the prepared corpus is broken, or when a GPU is asked for that is not there.
    """
    check_output_folder(out, overwrite)
    if out.is_dir() and any(out.iterdir()) and not (out / CONFIG).is_file():
        raise UserError(f"{out}: not a model directory, so --overwrite does not touch it")
    trainer = _trainer(settings, out, reporter)
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    trainer.trained.source.save(out, "source")
    trainer.trained.target.save(out, "target")
    write_toml(out / CONFIG, settings.to_table())
    return trainer.run()


def resume(out: Path, assignments: Sequence[str] = (), reporter: Reporter | None = None) -> Record:
    """Go on with the run in `out` from its last checkpoint, as if it had not been interrupted.

    `assignments` may move the run's limits ("training.epochs=20"), nothing else.
    """
    if not (out / CONFIG).is_file():
        raise UserError(f"{out}: nothing to resume: it has no {CONFIG}")
    before = settings_from(None, config=out / CONFIG)
    settings = settings_from(None, config=out / CONFIG, assignments=assignments)
    _check_unchanged(before, settings)
    trainer = _trainer(settings, out, reporter)
    trainer.resume()
    write_toml(out / CONFIG, settings.to_table())
    return trainer.run()


def _check_unchanged(before: Settings, after: Settings) -> None:
    tables = before.to_table(), after.to_table()
    for name in MOVABLE:
        for table in tables:
            table["training"].pop(name)
    if tables[0] != tables[1]:
        movable = ", ".join(f"training.{name}" for name in MOVABLE)
        raise UserError(
            f"a resumed run keeps its settings: only {movable} may change; "
            "start a new run for anything else"
        )


def _trainer(settings: Settings, out: Path, reporter: Reporter | None) -> Trainer:
    """A trainer before its first update, its model freshly drawn from the seed."""
    corpus = PreparedCorpus.open(Path(settings.data))
    device = devices.resolve(settings.training.device)
    _check(settings.training, corpus, device)
    texts = corpus.source_text, corpus.target_text
    torch.manual_seed(settings.training.seed)
    sizes = [len(vocabulary_of(text, corpus.folder)) for text in texts]
    model = build_model(settings.model, *sizes).to(device)
    optimizer = OPTIMIZERS[settings.training.optimizer](model.parameters(), settings.training)
    trained = Trained(out, model, *texts)
    return Trainer(settings, corpus, trained, optimizer, reporter or Silent())


def _check(config: TrainingConfig, corpus: PreparedCorpus, device: torch.device) -> None:
    if config.precision == "bfloat16" and device.type != "cuda":
        raise UserError("training.precision = bfloat16 needs a CUDA GPU: use float32 on the CPU")
    if config.bpe_dropout and corpus.source_text.config.subwords != "bpe":
        raise UserError(f"training.bpe_dropout needs BPE: {corpus.folder} was made without it")
