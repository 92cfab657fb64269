"""Parallel text out of the archives of the shared tasks: fetched, or from a folder of yours.

    python corpora.py corpora.tsv OUT --languages en fr [--from FOLDER] [--only NAME …]

A line of corpora.tsv is NAME, ARCHIVE, SOURCE, TARGET with tabs between: the address of a tar
file and the two files in it. Rows of one NAME follow each other in OUT/NAME.LANG. A file is text,
a line a segment; .gz is unpacked, .sgm and .xml files are read for their segments, a train.tags
file of IWSLT for its talks. FOLDER may hold the archives, or the files, plain or .gz, in it or
below it. What is not there is fetched into --archives. What is in OUT already stays.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple
from xml.sax.saxutils import unescape

from nmtkit.errors import UserError, unknown
from nmtkit.files import atomic_writer

TIMEOUT = 60  # seconds without an answer
BLOCK = 1 << 20  # bytes
# Tags of IWSLT's talks whose lines are not text.
ABOUT_TALKS = frozenset("doc keywords reviewer speaker talkid translator url".split())
DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error)

Opener = Callable[..., Any]  # what urllib.request.urlopen is


class Row(NamedTuple):
    """One line of corpora.tsv."""

    name: str
    address: str
    files: tuple[str, str]  # in the archive, source and target

    @property
    def archive(self) -> str:
        """The archive's file name."""
        return PurePosixPath(self.address).name


def read_rows(path: Path, only: Sequence[str] = ()) -> list[Row]:
    """The lines of corpora.tsv, or those of the given names; UserError when one has none."""
    lines = path.read_text(encoding="utf-8").split("\n")
    columns = [line.split("\t") for line in lines if line and not line.startswith("#")]
    rows = [Row(name, address, (source, target)) for name, address, source, target in columns]
    for name in only:
        if name not in {row.name for row in rows}:
            raise unknown("corpus", name, dict.fromkeys(row.name for row in rows))
    return [row for row in rows if not only or row.name in only]


def fetch(address: str, target: Path, opener: Opener = urllib.request.urlopen) -> None:
    """Download ``address`` to ``target``, whole or not at all.

    Raises UserError when it cannot be had, or ends before the length that the server announced.
    """
    print(f"fetching {address}", file=sys.stderr)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with opener(address, timeout=TIMEOUT) as answer, atomic_writer(target, "wb") as file:
            announced, length = answer.headers.get("Content-Length"), 0
            while block := answer.read(BLOCK):
                length += file.write(block)
            # A connection that breaks off looks like the end of the file.
            if announced is not None and length != int(announced):
                raise UserError(f"{address} broke off after {length} of {announced} bytes")
    except OSError as error:  # URLError is one
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UserError(f"could not fetch {address} ({reason})") from error


def segments(text: str) -> list[str]:
    """The <seg>s of an SGM or XML file, a line each, in order.

    White space of ASCII becomes one space; other spaces are French punctuation's and stay.
    """
    found = re.findall(r"<seg\b[^>]*>(.*?)</seg\s*>", text, re.DOTALL | re.IGNORECASE)
    quotes = {"&quot;": '"', "&apos;": "'"}
    return [unescape(re.sub(r"[ \t\r\n]+", " ", one).strip(" "), quotes) for one in found]


def talk_lines(lines: Iterable[str]) -> Iterator[str]:
    """What is said in the talks of an IWSLT train.tags file, titles and descriptions included."""
    for line in lines:
        tagged = re.match(r"\s*<(\w+)[^>]*>(.*?)(</\1>)?\s*$", line)
        if tagged and tagged[1] in ABOUT_TALKS:
            continue
        spoken = tagged[2] if tagged and tagged[1] in ("title", "description") else line
        yield spoken.strip(" ")


def lines_of(file: IO[bytes], name: str) -> Iterator[str]:
    """The segments of an opened file, by the kind that its name says."""
    if name.endswith(".gz"):
        with gzip.open(file) as unpacked:
            yield from lines_of(unpacked, name.removesuffix(".gz"))  # type: ignore[arg-type]
    elif name.endswith((".sgm", ".xml")):
        yield from segments(file.read().decode("utf-8"))
    elif PurePosixPath(name).name.startswith("train.tags."):
        yield from talk_lines(line.decode("utf-8").rstrip("\r\n") for line in file)
    else:
        yield from (line.decode("utf-8").removesuffix("\n") for line in file)


def find(folder: Path, name: str) -> Path | None:
    """The file ``name``, plain or .gz, at its place in ``folder`` or anywhere below it."""
    plain = name.removesuffix(".gz")
    bare = PurePosixPath(plain).name
    for pattern in (plain, f"{plain}.gz", f"**/{bare}", f"**/{bare}.gz"):
        for path in sorted(folder.glob(pattern)):
            return path
    return None


@contextmanager
def opened(name: str, place: Path) -> Iterator[tuple[IO[bytes], str]]:
    """The file ``name``, plain or .gz, of a folder or an archive, and the name that it has there.

    Nothing in an archive is unpacked to where it says. Raises UserError when there is none.
    """
    if place.is_dir():
        path = find(place, name)
        if path:
            with path.open("rb") as file:
                yield file, path.name
            return
    else:
        plain = name.removesuffix(".gz")
        with tarfile.open(place) as archive:
            for info in archive:
                if info.isfile() and info.name.removeprefix("./") in (plain, f"{plain}.gz"):
                    member = archive.extractfile(info)
                    assert member is not None  # it is a file
                    yield member, info.name
                    return
    raise UserError(f"there is no {name} in {place}")


class Source:
    """Where files come from: the user's folder if it has them, else the archives' addresses."""

    def __init__(
        self, folder: Path | None, archives: Path, opener: Opener = urllib.request.urlopen
    ) -> None:
        self.folder = folder
        self.archives = archives
        self.opener = opener

    def place(self, row: Row) -> Path:
        """The folder or archive with the files of ``row``, fetched when nobody has it."""
        if self.folder:
            given = self.folder / row.archive
            if given.exists():
                return given
            if all(find(self.folder, name) for name in row.files):
                return self.folder
        fetched = self.archives / row.archive
        if not fetched.exists():
            fetch(row.address, fetched, self.opener)
        return fetched

    def pairs(self, row: Row) -> Iterator[tuple[str, str]]:
        """The pairs of lines of ``row``; UserError when they are damaged or not parallel."""
        place = self.place(row)
        try:
            with ExitStack() as stack:
                sides = [lines_of(*stack.enter_context(opened(name, place))) for name in row.files]
                empty = True
                for source, target in zip_longest(*sides):
                    if source is None or target is None:
                        raise UserError(
                            f"{place}: {row.files[source is None]} has more lines than "
                            f"{row.files[target is None]}"
                        )
                    empty = False
                    yield source, target
                if empty:
                    raise UserError(f"{place}: {row.files[0]} is empty")
        except UnicodeDecodeError as error:
            raise UserError(f"{place}: {' or '.join(row.files)} is not UTF-8") from error
        except DAMAGE as error:
            raise UserError(f"{place} is damaged ({error}): remove it and try again") from error


def write(name: str, rows: Sequence[Row], out: Path, languages: Sequence[str], get: Source) -> bool:
    """OUT/NAME.LANG of both languages from all rows of one name; False when they were there."""
    targets = [out / f"{name}.{language}" for language in languages]
    if all(target.exists() for target in targets):
        return False
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context(atomic_writer(target)) for target in targets]
        for row in rows:
            for pair in get.pairs(row):
                for file, line in zip(files, pair, strict=True):
                    file.write(line + "\n")
    return True


def write_all(rows: Sequence[Row], out: Path, languages: Sequence[str], get: Source) -> list[str]:
    """Write every name; what could not be had, a line each, after all others are done."""
    failures = []
    for name in dict.fromkeys(row.name for row in rows):
        own = [row for row in rows if row.name == name]
        try:
            new = write(name, own, out, languages, get)
        except UserError as error:
            failures.append(f"{name}: {error}")
        else:
            print(f"{out / name}: {'ready' if new else 'already there'}", file=sys.stderr)
    return failures


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path, help="corpora.tsv")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--from", dest="folder", type=Path, help="archives or files of yours")
    parser.add_argument("--archives", type=Path, default=Path("download"), help="what is fetched")
    options = parser.parse_args()
    try:
        if options.folder and not options.folder.is_dir():
            raise UserError(f"there is no folder {options.folder}")
        rows = read_rows(options.table, options.only)
        get = Source(options.folder, options.archives)
        failures = write_all(rows, options.out, options.languages, get)
    except (UserError, OSError) as error:
        sys.exit(f"corpora.py: {error}")
    if failures:
        advice = "put the archives, or the files in them, into a folder of yours: make DATA=FOLDER"
        sys.exit("\n".join(f"corpora.py: {line}" for line in (*failures, advice)))


if __name__ == "__main__":
    main()
