"""`preprocess` in shards: the first pass, which costs most, over some of the pairs at a time.

A shard is a folder with ``pairs`` (the lines of its pairs, see ``passes.py``) and ``shard.json``:
which shard of how many it is, the options and versions that its lines depend on, the checksums of
the whole training text, and what was counted. Everything that needs the whole text (duplicates,
truecasing, codes, vocabularies) is done when all shards are there, on their lines in the order of
their numbers: so a merge of shards gives the bytes of a run without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from heapq import merge
from pathlib import Path
from typing import Any

from nmtkit.corpus import REASONS, Filters, count_controls
from nmtkit.errors import UserError
from nmtkit.files import check_output_folder, output_folder, read_json, sha256, write_json
from nmtkit.preprocess import passes as every
from nmtkit.preprocess.inputs import (
    Input,
    check_outside,
    described,
    files_of,
    raw_pairs,
    versions,
)
from nmtkit.preprocess.learn import new_texts
from nmtkit.preprocess.options import PreprocessOptions
from nmtkit.preprocess.passes import Pair, Passes, Raw, Tokenise, write_lines
from nmtkit.preprocess.report import PartTally
from nmtkit.preprocess.workers import chunked
from nmtkit.progress import Progress, silent

MARKER = "shard.json"
PAIRS = "pairs"
FORMAT = "nmtkit shard 1"
MOST = 500  # shards: a merge has all their files open
_REMEDY = "make this shard again"

# What the lines of a shard depend on; everything else may still be chosen when they are merged.
OPTIONS = "source_lang target_lang train tokenizer normalise case subwords max_length".split()


@dataclass(frozen=True)
class Shard:
    """Number ``index`` (from 1) of ``of``: every so manieth chunk of the pairs."""

    index: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.of <= MOST:
            raise ValueError(f"no shard {self.index} of {self.of}")

    def __str__(self) -> str:
        return f"{self.index}/{self.of}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From "3/16". Raises UserError."""
        numbers = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        try:
            return cls(*map(int, numbers.groups() if numbers else (0, 0)))
        except ValueError as error:
            raise UserError(
                f"shard {text!r}: give I/N such as 3/16, with I from 1 to N and N at most {MOST}"
            ) from error

    def chunks(self, pairs: Iterable[Pair]) -> Iterator[Raw]:
        """Those of ``pairs`` (all of the text) that are this shard's, numbered."""
        for place, chunk in enumerate(chunked(pairs, every.CHUNK)):
            if place % self.of == self.index - 1:
                yield place * every.CHUNK, chunk


WHOLE = Shard()


def tokenised(
    options: PreprocessOptions, passes: Passes, tally: PartTally, shard: Shard = WHOLE
) -> Iterator[str]:
    """The first pass: raw training text -> lines of tokens, folded but for case "true".

    A pair with too many tokens has too many subwords: it goes before anything is learned.
    """
    pairs = passes.progress(raw_pairs(options, options.train), "tokenising")
    keep = Filters(options.max_length, None)
    job = Tokenise(new_texts(options), keep, fold=options.case != "true")
    return passes.tokenise(shard.chunks(pairs), job, tally)


def preprocess_shard(
    options: PreprocessOptions,
    shard: Shard,
    out: Path,
    overwrite: bool = False,
    workers: int = 1,
    progress: Progress = silent,
) -> PartTally:
    """One shard of the training text -> the folder ``out``, whole or not at all.

    ``preprocess(…, shards=…)`` with the same options joins the shards. Reads all of the text, but
    tokenises only its share. Raises UserError as ``preprocess`` does.
    """
    out = Path(out)
    inputs = files_of(options, options.train)
    check_output_folder(out, overwrite, MARKER)
    check_outside(out, inputs)
    tally = PartTally()
    try:
        with output_folder(out, overwrite, MARKER) as folder:
            number = write_lines(
                folder / PAIRS, tokenised(options, Passes(workers, progress), tally, shard)
            )
            about = {
                "format": FORMAT,
                "shard": shard.index,
                "of": shard.of,
                "versions": versions(options),
                "options": _chosen(options),
                "inputs": [described(path) for path in inputs],
                "pairs": number,
                "read": tally.read,
                "dropped": tally.reasons,
                "controls": [tally.source.controls, tally.target.controls],
                "sha256": sha256(folder / PAIRS),
            }
            write_json(folder / MARKER, about)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    return tally


class Shards:
    """All shards of a training text, checked to be whole and to fit together."""

    def __init__(self, folder: Path, options: PreprocessOptions) -> None:
        """``folder`` holds a folder for every shard, whatever its name.

        Raises UserError for a shard that is missing, there twice, damaged, made with other options
        or versions, or from other files than the rest.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder: give the one that holds the shards")
        found = [_About(path.parent) for path in sorted(folder.glob(f"[!.]*/{MARKER}"))]
        if not found:
            raise UserError(f"{folder} holds no shards: no folder in it has a {MARKER}")
        self._shards = _in_order(folder, found)
        for about in self._shards:
            about.check(options)
            about.check_against(self._shards[0])
        for about in self._shards:
            if sha256(about.pairs) != about.table["sha256"]:
                raise UserError(f"{about.pairs} is not as written: {_REMEDY}")
        self.inputs: list[Input] = self._shards[0].inputs

    def lines(self, tally: PartTally) -> Iterator[str]:
        """The lines of all shards in the order of their numbers; counted in ``tally``."""
        for about in self._shards:
            tally.merge(about.tally())
        for _, line in merge(*(about.lines() for about in self._shards)):
            yield line


class _About:
    """The folder of one shard."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / MARKER
        self.pairs = folder / PAIRS
        self.table: dict[str, Any] = read_json(self.path, "description of a shard")
        if self.table.get("format") != FORMAT:
            raise self.fault(f"'format' must be {FORMAT!r}")
        names = ["shard", "of", "pairs", "read"]
        dropped, controls = self.table.get("dropped"), self.table.get("controls")
        if not isinstance(dropped, dict) or set(dropped) - set(REASONS):
            raise self.fault("'dropped' must be reasons and numbers")
        if not isinstance(controls, list) or len(controls) != 2:
            raise self.fault("'controls' must be two numbers")
        for number in [*(self.table.get(name) for name in names), *dropped.values(), *controls]:
            if type(number) is not int or number < 0:
                raise self.fault(f"{number!r} is not a number from 0 up")
        inputs = self.table.get("inputs")
        if not isinstance(inputs, list) or not all(isinstance(one, dict) for one in inputs):
            raise self.fault("'inputs' must be a list of files")
        self.inputs: list[Input] = inputs
        try:
            self.shard = Shard(self.table["shard"], self.table["of"])
        except ValueError as error:
            raise self.fault(str(error)) from error

    def fault(self, what: str) -> UserError:
        return UserError(f"{self.path}: {what}; {_REMEDY}")

    def check(self, options: PreprocessOptions) -> None:
        """Made with these options, by this program and these libraries."""
        mine: dict[str, dict[str, Any]] = {
            "options": _chosen(options),
            "versions": dict(versions(options)),
        }
        for kind, expected in mine.items():
            stated = self.table.get(kind)
            stated = stated if isinstance(stated, dict) else {}
            for name, value in expected.items():
                if stated.get(name) != value:
                    shown = f"--{name.replace('_', '-')}" if kind == "options" else name
                    raise UserError(
                        f"{self.path}: made with {shown} {stated.get(name)!r}, and not {value!r}: "
                        f"say the same for every shard and for --merge"
                    )

    def check_against(self, first: _About) -> None:
        """Made from the same files."""
        if self.inputs != first.inputs:
            changed = [one for one in self.inputs if one not in first.inputs]
            name = changed[0].get("file") if changed else "the training text"
            raise UserError(
                f"{self.path}: {name} was another file when this shard was made than for "
                f"{first.path}: make the shards again"
            )

    def tally(self) -> PartTally:
        table = self.table
        tally = PartTally(read=table["read"], reasons=dict(table["dropped"]))
        tally.source.controls, tally.target.controls = table["controls"]
        return tally

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number and line, as the first pass writes them."""
        with self.pairs.open(encoding="utf-8", newline="\n") as file:
            try:
                for line in file:
                    number = line[: line.index("\t")]
                    if not (number.isascii() and number.isdigit() and _is_line(line)):
                        raise ValueError
                    yield int(number), line
            except ValueError as error:  # it is as written, but not by this program
                raise UserError(f"{self.pairs}: not the lines of a shard: {_REMEDY}") from error


def _is_line(line: str) -> bool:
    """NUMBER TAB tokens TAB tokens, one space between tokens."""
    odd = any(run in line for run in ("  ", "\t ", " \t", " \n"))
    return line.count("\t") == 2 and count_controls(line) == 3 and line[-1] == "\n" and not odd


def _in_order(folder: Path, found: list[_About]) -> list[_About]:
    """The shards by number, each of them once."""
    by_number: dict[int, _About] = {}
    of = found[0].shard.of
    for about in found:
        if about.shard.of != of:
            raise UserError(
                f"{found[0].path} is of {of} shards and {about.path} of {about.shard.of}: "
                f"remove those of the other run"
            )
        other = by_number.setdefault(about.shard.index, about)
        if other is not about:
            raise UserError(
                f"{other.path} and {about.path} are both shard {about.shard}: remove one"
            )
    missing = [number for number in range(1, of + 1) if number not in by_number]
    if missing:
        numbers = ", ".join(map(str, missing))
        raise UserError(f"{folder}: of {of} shards, {numbers} missing: make them, then merge")
    return [by_number[number] for number in sorted(by_number)]


def _chosen(options: PreprocessOptions) -> dict[str, Any]:
    """The options that a shard depends on, as JSON has them."""
    chosen = {name: asdict(options)[name] for name in OPTIONS}
    return {**chosen, "train": list(options.train)}
