"""Many hostile inputs, in processes whose memory is limited, and what became of them."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import command
from tests.fuzz.case import SECONDS, Case, Outcome, limit_memory, run
from tests.fuzz.given import make
from tests.fuzz.kinds import KINDS, Kind

WARM = (
    "align {base}/models/rnnsearch --source {base}/test.tokens.aa --target {base}/test.tokens.zz",
    "train --out {base}/models/rnnsearch --curve {base}/curve.svg",
)


@dataclass
class Tally:
    """What became of the inputs of one kind."""

    kind: Kind
    inputs: int = 0
    results: int = 0
    errors: int = 0
    faults: list[tuple[Case, str]] = field(default_factory=list)
    slowest: float = 0.0  # seconds of CPU
    memory: int = 0  # MiB, the most that the process held
    seconds: float = 0.0  # of CPU, of all

    def add(self, case: Case, outcome: Outcome) -> None:
        self.inputs += 1
        self.results += outcome.what == "result"
        self.errors += outcome.what == "error"
        self.slowest = max(self.slowest, outcome.seconds)
        if outcome.what == "fault":
            self.faults.append((case, outcome.text))


def warm(base: Path) -> None:
    """Load all that the commands load, before the processes part."""
    for line in WARM:
        command(*line.format(base=base).split())


@contextmanager
def valid_files() -> Iterator[Path]:
    """The valid files in a folder for a while; in memory where the system has such a place."""
    shared = Path("/dev/shm")
    place = str(shared) if shared.is_dir() and os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=place) as name:
        yield make(Path(name))


def campaign(kind: Kind, cases: Sequence[Case], base: Path) -> Tally:
    """Read every input in a process beside this one; another takes over where one fails."""
    tally = Tally(kind)
    place = base / "case"
    while tally.inputs < len(cases):
        _process(cases[tally.inputs :], base, place, tally)
        shutil.rmtree(place, ignore_errors=True)
    return tally


def _process(cases: Sequence[Case], base: Path, place: Path, tally: Tally) -> None:
    """A process until its first fault; it tells by a pipe what it begins and what became of it."""
    reading, writing = os.pipe()
    number = os.fork()
    if number == 0:
        try:
            os.close(reading)
            _work(cases, base, place, writing)
        except BaseException:  # of this harness
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    begun = 0
    with os.fdopen(reading, encoding="utf-8") as told:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(number, signal.SIGKILL))
        signal.alarm(3 * SECONDS)
        for line in told:
            signal.alarm(3 * SECONDS)  # it did not even obey its own limits
            message: dict[str, Any] = json.loads(line)
            if "begun" in message:
                begun = message["begun"]
            else:
                tally.add(cases[begun - 1], Outcome(**message))
                begun = 0
        signal.alarm(0)
    _, status, usage = os.wait4(number, 0)
    tally.memory = max(tally.memory, usage.ru_maxrss >> 10)
    tally.seconds += usage.ru_utime + usage.ru_stime
    if begun:
        code = os.waitstatus_to_exitcode(status)
        tally.add(cases[begun - 1], Outcome("fault", f"the process ended with {code}", 0.0))


def _work(cases: Sequence[Case], base: Path, place: Path, pipe: int) -> None:
    limit_memory()
    for count, case in enumerate(cases, 1):
        os.write(pipe, f'{{"begun": {count}}}\n'.encode())
        outcome = run(case, base, place)
        os.write(pipe, (json.dumps(vars(outcome)) + "\n").encode())
        if outcome.what == "fault":
            return
        if count % 50 == 0:
            gc.collect()


def keep(case: Case, text: str, base: Path, folder: Path) -> Path:
    """Save a faulty input, its command and what happened."""
    name = f"{case.kind.name}-{case.number}".replace(": ", "-").replace(" ", "-")
    place = folder / name
    shutil.rmtree(place, ignore_errors=True)
    arguments = case.make(base, place)
    (place / "command").write_text(" ".join(["nmtkit", *arguments]) + "\n", encoding="utf-8")
    (place / "fault").write_text(text, encoding="utf-8", errors="backslashreplace")
    return place


def shares(inputs: int, kinds: Sequence[Kind] = KINDS) -> list[int]:
    """How many inputs each kind has of so many."""
    total = sum(kind.share for kind in kinds)
    counts = [inputs * kind.share // total for kind in kinds]
    for extra in range(inputs - sum(counts)):
        counts[extra % len(counts)] += 1
    return counts
