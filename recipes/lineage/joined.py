"""Lines of one to four captions each: long sentences that are as easy as short ones.

    python joined.py DATA OUT --passes 3 --seed 1

DATA holds train, val and test_2016_flickr, each .en and .de. Writes OUT/joined.train.{en,de}: so
many times all captions, in another order each time, in lines of 1, 2, 3, 4, 1, … of them; and
OUT/joined.valid and OUT/joined.test: the captions in their order, once in lines of each number.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

from nmtkit.corpus import read_lines
from nmtkit.files import atomic_writer

LANGUAGES = ("en", "de")
MOST = 4  # captions a line
Groups = Iterator[Sequence[int]]


def shuffled(count: int, passes: int, seed: int) -> Groups:
    """Numbers below `count` in lines of every length, so many times."""
    for number in range(passes):
        order = random.Random(f"{seed} {number}").sample(range(count), count)
        sizes = cycle(range(1, MOST + 1))
        while order:
            size = next(sizes)
            yield order[:size]
            order = order[size:]


def in_order(count: int) -> Groups:
    """Numbers below `count` in lines of one, then in lines of two, and so on; whole lines only."""
    for size in range(1, MOST + 1):
        for first in range(0, count - size + 1, size):
            yield range(first, first + size)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for part, name in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
        for language in LANGUAGES:
            captions = list(read_lines(arguments.data / f"{name}.{language}"))
            count = len(captions)
            train = part == "train"
            groups = shuffled(count, arguments.passes, arguments.seed) if train else in_order(count)
            with atomic_writer(arguments.out / f"joined.{part}.{language}") as file:
                for group in groups:
                    file.write(" ".join(captions[number].strip() for number in group) + "\n")


if __name__ == "__main__":
    main()
