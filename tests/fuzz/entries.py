"""Changes of what a folder holds, and checksums made right again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from nmtkit.files import CHECKSUMS, read_json, sha256, write_checksums

Entry = Callable[[Path, Random], None]
OUTSIDE = "../outside"  # of the folder that is changed: nothing may be written there


def away(path: Path, draw: Random) -> None:
    _remove(path)


def empty(path: Path, draw: Random) -> None:
    _remove(path)
    path.touch()


def folder(path: Path, draw: Random) -> None:
    _remove(path)
    path.mkdir()
    if draw.random() < 0.5:
        (path / path.name).write_bytes(b"x")


def pipe(path: Path, draw: Random) -> None:
    _remove(path)
    os.mkfifo(path)


def link_outside(path: Path, draw: Random) -> None:
    """To a copy of the file itself, or to something else, beyond the folder."""
    outside = path.parent
    while not (outside / "outside").is_dir():
        outside = outside.parent
    place = outside / "outside" / draw.choice((path.name, "secret"))
    if path.is_file():
        place.write_bytes(path.read_bytes())
    _remove(path)
    path.symlink_to(os.path.relpath(place, path.parent) if draw.random() < 0.5 else place)


def link_elsewhere(path: Path, draw: Random) -> None:
    _remove(path)
    path.symlink_to(draw.choice(("/dev/zero", "/dev/null", path.name, ".", "nowhere", "/")))


def link_beside(path: Path, draw: Random) -> None:
    others = sorted(other.name for other in path.parent.iterdir() if other != path)
    if others:
        _remove(path)
        path.symlink_to(draw.choice(others))


def exchanged(path: Path, draw: Random) -> None:
    others = sorted(o for o in path.parent.iterdir() if o.is_file() and o != path)
    if others and path.is_file():
        other = draw.choice(others)
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)


def added(path: Path, draw: Random) -> None:
    name = draw.choice(
        ("x", "-", " ", "\n", "\x1b[31m", "x" * 255, ".checkpoint.x", f".{path.name}.x", "\udcff")
    )
    with contextlib.suppress(OSError, UnicodeEncodeError):
        draw.choice((Path.touch, Path.mkdir))(path.parent / name)


ENTRIES: list[Entry] = [
    *(away, empty, folder, pipe, link_outside, link_outside, link_elsewhere, link_beside),
    *(exchanged, added),
]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -------------------------------------------------------------------------- checksums made right


def seal_text(place: Path) -> None:
    """text.json as if the codes, vocabularies … had always been these."""
    table = read_json(place / "text.json", "")
    for side in ("source", "target"):
        for name in table[side]["files"]:
            table[side]["files"][name] = sha256(place / name)
    _put(place / "text.json", table)


def seal_corpus(place: Path) -> None:
    """The text side, and the manifest."""
    with contextlib.suppress(Exception):
        seal_text(place)
    table = read_json(place / "manifest.json", "")
    for name in table["sha256"]:
        table["sha256"][name] = sha256(place / name)
    _put(place / "manifest.json", table)


def seal_checkpoint(place: Path) -> None:
    """A checkpoint as if it had been written so."""
    sums = place / "checkpoint" / CHECKSUMS
    if sums.is_file() or not sums.exists():  # to write to a pipe would be to wait
        write_checksums(sums.parent)


def seal_shards(place: Path) -> None:
    for path in sorted(place.glob("*/shard.json")):
        table = read_json(path, "")
        table["sha256"] = sha256(path.parent / "pairs")
        _put(path, table)


def _put(path: Path, table: object) -> None:
    path.write_text(json.dumps(table), encoding="utf-8")


def sealed(place: Path, seal: Callable[[Path], None] | None) -> None:
    """Seal where the files still let one."""
    if seal is not None:
        with contextlib.suppress(Exception):
            seal(place)
