"""nmtkit score. Without --model it never imports torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from nmtkit.cli.output import WrongUsage, bar, in_pairs, say, table
from nmtkit.errors import UserError

_TEXT, _LINKS, _PAIRS = "Translations", "Links", "Given pairs"


def score(
    systems: Annotated[
        list[str] | None, typer.Argument(help="Hypotheses, or links; - is stdin.")
    ] = None,
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
    model: Annotated[
        list[Path] | None,
        typer.Option(
            rich_help_panel=_PAIRS,
            help="Log-probability of every pair, in nats. Repeatable: an ensemble.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_PAIRS, help="For --model, raw; with --gold: do links fit the lines?"
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(rich_help_panel=_PAIRS, help="Likewise.")] = None,
    device: Annotated[
        str, typer.Option(rich_help_panel=_PAIRS, help="auto, cpu or cuda.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score translations (BLEU, chrF, TER), links (AER), or pairs by a model's log-probability."""
    if sum(what is not None for what in (reference, gold, model)) != 1:
        raise WrongUsage("say one of --reference (translations), --gold (links), --model (pairs)")
    if (source is None) != (target is None):
        raise WrongUsage("--source and --target go together")
    if model is not None:
        if systems or source is None or target is None:
            raise WrongUsage("--model takes --source and --target, and no other files")
        _score_pairs(model, source, target, device, as_json)
        return
    if not systems:
        raise WrongUsage("give the files to score")
    if systems.count("-") > 1:
        raise UserError("only one system can be - (stdin)")
    if len(set(systems)) < len(systems):
        raise UserError("the same file is given twice: name every system once")
    if reference is not None:
        _score_text(systems, reference, metric, tokenize, lowercase, as_json)
    elif gold is not None:
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

    metric = list(dict.fromkeys(metric)) if metric else None
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
    systems: list[str], gold: GoldFile, source: str | None, target: str | None, as_json: bool
) -> None:
    from nmtkit.corpus import read_lines
    from nmtkit.links import check_pairs, read_gold, read_links
    from nmtkit.score import score_links

    scores = {}
    for name in systems:
        links = read_links(name)
        if source and target:
            names = (name, source, target)
            links = check_pairs(links, read_lines(source), read_lines(target), names)
        correct = read_gold(*gold)
        scores[name] = score_links(links, correct, (name, str(gold.path)))
        if not scores[name].possible:
            raise UserError(f"{gold.path} has no links: there is nothing to score against")
    if as_json:
        _print_json({name: s.to_json() for name, s in scores.items()})
        return
    rows = [
        [name, *(f"{100 * v:.2f}" for v in (s.aer, s.precision, s.recall, s.f1))]
        for name, s in scores.items()
    ]
    table("", ["links", "AER", "precision", "recall", "F1"], rows, sys.stdout)


def _score_pairs(folders: list[Path], source: str, target: str, device: str, as_json: bool) -> None:
    from nmtkit import device as devices
    from nmtkit.checkpoint import load_all
    from nmtkit.likelihood import LikelihoodOptions, LogProbability, log_probabilities, perplexity

    models = load_all(folders, devices.resolve(device))
    pairs = in_pairs(source, target)
    found: list[LogProbability] = []
    for one in log_probabilities(models, pairs, LikelihoodOptions(), bar):
        found.append(one)
        if not as_json:
            print(f"{one.value:.6f}")
    if not found:
        raise UserError(f"{source} is empty: there is nothing to score")
    if as_json:
        rows = [vars(one) for one in found]
        _print_json({"perplexity": perplexity(found), "pairs": rows})
    else:
        subwords = sum(one.subwords for one in found)
        say(f"perplexity {perplexity(found):.4f} a subword, {subwords} subwords with ends")


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))
