"""Runs a command, and tells when each of its lines came, its peak memory, and who else was busy."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
BUSY = 0.04  # part of the machine that other processes may use while something is measured


@dataclass(frozen=True)
class Line:
    """A line of the command's output: seconds since its start, CPU seconds of all and of it."""

    text: str
    seconds: float
    machine: float
    own: float


@dataclass(frozen=True)
class Watched:
    """A finished run."""

    lines: list[Line]
    seconds: float
    memory: float  # GiB, at its highest
    status: int


def run(
    command: Sequence[str], threads: int, log: Path, more: Mapping[str, str] | None = None
) -> Watched:
    """Run with so many threads; stdout and stderr together go to `log`."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONUNBUFFERED": "1"}
    environment |= {"CUDA_VISIBLE_DEVICES": "", **(more or {})}
    began = time.monotonic()
    lines = []
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdout is not None
        for text in process.stdout:
            file.write(text)
            file.flush()
            lines.append(Line(text, time.monotonic() - began, _machine(), _own(process.pid)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    return Watched(lines, seconds, usage.ru_maxrss / 2**20, process.returncode)


@dataclass(frozen=True)
class Rate:
    """Updates a second: the median over intervals between reports, and how many were disturbed."""

    updates: float
    intervals: int
    disturbed: int


def rate(counts: Sequence[tuple[int, Line]], warmup: int) -> Rate:
    """From (updates done, the line that said so); nothing before `warmup` updates counts.

    Intervals in which others took more than BUSY of the machine are left out, unless all were.
    """
    counts = [one for one in counts if one[0] >= warmup]
    quiet, every = [], []
    for (begin, one), (end, other) in pairwise(counts):
        seconds = other.seconds - one.seconds
        foreign = (other.machine - one.machine) - (other.own - one.own)
        every.append((end - begin) / seconds)
        if foreign / ((os.cpu_count() or 1) * seconds) <= BUSY:
            quiet.append(every[-1])
    if not every:
        raise SystemExit("error: the run was too short to measure")
    return Rate(statistics.median(quiet or every), len(every), len(every) - len(quiet))


def _machine() -> float:
    """CPU seconds of all processes since the machine's start."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return sum(int(fields[i]) for i in (1, 2, 3, 6, 7, 8)) / TICKS


def _own(process: int) -> float:
    """CPU seconds of one process; 0 when it is gone."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
