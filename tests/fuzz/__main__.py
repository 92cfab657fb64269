"""python -m tests.fuzz: see the package."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.conftest import command
from tests.fuzz.campaign import WARM, Tally, campaign, keep, shares, valid_files
from tests.fuzz.case import Case, run
from tests.fuzz.kinds import KINDS


def fuzz(inputs: int, seed: int, kinds: list[str], failures: Path) -> list[Tally]:
    """Read so many inputs, print a table; faulty ones are saved in the folder `failures`."""
    chosen = [kind for kind in KINDS if not kinds or kind.name in kinds]
    tallies = []
    begin = time.monotonic()
    print(f"{'kind':22} inputs results  errors  faults  slowest s    MiB")
    with valid_files() as base:
        for line in WARM:
            command(*line.format(base=base).split())
        for kind, count in zip(chosen, shares(inputs, chosen), strict=True):
            cases = [Case(kind, number, seed) for number in range(count)]
            tally = campaign(kind, cases, base)
            tallies.append(tally)
            _print(kind.name, [tally])
            for case, text in tally.faults:
                place = keep(case, text, base, failures)
                last = text.strip().splitlines()[-1][:200]
                print(f"  seed {case.seed}, number {case.number}: {last} ({place})", flush=True)
    _print("all", tallies)
    print(f"{time.monotonic() - begin:.0f} seconds, seed {seed}")
    return tallies


def _print(name: str, tallies: list[Tally]) -> None:
    sums = [sum(getattr(one, of) for one in tallies) for of in ("inputs", "results", "errors")]
    faults = sum(len(one.faults) for one in tallies)
    slowest, memory = (max(getattr(one, of) for one in tallies) for of in ("slowest", "memory"))
    print(
        f"{name:22} {sums[0]:6} {sums[1]:7} {sums[2]:7} {faults:7} {slowest:10.2f} {memory:6}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="hostile files")
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", default=[], choices=[k.name for k in KINDS])
    parser.add_argument("--only", type=int, help="read this number alone, in this process")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    given = parser.parse_args()
    if given.only is None:
        sys.exit(
            any(one.faults for one in fuzz(given.inputs, given.seed, given.kind, given.failures))
        )
    with valid_files() as base:
        (kind,) = [kind for kind in KINDS if [kind.name] == given.kind]
        print(run(Case(kind, given.only, given.seed), base, base / "case"))


if __name__ == "__main__":
    main()
