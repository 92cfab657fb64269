"""What a run leaves besides its checkpoint: the best model, the last ones, metrics.jsonl."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from torch import nn

from nmtkit.checkpoint import REPLACED, WEIGHTS, write_tensors
from nmtkit.curves import METRICS
from nmtkit.errors import UserError
from nmtkit.files import copy_file
from nmtkit.train.state import BEST

KEPT = "validated"  # folder of the models to average


class Results:
    """These files of one model directory; the last `average` models are kept if more than one."""

    def __init__(self, folder: Path, average: int) -> None:
        self.folder, self.average = folder, average

    @property
    def weights(self) -> Path:
        """The best model, once there is one."""
        return self.folder / WEIGHTS

    @property
    def kept(self) -> list[Path]:
        """The models that may be averaged, named by their updates."""
        return sorted((self.folder / KEPT).glob("*.safetensors"))

    def write_best(self, model: nn.Module) -> None:
        """The model as it stands becomes the result; one that the run replaces can go."""
        write_tensors(self.weights, model.state_dict())
        shutil.rmtree(self.folder / REPLACED, ignore_errors=True)

    def keep(self, model: nn.Module, update: int) -> None:
        """Put the model as it stands among the last ones."""
        if self.average < 2:
            return
        (self.folder / KEPT).mkdir(exist_ok=True)
        path = self.folder / KEPT / f"{update:09d}.safetensors"
        write_tensors(path, model.state_dict())
        for old in self.kept[: -self.average]:
            old.unlink()

    def restore(self, checkpoint: Path, log_bytes: int) -> None:
        """Make them what they were at a checkpoint, whatever the run did beyond it.

        A result stays where the checkpoint had none yet. UserError when metrics.jsonl is too short.
        """
        log = self.folder / METRICS
        length = log.stat().st_size if log.is_file() else 0
        if length < log_bytes:
            raise UserError(f"{log}: shorter than the checkpoint says: it was changed")
        if length:
            with log.open("r+b") as file:
                file.truncate(log_bytes)
        if (checkpoint / BEST).is_file():
            copy_file(checkpoint / BEST, self.weights)
        shutil.rmtree(self.folder / KEPT, ignore_errors=True)
        for path in sorted(checkpoint.glob("[0-9]*.safetensors")):
            (self.folder / KEPT).mkdir(exist_ok=True)
            copy_file(path, self.folder / KEPT / path.name)


def keep_replaced(old: Path, new: Path) -> None:
    """Put the model in `old` also into the folder `new`, which replaces it but has none yet."""
    if not (old / WEIGHTS).is_file():  # its run had none either
        old = old / REPLACED
    if not (old / WEIGHTS).is_file():
        return
    (new / REPLACED).mkdir()
    for path in old.iterdir():
        if path.is_file():
            try:
                os.link(path.resolve(), new / REPLACED / path.name)
            except OSError:  # a file system without links
                copy_file(path, new / REPLACED / path.name)
