"""nmtkit translate: its options, and what goes with what."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmtkit.cli import processes
from nmtkit.cli.completion import LENGTH_NORMALISATIONS, one_of
from nmtkit.cli.output import STREAM, check_outputs, same_output
from nmtkit.cli.translating import Streams, read_dictionary, read_glossary, read_shortlist, run
from nmtkit.errors import UserError

_SEARCH, _DRAW, _WORDS = "Search", "Sampling", "Words and links"
_TERMS, _FILES = "Terms and markup", "Files"


def translate(
    models: Annotated[list[Path], typer.Argument(help="Model directory; several: an ensemble.")],
    source: Annotated[str, typer.Option(rich_help_panel=_FILES, help="Raw text.")] = STREAM,
    out: Annotated[str, typer.Option(rich_help_panel=_FILES, help="Translations.")] = STREAM,
    alignments: Annotated[
        str | None,
        typer.Option(rich_help_panel=_FILES, help="Links of the output, Pharaoh format."),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(rich_help_panel=_SEARCH, min=1, help="Hypotheses kept: 5 by default."),
    ] = None,
    length_penalty: Annotated[
        float,
        typer.Option(
            rich_help_panel=_SEARCH, min=0, help="Rank by log-probability / subwords ** this."
        ),
    ] = 1.0,
    length_normalisation: Annotated[
        str,
        typer.Option(
            autocompletion=one_of(LENGTH_NORMALISATIONS),
            rich_help_panel=_SEARCH,
            help="power (that), or gnmt: / ((5 + subwords) / 6) ** that.",
        ),
    ] = "power",
    coverage_penalty: Annotated[
        float,
        typer.Option(
            rich_help_panel=_SEARCH,
            min=0,
            help="Of this weight, for source words with too little attention.",
        ),
    ] = 0.0,
    n_best: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_SEARCH,
            min=1,
            help="Print N for a line, Moses ||| format; links too are then N.",
        ),
    ] = None,
    diversity: Annotated[
        float,
        typer.Option(
            rich_help_panel=_SEARCH,
            min=0,
            help="What a word costs, in nats, for each better one after the same beginning.",
        ),
    ] = 0.0,
    prefix: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_SEARCH, help="Raw text: line i begins translation i; blank: nothing."
        ),
    ] = None,
    forbid_unknown: Annotated[
        bool,
        typer.Option("--forbid-unknown", rich_help_panel=_SEARCH, help="Never write <unk>."),
    ] = False,
    sample: Annotated[
        bool,
        typer.Option("--sample", rich_help_panel=_DRAW, help="Draw translations, with --n-best N."),
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(rich_help_panel=_DRAW, help="Below 1 nearer to the most probable."),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(rich_help_panel=_DRAW, min=1, help="Of the K most probable words only."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(rich_help_panel=_DRAW, min=0, help="1 by default.")
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
        typer.Option(rich_help_panel=_WORDS, help="Attention row of a word, as in align."),
    ] = None,
    show_attention: Annotated[
        bool,
        typer.Option(
            "--show-attention",
            rich_help_panel=_WORDS,
            help="Draw the last line's attention; at a terminal, each line's.",
        ),
    ] = False,
    glossary: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_TERMS, help="source term TAB target term a line: must be used."
        ),
    ] = None,
    markup: Annotated[
        bool,
        typer.Option(
            "--markup", rich_help_panel=_TERMS, help="Lines are XML or HTML: keep the tags."
        ),
    ] = False,
    shortlist: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_SEARCH,
            help="lex.tsv of an ibm1 model: search among its words and the commonest; faster.",
        ),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Compute in 8-bit integers: faster, on a CPU only.")
    ] = False,
    batch: Annotated[int, typer.Option(min=1, help="Sentences searched at once.")] = 64,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes; one a core is faster than one with all cores.")
    ] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Translate raw text, a line a line: stdin to stdout. A blank line stays blank."""
    of_beams = {"--diversity": diversity, "--coverage-penalty": coverage_penalty}
    _check_drawing(sample, beam, of_beams, temperature, top_k, seed)
    if dictionary and not replace_unknown:
        raise UserError("--dictionary is for --replace-unknown: say that too")
    if forbid_unknown and replace_unknown:
        raise UserError("--forbid-unknown leaves nothing to --replace-unknown: say one of them")
    if shortlist and sample:
        raise UserError("--shortlist is for a beam: leave out --sample")
    if markup and alignments:
        raise UserError("--alignments are of lines without tags: leave out --markup")
    if alignments is not None and same_output(alignments, out):
        raise UserError(f"--alignments and --out cannot both be {out}")
    inputs = {
        "source": source, "prefix": prefix, "dictionary": dictionary, "glossary": glossary,
        "shortlist": shortlist,
    }  # fmt: skip
    check_outputs((out, alignments), inputs.values(), models)
    streams = [f"--{name}" for name, path in inputs.items() if str(path) == STREAM]
    if len(streams) > 1:
        raise UserError(f"only one of {' and '.join(streams)} can be - (stdin)")

    from nmtkit.align import AlignOptions
    from nmtkit.batches import BatchSize
    from nmtkit.search import Sampling, SearchOptions
    from nmtkit.translate import TranslateOptions

    kept = SearchOptions.beam if beam is None else beam
    if n_best and n_best > kept and not sample:
        raise UserError(f"--n-best {n_best} needs at least --beam {n_best}, not {kept}")
    size = BatchSize.of_search(batch)
    try:
        drawing = Sampling(
            Sampling.temperature if temperature is None else temperature,
            Sampling.top_k if top_k is None else top_k,
            Sampling.seed if seed is None else seed,
        )
        search = SearchOptions(
            beam=kept,
            length_penalty=length_penalty,
            length_normalisation=length_normalisation,
            coverage_penalty=coverage_penalty,
            n_best=n_best or 1,
            diversity=diversity,
            forbid_unknown=forbid_unknown,
            sampling=drawing if sample else None,
        )
    except ValueError as error:
        raise UserError(str(error)) from error
    main = not processes.rank()  # which reads the tables: the others are sent them
    options = TranslateOptions(
        search=search,
        align=AlignOptions(rows=rows, batch=size),
        links=alignments is not None,
        replace_unknown=replace_unknown,
        dictionary=read_dictionary(dictionary) if dictionary and main else {},
        tokenized=tokenized,
        shortlist=read_shortlist(shortlist) if shortlist and main else {},
        int8=int8,
        batch=size,
        glossary=read_glossary(glossary) if glossary and main else {},
        markup=markup,
        attention=show_attention,
    )
    if rows is not None and not (options.reads_attention or glossary):
        raise UserError(
            "--rows is of the attention, which nothing reads: say what should "
            "(--alignments, --replace-unknown, --glossary, --markup, --show-attention)"
        )
    processes.spread(workers)
    run(models, device, Streams(source, prefix, out, alignments), options, n_best is not None)


def _check_drawing(
    sample: bool,
    beam: int | None,
    of_beams: dict[str, float],
    temperature: float | None,
    top_k: int | None,
    seed: int | None,
) -> None:
    """UserError for options of sampling without it, and of beams with it."""
    drawing = {"--temperature": temperature, "--top-k": top_k, "--seed": seed}
    given = [name for name, value in drawing.items() if value is not None]
    if given and not sample:
        raise UserError(f"{given[0]} is for --sample: say that too")
    unfit = [name for name, value in of_beams.items() if value]
    if beam is not None:
        unfit.insert(0, "--beam")
    if sample and unfit:
        raise UserError(f"{unfit[0]} does not go with --sample, which has no beam")
