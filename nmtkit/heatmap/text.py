"""The heat map for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len

from nmtkit.errors import unknown
from nmtkit.heatmap.tokens import (
    JOINER,
    Attention,
    Link,
    cells_wide,
    check_shape,
    clusters,
    largest_column,
    right_to_left,
    shorten,
    visible,
)


@dataclass(frozen=True)
class TextMap:
    """The look of a text heat map; sizes in terminal cells.

    ``width`` is the widest line, unless a single column needs more. ``label`` and ``header`` are
    the most that a target token at the left and a source token on top may take.
    """

    width: int = 100
    label: int = 20
    header: int = 12
    shades: str = "blocks"


def _blocks(weight: float) -> str:
    """None below 0.05, then a shade a quarter."""
    return " " if weight < 0.05 else "░▒▓█"[min(int(weight * 4), 3)]


def _digits(weight: float) -> str:
    """The tenths, rounded down: 3 is 0.3 up to 0.4; 9 goes up to 1."""
    return "." if weight < 0.1 else str(min(int(weight * 10), 9))


SHADES: dict[str, Callable[[float], str]] = {"blocks": _blocks, "digits": _digits}

LEFT_TO_RIGHT = "\u200e"  # the mark: invisible, no cell wide
COLUMN = 2  # cells: the shade and a mark; a wide character of the header fills them
LARGEST, LARGEST_AND_LINK, LINK, POSSIBLE_LINK = "*", "@", "+", "?"
LEGEND = "* largest of its row"
LEGEND_LINKS = "* largest of its row   @ largest, and a link   + other link   ? other possible link"


def text_heatmap(
    attention: Attention,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    links: Collection[Link] | None = None,
    possible: Collection[Link] | None = None,
    options: TextMap | None = None,
) -> str:
    """Draw attention (T,S) with characters: lines joined by newlines, none at the end.

    The largest weight of each row is marked; so are (source, target) ``links`` and ``possible``
    links, e.g. gold ones. Source tokens are written downwards as columns; what does not fit into
    the width continues in a further panel below. Characters are placed by their width in
    the terminal.

    Raises UserError for an unknown name in ``options.shades``; ValueError for wrong shapes.
    """
    options = options or TextMap()
    check_shape(attention, source_tokens, target_tokens)
    if options.shades not in SHADES:
        raise unknown("shades", options.shades, SHADES)
    longest = min(options.label, max(options.width // 2, 1))
    labels = [shorten(visible(token), longest) for token in target_tokens]
    indent = max(map(cells_wide, labels), default=0) + 1
    cells = _cells(attention, SHADES[options.shades], set(links or ()), set(possible or ()))
    step = max((options.width - indent) // COLUMN, 1)
    lines: list[str] = []
    for first in range(0, max(len(source_tokens), 1), step):
        columns = slice(first, first + step)
        header = _header([visible(token) for token in source_tokens[columns]], options.header)
        rows = [
            " " * (indent - 1 - cells_wide(label))
            + _keep_place(label)
            + " "
            + "".join(row[columns])
            for label, row in zip(labels, cells)
        ]
        lines += [*(" " * indent + line for line in header), *rows, ""]
    lines += _wrap(LEGEND if links is None and possible is None else LEGEND_LINKS, options.width)
    return "\n".join(line.rstrip() for line in lines)


def _cells(
    attention: Attention, shade: Callable[[float], str], sure: set[Link], possible: set[Link]
) -> list[list[str]]:
    """Shade and mark of every place, by row."""
    rows = []
    for target, weights in enumerate(attention):
        largest = largest_column(weights)
        row = []
        for source, weight in enumerate(weights):
            drawn = shade(float(weight)) if np.isfinite(weight) else "!"
            link = (source, target)
            row.append(drawn + _mark(source == largest, link in sure, link in possible, drawn))
        rows.append(row)
    return rows


def _mark(largest: bool, sure: bool, possible: bool, drawn: str) -> str:
    if largest:
        return LARGEST_AND_LINK if sure or possible else LARGEST
    if sure:
        return LINK
    if possible:
        return POSSIBLE_LINK
    return drawn if drawn in "░▒▓█" else " "  # blocks fill the column


def _header(tokens: Sequence[str], height: int) -> list[str]:
    """The tokens written downwards, one a column of ``COLUMN`` cells, ending on the last line."""
    columns = [clusters(token) for token in tokens]
    columns = [c if len(c) <= height else [*c[: height - 1], "…"] for c in columns]
    tallest = max((len(column) for column in columns), default=0)
    columns = [[" "] * (tallest - len(column)) + column for column in columns]
    return [
        "".join(
            _keep_place(cluster.rstrip(JOINER)) + " " * (COLUMN - cell_len(cluster))
            for cluster in line
        )
        for line in zip(*columns)
    ]


def _keep_place(text: str) -> str:
    """Right-to-left text between marks, so that a terminal that orders it moves nothing else."""
    return f"{LEFT_TO_RIGHT}{text}{LEFT_TO_RIGHT}" if right_to_left(text) else text


def _wrap(legend: str, width: int) -> list[str]:
    """The legend on as many lines as the width needs."""
    lines = [""]
    for entry in legend.split("   "):
        joined = f"{lines[-1]}   {entry}" if lines[-1] else entry
        if lines[-1] and len(joined) > width:
            lines.append(entry)
        else:
            lines[-1] = joined
    return lines
