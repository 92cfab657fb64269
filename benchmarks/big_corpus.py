"""Preprocess and train on millions of pairs: seconds, memory, and the same work done by hand.

    python big_corpus.py make FOLDER OUT --pairs N         FOLDER/train*.en + .fr -> OUT.en, OUT.fr
    python big_corpus.py preprocess PREFIX OUT             nmtkit preprocess, measured
    python big_corpus.py peers PREFIX                      sacremoses and subword-nmt against nmtkit
    python big_corpus.py train CORPUS                      opening, an epoch's batches, a tiny model

Each prints a JSON object a line: seconds of the clock and of the processors, GiB at the worst
moment of all processes together (``anonymous``: their own; ``mapped``: pages of files).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from measured import Measured, measure

from nmtkit.corpus import read_pairs

LANGUAGES = "en", "fr"
NEW_WORDS = 0.02  # of the changed words: so that the number of different words goes on growing
NMTKIT = [sys.executable, "-m", "nmtkit"]
OPENING = """
import sys, time
from pathlib import Path
from nmtkit.batches import BatchSize, epoch_batches
from nmtkit.data import PreparedCorpus
start = time.monotonic()
corpus = PreparedCorpus.open(Path(sys.argv[1]))
opened = time.monotonic()
lengths = corpus.train.source_lengths, corpus.train.target_lengths
batches = epoch_batches(*lengths, BatchSize(64, 0, 20), seed=1, epoch=1)
seconds = opened - start, time.monotonic() - opened
print(f"opening: {seconds[0]:.1f} s, batches: {seconds[1]:.1f} s", file=sys.stderr)
"""


def make(folder: Path, pairs: int, out: Path) -> None:
    """Write ``pairs`` pairs: those of all ``train*`` of ``folder`` again and again, but with a word
    of either side changed from the second time on, so that hardly any is a duplicate of those.
    """
    stems = sorted({path.name.split(".")[0] for path in folder.glob(f"train*.{LANGUAGES[0]}*")})
    base = [pair for stem in stems for pair in read_pairs(folder / stem, *LANGUAGES)]
    words = [[word for pair in base[::10] for word in pair[side].split()] for side in (0, 1)]
    with (
        Path(f"{out}.{LANGUAGES[0]}").open("w", encoding="utf-8", newline="\n") as source,
        Path(f"{out}.{LANGUAGES[1]}").open("w", encoding="utf-8", newline="\n") as target,
    ):
        for pair in islice(_repeated(base, words), pairs):
            source.write(pair[0] + "\n")
            target.write(pair[1] + "\n")


def _repeated(base: list[tuple[str, str]], words: list[list[str]]) -> Iterator[tuple[str, str]]:
    yield from base
    chance = random.Random(1)
    while True:
        for source, target in base:
            yield _changed(source, words[0], chance), _changed(target, words[1], chance)


def _changed(line: str, words: list[str], chance: random.Random) -> str:
    tokens = line.split(" ")
    word = words[int(chance.random() * len(words))]
    if chance.random() < NEW_WORDS:
        word += str(int(chance.random() * 1e6))
    tokens[int(chance.random() * len(tokens))] = word
    return " ".join(tokens)


def preprocess(prefix: Path, out: Path, workers: int, *more: str) -> Measured:
    """`nmtkit preprocess`, with ``more`` options."""
    languages = ("--source-lang", LANGUAGES[0], "--target-lang", LANGUAGES[1])
    files = ("--train", str(prefix), "--out", str(out), "--overwrite", "--workers", str(workers))
    return measure([*NMTKIT, "preprocess", *languages, *files, *more])


def by_hand(prefix: Path, workers: int, merges: int = 8000) -> Iterator[tuple[str, Measured]]:
    """Tokenise both sides, learn joint codes, apply them: to text, where nmtkit goes on to ids."""
    programs = Path(sys.executable).parent
    sacremoses, subword_nmt = str(programs / "sacremoses"), str(programs / "subword-nmt")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for language in LANGUAGES:
            command = [sacremoses, "-q", "-l", language, "-j", str(workers), "tokenize"]
            out = folder / language
            yield "tokenize", measure(command, Path(f"{prefix}.{language}"), out)
        both, codes = folder / "both", folder / "codes"
        with both.open("wb") as file:
            for language in LANGUAGES:
                file.write((folder / language).read_bytes())
        many = ["--num-workers", str(workers)]
        files = ["-i", str(both), "-o", str(codes)]
        yield (
            "learn-bpe",
            measure([subword_nmt, "learn-bpe", "-s", str(merges), *files, *many], quiet=True),
        )
        for language in LANGUAGES:
            files = ["-i", str(folder / language), "-o", str(folder / "bpe"), "-c", str(codes)]
            yield "apply-bpe", measure([subword_nmt, "apply-bpe", *files, *many])


def peers(prefix: Path, workers: int) -> None:
    """Both in turn, and how much longer the work by hand takes."""
    with tempfile.TemporaryDirectory() as name:
        ours = preprocess(prefix, Path(name) / "out", workers)
    tell("nmtkit", ours)
    clock, processors = 0.0, 0.0
    for step, one in by_hand(prefix, workers):
        tell(step, one)
        clock, processors = clock + one.seconds, processors + one.processor_seconds
    ratios = clock / ours.seconds, processors / ours.processor_seconds
    print(json.dumps({"by hand / nmtkit": ratios[0], "the same, processor": ratios[1]}))


def train(corpus: Path) -> None:
    """What reading a corpus takes by itself, and under a model that is hardly there."""
    tell("open", measure([sys.executable, "-c", OPENING, str(corpus)]))
    with tempfile.TemporaryDirectory() as name:
        model = ("--out", f"{name}/model", "--preset", "tiny", "--updates", "20")
        tell("train", measure([*NMTKIT, "train", str(corpus), *model]))


def tell(what: str, measured: Measured) -> None:
    """One line of results."""
    print(json.dumps({"what": what, **measured.table()}), flush=True)


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    for name, places in {
        "make": ["folder", "out"],
        "preprocess": ["prefix", "out"],
        "peers": ["prefix"],
        "train": ["corpus"],
    }.items():
        command = commands.add_parser(name)
        for place in places:
            command.add_argument(place, type=Path)
        if name == "make":
            command.add_argument("--pairs", type=int, required=True)
        else:
            command.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given, more = parser.parse_known_args()  # more: options of nmtkit preprocess
    if more and given.command != "preprocess":
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if given.command == "make":
        make(given.folder, given.pairs, given.out)
    elif given.command == "preprocess":
        tell("preprocess", preprocess(given.prefix, given.out, given.workers, *more))
    elif given.command == "peers":
        peers(given.prefix, given.workers)
    else:
        train(given.corpus)


if __name__ == "__main__":
    main()
