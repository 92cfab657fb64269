"""The command line: five commands, each parses, calls the core once, and prints.

Nothing heavy is imported here: a command imports what it needs when it runs.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from nmtkit.cli import processes
from nmtkit.cli.align import align
from nmtkit.cli.completion import take_named_shell
from nmtkit.cli.preprocess import preprocess
from nmtkit.cli.score import score
from nmtkit.cli.train import train
from nmtkit.cli.translate import translate
from nmtkit.cli.versions import versions
from nmtkit.errors import UserError, out_of_memory
from nmtkit.files import clean_line

LONGEST = 2000  # characters of an error line

app = typer.Typer(
    help="Machine translation with attention, from raw parallel text to BLEU and AER.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (preprocess, train, translate, score, align):
    app.command(no_args_is_help=True)(command)


def _version(wanted: bool) -> None:
    if wanted:
        print(versions())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            help="Print the versions of nmtkit, Python and torch.",
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. Exit codes: 0 fine, 1 the user's mistake or bad data, 2 wrong usage."""
    if sys.stdin is None:  # closed by the caller: there is nothing to read
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        _fail("standard output is closed: there is nowhere to write to")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", newline="\n", errors="backslashreplace")
    processes.mute()
    if sys.argv[1:2] == ["preprocess"]:  # one process does it
        if processes.rank():
            return
        processes.go_alone()
    take_named_shell()
    try:
        processes.join()
        app(prog_name="nmtkit")
    except SystemExit as end:
        if end.code and processes.started():
            processes.fail("", end.code if isinstance(end.code, int) else 1)
        if not end.code:
            processes.leave()
        raise
    except UserError as error:
        _fail(str(error))
    except BrokenPipeError:
        # The reader of stdout has gone; Python must not fail once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        processes.fail("", 141)
    except OSError as error:  # such as a disk that is full
        _fail(f"{error.filename or 'cannot write'}: {error.strerror or error}")
    except KeyboardInterrupt:
        processes.fail("nmtkit: interrupted", 130)
    except Exception as error:
        if out_of_memory(error):
            reason = str(error) or type(error).__name__
            _fail(f"not enough memory ({reason}): smaller batches, or shorter lines, need less")
        if not processes.started():
            raise
        processes.fail(traceback.format_exc(), 1)


def _fail(message: str) -> NoReturn:
    text = clean_line(" ".join(message.splitlines()))  # what a hostile file says in it stays text
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    processes.fail(f"nmtkit: {shown}", 1)
