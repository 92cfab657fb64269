"""Training: target tokens a second, beside the limit and beside other tools.

    python training_speed.py TEXT WORK [--peers FOLDER] [--size small] [--rounds 3] [--tools …]

TEXT is what text.py made. The tools run in turn, round after round, each alone on the machine with
the same threads and batches. Target tokens count the end of a sentence and no padding. Prints a
table: median over the rounds, percent of the limits by torch's own matrix products and by oneDNN's
(measured in every round), how many times faster the first tool is, and peak memory.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from limit import WAYS
from peers import TOOLS, Run, Tool
from sizes import BATCH, SIZES
from text import tokens_a_sentence
from watch import rate, run

HERE = Path(__file__).resolve().parent
UPDATES = {"small": 120, "small-256": 120, "paper": 50}
WARMUP = 20  # updates


@dataclass
class Measured:
    """A tool's rounds: tokens a second, GiB, intervals that others disturbed."""

    speeds: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    disturbed: int = 0


def limits(size: str, threads: int) -> list[float]:
    """The limits' tokens a second, a way of limit.py each, in a process of its own."""
    command = [sys.executable, str(HERE / "limit.py"), "--threads", str(threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    rows = [line.split("\t") for line in lines]
    return [float(row[-1]) for row in rows if row[0] == size]


def measure(
    tool: Tool, text: Path, work: Path, size: str, threads: int
) -> tuple[float, float, int]:
    """One run: tokens a second, GiB, disturbed intervals."""
    folder = work / f"{tool.name}-{size}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    given = Run(text, folder, SIZES[size], UPDATES[size], report=5 if size == "paper" else 10)
    watched = run(tool.train(given), threads, folder / "log")
    if watched.status:
        raise SystemExit(f"error: {tool.name} failed: see {folder / 'log'}")
    counts = [(tool.updates(line), line) for line in watched.lines]
    found = rate([(n, line) for n, line in counts if n is not None], WARMUP)
    return found.updates * BATCH * tokens_a_sentence(text, "de"), watched.memory, found.disturbed


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--peers", type=Path, default=Path("peers"))
    parser.add_argument("--size", choices=SIZES, action="append")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    tools = [TOOLS[name](arguments.peers.resolve()) for name in arguments.tools]
    for tool in tools:
        tool.install()
    for size in arguments.size or ["small", "paper"]:
        found = {tool.name: Measured() for tool in tools}
        most = []
        for _ in range(arguments.rounds):
            most.append(limits(size, arguments.threads))
            for tool in tools:
                one = measure(
                    tool,
                    arguments.text.resolve(),
                    arguments.work.resolve(),
                    size,
                    arguments.threads,
                )
                found[tool.name].speeds.append(one[0])
                found[tool.name].memory.append(one[1])
                found[tool.name].disturbed += one[2]
        show(size, found, [statistics.median(way) for way in zip(*most, strict=True)])


def show(size: str, found: dict[str, Measured], most: list[float]) -> None:
    """A table of one size; ratios are those of the rounds' medians."""
    first = statistics.median(next(iter(found.values())).speeds)
    named = ", ".join(f"{way} {limit:.0f}" for way, limit in zip(WAYS, most, strict=True))
    print(f"{size}: limits {named} target tokens/s")
    percents = "\t".join(f"% of {way}" for way in WAYS)
    print(f"tool\ttokens/s\tlowest\thighest\t{percents}\tfirst is × this\tGiB\tdisturbed")
    for name, one in found.items():
        speed = statistics.median(one.speeds)
        percents = "\t".join(f"{100 * speed / limit:.0f}" for limit in most)
        print(
            f"{name}\t{speed:.0f}\t{min(one.speeds):.0f}\t{max(one.speeds):.0f}"
            f"\t{percents}\t{first / speed:.2f}\t{max(one.memory):.2f}\t{one.disturbed}",
            flush=True,
        )


if __name__ == "__main__":
    main()
