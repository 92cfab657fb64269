"""Scores by source length (Bahdanau et al., 2015, figure 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nmtkit.score.text import TextOptions, Texts, scores_of

WIDTH = 10  # words a bucket


@dataclass(frozen=True)
class Bucket:
    """The sentences whose source has ``shortest`` to ``longest`` words, and their corpus score."""

    shortest: int
    longest: int
    sentences: int
    value: float


def buckets(sources: Iterable[str], width: int = WIDTH) -> dict[int, list[int]]:
    """The longest length of every bucket -> its lines, counted from 0; by length.

    Words are what white space separates. A bucket without lines is not there; blank lines belong
    to the first.
    """
    found: dict[int, list[int]] = {}
    for row, line in enumerate(sources):
        found.setdefault(max(1, -(-len(line.split()) // width)) * width, []).append(row)
    return dict(sorted(found.items()))


def score_by_length(
    texts: Texts, options: TextOptions, width: int = WIDTH
) -> dict[str, list[Bucket]]:
    """System -> its score in every bucket, by the first metric. ``texts`` must have the source."""
    assert texts.sources is not None
    first = replace(options, metrics=options.metrics[:1])
    found: dict[str, list[Bucket]] = {name: [] for name in texts.systems}
    for longest, rows in buckets(texts.sources, width).items():
        for name, (score,) in scores_of(texts.only(rows), first).items():
            found[name].append(Bucket(longest - width + 1, longest, len(rows), score.value))
    return found
