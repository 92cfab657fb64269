"""nmtkit align: its options, and what goes with what."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.attention import AUTO, Reading, links_of, report_faithfulness
from nmtkit.cli.completion import DEVICES, METHODS, SOFT_SYMMETRISATIONS, one_of
from nmtkit.cli.found import Sinks
from nmtkit.cli.links import LinksFile
from nmtkit.cli.output import STREAM, WrongUsage, check_outputs, same_output
from nmtkit.cli.processes import rank
from nmtkit.errors import UserError, unknown
from nmtkit.links import FORMATS, SYMMETRISATIONS

_READ, _BOTH, _FILES = "Reading attention", "Two directions", "Links of other tools"
_SHOW, _TEST = "Pictures", "Does attention tell the truth?"
_PICTURES = ("png", "svg")
DEFAULT = "grow-diag-final-and"

# The options of each way of working, by the option that says it; without one, models align.
_TEXTS = {"source", "target"}
_LINKS = {"from_format", "one_based", *_TEXTS}
_PAGE = {"page", "compare", "gold"}
_MODEL = {"models", "rows", "layer", "head", "raw", "batch", "device", *_TEXTS}
_WAYS = {
    "check": {"check", "swap", *_LINKS},
    "convert": {"convert", "swap", "symmetrize", "format", "out", *_LINKS},
    "forward": {"forward", "backward", "symmetrize", "format", "out", *_LINKS, *_PAGE},
    "faithfulness": {"faithfulness", "as_json", *_MODEL},
    "": {
        *("reverse", "method", "threshold", "symmetrize", "format", "out"),
        *("heatmap", "heatmap_format", "show", *_PAGE, *_MODEL),
    },
}


def align(
    context: typer.Context,
    models: Annotated[
        list[Path] | None, typer.Argument(help="Model directory; several: an ensemble.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Source lines, tokens as given.")] = None,
    target: Annotated[str | None, typer.Option(help="Target lines, tokens as given.")] = None,
    out: Annotated[str, typer.Option(help="Links, a line for every pair.")] = STREAM,
    format: Annotated[
        str, typer.Option(autocompletion=one_of(FORMATS), help=f"{', '.join(FORMATS)}.")
    ] = "pharaoh",
    gold: Annotated[
        Path | None,
        typer.Option(help="Gold links (talp) of these pairs: for --method auto, and on the page."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Pairs read at once.")] = 64,
    device: Annotated[
        str, typer.Option(autocompletion=one_of(DEVICES), help="auto, cpu or cuda.")
    ] = "auto",
    rows: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_READ,
            help="Row of a word: head (the default where the model has one), predicting (the "
            "default), next or consumed.",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_READ, min=1, help="Decoder layer to read; unless said, the model's."
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(rich_help_panel=_READ, min=0, help="Its attention head; 0: the mean of all."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of(METHODS),
            rich_help_panel=_READ,
            help="argmax (the default), mutual, threshold; auto tries all and says the best.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_READ,
            help="Least weight of a link. Unless said: threshold 0.3, posterior-union 0.5, "
            "posterior-intersection 0.2, posterior-mean 0.4, posterior-product 0.3, others none.",
        ),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            rich_help_panel=_READ,
            help="Tokenise the lines; links still count their tokens.",
        ),
    ] = False,
    reverse: Annotated[
        Path | None, typer.Option(rich_help_panel=_BOTH, help="Model target to source.")
    ] = None,
    symmetrize: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of((*SYMMETRISATIONS, *SOFT_SYMMETRISATIONS)),
            rich_help_panel=_BOTH,
            help=f"Of each one's links: {', '.join(SYMMETRISATIONS)} (the default). Of models' "
            "attention: product, harmonic, competitive, posterior-union, posterior-intersection, "
            "posterior-mean, posterior-product. A model with an alignment head needs no --reverse.",
        ),
    ] = None,
    forward: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_FILES, help="Links to combine: source to target."),
    ] = None,
    backward: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_FILES,
            help="Links of the other direction, also source-target (giza: the file as it is).",
        ),
    ] = None,
    convert: Annotated[
        Path | None, typer.Option(rich_help_panel=_FILES, help="Links to write as --format.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_FILES, help="Links to check: names every bad line."),
    ] = None,
    from_format: Annotated[
        str,
        typer.Option(
            "--from",
            autocompletion=one_of(FORMATS),
            rich_help_panel=_FILES,
            help="The format of those files.",
        ),
    ] = "pharaoh",
    one_based: Annotated[
        bool, typer.Option("--one-based", rich_help_panel=_FILES, help="They count from 1.")
    ] = False,
    swap: Annotated[
        bool, typer.Option("--swap", rich_help_panel=_FILES, help="They are target-source.")
    ] = False,
    heatmap: Annotated[
        Path | None, typer.Option(rich_help_panel=_SHOW, help="Folder for images (extra: plot).")
    ] = None,
    heatmap_format: Annotated[
        str,
        typer.Option(autocompletion=one_of(_PICTURES), rich_help_panel=_SHOW, help="png or svg."),
    ] = "png",
    page: Annotated[
        str | None, typer.Option(rich_help_panel=_SHOW, help="All pairs on one page: an HTML file.")
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(rich_help_panel=_SHOW, help="Other links (Pharaoh) beside, on the page."),
    ] = None,
    show: Annotated[
        int, typer.Option(rich_help_panel=_SHOW, min=0, help="Draw the first N on the terminal.")
    ] = 0,
    faithfulness: Annotated[
        bool,
        typer.Option(
            "--faithfulness",
            rich_help_panel=_TEST,
            help="Delete the linked words: what does the model then make of the target?",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel=_TEST, help="Print that as JSON.")
    ] = False,
) -> None:
    """Word links of given sentence pairs: a line of links for every pair of lines."""
    given = _given(context)
    way = next((way for way in _WAYS if way in given), "forward" if backward else "")
    if way == "forward":
        paired = (source is None) == (target is None)
        if not (forward and backward) or models or reverse or not paired:
            raise WrongUsage(
                "--forward and --backward go together, with --symmetrize; --source and --target "
                "(both) then check the links"
            )
    for name, option in given.items():
        if name not in _WAYS[way]:
            raise WrongUsage(f"{option} does not go with {given.get(way, 'a model')}")
    for kind, chosen, known in (
        ("link format", format, FORMATS),
        ("link format", from_format, FORMATS),
        ("heat map format", heatmap_format, _PICTURES),
    ):
        if chosen not in known:
            raise unknown(kind, chosen, known)
    if page and same_output(page, out):
        raise UserError("--out and --page cannot both be the same file")
    inputs = {"source": source, "target": target, "gold": gold, "compare": compare}
    read = (*inputs.values(), forward, backward, convert, check)
    check_outputs((out, page), read, (*(models or ()), reverse), heatmap)
    streams = [given[name] for name, path in inputs.items() if str(path) == STREAM]
    if len(streams) > 1:
        raise UserError(f"only one of {' and '.join(streams)} can be - (stdin)")
    if gold and not (method == AUTO or page):
        raise WrongUsage("--gold is for --method auto and for --page: say one of them")
    if compare and not page:
        raise WrongUsage("--compare is for --page: say that too")

    files = LinksFile(from_format, one_based, swap, source, target)
    alone = any((check, convert, forward, faithfulness, method == AUTO))
    if alone and rank():  # of several processes one does it
        return
    if check:
        files.check(check)
        return
    if convert:
        files.convert(convert, out, format, symmetrize)
        return
    sinks = Sinks(out, format, page, compare, gold, heatmap, heatmap_format, show)
    if forward and backward:
        found = files.combine(forward, backward, symmetrize or DEFAULT)
        if page and source is None:
            raise WrongUsage("--page shows the words too: say --source and --target")
        sinks.take(found, f"{forward}, {backward}", str(source))
        return
    if not models or source is None or target is None:
        raise WrongUsage("align needs a model directory, --source and --target")
    said = (models, reverse, source, target, rows, method, threshold, symmetrize)
    reading = Reading(*said, raw, batch, device, gold, layer, head)
    if faithfulness:
        report_faithfulness(reading, as_json)
        return
    found = links_of(reading, apart=FORMATS[format].directions)
    if rank():  # a part of the work, but nothing to write
        deque(found, maxlen=0)
        return
    sinks.take(found, ", ".join(map(str, models)), source)


def _given(context: typer.Context) -> dict[str, str]:
    """The parameters that the command line names, and what they are called there."""
    return {
        parameter.name: "MODEL" if parameter.name == "models" else parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    }
