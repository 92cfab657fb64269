"""The command line as one of the processes that torchrun starts: one of them reads and speaks.

Outside torchrun there is one process, and nothing here does anything.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def started() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def rank() -> int:
    """The number of this process among those of the run; 0 reads, writes and speaks."""
    return int(os.environ["RANK"]) if started() else 0


def mute() -> None:
    """Let every process but one find stdin empty, and write nowhere."""
    if rank():
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def join() -> None:
    """Meet the others."""
    if started():
        from nmtkit.distributed import group

        group()


def fail(text: str, code: int) -> NoReturn:
    """End with this exit code, and tell the user why, unless another process has told him.

    An empty text tells nothing, and keeps the others from telling.
    """
    if not started():
        if text:
            print(text, file=sys.stderr)
        sys.exit(code)
    from nmtkit.distributed import abandon, first_to_fail

    if first_to_fail() and text:
        print(text, file=sys.__stderr__, flush=True)
    abandon(code)


def leave() -> None:
    """Before a process ends well."""
    if started() and "nmtkit.distributed" in sys.modules:
        from nmtkit.distributed import close

        close()
