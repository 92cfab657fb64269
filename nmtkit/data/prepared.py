"""The manifest of a prepared corpus, and opening one: nothing in the folder is believed."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmtkit.corpus import read_lines
from nmtkit.data.bitext import (
    ID,
    OFFSET,
    Bitext,
    IdArray,
    Ids,
    OffsetArray,
    PairCounts,
    check_languages,
    ids_path,
    lines_path,
    numbers_path,
    offsets_path,
    release,
)
from nmtkit.errors import UserError
from nmtkit.files import check_entries, read_json, sha256, write_json
from nmtkit.text import Side, Text
from nmtkit.vocabulary import SPECIALS, UNK

FORMAT = "nmtkit prepared corpus"
FORMAT_VERSION = 3
READABLE = (2, 3)  # 2 has UNK for every unknown word
MANIFEST = "manifest.json"
CHUNK = 1 << 20  # array elements checked at a time
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_REMEDY = "run nmtkit preprocess again"


def write_manifest(
    folder: Path,
    texts: tuple[Text, Text],
    train: PairCounts,
    valid: PairCounts | None,
    read: int,
    details: Mapping[str, object],
) -> None:
    """Seal a prepared corpus: everything else in ``folder`` must be in its final form.

    ``read``: the pairs of the training text, dropped ones too. ``details`` (JSON values) tells
    where the corpus comes from; `PreparedCorpus` only keeps it.
    """
    source, target = texts
    arrays = (".ids", ".offsets", ".lines")
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name != MANIFEST)
    manifest: dict[str, object] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "source_language": source.config.language,
        "target_language": target.config.language,
        "train": {**vars(train), "read": read},
        "valid": None if valid is None else vars(valid),
        **details,
        "sha256": {path.name: sha256(path) for path in files if path.suffix not in arrays},
    }
    write_json(folder / MANIFEST, manifest)


@dataclass(frozen=True)
class PreparedCorpus:
    """A prepared corpus, opened and checked."""

    folder: Path
    manifest: dict[str, Any]
    source_text: Text
    target_text: Text
    train: Bitext
    valid: Bitext | None
    train_lines: OffsetArray
    """(pairs,): which pair of the training text each pair of ``train`` was, rising from 0."""
    pairs_read: int
    """The pairs of the training text, dropped ones too."""

    @classmethod
    def open(cls, folder: Path) -> PreparedCorpus:
        """Open ``folder`` and check all of it (reads every array once).

        Raises UserError, one line, for whatever is missing, damaged or not what it should be.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder: give the --out of nmtkit preprocess")
        check_entries(folder, _REMEDY)
        fields = _Fields(folder / MANIFEST)
        languages = fields.languages()
        counts = {part: fields.counts(part) for part in ("train", "valid")}
        needed = ["text.json", *(f"vocabulary.{language}" for language in languages)]
        if counts["valid"] is not None:
            needed += [lines_path(folder, language).name for language in languages]
        _check_files(folder, fields.object("sha256"), needed)
        sides: tuple[Side, Side] = ("source", "target")
        texts = [_load_text(folder, side, code) for side, code in zip(sides, languages)]
        train, valid = (
            None if count is None else _open_part(folder, part, languages, count, texts)
            for part, count in counts.items()
        )
        if train is None or not len(train):
            raise fields.fault("'train' must hold at least one pair")
        read = fields.natural(fields.object("train"), "read")
        lines: OffsetArray = _map(numbers_path(folder), OFFSET, len(train))
        _check_numbers(numbers_path(folder), lines, read)
        for array in (train, valid):
            if array is not None:
                array.release()
        release(lines)
        return cls(folder, fields.table, texts[0], texts[1], train, valid, lines, read)

    def valid_lines(self) -> tuple[list[str], list[str]]:
        """The raw validation lines (source, target); pair i is line i. Empty without --valid."""
        if self.valid is None:
            return [], []
        sides = []
        for text in (self.source_text, self.target_text):
            path = lines_path(self.folder, text.config.language)
            lines = list(read_lines(path))
            if len(lines) != len(self.valid):
                raise UserError(f"{path} has {len(lines)} lines, not {len(self.valid)}: {_REMEDY}")
            sides.append(lines)
        return sides[0], sides[1]


class _Fields:
    """The manifest, one checked field at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            raise UserError(f"{path} is missing: {path.parent} is not a prepared corpus")
        self.table = read_json(path, "manifest")
        if self.table.get("format") != FORMAT:
            raise self.fault(f"'format' must be {FORMAT!r}")
        version = self.table.get("format_version")
        if type(version) is not int or version not in READABLE:
            raise self.fault(
                f"format version {version!r}, and this nmtkit reads only "
                f"{' and '.join(map(str, READABLE))}"
            )

    def fault(self, what: str) -> UserError:
        return UserError(f"{self.path}: {what}; {_REMEDY}")

    def languages(self) -> tuple[str, str]:
        values = [self.table.get(f"{side}_language") for side in ("source", "target")]
        if not all(isinstance(value, str) for value in values):
            raise self.fault("'source_language' and 'target_language' must be strings")
        source, target = (str(value) for value in values)
        try:
            check_languages(source, target)
        except UserError as error:
            raise self.fault(str(error)) from error
        return source, target

    def natural(self, table: Mapping[str, Any], key: str) -> int:
        value = table.get(key)
        if type(value) is not int or value < 0:  # True is an int to isinstance
            raise self.fault(f"{key!r} must be a number from 0 up, not {value!r}")
        return value

    def object(self, key: str) -> dict[str, Any]:
        table = self.table.get(key)
        if not isinstance(table, dict):
            raise self.fault(f"{key!r} must be an object")
        return table

    def counts(self, part: str) -> PairCounts | None:
        if part == "valid" and self.table.get(part) is None:
            return None
        table = self.object(part)
        numbers = (self.natural(table, key) for key in ("pairs", "source_ids", "target_ids"))
        return PairCounts(*numbers)


def _check_files(folder: Path, checksums: Mapping[str, Any], needed: Sequence[str]) -> None:
    """Every listed file is there, lies in ``folder`` itself, and is unchanged."""
    for name in needed:
        if name not in checksums:
            raise UserError(f"{folder / MANIFEST}: 'sha256' lacks {name!r}; {_REMEDY}")
    for name, checksum in checksums.items():
        if not _FILE_NAME.fullmatch(name):
            raise UserError(f"{folder / MANIFEST}: {name!r} is not the name of a file; {_REMEDY}")
        _check_file(folder / name)
        if sha256(folder / name) != checksum:
            raise UserError(f"{folder / name} is not as written (its sha256 differs): {_REMEDY}")


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise UserError(f"{path} is missing or not a file: {_REMEDY}")


def _load_text(folder: Path, side: Side, language: str) -> Text:
    text = Text.load(folder, side)
    if text.config.language != language or text.vocabulary is None:
        raise UserError(
            f"{folder / 'text.json'}: the {side} side must be {language!r}, as the manifest says, "
            f"and have a vocabulary; {_REMEDY}"
        )
    return text


def _open_part(
    folder: Path, part: str, languages: tuple[str, str], counts: PairCounts, texts: Sequence[Text]
) -> Bitext:
    """Only validation may hold empty sentences: there no line is ever dropped."""
    sides = []
    for language, total, text in zip(languages, (counts.source_ids, counts.target_ids), texts):
        path = ids_path(folder, part, language)
        ids: IdArray = _map(path, ID, total)
        _check_ids(path, ids, len(text.vocabulary or ()))
        path = offsets_path(folder, part, language)
        offsets: OffsetArray = _map(path, OFFSET, counts.pairs + 1)
        _check_offsets(path, offsets, total, shortest=0 if part == "valid" else 1)
        sides.append(Ids(ids, offsets))
    return Bitext(*sides)


def _map(path: Path, kind: np.dtype[Any], length: int) -> npt.NDArray[Any]:
    _check_file(path)
    size, wanted = path.stat().st_size, length * kind.itemsize
    if size != wanted:
        raise UserError(f"{path} has {size} bytes, not {wanted} as the manifest says: {_REMEDY}")
    if not length:
        return np.empty(0, kind)  # nothing cannot be mapped
    try:
        with path.open("rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), kind)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def _check_offsets(path: Path, offsets: OffsetArray, total: int, shortest: int) -> None:
    """From 0 to ``total``, and never less than ``shortest`` (0 or 1) apart."""
    if offsets[0] != 0 or offsets[-1] != total:
        raise UserError(
            f"{path}: offsets run from {offsets[0]} to {offsets[-1]}, not from 0 to {total}: "
            f"{_REMEDY}"
        )
    place = _first_fall(offsets, shortest)
    if place is not None:
        kind = "empty or overlap others" if shortest else "overlap others"
        raise UserError(f"{path}: sentence {place} is {kind} (offsets fall): {_REMEDY}")


def _check_numbers(path: Path, numbers: OffsetArray, read: int) -> None:
    """From 0 or more to less than ``read``, and rising."""
    if numbers[0] < 0 or numbers[-1] >= read:
        raise UserError(
            f"{path}: runs from {numbers[0]} to {numbers[-1]}, where {read} pairs were read: "
            f"{_REMEDY}"
        )
    place = _first_fall(numbers, 1)
    if place is not None:
        raise UserError(f"{path}: pairs {place} and {place + 1} are not in order: {_REMEDY}")


def _first_fall(numbers: OffsetArray, step: int) -> int | None:
    """The first place that the next is not at least ``step`` (0 or 1) above."""
    for start in range(0, len(numbers) - 1, CHUNK):
        release(numbers)
        chunk = numbers[start : start + CHUNK + 1]
        # Compared, not subtracted: the difference of two damaged numbers can overflow.
        wrong = chunk[1:] <= chunk[:-1] if step else chunk[1:] < chunk[:-1]
        if wrong.any():
            return start + int(wrong.argmax())
    return None


def _check_ids(path: Path, ids: IdArray, vocabulary: int) -> None:
    """Ordinary tokens and unknown ones only: text has no PAD, BOS or EOS of its own."""
    for start in range(0, len(ids), CHUNK):
        release(ids)
        chunk = ids[start : start + CHUNK]
        special = (chunk >= 0) & (chunk < len(SPECIALS)) & (chunk != UNK)
        wrong = special | (chunk >= vocabulary)
        if wrong.any():
            place = int(wrong.argmax())
            raise UserError(
                f"{path}: id {chunk[place]} at position {start + place} is not a token of the "
                f"vocabulary ({vocabulary}): {_REMEDY}"
            )
