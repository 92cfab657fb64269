"""Translation: sentences a second at equal model and BLEU, beside other tools.

    python translation_speed.py TEXT WORK [--peers FOLDER] [--updates 1100] [--beam 5] [--rounds 3]

Trains each tool's small network for so many updates (once; it is kept in WORK), and then lets the
tools translate test_2016_flickr in turn. The time of one sentence alone, start and loading, is
subtracted from the time of the whole file. BLEU is of lowercased tokens, as they are.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from peers import TOOLS, Run, Tool
from sizes import SIZES
from watch import run

from nmtkit.corpus import read_lines
from nmtkit.score import score_text

#: nmtkit's ways to translate: options of the command. LEXICON stands for an ibm1 model's table.
LEXICON = "LEXICON"
WAYS: dict[str, Sequence[str]] = {
    "": (),
    "2 workers": ("--workers", "2"),
    "shortlist, 2 workers": ("--shortlist", LEXICON, "--workers", "2"),
    "int8": ("--int8",),
    "int8, 2 workers": ("--int8", "--workers", "2"),
    "int8, shortlist, 2 workers": ("--int8", "--shortlist", LEXICON, "--workers", "2"),
}


def bleu(hypotheses: list[str], text: Path) -> float:
    """Of test, lowercased tokens."""
    references = list(read_lines(text / "test.tok.de"))
    return score_text({"": hypotheses}, references, ["bleu"], tokenize="none")[""][0].value


def trained(tool: Tool, text: Path, work: Path, size: str, updates: int, threads: int) -> Run:
    """The run of a network that has been trained; trains it when it has not."""
    folder = work / f"{tool.name}-{size}-{updates}"
    given = Run(text, folder, SIZES[size], updates, 50, every=updates, dropout=0.2, rate=1e-3)
    if updates not in tool.checkpoints(given):
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
        folder.mkdir(parents=True)
        if run(tool.train(given), threads, folder / "log").status:
            raise SystemExit(f"error: {tool.name} failed: see {folder / 'log'}")
    return given


def lexicon(text: Path, work: Path) -> Path:
    """The table of an ibm1 model of the text; trains it when there is none."""
    folder = work / "ibm1"
    if not (folder / "lex.tsv").is_file():
        command = [sys.executable, "-m", "nmtkit", "train", str(text / "prepared")]
        subprocess.run([*command, "--arch", "ibm1", "--out", str(folder)], check=True)
    return folder / "lex.tsv"


def seconds(
    tool: Tool, given: Run, source: Path, out: Path, beam: int, threads: int, way: Sequence[str]
) -> float:
    """How long the whole process took."""
    checkpoint = tool.checkpoints(given)[given.updates]
    command = [*tool.translate(given, checkpoint, source, out, beam), *way]
    watched = run(command, threads, out.with_suffix(".log"))
    if watched.status:
        raise SystemExit(f"error: {tool.name} failed: see {out.with_suffix('.log')}")
    return watched.seconds


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--peers", type=Path, default=Path("peers"))
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--updates", type=int, default=1100)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    text, work = arguments.text.resolve(), arguments.work.resolve()
    one = text / "one.en"
    for kind in ("", ".tok"):
        first = next(iter(read_lines(text / f"test{kind}.en")))
        (text / f"one{kind}.en").write_text(f"{first}\n", encoding="utf-8")
    systems = []
    for name in arguments.tools:
        tool = TOOLS[name](arguments.peers.resolve())
        tool.install()
        given = trained(tool, text, work, arguments.size, arguments.updates, arguments.threads)
        ways: dict[str, Sequence[str]] = {"": ()}
        if name == "nmtkit":
            table = str(lexicon(text, work))
            ways = {
                way: [table if one == LEXICON else one for one in options]
                for way, options in WAYS.items()
            }
        systems += [(f"{name} {way}".strip(), tool, given, ways[way]) for way in ways]
    speeds: dict[str, list[float]] = {name: [] for name, *_ in systems}
    found = {}
    for _ in range(arguments.rounds):
        for name, tool, given, way in systems:
            stem = re.sub(r"\W+", "-", name)
            outs = [given.folder / f"{stem}.{part}" for part in ("one", "test")]
            files = [one, text / "test.en"]
            start, whole = (
                seconds(tool, given, source, out, arguments.beam, arguments.threads, way)
                for source, out in zip(files, outs, strict=True)
            )
            hypotheses = tool.output(outs[1])
            speeds[name].append((len(hypotheses) - 1) / (whole - start))
            found[name] = bleu(hypotheses, text)
    slowest = min(statistics.median(one) for one in speeds.values())
    print("system\tsentences/s\tlowest\thighest\t× the slowest\tBLEU")
    for name, rates in speeds.items():
        speed = statistics.median(rates)
        print(
            f"{name}\t{speed:.1f}\t{min(rates):.1f}\t{max(rates):.1f}\t{speed / slowest:.2f}"
            f"\t{found[name]:.2f}"
        )


if __name__ == "__main__":
    main()
