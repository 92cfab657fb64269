"""nmtkit score. Never imports torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from nmtkit.cli.output import WrongUsage, say, table
from nmtkit.errors import UserError

_TEXT, _LINKS = "Translations", "Links"


def score(
    systems: Annotated[list[str], typer.Argument(help="Hypotheses, or links; - is stdin.")],
    reference: Annotated[
        Path | None, typer.Option(rich_help_panel=_TEXT, help="Reference translations.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_TEXT,
            help="bleu, chrf, chrf++, ter; all but chrf++ unless said. Repeatable.",
        ),
    ] = None,
    tokenize: Annotated[
        str, typer.Option(rich_help_panel=_TEXT, help="BLEU's tokeniser: 13a, intl, none, zh …")
    ] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", rich_help_panel=_TEXT, help="Ignore case.")
    ] = False,
    gold: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_LINKS, help="Gold links: 3-4 sure, 3p4 possible."),
    ] = None,
    one_based: Annotated[
        bool, typer.Option("--one-based", rich_help_panel=_LINKS, help="The gold counts from 1.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", rich_help_panel=_LINKS, help="The gold is target-source.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_LINKS, help="With --target: check that links fit the lines."),
    ] = None,
    target: Annotated[Path | None, typer.Option(rich_help_panel=_LINKS)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score translations (BLEU, chrF, TER) against a reference, or links (AER) against gold."""
    if (reference is None) == (gold is None):
        raise WrongUsage("say either --reference (translations) or --gold (links)")
    if systems.count("-") > 1:
        raise UserError("only one system can be - (stdin)")
    if reference is not None:
        _score_text(systems, reference, metric, tokenize, lowercase, as_json)
    elif gold is not None:
        if (source is None) != (target is None):
            raise UserError("--source and --target go together: links are checked against both")
        _score_links(systems, GoldFile(gold, one_based, swap), source, target, as_json)


def _score_text(
    systems: list[str],
    reference: Path,
    metric: list[str] | None,
    tokenize: str,
    lowercase: bool,
    as_json: bool,
) -> None:
    from nmtkit.corpus import read_lines
    from nmtkit.score import TextOptions, looks_tokenised, score_text

    texts = {name: list(read_lines(name)) for name in systems}
    scores = score_text(
        texts,
        list(read_lines(reference)),
        metric or TextOptions.metrics,
        tokenize,
        lowercase,
        str(reference),
    )
    for name, lines in texts.items():
        if tokenize != "none" and looks_tokenised(lines):
            say(f"warning: {name} looks tokenised: BLEU wants running text (or --tokenize none)")
    if as_json:
        _print_json({name: [s.to_json() for s in row] for name, row in scores.items()})
        return
    first = next(iter(scores.values()))
    rows = [[name, *(f"{s.value:.2f}" for s in row)] for name, row in scores.items()]
    table("", ["system", *(s.name for s in first)], rows, sys.stdout)
    for s in first:
        print(f"{s.name}: {s.signature}")


class GoldFile(NamedTuple):
    """A gold file and how it is to be read."""

    path: Path
    one_based: bool
    swap: bool


def _score_links(
    systems: list[str], gold: GoldFile, source: Path | None, target: Path | None, as_json: bool
) -> None:
    from nmtkit.corpus import read_lines
    from nmtkit.links import check_pairs, read_gold, read_links
    from nmtkit.score import score_links

    scores = {}
    for name in systems:
        links = read_links(name)
        if source and target:
            names = (name, str(source), str(target))
            links = check_pairs(links, read_lines(source), read_lines(target), names)
        correct = read_gold(*gold)
        scores[name] = score_links(links, correct, (name, str(gold.path)))
    if as_json:
        _print_json({name: s.to_json() for name, s in scores.items()})
        return
    rows = [
        [name, *(f"{100 * v:.2f}" for v in (s.aer, s.precision, s.recall, s.f1))]
        for name, s in scores.items()
    ]
    table("", ["links", "AER", "precision", "recall", "F1"], rows, sys.stdout)


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))
