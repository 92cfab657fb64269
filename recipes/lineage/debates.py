"""Text for the lineage out of a folder with the Hansards corpus and its gold links.

    python debates.py FOLDER OUT --pairs 200000

FOLDER holds train-a.{en,fr}.gz, dev.{en,fr} and test.{en,fr,gold}, in it or one folder below it;
gold links as 3-4 (sure) and 3p4 (possible), counted from 0. Writes

- OUT/debates.train.{en,fr}: the first pairs of the training text in lines of 1, 2, 3, 4, 1, …
  sentences that follow one another, up to 60 words a line on both sides;
- OUT/debates.valid.{en,fr}: the first half of dev, made into lines in the same way;
- OUT/sentences.test.{en,fr}: the second half of dev as it is;
- OUT/debates.test.{en,fr}: its sentences of at most 20 words on both sides, once in lines of each
  number, so that long lines are as easy as short ones;
- OUT/gold.{en,fr,talp}: the pairs with links.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path

from joined import MOST, in_order

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError
from nmtkit.files import atomic_writer
from nmtkit.links import in_step

LANGUAGES = ("en", "fr")
LONGEST = 60  # words of a line that joins sentences
SHORT = 20  # words of a sentence that the lines of the test are made of
Pair = tuple[str, str]


def find(folder: Path, name: str) -> Path:
    """The file of this name in the folder, or one below it, plain or packed."""
    for ending in ("", ".gz"):
        for place in (folder / f"{name}{ending}", *sorted(folder.glob(f"*/{name}{ending}"))):
            if place.is_file():
                return place
    sys.exit(f"{folder} has no {name} or {name}.gz: README.md says what it must hold")


def pairs(folder: Path, part: str) -> Iterator[Pair]:
    """The pairs of one part; UserError where one side has more lines."""
    source, target = (find(folder, f"{part}.{language}") for language in LANGUAGES)
    return in_step(read_lines(source), read_lines(target), (str(source), str(target)))


def words(pair: Pair) -> int:
    """Of the longer side."""
    return max(len(side.split()) for side in pair)


def whole(pair: Pair) -> bool:
    """Whether both sides say something: what one lacks must not stand in the middle of a line."""
    return all(side.strip() for side in pair)


def join(group: Iterable[Pair]) -> Pair:
    """One line a side."""
    source, target = zip(*group, strict=True)
    return " ".join(source), " ".join(target)


def speeches(text: Iterable[Pair]) -> Iterator[Pair]:
    """All pairs in their order, joined as long as there is room."""
    sizes = cycle(range(1, MOST + 1))
    size, group = next(sizes), list[Pair]()
    for pair in filter(whole, text):
        if group and (len(group) == size or words(join([*group, pair])) > LONGEST):
            yield join(group)
            size, group = next(sizes), []
        group.append(pair)
    if group:
        yield join(group)


def write(out: Path, name: str, text: Iterable[Pair]) -> None:
    """Both sides, each in one piece."""
    source, target = (out / f"{name}.{language}" for language in LANGUAGES)
    with atomic_writer(source) as first, atomic_writer(target) as second:
        for pair in text:
            first.write(f"{pair[0]}\n")
            second.write(f"{pair[1]}\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=200_000)
    arguments = parser.parse_args()
    try:
        make(arguments.folder, arguments.out, arguments.pairs)
    except UserError as error:
        sys.exit(f"error: {error}")


def make(folder: Path, out: Path, most: int) -> None:
    """All files, of at most so many pairs."""
    train = pairs(folder, "train-a")
    write(out, "debates.train", speeches(islice(train, most)))
    for _ in train:
        pass  # both sides must end together, or those before may be shifted
    dev = list(pairs(folder, "dev"))
    half = len(dev) // 2
    write(out, "debates.valid", speeches(dev[:half]))
    write(out, "sentences.test", dev[half:])
    short = [pair for pair in filter(whole, dev[half:]) if words(pair) <= SHORT]
    groups = in_order(len(short))
    write(out, "debates.test", (join(short[number] for number in group) for group in groups))
    for language in LANGUAGES:
        shutil.copyfile(find(folder, f"test.{language}"), out / f"gold.{language}")
    shutil.copyfile(find(folder, "test.gold"), out / "gold.talp")


if __name__ == "__main__":
    main()
