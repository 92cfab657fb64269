"""Where tokens stand in a line, and which stretch of a translation belongs to some source words."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from nmtkit.text import token_map

Span = tuple[int, int]  # from, up to


def token_spans(line: str, tokens: Sequence[str]) -> list[Span]:
    """The characters of `line` that every token was cut from, or stands in, in order.

    Spans do not overlap and leave out spaces at their ends. One is empty where nothing of the
    token is found.
    """
    places = [place for place, character in enumerate(line) if character != " "]
    found = token_map(" ".join(line[place] for place in places), list(tokens))
    starts = [places[index] if index >= 0 else -1 for index in found]
    spans: list[Span] = []
    following = len(line)
    for start in reversed(starts):
        start = following if start < 0 else min(start, following)
        spans.append((start, start + len(line[start:following].rstrip())))
        following = start
    return spans[::-1]


def longest_run(own: AbstractSet[int], others: AbstractSet[int]) -> Span | None:
    """The stretch with the most of the positions `own` and none that is only the `others`'.

    It begins and ends with an own one; the first of equals; None without own ones. The runs of
    disjoint sets, each with all the rest for `others`, never overlap.
    """
    best: Span | None = None
    most = count = begin = 0
    for position in sorted(own | others):
        if position not in own:
            count = 0
            continue
        if not count:
            begin = position
        count += 1
        if count > most:
            most, best = count, (begin, position + 1)
    return best
