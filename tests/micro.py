"""Runs of a second: a model of 8 units on the corpus of the fixture `micro`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.checkpoint import vocabulary_of
from nmtkit.data import PreparedCorpus
from nmtkit.models import build_model
from nmtkit.models.seq2seq import Seq2Seq
from nmtkit.train import Settings, Silent, TrainingConfig, _run, settings_from, train
from nmtkit.train.objective import Objective
from nmtkit.train.trainer import Trainer

CPU = torch.device("cpu")
SIZES = ("embedding", "encoder_hidden", "hidden", "attention_units", "maxout")
MICRO = [
    *(f"model.{name}=8" for name in SIZES),
    "model.initialisation=glorot",
    "training.batch_sentences=13",  # five batches an epoch, the last of 8 sentences
    "training.pool=2",
    "training.device=cpu",
    "training.select=loss",
]
BATCHES = 5


def settings(data: Path, *assignments: str) -> Settings:
    """`assignments` are of the table [training], unless they say model."""
    full = (a if a.startswith("model.") else f"training.{a}" for a in assignments)
    return settings_from(str(data), assignments=[*MICRO, *full])


def run(data: Path, out: Path, *assignments: str, reporter: Any = None) -> Path:
    train(settings(data, *assignments), out, reporter)
    return out


def records(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without times."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    found = [json.loads(line) for line in lines]
    assert all(record.pop("minutes") >= 0 for record in found)
    return found


def results(folder: Path) -> dict[str, Any]:
    """All that a run leaves but times; files by their bytes."""
    names = ("model", "checkpoint/model", "checkpoint/optimizer", "checkpoint/random")
    files = {name: (folder / f"{name}.safetensors").read_bytes() for name in names}
    state = json.loads((folder / "checkpoint" / "state.json").read_text(encoding="utf-8"))
    for name in ("seconds", "log_bytes"):  # the length of the log depends on times too
        del state[name]
    return {**files, "state": state, "records": records(folder)}


class Keeping(Silent):
    """Remembers the bytes of the model after every validation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[tuple[dict[str, Any], bytes]] = []

    def recorded(self, record: Any) -> None:
        if "best" in record:
            self.kept.append((record, (self.folder / "model.safetensors").read_bytes()))


def trainer(data: Path, out: Path, *assignments: str) -> Trainer:
    """A trainer before its first update."""
    out.mkdir(exist_ok=True)
    found = _run(settings(data, "updates=99", *assignments), out, Silent())
    assert isinstance(found, Trainer)
    return found


def batch_of(corpus: PreparedCorpus, rows: list[int]) -> Batch:
    return Batch.of([corpus.train.source(i) for i in rows], [corpus.train.target(i) for i in rows])


def objective_of(data: Path, *assignments: str) -> Objective:
    """The loss of a fresh model, in float64."""
    chosen = settings(data, "guide=links", *assignments)
    assert isinstance(chosen.training, TrainingConfig)
    corpus = PreparedCorpus.open(data)
    sizes = (
        len(vocabulary_of(corpus.source_text, data)),
        len(vocabulary_of(corpus.target_text, data)),
    )
    torch.manual_seed(3)
    model = build_model(chosen.model, *sizes).double()
    assert isinstance(model, Seq2Seq)
    return Objective(chosen.training, model, "predicting")


def guide_of(batch: Batch) -> Tensor:
    """Any attention to learn, (B, T, S): every target subword's is spread over all the source."""
    both = batch.target_mask.unsqueeze(2) * batch.source_mask.unsqueeze(1).float()
    return both / both.sum(2, keepdim=True).clamp_min(1)
