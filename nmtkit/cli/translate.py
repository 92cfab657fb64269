"""nmtkit translate."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli.output import STREAM, bar, check_outputs, writing
from nmtkit.errors import UserError

_SEARCH, _WORDS, _FILES = "Search", "Words and links", "Files"


def translate(
    models: Annotated[list[Path], typer.Argument(help="Model directory; several: an ensemble.")],
    source: Annotated[str, typer.Option(rich_help_panel=_FILES, help="Raw text.")] = STREAM,
    out: Annotated[str, typer.Option(rich_help_panel=_FILES, help="Translations.")] = STREAM,
    alignments: Annotated[
        str | None,
        typer.Option(rich_help_panel=_FILES, help="Links of the output, Pharaoh format."),
    ] = None,
    beam: Annotated[int, typer.Option(rich_help_panel=_SEARCH, min=1, help="Hypotheses kept.")] = 5,
    length_penalty: Annotated[
        float,
        typer.Option(
            rich_help_panel=_SEARCH, min=0, help="Rank by log-probability / subwords ** this."
        ),
    ] = 1.0,
    n_best: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_SEARCH,
            min=1,
            help="Print N for a line, Moses ||| format; links too are then N.",
        ),
    ] = None,
    replace_unknown: Annotated[
        bool,
        typer.Option(
            "--replace-unknown", rich_help_panel=_WORDS, help="Copy the attended source word."
        ),
    ] = False,
    dictionary: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_WORDS, help="source TAB target a line: looked up before copying."
        ),
    ] = None,
    tokenized: Annotated[
        bool, typer.Option("--tokenized", rich_help_panel=_WORDS, help="Leave tokens as they are.")
    ] = False,
    rows: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_WORDS, help="Attention row of a word, as in align (predicting)."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Sentences searched at once.")] = 64,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Translate raw text, a line a line: stdin to stdout. A blank line stays blank."""
    from nmtkit import device as devices
    from nmtkit.align import AlignOptions
    from nmtkit.batches import BatchSize
    from nmtkit.checkpoint import load_all
    from nmtkit.corpus import read_lines
    from nmtkit.links import format_pharaoh
    from nmtkit.search import SearchOptions
    from nmtkit.translate import TranslateOptions
    from nmtkit.translate import translate as core

    if dictionary and not replace_unknown:
        raise UserError("--dictionary is for --replace-unknown: say that too")
    if alignments == out:
        raise UserError(f"--alignments and --out cannot both be {out}")
    check_outputs((out, alignments), (source, dictionary))
    if n_best and n_best > beam:
        raise UserError(f"--n-best {n_best} needs at least --beam {n_best}, not {beam}")
    size = BatchSize(sentences=batch, tokens=max(4000, batch), pool=1)
    align = AlignOptions(batch=size) if rows is None else AlignOptions(rows=rows, batch=size)
    try:
        search = SearchOptions(beam=beam, length_penalty=length_penalty, n_best=n_best or 1)
    except ValueError as error:
        raise UserError(str(error)) from error
    options = TranslateOptions(
        search=search,
        align=align,
        links=alignments is not None,
        replace_unknown=replace_unknown,
        dictionary=_read_dictionary(dictionary) if dictionary else {},
        tokenized=tokenized,
        batch=size,
        # A person at a terminal is answered line by line.
        read_ahead=1 if source == STREAM and sys.stdin.isatty() else TranslateOptions.read_ahead,
    )
    loaded = load_all(models, devices.resolve(device))
    with ExitStack() as stack:
        lines = stack.enter_context(writing(out))
        links = stack.enter_context(writing(alignments)) if alignments else None
        for number, outputs in enumerate(core(loaded, read_lines(source), options, bar)):
            for output in outputs:
                if n_best:
                    lines.write(
                        f"{number} ||| {output.text} ||| LogProb= {output.log_prob:.6f} "
                        f"||| {output.value:.6f}\n"
                    )
                else:
                    lines.write(output.text + "\n")
                if links:
                    links.write(format_pharaoh(output.links) + "\n")


def _read_dictionary(path: Path) -> dict[str, str]:
    """Source word TAB translation a line; more columns, such as a probability, are left alone.

    A word's first line wins.
    """
    from nmtkit.corpus import clean_line, read_lines

    entries: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) < 2 or not columns[0] or not columns[1]:
            raise UserError(f"{path}:{number}: expected a source word, TAB, its translation")
        entries.setdefault(columns[0], clean_line(columns[1]))
    return entries
