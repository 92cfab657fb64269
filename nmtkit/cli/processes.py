"""The command line as one of the processes that torchrun starts: one of them reads and speaks.

Outside torchrun there is one process, and nothing here does anything.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from nmtkit.errors import UserError

HOST = "127.0.0.1"
WORKER = "NMTKIT_WORKER"  # set in processes that `spread` has started

_others: list[subprocess.Popen[bytes]] = []  # those that this one has started


def started() -> bool:
    """Whether torchrun started this process, or `spread`."""
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


def spread(workers: int) -> None:
    """Go on as one of so many processes of this command, each with its share of the cores.

    The others begin the command anew, and meet this one here; they end before it does.
    """
    if workers == 1 or WORKER in os.environ:
        return
    if started():
        raise UserError("--workers: torchrun has started the processes already: leave it out")
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    threads = max(1, (os.cpu_count() or 1) // workers)
    common = {"MASTER_ADDR": HOST, "MASTER_PORT": str(port), "WORLD_SIZE": str(workers)}
    common |= {"TORCHELASTIC_RUN_ID": "nmtkit", "OMP_NUM_THREADS": str(threads), WORKER: "1"}
    os.environ.update(common, RANK="0", LOCAL_RANK="0")
    command, quiet = [sys.executable, "-m", "nmtkit", *sys.argv[1:]], subprocess.DEVNULL
    for number in map(str, range(1, workers)):
        own = {**os.environ, "RANK": number, "LOCAL_RANK": number}
        _others.append(subprocess.Popen(command, env=own, stdin=quiet, stdout=quiet))
    import torch

    torch.set_num_threads(threads)
    join()


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
    for process in _others:
        process.kill()
    abandon(code)


def leave() -> None:
    """Before a process ends well."""
    if started() and "nmtkit.distributed" in sys.modules:
        from nmtkit.distributed import close

        close()
    for process in _others:
        process.wait()
