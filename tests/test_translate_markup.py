"""Markup: taken out, put around the linked words, well-formed whatever the links say."""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmtkit.align import AlignOptions
from nmtkit.checkpoint import Trained, load
from nmtkit.errors import UserError
from nmtkit.links import parse_links
from nmtkit.search import Sampling, SearchOptions
from nmtkit.translate import TranslateOptions, translate
from nmtkit.translate.markup import Element, parse
from tests.conftest import SOURCE, TARGET
from tests.hostile import HOSTILE
from tests.micro import CPU, run

TAG = re.compile(r"<!--.*?-->|<\?.*?\?>|<(?:\"[^\"]*\"|'[^']*'|[^\"'>])*>", re.DOTALL)


def moved(source: str, target: str, links: str) -> str:
    """The tags of `source` in `target`, both tokenised at spaces and full stops."""
    marked = parse(source, "here:1")
    tokens = re.findall(r"[^\s.]+|\.", marked.text)
    words = re.findall(r"[^\s.]+|\.", target)
    return marked.around(tokens, target, words, parse_links(links, "here"))


# By hand


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("a <b>c</b> d", "D C A", "0-2 1-1 2-0", "D <b>C</b> A"),
        ("<b>a c</b> d", "C D A", "0-2 1-0 2-1", "<b>C D A</b>"),  # from first to last
        ("a <b>c</b>.", "C A.", "0-1 1-0 2-2", "<b>C</b> A."),
        ("<i><b>a</b> c</i> d", "D C A", "0-2 1-1 2-0", "D <i>C <b>A</b></i>"),
        ("<p>a c.</p>", "X C A Y.", "0-2 1-1 2-4", "<p>X C A Y.</p>"),  # all of it
        ("<p><b>a</b></p>", "A", "0-0", "<p><b>A</b></p>"),
        ("<b>a</b><i>c</i> d", "D AC", "0-1 1-0", "D <b>AC</b><i></i>"),  # one token: the first's
        ("<b>a</b> <i>c</i>", "A C A A", "0-0 1-1 0-2 0-3", "A <i>C</i> <b>A A</b>"),
        ("<b>a</b> <i>c</i>", "A A C A", "0-0 0-1 1-2 0-3", "<b>A A</b> <i>C</i> A"),
        ("un<b>like</b>ly a", "A U", "0-1 1-0", "A <b>U</b>"),  # a part of a word: all of it
        ("a<fn n='1'/> c", "C A", "0-1 1-0", "C A<fn n='1'/>"),  # touches a
        ("a <fn/>c", "C A", "0-1 1-0", "<fn/>C A"),  # touches c
        ("a <fn/> c", "C A", "0-1 1-0", "C A<fn/>"),  # neither: after the word before
        ("<x/>a c", "C A", "0-1 1-0", "<x/>C A"),  # at the ends they stay there
        ("a c<x/>", "C A", "0-1 1-0", "C A<x/>"),
        ("a <b>c</b> d", "D A", "0-1 2-0", "D A<b></b>"),  # not linked
        ("<b></b>a", "A", "0-0", "<b></b>A"),
        ("a<br>c", "C A", "0-1 1-0", "C A<br>"),  # and it parts the words
        ("a <!-- <b> --><?p q?> c", "C A", "0-1 1-0", "C A<!-- <b> --><?p q?>"),
        ("a <b>&lt;&amp;</b>", "&< A", "0-1 1-0", "<b>&amp;&lt;</b> A"),
        (
            "<a href=\"x>y\" k = 'z' w=1 q>a</a >",
            "A",
            "0-0",
            "<a href=\"x>y\" k = 'z' w=1 q>A</a >",
        ),
        ("<b>a <x/>c</b> d", "D C A", "0-2 1-1 2-0", "D <b><x/>C A</b>"),
        ("<A:B>a</A:B> c", "C A", "0-1 1-0", "C <A:B>A</A:B>"),
        ("<x/><y/>", "", "", "<x/><y/>"),
    ],
)
def test_by_hand(source: str, target: str, links: str, expected: str) -> None:
    assert moved(source, target, links) == expected


def test_entities_become_characters() -> None:
    marked = parse("a&#32;&eacute;&#x2014;&nbsp;&lt;b&gt;", "here")
    assert marked.text == "a é—\u00a0<b>"
    assert marked.root == Element("", 0, len(marked.text))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a < b", "f:7: no tag or entity begins at character 3 ('< b'): write < itself as &lt;"),
        ("AT&T", "f:7: no tag or entity begins at character 3 ('&T'): write & itself as &amp;"),
        ("&nonsense;", "f:7: unknown entity &nonsense;: write & itself as &amp;"),
        ("<b>a", "f:7: <b> is not closed: lines stand by themselves"),
        ("a</b>", "f:7: </b> closes nothing: nothing is open there"),
        ("<b><i>a</b></i>", "f:7: </b> closes nothing: </i> must come first"),
        ("<b>a</B>", "f:7: </B> closes nothing: </b> must come first"),
        ("<![CDATA[x]]>", "f:7: no tag or entity begins at character 1"),
        ("<a href='x>", "f:7: no tag or entity begins at character 1"),
        ("<a<b>", "f:7: no tag or entity begins at character 1"),
        ("<b>" * 101 + "</b>" * 101, "f:7: more than 100 elements within each other"),
    ],
)
def test_malformed_lines_are_refused(line: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(line, "f:7")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


def test_deep_and_long_lines() -> None:
    deep = "<b>" * 100 + "a" + "</b>" * 100
    assert moved(deep, "A", "0-0") == deep.replace("a", "A")
    assert moved("a" + "<x/>" * 2000, "A", "0-0") == "A" + "<x/>" * 2000
    for hostile in ("<" * 5000, "<a " * 3000, "<a" + " b" * 5000, "<!--" * 3000, "&" * 5000):
        with pytest.raises(UserError):
            parse(hostile, "here")


# Whatever comes

ELEMENTS = ('<b c="&lt;>">', "<i>", "<a:x  y='\"'>")
ALONE = ("<x/>", "<wbr>", "<!-- a<b -->", "<?p?>", "<img src=1>")
TEXTS = st.sampled_from(["", " ", "da", "ga lo", " bu. ", "&amp;", "&lt;b&gt;", "ö", "!", "\u2028"])


def closed(opening: str, inner: list[str]) -> str:
    name = re.split(r"[\s>]", opening[1:])[0]
    return f"{opening}{''.join(inner)}</{name}>"


MARKUP = st.recursive(
    st.one_of(TEXTS, st.sampled_from(ALONE)),
    lambda inner: st.builds(closed, st.sampled_from(ELEMENTS), st.lists(inner, max_size=4)),
    max_leaves=12,
)
LINES = st.lists(MARKUP, max_size=5).map("".join)


def check(source: str, found: str, text: str) -> None:
    """All tags and no others, well-formed, and the text as it would be without."""
    assert Counter(TAG.findall(source)) == Counter(TAG.findall(found))
    parse(found, "found")
    assert html.unescape(TAG.sub("", found)) == text


@given(
    line=LINES,
    target=st.lists(st.sampled_from(["A", "B<", "&C", "D."]), max_size=6),
    links=st.sets(st.tuples(st.integers(0, 12), st.integers(0, 5)), max_size=15),
    glue=st.sampled_from(["", " ", "  "]),
)
def test_well_formed_whatever_is_linked(line, target, links, glue) -> None:
    """Links of any kind, several for a word too."""
    marked = parse(line, "here")
    tokens = marked.text.split()
    kept = frozenset((j, i) for j, i in links if j < len(tokens) and i < len(target))
    text = glue.join(target)
    check(line, marked.around(tokens, text, target, kept), text)


@pytest.fixture(scope="module")
def subwords(micro, tmp_path_factory) -> Trained:
    folder = tmp_path_factory.mktemp("markup") / "m"
    return load(run(micro, folder, "updates=30", "learning_rate=0.05"), CPU)


@pytest.fixture(scope="module")
def trained(toy) -> Trained:
    return load(toy.model, CPU)


@settings(max_examples=25)
@given(lines=st.lists(LINES, max_size=4))
@example(lines=[html.escape(line) for line in HOSTILE])
def test_the_text_is_that_without_markup(trained, subwords, lines) -> None:
    plain = [parse(line, "here").text for line in lines]
    for model in (trained, subwords):
        for options in (
            TranslateOptions(),
            TranslateOptions(tokenized=True, search=SearchOptions(beam=2, n_best=2)),
            TranslateOptions(search=SearchOptions(n_best=2, sampling=Sampling())),
            TranslateOptions(replace_unknown=True, glossary={"da": "D < E", "lo": "x"}),
            TranslateOptions(align=AlignOptions(method="threshold", threshold=0.05)),
        ):
            options = replace(options, batch=replace(options.batch, sentences=3))
            found = translate([model], lines, replace(options, markup=True))
            without = translate([model], plain, options)
            for line, some, others in zip(lines, found, without, strict=True):
                assert len(some) == len(others)
                for one, other in zip(some, others, strict=True):
                    check(line, one.text, other.text)


def test_tags_follow_the_words_of_the_toy_language(trained) -> None:
    a, b, c = SOURCE[:3]
    x, y, z = TARGET[:3]
    lines = [
        f"<b>{a}</b> {b} {c}!",
        f"{a} <i>{b} <b>{c}</b></i>?",
        "",
        f"<p>{a}<br/>{b}</p>",
        "<x/>",
    ]
    found = [
        outputs[0].text for outputs in translate([trained], lines, TranslateOptions(markup=True))
    ]
    assert found == [
        f"{z} {y} <b>{x}</b>!",
        f"<i><b>{z}</b> {y}</i> {x}?",
        "",
        f"<p>{y} {x}<br/></p>",
        "<x/>",
    ]


def test_links_do_not_go_with_markup() -> None:
    with pytest.raises(ValueError, match="lines without tags"):
        TranslateOptions(markup=True, links=True)
