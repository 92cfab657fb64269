"""Combining the links of two directions.

Symmetrisation follows symal of Moses (Koehn et al., "Edinburgh System Description for the 2005
IWSLT Speech Translation Evaluation"; Och and Ney, 2003, section 5 for union and intersection).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from nmtkit.errors import unknown
from nmtkit.links.files import in_step
from nmtkit.links.pair import Link, Links

# symal keeps points as (target, source) in an ordered set and walks it target by target, source by
# source within. A point added ahead of the walk is met in the same pass, one behind it in the next
# pass. Additions count at once, so this order decides between rivals; it is kept here exactly.
# Which of symal's two inputs is ours: `forward` links come from the model source -> target, where
# every target word chooses its source word (GIZA++ and fast_align "forward"; symal's array b,
# "tgttosrc"). "final" visits those first, then the backward ones (symal's array a).

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def _union(forward: Links, backward: Links) -> Links:
    return forward | backward


def _intersection(forward: Links, backward: Links) -> Links:
    return forward & backward


def _grow_diag(
    forward: Links, backward: Links, final: Callable[[bool, bool], bool] | None = None
) -> Links:
    """Grow the intersection into the union by neighbours of which either word is unaligned.

    ``final(source_aligned, target_aligned)`` says which of the remaining links join at the end.
    """
    union = forward | backward
    links = set(forward & backward)
    if len(links) == len(union):
        return union
    sources = {source for source, _ in links}
    targets = {target for _, target in links}
    _grow(links, union - links, sources, targets)
    if final is not None:
        for direction in (forward - backward, backward - forward):
            # Only links that share a word are rivals; of those, symal's order is this one too.
            for source, target in sorted(direction - links):
                if final(source in sources, target in targets):
                    links.add((source, target))
                    sources.add(source)
                    targets.add(target)
    return frozenset(links)


def _grow(links: set[Link], candidates: Links, sources: set[int], targets: set[int]) -> None:
    """Add the ``candidates`` that grow-diag reaches to ``links``, ``sources`` and ``targets``.

    Points are numbers, target * width + source, so that their order is symal's; the spare column
    keeps neighbours from wrapping round. Each point is walked once: afterwards all its neighbours
    in the union are either links or have both words aligned, and stay so.
    """
    width = max(source for source, _ in links | candidates) + 2 if links else 0
    offsets = [down * width + across for down, across in NEIGHBOURS]
    pending = {target * width + source for source, target in candidates}
    points = sorted([target * width + source for source, target in links])
    while points and pending:
        later = []
        for point in points:  # grows while it is walked
            for offset in offsets:
                near = point + offset
                if near not in pending:
                    continue
                pending.remove(near)
                target, source = divmod(near, width)
                if source in sources and target in targets:
                    continue
                links.add((source, target))
                sources.add(source)
                targets.add(target)
                if offset > 0:
                    insort(points, near)
                else:
                    later.append(near)
        points = sorted(later)


def _either_unaligned(source_aligned: bool, target_aligned: bool) -> bool:
    return not (source_aligned and target_aligned)


def _both_unaligned(source_aligned: bool, target_aligned: bool) -> bool:
    return not (source_aligned or target_aligned)


SYMMETRISATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "union": _union,
    "intersection": _intersection,
    "grow-diag": _grow_diag,
    "grow-diag-final": partial(_grow_diag, final=_either_unaligned),
    "grow-diag-final-and": partial(_grow_diag, final=_both_unaligned),
}


def symmetrise(
    forward: Iterable[Links],
    backward: Iterable[Links],
    method: str,
    names: tuple[str, str] = ("forward", "backward"),
) -> Iterator[Links]:
    """Combine two directions line by line; both are given as (source, target).

    Raises UserError for an unknown ``method`` at once, and when the two (``names`` for the message)
    have different numbers of lines.
    """
    if method not in SYMMETRISATIONS:
        raise unknown("symmetrisation", method, SYMMETRISATIONS)
    combine = SYMMETRISATIONS[method]
    return (combine(*pair) for pair in in_step(forward, backward, names))
