"""nmtkit align with files of links: combining two directions, converting, checking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from nmtkit.cli.found import Found
from nmtkit.cli.output import WrongUsage, say, writing
from nmtkit.links import check_lines, convert, read_directions


@dataclass(frozen=True)
class LinksFile:
    """How files of links are to be read, and the texts they are of."""

    format: str
    one_based: bool
    swap: bool
    source: str | None
    target: str | None

    def combine(self, forward: Path, backward: Path, symmetrize: str) -> Iterator[Found]:
        """The links of two directions together."""
        pairs = read_directions(
            forward,
            backward,
            self.format,
            symmetrize,
            source=self.source,
            target=self.target,
            one_based=self.one_based,
        )
        return map(Found, pairs)

    def convert(self, path: Path, out: str, format: str, symmetrize: str | None) -> None:
        """Write the links in another format; says what had no place there."""
        if (self.source is None) != (self.target is None):
            raise WrongUsage("--source and --target go together")
        with writing(out) as file:
            done = convert(
                path,
                file,
                self.format,
                format,
                source=self.source,
                target=self.target,
                symmetrize=symmetrize,
                one_based=self.one_based,
                swap=self.swap,
            )
        if done.left_out:
            say(f"warning: {done.left_out} links are possible only, and {format} has sure ones")

    def check(self, path: Path) -> None:
        """Print what is wrong with every bad line, and end with 1; or say that all are good."""
        if self.source is None or self.target is None:
            raise WrongUsage("--check needs the lines that the links are of: --source and --target")
        texts = self.source, self.target
        lines = check_lines(path, self.format, *texts, one_based=self.one_based, swap=self.swap)
        bad = 0
        while True:
            try:
                print(next(lines))
                bad += 1
            except StopIteration as end:
                count = end.value
                break
        if bad:
            raise typer.Exit(1)
        say(f"{count} lines, all good")
