"""What the commands share: streams, files, progress bars, tables. All talk goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import typer

from nmtkit.cli.processes import rank
from nmtkit.corpus import read_lines
from nmtkit.errors import UserError
from nmtkit.files import atomic_writer, resolved
from nmtkit.links import in_step

if TYPE_CHECKING:
    from nmtkit.checkpoint import Trained

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
    """A text file that appears whole or not at all; "-" is stdout. One process writes it."""
    if path == STREAM or rank():
        yield sys.stdout
        sys.stdout.flush()
    else:
        with atomic_writer(Path(path)) as file:
            yield file


def check_outputs(
    outputs: Iterable[str | None],
    inputs: Iterable[str | Path | None],
    models: Iterable[Path | None] = (),
    folder: Path | None = None,
) -> None:
    """UserError for an output that is also an input, or a file of a model: it would be lost.

    A `folder` of outputs may not lie in a model directory either.
    """
    read = {resolved(Path(name)) for name in inputs if name is not None and str(name) != STREAM}
    folders = [model for model in models if model is not None]
    files = [Path(name) for name in outputs if name is not None and name != STREAM]
    for path in files:
        if resolved(path) in read:
            raise UserError(f"{path} is an input and would be replaced: choose another output")
    for model in folders:
        taken = [path for path in files if path.is_file() and _belongs(path, model)]
        if folder is not None and _inside(resolved(folder), model):
            taken.append(folder)
        if taken:
            raise UserError(
                f"{taken[0]} belongs to the model {model} and would be replaced: choose another "
                "output"
            )


def same_output(one: str | Path, other: str | Path) -> bool:
    """Whether two outputs are one file, or both stdout."""
    if STREAM in (str(one), str(other)):
        return str(one) == str(other)
    return resolved(Path(one)) == resolved(Path(other))


def _belongs(path: Path, model: Path) -> bool:
    """Whether a file is one of a model directory's, itself or by a link of either."""
    place = resolved(path)
    if _inside(place, model) or _inside(resolved(path.parent), model):
        return True
    return model.is_dir() and place in {resolved(file) for file in model.iterdir()}


def _inside(place: Path, model: Path) -> bool:
    return resolved(model) in (place, *place.parents)


def warn_of_aligners(models: Iterable[Trained]) -> None:
    """A line for every model whose decoder has not been trained; UserError for one without."""
    for one in [one for one in models if one.seq2seq]:  # first of all, that each has one
        if not one.translates:
            say(f"warning: {one.folder} was trained to align only: its translations mean nothing")


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
