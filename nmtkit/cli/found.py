"""Where the links of nmtkit align go: to a file, to pictures, to a page."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from nmtkit.cli.output import say, writing
from nmtkit.links import (
    FORMATS,
    Gold,
    LinkedPair,
    Links,
    check_bounds,
    in_step,
    read_gold,
    read_links,
)

if TYPE_CHECKING:
    from nmtkit.align import Matrix
    from nmtkit.heatmap import PagePair


@dataclass(frozen=True)
class Found:
    """A pair with its links, and the attention (I, J) that they were read from, if they were.

    `gold` and `other` links are what the page shows beside.
    """

    pair: LinkedPair
    attention: Matrix | None = None
    gold: Gold | None = None
    other: Links | None = None


@dataclass(frozen=True)
class Sinks:
    """All that is made of the links."""

    out: str
    format: str
    page: str | None
    compare: Path | None
    gold: Path | None  # for the page
    heatmap: Path | None
    heatmap_format: str
    show: int

    def take(self, found: Iterable[Found], name: str, source: str) -> None:
        """Write and draw the links as they come: `name` of who made them, the file `source`."""
        found = self._drawn(found)
        with writing(self.out) as file:
            if self.page is None:
                for _ in self._written(found, file):
                    pass
                return
            from nmtkit.heatmap import write_page

            beside = (str(self.compare),) if self.compare else ()
            with writing(self.page) as page:
                pairs = map(_page_pair, self._written(self._judged(found, source), file))
                write_page(page, pairs, f"Word links of {source}", (name, *beside))

    def _written(self, found: Iterable[Found], file: IO[str]) -> Iterator[Found]:
        """Pass everything on, writing the links on the way."""
        known = FORMATS[self.format]
        for number, one in enumerate(found, 1):
            file.write(known.lines(one.pair, number))
            yield one

    def _judged(self, found: Iterable[Found], source: str) -> Iterator[Found]:
        """Put gold and other links beside, checked against the sentences."""
        if self.compare is not None:
            both = in_step(found, read_links(self.compare), (source, str(self.compare)))
            found = (replace(one, other=other) for one, other in both)
        if self.gold is not None:
            judged = in_step(found, read_gold(self.gold), (source, str(self.gold)))
            found = (replace(one, gold=gold) for one, gold in judged)
        for number, one in enumerate(found, 1):
            lengths = len(one.pair.source or []), len(one.pair.target or [])
            if one.other is not None:
                check_bounds(one.other, *lengths, f"{self.compare}:{number}")
            if one.gold is not None:
                check_bounds(one.gold.possible, *lengths, f"{self.gold}:{number}")
            yield one

    def _drawn(self, found: Iterable[Found]) -> Iterator[Found]:
        """Pass everything on, drawing the attention on the way."""
        if self.heatmap or self.show:
            from nmtkit.heatmap import save_heatmap, text_heatmap
        if self.heatmap:
            self.heatmap.mkdir(parents=True, exist_ok=True)
        said: set[str] = set()
        for number, one in enumerate(found, 1):
            if one.attention is not None:
                given = (one.attention, one.pair.source or [], one.pair.target or [])
                if number <= self.show:
                    say(text_heatmap(*given, one.pair.links))
                if self.heatmap:
                    path = self.heatmap / f"{number:06d}.{self.heatmap_format}"
                    with _warnings_said(said):
                        save_heatmap(path, *given, one.pair.links)
            yield one


def _page_pair(one: Found) -> PagePair:
    from nmtkit.heatmap import PagePair

    source, target = one.pair.source or [], one.pair.target or []
    return PagePair(source, target, one.attention, one.pair.links, one.other, one.gold)


@contextmanager
def _warnings_said(said: set[str]) -> Iterator[None]:
    """Warnings as talk of the command's, each once; `said` are those that were."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        if text not in said:
            say(f"warning: {text}")
            said.add(text)
