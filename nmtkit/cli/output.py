"""What the commands share: streams, files, progress bars, tables. All talk goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import typer

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError
from nmtkit.files import atomic_writer
from nmtkit.links import in_step

Item = TypeVar("Item")
STREAM = "-"


class WrongUsage(typer.BadParameter):
    """Options that do not go together, or are missing: exit code 2, with the command's usage."""

    def format_message(self) -> str:
        return self.message


def bar(items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
    """A progress bar on stderr; nothing when that is not a terminal."""
    if not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    return tqdm(items, desc=label, total=total, unit="", file=sys.stderr, dynamic_ncols=True)


def say(text: str) -> None:
    """One line of talk."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def writing(path: str) -> Iterator[IO[str]]:
    """A text file that appears whole or not at all; "-" is stdout."""
    if path == STREAM:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with atomic_writer(Path(path)) as file:
            yield file


def check_outputs(outputs: Iterable[str | None], inputs: Iterable[str | Path | None]) -> None:
    """UserError for an output file that is also an input: it would be lost."""
    read = {Path(name).resolve() for name in inputs if name is not None and str(name) != STREAM}
    for name in outputs:
        if name is not None and name != STREAM and Path(name).resolve() in read:
            raise UserError(f"{name} is an input and would be replaced: choose another output")


def in_pairs(source: str, target: str) -> Iterator[tuple[str, str]]:
    """The lines of two files side by side; UserError when one ends before the other."""
    if source == target == STREAM:
        raise UserError("only one of --source and --target can be - (stdin)")
    return in_step(read_lines(source), read_lines(target), (source, target))


def table(title: str, columns: list[str], rows: Iterable[list[str]], file: IO[str]) -> None:
    """A rich table on `file`: plain text when that is not a terminal."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(file=file, width=None if file.isatty() else 200, highlight=False)
    shown: Any = Table(title=title or None, title_justify="left")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(escape, row))
    console.print(shown)
