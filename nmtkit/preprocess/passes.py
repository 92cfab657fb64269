"""What is done to a chunk of pairs (in worker processes), and the passes over all of them.

Between passes the pairs lie in a temporary file, a line each: source tokens TAB target tokens,
joined by single spaces. Tokens hold neither, nor a newline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from nmtkit.corpus import PairFilter, count_controls
from nmtkit.data import BitextWriter
from nmtkit.preprocess.report import PartTally
from nmtkit.preprocess.workers import chunked, ordered_map
from nmtkit.progress import Progress
from nmtkit.text import Text

Pair = tuple[str, str]
Texts = tuple[Text, Text]
Counts = tuple[Counter[str], Counter[str]]
Numbered = tuple[int, Pair]  # with the number of the pair in the text, from 0

CHUNK = 500  # pairs a worker gets at a time
CACHED_WORDS = 1 << 20  # tokens a side whose ids are kept in memory; rarer ones are cut up anew
INT32 = np.dtype("<i4")
INT64 = np.dtype("<i8")


@dataclass(frozen=True)
class Tokenise:
    """A chunk of raw pairs -> their tokens, and how many control characters a side held.

    ``fold`` False leaves the case as it is, for a truecaser to learn from.
    """

    texts: Texts
    fold: bool = True

    def __call__(self, chunk: list[Pair]) -> tuple[list[Pair], tuple[int, int]]:
        source, target = self.texts
        controls = [0, 0]
        pairs = []
        for source_line, target_line in chunk:
            controls[0] += count_controls(source_line)
            controls[1] += count_controls(target_line)
            pairs.append((self._tokens(source, source_line), self._tokens(target, target_line)))
        return pairs, (controls[0], controls[1])

    def _tokens(self, text: Text, line: str) -> str:
        tokens = text.tokenise(line)
        return " ".join(text.fold(tokens) if self.fold else tokens)


@dataclass(frozen=True)
class Fold:
    """A chunk of tokenised pairs -> the same, folded."""

    texts: Texts

    def __call__(self, chunk: list[Pair]) -> list[Pair]:
        source, target = self.texts
        return [
            (" ".join(source.fold(words(s))), " ".join(target.fold(words(t)))) for s, t in chunk
        ]


@dataclass(frozen=True)
class CountSubwords:
    """A chunk of folded pairs -> the counts of their subwords, for sides without words."""

    texts: Texts

    def __call__(self, chunk: list[Pair]) -> Counts:
        counts: Counts = (Counter(), Counter())
        for pair in chunk:
            for text, count, line in zip(self.texts, counts, pair):
                for word in words(line):
                    count.update(text.subwords_of(word))
        return counts


@dataclass(frozen=True)
class Passes:
    """How the passes run: ``workers`` processes, shown by ``progress``."""

    workers: int
    progress: Progress

    def tokenise(
        self, raw: Iterable[Pair], job: Tokenise, tally: PartTally, label: str
    ) -> Iterator[Pair]:
        """Raw pairs -> tokenised pairs, as many and in the same order; counted in ``tally``."""
        chunks = chunked(self.progress(raw, label), CHUNK)
        for pairs, (source_controls, target_controls) in ordered_map(job, chunks, self.workers):
            tally.source.controls += source_controls
            tally.target.controls += target_controls
            tally.read += len(pairs)
            yield from pairs

    def fold(self, pairs: Iterable[Pair], job: Fold, total: int) -> Iterator[Pair]:
        """Tokenised pairs -> folded pairs, as many and in the same order."""
        chunks = chunked(self.progress(pairs, "truecasing", total), CHUNK)
        for folded in ordered_map(job, chunks, self.workers):
            yield from folded

    def count_subwords(self, pairs: Iterable[Pair], job: CountSubwords, total: int) -> Counts:
        """The counts of all subwords of folded pairs."""
        counts: Counts = (Counter(), Counter())
        chunks = chunked(self.progress(pairs, "counting subwords", total), CHUNK)
        for source, target in ordered_map(job, chunks, self.workers):
            counts[0].update(source)
            counts[1].update(target)
        return counts


def words(line: str) -> list[str]:
    """The tokens of one side of a tokenised pair."""
    return line.split(" ") if line else []


def length(line: str) -> int:
    """How many tokens there are on one side of a tokenised pair."""
    return line.count(" ") + 1 if line else 0


def filtered(
    pairs: Iterable[Pair], accept: PairFilter, tally: PartTally, numbers: IO[bytes]
) -> Iterator[Pair]:
    """The pairs that ``accept`` keeps by their tokens; the others are counted in ``tally``.

    The numbers of those kept go to ``numbers``.
    """
    for number, (source, target) in enumerate(pairs):
        reason = accept.reason(source, target, length(source), length(target))
        if reason is None:
            write_number(numbers, number)
            yield source, target
        else:
            tally.count(reason)


def counted(pairs: Iterable[Pair], counts: Counts) -> Iterator[Pair]:
    """The same pairs; their tokens are added to ``counts`` on the way."""
    for source, target in pairs:
        counts[0].update(words(source))
        counts[1].update(words(target))
        yield source, target


def write_pairs(path: Path, pairs: Iterable[Pair]) -> int:
    """Write a temporary file, and say how many pairs it holds."""
    number = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for source, target in pairs:
            file.write(f"{source}\t{target}\n")
            number += 1
    return number


def read_pairs(path: Path) -> Iterator[Pair]:
    """The pairs of a temporary file."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            source, _, target = line.removesuffix("\n").partition("\t")
            yield source, target


def write_number(file: IO[bytes], number: int) -> None:
    """Append the number of a pair, as `read_numbers` and ``data.py`` read it."""
    file.write(number.to_bytes(INT64.itemsize, "little"))


def read_numbers(path: Path) -> Iterator[int]:
    """The numbers that `write_number` wrote."""
    with path.open("rb") as file:
        while block := file.read(INT64.itemsize << 10):
            yield from np.frombuffer(block, INT64).tolist()


def subword_counts(text: Text, counts: Mapping[str, int]) -> Counter[str]:
    """The counts of subwords from those of tokens."""
    subwords: Counter[str] = Counter()
    for word, count in counts.items():
        for subword in text.subwords_of(word):
            subwords[subword] += count
    return subwords


def encoder(text: Text) -> Callable[[str], bytes]:
    """From a line of tokens to its ids as they are stored (int32), without EOS."""
    cache: dict[str, bytes] = {}
    vocabulary = text.vocabulary
    assert vocabulary is not None, "ids are written once the vocabulary is there"

    def encode(word: str) -> bytes:
        ids = cache.get(word)
        if ids is None:
            ids = np.array(vocabulary.ids(text.subwords_of(word)), INT32).tobytes()
            if len(cache) < CACHED_WORDS:
                cache[word] = ids
        return ids

    return lambda line: b"".join(map(encode, words(line)))


def write_ids(
    pairs: Iterable[Numbered],
    texts: Texts,
    writer: BitextWriter,
    accept: PairFilter,
    tally: PartTally,
    numbers: IO[bytes] | None = None,
) -> None:
    """Folded pairs -> ids, filtered by their length in subwords; everything counted in ``tally``.

    The numbers of the pairs written go to ``numbers``. Without it (validation) also what
    ``accept`` refuses is written, and counted all the same.
    """
    encode_source, encode_target = map(encoder, texts)
    for number, (source, target) in pairs:
        source_ids = np.frombuffer(encode_source(source), INT32)
        target_ids = np.frombuffer(encode_target(target), INT32)
        reason = accept.reason(source, target, len(source_ids), len(target_ids))
        if reason is not None:
            tally.count(reason)
            if numbers is not None:
                continue
        if numbers is not None:
            write_number(numbers, number)
        writer.add(source_ids, target_ids)
        tally.source.add(length(source), len(source_ids))
        tally.target.add(length(target), len(target_ids))
