"""A command, with the seconds it takes and the memory that it and its children hold at the most."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

INTERVAL = 0.1  # seconds between two looks
FIELDS = "RssAnon", "RssFile"  # of /proc/PID/status, kB
SHARED = "RssShmem"


@dataclass
class Measured:
    """Seconds of the clock and of all cores; GiB at the worst moments, of all processes together.

    ``anonymous`` is memory of the processes' own. ``mapped`` are pages of files (programs and
    libraries, counted for every process, and memory-mapped data), which the system takes back when
    it needs them.
    """

    seconds: float = 0.0
    processor_seconds: float = 0.0
    anonymous: float = 0.0
    mapped: float = 0.0
    processes: int = 0

    def table(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in asdict(self).items()}


def measure(
    command: Sequence[str],
    stdin: Path | None = None,
    stdout: Path | None = None,
    quiet: bool = False,
) -> Measured:
    """Run ``command`` to its end. Raises CalledProcessError when it fails."""
    worst = Measured()
    before = _processor_seconds()
    start = time.monotonic()
    with (
        Path(stdin or "/dev/null").open("rb") as given,
        Path(stdout or "/dev/null").open("wb") as taken,
        subprocess.Popen(
            command, stdin=given, stdout=taken, stderr=subprocess.DEVNULL if quiet else None
        ) as process,
    ):
        while process.poll() is None:
            look(process.pid, worst)
            time.sleep(INTERVAL)
    worst.seconds = time.monotonic() - start
    worst.processor_seconds = _processor_seconds() - before
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return worst


def look(root: int, worst: Measured) -> None:
    """Raise ``worst`` to what ``root`` and its descendants hold now."""
    held = [_held(process) for process in _family(root)]
    anonymous, mapped = (sum(one[i] for one in held) / (1 << 20) for i in (0, 1))
    worst.anonymous = max(worst.anonymous, anonymous)
    worst.mapped = max(worst.mapped, mapped)
    worst.processes = max(worst.processes, len(held))


def _family(root: int) -> Iterator[int]:
    yield root
    for tasks in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = tasks.read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from _family(int(child))


def _held(process: int) -> tuple[int, int]:
    """kB of its own, and of files and shared memory."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines if "kB" in line}
    own, mapped = (kilobytes.get(name, 0) for name in FIELDS)
    return own, mapped + kilobytes.get(SHARED, 0)


def _processor_seconds() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
