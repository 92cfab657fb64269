"""The heat map as a PNG or SVG file, drawn by matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmtkit.errors import UserError, unknown
from nmtkit.files import atomic_writer
from nmtkit.heatmap.fonts import families, laid_out, warn_of_missing
from nmtkit.heatmap.tokens import (
    Attention,
    Link,
    cells_wide,
    check_shape,
    largest_column,
    right_to_left,
    shorten,
    visible,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """The look of a picture. ``cell`` is in inches; ``pixels`` bounds the longer side of a PNG.

    ``slant`` is the angle of source words that are wider than their column. ``colours`` is a
    matplotlib colour map from 0 to 1: as in the paper black is 0; "Greys" is for printing.
    """

    cell: float = 0.3
    font_size: float = 9.0
    slant: float = 60.0
    dpi: float = 150.0
    pixels: int = 16_000
    colours: str = "gray"
    longest_token: int = 30


SUFFIXES = (".png", ".svg")
LINK_COLOUR, LARGEST_COLOUR, GRID_COLOUR, BAD_COLOUR = "#e6194b", "#0057d8", "#808080", "#ffe119"
POINTS = 72  # an inch
ADVANCE = 0.6  # width of a letter, at the most, by its font size; a wide character fills two
RIGHT_TO_LEFT = "\u200f"  # the mark: invisible, no width


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

    Source words stand on top and target words at the left, both in the order of their positions,
    in right-to-left scripts too; black is 0 and white 1 (Bahdanau et al., 2015, figure 3).
    ``links`` are drawn as squares, ``possible`` ones as dashed squares; a dot is the largest weight
    of each row. What is not a number is yellow. The same input gives the same bytes with the same
    matplotlib and fonts.

    Warns with ``MissingGlyphs`` for a PNG of characters that no font has. Raises UserError for
    another suffix, or without matplotlib (``nmtkit[plot]``); ValueError for wrong shapes.
    """
    options = options or Picture()
    path = Path(path)
    check_shape(attention, source_tokens, target_tokens)
    if path.suffix.lower() not in SUFFIXES:
        raise unknown("picture format", path.suffix or path.name, SUFFIXES)
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("pictures need matplotlib: pip install 'nmtkit[plot]'") from None
    kind = path.suffix.lower()[1:]
    sides = [[_label(t, kind, options) for t in side] for side in (source_tokens, target_tokens)]
    fonts, missing = families(label for side in sides for label in side)
    if kind == "png":  # SVG keeps text as text, so that the viewer's fonts show what ours cannot
        warn_of_missing(missing)
    sizes = [max(len(labels), 1) * options.cell for labels in sides]
    figure = Figure(figsize=(sizes[0], sizes[1]), layout=None)
    FigureCanvasAgg(figure)
    axes = _draw(figure, attention, options)
    _draw_words(axes, sides, fonts, options)
    _draw_links(axes, attention, set(links or ()), set(possible or ()))
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "nmtkit"}
    with warnings.catch_warnings(), matplotlib.rc_context(settings):
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")  # said already
        warnings.filterwarnings("ignore", message=r"Matplotlib currently does not support")
        dpi = min(options.dpi, options.pixels / (max(sizes) + 2))
        metadata = {"Date": None} if kind == "svg" else {}
        with atomic_writer(path, "wb") as file:
            figure.savefig(file, format=kind, dpi=dpi, metadata=metadata, bbox_inches="tight")


def _label(token: str, kind: str, options: Picture) -> str:
    """The token as it is handed to matplotlib."""
    label = shorten(visible(token), options.longest_token)
    if not right_to_left(label):
        return label
    # Marks make a viewer take its first and last punctuation for a part of the word.
    return f"{RIGHT_TO_LEFT}{label}{RIGHT_TO_LEFT}" if kind == "svg" else laid_out(label)


def _draw(figure: Figure, attention: Attention, options: Picture) -> Axes:
    """The weights, and thin lines between the cells."""
    from matplotlib import colormaps

    targets, sources = (max(length, 1) for length in attention.shape)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-0.5, sources - 0.5)
    axes.set_ylim(targets - 0.5, -0.5)
    axes.set_aspect("equal")
    if attention.size:
        colours = colormaps[options.colours].with_extremes(bad=BAD_COLOUR)
        shown = np.ma.masked_invalid(np.asarray(attention, dtype=np.float64))
        axes.imshow(shown, cmap=colours, vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks(np.arange(1, sources) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, targets) - 0.5, minor=True)
    axes.grid(which="minor", color=GRID_COLOUR, linewidth=0.3)
    axes.tick_params(which="minor", length=0)
    return axes


def _draw_words(axes: Axes, sides: list[list[str]], fonts: list[str], options: Picture) -> None:
    """Source words on top, slanted if one is wider than its column; target words at the left."""
    widest = max(map(cells_wide, sides[0]), default=0) * ADVANCE * options.font_size / POINTS
    axes.set_xticks(range(len(sides[0])), sides[0])
    axes.set_yticks(range(len(sides[1])), sides[1])
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    if widest > options.cell:
        for label in axes.get_xticklabels():
            label.set(rotation=options.slant, rotation_mode="anchor", ha="left", va="center")
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(parse_math=False, usetex=False, fontfamily=fonts, fontsize=options.font_size)


def _draw_links(axes: Axes, attention: Attention, sure: set[Link], possible: set[Link]) -> None:
    from matplotlib.patches import Rectangle

    for style, chosen in (("-", sure), ((0, (2, 1.2)), possible - sure)):
        for source, target in sorted(chosen):
            corner = source - 0.42, target - 0.42
            axes.add_patch(
                Rectangle(corner, 0.84, 0.84, fill=False, ec=LINK_COLOUR, ls=style, lw=1.4)
            )
    places = [(largest_column(weights), target) for target, weights in enumerate(attention)]
    dots = [(source, target) for source, target in places if source >= 0]
    if dots:
        columns, rows = zip(*dots)
        axes.scatter(columns, rows, s=10, c=LARGEST_COLOUR, edgecolors="white", lw=0.6, zorder=3)
