"""Pairs of lines in, their links out."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from nmtkit.align.extraction import Matrix, extract
from nmtkit.align.options import AlignOptions
from nmtkit.align.reading import Line, read_attention
from nmtkit.batches import check_length
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

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes the same of again, to the last bit."""
        matrices = [_packed(one) for one in (self.attention, self.backward) if one is not None]
        links = sorted(self.links)
        return {"source": self.source, "target": self.target, "links": links, "read": matrices}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> Aligned:
        """The pair that `to_json` made this of."""
        links = frozenset((j, i) for j, i in found["links"])
        attention, *backward = map(_unpacked, found["read"])
        return Aligned(found["source"], found["target"], attention, links, *backward)

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
    first: int = 0,
) -> Iterator[Aligned]:
    """The links of every pair of lines, in order.

    `models` is one model or an ensemble, and so is `reverse`, of the other direction. Both read
    the pairs `read_ahead` at a time, so that memory does not grow with their number. `first`: the
    number of the first pair, from 0, for messages.
    """
    stream = iter(progress(pairs, "aligning"))
    while some := list(islice(stream, options.read_ahead)):
        sides = _segmented(models[0], some, options)
        for number, lines in enumerate(sides, first + 1):
            check_length(max(len(line.ids) for line in lines), f"pair {number}")
        first += len(some)
        forwards = read_attention(models, sides, options)
        backwards: Sequence[Matrix | None] = [None] * len(some)
        if reverse:
            turned = _segmented(reverse[0], [(t, s) for s, t in some], options)
            backwards = read_attention(reverse, turned, options)
        for (source, target), one, other in zip(sides, forwards, backwards, strict=True):
            links = extract(one, other, options)
            yield Aligned(source.words, target.words, one, links, other)


def _packed(matrix: Matrix) -> tuple[tuple[int, ...], str]:
    return matrix.shape, base64.b64encode(matrix.astype(np.float64).tobytes()).decode()


def _unpacked(packed: tuple[Sequence[int], str]) -> Matrix:
    return np.frombuffer(base64.b64decode(packed[1]), np.float64).reshape(packed[0])


def _segmented(
    trained: Trained, pairs: Sequence[tuple[str, str]], options: AlignOptions
) -> list[tuple[Line, Line]]:
    """Pairs of lines as the model reads them."""
    read = Line.of_raw if options.raw else Line.of_tokens
    return [(read(trained.source, s), read(trained.target, t)) for s, t in pairs]
