"""Trains FOLDER/recipe.toml into FOLDER/model, and prints a line every so many updates.

python train_nmtkit.py FOLDER EVERY
"""

from __future__ import annotations

import sys
from pathlib import Path

from nmtkit.train import Record, Silent, settings_from, train


class Counting(Silent):
    """Says how far the run has come."""

    def __init__(self, every: int) -> None:
        self.every = every

    def updated(self, done: float, record: Record) -> None:
        """After every update."""
        number = int(str(record["update"]))
        if number % self.every == 0:
            print(f"update {number}", flush=True)

    def recorded(self, record: Record) -> None:
        """What also goes into metrics.jsonl."""
        print(record, file=sys.stderr)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    settings = settings_from(None, config=folder / "recipe.toml")
    train(settings, folder / "model", Counting(int(sys.argv[2])))
