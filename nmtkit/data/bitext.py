"""Sentence pairs as ids: their arrays in memory and on disk, and the names of the files."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from nmtkit.errors import UserError
from nmtkit.vocabulary import UNK

IdArray = npt.NDArray[np.int32]
OffsetArray = npt.NDArray[np.int64]
ID = np.dtype("<i4")
OFFSET = np.dtype("<i8")
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


@dataclass(frozen=True)
class Ids:
    """One side of one part: numbers (all sentences end to end) and offsets (pairs + 1).

    A number is an id, or below 0 for an unknown word (`nmtkit.vocabulary.unknown_number`). Who
    asks for ids gets UNK for all of these.
    """

    numbers: IdArray
    offsets: OffsetArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> IdArray:
        """The ids of sentence ``index``, without EOS. Raises IndexError."""
        return known(self.numbers_of(index))

    def numbers_of(self, index: int) -> IdArray:
        """The numbers of sentence ``index`` as a view, without EOS. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        return self.numbers[int(self.offsets[index]) : int(self.offsets[index + 1])]


def release(array: npt.NDArray[Any]) -> None:
    """Let go of the pages of a memory-mapped file that were read; others are left alone.

    They stay in the system's cache, as far as it has room. Otherwise a process that reads here and
    there would in the end hold the whole corpus in memory.
    """
    base: Any = array.base
    mapped = base.obj if isinstance(base, memoryview) else None
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def known(numbers: IdArray) -> IdArray:
    """The ids of numbers, which are those of text: without PAD."""
    return np.maximum(numbers, np.int32(UNK))


class Bitext:
    """Sentence pairs as ids, read from disk as they are asked for.

    ``source_lengths`` and ``target_lengths`` (pairs,) count the ids, without EOS.
    """

    def __init__(self, source: Ids, target: Ids) -> None:
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source and {len(target)} target sentences")
        self.source_ids = source
        self.target_ids = target
        self.source_lengths: IdArray = np.diff(source.offsets).astype(np.int32)
        self.target_lengths: IdArray = np.diff(target.offsets).astype(np.int32)

    def __len__(self) -> int:
        return len(self.source_ids)

    def release(self) -> None:
        """Let go of what was read (see ``release``): call it after every batch."""
        for side in (self.source_ids, self.target_ids):
            release(side.numbers)
            release(side.offsets)

    def source(self, index: int) -> IdArray:
        """The source ids of pair ``index``, without EOS. Raises IndexError."""
        return self.source_ids[index]

    def target(self, index: int) -> IdArray:
        """The target ids of pair ``index``, without EOS. Raises IndexError."""
        return self.target_ids[index]


@dataclass(frozen=True)
class PairCounts:
    """How much a part holds; with the widths of the arrays this fixes every file size."""

    pairs: int
    source_ids: int
    target_ids: int


class BitextWriter:
    """Writes a bitext pair by pair; ``close`` it, or use it in a ``with`` block."""

    def __init__(self, folder: Path, name: str, source_lang: str, target_lang: str) -> None:
        check_languages(source_lang, target_lang)
        self._sides = [_SideWriter(folder, name, lang) for lang in (source_lang, target_lang)]

    def add(self, source: Sequence[int] | IdArray, target: Sequence[int] | IdArray) -> None:
        """Append one pair, numbers without EOS."""
        self.extend(source, [len(source)], target, [len(target)])

    def extend(
        self,
        source: Sequence[int] | IdArray,
        source_lengths: Sequence[int] | OffsetArray,
        target: Sequence[int] | IdArray,
        target_lengths: Sequence[int] | OffsetArray,
    ) -> None:
        """Append several pairs: each side's numbers end to end, and its sentences' lengths."""
        self._sides[0].extend(source, source_lengths)
        self._sides[1].extend(target, target_lengths)

    def close(self) -> PairCounts:
        """Write out what is left, and say how much there is."""
        for side in self._sides:
            side.close()
        source, target = self._sides
        return PairCounts(source.sentences, source.total, target.total)

    def __enter__(self) -> BitextWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _SideWriter:
    """The two files of one language."""

    def __init__(self, folder: Path, name: str, language: str) -> None:
        self._ids: IO[bytes] = ids_path(folder, name, language).open("wb")
        self._offsets: IO[bytes] = offsets_path(folder, name, language).open("wb")
        self._offsets.write(bytes(OFFSET.itemsize))
        self.sentences = 0
        self.total = 0

    def extend(
        self, numbers: Sequence[int] | IdArray, lengths: Sequence[int] | OffsetArray
    ) -> None:
        ends = self.total + np.cumsum(np.asarray(lengths, dtype=OFFSET), dtype=OFFSET)
        self._ids.write(np.asarray(numbers, dtype=ID).tobytes())
        self._offsets.write(ends.astype(OFFSET).tobytes())
        self.sentences += len(ends)
        self.total += len(numbers)

    def close(self) -> None:
        self._ids.close()
        self._offsets.close()


def ids_path(folder: Path, name: str, language: str) -> Path:
    """Where the ids of one part and language lie."""
    return folder / f"{name}.{language}.ids"


def offsets_path(folder: Path, name: str, language: str) -> Path:
    """Where the offsets of one part and language lie."""
    return folder / f"{name}.{language}.offsets"


def lines_path(folder: Path, language: str) -> Path:
    """Where the raw validation lines of one language lie."""
    return folder / f"valid.{language}.txt"


def numbers_path(folder: Path) -> Path:
    """Where the numbers of the training pairs in the training text lie."""
    return folder / "train.lines"


def check_languages(source_lang: str, target_lang: str) -> None:
    """Raise UserError unless both can be part of a file name, and of two different ones.

    Names that differ in case only are one file on some systems.
    """
    for language in (source_lang, target_lang):
        if not _LANGUAGE.fullmatch(language):
            raise UserError(
                f"language {language!r}: use a code such as 'en' or 'de-AT', at most 32 letters "
                f"(a-z), digits, '-' and '_'"
            )
    if source_lang.casefold() == target_lang.casefold():
        raise UserError(
            f"source and target language are both {source_lang!r}: their files need two names"
        )
