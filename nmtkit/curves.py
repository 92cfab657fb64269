"""The curves of training runs, drawn from metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmtkit.errors import UserError, unknown
from nmtkit.files import atomic_writer, reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = "metrics.jsonl"
SUFFIXES = (".png", ".svg")
LARGEST = 1e30  # figure that is drawn
MANY = 30  # points of a line, beyond which they are not marked one by one
#: The panels from top to bottom: what the axis is called, and the figures drawn in it.
PANELS: dict[str, dict[str, str]] = {
    "loss, nats a target subword": {
        "train_loss": "training",
        "valid_loss": "validation",
    },
    "validation BLEU": {"valid_bleu": "validation"},
    "validation AER, %": {"valid_aer": "validation"},
}
Series = tuple[list[float], list[float]]
Record = Mapping[str, Any]


def read_metrics(folder: Path) -> list[Record]:
    """The records of a model directory's metrics.jsonl; UserError when it cannot be read."""
    path = folder / METRICS
    try:
        with reading("read", path) as file:
            lines = file.read().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: {error}") from error
    records: list[Record] = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise UserError(f"{path}:{number}: not a JSON object: the file was changed")
        records.append(record)
    return records


def series(records: Sequence[Record], name: str) -> Series:
    """The values of a figure, and the update (or pass) of each. Not finite ones are left out."""
    found = [
        (step, value)
        for record in records
        if "finished" not in record
        and (step := _finite(record.get("update", record.get("epoch")))) is not None
        and (value := _finite(record.get(name))) is not None
    ]
    return [step for step, _ in found], [value for _, value in found]


def _finite(value: object) -> float | None:
    """A number that can be drawn; None for anything else that JSON may have there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= LARGEST else None


def check_picture(path: Path) -> None:
    """UserError when `save_curves` cannot draw into a file of this name; before a long run."""
    if path.suffix.lower() not in SUFFIXES:
        raise unknown("picture format", path.suffix or path.name, SUFFIXES)
    if find_spec("matplotlib") is None:
        raise UserError("pictures need matplotlib: pip install 'nmtkit[plot]'")


def save_curves(path: Path, folders: Sequence[Path], dpi: int = 150) -> None:
    """Draw the metrics of one or several model directories into a .png or .svg file.

    One panel for the losses, one each for BLEU and AER on the validation set where there are any,
    above one axis of updates (for a statistical aligner: passes). A ring is the model that is kept.
    Raises UserError for another suffix, without matplotlib, or when there is nothing to draw.
    """
    check_picture(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    runs = {str(folder): read_metrics(folder) for folder in folders}
    panels = [
        panel
        for panel, figures in PANELS.items()
        if any(series(records, name)[0] for records in runs.values() for name in figures)
    ]
    if not panels:
        raise UserError(f"{folders[0] / METRICS}: no figures yet to draw")
    figure = Figure(figsize=(7.0, 0.9 + 2.6 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(rows, panels, strict=True):
        _draw(axes, runs, panel)
    passes = all("update" not in record for records in runs.values() for record in records[:1])
    rows[-1].set_xlabel("passes" if passes else "updates")
    if len(runs) == 1:
        rows[0].set_title(next(iter(runs)), fontsize="medium", parse_math=False)
    with atomic_writer(path, "wb") as file:
        figure.savefig(file, format=path.suffix.lower()[1:], dpi=dpi)


def _draw(axes: Axes, runs: Mapping[str, Sequence[Record]], panel: str) -> None:
    """A panel: a colour for every run, training dashed where validation is drawn too."""
    figures = PANELS[panel]
    names = [name for name in figures if any(series(r, name)[0] for r in runs.values())]
    for number, (run, records) in enumerate(runs.items()):
        whose = [run] if len(runs) > 1 else []
        for name in names:
            steps, values = series(records, name)
            if not steps:
                continue
            label = " ".join([*whose, *([figures[name]] if len(names) > 1 else [])])
            dashed = name == "train_loss" and len(names) > 1
            line = "--" if dashed else "-"
            mark = "" if dashed or len(steps) > MANY else "."
            axes.plot(steps, values, line, marker=mark, color=f"C{number}", label=label or None)
            best = series([r for r in records if r.get("best")], name)
            if best[0]:
                kept = " ".join([*whose, f"kept: {best[1][-1]:.4g}"])
                ring: dict[str, Any] = {"marker": "o", "markersize": 9, "fillstyle": "none"}
                place = best[0][-1:], best[1][-1:]
                axes.plot(*place, color=f"C{number}", linestyle="", label=kept, **ring)
    axes.set_ylabel(panel)
    axes.grid(alpha=0.3)
    axes.margins(x=0.02)
    if axes.get_legend_handles_labels()[1]:
        for text in axes.legend(fontsize="small").get_texts():
            text.set_parse_math(False)
