"""Text for the lineage out of a folder with the Hansards corpus and its gold links.

    python debates.py FOLDER OUT --pairs 100000

FOLDER holds train-a.{en,fr}.gz, dev.{en,fr} and test.{en,fr,gold}, in it or one folder below it;
gold links as 3-4 (sure) and 3p4 (possible), counted from 0. Writes OUT/train.{en,fr}, the first
pairs of the training text; OUT/valid and OUT/test, the first and the second half of dev; and
OUT/gold.{en,fr,talp}, the pairs with links.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmtkit.files import atomic_writer

LANGUAGES = ("en", "fr")


def find(folder: Path, name: str) -> Path:
    """The file of this name in the folder, or one below it, plain or packed."""
    for ending in ("", ".gz"):
        for place in (folder / f"{name}{ending}", *sorted(folder.glob(f"*/{name}{ending}"))):
            if place.is_file():
                return place
    sys.exit(f"{folder} has no {name} or {name}.gz: README.md says what it must hold")


def lines(path: Path) -> Iterator[bytes]:
    """Lines with their ends; only a newline ends one."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        yield from file


def write(path: Path, some: Iterator[bytes]) -> None:
    """The lines, in one piece."""
    with atomic_writer(path, "wb") as file:
        file.writelines(some)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=100_000)
    arguments = parser.parse_args()
    folder, out = arguments.folder, arguments.out
    for language in LANGUAGES:
        train, dev = (find(folder, f"{part}.{language}") for part in ("train-a", "dev"))
        write(out / f"train.{language}", islice(lines(train), arguments.pairs))
        half = sum(1 for _ in lines(dev)) // 2
        write(out / f"valid.{language}", islice(lines(dev), half))
        write(out / f"test.{language}", islice(lines(dev), half, None))
        shutil.copyfile(find(folder, f"test.{language}"), out / f"gold.{language}")
    shutil.copyfile(find(folder, "test.gold"), out / "gold.talp")


if __name__ == "__main__":
    main()
