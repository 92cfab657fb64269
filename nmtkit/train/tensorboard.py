"""The records of metrics.jsonl for TensorBoard as well (the extra `tensorboard`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.train.records import Record

STEPS = ("update", "epoch")  # what a figure's place on the axis is; the first that a record has


class TensorBoard:
    """A reporter that writes event files beside metrics.jsonl, each figure under its name there.

    Raises UserError at once when TensorBoard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "TensorBoard is not installed: pip install 'nmtkit[tensorboard]'"
            ) from None
        self.folder, self.open = folder, SummaryWriter
        self.writer: Any = None  # the model directory is not there before the run begins
        self.held: list[Record] | None = None

    def hold(self) -> None:
        """Keep the records until `release`: the model directory is there only when it is whole."""
        self.held = []

    def release(self) -> None:
        """Write what was kept."""
        held, self.held = self.held or [], None
        for record in held:
            self.recorded(record)

    def updated(self, done: float, record: Record) -> None:
        pass

    def recorded(self, record: Record) -> None:
        """One point for every number of a record; what says how the run ended has no place."""
        if self.held is not None:
            self.held.append(record)
            return
        step = next((record[name] for name in STEPS if name in record), None)
        if not isinstance(step, int) or "finished" in record:
            return
        if self.writer is None:
            # A run that was resumed comes again to steps that were written before the break.
            self.writer = self.open(str(self.folder), purge_step=step)
        for name, value in record.items():
            if name not in STEPS and isinstance(value, int | float) and not isinstance(value, bool):
                self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def noted(self, note: str) -> None:
        pass

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
