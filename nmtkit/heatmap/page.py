"""A page of a whole test set: every pair's attention, links of two systems, and gold, as a grid.

One HTML file that needs nothing else: no network, no fonts, and no script to be read. A grid is a
small SVG with one path for each kind of mark, so that thousands of pairs stay small and quick.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from html import escape
from itertools import chain, pairwise
from typing import IO, TYPE_CHECKING

import numpy as np

from nmtkit.heatmap.style import CELL, SCRIPT, STYLE
from nmtkit.heatmap.tokens import Attention, Link, check_shape, visible

if TYPE_CHECKING:
    from nmtkit.links import Gold, Links

SHADES = 10  # steps from white to the darkest; a weight below half a step has none
BAD = SHADES + 1  # for what is not a number
DARKEST = 0x78  # grey of the weight 1: black lines and coloured marks must stay visible on it
NAMES = ("system 1", "system 2")

# A mark's path after "M" and its cell, and where in the cell it starts.
MARKS = {
    "alone": ("a.3 .3 0 0 0 0 .6a.3 .3 0 0 0 0-.6z", ".5 .2"),  # a disc
    "first": ("a.3 .3 0 0 0 0 .6z", ".46 .2"),  # its left half
    "second": ("a.3 .3 0 0 1 0 .6z", ".54 .2"),  # its right half
    "sure": ("h.8v.8h-.8z", ".1 .1"),
    "possible": ("h.8v.8h-.8z", ".1 .1"),
}


@dataclass(frozen=True)
class PagePair:
    """What the page shows of one sentence pair.

    ``attention`` is (T,S). ``links`` and ``other`` are those of two systems. Raises ValueError for
    an attention of another shape and for links that no token has.
    """

    source: list[str]
    target: list[str]
    attention: Attention | None
    links: Links
    other: Links | None = None
    gold: Gold | None = None

    def __post_init__(self) -> None:
        if self.attention is not None:
            check_shape(self.attention, self.source, self.target)
        shown = self.links | (self.other or set()) | (self.gold.possible if self.gold else set())
        size = len(self.source), len(self.target)
        for source, target in sorted(shown):
            if not (0 <= source < size[0] and 0 <= target < size[1]):
                raise ValueError(f"link {source}-{target} is beyond (source, target) tokens {size}")


def write_page(
    file: IO[str],
    pairs: Iterable[PagePair],
    title: str,
    names: tuple[str, ...] = (),
    languages: tuple[str, str] | None = None,
) -> None:
    """Write the page as its pairs come; memory does not grow with their number.

    ``names`` are those of the systems of ``links`` and ``other``; ``languages`` (source, target)
    the words' languages, such as "ja", for the browser's choice of fonts. The first pair decides
    what the legend explains: ValueError when a later one has a kind of marks that it lacks.
    """
    rest = iter(pairs)
    first = next(rest, None)
    names = (*names, *NAMES[len(names) :])
    kinds = _kinds(first) if first else set()
    file.write(_head(title, names, kinds))
    number = 0
    for number, pair in enumerate(chain([first] if first else [], rest), start=1):
        if extra := _kinds(pair) - kinds:
            raise ValueError(f"pair {number} has {', '.join(sorted(extra))}, the first has not")
        file.write(_section(number, pair, names, languages or ("", "")))
    count = f"{number} sentence pair{'' if number == 1 else 's'}"
    file.write(f"<footer><p>{count}.</p></footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")


def _kinds(pair: PagePair) -> set[str]:
    given = {"attention": pair.attention, "other links": pair.other, "gold links": pair.gold}
    return {kind for kind, value in given.items() if value is not None}


def _head(title: str, names: tuple[str, ...], kinds: set[str]) -> str:
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = escape(_shown(title))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}{_shade_styles()}</style>
</head>
<body>
<h1>{title}</h1>
{_legend(names, kinds)}
<form hidden><p><label>Find words, or the number of a pair: <input name="find"></label></p></form>
<svg width="0" height="0" aria-hidden="true"><defs>
<pattern id="cells" width="5" height="5" patternUnits="userSpaceOnUse">
<path d="M0 1h5M0 2h5M0 3h5M0 4h5M1 0v5M2 0v5M3 0v5M4 0v5" stroke="#ddd" stroke-width=".06"/>
<path d="M0 0h5v5H0z" fill="none" stroke="#aaa" stroke-width=".12"/></pattern></defs></svg>
"""


def _shade_styles() -> str:
    greys = [255 - (255 - DARKEST) * step // SHADES for step in range(1, BAD)]
    styles = [f".s{n} {{ stroke: rgb({grey} {grey} {grey}) }}" for n, grey in enumerate(greys, 1)]
    return "\n".join([*styles, f".s{BAD} {{ stroke: #e0a; stroke-dasharray: .2 .1 }}\n"])


def _legend(names: tuple[str, ...], kinds: set[str]) -> str:
    """What the marks mean, each beside a sample."""
    alone, first, second, sure, possible = (_mark(kind, [(0, 0)]) for kind in MARKS)
    samples = []
    if "attention" in kinds:
        steps = _svg(6, 1, _shades(np.linspace(0, 1, 6).reshape(1, -1)))
        samples.append((steps, "attention: 0 is white, 1 is grey"))
    if "other links" in kinds:
        samples.append((_svg(1, 1, first), f"link of {names[0]} only"))
        samples.append((_svg(1, 1, second), f"link of {names[1]} only"))
        samples.append((_svg(1, 1, first + second), "link of both"))
    else:
        samples.append((_svg(1, 1, alone), f"link of {names[0]}"))
    if "gold links" in kinds:
        samples.append((_svg(1, 1, sure), "gold: sure"))
        samples.append((_svg(1, 1, possible), "gold: possible only"))
    items = [f"<li>{sample}{escape(_shown(meaning))}</li>" for sample, meaning in samples]
    return f"<ul>{''.join(items)}</ul>"


def _section(
    number: int, pair: PagePair, names: tuple[str, ...], languages: tuple[str, str]
) -> str:
    """Both sentences, the counts, and the grid with its words."""
    source, target = (f' lang="{escape(lang)}"' if lang else "" for lang in languages)
    marks = [_shades(pair.attention)] if pair.attention is not None else []
    if pair.gold is not None:
        marks += [_mark("sure", pair.gold.sure)]
        marks += [_mark("possible", pair.gold.possible - pair.gold.sure)]
    if pair.other is None:
        marks += [_mark("alone", pair.links)]
    else:
        marks += [_mark("first", pair.links), _mark("second", pair.other)]
    return f"""<section id="{number}">
<h2><a href="#{number}">{number}</a></h2>
<p dir="auto"{source}>{escape(_shown(" ".join(pair.source)))}</p>
<p dir="auto"{target}>{escape(_shown(" ".join(pair.target)))}</p>
<p class="counts">{escape(_counts(pair, names))}</p>
<div class="scroll"><div class="grid">
<div class="source"{source}>{_words(pair.source)}</div>
<div class="target"{target}>{_words(pair.target)}</div>
{_svg(len(pair.source), len(pair.target), "".join(marks))}
</div></div>
</section>
"""


def _shown(text: str) -> str:
    """The text with its tokens made visible; still to be escaped."""
    return " ".join(map(visible, text.split(" ")))


def _words(tokens: list[str]) -> str:
    """Each token in an element whose direction is that of its first letter."""
    return "".join([f'<bdi dir="auto">{escape(visible(token))}</bdi>' for token in tokens])


def _counts(pair: PagePair, names: tuple[str, ...]) -> str:
    """``3 × 4 words · gold: 2 sure, 1 possible only · NAME: 3 links, 2 of 2 sure, …``"""
    parts = [f"{len(pair.source)} × {len(pair.target)} words"]
    if pair.gold is not None:
        sure, possible = pair.gold.sure, pair.gold.possible
        parts.append(f"gold: {len(sure)} sure, {len(possible - sure)} possible only")
    for name, links in zip(names, (pair.links, pair.other)):
        if links is None:
            continue
        counts = f"{_shown(name)}: {len(links)} link{'' if len(links) == 1 else 's'}"
        if pair.gold is not None:
            found, wrong = len(links & pair.gold.sure), len(links - pair.gold.possible)
            counts += f", {found} of {len(pair.gold.sure)} sure, {wrong} not in gold"
        parts.append(counts)
    return " · ".join(parts)


def _svg(width: int, height: int, marks: str) -> str:
    """A grid of cells with the marks on it; one unit is a cell."""
    frame = f'<rect width="{width}" height="{height}" fill="url(#cells)" stroke="#888" '
    return (
        f'<svg width="{width * CELL}" height="{height * CELL}" viewBox="0 0 {width} {height}" '
        f'aria-hidden="true">{marks}{frame}stroke-width=".06"/></svg>'
    )


def _shades(attention: Attention) -> str:
    """The weights (T,S) as one path a shade: runs of cells in a row are one line of it."""
    steps = np.full(attention.shape, BAD)
    numbers = np.isfinite(attention)
    steps[numbers] = np.rint(np.clip(attention[numbers], 0, 1) * SHADES)
    paths: dict[int, list[str]] = {}
    for row, levels in enumerate(steps):
        edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
        for start, end in pairwise(edges):
            if start < end and levels[start]:
                paths.setdefault(int(levels[start]), []).append(f"M{start} {row}h{end - start}")
    return "".join(
        f'<path class="shade s{step}" transform="translate(0 .5)" d="{"".join(lines)}"/>'
        for step, lines in sorted(paths.items())
    )


def _mark(kind: str, links: Collection[Link]) -> str:
    """The links as one path; nothing where there are none."""
    if not links:
        return ""
    shape, offset = MARKS[kind]
    places = "".join([f"M{source} {target}{shape}" for source, target in sorted(links)])
    return f'<path class="{kind}" transform="translate({offset})" d="{places}"/>'
