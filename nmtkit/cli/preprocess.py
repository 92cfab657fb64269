"""nmtkit preprocess."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmtkit.cli.output import WrongUsage, bar, say, table
from nmtkit.errors import UserError, unknown

if TYPE_CHECKING:
    from nmtkit.preprocess import Report

_FILES, _TEXT, _CLEAN, _PARTS = "Files", "Text", "Cleaning", "Processes and machines"


def preprocess(
    source_lang: Annotated[str, typer.Option(rich_help_panel=_FILES, help="Such as en.")],
    target_lang: Annotated[str, typer.Option(rich_help_panel=_FILES, help="Such as de.")],
    train: Annotated[
        list[str],
        typer.Option(
            rich_help_panel=_FILES,
            help="PREFIX (for PREFIX.en + PREFIX.de), a .tsv or a .tmx file; also .gz. Repeatable.",
        ),
    ],
    out: Annotated[Path, typer.Option(rich_help_panel=_FILES, help="Prepared corpus to make.")],
    valid: Annotated[
        str | None, typer.Option(rich_help_panel=_FILES, help="Dev text, like --train.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", rich_help_panel=_FILES, help="Replace --out.")
    ] = False,
    tokenizer: Annotated[
        str, typer.Option(rich_help_panel=_TEXT, help="moses, or none: split on ASCII spaces only.")
    ] = "moses",
    normalise: Annotated[
        bool, typer.Option("--normalise", rich_help_panel=_TEXT, help="Moses' punctuation rules.")
    ] = False,
    case: Annotated[str, typer.Option(rich_help_panel=_TEXT, help="keep, lower or true.")] = "keep",
    subwords: Annotated[
        str, typer.Option(rich_help_panel=_TEXT, help="bpe, none or sentencepiece (extra).")
    ] = "bpe",
    merges: Annotated[
        int,
        typer.Option(
            rich_help_panel=_TEXT,
            help="BPE merges, or SentencePiece pieces, for both sides together.",
        ),
    ] = 8000,
    separate: Annotated[
        bool,
        typer.Option("--separate", rich_help_panel=_TEXT, help="Learn codes for each side alone."),
    ] = False,
    joint_vocabulary: Annotated[
        bool,
        typer.Option(
            "--joint-vocabulary", rich_help_panel=_TEXT, help="One vocabulary for both sides."
        ),
    ] = False,
    vocabulary_size: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_TEXT, help="Shortlist a side, the rest is UNK; all unless said."
        ),
    ] = None,
    vocabulary_threshold: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=_TEXT,
            help="Leave out what is seen less often; BPE then undoes its merge.",
        ),
    ] = None,
    max_length: Annotated[
        int, typer.Option(rich_help_panel=_CLEAN, help="Most subwords on a side.")
    ] = 100,
    max_ratio: Annotated[
        float, typer.Option(rich_help_panel=_CLEAN, help="Most subwords for one of the other side.")
    ] = 9.0,
    deduplicate: Annotated[
        bool, typer.Option("--deduplicate", rich_help_panel=_CLEAN, help="Drop repeated pairs.")
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            min=0, rich_help_panel=_PARTS, help="Processes; 0: as many as there are cores."
        ),
    ] = 0,
    shard: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_PARTS,
            metavar="I/N",
            help="Tokenise only part I of N; --out is then a shard for --merge.",
        ),
    ] = None,
    merge: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_PARTS,
            help="Folder with all shards, made by the same options: join them.",
        ),
    ] = None,
) -> None:
    """Prepare parallel text: clean, tokenise, learn subwords and vocabularies, write ids."""
    from nmtkit.preprocess import PreprocessOptions, Shard, preprocess_shard
    from nmtkit.preprocess import preprocess as core
    from nmtkit.text import CASES, SUBWORDS, TOKENIZERS

    for name, value, choices in (
        ("tokenizer", tokenizer, TOKENIZERS),
        ("case", case, CASES),
        ("kind of subwords", subwords, SUBWORDS),
    ):
        if value not in choices:
            raise unknown(name, value, choices)
    given: dict[str, Any] = {
        "source_lang": source_lang,
        "target_lang": target_lang,
        "train": tuple(train),
        "valid": valid,
        "tokenizer": tokenizer,
        "normalise": normalise,
        "case": case,
        "subwords": subwords,
        "merges": merges,
        "separate": separate,
        "joint_vocabulary": joint_vocabulary,
        "vocabulary_size": vocabulary_size,
        "vocabulary_threshold": vocabulary_threshold,
        "max_length": max_length,
        "max_ratio": max_ratio,
        "deduplicate": deduplicate,
    }
    try:
        options = PreprocessOptions(**given)
    except ValueError as error:
        raise UserError(str(error)) from error
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    workers = workers or cores or 1
    if shard is None:
        _print(core(options, out, overwrite, workers, bar, merge))
    elif merge is None:
        preprocess_shard(options, Shard.parse(shard), out, overwrite, workers, bar)
    else:
        raise WrongUsage("--shard makes a part and --merge joins all: give one of them")
    say(f"wrote {out}")


def _print(report: Report) -> None:
    parts = [("train", report.train), *([("valid", report.valid)] if report.valid else [])]
    rows = []
    for name, part in parts:
        dropped = ", ".join(f"{reason} {count}" for reason, count in part.dropped.items() if count)
        rows.append([name, f"{part.read}", f"{part.kept}", dropped or "none"])
    table("Pairs", ["part", "read", "kept", "dropped"], rows, sys.stdout)
    rows = []
    for name, part in parts:
        for side in (part.source, part.target):
            rows.append(
                [
                    f"{name}.{side.language}",
                    f"{side.tokens}",
                    f"{side.subwords}",
                    f"{side.mean_length:.1f}",
                    f"{side.max_length}",
                    f"{100 * side.unknown_rate:.2f} %",
                    f"{side.controls}",
                ]
            )
    columns = ["side", "tokens", "subwords", "mean length", "longest", "UNK", "controls → space"]
    table("Text", columns, rows, sys.stdout)
    for vocabulary in (report.source_vocabulary, report.target_vocabulary):
        print(f"vocabulary.{vocabulary.language}: {vocabulary.size} of {vocabulary.types} subwords")
    for what, learned in report.merges_learned.items():
        print(f"{what}: {report.merges_asked} merges asked, {learned} learned")
