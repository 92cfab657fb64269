"""Text files: plain, gzip or standard input, read strictly and line by line."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from nmtkit.errors import UserError

GZIP_MAGIC = b"\x1f\x8b"  # no UTF-8 text begins so
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BUFFER = 1 << 18  # bytes
LONGEST = 1 << 23  # bytes of a line
STDIN = "-"


def open_text(path: Path | str) -> BinaryIO:
    """The bytes of a file, or of standard input for ``-``, to read and close; gzip is unpacked.

    gzip is known by its first bytes, and expected where the name ends in .gz. Closing leaves
    standard input open. Raises UserError when the file is missing, a folder or unreadable. (Reading
    on may still find gzip data damaged: ``read_lines`` turns that into a UserError too.)
    """
    if str(path) == STDIN:
        return _unpacked(sys.stdin.buffer, packed=False, owned=False)
    with explained(path):
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
    UserError with file, line and byte (counted from 0, in the unpacked text), and for a line
    without end, which would fill the memory.
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


def read_blocks(path: Path | str) -> Iterator[bytes]:
    """The bytes of a file (see ``open_text``), so many at a time as are there."""
    with explained(path), open_text(path) as file:
        while block := file.read(BUFFER):
            yield block


@contextmanager
def explained(path: Path | str) -> Iterator[None]:
    """Turn what goes wrong in reading ``path`` into a UserError."""
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UserError(f"{_name(path)}: damaged or truncated gzip data ({error})") from error
    except OSError as error:
        raise UserError(f"cannot read {_name(path)}: {error.strerror or error}") from error


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
    with explained(path), open_text(path) as file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST), b""), start=1):
            if len(line) == LONGEST:  # of a few kilobytes of gzip, or /dev/zero
                raise UserError(
                    f"{_name(path)}:{number}: a line of {LONGEST} bytes or more: that is no text"
                )
            yield line


def _name(path: Path | str) -> str:
    return "standard input" if str(path) == STDIN else str(path)
