"""The command line as one of the processes that torchrun starts: one of them reads and speaks.

Outside torchrun there is one process, and nothing here does anything.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NoReturn

from nmtkit.errors import UserError

HOST = "127.0.0.1"
STARTED = "TORCHELASTIC_RUN_ID"  # set in processes that torchrun has started
WORKER = "NMTKIT_WORKER"  # set in processes that `spread` has started

PATIENCE = 0.2  # seconds between two looks at those that were started

_others: list[subprocess.Popen[bytes]] = []  # those that this one has started


def started() -> bool:
    """Whether torchrun started this process, or `spread`."""
    return STARTED in os.environ


def rank() -> int:
    """The number of this process among those of the run; 0 reads, writes and speaks."""
    return int(os.environ["RANK"]) if started() else 0


def mute() -> None:
    """Let every process but one find stdin empty, and write nowhere."""
    if rank():
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115
        sys.stdout = sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def go_alone() -> None:
    """Have nothing to do with the others from here on, which have nothing to do."""
    os.environ.pop(STARTED, None)


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
    import torch

    threads = str(max(1, torch.get_num_threads() // workers))
    common = {"MASTER_ADDR": HOST, "MASTER_PORT": str(port), "WORLD_SIZE": str(workers)}
    common |= {STARTED: "nmtkit", WORKER: "1"}
    common |= {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    os.environ.update(common, RANK="0", LOCAL_RANK="0")
    quiet = subprocess.DEVNULL
    for number in map(str, range(1, workers)):
        own = {**os.environ, "RANK": number, "LOCAL_RANK": number}
        _others.append(subprocess.Popen(_command(), env=own, stdin=quiet, stdout=quiet))
    torch.set_num_threads(int(threads))
    met = Event()
    Thread(target=_watch, args=(met,), daemon=True).start()
    join()
    met.set()


def _command() -> list[str]:
    """What begins this command anew; with `-m` the present folder's modules go before Python's."""
    script = Path(sys.argv[0])
    itself = [str(script)] if script.name == "nmtkit" and script.is_file() else ["-m", "nmtkit"]
    return [sys.executable, *itself, *sys.argv[1:]]


def _watch(met: Event) -> None:
    """Until all have met, end this process when one that it has started ends; nobody else would."""
    while not met.wait(PATIENCE):
        ended = [process.returncode for process in _others if process.poll() is not None]
        if ended and not met.is_set():
            fail(
                f"nmtkit: --workers: a process ended before it began (exit status {ended[0]}): "
                "with too little memory, give fewer workers",
                1,
            )


def fail(text: str, code: int) -> NoReturn:
    """End with this exit code, and tell the user why, unless another process has told him.

    An empty text tells nothing, and keeps the others from telling.
    """
    if not started():
        if text:
            print(text, file=sys.stderr)
        sys.exit(code)
    from nmtkit.distributed import abandon, first_to_fail

    first = first_to_fail()
    if first and text:
        print(text, file=sys.__stderr__, flush=True)
    for process in _others:
        if not first:  # one of them tells the user just now
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
        process.kill()
    abandon(code)


def leave() -> None:
    """Before a process ends well."""
    if started() and "nmtkit.distributed" in sys.modules:
        from nmtkit.distributed import close

        close()
    for process in _others:
        process.wait()
