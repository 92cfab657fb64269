"""A run under torchrun one of whose processes is killed once: the corpus, the model directory."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from nmtkit.distributed import abandon, close, group
from nmtkit.errors import UserError
from nmtkit.train import is_begun, resume, train
from nmtkit.train.update import Update, Updater
from tests.micro import settings
from tests.two_processes import RUNS

KILLED_AT = 6  # the update


def killing(number: int, mark: Path) -> Any:
    """Updater.__call__ that kills its process in the update of this number, and leaves a mark."""
    known, done = Updater.__call__, 0

    def call(self: Updater, *arguments: Any) -> Update:
        nonlocal done
        done += 1
        if done == number:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return known(self, *arguments)

    return call


if __name__ == "__main__":
    chosen, out = settings(Path(sys.argv[1]), *RUNS["dropout"]), Path(sys.argv[2])
    if not is_begun(out) and group().rank == 1:
        setattr(Updater, "__call__", killing(KILLED_AT, out.with_name("mark")))  # noqa: B010
    try:
        (resume if is_begun(out) else train)(chosen, out)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        abandon(1)
    close()
