"""Fetch Multi30k's raw captions, or copy them from a folder, and check them.

    python download.py data en de [--from FOLDER]

Files that are there and right stay as they are. Every file is compared with checksums.sha256, which
holds the sums of the uncompressed text, so a folder may have them plain or as .gz.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
TIMEOUT = 60  # seconds without an answer


class Failure(Exception):
    """What went wrong, and what to do, in one line."""


def read_checksums(path: Path) -> dict[str, str]:
    """File name -> sha256, from the lines "SUM  NAME" of sha256sum."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines if line)}


def digest(data: bytes) -> str:
    """sha256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def download(name: str) -> bytes:
    """The uncompressed content of ``name`` from the data set's repository."""
    address = f"{ADDRESS}/{name}.gz"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            return gzip.decompress(answer.read())
    except (OSError, EOFError, zlib.error) as error:  # URLError is an OSError
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Failure(
            f"could not fetch {address} ({reason}): is there a network? "
            "With the files in a folder of yours: make DATA=FOLDER"
        ) from error


def read_local(folder: Path, name: str) -> bytes:
    """The uncompressed content of ``name`` or ``name``.gz in ``folder``."""
    plain, packed = folder / name, folder / f"{name}.gz"
    try:
        return plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise Failure(f"cannot read {name} or {name}.gz in {folder} ({error})") from error


def fetch(name: str, checksum: str, out: Path, local: Path | None) -> bool:
    """Put the file ``name`` into ``out``, whole or not at all; False when it was there already."""
    target = out / name
    if target.exists() and digest(target.read_bytes()) == checksum:
        return False
    data = download(name) if local is None else read_local(local, name)
    if digest(data) != checksum:
        origin = ADDRESS if local is None else local
        raise Failure(f"{name} from {origin} is not the expected file: its checksum differs")
    out.mkdir(parents=True, exist_ok=True)
    beside = out / f".{name}.part"
    beside.write_bytes(data)
    beside.replace(target)
    return True


def wanted(checksums: Iterable[str], languages: Iterable[str]) -> list[str]:
    """The names of the files of these languages.

    Raises Failure for a language that the data set has not.
    """
    names = sorted(checksums)
    known = sorted({name.rpartition(".")[2] for name in names})
    for language in languages:
        if language not in known:
            raise Failure(f"there is no language {language!r} in Multi30k: one of {known}")
    return [name for name in names if name.rpartition(".")[2] in languages]


def main() -> None:
    """Fetch what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("languages", nargs="+", help="en, de, fr, cs")
    parser.add_argument("--from", dest="local", type=Path, help="folder to copy from instead")
    options = parser.parse_args()
    try:
        checksums = read_checksums(HERE / "checksums.sha256")
        for name in wanted(checksums, options.languages):
            new = fetch(name, checksums[name], options.out, options.local)
            print(f"{options.out / name}: {'ready' if new else 'already there'}", file=sys.stderr)
    except Failure as error:
        sys.exit(f"download.py: {error}")


if __name__ == "__main__":
    main()
