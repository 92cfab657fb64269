from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmtkit.errors import UserError
from nmtkit.heatmap import Picture, save_heatmap
from nmtkit.heatmap.image import BAD_COLOUR, LINK_COLOUR
from tests.test_heatmap import HARD

MARKUP = ["$", "$x^2$", "$\\frac{", "\\", "_a", "%", "{}", "$$", "[b]"]


@pytest.mark.filterwarnings("ignore::nmtkit.heatmap.MissingGlyphs")
@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_pictures_take_any_token_in_silence(tmp_path, capfd, suffix, start):
    source, target = [*MARKUP, *HARD], [*HARD, *MARKUP]
    attention = np.random.default_rng(0).dirichlet(np.ones(len(source)), len(target))
    paths = [tmp_path / f"{n}{suffix}" for n in range(2)]
    for path in paths:
        save_heatmap(path, attention, source, target, links={(0, 1)}, possible={(2, 2), (0, 1)})
    assert paths[0].read_bytes().startswith(start)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert capfd.readouterr() == ("", "")
    assert sorted(tmp_path.iterdir()) == paths  # nothing left beside


def pixels(path):
    from matplotlib.image import imread

    return imread(path)


def test_picture_is_bright_where_the_weight_is(tmp_path):
    save_heatmap(tmp_path / "a.png", np.array([[0.5, 0.0]]), ["", ""], [""])
    image = pixels(tmp_path / "a.png")[..., 0]
    middle = image[image.shape[0] // 3]  # above the dot of the largest weight
    quarter = len(middle) // 4
    assert 0.45 < middle[quarter] < 0.55
    assert middle[3 * quarter] < 0.1


def colours_near(image, colour):
    """How many pixels have nearly this colour, "#rrggbb"."""
    wanted = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    return int((np.abs(image[..., :3] - wanted).max(axis=-1) < 0.1).sum())


def test_links_are_squares_and_possible_ones_dashed(tmp_path):
    counts = []
    for n, marks in enumerate([((), ()), ({(0, 0)}, ()), ((), {(0, 0)}), ({(0, 0)}, {(0, 0)})]):
        save_heatmap(tmp_path / f"{n}.png", np.zeros((1, 1)), ["a"], ["b"], *marks)
        counts.append(colours_near(pixels(tmp_path / f"{n}.png"), LINK_COLOUR))
    none, sure, possible, both = counts
    assert none == 0
    assert 0.3 * sure < possible < 0.8 * sure
    assert both == sure


def test_what_is_not_a_number_is_seen(tmp_path):
    for n, weight in enumerate([0.0, np.nan]):
        save_heatmap(tmp_path / f"{n}.png", np.array([[weight]]), ["a"], ["b"])
    shown = [colours_near(pixels(tmp_path / f"{n}.png"), BAD_COLOUR) for n in range(2)]
    assert shown[0] == 0
    assert shown[1] > 1000


def test_wide_source_words_slant_narrow_ones_stand(tmp_path):
    for name, words in [("narrow", ["la", "un", "日"]), ("wide", ["la", "un", "international"])]:
        save_heatmap(tmp_path / f"{name}.svg", np.eye(3), words, ["", "", ""])
    drawn = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert "rotate(-60" in drawn["wide"]
    assert "rotate(-60" not in drawn["narrow"]


def test_svg_guards_right_to_left_words(tmp_path):
    save_heatmap(tmp_path / "a.svg", np.eye(2), ["שלום.", "a."], ["x", "y"])
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert ">\u200fשלום.\u200f</text>" in drawn
    assert ">a.</text>" in drawn


def test_svg_keeps_the_words_and_dollars(tmp_path):
    save_heatmap(tmp_path / "a.svg", np.eye(2), ["$x^2$", "日本語"], ["<b>", "y"])
    drawn = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for text in ("$x^2$", "日本語", "&lt;b&gt;"):
        assert f">{text}</text>" in drawn


def test_large_pictures_stay_within_bounds(tmp_path):
    options = Picture(pixels=300)
    save_heatmap(tmp_path / "a.png", np.zeros((2, 200)), [""] * 200, ["", ""], options=options)
    assert max(pixels(tmp_path / "a.png").shape) <= 330


def test_pictures_of_nothing(tmp_path):
    save_heatmap(tmp_path / "a.png", np.zeros((0, 0)), [], [])
    assert (tmp_path / "a.png").exists()


def test_pictures_leave_matplotlib_as_it_was(tmp_path):
    import matplotlib

    before = dict(matplotlib.rcParams)
    save_heatmap(tmp_path / "a.svg", np.eye(2), ["a", "b"], ["c", "d"])
    assert dict(matplotlib.rcParams) == before


def test_pictures_need_no_pyplot_and_text_no_matplotlib(tmp_path):
    program = f"""
import sys, numpy as np
from nmtkit.heatmap import save_heatmap, text_heatmap
text_heatmap(np.eye(1), ["a"], ["b"])
assert "matplotlib" not in sys.modules and "torch" not in sys.modules
save_heatmap({str(tmp_path / "a.png")!r}, np.eye(1), ["a"], ["b"])
print("matplotlib.pyplot" in sys.modules)
"""
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert (ran.stdout, ran.stderr) == ("False\n", "")


def test_picture_errors(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"unknown picture format '\.pgn': did you mean '\.png'"):
        save_heatmap(tmp_path / "a.pgn", np.eye(1), ["a"], ["b"])
    with pytest.raises(UserError, match="unknown picture format"):
        save_heatmap(tmp_path / "a", np.eye(1), ["a"], ["b"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'nmtkit\[plot\]'"):
        save_heatmap(tmp_path / "a.png", np.eye(1), ["a"], ["b"])
    assert list(tmp_path.iterdir()) == []
