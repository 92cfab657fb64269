"""What is asked of a run from outside while it goes on: to save, to end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(Exception):
    """The run was asked to end. What it has done is saved, if it had begun."""


class Requests:
    """Set by a signal's handler, looked at between updates.

    Where nothing would be lost by it, before the first update and in a validation, `stop` raises
    Stopped at once, in the midst of what is going on.
    """

    def __init__(self) -> None:
        self.stopping = False
        self.saving = False
        self._held = False

    def stop(self) -> None:
        """End the run; its checkpoint is written first."""
        self.stopping = True
        if not self._held:
            raise Stopped

    def save(self) -> None:
        """Write the checkpoint after this update, and go on."""
        self.saving = True

    @contextmanager
    def held(self, held: bool = True) -> Iterator[None]:
        """In this block `stop` raises nothing; or, in one within it that is not `held`, does."""
        before, self._held = self._held, held
        try:
            if self.stopping and not held:
                raise Stopped
            yield
        finally:
            self._held = before
