"""nmtkit score --reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.cli.output import STREAM, check_outputs, say
from nmtkit.cli.tables import Tables, print_json
from nmtkit.errors import UserError

if TYPE_CHECKING:
    from nmtkit.score import TextOptions, Texts
    from nmtkit.score.paired import Trials
    from nmtkit.score.text_report import Scored, TextReportOptions

    Report = Mapping[str, Sequence[Scored]]


@dataclass(frozen=True)
class TextFiles:
    """What to compare, and what is made of it."""

    systems: list[str]
    reference: str
    source: str | None
    known_to: Path | None  # a model: only sentences without words that it does not know
    plot: Path | None
    comet: Path | None = None  # its checkpoint

    def read(self) -> Texts:
        """All lines of all files."""
        from nmtkit.corpus import read_lines
        from nmtkit.score import Texts

        names = [*self.systems, self.reference, *([self.source] if self.source else [])]
        if names.count(STREAM) > 1:
            raise UserError("only one file can be - (stdin)")
        texts = Texts(
            {name: list(read_lines(name)) for name in self.systems},
            list(read_lines(self.reference)),
            None if self.source is None else list(read_lines(self.source)),
            self.reference,
            self.source or "",
        )
        texts.check()
        return texts

    def check_plot(self) -> None:
        """UserError before the work for a picture that could not be written after it."""
        if self.plot is not None:
            from nmtkit.score.plot import check_plot

            check_plot(self.plot)
            read = [*self.systems, self.reference, self.source]
            check_outputs([str(self.plot)], read, [self.known_to, self.comet])


def text_options(metric: list[str] | None, tokenize: str, lowercase: bool) -> TextOptions:
    """How the command says to compare."""
    from nmtkit.score import TextOptions

    metrics = tuple(dict.fromkeys(metric)) if metric else TextOptions.metrics
    return TextOptions(metrics, tokenize, lowercase)


def trials(bootstrap: int | None, randomisation: int | None, seed: int | None) -> Trials:
    """The tests that the command asks for."""
    from nmtkit.score.paired import SEED, Trials

    return Trials(bootstrap, randomisation, SEED if seed is None else seed)


def gpus(device: str) -> int:
    """How many GPUs COMET may take. Loads torch, as COMET itself does."""
    from nmtkit import device as devices

    return int(devices.resolve(device).type == "cuda")


def score_texts(files: TextFiles, options: TextReportOptions, tables: Tables | None) -> None:
    """Print the scores of all systems: in tables, or as JSON; and draw the plot."""
    from nmtkit.score import looks_tokenised
    from nmtkit.score.known import without_unknown
    from nmtkit.score.text_report import report_text

    files.check_plot()
    texts = files.read()
    read = len(texts.references)
    for name, lines in texts.systems.items():
        if options.text.tokenize != "none" and looks_tokenised(lines):
            say(f"warning: {name} looks tokenised: BLEU wants running text (or --tokenize none)")
    if files.known_to is not None:
        texts = without_unknown(texts, files.known_to)
    found = report_text(texts, options)
    if tables is None:
        print_json({name: [one.to_json() for one in row] for name, row in found.items()})
    else:
        _print_scores(found, tables)
        if files.known_to is not None:
            kept = len(texts.references)
            tables.note(f"{kept} of {read} sentences: without words unknown to {files.known_to}")
        _print_lengths(found, tables)
    if files.plot is not None:
        from nmtkit.score.plot import plot_by_length

        rows = {name: row[0].by_length or () for name, row in found.items()}
        plot_by_length(files.plot, rows, next(iter(found.values()))[0].score.name)


def _print_scores(found: Report, tables: Tables) -> None:
    """One table; with tests one for every metric that has them, and one for those that have none.

    The signatures stand below.
    """
    first = next(iter(found.values()))
    tested = [column for column, one in enumerate(first) if one.tests]
    plain = [column for column, one in enumerate(first) if not one.tests]
    for column in tested:
        _print_tests({name: row[column] for name, row in found.items()}, tables)
    if plain:
        rows = [[name, *(row[n].score.printed() for n in plain)] for name, row in found.items()]
        tables.table("", ["system", *(first[n].score.name for n in plain)], rows)
    for one in first:
        for test, result in one.tests.items():
            tables.note(f"{one.score.name}, {test}: {result.signature}")
        if not one.tests:
            tables.note(f"{one.score.name}: {one.score.signature}")
    if tested and len(found) > 1:
        tables.note(f"p: of the difference from {next(iter(found))}, paired, two-sided")


def _print_tests(found: Mapping[str, Scored], tables: Tables) -> None:
    """One metric: every system with its interval and the p-value of every test."""
    first = next(iter(found.values()))
    columns = ["system", first.score.name]
    interval = any(tested.ci is not None for tested in first.tests.values())
    columns += ["mean ± 95 %"] if interval else []
    columns += [f"p ({test})" for test in first.tests] if len(found) > 1 else []
    rows = []
    for name, one in found.items():
        row = [name, one.score.printed()]
        for tested in one.tests.values():
            if tested.ci is not None:
                row.append(f"{tested.mean:.2f} ± {tested.ci:.2f}")
        row += ["" if t.p is None else f"{t.p:.4f}" for t in one.tests.values()]
        rows.append(row[: len(columns)])
    tables.table("", columns, rows)


def _print_lengths(found: Report, tables: Tables) -> None:
    lengths = {name: row[0].by_length for name, row in found.items()}
    buckets = {name: row for name, row in lengths.items() if row is not None}
    if not buckets:
        return
    first = next(iter(buckets.values()))
    rows = [
        [
            f"{bucket.shortest}–{bucket.longest}",
            str(bucket.sentences),
            *(f"{row[n].value:.2f}" for row in buckets.values()),
        ]
        for n, bucket in enumerate(first)
    ]
    metric = next(iter(found.values()))[0].score.name
    tables.table(f"{metric} by source length", ["words", "sentences", *buckets], rows)
