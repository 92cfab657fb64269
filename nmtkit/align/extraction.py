"""From word attention to links: of one direction (METHODS), or of two directions together (BOTH).

Letters: J source words, I target words. `forward` (I, J+1) comes from a model source -> target: a
row for every target word, the last column NULL. `backward` (J, I+1) comes from a model of the other
direction: a row for every source word, the last column NULL. Every row is a distribution.

Every function has a threshold, the least weight of a link, and leaves out what weighs less. Links
of words without any weight are never made, whatever the threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nmtkit.links import SYMMETRISATIONS, Links, transpose

if TYPE_CHECKING:
    from nmtkit.align.options import AlignOptions

Matrix = npt.NDArray[np.float64]
Cells = npt.NDArray[np.bool_]
Mean = Callable[[Matrix, Matrix], Matrix]


def _links(cells: Cells) -> Links:
    """Cells (I, J) that are links -> (source, target)."""
    targets, sources = np.nonzero(cells)
    return frozenset(zip(sources.tolist(), targets.tolist(), strict=True))


def _mutual(weights: Matrix, allowed: Cells) -> Links:
    """The allowed cells (I, J) that are the first largest of their row and of their column."""
    if not weights.size:
        return frozenset()
    of_row, of_column = weights.argmax(1), weights.argmax(0)
    cells = np.zeros(weights.shape, dtype=np.bool_)
    cells[of_column, np.arange(weights.shape[1])] = True
    cells &= np.arange(weights.shape[1]) == of_row[:, None]
    return _links(cells & allowed)


# ----------------------------------------------------------------------------------- one direction


def argmax_links(attention: Matrix, threshold: float = 0.0) -> Links:
    """Each target word's strongest source word, unless NULL is stronger."""
    best = attention.argmax(1)
    null = attention.shape[1] - 1
    return frozenset(
        (int(j), i) for i, j in enumerate(best) if j != null and attention[i, j] >= threshold
    )


def mutual_links(attention: Matrix, threshold: float = 0.0) -> Links:
    """Argmax links whose target word is also the source word's strongest.

    The "argmax" of Jalili Sabet et al. (SimAlign, 2020), on attention.
    """
    weights = attention[:, :-1]
    return _mutual(weights, (weights >= attention[:, -1:]) & (weights >= threshold))


def threshold_links(attention: Matrix, threshold: float = 0.3) -> Links:
    """Every pair of words with at least the threshold's weight."""
    return _links(attention[:, :-1] >= threshold)


@dataclass(frozen=True)
class Method:
    """A way from one direction's attention (I, J+1) to links, and its own threshold."""

    links: Callable[[Matrix, float], Links]
    threshold: float = 0.0

    def __call__(self, attention: Matrix, options: AlignOptions) -> Links:
        least = self.threshold if options.threshold is None else options.threshold
        return self.links(attention, least)


#: To add a method: a function and a line.
METHODS: dict[str, Method] = {
    "argmax": Method(argmax_links),
    "mutual": Method(mutual_links),
    "threshold": Method(threshold_links, 0.3),
}


# ---------------------------------------------------------------------------------- two directions


def geometric_mean(one: Matrix, other: Matrix) -> Matrix:
    """The product on the scale of a weight: it ranks links as the product does."""
    return np.sqrt(one * other)


def arithmetic_mean(one: Matrix, other: Matrix) -> Matrix:
    """Half where one direction is sure and the other sees nothing."""
    return (one + other) / 2


def harmonic_mean(one: Matrix, other: Matrix) -> Matrix:
    """Nearer to the lower weight than the geometric mean; 0 where both are 0."""
    total = one + other
    return np.divide(2 * one * other, total, out=np.zeros_like(total), where=total > 0)


def _competing(mean: Mean, forward: Matrix, backward: Matrix, least: float) -> tuple[Matrix, Cells]:
    """The weight of every link (I, J), and which of them may be links at all.

    A link must weigh at least `least`, and more than NULL does: the mean of what the target word
    gives to NULL forward and the source word backward. So one direction that is sure of a link
    outvotes one that leans to NULL.
    """
    weights = mean(forward[:, :-1], backward[:, :-1].T)
    null = mean(forward[:, -1:], backward[None, :, -1])
    return weights, (weights > null) & (weights >= least)


def agreement_links(mean: Mean, forward: Matrix, backward: Matrix, threshold: float = 0.0) -> Links:
    """Words that are each other's strongest by the mean of both directions: one link a word."""
    return _mutual(*_competing(mean, forward, backward, threshold))


def competitive_links(forward: Matrix, backward: Matrix, threshold: float = 0.0) -> Links:
    """The heaviest product first, each word once (competitive linking: Melamed, 2000).

    Unlike `product`, a word whose best partner is taken goes on to its next best.
    """
    weights, allowed = _competing(geometric_mean, forward, backward, threshold)
    targets, sources = np.nonzero(allowed)
    order = np.argsort(-weights[targets, sources], kind="stable")
    links: dict[int, int] = {}
    taken: set[int] = set()
    for j, i in zip(sources[order].tolist(), targets[order].tolist(), strict=True):
        if j not in links and i not in taken:
            links[j] = i
            taken.add(i)
    return frozenset(links.items())


def posterior_links(mean: Mean, forward: Matrix, backward: Matrix, threshold: float = 0.3) -> Links:
    """Every link whose weights, taken together, reach the threshold; a word may have several.

    Posterior decoding of two directions (Liang, Taskar, Klein, 2006, section 3.2), with attention
    in the place of their posteriors.
    """
    return _links(mean(forward[:, :-1], backward[:, :-1].T) >= threshold)


@dataclass(frozen=True)
class Both:
    """A way from two directions' attention to links, and its own threshold."""

    links: Callable[[Matrix, Matrix, float], Links]
    threshold: float = 0.0

    def __call__(self, forward: Matrix, backward: Matrix, options: AlignOptions) -> Links:
        least = self.threshold if options.threshold is None else options.threshold
        return self.links(forward, backward, least)


#: To add a way: a function and a line. The greatest weight is `np.maximum`: in either direction.
BOTH: dict[str, Both] = {
    "product": Both(partial(agreement_links, geometric_mean)),
    "harmonic": Both(partial(agreement_links, harmonic_mean)),
    "competitive": Both(competitive_links),
    "posterior-union": Both(partial(posterior_links, np.maximum), 0.5),
    "posterior-intersection": Both(partial(posterior_links, np.minimum), 0.2),
    "posterior-mean": Both(partial(posterior_links, arithmetic_mean), 0.4),
    "posterior-product": Both(partial(posterior_links, geometric_mean), 0.3),
}

#: All that --symmetrize may say: on links of each direction, then on both attentions.
SYMMETRIZE = (*SYMMETRISATIONS, *BOTH)


def directions(forward: Matrix, backward: Matrix, options: AlignOptions) -> tuple[Links, Links]:
    """The links of each direction by the options' method, both (source, target)."""
    method = METHODS[options.method]
    return method(forward, options), transpose(method(backward, options))


def extract(forward: Matrix, backward: Matrix | None, options: AlignOptions) -> Links:
    """The links of one direction (`backward` None), or of both, as the options say."""
    if backward is None:
        return METHODS[options.method](forward, options)
    if options.symmetrize in BOTH:
        return BOTH[options.symmetrize](forward, backward, options)
    return SYMMETRISATIONS[options.symmetrize](*directions(forward, backward, options))
