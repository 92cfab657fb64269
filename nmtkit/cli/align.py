"""nmtkit align."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmtkit.cli.output import STREAM, WrongUsage, bar, check_outputs, in_pairs, say, writing
from nmtkit.corpus import read_lines
from nmtkit.errors import UserError

if TYPE_CHECKING:
    from nmtkit.align import Aligned, AlignOptions
    from nmtkit.links import Links

_READ, _BOTH, _SHOW = "Reading attention", "Two directions", "Heat maps"


def align(
    models: Annotated[
        list[Path] | None, typer.Argument(help="Model directory; several: an ensemble.")
    ] = None,
    source: Annotated[str | None, typer.Option(help="Source lines, tokens as given.")] = None,
    target: Annotated[str | None, typer.Option(help="Target lines, tokens as given.")] = None,
    out: Annotated[str, typer.Option(help="Links, Pharaoh format.")] = STREAM,
    rows: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_READ, help="Row of a word: predicting (the default), next or consumed."
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option(rich_help_panel=_READ, help="argmax (the default) or threshold.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(rich_help_panel=_READ, help="For threshold: least weight of a link (0.3)."),
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
    forward: Annotated[
        Path | None, typer.Option(rich_help_panel=_BOTH, help="Links to combine: source to target.")
    ] = None,
    backward: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_BOTH, help="Links of the other direction, also written source-target."
        ),
    ] = None,
    symmetrize: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_BOTH,
            help="union, intersection, grow-diag, grow-diag-final, grow-diag-final-and (default).",
        ),
    ] = None,
    heatmap: Annotated[
        Path | None, typer.Option(rich_help_panel=_SHOW, help="Folder for images (extra: plot).")
    ] = None,
    heatmap_format: Annotated[str, typer.Option(rich_help_panel=_SHOW, help="png or svg.")] = "png",
    show: Annotated[
        int, typer.Option(rich_help_panel=_SHOW, min=0, help="Draw the first N on the terminal.")
    ] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Pairs read at once.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Word links of given sentence pairs: a line of links for every pair of lines."""
    from nmtkit.errors import unknown
    from nmtkit.links import SYMMETRISATIONS, format_pharaoh

    how = symmetrize or "grow-diag-final-and"
    if how not in SYMMETRISATIONS:
        raise unknown("symmetrisation", how, SYMMETRISATIONS)
    if symmetrize is not None and not (reverse or forward or backward):
        raise WrongUsage(
            "--symmetrize needs two directions: --reverse, or --forward with --backward"
        )
    if threshold is not None and method != "threshold":
        raise WrongUsage("--threshold is for --method threshold: say that too")
    check_outputs((out,), (source, target, forward, backward))
    if heatmap_format not in ("png", "svg"):
        raise unknown("heat map format", heatmap_format, ("png", "svg"))
    if forward or backward:
        if not (forward and backward) or models or reverse or (source is None) != (target is None):
            raise WrongUsage(
                "--forward and --backward go together, with --symmetrize; --source and --target "
                "(both) then only check the links"
            )
        if str(forward) == str(backward) == STREAM:
            raise UserError("only one of --forward and --backward can be - (stdin)")
        found = _combined(forward, backward, how, source, target)
    else:
        if not models or source is None or target is None:
            raise WrongUsage("align needs a model directory, --source and --target")
        from nmtkit.align import AlignOptions
        from nmtkit.batches import BatchSize

        chosen = {"rows": rows, "method": method, "threshold": threshold}
        given = {name: value for name, value in chosen.items() if value is not None}
        size = BatchSize(sentences=batch, tokens=max(4000, batch), pool=1)
        try:
            options = AlignOptions(**given, raw=raw, batch=size)  # type: ignore[arg-type]
        except ValueError as error:
            raise UserError(str(error)) from error
        found = _read(models, reverse, source, target, options, device, how)
        found = _drawn(found, heatmap, heatmap_format, show)
    with writing(out) as file:
        for links, _ in found:
            file.write(format_pharaoh(links) + "\n")


Found = Iterator[tuple["Links", "Aligned | None"]]


def _combined(
    forward: Path, backward: Path, symmetrize: str, source: str | None, target: str | None
) -> Found:
    """The links of two files together; with the text, each must link tokens that are there."""
    from nmtkit.links import check_pairs, read_links, symmetrise

    names = str(forward), str(backward)
    sides = []
    for name in names:
        links = read_links(name)
        if source is not None and target is not None:
            texts = read_lines(source), read_lines(target)
            links = check_pairs(links, *texts, (name, source, target))
        sides.append(links)
    return ((links, None) for links in symmetrise(sides[0], sides[1], symmetrize, names))


def _read(
    models: list[Path],
    reverse: Path | None,
    source: str,
    target: str,
    options: AlignOptions,
    device: str,
    symmetrize: str,
) -> Found:
    """The links of one direction, or of both together; with the forward attention."""
    from nmtkit import device as devices
    from nmtkit.align import align as core
    from nmtkit.checkpoint import load, load_all
    from nmtkit.links import SYMMETRISATIONS, transpose

    place = devices.resolve(device)
    forwards = load_all(models, place)
    if reverse is None:
        for one in core(forwards, in_pairs(source, target), options, bar):
            yield one.links, one
        return
    if STREAM in (source, target):
        raise UserError("with --reverse both files are read twice: neither can be - (stdin)")
    other = load(reverse, place)
    languages = forwards[0].source.config.language, forwards[0].target.config.language
    if (other.target.config.language, other.source.config.language) != languages:
        raise UserError(
            f"{reverse} goes from {other.source.config.language} to "
            f"{other.target.config.language}: --reverse wants a model from {languages[1]} to "
            f"{languages[0]}"
        )
    turned = ((t, s) for s, t in in_pairs(source, target))
    backwards = core([other], turned, options)
    pairs = zip(core(forwards, in_pairs(source, target), options, bar), backwards, strict=True)
    for one, back in pairs:
        yield SYMMETRISATIONS[symmetrize](one.links, transpose(back.links)), one


def _drawn(found: Found, folder: Path | None, kind: str, show: int) -> Found:
    """Pass everything on, drawing the attention on the way."""
    from nmtkit.heatmap import save_heatmap, text_heatmap

    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    for number, (links, one) in enumerate(found, 1):
        if one is not None and number <= show:
            attention = one.attention[:, :-1]
            say(text_heatmap(attention, one.source, one.target, links))
        if one is not None and folder:
            attention = one.attention[:, :-1]
            path = folder / f"{number:06d}.{kind}"
            save_heatmap(path, attention, one.source, one.target, links)
        yield links, one
