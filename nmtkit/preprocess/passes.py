"""The passes over all pairs: what is done to a chunk of them (in worker processes), and to each.

Between passes the pairs lie in a temporary file, a line each: NUMBER TAB source tokens TAB target
tokens, where the tokens are joined by single spaces and hold neither tab nor newline. The number is
that of the pair in the text, from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np

from nmtkit.corpus import Duplicates, Filters, count_controls
from nmtkit.data import BitextWriter, IdArray, OffsetArray
from nmtkit.preprocess.report import PartTally
from nmtkit.preprocess.workers import chunked, ordered_map
from nmtkit.progress import Progress
from nmtkit.text import Text

Pair = tuple[str, str]
Texts = tuple[Text, Text]
Counts = tuple[Counter[str], Counter[str]]
Raw = tuple[int, list[Pair]]  # a chunk of the text: the number of its first pair, and its pairs

CHUNK = 500  # pairs a worker gets at a time
CACHED_WORDS = 1 << 19  # tokens a side whose ids a process keeps; rarer ones are cut up anew
MANY = 500_000  # pairs; for fewer it is not worth it that every process cuts up all tokens itself
INT32 = np.dtype("<i4")
INT64 = np.dtype("<i8")


@dataclass(frozen=True)
class Tokenise:
    """A chunk of raw pairs -> the lines of those that ``keep`` lets by, and a tally of all.

    ``keep`` None lets all by. ``fold`` False leaves the case as it is, for a truecaser to learn
    from.
    """

    texts: Texts
    keep: Filters | None = None
    fold: bool = True

    def __call__(self, chunk: Raw) -> tuple[list[str], PartTally]:
        source, target = self.texts
        tally = PartTally()
        lines = []
        for number, (source_line, target_line) in enumerate(chunk[1], start=chunk[0]):
            tally.read += 1
            tally.source.controls += count_controls(source_line)
            tally.target.controls += count_controls(target_line)
            sources, targets = self._tokens(source, source_line), self._tokens(target, target_line)
            reason = self.keep.reason(len(sources), len(targets)) if self.keep else None
            if reason is None:
                lines.append(f"{number}\t{' '.join(sources)}\t{' '.join(targets)}\n")
            else:
                tally.count(reason)
        return lines, tally

    def _tokens(self, text: Text, line: str) -> list[str]:
        tokens = text.tokenise(line)
        return text.fold(tokens) if self.fold else tokens


@dataclass(frozen=True)
class Fold:
    """A chunk of lines -> the same, folded."""

    texts: Texts

    def __call__(self, chunk: list[str]) -> list[str]:
        folded = []
        for line in chunk:
            number, *sides = cut(line)
            cased = (" ".join(t.fold(words(s))) for t, s in zip(self.texts, sides))
            folded.append("\t".join([number, *cased]) + "\n")
        return folded


@dataclass(frozen=True)
class CountSubwords:
    """A chunk of folded lines -> the counts of their subwords, for sides without words."""

    texts: Texts

    def __call__(self, chunk: list[str]) -> Counts:
        counts: Counts = (Counter(), Counter())
        for line in chunk:
            for text, count, side in zip(self.texts, counts, cut(line)[1:]):
                for word in words(side):
                    count.update(text.subwords_of(word))
        return counts


@dataclass(frozen=True)
class Encoded:
    """The ids of some pairs: both sides end to end without EOS, and their lengths (pairs,)."""

    numbers: OffsetArray
    source_ids: IdArray
    source_lengths: OffsetArray
    target_ids: IdArray
    target_lengths: OffsetArray
    tally: PartTally


@dataclass(frozen=True)
class Encode:
    """A chunk of folded lines -> the ids of the pairs that ``filters`` keep by their subwords.

    With ``drop`` False (validation) the others are only counted.
    """

    texts: Texts
    filters: Filters
    drop: bool = True

    def __call__(self, chunk: list[str]) -> Encoded:
        tally, numbers = PartTally(), []
        ids: tuple[list[bytes], list[bytes]] = ([], [])
        source_of, target_of = (known.__getitem__ for known in self._known)
        for line in chunk:
            number, source, target = cut(line)
            sources, targets = words(source), words(target)
            source_ids = b"".join(map(source_of, sources))
            target_ids = b"".join(map(target_of, targets))
            lengths = len(source_ids) // INT32.itemsize, len(target_ids) // INT32.itemsize
            reason = self.filters.reason(*lengths)
            if reason is not None:
                tally.count(reason)
                if self.drop:
                    continue
            numbers.append(int(number))
            ids[0].append(source_ids)
            ids[1].append(target_ids)
            tally.source.add(len(sources), lengths[0])
            tally.target.add(len(targets), lengths[1])
        sides = [np.frombuffer(b"".join(side), INT32) for side in ids]
        sizes = [np.array([len(one) for one in side], INT64) // INT32.itemsize for side in ids]
        return Encoded(np.array(numbers, INT64), sides[0], sizes[0], sides[1], sizes[1], tally)

    @cached_property
    def _known(self) -> tuple[_WordIds, _WordIds]:
        return _WordIds(self.texts[0]), _WordIds(self.texts[1])


class _WordIds(dict[str, bytes]):
    """Token -> its numbers as they are stored (int32), made when they are asked for."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __missing__(self, word: str) -> bytes:
        vocabulary = self._text.vocabulary
        assert vocabulary is not None, "ids are written once the vocabulary is there"
        ids = np.array(vocabulary.numbers(self._text.subwords_of(word)), INT32).tobytes()
        if len(self) < CACHED_WORDS:
            self[word] = ids
        return ids


@dataclass(frozen=True)
class Passes:
    """How the passes run: ``workers`` processes, shown by ``progress``."""

    workers: int
    progress: Progress

    def tokenise(self, chunks: Iterable[Raw], job: Tokenise, tally: PartTally) -> Iterator[str]:
        """Raw pairs -> lines, in the same order; counted in ``tally``."""
        for lines, part in ordered_map(job, chunks, self.workers):
            tally.merge(part)
            yield from lines

    def fold(self, lines: Iterable[str], job: Fold, total: int) -> Iterator[str]:
        """Tokenised lines -> folded lines, as many and in the same order."""
        chunks = chunked(self.progress(lines, "truecasing", total), CHUNK)
        for folded in ordered_map(job, chunks, self.workers):
            yield from folded

    def count_subwords(self, lines: Iterable[str], job: CountSubwords, total: int) -> Counts:
        """The counts of all subwords of folded lines."""
        counts: Counts = (Counter(), Counter())
        chunks = chunked(self.progress(lines, "counting subwords", total), CHUNK)
        for source, target in ordered_map(job, chunks, self.workers):
            counts[0].update(source)
            counts[1].update(target)
        return counts

    def write_ids(
        self,
        lines: Iterable[str],
        job: Encode,
        writer: BitextWriter,
        tally: PartTally,
        total: int = 0,
        numbers: IO[bytes] | None = None,
    ) -> None:
        """Folded lines -> ids; everything counted in ``tally``.

        The numbers of the pairs written go to ``numbers``, as ``data.py`` reads them.
        """
        workers = self.workers if total >= MANY else 1
        for part in ordered_map(job, chunked(lines, CHUNK), workers):
            writer.extend(
                part.source_ids, part.source_lengths, part.target_ids, part.target_lengths
            )
            if numbers is not None:
                numbers.write(part.numbers.tobytes())
            tally.merge(part.tally)


def cut(line: str) -> list[str]:
    """Number, source and target of a line."""
    return line[:-1].split("\t")


def words(side: str) -> list[str]:
    """The tokens of one side of a line."""
    return side.split(" ") if side else []


def different(lines: Iterable[str], tally: PartTally) -> Iterator[str]:
    """The first of lines with the same tokens on both sides; the others are counted."""
    known = Duplicates()
    for line in lines:
        if known.is_known(line.partition("\t")[2]):
            tally.count("duplicate")
        else:
            yield line


def counted(lines: Iterable[str], counts: Counts) -> Iterator[str]:
    """The same lines; their tokens are added to ``counts`` on the way."""
    for line in lines:
        _, source, target = cut(line)
        counts[0].update(words(source))
        counts[1].update(words(target))
        yield line


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write a temporary file, and say how many lines it holds."""
    number = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(line)
            number += 1
    return number


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a temporary file."""
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from file


def subword_counts(text: Text, counts: Mapping[str, int]) -> Counter[str]:
    """The counts of subwords from those of tokens."""
    subwords: Counter[str] = Counter()
    for word, count in counts.items():
        for subword in text.subwords_of(word):
            subwords[subword] += count
    return subwords
