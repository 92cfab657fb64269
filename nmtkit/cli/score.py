"""nmtkit score. Without --model and --comet it never imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.output import WrongUsage
from nmtkit.cli.processes import rank
from nmtkit.cli.score_links import LinkFiles, link_options, score_links
from nmtkit.cli.score_pairs import rescore_list, score_pairs
from nmtkit.cli.score_text import TextFiles, gpus, score_texts, text_options, trials
from nmtkit.cli.tables import Tables
from nmtkit.errors import UserError
from nmtkit.links import FORMATS

_TEXT, _CHANCE, _LINKS, _PAIRS = "Translations", "Significance", "Links", "Given pairs"
_REFERENCE, _GOLD, _MODEL = "--reference", "--gold", "--model"
_GO_WITH = {  # the options of a panel, or one by its name -> what it goes with
    _TEXT: (_REFERENCE,),
    _CHANCE: (_REFERENCE, _GOLD),
    _LINKS: (_GOLD,),
    _PAIRS: (_MODEL,),
    "randomisation": (_REFERENCE,),
    "test": (_GOLD,),
    "table_format": (_REFERENCE, _GOLD),
    "target": (_GOLD, _MODEL),
    "device": (_MODEL, "--comet"),
}
_IS_FOR = {  # option -> the options of which one must be there for it to do anything
    "test": ("bootstrap",),
    "seed": ("bootstrap", "randomisation"),
    "plot": ("by_length",),
    "bucket": ("by_length",),
    "keep_order": ("n_best",),
    "feature": ("n_best",),
    "length_penalty": ("n_best",),
}

_LINK_FORMATS = ", ".join(name for name, format in FORMATS.items() if not format.directions)


def score(
    context: typer.Context,
    systems: Annotated[
        list[str] | None, typer.Argument(help="Hypotheses, or links; - is stdin.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Raw for --reference and --model, the tokens links count for --gold."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Likewise.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    table_format: Annotated[
        str, typer.Option("--table", help="Print tables as text, markdown or latex.")
    ] = "text",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    reference: Annotated[
        str | None, typer.Option(rich_help_panel=_TEXT, help="Reference translations.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            rich_help_panel=_TEXT,
            help="bleu, chrf, chrf++, ter; all but chrf++ unless said. Repeatable.",
        ),
    ] = None,
    comet: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_TEXT, help="COMET too, by this checkpoint; wants --source."),
    ] = None,
    tokenize: Annotated[
        str, typer.Option(rich_help_panel=_TEXT, help="BLEU's tokeniser: 13a, intl, none, zh …")
    ] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", rich_help_panel=_TEXT, help="Ignore case.")
    ] = False,
    no_unknown: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_TEXT,
            help="Only sentences all of whose words this model knows; wants --source.",
        ),
    ] = None,
    by_length: Annotated[
        bool,
        typer.Option(
            "--by-length",
            rich_help_panel=_TEXT,
            help="The first metric by source length too; wants --source.",
        ),
    ] = False,
    bucket: Annotated[
        int, typer.Option(min=1, rich_help_panel=_TEXT, help="Words a bucket of lengths.")
    ] = 10,
    plot: Annotated[
        Path | None, typer.Option(rich_help_panel=_TEXT, help="Draw it: a .png or .svg file.")
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_CHANCE,
            help="Resamples, 1000 say: 95 % intervals, and p against the first system.",
        ),
    ] = None,
    randomisation: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_CHANCE,
            help="Resamples, 10000 say: p by approximate randomisation (of links: --test).",
        ),
    ] = None,
    test: Annotated[
        str, typer.Option(rich_help_panel=_CHANCE, help="Of links: randomisation or bootstrap.")
    ] = "randomisation",
    seed: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_CHANCE, help="Of the resamples; unless said 12345, of links 1."
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_LINKS, help="Gold links: 3-4 sure, 3p4 possible."),
    ] = None,
    gold_format: Annotated[
        str,
        typer.Option("--gold-from", rich_help_panel=_LINKS, help=f"Its format: {_LINK_FORMATS}."),
    ] = "talp",
    links_format: Annotated[
        str, typer.Option("--from", rich_help_panel=_LINKS, help="Format of the systems' links.")
    ] = "pharaoh",
    one_based: Annotated[
        bool, typer.Option("--one-based", rich_help_panel=_LINKS, help="The gold counts from 1.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", rich_help_panel=_LINKS, help="The gold is target-source.")
    ] = False,
    differences: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=_LINKS,
            help="Sentences that differ most from the first system's.",
        ),
    ] = 0,
    errors: Annotated[
        bool,
        typer.Option(
            "--errors", rich_help_panel=_LINKS, help="By kind and by word class; wants the pairs."
        ),
    ] = False,
    model: Annotated[
        list[Path] | None,
        typer.Option(
            rich_help_panel=_PAIRS,
            help="Log-probability of every pair, in nats. Repeatable: an ensemble.",
        ),
    ] = None,
    n_best: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_PAIRS,
            help="Instead of --target: rescore a list, Moses ||| format, best first.",
        ),
    ] = None,
    length_penalty: Annotated[
        float,
        typer.Option(
            rich_help_panel=_PAIRS, min=0, help="Rank by log-probability / subwords ** this."
        ),
    ] = 1.0,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order", rich_help_panel=_PAIRS, help="Add the feature, do not rank by it."
        ),
    ] = False,
    feature: Annotated[
        str, typer.Option(rich_help_panel=_PAIRS, help="Name of the feature.")
    ] = "Rescored",
) -> None:
    """Score translations (BLEU, chrF, TER), links (AER), or pairs by a model's log-probability."""
    if sum(what is not None for what in (reference, gold, model)) != 1:
        raise WrongUsage("say one of --reference (translations), --gold (links), --model (pairs)")
    _refuse_strays(context)
    tables = None if as_json else Tables(table_format)
    if model is not None:
        if systems:
            raise WrongUsage("--model takes --source and --target, and no other files")
        if source is None or (target is None) == (n_best is None):
            raise WrongUsage("--model takes --source, and either --target or --n-best")
        if n_best is None:
            assert target is not None
            score_pairs(model, source, target, device, as_json)
        elif as_json:
            raise WrongUsage("--n-best prints Moses' format, not JSON")
        else:
            rescore_list(model, source, n_best, device, length_penalty, keep_order, feature)
        return
    if rank():  # of several processes one does it
        return
    if not systems:
        raise WrongUsage("give the files to score")
    if systems.count("-") > 1:
        raise UserError("only one system can be - (stdin)")
    if len(set(systems)) < len(systems):
        raise UserError("the same file is given twice: name every system once")
    if reference is not None:
        wanting = by_length or no_unknown is not None or comet is not None
        if wanting and source is None:
            raise WrongUsage("--by-length, --no-unknown and --comet want --source")
        if source is not None and not wanting:
            raise WrongUsage("--source is for --by-length, --no-unknown and --comet")
        from nmtkit.score.text_report import TextReportOptions

        options = TextReportOptions(
            text_options(metric, tokenize, lowercase),
            trials(bootstrap, randomisation, seed),
            bucket if by_length else None,
            comet,
            gpus(device) if comet else 0,
        )
        files = TextFiles(systems, reference, source, no_unknown, plot, comet)
        score_texts(files, options, tables)
    elif gold is not None:
        if (source is None) != (target is None):
            raise WrongUsage("--source and --target go together")
        if differences and len(systems) == 1:
            raise WrongUsage("--differences compares systems: give two or more")
        texts = (source, target) if source is not None and target is not None else ()
        links = LinkFiles(systems, gold, links_format, gold_format, one_based, swap, texts)
        resampling = link_options(bootstrap, test, 1 if seed is None else seed, differences, errors)
        score_links(links, resampling, tables)


def _refuse_strays(context: typer.Context) -> None:
    """Wrong usage for an option that would do nothing: what it belongs to is not asked for."""
    given = {
        str(option.name): option
        for option in context.command.params
        if (origin := context.get_parameter_source(str(option.name))) is not None
        and origin.name == "COMMANDLINE"
    }
    flags = {option.opts[0] for option in given.values()}
    (used,) = flags & {_REFERENCE, _GOLD, _MODEL}
    for name, option in given.items():
        panel = str(getattr(option, "rich_help_panel", None))
        wanted = _GO_WITH.get(name) or _GO_WITH.get(panel)
        if wanted and not flags & set(wanted):
            raise WrongUsage(f"{option.opts[0]} goes with {' or '.join(wanted)}, not {used}")
        others = _IS_FOR.get(name, ())
        if others and not given.keys() & set(others):
            flag = " or ".join(f"--{other.replace('_', '-')}" for other in others)
            raise WrongUsage(f"{option.opts[0]} is for {flag}: say that too")
    if {"table_format", "as_json"} <= given.keys():
        raise WrongUsage("--table and --json: choose one")
