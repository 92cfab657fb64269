"""Fonts for the words of a picture: one for every character, and right-to-left order."""

from __future__ import annotations

import contextlib
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from functools import cache

from nmtkit.errors import UserError

# The first that has a character draws it; after these any other installed font that has it.
FONTS = (
    "DejaVu Sans",  # comes with matplotlib: Latin, Greek, Cyrillic, Hebrew, Arabic
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "Hiragino Sans",
    "Yu Gothic",
    "Microsoft YaHei",
    "PingFang SC",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "IPAexGothic",
    "Noto Sans Devanagari",
    "Nirmala UI",
    "Noto Sans",
    "Arial Unicode MS",
)
LAST_RESORT = "lastresort"  # in the name of a font that "has" every character, as a box
_told: set[str] = set()  # scripts that a warning has named
UNSEEN = ("Cf", "Mn")  # joiners and marks may well be part of another character's picture


class MissingGlyphs(UserWarning):
    """No installed font has some character: a box stands for it."""


def families(labels: Iterable[str]) -> tuple[list[str], list[str]]:
    """The font families that draw the labels, by preference, and the characters that none has."""
    chosen, missing = dict.fromkeys(FONTS[:1]), []
    for character in dict.fromkeys("".join(labels)):
        family = _family(character)
        if family is not None:
            chosen[family] = None
        elif unicodedata.category(character) not in UNSEEN:
            missing.append(character)
    return list(chosen), missing


def warn_of_missing(characters: Iterable[str]) -> None:
    """Warn with ``MissingGlyphs``, once for each script."""
    for script, character in {_script(character): character for character in characters}.items():
        if script in _told:
            continue
        _told.add(script)
        warnings.warn(
            f"no installed font has {script} characters such as {character!r}, so pictures show "
            "boxes: install one (on Debian fonts-noto-core, fonts-noto-cjk), or draw .svg for a "
            "viewer that has one",
            MissingGlyphs,
            stacklevel=3,
        )


@cache
def _family(character: str) -> str | None:
    for family, path in _installed():
        if ord(character) in _characters(path):
            return family
    return None


def _installed() -> Iterator[tuple[str, str]]:
    """Name and file of every upright font, ``FONTS`` first.

    Matplotlib keeps a list of fonts and never looks for newer ones: those come last.
    """
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    yield from _upright(known)
    later = sorted(set(findSystemFonts()) - known)
    for path in later:
        with contextlib.suppress(Exception):  # whatever a damaged file makes FreeType say
            fontManager.addfont(path)
    yield from _upright(set(later))


def _upright(paths: set[str]) -> list[tuple[str, str]]:
    from matplotlib.font_manager import fontManager

    fonts = {
        (font.name, font.fname)
        for font in fontManager.ttflist
        if font.fname in paths
        and font.style == "normal"
        and font.weight in (400, "normal")
        and LAST_RESORT not in font.name.replace(" ", "").lower()
    }
    order = {family: place for place, family in enumerate(FONTS)}
    return sorted(fonts, key=lambda font: (order.get(font[0], len(order)), font))


@cache
def _characters(path: str) -> frozenset[int]:
    """The characters that a font file has; none where it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _script(character: str) -> str:
    """The script by the character's name: "HANGUL SYLLABLE GA" -> "Hangul"."""
    name = unicodedata.name(character, f"U+{ord(character):04X}").split()[0].split("-")[0]
    return name if name == "CJK" or name.startswith("U+") else name.capitalize()


def laid_out(label: str) -> str:
    """The label with its letters in the order and forms in which matplotlib must draw them.

    From 3.11 matplotlib orders and joins right-to-left letters itself; before, it draws them as
    they are stored. Raises UserError where that needs packages that are not there.
    """
    from matplotlib import ft2font

    if hasattr(ft2font, "__libraqm_version__"):
        return label
    try:
        from arabic_reshaper import ArabicReshaper
        from bidi.algorithm import get_display  # mirrors brackets too
    except ImportError:
        raise UserError(
            "right-to-left words need matplotlib 3.11, or python-bidi and arabic-reshaper: "
            "pip install 'nmtkit[plot]'"
        ) from None
    return str(get_display(ArabicReshaper({"delete_harakat": False}).reshape(label)))
