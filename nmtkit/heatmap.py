"""Pictures of attention: a text heat map for the terminal, and PNG or SVG files.

Rows are target tokens, columns source tokens, as in figure 3 of Bahdanau et al. (2015). A weight is
a reading of where the model looked, not a proof of why it chose a word.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

from nmtkit.errors import UserError, unknown
from nmtkit.files import atomic_writer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Attention = npt.NDArray[np.floating[Any]]
Link = tuple[int, int]


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

JOINER, NON_JOINER = "\u200d", "\u200c"
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
    links, e.g. gold ones. Source tokens stand on their heads as columns; what does not fit into the
    width continues in a further panel below. Characters are placed by their width in the terminal.

    Raises UserError for an unknown name in ``options.shades``; ValueError for wrong shapes.
    """
    options = options or TextMap()
    _check(attention, source_tokens, target_tokens)
    if options.shades not in SHADES:
        raise unknown("shades", options.shades, SHADES)
    longest = min(options.label, max(options.width // 2, 1))
    labels = [_shorten(_visible(token), longest) for token in target_tokens]
    indent = max(map(_width, labels), default=0) + 1
    cells = _cells(attention, SHADES[options.shades], set(links or ()), set(possible or ()))
    step = max((options.width - indent) // COLUMN, 1)
    lines: list[str] = []
    for first in range(0, max(len(source_tokens), 1), step):
        columns = slice(first, first + step)
        header = _header([_visible(token) for token in source_tokens[columns]], options.header)
        rows = [
            " " * (indent - 1 - _width(label)) + label + " " + "".join(row[columns])
            for label, row in zip(labels, cells)
        ]
        lines += [*(" " * indent + line for line in header), *rows, ""]
    lines += _wrap(LEGEND if links is None and possible is None else LEGEND_LINKS, options.width)
    return "\n".join(line.rstrip() for line in lines)


def _check(
    attention: Attention, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> None:
    shape = len(target_tokens), len(source_tokens)
    if attention.shape != shape:
        raise ValueError(f"attention is {attention.shape}, but (target, source) tokens are {shape}")


def _cells(
    attention: Attention, shade: Callable[[float], str], sure: set[Link], possible: set[Link]
) -> list[list[str]]:
    """Shade and mark of every place, by row."""
    rows = []
    for target, weights in enumerate(attention):
        largest = _largest(weights)
        row = []
        for source, weight in enumerate(weights):
            drawn = shade(float(weight)) if np.isfinite(weight) else "!"
            link = (source, target)
            row.append(drawn + _mark(source == largest, link in sure, link in possible, drawn))
        rows.append(row)
    return rows


def _largest(weights: Attention) -> int:
    """The column of the largest weight (the first of equals); -1 where nothing has weight."""
    if not weights.size or not np.nanmax(np.append(weights, 0)) > 0:
        return -1
    return int(np.nanargmax(weights))


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
    columns = [_clusters(token) for token in tokens]
    columns = [c if len(c) <= height else [*c[: height - 1], "…"] for c in columns]
    tallest = max((len(column) for column in columns), default=0)
    columns = [[" "] * (tallest - len(column)) + column for column in columns]
    return [
        "".join(cluster.rstrip(JOINER) + " " * (COLUMN - cell_len(cluster)) for cluster in line)
        for line in zip(*columns)
    ]


def _clusters(text: str) -> list[str]:
    """Characters with the zero-width ones that follow them; emoji joined by zero-width joiners.

    Letters that a joiner joins stay apart: terminals give each its own cell.
    """
    clusters: list[str] = []
    for character in text:
        emoji = unicodedata.category(character) == "So"
        joined = clusters and clusters[-1].endswith(JOINER) and emoji
        if clusters and (joined or not cell_len(character)):
            clusters[-1] += character
        else:  # a combining mark with nothing to combine with gets a space to stand on
            clusters.append(character if cell_len(character) else " " + character)
    return clusters


def _width(text: str) -> int:
    """Terminal cells of the text."""
    return sum(cell_len(cluster) for cluster in _clusters(text))


def _shorten(text: str, width: int) -> str:
    """At most ``width`` cells of the text, with "…" for what is left out."""
    if _width(text) <= width:
        return text
    kept, used = "", 1
    for cluster in _clusters(text):
        used += cell_len(cluster)
        if used > width:
            break
        kept += cluster
    return kept.rstrip(JOINER) + "…"


def _visible(token: str) -> str:
    """The token without characters that would move the cursor, turn the line round, or not show.

    Spaces inside a token (U+00A0, U+3000) become "␣", control characters "?".
    """
    return "".join(_clusters("".join(map(_visible_character, token)).strip(JOINER)))


def _visible_character(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Zs":
        return "␣"
    turns = category == "Cf" and character not in (
        JOINER,
        NON_JOINER,
    )  # joiners are part of spelling
    return "?" if turns or category in ("Cc", "Cs", "Zl", "Zp") else character


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


# ------------------------------------------------------------------------------------- pictures


@dataclass(frozen=True)
class Picture:
    """The look of a picture. ``cell`` is in inches; ``pixels`` bounds the longer side of a PNG."""

    cell: float = 0.3
    font_size: float = 9.0
    dpi: float = 150.0
    pixels: int = 16_000
    colours: str = "Greys"  # dark = large, so that it prints; Bahdanau et al. use the reverse
    longest_token: int = 30


# Matplotlib's own font has no East Asian or Indic characters; the first that are installed help.
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "Hiragino Sans",
    "Yu Gothic",
    "Microsoft YaHei",
    "PingFang SC",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "IPAexGothic",
    "Noto Sans Devanagari",
    "Nirmala UI",
    "Noto Sans",
    "Arial Unicode MS",
)
SUFFIXES = (".png", ".svg")


def save_heatmap(
    path: Path,
    attention: Attention,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    links: Collection[Link] | None = None,
    possible: Collection[Link] | None = None,
    options: Picture | None = None,
) -> None:
    """Draw attention (T,S) into ``path``, a .png or .svg file, in one piece.

    ``links`` are drawn as squares, ``possible`` ones as dashed squares; a dot is the largest weight
    of each row. The same input gives the same bytes with the same matplotlib and fonts.

    Raises UserError for another suffix, or without matplotlib (``nmtkit[plot]``); ValueError for
    wrong shapes.
    """
    options = options or Picture()
    path = Path(path)
    _check(attention, source_tokens, target_tokens)
    if path.suffix.lower() not in SUFFIXES:
        raise unknown("picture format", path.suffix or path.name, SUFFIXES)
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("pictures need matplotlib: pip install 'nmtkit[plot]'") from None
    sizes = [max(len(tokens), 1) * options.cell + 2 for tokens in (source_tokens, target_tokens)]
    figure = Figure(figsize=(sizes[0], sizes[1]), layout=None)
    FigureCanvasAgg(figure)
    _draw(figure, attention, source_tokens, target_tokens, options)
    _draw_links(figure, attention, set(links or ()), set(possible or ()))
    # SVG keeps text as text, so that the viewer's fonts show what ours cannot.
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "nmtkit"}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support")
        dpi = min(options.dpi, options.pixels / max(sizes))
        picture = path.suffix.lower()[1:]
        metadata = {"Date": None} if picture == "svg" else {}
        with atomic_writer(path, "wb") as file:
            figure.savefig(file, format=picture, dpi=dpi, metadata=metadata, bbox_inches="tight")


def _draw(
    figure: Figure,
    attention: Attention,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    options: Picture,
) -> None:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    fonts = [font for font in FONTS if font in installed] or ["sans-serif"]
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-0.5, max(len(source_tokens), 1) - 0.5)
    axes.set_ylim(max(len(target_tokens), 1) - 0.5, -0.5)
    axes.set_aspect("equal")
    if attention.size:
        shown = np.nan_to_num(np.asarray(attention, dtype=np.float64))
        axes.imshow(shown, cmap=options.colours, vmin=0, vmax=1, interpolation="nearest")
    labels = [
        [_shorten(_visible(token), options.longest_token) for token in tokens]
        for tokens in (source_tokens, target_tokens)
    ]
    axes.set_xticks(range(len(source_tokens)), labels[0], rotation=90)
    axes.set_yticks(range(len(target_tokens)), labels[1])
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(parse_math=False, usetex=False, fontfamily=fonts, fontsize=options.font_size)


def _draw_links(figure: Figure, attention: Attention, sure: set[Link], possible: set[Link]) -> None:
    from matplotlib.patches import Rectangle

    axes = figure.axes[0]
    for style, chosen in (("-", sure), ("--", possible - sure)):
        for source, target in sorted(chosen):
            axes.add_patch(
                Rectangle(
                    (source - 0.45, target - 0.45), 0.9, 0.9, fill=False, ec="C3", ls=style, lw=1.2
                )
            )
    places = [(_largest(weights), target) for target, weights in enumerate(attention)]
    dots = [(source, target) for source, target in places if source >= 0]
    if dots:
        columns, rows = zip(*dots)
        axes.scatter(columns, rows, s=6, color="C0")
