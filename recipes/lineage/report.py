"""The tables of the lineage, from what the recipe has made.

    python report.py OUT --ablations ablations.tsv [--readme README.md] [--plot ablations.png]

OUT holds models/CORPUS/SYSTEM/, output/CORPUS/SYSTEM.json (nmtkit score --json --by-length), and
SYSTEM.ROWS.aer beside it for the systems that align. Prints the tables as Markdown; with --readme
they take the place of what stands there between the two marks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nmtkit.checkpoint import WEIGHTS, read_tensors
from nmtkit.curves import METRICS
from nmtkit.device import resolve
from nmtkit.errors import UserError
from nmtkit.files import atomic_writer

SYSTEMS = ("rnnencdec", "seq2seq", "rnnsearch", "luong", "gnmt", "transformer", "copying")
ROWS = ("predicting", "consumed")
MARKS = ("<!-- made by make readme -->", "<!-- end -->")


class Run(NamedTuple):
    """What one system cost, and what it is worth."""

    name: str
    parameters: int
    minutes: float
    updates: int
    loss: float  # of the validation text, nats a subword, where BLEU was best
    scores: dict[str, Any]  # by metric, as nmtkit score has them
    aer: dict[str, float]  # by row reading; empty where nothing aligns


def records(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def read_run(out: Path, corpus: str, system: str) -> Run:
    """One system's figures; UserError when it has not been run to its end."""
    folder = out / "models" / MODELS_OF.get(corpus, corpus) / system
    result = out / "output" / corpus / system
    try:
        found = records(folder / METRICS)
        last = next(one for one in reversed(found) if one.get("finished"))
        best = next(
            one for one in found if one.get("update") == last["best_update"] and "best" in one
        )
        (scores,) = json.loads(result.with_suffix(".json").read_text(encoding="utf-8")).values()
        aer = {}
        for rows in ROWS:
            path = result.with_suffix(f".{rows}.aer")
            if path.is_file():
                (links,) = json.loads(path.read_text(encoding="utf-8")).values()
                aer[rows] = 100 * links["aer"]
    except (OSError, StopIteration) as error:
        raise UserError(f"{result}: not made yet ({error}): run make lineage ablations") from error
    tensors = read_tensors(folder / WEIGHTS, resolve("cpu")).values()
    parameters = sum(tensor.numel() for tensor in tensors if tensor.is_floating_point())
    by_metric = {score["name"]: score for score in scores}
    minutes, updates = last["minutes"], last["updates"]
    return Run(system, parameters, minutes, updates, best["valid_loss"], by_metric, aer)


def trials(out: Path) -> str:
    """Dev loss of the short runs, a column a learning rate; empty when there are none."""
    folder = out / "models" / "rates"
    found: dict[tuple[str, str], float] = {}
    for path in folder.glob(f"*@*/{METRICS}"):
        system, _, rate = path.parent.name.partition("@")
        losses = [one["valid_loss"] for one in records(path) if "valid_loss" in one]
        if losses:
            found[system, rate] = losses[-1]
    rates = sorted({rate for _, rate in found}, key=float)
    rows = [
        [name, *(f"{found[name, rate]:.3f}" if (name, rate) in found else "–" for rate in rates)]
        for name in SYSTEMS
    ]
    return table(["", *rates], rows) if found else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the first column is words, the others numbers."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def costs(run: Run) -> list[str]:
    """Millions of parameters, minutes, updates, dev loss."""
    return [
        f"{run.parameters / 1e6:.2f}",
        f"{run.minutes:.1f}",
        str(run.updates),
        f"{run.loss:.3f}",
    ]


KEPT = "41–50 of 11–20, %"
COSTS = ["parameters, M", "minutes", "updates", "dev loss"]


def lineage(runs: Sequence[Run]) -> str:
    """BLEU, chrF, BLEU by source length and what is kept of it, AER where there is any."""
    lengths = runs[0].scores["BLEU"]["by_length"]
    buckets = [f"{b['shortest']}–{b['longest']} ({b['sentences']})" for b in lengths]
    rows = [row for row in ROWS if any(row in run.aer for run in runs)]
    kept = [KEPT] if share_kept(lengths) else []
    header = ["", *COSTS, "BLEU", "chrF2", *buckets, *kept, *(f"AER, {row}" for row in rows)]
    lines = []
    for run in runs:
        bleu = run.scores["BLEU"]
        lines.append(
            [run.name, *costs(run), f"{bleu['value']:.2f}", f"{run.scores['chrF2']['value']:.2f}"]
            + [f"{bucket['value']:.1f}" for bucket in bleu["by_length"]]
            + share_kept(bleu["by_length"])
            + [f"{run.aer[row]:.1f}" if row in run.aer else "–" for row in rows]
        )
    return table(header, lines)


def share_kept(buckets: Sequence[dict[str, Any]]) -> list[str]:
    """Percent of the BLEU of sentences of 11 to 20 words that is left at 41 to 50."""
    by_length = {bucket["shortest"]: bucket["value"] for bucket in buckets}
    if 11 not in by_length or 41 not in by_length:
        return []
    return [f"{100 * by_length[41] / by_length[11]:.0f}" if by_length[11] else "–"]


def ablations(runs: Sequence[Run], settings: dict[str, str]) -> str:
    """The second: what each change of RNNsearch costs or brings, against the first run."""
    whole = runs[0].scores["BLEU"]["value"]
    lines = []
    for run in runs:
        bleu = run.scores["BLEU"]["value"]
        difference = "" if run is runs[0] else f"{bleu - whole:+.2f}"
        name = f"{run.name.removeprefix('rnnsearch-')} {code(settings[run.name])}".strip()
        chrf = f"{run.scores['chrF2']['value']:.2f}"
        lines.append([name, *costs(run), f"{bleu:.2f}", difference, chrf])
    return table(["", *COSTS, "BLEU", "difference", "chrF2"], lines)


def code(settings: str) -> str:
    """`a=b` for every setting."""
    return " ".join(f"`{one.removeprefix('model.')}`" for one in settings.split())


def plot(runs: Sequence[Run], path: Path) -> None:
    """BLEU of every part left out or changed, as bars."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 0.28 * len(runs) + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    values = [run.scores["BLEU"]["value"] for run in runs]
    bars = axes.barh([run.name.removeprefix("rnnsearch-") for run in runs], values, height=0.6)
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.axvline(values[0], color="black", linewidth=0.6, linestyle=":")
    axes.set_xlim(0, 1.12 * max(values) or 1)
    axes.invert_yaxis()
    axes.set_xlabel("BLEU")
    axes.spines[["top", "right"]].set_visible(False)
    with atomic_writer(path, "wb") as file:
        figure.savefig(file, format="png", dpi=150)


TITLES = {
    "captions": "### Multi30k, English to German",
    "joined": "### Multi30k, one to four captions a line",
    "debates": "### Hansards, English to French, one to four sentences a line",
    "sentences": "### Hansards, sentences as they are, by the same models",
}
MODELS_OF = {"sentences": "debates"}  # texts that another's models translate

LONG = ("joined", "debates", "sentences")  # those with a picture of BLEU by length


def sections(out: Path, parts: Sequence[Run], settings: dict[str, str]) -> str:
    """All tables; a corpus that nothing has been made of yet is left out."""
    found = []
    for corpus, title in TITLES.items():
        if (out / "output" / corpus).is_dir():
            found += [title, lineage([read_run(out, corpus, name) for name in SYSTEMS])]
            if corpus in LONG:
                found.append(f"![BLEU by source length]({corpus}-by-length.png)")
    if rates := trials(out):
        found += ["### Learning rates (Multi30k, dev loss after the short runs)", rates]
    title = "### Parts of RNNsearch (Multi30k, English to German)"
    found += [title, ablations(parts, settings), "![BLEU of every variant](ablations.png)"]
    return "\n\n".join(found)


def put(readme: Path, text: str) -> None:
    """The text between the marks; UserError when they are not there."""
    old = readme.read_text(encoding="utf-8")
    before, mark, rest = old.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (mark and end):
        raise UserError(f"{readme}: the marks {MARKS[0]} and {MARKS[1]} are missing")
    with atomic_writer(readme) as file:
        file.write(f"{before}{mark}\n\n{text}\n\n{end}{after}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ablations", type=Path, required=True)
    parser.add_argument("--readme", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    lines = arguments.ablations.read_text(encoding="utf-8").split("\n")
    settings = {
        f"rnnsearch-{name}": what for name, _, what in (x.partition("\t") for x in lines if x)
    }
    try:
        parts = [read_run(arguments.out, "captions", name) for name in settings]
        if arguments.plot:
            plot(parts, arguments.plot)
            return
        text = sections(arguments.out, parts, settings)
        if arguments.readme:
            put(arguments.readme, text)
        else:
            print(text)
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
