"""What the signals of the system ask of a training run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nmtkit.train import Requests

ENDING = ("SIGINT", "SIGTERM")
SAVING = ("SIGUSR1",)  # Windows has none


class Signals:
    """Passes the signals on to a run: SIGINT and SIGTERM save and end it, SIGUSR1 only saves."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.ending = signal.SIGINT  # the one that ended the run

    @property
    def exit_code(self) -> int:
        """As a shell gives it for a process that a signal has ended."""
        return 128 + self.ending

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Listen in this block, whatever was so before.

        A shell without job control lets the processes it starts in the background ignore SIGINT.
        """
        names = [name for name in (*ENDING, *SAVING) if hasattr(signal, name)]
        before = {name: signal.signal(getattr(signal, name), self._handle) for name in names}
        try:
            yield
        finally:
            for name, handler in before.items():
                # None: it was set by another language, and cannot be set back.
                signal.signal(getattr(signal, name), signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, _: FrameType | None) -> None:
        received = signal.Signals(number)
        if received.name in SAVING:
            self.requests.save()
        elif not self.requests.stopping:
            self.ending = received
            self.requests.stop()
