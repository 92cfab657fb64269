"""What a user feels: BLEU over minutes of training, beside other tools.

    python time_to_quality.py TEXT WORK [--peers FOLDER] [--minutes 16] [--plot curve.png]

Each tool trains its small network alone on the machine, and leaves a checkpoint every so many
updates; then each checkpoint translates test_2016_flickr with beam 5. A checkpoint's minutes are
the updates before it at the tool's median speed: time for validation is nobody's. BLEU is of
lowercased tokens. WORK keeps the curves, curves.json: those of earlier runs are drawn too.

All have the same text, sizes, batches, dropout, label smoothing and rate. nmtkit is there once more
at its quickest: a network of less than half the sizes, the authors' own order of attention and
recurrence, target embeddings tied to the output layer, fresh parameters of unit variance, and a
higher rate that falls to nothing, so that its last checkpoint is the one that counts.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from peers import TOOLS, Run, Tool
from sizes import SIZES
from translation_speed import bleu
from watch import rate, run

from nmtkit.files import atomic_writer

GOAL = 37  # BLEU: the dotted line of the plot
EVERY = 363  # updates between checkpoints: an epoch
REPORT = 33  # updates between two lines; JoeyNMT wants a part of EVERY


@dataclass(frozen=True)
class Way:
    """How a tool trains. `updates`: about so many a minute it makes on two cores with AVX-512."""

    tool: str
    updates: int
    rate: float = 1e-3
    more: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    part: float = 1.0  # of the minutes


QUICKEST: dict[str, dict[str, object]] = {
    "model": {
        "order": "groundhog",
        "embedding": 128,
        "encoder_hidden": 128,
        "hidden": 256,
        "attention_units": 128,
        "maxout": 128,
        "tied_embeddings": "target",
        "initialisation": "unit",
        "dropout_readout": 0.3,
    },
    "training": {"schedule": "cosine", "warmup": 200},
}
WAYS = {
    "nmtkit at its quickest": Way("nmtkit", 950, 8e-3, QUICKEST, 0.34),
    "nmtkit, as the others": Way("nmtkit", 310),
    "opennmt": Way("opennmt", 130),
    "joeynmt": Way("joeynmt", 90),
}


def curve(name: str, tool: Tool, given: Run, threads: int) -> list[tuple[float, float]]:
    """(minutes, BLEU) of every checkpoint."""
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    watched = run(tool.train(given), threads, given.folder / "log")
    if watched.status:
        raise SystemExit(f"error: {tool.name} failed: see {given.folder / 'log'}")
    counts = [(tool.updates(line), line) for line in watched.lines]
    speed = rate([(n, line) for n, line in counts if n is not None], REPORT).updates
    points = []
    for updates, checkpoint in sorted(tool.checkpoints(given).items()):
        out = given.folder / f"hypothesis.{updates}"
        command = tool.translate(given, checkpoint, given.text / "test.en", out, 5)
        if run(command, threads, out.with_suffix(".log")).status:
            raise SystemExit(f"error: {tool.name} failed: see {out.with_suffix('.log')}")
        points.append((updates / speed / 60, bleu(tool.output(out), given.text)))
        print(f"{name}\t{points[-1][0]:.2f}\t{points[-1][1]:.2f}", flush=True)
    return points


def plot(curves: dict[str, list[tuple[float, float]]], path: Path) -> None:
    """A line a tool."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for (name, points), marker in zip(curves.items(), "os^Dv", strict=False):
        axes.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=name)
    axes.axhline(GOAL, color="black", linewidth=0.6, linestyle=":")
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("BLEU")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    with atomic_writer(path, "wb") as file:
        figure.savefig(file, format="png", dpi=150)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--peers", type=Path, default=Path("peers"))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument(
        "--minutes",
        type=float,
        default=16,
        help="of each, about; nmtkit at its quickest: a third of them",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    text, work = arguments.text.resolve(), arguments.work.resolve()
    drawn = work / "curves.json"
    curves = json.loads(drawn.read_text(encoding="utf-8")) if drawn.is_file() else {}
    for name in arguments.ways:
        way = WAYS[name]
        tool = TOOLS[way.tool](arguments.peers.resolve())
        tool.install()
        folder = work / f"quality-{re.sub(r'[^a-z]+', '-', name)}"
        updates = EVERY * max(1, round(arguments.minutes * way.part * way.updates / EVERY))
        given = Run(
            text,
            folder,
            SIZES["small"],
            updates,
            report=REPORT,
            every=EVERY,
            dropout=0.2,
            rate=way.rate,
            smoothing=0.1,
            more=way.more,
        )
        curves[name] = curve(name, tool, given, arguments.threads)
        with atomic_writer(drawn) as file:
            json.dump(curves, file)
    if arguments.plot:
        plot(curves, arguments.plot)


if __name__ == "__main__":
    main()
