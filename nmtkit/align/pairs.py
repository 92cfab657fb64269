"""Pairs of lines in, their links out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nmtkit.align.extraction import Matrix, extract
from nmtkit.align.options import AlignOptions
from nmtkit.align.reading import Line, read_attention
from nmtkit.checkpoint import Trained
from nmtkit.links import Links
from nmtkit.progress import Progress, silent


@dataclass(frozen=True)
class Aligned:
    """One pair: its tokens, the word attention (I, J+1; the last column is NULL), the links.

    `backward` (J, I+1) is the attention of the other direction, where there is one.
    """

    source: list[str]
    target: list[str]
    attention: Matrix
    links: Links
    backward: Matrix | None = None

    def weights(self) -> dict[tuple[int, int], float]:
        """The attention weight of every link, from 0 to 1; of two directions their mean."""
        one, other = self.attention, self.backward
        if other is None:
            return {(j, i): float(one[i, j]) for j, i in sorted(self.links)}
        return {(j, i): float(one[i, j] + other[j, i]) / 2 for j, i in sorted(self.links)}


def align(
    models: Sequence[Trained],
    pairs: Iterable[tuple[str, str]],
    options: AlignOptions,
    progress: Progress = silent,
    reverse: Sequence[Trained] = (),
) -> Iterator[Aligned]:
    """The links of every pair of lines, in order.

    `models` is one model or an ensemble, and so is `reverse`, of the other direction. Both read
    the pairs `read_ahead` at a time, so that memory does not grow with their number.
    """
    stream = iter(progress(pairs, "aligning"))
    while some := list(islice(stream, options.read_ahead)):
        sides = _segmented(models[0], some, options)
        forwards = read_attention(models, sides, options)
        backwards: Sequence[Matrix | None] = [None] * len(some)
        if reverse:
            turned = _segmented(reverse[0], [(t, s) for s, t in some], options)
            backwards = read_attention(reverse, turned, options)
        for (source, target), one, other in zip(sides, forwards, backwards, strict=True):
            links = extract(one, other, options)
            yield Aligned(source.words, target.words, one, links, other)


def _segmented(
    trained: Trained, pairs: Sequence[tuple[str, str]], options: AlignOptions
) -> list[tuple[Line, Line]]:
    """Pairs of lines as the model reads them."""
    read = Line.of_raw if options.raw else Line.of_tokens
    return [(read(trained.source, s), read(trained.target, t)) for s, t in pairs]
