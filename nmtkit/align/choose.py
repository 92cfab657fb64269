"""`--method auto`: which reading, method, threshold and symmetrisation suit given pairs best.

With gold links the lowest AER decides. It is then too low a figure for these very pairs: choose on
a development set, and repeat the choice on the test set.

Without gold links two directions judge each other, a heuristic: two models read their attention
independently, so the links that both find are rarely found by chance. That chooses the row reading,
and the method and threshold of the links of each direction; it cannot choose a symmetrisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from nmtkit.align.extraction import BOTH, METHODS, extract
from nmtkit.align.options import AlignOptions
from nmtkit.align.pairs import Aligned, align
from nmtkit.checkpoint import Trained
from nmtkit.errors import UserError
from nmtkit.links import SYMMETRISATIONS, Gold, Links, transpose
from nmtkit.progress import Progress, silent
from nmtkit.score import score_links

#: The thresholds that are tried.
GRID = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

Readings = Mapping[str | None, Sequence[Aligned]]  # of all pairs, by the name of the row reading


@dataclass(frozen=True)
class Choice:
    """Options and what they reach, in percent: AER, precision and recall, or agreement."""

    options: AlignOptions
    two: bool  # directions
    figures: Mapping[str, float]

    @property
    def arguments(self) -> str:
        """The options of the command line that repeat the choice."""
        said = [] if self.options.rows is None else [f"--rows {self.options.rows}"]
        if not (self.two and self.options.symmetrize in BOTH):
            said.append(f"--method {self.options.method}")
        if self.options.threshold is not None:
            said.append(f"--threshold {self.options.threshold:g}")
        if self.two:
            said.append(f"--symmetrize {self.options.symmetrize}")
        return " ".join(said)


@dataclass(frozen=True)
class Space:
    """What is tried: the row readings, and the ways to put two directions together."""

    rows: Sequence[str | None]  # None: each model's own
    symmetrize: Sequence[str]


def choose(
    models: Sequence[Trained],
    pairs: Sequence[tuple[str, str]],
    options: AlignOptions,
    space: Space,
    gold: Sequence[Gold] | None = None,
    progress: Progress = silent,
    reverse: Sequence[Trained] = (),
) -> tuple[list[Choice], list[Aligned]]:
    """All choices, best first, and the pairs aligned by the best; of equals the first tried.

    The attention is read once for every row reading, and kept in memory. Without `gold`, of which
    there must be one for every pair, `reverse` is needed; then the first of `space.symmetrize` is
    taken. Raises UserError when there are no pairs, or `gold` has no links.
    """
    if not pairs:
        raise UserError("there are no pairs of lines to choose by")
    if gold is not None and not any(one.possible for one in gold):
        raise UserError("the gold file has no links: there is nothing to choose by")
    readings: dict[str | None, list[Aligned]] = {}
    for rows in space.rows:
        read = list(align(models, pairs, replace(options, rows=rows), progress, reverse))
        if not any(_same(read, other) for other in readings.values()):
            readings[rows] = read
    if gold is None:
        ranking = _by_agreement(readings, replace(options, symmetrize=space.symmetrize[0]))
        ranking.sort(key=lambda choice: -choice.figures["agreement"])
    else:
        symmetrize = space.symmetrize if reverse else ()
        ranking = list(_by_gold(readings, options, symmetrize, gold, progress))
        ranking.sort(key=lambda choice: choice.figures["AER"])
    best = ranking[0].options
    read = readings[best.rows]
    return ranking, [replace(one, links=extract(one.attention, one.backward, best)) for one in read]


def _same(read: Sequence[Aligned], other: Sequence[Aligned]) -> bool:
    """Whether two row readings are the same for this model."""
    return all(np.array_equal(a.attention, b.attention) for a, b in zip(read, other, strict=True))


def _methods() -> list[tuple[str, float | None]]:
    """Every method with every threshold; None, its own, where that is to have none."""
    return [
        (name, threshold)
        for name, method in METHODS.items()
        for threshold in _thresholds(method.threshold)
    ]


def _thresholds(own: float) -> tuple[float | None, ...]:
    return GRID if own else (None, *GRID)


def _by_gold(
    readings: Readings,
    options: AlignOptions,
    symmetrize: Sequence[str],
    gold: Sequence[Gold],
    progress: Progress,
) -> Iterator[Choice]:
    """The AER of everything; `symmetrize` is empty where there is one direction."""
    hard = [how for how in symmetrize if how in SYMMETRISATIONS]
    tried = list(product(readings, _methods())) if hard or not symmetrize else []
    for rows, (method, threshold) in progress(tried, "choosing", len(tried)):
        one = replace(options, rows=rows, method=method, threshold=threshold)
        forward, backward = _directions(readings[rows], one)
        if not symmetrize:
            yield _scored(one, False, forward, gold)
        for how in hard:
            combine = SYMMETRISATIONS[how]
            links = [combine(f, b) for f, b in zip(forward, backward, strict=True)]
            yield _scored(replace(one, symmetrize=how), True, links, gold)
    soft = [how for how in symmetrize if how in BOTH]
    for rows, how in progress(list(product(readings, soft)), "choosing"):
        for threshold in _thresholds(BOTH[how].threshold):
            one = replace(options, rows=rows, symmetrize=how, threshold=threshold)
            links = [extract(pair.attention, pair.backward, one) for pair in readings[rows]]
            yield _scored(one, True, links, gold)


def _directions(read: Sequence[Aligned], options: AlignOptions) -> tuple[list[Links], list[Links]]:
    """The links of each direction, all source-target; none backward where there is no reverse."""
    method = METHODS[options.method]
    forward = [method(one.attention, options) for one in read]
    backward = [
        transpose(method(one.backward, options)) for one in read if one.backward is not None
    ]
    return forward, backward


def _scored(
    options: AlignOptions, two: bool, links: Sequence[Links], gold: Sequence[Gold]
) -> Choice:
    found = score_links(links, gold)
    rates = {"AER": found.aer, "precision": found.precision, "recall": found.recall}
    return Choice(options, two, {name: 100 * rate for name, rate in rates.items()})


def _by_agreement(readings: Readings, options: AlignOptions) -> list[Choice]:
    """How well the links of both directions agree, for every reading and (hard links) method.

    Ways that read both directions at once have no links of each: their rows are judged by argmax.
    """
    soft = options.symmetrize in BOTH
    methods = [("argmax", None)] if soft else _methods()
    found = []
    for rows, (method, threshold) in product(readings, methods):
        one = replace(options, rows=rows, method=method, threshold=threshold)
        sizes = [(len(read.source), len(read.target)) for read in readings[rows]]
        value = agreement(*_directions(readings[rows], one), sizes)
        found.append(Choice(one, True, {"agreement": 100 * value}))
    return found


def agreement(
    forward: Sequence[Links], backward: Sequence[Links], sizes: Sequence[tuple[int, int]]
) -> float:
    """Cohen's kappa of two directions' links (source, target) over pairs of (J, I) words.

    That is their F1 with what chance gives taken off both sides of the fraction: linking all with
    all is no agreement. Nor is linking next to nothing: a direction counts as having at least a
    link for every word that it could choose for (I forward, J backward). At most 1.
    """
    shared = possible = 0.0
    for one, other, (sources, targets) in zip(forward, backward, sizes, strict=True):
        by_chance = len(one) * len(other) / max(sources * targets, 1)
        shared += 2 * (len(one & other) - by_chance)
        possible += max(len(one), targets) + max(len(other), sources) - 2 * by_chance
    return shared / possible if possible > 0 else 0.0
