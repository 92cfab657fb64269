from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest

from nmtkit.errors import UserError
from nmtkit.heatmap import FONTS, MissingGlyphs, fonts, save_heatmap

PRIVATE = "\U0010fff0"  # for private use: no font of the world needs to have it


@pytest.fixture(autouse=True)
def nothing_said_yet():
    """Each test hears warnings that another has heard already."""
    fonts._told.clear()
    yield
    fonts._family.cache_clear()


def test_greek_hebrew_and_arabic_need_only_the_font_of_matplotlib():
    assert fonts.families(["λόγος", "שלום", "مرحبا", "élan", "мир"]) == (["DejaVu Sans"], [])


def test_another_font_is_found_by_its_characters(monkeypatch):
    # "One" comes first and has a; "Two" has a and b; nothing has c.
    installed = {"One": {"a"}, "Two": {"a", "b"}}
    monkeypatch.setattr(fonts, "_installed", lambda: iter([(name, name) for name in installed]))
    monkeypatch.setattr(fonts, "_characters", lambda path: frozenset(map(ord, installed[path])))
    fonts._family.cache_clear()
    assert fonts.families(["abc", "a\u0301"]) == ([FONTS[0], "One", "Two"], ["c"])
    with pytest.warns(MissingGlyphs, match="no installed font has Latin characters such as 'c'"):
        fonts.warn_of_missing(["c"])


def test_the_last_resort_font_is_none():
    names = [name for name, _ in fonts._installed()]
    assert FONTS[0] in names
    assert not [name for name in names if "Resort" in name]


def test_fonts_installed_after_matplotlib_made_its_list_are_found(monkeypatch):
    from matplotlib.font_manager import fontManager

    known: list = [font for font in fontManager.ttflist if "DejaVu" not in font.name]
    monkeypatch.setattr(fontManager, "ttflist", known)
    added = []
    path = "/somewhere/New.ttf"
    monkeypatch.setattr("matplotlib.font_manager.findSystemFonts", lambda: [path, "/broken.ttf"])

    def add(path):
        if "broken" in path:
            raise RuntimeError("not a font")
        added.append(path)
        known.append(types.SimpleNamespace(name="New", fname=path, style="normal", weight=400))

    monkeypatch.setattr(fontManager, "addfont", add)
    assert list(fonts._installed())[-1] == ("New", path)
    assert added == [path]


def test_missing_characters_are_named_once(tmp_path):
    with pytest.warns(MissingGlyphs, match=r"U\+10FFF0 characters .*fonts-noto.*\.svg"):
        save_heatmap(tmp_path / "a.png", np.eye(1), [PRIVATE], ["a"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_heatmap(tmp_path / "b.png", np.eye(1), [PRIVATE], ["a"])


def test_a_script_is_named_once_whatever_the_characters():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for characters in ("字가文", "나漢"):
            fonts.warn_of_missing(characters)
    said = [str(warning.message).split(" characters")[0] for warning in heard]
    assert said == ["no installed font has CJK", "no installed font has Hangul"]


def test_svg_leaves_missing_characters_to_the_viewer(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_heatmap(tmp_path / "a.svg", np.eye(1), [PRIVATE], ["a"])
    with pytest.warns(MissingGlyphs):  # which does not count as said
        save_heatmap(tmp_path / "a.png", np.eye(1), [PRIVATE], ["a"])


# Matplotlib before 3.11 draws letters from left to right as they are stored.


@pytest.fixture
def old_matplotlib(monkeypatch):
    monkeypatch.delattr("matplotlib.ft2font.__libraqm_version__", raising=False)


def test_new_matplotlib_lays_out_itself(monkeypatch):
    monkeypatch.setattr("matplotlib.ft2font.__libraqm_version__", "1", raising=False)
    assert fonts.laid_out("שלום") == "שלום"


def test_old_matplotlib_without_the_packages(tmp_path, monkeypatch, old_matplotlib):
    for module in ("arabic_reshaper", "bidi", "bidi.algorithm"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"need matplotlib 3\.11, or .*'nmtkit\[plot\]'"):
        save_heatmap(tmp_path / "a.png", np.eye(1), ["שלום"], ["peace"])
    save_heatmap(tmp_path / "a.png", np.eye(1), ["Frieden"], ["peace"])
    save_heatmap(tmp_path / "a.svg", np.eye(1), ["שלום"], ["peace"])


def test_old_matplotlib_with_the_packages(old_matplotlib):
    pytest.importorskip("arabic_reshaper", reason="only installed for matplotlib before 3.11")
    pytest.importorskip("bidi.algorithm", reason="only installed for matplotlib before 3.11")
    assert fonts.laid_out("(שלום).") == ".(םולש)"
    assert fonts.laid_out("abc-שלום") == "abc-םולש"
    # final form, vowel sign, initial form; written from the right, hence stored backwards
    assert fonts.laid_out("بَا") == "\ufe8e\u064e\ufe91"
