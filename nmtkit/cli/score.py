"""nmtkit score. Without --model it never imports torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmtkit.cli.output import STREAM, WrongUsage, bar, in_pairs, say, table
from nmtkit.errors import UserError
from nmtkit.links import FORMATS, read_pairs

if TYPE_CHECKING:
    from nmtkit.score import PairFile, Sentence
    from nmtkit.score.report import ReportOptions

_TEXT, _LINKS, _MORE, _PAIRS = "Translations", "Links", "More about links", "Given pairs"
_NEEDS = {_TEXT: "--reference", _LINKS: "--gold", _MORE: "--gold", _PAIRS: "--model"}

_FORMATS = ", ".join(name for name, format in FORMATS.items() if not format.directions)


def score(
    context: typer.Context,
    systems: Annotated[
        list[str] | None, typer.Argument(help="Hypotheses, or links; - is stdin.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Of the pairs: raw for --model, the tokens links count for --gold."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="Likewise.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
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
    gold_format: Annotated[
        str, typer.Option("--gold-from", rich_help_panel=_LINKS, help=f"Its format: {_FORMATS}.")
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
    bootstrap: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_MORE,
            help="Resamples, 1000 say: AER's 95 % interval, and p against the first system.",
        ),
    ] = None,
    test: Annotated[
        str, typer.Option(rich_help_panel=_MORE, help="Of p: randomisation or bootstrap.")
    ] = "randomisation",
    seed: Annotated[int, typer.Option(rich_help_panel=_MORE, help="Of the resamples.")] = 1,
    differences: Annotated[
        int,
        typer.Option(
            min=0, rich_help_panel=_MORE, help="Sentences that differ most from the first system's."
        ),
    ] = 0,
    errors: Annotated[
        bool,
        typer.Option(
            "--errors", rich_help_panel=_MORE, help="By kind and by word class; wants the pairs."
        ),
    ] = False,
    model: Annotated[
        list[Path] | None,
        typer.Option(
            rich_help_panel=_PAIRS,
            help="Log-probability of every pair, in nats. Repeatable: an ensemble.",
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(rich_help_panel=_PAIRS, help="auto, cpu or cuda.")
    ] = "auto",
) -> None:
    """Score translations (BLEU, chrF, TER), links (AER), or pairs by a model's log-probability."""
    if sum(what is not None for what in (reference, gold, model)) != 1:
        raise WrongUsage("say one of --reference (translations), --gold (links), --model (pairs)")
    _refuse_strays(context, _TEXT if reference else _LINKS if gold else _PAIRS)
    if (source is None) != (target is None):
        raise WrongUsage("--source and --target go together")
    texts = (source, target) if source is not None and target is not None else None
    if model is not None:
        if systems or texts is None:
            raise WrongUsage("--model takes --source and --target, and no other files")
        _score_pairs(model, *texts, device, as_json)
        return
    if not systems:
        raise WrongUsage("give the files to score")
    if systems.count("-") > 1:
        raise UserError("only one system can be - (stdin)")
    if len(set(systems)) < len(systems):
        raise UserError("the same file is given twice: name every system once")
    if reference is not None:
        if texts:
            raise WrongUsage("--source and --target go with --gold or --model")
        _score_text(systems, reference, metric, tokenize, lowercase, as_json)
    elif gold is not None:
        if differences and len(systems) == 1:
            raise WrongUsage("--differences compares systems: give two or more")
        files = LinkFiles(systems, gold, links_format, gold_format, one_based, swap, texts or ())
        _score_links(files, _options(bootstrap, test, seed, differences, errors), as_json)


def _refuse_strays(context: typer.Context, used: str) -> None:
    """Wrong usage for an option that would do nothing: what it belongs to is not asked for."""
    for option in context.command.params:
        name = str(option.name)
        origin = context.get_parameter_source(name)
        if origin is None or origin.name != "COMMANDLINE":
            continue
        panel = getattr(option, "rich_help_panel", None)
        if panel in _NEEDS and _NEEDS[panel] != _NEEDS[used]:
            raise WrongUsage(f"{option.opts[0]} goes with {_NEEDS[panel]}, not {_NEEDS[used]}")
        if name in ("test", "seed") and context.params["bootstrap"] is None:
            raise WrongUsage(f"--{name} is for --bootstrap: say that too")


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


@dataclass(frozen=True)
class LinkFiles:
    """What to compare, and how the files are to be read."""

    systems: list[str]
    gold: Path
    links_format: str
    gold_format: str
    one_based: bool  # of the gold, as is swap
    swap: bool
    texts: tuple[str, ...]  # none, or source and target

    def sentences(self) -> Iterator[Sentence]:
        """All files in parallel."""
        from nmtkit.score import in_parallel, text_file

        if [*self.systems, str(self.gold), *self.texts].count(STREAM) > 1:
            raise UserError("only one file can be - (stdin)")
        systems = [_pair_file(name, self.links_format) for name in self.systems]
        gold = _pair_file(self.gold, self.gold_format, self.one_based, self.swap)
        if not self.texts:
            return in_parallel(systems, gold)
        source, target = self.texts
        return in_parallel(systems, gold, text_file(source, in_pairs(source, target)))


def _pair_file(
    path: Path | str, format: str, one_based: bool = False, swap: bool = False
) -> PairFile:
    from nmtkit.score import PairFile

    pairs = read_pairs(path, format, one_based=one_based, swap=swap)
    if FORMATS[format].directions:
        raise UserError(
            f"a {format} file has the links of two directions: make them one by "
            "nmtkit align --convert FILE --symmetrize HOW"
        )
    return PairFile(str(path), pairs, FORMATS[format].by_pair)


def _options(
    bootstrap: int | None, test: str, seed: int, differences: int, errors: bool
) -> ReportOptions:
    from nmtkit.score.report import ReportOptions
    from nmtkit.score.significance import Resampling

    resampling = None if bootstrap is None else Resampling(bootstrap, test, seed)
    return ReportOptions(resampling, differences, errors)


def _score_links(files: LinkFiles, options: ReportOptions, as_json: bool) -> None:
    from nmtkit.cli.link_tables import print_report
    from nmtkit.score.report import report

    systems = report(files.systems, files.sentences(), options, str(files.gold))
    if as_json:
        _print_json({one.name: one.to_json() for one in systems})
    else:
        print_report(systems)


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
