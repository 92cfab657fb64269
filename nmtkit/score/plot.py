"""Scores by source length as a PNG or SVG file, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError, unknown
from nmtkit.files import atomic_writer
from nmtkit.score.lengths import Bucket

SUFFIXES = (".png", ".svg")
BUCKET, HEIGHT, LINE = 0.8, 3.6, 0.22  # inches: width of a bucket, of the axes; a legend's line
NARROWEST, WIDEST = 5, 16  # buckets' widths
MARKERS = "os^Dv*PX"  # told apart without colour too
DPI = 150


def check_plot(path: Path) -> None:
    """Raise UserError for a suffix other than ``SUFFIXES``, and without matplotlib."""
    if path.suffix.lower() not in SUFFIXES:
        raise unknown("picture format", path.suffix or path.name, SUFFIXES)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UserError("pictures need matplotlib: pip install 'nmtkit[plot]'") from None


def plot_by_length(path: Path, systems: Mapping[str, Sequence[Bucket]], metric: str) -> None:
    """Draw a line for every system into ``path``, in one piece: ``metric`` over source length.

    All systems have the same buckets. Under each stands how many sentences it has. The same input
    gives the same bytes with the same matplotlib and fonts. Raises UserError as ``check_plot``.
    """
    check_plot(path)
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = next(iter(systems.values()))
    size = first[0].longest - first[0].shortest + 1  # words a bucket
    span = min(max((first[-1].longest - first[0].longest) // size + 2, NARROWEST), WIDEST)
    # The legend stands below the axes: there it covers no line, however many systems there are.
    height = HEIGHT + LINE * len(systems)
    figure = Figure(figsize=(BUCKET * span + 1, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    lines = []
    for index, row in enumerate(systems.values()):
        places = [bucket.longest for bucket in row]
        marker = MARKERS[index % len(MARKERS)]
        values = [bucket.value for bucket in row]
        lines += axes.plot(places, values, marker=marker, clip_on=False, zorder=3)
    labelled = _apart(first, (first[-1].longest - first[0].longest) / (WIDEST - 1))
    axes.set_xticks([bucket.longest for bucket in labelled], [_label(b) for b in labelled])
    axes.set_xlim(first[0].longest - size / 2, first[-1].longest + size / 2)
    axes.set_xlabel("source length in words (below: sentences)")
    axes.set_ylabel(metric)
    greatest = max(bucket.value for row in systems.values() for bucket in row)
    axes.set_ylim(0, 1.05 * greatest or 1)
    axes.grid(axis="y", linewidth=0.4)
    legend = figure.legend(lines, ["-"] * len(lines), loc="outside lower left", frameon=False)
    # Set afterwards, so that a name may begin with "_" or hold "$".
    for text, name in zip(legend.get_texts(), _short(list(systems)), strict=True):
        text.set(text=name, parse_math=False)
    kind = path.suffix.lower()[1:]
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "nmtkit"}
    metadata = {"Date": None} if kind == "svg" else {}
    with matplotlib.rc_context(settings), atomic_writer(path, "wb") as file:
        figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)


def _apart(row: Sequence[Bucket], least: float) -> list[Bucket]:
    """As many of the buckets, from the first on, as have room for their labels."""
    kept = [row[0]]
    for bucket in row[1:]:
        if bucket.longest - kept[-1].longest >= least:
            kept.append(bucket)
    return kept


def _label(bucket: Bucket) -> str:
    return f"{bucket.shortest}–{bucket.longest}\n{bucket.sentences}"


def _short(names: Sequence[str]) -> list[str]:
    """File names without folders, unless two are then the same."""
    short = [Path(name).name for name in names]
    return short if len(set(short)) == len(names) else list(names)
