"""Tokens as pictures show them: nothing in them moves the cursor, and their width is known."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

Attention = npt.NDArray[np.floating[Any]]
Link = tuple[int, int]

JOINER, NON_JOINER = "\u200d", "\u200c"


def check_shape(
    attention: Attention, source_tokens: Sequence[str], target_tokens: Sequence[str]
) -> None:
    """Raise ValueError for an attention that is not (T,S)."""
    shape = len(target_tokens), len(source_tokens)
    if attention.shape != shape:
        raise ValueError(f"attention is {attention.shape}, but (target, source) tokens are {shape}")


def largest_column(weights: Attention) -> int:
    """The column of the largest weight (the first of equals); -1 where nothing has weight."""
    if not weights.size or not np.nanmax(np.append(weights, 0)) > 0:
        return -1
    return int(np.nanargmax(weights))


def visible(token: str) -> str:
    """The token without characters that would move the cursor, turn the line round, or not show.

    Spaces inside a token (U+00A0, U+3000) become "␣", controls and noncharacters "?".
    """
    return "".join(clusters("".join(map(_visible_character, token)).strip(JOINER)))


def _visible_character(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Zs":
        return "␣"
    joins = character in (JOINER, NON_JOINER)  # part of the spelling in some scripts
    hidden = category in ("Cc", "Cf", "Cs", "Zl", "Zp") and not joins
    return "?" if hidden or _is_noncharacter(ord(character)) else character


def _is_noncharacter(code: int) -> bool:
    return 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE


def right_to_left(text: str) -> bool:
    """Whether the text has a letter of a script written from right to left."""
    return any(unicodedata.bidirectional(character) in ("R", "AL") for character in text)


def clusters(text: str) -> list[str]:
    """Characters with the zero-width ones that follow them; emoji joined by zero-width joiners.

    Letters that a joiner joins stay apart: terminals give each its own cell.
    """
    found: list[str] = []
    for character in text:
        emoji = unicodedata.category(character) == "So"
        joined = found and found[-1].endswith(JOINER) and emoji
        if found and (joined or not cell_len(character)):
            found[-1] += character
        else:  # a combining mark with nothing to combine with gets a space to stand on
            found.append(character if cell_len(character) else " " + character)
    return found


def cells_wide(text: str) -> int:
    """How many cells of a terminal the text fills."""
    return sum(cell_len(cluster) for cluster in clusters(text))


def shorten(text: str, width: int) -> str:
    """At most ``width`` cells of the text, with "…" for what is left out."""
    if cells_wide(text) <= width:
        return text
    kept, used = "", 1
    for cluster in clusters(text):
        used += cell_len(cluster)
        if used > width:
            break
        kept += cluster
    return kept.rstrip(JOINER) + "…"
