"""Hostile files of every kind, and what the commands that read them make of them.

python fuzz.py --inputs 20000                     all kinds, as a table
python fuzz.py --kind "text: tmx" --only 17       one input again, with what it did

An input is a function of the seed, its kind and its number; those that do harm are saved.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where the tests are

from tests.fuzz.campaign import Tally, campaign, keep, shares, valid_files, warm
from tests.fuzz.case import Case, run
from tests.fuzz.kinds import KINDS

FAILURES = Path(__file__).resolve().parent / "work" / "fuzz"
NAMES = [kind.name for kind in KINDS]


def fuzz(inputs: int, seed: int, names: Sequence[str], failures: Path) -> bool:
    """Read so many inputs and print a table; those that do harm are saved in the folder `failures`.

    Whether there were any.
    """
    chosen = [kind for kind in KINDS if kind.name in names]
    tallies = []
    begin, cpu = time.monotonic(), time.process_time()
    print(f"{'kind':22} inputs results  errors   harm  slowest s    MiB")
    with valid_files() as base:
        warm(base)
        for kind, count in zip(chosen, shares(inputs, chosen), strict=True):
            tally = campaign(kind, [Case(kind, number, seed) for number in range(count)], base)
            tallies.append(tally)
            _print(kind.name, [tally])
            for case, text in tally.faults:
                place = keep(case, text, base, failures)
                last = text.strip().splitlines()[-1][:200]
                print(f"  seed {seed}, number {case.number}: {last} ({place})", flush=True)
    _print("all", tallies)
    spent = sum(tally.seconds for tally in tallies) + time.process_time() - cpu
    print(f"{time.monotonic() - begin:.0f} s, {spent:.0f} s of one core; seed {seed}")
    return any(tally.faults for tally in tallies)


def _print(name: str, tallies: Sequence[Tally]) -> None:
    inputs, results, errors, faults = (
        sum(numbers)
        for numbers in zip(*((t.inputs, t.results, t.errors, len(t.faults)) for t in tallies))
    )
    slowest, memory = max(t.slowest for t in tallies), max(t.memory for t in tallies)
    counts = f"{inputs:6} {results:7} {errors:7} {faults:6}"
    print(f"{name:22} {counts} {slowest:10.2f} {memory:6}", flush=True)


def parse() -> None:
    """Parse, do, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=NAMES)
    parser.add_argument("--only", type=int, help="read this number of the --kind alone")
    parser.add_argument("--failures", type=Path, default=FAILURES)
    given = parser.parse_args()
    if given.only is None:
        sys.exit(fuzz(given.inputs, given.seed, given.kind or NAMES, given.failures))
    with valid_files() as base:
        for kind in KINDS:
            if kind.name in (given.kind or ()):
                outcome = run(Case(kind, given.only, given.seed), base, base / "case")
                print(f"{outcome.what}, {outcome.seconds:.2f} s\n{outcome.text}")


if __name__ == "__main__":
    parse()
