"""Text for the aligners out of a folder with the Hansards corpus and its gold links.

    python prepare.py FOLDER OUT --pairs 100000

FOLDER holds train.{en,fr}.gz (or train-a.{en,fr}.gz), test.{en,fr,gold} and trial.{en,fr,gold}, in
it or one folder below it, tokenised; gold links as 3-4 (sure) and 3p4 (possible), counted from 0.
Writes OUT/all.{en,fr}, the first pairs of the training text that have at most 100 words a side, and
then the test pairs; and copies of the test and trial files.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

LONGEST = 100  # words
TRAIN = ("train.{}.gz", "train-a.{}.gz", "train.{}")
SMALL = tuple(f"{part}.{end}" for part in ("test", "trial") for end in ("en", "fr", "gold"))


def find(folder: Path, *names: str) -> Path:
    """The first of the names that is in the folder or one below it."""
    for name in names:
        for place in (folder / name, *sorted(folder.glob(f"*/{name}"))):
            if place.is_file():
                return place
    sys.exit(f"{folder} has no {' or '.join(names)}: README.md says what it must hold")


def lines(path: Path) -> Iterator[str]:
    """Lines without their end; only a newline ends one."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        for line in file:
            yield line.decode("utf-8").removesuffix("\n")


def fits(line: str) -> bool:
    """Neither empty nor too long."""
    return bool(line.strip()) and len(line.split(" ")) <= LONGEST


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=100_000)
    arguments = parser.parse_args()
    folder, out = arguments.folder, arguments.out
    for name in SMALL:
        shutil.copyfile(find(folder, name), out / name)
    sides = [lines(find(folder, *(t.format(lang) for t in TRAIN))) for lang in ("en", "fr")]
    pairs = islice(zip(*sides, strict=False), arguments.pairs)
    kept = [pair for pair in pairs if all(map(fits, pair))]
    for side, lang in enumerate(("en", "fr")):
        with (out / f"all.{lang}").open("w", encoding="utf-8", newline="\n") as file:
            for line in (*(pair[side] for pair in kept), *lines(out / f"test.{lang}")):
                file.write(f"{line}\n")
    print(f"{len(kept)} training pairs, and the test pairs", file=sys.stderr)


if __name__ == "__main__":
    main()
