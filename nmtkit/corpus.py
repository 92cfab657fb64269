r"""Raw parallel text: reading it strictly, cleaning its lines, and why a pair is dropped.

Only ``\n`` ends a line. U+2028, NEL, VT, FF or a lone CR inside a line are characters like any
other: a reader that ends a line there shifts every pair that follows.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from nmtkit.errors import UserError
from nmtkit.files import CONTROLS, clean_line, count_controls

__all__ = [
    "CONTROLS",
    "REASONS",
    "Filters",
    "PairFilter",
    "clean_line",
    "corpus_files",
    "count_controls",
    "open_text",
    "read_lines",
    "read_pairs",
]

GZIP_MAGIC = b"\x1f\x8b"  # no UTF-8 text begins so
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BUFFER = 1 << 18  # bytes
STDIN = "-"
DIGEST = 16  # bytes kept of every pair when duplicates are dropped

REASONS = ("empty source", "empty target", "too long", "ratio", "duplicate")


def open_text(path: Path | str) -> BinaryIO:
    """The bytes of a file, or of standard input for ``-``, to read and close; gzip is unpacked.

    gzip is known by its first bytes, and expected where the name ends in .gz. Closing leaves
    standard input open. Raises UserError when the file is missing, a folder or unreadable. (Reading
    on may still find gzip data damaged: ``read_lines`` turns that into a UserError too.)
    """
    if str(path) == STDIN:
        return _unpacked(sys.stdin.buffer, packed=False, owned=False)
    with _explained(path):
        file = Path(path).open("rb", buffering=BUFFER)  # noqa: SIM115 - the stream owns it
        try:
            return _unpacked(file, packed=Path(path).suffix == ".gz", owned=True)
        except BaseException:
            file.close()
            raise


def read_lines(path: Path | str) -> Iterator[str]:
    r"""The lines of a text file (see ``open_text``), without their ends.

    Only ``\n`` ends a line, and one at the end of the file does not begin another. A byte order
    mark at the start and one ``\r`` before the end of a line are left out. Strict UTF-8: raises
    UserError with file, line and byte (counted from 0, in the unpacked text).
    """
    start = 0
    for number, raw in enumerate(_raw_lines(path), start=1):
        mark = len(BYTE_ORDER_MARK) if number == 1 and raw.startswith(BYTE_ORDER_MARK) else 0
        try:
            yield raw[mark:].removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{_name(path)}:{number}: not UTF-8 at byte {start + mark + error.start} of the "
                f"file ({error.reason}): convert it, for example with iconv"
            ) from error
        start += len(raw)


def corpus_files(spec: Path, source_lang: str, target_lang: str) -> tuple[Path, ...]:
    """The files behind ``spec``: one .tsv or .tsv.gz, or PREFIX.source_lang and PREFIX.target_lang
    (each may have .gz after it).

    Raises UserError when one is missing, or is there both plain and as .gz.
    """
    spec = Path(spec)
    if spec.name.endswith((".tsv", ".tsv.gz")):
        if not spec.exists():
            raise UserError(f"{spec} does not exist: give a .tsv file or a PREFIX")
        return (spec,)
    return _side_file(spec, source_lang), _side_file(spec, target_lang)


def read_pairs(spec: Path, source_lang: str, target_lang: str) -> Iterator[tuple[str, str]]:
    """The pairs of lines of a parallel text (see ``corpus_files``), source and target.

    A .tsv line is source TAB target. Raises UserError at once when a file is missing; while it is
    read, for a .tsv line of another number of columns, and when the two files have different
    numbers of lines.
    """
    files = corpus_files(spec, source_lang, target_lang)
    if len(files) == 1:
        return _tsv_pairs(files[0])
    return _zipped_pairs(*files)


@dataclass(frozen=True)
class Filters:
    """Which pairs of a training text are dropped (of validation text, none are)."""

    max_length: int | None = 100  # tokens, on either side
    max_ratio: float | None = 9.0  # of the longer side's tokens to the shorter one's
    deduplicate: bool = False  # keep only the first of equal pairs of lines

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {self.max_length}")
        if self.max_ratio is not None and not self.max_ratio >= 1:
            raise ValueError(f"max_ratio must be at least 1, got {self.max_ratio}")


class PairFilter:
    """Says pair by pair, in the order of the corpus, why it is dropped."""

    def __init__(self, filters: Filters) -> None:
        self.filters = filters
        self._seen: set[bytes] = set()

    def reason(
        self, source: str, target: str, source_length: int, target_length: int
    ) -> str | None:
        """One of ``REASONS``, the first that holds, or None for a pair to keep.

        ``source``, ``target``: the lines, compared for duplicates as they are (only pairs kept so
        far count); the lengths are theirs in tokens, 0 for a line of nothing.
        """
        shorter, longer = sorted((source_length, target_length))
        limit, ratio = self.filters.max_length, self.filters.max_ratio
        if shorter == 0:
            return "empty source" if source_length == 0 else "empty target"
        if limit is not None and longer > limit:
            return "too long"
        if ratio is not None and longer > ratio * shorter:
            return "ratio"
        if self.filters.deduplicate and self._is_known(source, target):
            return "duplicate"
        return None

    def _is_known(self, source: str, target: str) -> bool:
        """Whether the pair came before; a digest stands for it, so that memory stays small."""
        text = f"{len(source)}\n{source}{target}"  # the length keeps apart what joining would not
        digest = blake2b(text.encode("utf-8"), digest_size=DIGEST).digest()
        known = digest in self._seen
        self._seen.add(digest)
        return known


class _Rejoined(io.RawIOBase):
    """A stream with the bytes that were read off its start put back."""

    def __init__(self, head: bytes, stream: IO[bytes], owned: bool) -> None:
        self._head = head
        self._stream = stream
        self._owned = owned  # closed with this one

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._head[: len(buffer)]
        self._head = self._head[len(data) :]
        if not data:  # what is there now: lines typed at a terminal are not held back
            read = getattr(self._stream, "read1", self._stream.read)
            data = read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if self._owned:
            self._stream.close()
        super().close()


def _unpacked(stream: IO[bytes], packed: bool, owned: bool) -> BinaryIO:
    """``stream`` from its start, through gzip where it is ``packed`` or looks it."""
    head = stream.read(1)  # no more: a blank line typed at a terminal is no longer than that
    if head == GZIP_MAGIC[:1]:
        head += stream.read(1)
    if packed and not head:
        raise EOFError("the file is empty")
    whole = io.BufferedReader(_Rejoined(head, stream, owned), BUFFER)
    if not packed and head != GZIP_MAGIC:
        return cast(BinaryIO, whole)
    unpacker = gzip.GzipFile(fileobj=whole)
    unpacker.myfileobj = cast(Any, whole)  # gzip's own name for "close this with me"
    return cast(BinaryIO, io.BufferedReader(unpacker, BUFFER))


def _raw_lines(path: Path | str) -> Iterator[bytes]:
    # What the consumer raises does not come by here, so only reading is explained.
    with _explained(path), open_text(path) as file:
        yield from file


@contextmanager
def _explained(path: Path | str) -> Iterator[None]:
    """Turn what goes wrong in reading ``path`` into a UserError."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(f"{_name(path)}: damaged or truncated gzip data ({error})") from error
    except OSError as error:
        raise UserError(f"cannot read {_name(path)}: {error.strerror or error}") from error


def _name(path: Path | str) -> str:
    return "standard input" if str(path) == STDIN else str(path)


def _side_file(prefix: Path, language: str) -> Path:
    plain = prefix.with_name(f"{prefix.name}.{language}")
    packed = plain.with_name(f"{plain.name}.gz")
    if plain.exists() and packed.exists():
        raise UserError(f"{plain} and {packed} both exist: remove or rename one of them")
    if packed.exists():
        return packed
    if plain.exists():
        return plain
    raise UserError(f"neither {plain} nor {packed} exists: check PREFIX {prefix} and the language")


def _tsv_pairs(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{path}:{number}: expected source TAB target, found {len(columns)} "
                f"column{'' if len(columns) == 1 else 's'}"
            )
        yield columns[0], columns[1]


def _zipped_pairs(source_file: Path, target_file: Path) -> Iterator[tuple[str, str]]:
    counts = [0, 0]
    for source, target in zip_longest(read_lines(source_file), read_lines(target_file)):
        counts[0] += source is not None
        counts[1] += target is not None
        if source is not None and target is not None:
            yield source, target
    if counts[0] != counts[1]:
        raise UserError(
            f"{source_file} has {counts[0]} lines but {target_file} has {counts[1]}: "
            f"they are not parallel"
        )
