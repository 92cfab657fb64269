"""A JSON object a line: tokens, links and what is known of their probabilities.

    {"source": ["das", "Haus"], "target": ["the", "house"], "sure": [[0, 0, 0.93], [1, 1]],
     "possible": [[1, 0]]}

A link is [source, target] or [source, target, probability]; positions count from 0.
``possible`` are the links that are possible only. Without tokens both sides are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from nmtkit.errors import unknown
from nmtkit.links.pair import Gold, Link, LinkedPair
from nmtkit.links.parts import MAX_POSITION, SHOWN, shown, write_probability

MAX_LINE = 8_000_000  # characters; two sides of MAX_POSITION tokens fit
LONGEST = 20  # digits of a number
KEYS = ("source", "target", "sure", "possible")


def parse_json(line: str) -> LinkedPair:
    """Raises ValueError for anything but such an object, and for links beyond its tokens."""
    value = _load(line)
    if not isinstance(value, dict):
        raise ValueError(f"{shown(line)} should be a JSON object")
    for key in value:
        if key not in KEYS:
            raise ValueError(str(unknown("key", key[:SHOWN], KEYS)))
    source, target = _tokens(value, "source"), _tokens(value, "target")
    if (source is None) != (target is None):
        raise ValueError("source and target go together: give both or none")
    limits = [MAX_POSITION + 1 if side is None else len(side) for side in (source, target)]
    probabilities: dict[Link, float] = {}
    sure, possible = (_links(value, key, limits, probabilities) for key in ("sure", "possible"))
    gold = Gold(frozenset(sure), frozenset(sure + possible))
    return LinkedPair(gold, source, target, probabilities or None)


def _load(line: str) -> Any:
    if len(line) > MAX_LINE:
        raise ValueError(f"{len(line)} characters, more than any sentence pair: damaged?")
    try:
        return json.loads(
            line, parse_constant=_no_constant, parse_int=_integer, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at character {error.pos + 1} ({error.msg})") from None
    except RecursionError:
        raise ValueError("not a sentence pair: brackets within brackets") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int:
    if len(digits) > LONGEST:
        raise ValueError(f"the number {shown(digits)} is too long")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key comes twice")
    return value


def _tokens(value: dict[str, Any], key: str) -> list[str] | None:
    tokens = value.get(key)
    if tokens is None:
        return None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError(f"{key} should be a list of strings")
    for token in tokens:
        if " " in token or "\n" in token:
            raise ValueError(f"the {key} token {shown(token)} has a space or a line end in it")
    try:
        "".join(tokens).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{key} has half a character (a lone surrogate)") from None
    return tokens


def _links(
    value: dict[str, Any], key: str, limits: list[int], probabilities: dict[Link, float]
) -> list[Link]:
    """The links under ``key``; those with a probability are noted in ``probabilities``."""
    links = value.get(key, [])
    if not isinstance(links, list):
        raise ValueError(f"{key} should be a list of links")
    found: list[Link] = []
    for item in links:
        shape = [type(part) for part in item] if isinstance(item, list) else []
        if shape[:2] != [int, int] or shape[2:] not in ([], [int], [float]):
            raise ValueError(
                f"{shown(str(item))} in {key} should be [source, target] or "
                "[source, target, probability]"
            )
        link = item[0], item[1]
        for position, limit in zip(link, limits):
            if not 0 <= position < limit:
                raise ValueError(f"position {position} of {key} is not one of {limit}, from 0")
        found.append(link)
        if item[2:]:
            _note(probabilities, link, item[2])
    return found


def _note(probabilities: dict[Link, float], link: Link, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"the probability of link {link[0]}-{link[1]} is not between 0 and 1")
    if probabilities.setdefault(link, float(value)) != value:
        raise ValueError(f"link {link[0]}-{link[1]} has two probabilities")


def format_json(pair: LinkedPair) -> str:
    """One line, links sorted, probabilities to six digits. ValueError outside 0 to 1."""
    known = pair.probabilities or {}
    value: dict[str, Any] = {}
    if pair.source is not None and pair.target is not None:
        value = {"source": pair.source, "target": pair.target}
    value["sure"] = _items(pair.gold.sure, known)
    if only := pair.gold.possible - pair.gold.sure:
        value["possible"] = _items(only, known)
    return json.dumps(value, ensure_ascii=False)


def _items(links: Iterable[Link], known: Any) -> list[list[float]]:
    return [
        [*link, float(write_probability(known[link]))] if link in known else [*link]
        for link in sorted(links)
    ]
