"""Parallel text in its formats: two files of lines, .tsv and .tmx; each may be gzip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from nmtkit.corpus.streams import read_lines
from nmtkit.corpus.tmx import read_tmx
from nmtkit.errors import UserError

Pair = tuple[str, str]


def corpus_files(spec: Path, source_lang: str, target_lang: str) -> tuple[Path, ...]:
    """The files behind ``spec``: one of ``FORMATS``, or PREFIX.source_lang and PREFIX.target_lang
    (each may have .gz after it).

    Raises UserError when one is missing, or is there both plain and as .gz.
    """
    spec = Path(spec)
    if _format(spec):
        if not spec.exists():
            raise UserError(f"{spec} does not exist: give a .tsv or .tmx file, or a PREFIX")
        return (spec,)
    return _side_file(spec, source_lang), _side_file(spec, target_lang)


def read_pairs(spec: Path, source_lang: str, target_lang: str) -> Iterator[Pair]:
    """The pairs of lines of a parallel text (see ``corpus_files``), source and target.

    A .tsv line is source TAB target; for .tmx see ``read_tmx``. Raises UserError at once when a
    file is missing; while it is read, for a .tsv line of another number of columns, for damaged
    XML, and when the two files have different numbers of lines.
    """
    files = corpus_files(spec, source_lang, target_lang)
    reader = _format(spec)
    if reader:
        return reader(files[0], source_lang, target_lang)
    return _zipped_pairs(*files)


def _tsv_pairs(path: Path, source_lang: str, target_lang: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{path}:{number}: expected source TAB target, found {len(columns)} "
                f"column{'' if len(columns) == 1 else 's'}"
            )
        yield columns[0], columns[1]


FORMATS: dict[str, Callable[[Path, str, str], Iterator[Pair]]] = {
    ".tsv": _tsv_pairs,
    ".tmx": read_tmx,
}


def _format(spec: Path) -> Callable[[Path, str, str], Iterator[Pair]] | None:
    """The reader of a file with both sides; None for a PREFIX."""
    return FORMATS.get(Path(Path(spec).name.removesuffix(".gz")).suffix)


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
