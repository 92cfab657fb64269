"""One hostile input: made, read by a command in this process, judged."""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType

from nmtkit.files import CONTROLS
from tests.conftest import Done, command
from tests.fuzz.kinds import Kind

CPU_SECONDS = 20  # that a command may take
SECONDS = 120  # on the clock: for one that waits, on a machine that does something else too
MEMORY = 1 << 30  # bytes of addresses over those of a process that has loaded everything
LONGEST = 3000  # characters of an error line
FAULTY = ("Traceback", "Exception ignored", "Warning:")


@dataclass(frozen=True)
class Case:
    """An input, and what reads it."""

    kind: Kind
    number: int
    seed: int = 1

    def make(self, base: Path, place: Path) -> list[str]:
        """The hostile files in the new folder `place`; the command's arguments."""
        draw = Random(f"{self.seed} {self.kind.name} {self.number}")
        given = draw.choice(self.kind.given)
        it = place / Path(given).name
        (place / "outside").mkdir(parents=True)
        (place / "outside" / "secret").write_bytes(b"must stay as it is\n")
        (place / "out").mkdir()
        if (base / given).is_dir():
            shutil.copytree(base / given, it)
        else:
            shutil.copyfile(base / given, it)
        line = draw.choice(self.kind.commands)
        self.kind.change(it, draw)
        return [word.format(it=it, out=place / "out", base=base) for word in shlex.split(line)]


@dataclass(frozen=True)
class Outcome:
    """What a command made of an input: "result", "error" (one line), or "fault"."""

    what: str
    text: str  # the error line, or what went wrong
    seconds: float  # of CPU


class TooLong(BaseException):
    """The time is over."""


def run(case: Case, base: Path, place: Path) -> Outcome:
    """Read the input; `place` is a folder that is not there yet, and goes again."""
    try:
        arguments = case.make(base, place)
        written = ["out", *(Path(given).name for given in case.kind.given if case.kind.writes)]
        before = _listing(place, written)
        start = time.process_time()
        try:
            with _limited():
                done = command(*arguments)
            what, text = _judged(done, arguments)
        except TooLong:
            what, text = "fault", "takes too long\n" + traceback.format_exc()
        except BaseException:
            what, text = "fault", traceback.format_exc()
        seconds = time.process_time() - start
        if what != "fault":
            changed = _listing(place, written) ^ before
            left = [path.name for path in (place / "out").iterdir() if path.name.startswith(".")]
            if changed:
                what, text = "fault", f"changes what it only reads: {sorted(map(str, changed))}"
            elif left:
                what, text = "fault", f"leaves behind {left}"
        return Outcome(what, text, seconds)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _judged(done: Done, arguments: list[str]) -> tuple[str, str]:
    lines = done.err.splitlines()
    if any(word in done.err for word in FAULTY):
        return "fault", done.err
    if done.code == 0:
        return "result", ""
    if done.code == 1 and "--check" in arguments and done.out:
        return "error", done.out.splitlines()[0]
    errors = [line for line in lines if line.startswith("nmtkit: ")]
    if done.code == 2 and "Usage: nmtkit" in done.err:
        return "error", lines[-2]
    if done.code != 1 or errors != lines[-1:]:
        return "fault", f"exit code {done.code}, not one line of error:\n{done.err}"
    if CONTROLS.search(errors[0]) or len(errors[0]) > LONGEST:
        return "fault", f"an error line of {len(errors[0])} characters, or controls: {errors[0]!r}"
    return "error", errors[0]


def _listing(place: Path, without: list[str]) -> set[tuple[str, int, int, int]]:
    """Everything there with its kind, size and time, but what lies in the folders `without`."""
    found = set()
    for top, folders, files in os.walk(place):
        if Path(top) == place:
            folders[:] = [name for name in folders if name not in without]
        for name in (*folders, *files):
            path = Path(top, name)
            state = path.lstat()
            found.add((str(path), state.st_mode, state.st_size, state.st_mtime_ns))
    return found


@contextmanager
def _limited() -> Iterator[None]:
    """TooLong in this block when it has taken its time."""

    def over(_: int, __: FrameType | None) -> None:
        raise TooLong

    timers = {signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_PROF: signal.SIGPROF}
    before = {number: signal.signal(number, over) for number in timers.values()}
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        for timer, number in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])


def limit_memory() -> None:
    """This process may take no more than MEMORY over what it has."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    size = re.search(r"VmSize:\s*(\d+) kB", status)
    assert size is not None
    most = int(size[1]) * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
