from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from nmtkit.errors import UserError
from nmtkit.heatmap import SHADES, TextMap, save_heatmap, text_heatmap

HARD = ["日本語", "e\u0301te\u0301", "क्षि", "👩‍👩‍👧", "\u3000", "a\u00a0b", "\u0301", "", "\u200b"]


def test_text_heatmap_by_hand():
    attention = np.array([[0.8, 0.2], [0.3, 0.7], [0.04, 0.5]])
    drawn = text_heatmap(attention, ["ein", "Hund"], ["a", "dog", "!"])
    assert drawn.split("\n") == [
        "      H",
        "    e u",
        "    i n",
        "    n d",
        "  a █*░░",
        "dog ▒▒▓*",
        "  !   ▓*",
        "",
        "* largest of its row",
    ]


def test_digits_and_links_by_hand():
    attention = np.array([[1.0, 0.0, 0.0], [0.39, 0.61, 0.0]])
    options = TextMap(shades="digits")
    links, possible = {(1, 0), (1, 1)}, {(1, 1), (2, 0)}
    drawn = text_heatmap(attention, list("xyz"), list("ab"), links, possible, options)
    assert drawn.split("\n")[:3] == ["  x y z", "a 9*.+.?", "b 3 6@."]
    assert "@ largest, and a link" in drawn


def test_wide_and_combining_characters_keep_the_columns():
    attention = np.eye(3)
    drawn = text_heatmap(attention, ["日本", "e\u0301a", "x"], ["東京", "cafe\u0301", "x"])
    assert drawn.split("\n")[:5] == [
        "     日e\u0301",
        "     本a x",
        "東京 █*",
        "cafe\u0301   █*",
        "   x     █*",
    ]


# Rich measures nothing for any character after a zero-width joiner, so the tests' ruler needs
# texts without them; the emoji among HARD are one picture to it and to us.
texts = st.text(st.characters(exclude_characters="\u200d"), max_size=8)
tokens = st.lists(st.one_of(texts, st.sampled_from(HARD)), min_size=1, max_size=6)


@given(tokens, tokens, st.sampled_from(list(SHADES)), st.integers(20, 60))
def test_any_tokens_fit_the_width(source, target, shades, width):
    attention = np.random.default_rng(0).dirichlet(np.ones(len(source)), len(target))
    drawn = text_heatmap(attention, source, target, options=TextMap(width=width, shades=shades))
    lines = drawn.split("\n")
    assert drawn.splitlines() == lines  # no character that some terminals take for a new line
    assert max(cell_len(line) for line in lines) <= width
    assert lines[-1] == "* largest of its row"


@given(tokens, tokens, st.sampled_from(list(SHADES)))
def test_every_row_has_its_mark_in_the_right_cell(source, target, shades):
    attention = np.random.default_rng(0).dirichlet(np.ones(len(source)), len(target))
    drawn = text_heatmap(attention, source, target, options=TextMap(shades=shades))
    rows = drawn.split("\n")[-2 - len(target) : -2]
    indents = set()
    for row, weights in zip(rows, attention):
        before = row[: row.rindex("*")]
        indents.add(cell_len(before) - 1 - 2 * int(weights.argmax()))
    assert len(indents) == 1  # the same left edge for all, whatever the labels are made of


def test_joiners_join_emoji_not_letters():
    family, half_form = "👩\u200d👧", "क\u094d\u200dष"  # 2 cells each
    drawn = text_heatmap(np.eye(2), [family, half_form], [f"{family}\u200d", f"\u200d{half_form}"])
    assert drawn.split("\n")[:4] == [
        "     क\u094d",
        f"   {family}ष",
        f"{family} █*",
        f"{half_form}   █*",
    ]


def test_right_to_left_words_move_nothing_else():
    # Terminals that order Hebrew show a line from its first letter's side, and run neighbouring
    # letters together backwards: left-to-right marks round each word or letter prevent both.
    drawn = text_heatmap(np.eye(2), ["אב", "ג"], ["שלום", "x"], options=TextMap(shades="digits"))
    mark = "\u200e"
    assert drawn.split("\n")[:4] == [
        f"     {mark}א{mark}",
        f"     {mark}ב{mark} {mark}ג{mark}",
        f"{mark}שלום{mark} 9*.",
        "   x . 9*",
    ]


def test_long_tokens_are_cut():
    drawn = text_heatmap(np.ones((1, 1)), ["x" * 50], ["日" * 50], options=TextMap(width=40))
    lines = drawn.split("\n")
    assert lines[-3] == "日" * 9 + "… █*"
    assert lines[0].strip() == "x"
    assert lines[11].strip() == "…"
    assert len(lines) == 12 + 1 + 2


def test_what_does_not_fit_goes_into_further_panels():
    attention = np.eye(7)
    tokens = list("abcdefg")
    lines = text_heatmap(attention, tokens, tokens, options=TextMap(width=8)).split("\n")
    headers = [line.split() for line in lines if len(line) > 2 and line[0] == " "]
    assert [header for header in headers if header] == [list("abc"), list("def"), ["g"]]
    assert sum(line.count("█*") for line in lines) == 7
    # one column a panel at least, however narrow
    assert "█*" in text_heatmap(attention, tokens, tokens, options=TextMap(width=1))


def test_controls_are_shown_not_sent():
    drawn = text_heatmap(np.ones((1, 1)), ["a\x1b[31m"], ["b\u202ec\u2028d\te\ud800"])
    assert "b?c?d?e? █*" in drawn
    assert not set(drawn) & set("\x1b\u202e\u2028\t\ud800")


def test_rows_without_weight_have_no_mark_and_nan_is_seen():
    drawn = text_heatmap(np.array([[0.0, 0.0], [np.nan, 0.5], [np.nan, np.nan]]), ["a", "b"], "xyz")
    assert drawn.split("\n")[1:4] == ["x", "y ! ▓*", "z ! !"]


def test_no_tokens():
    assert text_heatmap(np.zeros((0, 0)), [], []).endswith("* largest of its row")
    assert "x" in text_heatmap(np.zeros((1, 0)), [], ["x"])


def test_ties_mark_the_first():
    assert "▓*▓▓" in text_heatmap(np.full((1, 2), 0.5), ["a", "b"], ["x"])


def test_wrong_shapes_and_names(tmp_path):
    for draw in (text_heatmap, lambda *a: save_heatmap(tmp_path / "x.png", *a)):
        with pytest.raises(ValueError, match=r"\(2, 3\).*\(3, 2\)"):
            draw(np.zeros((2, 3)), ["a", "b"], ["x", "y", "z"])
    with pytest.raises(UserError, match="unknown shades 'block': did you mean 'blocks'"):
        text_heatmap(np.zeros((1, 1)), ["a"], ["b"], options=TextMap(shades="block"))
