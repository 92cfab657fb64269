"""The laws that all link formats keep, and what becomes of arbitrary files."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.links import (
    FORMATS,
    MAX_POSITION,
    Converted,
    Gold,
    LinkedPair,
    check_lines,
    convert,
    read_pairs,
    with_text,
    write_pairs,
)


def write(path, pairs, format):
    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_pairs(file, pairs, format)


MARKS = ["({", "})", "NULL", "#", "1", "|||", "{", '"', "\\", "\u2028", "\u00a0", "\x85", "é"]
clean = st.text(
    st.characters(exclude_characters=" \n\t\v\f\r", codec="utf-8"), min_size=1, max_size=4
)
words = st.one_of(st.sampled_from(MARKS), clean)
sides = st.lists(words, max_size=5)
far = st.integers(0, MAX_POSITION)
probability = st.integers(0, 10_000).map(lambda tenthousandths: tenthousandths / 10_000)


@st.composite
def pairs_for(draw, format):
    """Anything that the format has a place for."""
    source = target = None
    if format in ("giza", "symal") or (format == "json" and draw(st.booleans())):
        source, target = draw(sides), draw(sides)
    s, t = (far if side is None else st.integers(0, len(side) - 1) for side in (source, target))
    room = source != [] and target != []
    links = draw(st.frozensets(st.tuples(s, t), max_size=6)) if room else frozenset()
    more = draw(st.frozensets(st.tuples(s, t), max_size=6)) if room else frozenset()
    by_target = frozenset({link[1]: link for link in links}.values())
    by_source = frozenset({link[0]: link for link in more}.values())
    known = draw(st.dictionaries(st.sampled_from(sorted(links)), probability)) if links else {}
    if format == "symal":
        gold = Gold(by_target & by_source, by_target | by_source)
        return LinkedPair(gold, source, target, directions=(by_target, by_source))
    if format == "giza":
        return LinkedPair(Gold(by_target, by_target), source, target)
    if format == "pharaoh":
        return LinkedPair(Gold(links, links))
    gold = Gold(links, links | more)
    return LinkedPair(gold, source, target, known or None if format in ("naacl", "json") else None)


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_every_format_reads_what_it_writes(tmp_path_factory, format, data):
    path = tmp_path_factory.getbasetemp() / f"law.{format}"
    pairs = data.draw(st.lists(pairs_for(format), max_size=4))
    write(path, pairs, format)
    while not FORMATS[format].by_pair and pairs and not pairs[-1].gold.possible:
        pairs.pop()  # sentences without links at the end have no line
    assert list(read_pairs(path, format)) == pairs
    swapped = list(read_pairs(path, format, swap=True))
    assert [one.swapped() for one in swapped] == pairs
    assert [one.links for one in swapped] == [
        frozenset((t, s) for s, t in one.links) for one in pairs
    ]


@st.composite
def one_to_one(draw):
    """Pairs that every format has a place for, each with its lines."""
    source, target = draw(sides), draw(sides)
    order = draw(st.permutations(range(len(target))))
    kept = draw(st.lists(st.booleans(), min_size=5, max_size=5))
    links = frozenset((s, t) for s, t, keep in zip(range(len(source)), order, kept) if keep)
    return LinkedPair(Gold(links, links), source, target)


@pytest.mark.parametrize("old", FORMATS)
@pytest.mark.parametrize("new", FORMATS)
@settings(max_examples=8)
@given(pairs=st.lists(one_to_one(), max_size=3))
def test_any_conversion_keeps_links(tmp_path_factory, old, new, pairs):
    folder = tmp_path_factory.getbasetemp()
    names = {"source": folder / "law.s", "target": folder / "law.t"}
    for side, path in names.items():
        text = "".join(" ".join(getattr(one, side)) + "\n" for one in pairs)
        path.write_text(text, encoding="utf-8", newline="\n")
        assume(not text.startswith("\ufeff"))  # a mark of the file, not of its first word
    write(folder / "old", pairs, old)
    both = "symal" in (old, new)
    how = "union" if old == "symal" else None
    with (folder / "new").open("w", encoding="utf-8", newline="\n") as file:
        done = convert(folder / "old", file, old, new, symmetrize=how, **names)
    assert done == Converted(len(pairs), sum(len(one.links) for one in pairs), 0)
    read = read_pairs(folder / "new", new)
    lines = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in names.values()]
    found = list(with_text(read, lines[0], lines[1], by_pair=FORMATS[new].by_pair))
    assert [(one.gold, one.source, one.target) for one in found] == [
        (one.gold, one.source, one.target) for one in pairs
    ]
    assert both or all(one.directions is None for one in found)
    assert list(check_lines(folder / "new", new, *names.values())) == []


@given(pairs=st.lists(one_to_one(), max_size=3), data=st.data())
def test_more_spaces_in_the_texts_change_nothing(pairs, data):
    spaces = st.integers(1, 3).map(lambda number: number * " ")
    ends = st.sampled_from(["", " ", "  "])

    def line(tokens):
        inside = "".join(f"{token}{data.draw(spaces)}" for token in tokens[:-1])
        return f"{data.draw(ends)}{inside}{''.join(tokens[-1:])}{data.draw(ends)}"

    texts = [[line(getattr(one, side)) for one in pairs] for side in ("source", "target")]
    given_links = [LinkedPair(one.gold) for one in pairs]
    found = list(with_text(given_links, texts[0], texts[1]))
    assert [(one.gold, one.source, one.target) for one in found] == [
        (one.gold, one.source, one.target) for one in pairs
    ]


# ----------------------------------------------------------------------------------------- fuzz

PIECES = [
    *("# Sentence pair (1) source length 1 target length 1 alignment score : 1\n", "NULL ({ 1 })"),
    *("({", "})", " a ", "#", "1", "0", "-", "p", " S ", " P 0.5", "1 1 1 S\n", "2 2 2\n", "1\n"),
    *('{"sure": [[0, 0, 0.5]], ', '"source": ["a"], ', '"target": ["b"]}\n', "[[", "]]", "NaN"),
    *("1 a # 1\n", "1e9", "99999999999", "\n", " ", "\r", "\x00", "\u2028", "٣", "-1"),
]
anything = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5))).map("".join)
VALID = {
    "pharaoh": "0-0 1-2\n1-1\n",
    "talp": "0-0 1p2\n1-1\n",
    "naacl": "0001 1 1 S 0.5\n0001 2 3 P\n0002 2 2\n",
    "giza": (
        "# Sentence pair (1) source length 2 target length 1 alignment score : 1\na\n"
        "NULL ({ }) x ({ 1 }) y ({ })\n"
        "# Sentence pair (2) source length 1 target length 1 alignment score : 1\na\n"
        "NULL ({ 1 }) x ({ })\n"
    ),
    "symal": "1\n2 a b # 1 0\n1 x # 2\n1\n1 a # 1\n1 x # 0\n",
    "json": '{"source": ["a"], "target": ["b"], "sure": [[0, 0, 0.5]]}\n{"possible": [[1, 1]]}\n',
}


@st.composite
def damaged(draw, format):
    text = VALID[format]
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 4)))
    return text[:start] + draw(st.one_of(st.just(""), anything)) + text[end:]


@pytest.mark.parametrize("format", FORMATS)
@given(data=st.data())
def test_any_file_is_read_or_refused_in_a_line(tmp_path_factory, format, data):
    path = tmp_path_factory.getbasetemp() / "fuzz"
    text = data.draw(st.one_of(anything, damaged(format)))
    path.write_text(text, encoding="utf-8", newline="")
    message = ""
    try:
        for one in islice(read_pairs(path, format), 1000):
            assert all(min(s, t) >= 0 and max(s, t) <= MAX_POSITION for s, t in one.every_link)
    except UserError as error:
        message = str(error)
        assert message.startswith(f"{path}:")
        assert "\n" not in message
        assert len(message) < len(str(path)) + 300
    beside = path.with_name("fuzz.text")
    beside.write_text("a b c\n" * 4, encoding="utf-8")
    problems = list(islice(check_lines(path, format, beside, beside), 1000))
    assert all(problem.startswith(f"{path}") and "\n" not in problem for problem in problems)
    assert not message or problems  # a checker finds what a reader does


@pytest.mark.parametrize("format", FORMATS)
def test_valid_files_are_valid(tmp_path, format):
    (tmp_path / "f").write_text(VALID[format], encoding="utf-8")
    assert len(list(read_pairs(tmp_path / "f", format))) == 2
