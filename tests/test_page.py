from __future__ import annotations

import base64
import hashlib
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.heatmap import PagePair, write_page
from nmtkit.heatmap.tokens import visible
from nmtkit.links import Gold
from tests.test_heatmap import HARD

HOSTILE = [
    "<script>",
    "</script>",
    "]]>",
    "<!--",
    '"',
    "'",
    "&",
    "&lt;",
    "a\x00b",
    "\x1b[31m",
    "\r",
]
HOSTILE += ["\u202e", "\ud800", "\ufffe", "</svg>", "שלום", "javascript:", "<img src=x onerror=y>"]
NONE: frozenset = frozenset()
VOID = {"meta", "input"}


class Page(HTMLParser):
    """What a page holds, section by section; fails on tags that do not match."""

    def __init__(self, html):
        super().__init__()
        self.open: list[str] = []
        self.sections: list[dict] = []
        self.head: dict = {}  # what comes before the first section
        self.ids: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        assert len(given) == len(attributes)
        self.ids += [given["id"]] if "id" in given else []
        if tag == "section":
            self.sections.append({"id": given["id"], "p": [], "source": [], "target": []})
        place = self.sections[-1] if self.sections else self.head
        if tag == "path" and "class" in given:
            kind = given["class"].replace("shade ", "")
            assert kind not in place or not self.sections  # the legend has several samples
            place[kind] = given["d"]
        if tag == "svg":
            place["size"] = given.get("viewbox")
        if tag == "div" and given.get("class") in ("source", "target"):
            self.side, self.language = given["class"], given.get("lang")
            place[f"{self.side} lang"] = given.get("lang")
        if tag == "bdi":
            assert given == {"dir": "auto"}
            place[self.side].append("")
        if tag == "p" and "section" in self.open:
            place["p"].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if self.open[-1:] not in (["style"], ["script"]) else ""
        if "bdi" in self.open:
            self.sections[-1][self.side][-1] += data
        elif "p" in self.open and "section" in self.open:
            self.sections[-1]["p"][-1] += data


def drawn(pairs, title="Pairs", names=("A", "B"), **given):
    file = io.StringIO()
    write_page(file, iter(pairs), title, names, **given)
    return file.getvalue()


def places(path):
    """Where the pieces of a path start: the links of a mark."""
    return {(int(x), int(y)) for x, y in re.findall(r"M(\d+) (\d+)", path)}


def runs(path):
    """The cells (target, source) of a shade."""
    found = re.findall(r"M(\d+) (\d+)h(\d+)", path)
    return {(int(y), int(x) + n) for x, y, length in found for n in range(int(length))}


def test_a_pair_by_hand():
    attention = np.array([[1.0, 0.0, 0.0], [0.26, 0.26, 0.48]])
    links, other = frozenset({(0, 0), (2, 1)}), frozenset({(0, 0), (1, 1)})
    gold = Gold(frozenset({(0, 0)}), frozenset({(0, 0), (1, 1), (1, 0)}))
    source, target = ["das", "grüne", "Haus"], ["the", "green"]
    page = Page(drawn([PagePair(source, target, attention, links, other, gold)]))
    (section,) = page.sections
    assert section == {
        "id": "1",
        "p": [
            "das grüne Haus",
            "the green",
            "3 × 2 words · gold: 1 sure, 2 possible only · A: 2 links, 1 of 1 sure, 1 not in gold"
            " · B: 2 links, 1 of 1 sure, 0 not in gold",
        ],
        "source": source,
        "target": target,
        "source lang": None,
        "target lang": None,
        "size": "0 0 3 2",
        "s10": "M0 0h1",
        "s3": "M0 1h2",
        "s5": "M2 1h1",
        "first": "M0 0a.3 .3 0 0 0 0 .6zM2 1a.3 .3 0 0 0 0 .6z",
        "second": "M0 0a.3 .3 0 0 1 0 .6zM1 1a.3 .3 0 0 1 0 .6z",
        "sure": "M0 0h.8v.8h-.8z",
        "possible": "M1 0h.8v.8h-.8zM1 1h.8v.8h-.8z",
    }
    assert {"first", "second", "sure", "possible", "s10"} <= set(page.head)
    assert "link of A only" in page.text
    assert "1 sentence pair." in page.text


def test_one_system_without_attention_and_gold():
    page = Page(drawn([PagePair(["a"], ["b"], None, frozenset({(0, 0)}))], names=()))
    (section,) = page.sections
    assert section["p"][2] == "1 × 1 words · system 1: 1 link"
    assert places(section["alone"]) == {(0, 0)}
    for kinds in (section, page.head):
        assert not kinds.keys() & {"first", "second", "sure", "possible", "s10"}
    assert "link of system 1" in page.text
    assert "only" not in page.text


tokens = st.lists(st.one_of(st.text(max_size=6), st.sampled_from([*HARD, *HOSTILE])), max_size=6)


@given(tokens, tokens, st.data())
def test_every_token_and_link_comes_back(source, target, data):
    cells = [(i, j) for i in range(len(source)) for j in range(len(target))]
    some = st.frozensets(st.sampled_from(cells)) if cells else st.just(NONE)
    links, other, sure, possible = (data.draw(some) for _ in range(4))
    attention = np.random.default_rng(0).random((len(target), len(source)))
    pair = PagePair(source, target, attention, links, other, Gold(sure, sure | possible))
    title = " ".join(source)
    page = Page(drawn([pair], title, names=(title, title)))
    (section,) = page.sections
    assert [section[side] for side in ("source", "target")] == [
        [visible(token) for token in tokens] for tokens in (source, target)
    ]
    for kind, expected in [
        ("first", links),
        ("second", other),
        ("sure", sure),
        ("possible", possible - sure),
    ]:
        assert places(section.get(kind, "")) == expected
    for step in range(1, 11):
        expected = {tuple(cell) for cell in np.argwhere(np.rint(attention * 10) == step)}
        assert runs(section.get(f"s{step}", "")) == expected


@given(tokens)
def test_nothing_in_a_page_is_hidden_or_outside_html(tokens):
    html = drawn([PagePair(tokens, tokens, None, NONE)], " ".join(tokens), tuple(tokens[:2]))
    html.encode("utf-8")
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]", html
    )


def test_the_page_needs_nothing_from_outside_and_runs_only_its_own_script():
    html = drawn([PagePair(HOSTILE, HOSTILE, np.eye(len(HOSTILE)), NONE)], "<b>&</b>")
    assert re.findall(r"<script[^>]*>", html) == ["<script>"]
    assert set(re.findall(r"url\([^)]*\)", html)) == {"url(#cells)"}
    assert not re.search(r"<(?:link|img|iframe|object)|@import|<[^>]*(?: src| on\w+)=", html)
    script = html.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in html
    assert "<title>&lt;b&gt;&amp;&lt;/b&gt;</title>" in html


def test_ids_are_the_numbers_of_the_pairs():
    pairs = [PagePair(["a"], ["b"], None, NONE)] * 3
    page = Page(drawn(pairs))
    assert page.ids == ["cells", "1", "2", "3"]
    assert "3 sentence pairs." in page.text
    assert Page(drawn([])).ids == ["cells"]


def test_languages_of_the_words():
    page = Page(drawn([PagePair(["a"], ["b"], None, NONE)], languages=("ja", '"x')))
    assert (page.sections[0]["source lang"], page.sections[0]["target lang"]) == ("ja", '"x')


def test_what_is_no_weight_is_seen():
    attention = np.array([[np.nan, 2.0, -1.0, np.inf]])
    page = Page(drawn([PagePair(list("abcd"), ["x"], attention, NONE)]))
    assert page.sections[0]["s11"] == "M0 0h1M3 0h1"
    assert page.sections[0]["s10"] == "M1 0h1"


def test_pairs_are_written_as_they_come():
    file, seen = io.StringIO(), []

    def pairs():
        for number in range(1, 4):
            seen.append(file.getvalue().count("<section"))
            yield PagePair([f"w{number}"], ["x"], None, NONE)

    write_page(file, pairs(), "Pairs")
    assert seen == [0, 1, 2]


def test_a_long_pair_stays_small():
    size = 40
    attention = np.full((size, size), 0.2 / size) + 0.8 * np.eye(size)
    links = frozenset((n, n) for n in range(size))
    pair = PagePair(["w"] * size, ["w"] * size, attention, links, links, Gold(links, links))
    assert len(drawn([pair] * 2)) - len(drawn([pair])) < 9000  # 1600 cells


def test_programmers_mistakes():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(1, 1\)"):
        PagePair(["a"], ["b"], np.zeros((2, 3)), NONE)
    beyond, gold = frozenset({(1, 0)}), Gold(NONE, frozenset({(0, 1)}))
    for links, other, marks in [(beyond, None, None), (NONE, beyond, None), (NONE, None, gold)]:
        with pytest.raises(ValueError, match=r"link (1-0|0-1) is beyond"):
            PagePair(["a"], ["b"], None, links, other, marks)
    pairs = [PagePair(["a"], ["b"], None, NONE), PagePair(["a"], ["b"], np.eye(1), NONE, NONE)]
    with pytest.raises(ValueError, match="pair 2 has attention, other links, the first has not"):
        drawn(pairs)
    drawn(pairs[::-1])
