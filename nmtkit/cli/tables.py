"""The tables of nmtkit score: for a terminal, or as Markdown or LaTeX to be pasted into a paper."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nmtkit.cli.output import table
from nmtkit.errors import unknown

Rows = Sequence[list[str]]


def _text(title: str, columns: list[str], rows: Rows) -> None:
    table(title, columns, rows, sys.stdout)


def _markdown(title: str, columns: list[str], rows: Rows) -> None:
    if title:
        print(f"\n**{title}**\n")  # apart from the notes of the table before
    escaped = [[_in_markdown(cell) for cell in row] for row in (columns, *rows)]
    print(_tabulate(escaped[0], escaped[1:], "pipe"), end="\n\n")


def _latex(title: str, columns: list[str], rows: Rows) -> None:
    if title:
        print(f"% {title}")
    flat = [[cell.replace("\n", "; ") for cell in row] for row in rows]
    print(_tabulate(columns, flat, "latex_booktabs"))


def _in_markdown(cell: str) -> str:
    for character in "\\|*_<`":
        cell = cell.replace(character, f"\\{character}")
    return cell.replace("\n", "<br>")


def _tabulate(columns: list[str], rows: Rows, format: str) -> str:
    from tabulate import tabulate  # type: ignore[import-untyped]

    sides = ["left", *["right"] * (len(columns) - 1)]
    # Cells are text already: parsing numbers would cut 0.10 to 0.1.
    return str(tabulate(rows, columns, format, disable_numparse=True, colalign=sides))


FORMATS: dict[str, tuple[Callable[[str, list[str], Rows], None], str]] = {
    # name -> what prints a table, and what begins the lines under it
    "text": (_text, ""),
    "markdown": (_markdown, "- "),
    "latex": (_latex, "% "),
}


@dataclass(frozen=True)
class Tables:
    """Prints tables on stdout in one of the ``FORMATS``; UserError for another."""

    format: str = "text"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise unknown("table format", self.format, FORMATS)

    def table(self, title: str, columns: list[str], rows: Rows) -> None:
        """A table. The first column stands left, the others right."""
        FORMATS[self.format][0](title, columns, rows)

    def note(self, text: str) -> None:
        """A line under a table."""
        print(FORMATS[self.format][1] + text)


def print_json(value: Any) -> None:
    """JSON on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2))
