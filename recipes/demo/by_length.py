"""BLEU by source length, as in the paper's figure 2: a table on stdout and a plot.

by_length.py --source long.en --reference long.fr --plot by_length.png NAME=HYPOTHESIS …
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError
from nmtkit.score import score_text

WIDTH = 10  # source words a bucket


def buckets(lines: list[str]) -> dict[int, list[int]]:
    """The greatest length of every bucket -> the lines whose source falls into it, in order."""
    found: dict[int, list[int]] = {}
    for index, line in enumerate(lines):
        words = len(line.split())
        found.setdefault(max(1, -(-words // WIDTH)) * WIDTH, []).append(index)
    return dict(sorted(found.items()))


def bleu(hypotheses: list[str], references: list[str], rows: list[int]) -> float:
    """Corpus BLEU of the given lines."""
    chosen = {"": [hypotheses[row] for row in rows]}
    return score_text(chosen, [references[row] for row in rows], ["bleu"])[""][0].value


def plot(curves: dict[str, dict[int, float]], path: Path) -> None:
    """One line a system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, curve in curves.items():
        axes.plot(list(curve), list(curve.values()), marker="o", label=name)
    axes.set(xlabel="source words, up to", ylabel="BLEU", ylim=(0, 100))
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Read the arguments, score, print, plot."""
    parser = argparse.ArgumentParser(description="BLEU by source length.")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--plot", type=Path, required=True)
    parser.add_argument("systems", nargs="+", metavar="NAME=HYPOTHESIS")
    arguments = parser.parse_args()
    places = buckets(list(read_lines(arguments.source)))
    references = list(read_lines(arguments.reference))
    curves: dict[str, dict[int, float]] = {}
    for system in arguments.systems:
        name, _, path = system.partition("=")
        lines = list(read_lines(path))
        if len(lines) != len(references):
            raise UserError(
                f"{path} has {len(lines)} lines, {arguments.reference} has another number"
            )
        curves[name] = {top: bleu(lines, references, rows) for top, rows in places.items()}
    print("\t".join(["words up to", "pairs", *curves]))
    for top, rows in places.items():
        print("\t".join([f"{top}", f"{len(rows)}", *(f"{c[top]:.2f}" for c in curves.values())]))
    plot(curves, arguments.plot)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"by_length.py: {error}")
