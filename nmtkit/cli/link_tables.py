"""The tables of nmtkit score --gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nmtkit.cli.tables import Tables

if TYPE_CHECKING:
    from nmtkit.score import AlignmentScore
    from nmtkit.score.differences import Difference, Marked
    from nmtkit.score.report import SystemReport
    from nmtkit.score.significance import Interval

# ... a sure link, a possible one as talp has it, a wrong one
MARKS = {"sure": "-", "possible": "p", "wrong": "x"}


def print_report(systems: Sequence[SystemReport], tables: Tables) -> None:
    """All tables that the reports have something for."""
    _print_scores(systems, tables)
    for one in systems:
        if one.differences is not None:
            _print_differences(one, one.differences, tables)
    if systems[0].errors is not None:
        _print_kinds(systems, tables)
        _print_classes(systems, tables)


def _print_scores(systems: Sequence[SystemReport], tables: Tables) -> None:
    columns = ["links", "AER", "precision", "recall", "F1", "links/sentence"]
    if systems[0].aer_interval is not None:
        columns += ["AER 95 %"]
    if len(systems) > 1 and systems[1].paired is not None:
        columns += ["difference", "95 %", "p"]
    rows = [_score_row(one) for one in systems]
    tables.table("", columns, [row + [""] * (len(columns) - len(row)) for row in rows])
    interval = systems[0].aer_interval
    if interval is not None:
        tables.note(
            f"95 %: bootstrap over {systems[0].score.sentences} sentence pairs, "
            f"{interval.resamples} resamples, seed {interval.seed}"
        )
    if len(systems) > 1 and systems[1].paired is not None:
        test = systems[1].paired.test
        tables.note(f"difference: AER minus that of {systems[0].name}; p: paired {test}, two-sided")


def _score_row(one: SystemReport) -> list[str]:
    score = one.score
    row = [one.name, *map(_percent, (score.aer, score.precision, score.recall, score.f1))]
    row.append(f"{score.links_per_sentence:.2f}")
    if one.aer_interval is not None:
        row.append(_limits(one.aer_interval))
    if one.paired is not None:
        paired = one.paired
        row += [f"{100 * paired.difference:+.2f}", _limits(paired.interval), f"{paired.p:.4f}"]
    return row


def _print_differences(one: SystemReport, found: Sequence[Difference], tables: Tables) -> None:
    names = one.baseline, one.name
    columns = ["sentence", *(f"{name}: AER" for name in names), *(f"only {name}" for name in names)]
    rows = [
        [
            str(each.sentence.number),
            *(_with_errors(score) for score in each.scores),
            *(_listed(each, links) for links in each.only),
        ]
        for each in found
    ]
    title = "Sentences that differ most (3-4 sure, 3p4 possible, 3x4 wrong)"
    tables.table(title, columns, rows)


def _listed(difference: Difference, links: Marked) -> str:
    lines = []
    for link, mark in links.items():
        words = difference.words(link)
        text = f"{link[0]}{MARKS[mark]}{link[1]}"
        lines.append(f"{text} {words[0]} / {words[1]}" if words else text)
    return ("\n" if difference.sentence.source else " ").join(lines)


def _print_kinds(systems: Sequence[SystemReport], tables: Tables) -> None:
    found = [one.errors for one in systems if one.errors is not None]
    rows = []
    for kind in found[0].wrong:
        rows.append([f"wrong: {kind}", *(str(errors.wrong[kind]) for errors in found)])
    for kind in found[0].missed:
        rows.append([f"missed: {kind}", *(str(errors.missed[kind]) for errors in found)])
    title = "Errors: wrong links, and sure links missed"
    tables.table(title, ["kind", *(one.name for one in systems)], rows)


def _print_classes(systems: Sequence[SystemReport], tables: Tables) -> None:
    found = [one.errors.classes for one in systems if one.errors is not None]
    rows = [
        [
            f"{classifier}: {label}",
            str(score.sure),
            *(_with_errors(c[classifier][label]) for c in found),
        ]
        for classifier, scores in found[0].items()
        for label, score in scores.items()
        if any(c[classifier][label].links + score.possible for c in found)
    ]
    title = "AER of every class of links (wrong + missed)"
    tables.table(title, ["class", "sure", *(one.name for one in systems)], rows)


def _with_errors(score: AlignmentScore) -> str:
    return f"{_percent(score.aer)} ({score.wrong} + {score.missed})"


def _percent(rate: float) -> str:
    return f"{100 * rate:.2f}"


def _limits(interval: Interval) -> str:
    return f"{_percent(interval.low)} to {_percent(interval.high)}"
