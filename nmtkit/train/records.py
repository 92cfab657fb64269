"""What a run tells of itself: metrics.jsonl, and whoever watches."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from nmtkit.curves import METRICS

Record = Mapping[str, object]


class Reporter(Protocol):
    """Who is told how training goes; the command line shows it."""

    def updated(self, done: float, record: Record) -> None:
        """After every update: how much of the run is done (0 to 1), and its figures."""

    def recorded(self, record: Record) -> None:
        """A line has gone into metrics.jsonl."""

    def noted(self, note: str) -> None:
        """Something that whoever started the run should know."""


class Silent:
    """The reporter that says nothing."""

    def updated(self, done: float, record: Record) -> None:
        pass

    def recorded(self, record: Record) -> None:
        pass

    def noted(self, note: str) -> None:
        pass


class Together:
    """Several reporters as one."""

    def __init__(self, *reporters: Reporter) -> None:
        self.reporters = reporters

    def updated(self, done: float, record: Record) -> None:
        for one in self.reporters:
            one.updated(done, record)

    def recorded(self, record: Record) -> None:
        for one in self.reporters:
            one.recorded(record)

    def noted(self, note: str) -> None:
        for one in self.reporters:
            one.noted(note)


def write_record(folder: Path, record: Record, reporter: Reporter) -> int:
    """Append a line to the model directory's metrics.jsonl; how long it then is in bytes."""
    # JSON has no NaN: a figure that is not finite is null.
    record = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }
    line = json.dumps(record, allow_nan=False, default=str) + "\n"
    with (folder / METRICS).open("a", encoding="utf-8", newline="\n") as file:
        file.write(line)
        length = file.tell()
    reporter.recorded(record)
    return length
