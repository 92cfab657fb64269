"""Which token of the line as given does a token of the processed line come from?"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

from nmtkit.files import CONTROLS

DIFF_LIMIT = 400  # characters; difflib's time can grow with the third power

# What Moses' normaliser makes of punctuation; a double quote is two single ones, as it reads them.
PLAIN = str.maketrans(
    dict.fromkeys('„“”«»"', "''")
    | dict.fromkeys("´`‘’‚", "'")
    | dict.fromkeys("–—", "-")
    | {"…": "..."}
)

Characters = tuple[list[str], list[int]]  # plain characters, the token each belongs to


def token_map(line: str, tokens: list[str]) -> list[int]:
    """For every token, the index of the token of ``line`` it came from, or -1 for none.

    The tokens of ``line`` are what stands between ASCII spaces. Characters are compared without
    spaces, controls, case and typographic variants; where normalisation changed more, letters and
    digits are the fixed points between which the rest is matched. A token of several tokens' text
    takes the first.
    """
    given = _characters(token for token in line.split(" ") if token)
    processed = _characters(tokens)
    result = [-1] * len(tokens)
    for character, match in enumerate(_match_by_letters(given[0], processed[0])):
        token = processed[1][character]
        if match >= 0 and result[token] < 0:
            result[token] = given[1][match]
    return result


def _characters(tokens: Iterable[str]) -> Characters:
    characters, owners = [], []
    for index, token in enumerate(tokens):
        for character in CONTROLS.sub(" ", token).translate(PLAIN):
            if not character.isspace():
                characters.append(character.lower())
                owners.append(index)
    return characters, owners


def _match_by_letters(old: list[str], new: list[str]) -> list[int]:
    """For every item of ``new`` the index of its match in ``old``, or -1."""
    if old == new:
        return list(range(len(new)))
    old_fixed = [i for i, character in enumerate(old) if character.isalnum()]
    new_fixed = [i for i, character in enumerate(new) if character.isalnum()]
    if [old[i] for i in old_fixed] != [new[i] for i in new_fixed]:
        return _match(old, new)
    result: list[int] = []
    old_start = 0
    for old_end, new_end in zip([*old_fixed, len(old)], [*new_fixed, len(new)]):
        between = _match_between(old[old_start:old_end], new[len(result) : new_end])
        result.extend(match if match < 0 else match + old_start for match in between)
        if new_end < len(new):
            result.append(old_end)
        old_start = old_end + 1
    return result


def _match_between(old: list[str], new: list[str]) -> list[int]:
    """As ``_match``, for punctuation, which normalisation may have put in another order."""
    return list(range(len(new))) if len(old) == len(new) else _match(old, new)


def _match(old: list[str], new: list[str]) -> list[int]:
    """As ``_match_by_letters``, without fixed points."""
    if old == new:
        return list(range(len(new)))
    if max(len(old), len(new)) > DIFF_LIMIT:
        return _in_proportion(0, len(old), len(new))
    result: list[int] = []
    for _, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        result.extend(_in_proportion(i1, i2, j2 - j1))
    return result


def _in_proportion(start: int, end: int, count: int) -> list[int]:
    """``count`` indices spread evenly over ``start`` to ``end``; all -1 where that is empty."""
    if start == end:
        return [-1] * count
    return [start + k * (end - start) // count for k in range(count)]
