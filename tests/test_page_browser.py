"""The page as Chromium draws it."""

from __future__ import annotations

import os
import shutil
import subprocess

import numpy as np
import pytest

from nmtkit.heatmap import PagePair, write_page
from nmtkit.heatmap.page import DARKEST
from nmtkit.heatmap.style import CELL
from nmtkit.links import Gold

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), "")
pytestmark = pytest.mark.skipif(
    not BROWSER,
    reason="NOBODY LOOKED AT THE PAGE: there is no Chromium (on Debian: apt install chromium)",
)


def browse(path, *options):
    """Run the browser on a page; returns what it printed."""
    command = [BROWSER, "--headless", "--disable-gpu", "--hide-scrollbars", "--window-size=800,700"]
    command += [f"--user-data-dir={path.parent / 'profile'}", *options, path.as_uri()]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command[1:1] = ["--no-sandbox"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Four words a side: A links 0-0, B 3-3; gold is sure of 0-0, and 1-1 is possible."""
    attention = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0.5, 0], [0, 0, 0, 0]])
    gold = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    words = ["<script>document.title='taken'</script>", "שלום", "日本", "&"]
    pair = PagePair(words, words, attention, frozenset({(0, 0)}), frozenset({(3, 3)}), gold)
    path = tmp_path_factory.mktemp("page") / "page.html"
    with path.open("w", encoding="utf-8") as file:
        write_page(file, [pair], "A page", ("A", "B"))
    return path


def mark_at(image, colour):
    """The middle (x, y) of the lowest mark of the colour: below the legend."""
    rows, columns = np.nonzero((np.abs(image - colour) < 30).all(axis=-1))
    low = rows > rows.max() - CELL
    return columns[low].mean(), rows[low].mean()


@pytest.mark.slow
def test_screenshot(page):
    from matplotlib.image import imread

    browse(page, f"--screenshot={page.with_suffix('.png')}")
    image = imread(page.with_suffix(".png"))[..., :3] * 255
    assert image.shape == (700, 800, 3)
    first, second = mark_at(image, (0, 0x47, 0xC2)), mark_at(image, (0xD2, 0x5B, 0))
    # From the left half of the first cell to the right half of the last one of the diagonal.
    assert second[0] - first[0] == pytest.approx(3.35 * CELL, abs=2)
    assert second[1] - first[1] == pytest.approx(3 * CELL, abs=1)
    left, top = first[0] - 0.33 * CELL, first[1] - CELL / 2

    def cell(source, target):
        x, y = round(left + source * CELL), round(top + target * CELL)
        return image[y : y + CELL, x : x + CELL]

    def grey(source, target):
        return np.median(cell(source, target)[6:12, 6:12])

    assert grey(1, 2) == pytest.approx(DARKEST, abs=3)
    assert DARKEST + 40 < grey(2, 2) < 215
    assert grey(0, 2) == 255
    sure, possible, neither = (int((cell(n, n).max(-1) < 80).sum()) for n in (0, 1, 2))
    assert sure > 3 * CELL  # a black line round it
    assert 0.35 * sure < possible < 0.85 * sure  # a dashed one
    assert neither == 0


@pytest.mark.slow
def test_only_the_script_of_the_page_runs(page):
    drawn = browse(page, "--dump-dom")
    assert "<title>A page</title>" in drawn  # no token was run
    assert "<form>" in drawn  # its own script has shown the box for finding


USER = """<script>
const answers = [], all = [...document.querySelectorAll('section')];
for (const wanted of ['&', 'Hund', 'DIE', '2', '']) {
  const box = document.querySelector('input');
  box.value = wanted;
  box.dispatchEvent(new Event('input'));
  answers.push(all.map(pair => pair.hidden ? 0 : 1).join(''));
}
const grid = document.querySelectorAll('.grid > svg')[1], edge = grid.getBoundingClientRect();
grid.dispatchEvent(new PointerEvent('pointermove', {bubbles: true,
  clientX: edge.left + 1.5 * edge.width / 2, clientY: edge.top + .5 * edge.height}));
answers.push([...document.querySelectorAll('.here')].map(word => word.textContent).join('-'));
document.title = answers.join(' ');
</script>"""


@pytest.mark.slow
def test_finding_and_pointing(page):
    pairs = [PagePair(["Die", "Katze", "&"], ["a"], None, frozenset())]
    pairs += [PagePair(["der", "Hund"], ["the"], None, frozenset())]
    path = page.with_name("used.html")
    with path.open("w", encoding="utf-8") as file:
        write_page(file, pairs, "A page")
    html = path.read_text(encoding="utf-8")
    policy = html[html.index("<meta http-equiv") : html.index("<meta name")]
    path.write_text(html.replace(policy, "").replace("</body>", USER), encoding="utf-8")
    drawn = browse(path, "--dump-dom")
    assert "<title>10 01 10 11 11 Hund-the</title>" in drawn
