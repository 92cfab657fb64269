"""Files that appear whole or not at all, JSON read with checks, and what a line may hold."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from nmtkit.errors import UserError

BLOCK = 1 << 20  # bytes read at a time for a checksum
CHECKSUMS = "SHA256SUMS"  # of the files of a folder, as `sha256sum --check` reads it

# What some program or other takes for the end of a line, or shows as nothing: C0 and C1 controls
# with tab, VT, FF, CR, FS to US, DEL and NEL; line and paragraph separator; the byte order mark.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def clean_line(line: str) -> str:
    """``line`` with every control or line separator replaced by a space, one for one."""
    return CONTROLS.sub(" ", line)


def count_controls(line: str) -> int:
    """How many characters ``clean_line`` would replace."""
    return len(CONTROLS.findall(line))


def resolved(path: Path) -> Path:
    """Where links lead. One that leads to itself stays as it is: to open it is then the error."""
    return Path(os.path.realpath(path))  # before Python 3.13 Path.resolve fails there


@contextlib.contextmanager
def atomic_writer(path: Path, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    r"""A file to write that takes the place of ``path`` only when the block ends well.

    Text is UTF-8 with ``\n`` line ends. The data lie beside ``path`` under a temporary name until
    they are on disk. A symbolic link stays a link: its target is replaced.

    Raises UserError when the folder is missing, cannot be written, or ``path`` is a folder.
    """
    path = Path(path)
    place = resolved(path) if path.is_symlink() else path
    if place.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file")
    if place.exists() and not place.is_file():  # a pipe or a device: nothing to put in its place
        with _explained("write", path), place.open(mode, **_encoding(mode)) as file:
            yield file
        return
    with _explained("write", path):
        descriptor, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, mode, **_encoding(mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask())
        temporary.replace(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


@contextlib.contextmanager
def output_folder(path: Path, overwrite: bool = False, marker: str | None = None) -> Iterator[Path]:
    """A temporary folder beside ``path`` that takes its place only when the block ends well.

    An existing empty folder is fine; one with contents needs ``overwrite``, and is kept whole
    until the new one is complete. Missing parents are made.

    Raises UserError when ``path`` is a file, or a folder with contents and not ``overwrite``, or
    (with ``marker``) one that lacks the file every folder of its kind has: ``--overwrite`` with
    the wrong name must not cost anybody a folder of other things.
    """
    path = Path(path)
    check_output_folder(path, overwrite, marker)
    place = resolved(path)
    with _explained("make", path):
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        check_output_folder(path, overwrite, marker)  # something may have filled it meanwhile
        _replace_folder(temporary, place)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(place.parent)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keeps other processes out that would hold the folder too: they get a UserError.

    The hold ends with the process, however that ends, and leaves nothing behind. It is of the
    folder as it is now, not of one that takes its place. Where there are no such locks (some
    network disks, Windows) nobody is kept out.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with _explained("read", folder):
        number = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"{folder}: another process is training there: wait for its end, or choose "
                "another folder"
            ) from error
        except OSError:
            pass  # no locks on this disk
        yield
    finally:
        os.close(number)


def copy_file(source: Path, place: Path) -> None:
    """Write the bytes of `source` to `place`, whole or not at all."""
    with atomic_writer(place, "wb") as file, Path(source).open("rb") as old:
        shutil.copyfileobj(old, file)


def check_output_folder(path: Path, overwrite: bool = False, marker: str | None = None) -> None:
    """Raise UserError where ``output_folder`` would refuse ``path``; call it before long work."""
    if path.is_symlink() and not path.exists():
        raise UserError(f"{path} is a broken link: choose another folder")
    if not path.exists():
        return
    if not path.is_dir():
        raise UserError(f"{path} exists and is not a folder: choose another name")
    with _explained("read", path):
        empty = next(path.iterdir(), None) is None
    if not empty and not overwrite:
        raise UserError(f"{path} exists and is not empty: choose another folder or say --overwrite")
    if not empty and marker and not (path / marker).is_file():
        raise UserError(
            f"{path} holds something else (it has no {marker}), so --overwrite does not touch it: "
            "choose another folder"
        )


def check_entries(folder: Path, remedy: str) -> None:
    """UserError unless all in ``folder`` are plain files and folders; ``remedy``: what else to do.

    A link could lead out of the folder, and a pipe would wait for ever.
    """
    for path in folder.iterdir():
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UserError(f"{path} is not a plain file: put one in its place, or {remedy}")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in ``path``; ``what`` names the file to the user ("manifest").

    Raises UserError when the file is missing, not UTF-8, not JSON, or not an object.
    """
    path = Path(path)
    with reading(f"read {what}", path) as file:
        raw = file.read()
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: the {what} is not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: the {what} must be a JSON object, not {type(value).__name__}")
    return value


def write_json(path: Path, object: Any) -> None:
    """Write ``object`` as indented JSON, keys in the order given, in one piece.

    Raises ValueError for NaN and infinities: JSON has none.
    """
    with atomic_writer(path) as file:
        json.dump(object, file, ensure_ascii=False, indent=2, allow_nan=False)
        file.write("\n")


def sha256(path: Path) -> str:
    """The checksum of the bytes of ``path`` as 64 hexadecimal digits.

    Raises UserError when the file cannot be read.
    """
    digest = hashlib.sha256()
    with reading("read", Path(path)) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def write_checksums(folder: Path) -> None:
    """Seal a folder of plain files: `damaged_files` finds what changes from here on."""
    lines = _checksum_lines(folder)
    with atomic_writer(folder / CHECKSUMS) as file:
        file.writelines(f"{line}\n" for line in lines)


def damaged_files(folder: Path) -> list[str]:
    """The names of the files that are not as they were when the folder was sealed.

    Changed, missing and added ones alike, and the file of checksums when it is not as written.
    Raises UserError when a file cannot be read.
    """
    try:
        with reading("read", folder / CHECKSUMS) as file:
            text = file.read().decode("utf-8")
    except (UserError, UnicodeDecodeError):
        return [CHECKSUMS]
    wanted, found = text.split("\n"), _checksum_lines(folder)
    if len(set(wanted)) < len(wanted) or wanted.pop() != "":
        return [CHECKSUMS]
    return sorted({line.partition("  ")[2] or CHECKSUMS for line in set(wanted) ^ set(found)})


def _checksum_lines(folder: Path) -> list[str]:
    files = sorted(path for path in folder.iterdir() if path.name != CHECKSUMS)
    return [f"{sha256(path)}  {path.name}" for path in files]


@contextlib.contextmanager
def reading(action: str, path: Path) -> Iterator[IO[bytes]]:
    """A file to read; UserError for what cannot be, or would have no end: a pipe, a device."""
    with _explained(action, path):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UserError(f"cannot {action} {path}: it is not a plain file")
        with path.open("rb") as file:
            yield file


@contextlib.contextmanager
def _explained(action: str, path: Path) -> Iterator[None]:
    """Turn the system's refusal into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot {action} {path}: {error.strerror or error}") from error


def _replace_folder(new: Path, place: Path) -> None:
    """Rename ``new`` to ``place``. Two renames where ``place`` has contents; undone on failure."""
    if not place.exists():
        new.rename(place)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{place.name}.old.", dir=place.parent))
    place.replace(old)  # onto an empty folder
    try:
        new.rename(place)
    except BaseException:
        old.replace(place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _encoding(mode: str) -> dict[str, Any]:
    """How text is written; bytes are written as they are."""
    return {"encoding": "utf-8", "newline": "\n"} if mode == "w" else {}


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
