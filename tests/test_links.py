from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.errors import UserError
from nmtkit.links import (
    MAX_POSITION,
    SYMMETRISATIONS,
    Gold,
    Links,
    check_bounds,
    check_pairs,
    format_pharaoh,
    format_talp,
    in_step,
    parse_gold,
    parse_links,
    read_gold,
    read_links,
    split_tokens,
    symmetrise,
    transpose,
)

positions = st.integers(0, 5)
small_links = st.frozensets(st.tuples(positions, positions), max_size=14)
any_position = st.integers(0, MAX_POSITION)
any_links = st.frozensets(st.tuples(any_position, any_position), max_size=20)
golds = st.builds(lambda sure, more: Gold(sure, sure | more), any_links, any_links)


def L(line: str) -> Links:
    return frozenset((int(s), int(t)) for s, t in (token.split("-") for token in line.split()))


# ------------------------------------------------------------------------------------- parsing


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", set()),
        ("0-0", {(0, 0)}),
        ("3-1 0-2", {(3, 1), (0, 2)}),
        ("1-1 1-1 01-1", {(1, 1)}),  # repeats are harmless
        ("  0-0   1-1 ", {(0, 0), (1, 1)}),
        (f"{MAX_POSITION}-0", {(MAX_POSITION, 0)}),
    ],
)
def test_parse_links(line, expected):
    assert parse_links(line, "f:1") == expected


@pytest.mark.parametrize(
    "line",
    [
        "-1-2",
        "1--2",
        "1-2-3",
        "1",
        "1-",
        "-",
        "a-b",
        "1.0-2",
        "1e3-2",
        "+1-2",
        "1_0-2",
        "٣-1",  # Unicode digits
        "²-1",
        "0–0",  # en dash
        "0-0\t1-1",
        "0-0\u00a01-1",
        "0-0,1-1",
        "(0,0)",
        f"{MAX_POSITION + 1}-0",
        "0-18446744073709551616",
        "9" * 5000 + "-0",  # beyond what int() takes
    ],
)
def test_malformed_links_name_file_and_line(line):
    for parse in (parse_links, parse_gold):
        with pytest.raises(UserError, match=r"^links\.txt:7: '") as caught:
            parse("0-0 " + line, "links.txt:7")
        assert len(str(caught.value)) < 200
        assert "\n" not in str(caught.value)


def test_possible_links_belong_to_gold_files():
    with pytest.raises(UserError, match="f:1: '3p4' is a possible link"):
        parse_links("3p4", "f:1")


def test_parse_gold():
    gold = parse_gold("0-0 1p2 2?2 3-3 3p3 4p4 4-4", "g:1")
    assert gold.sure == {(0, 0), (3, 3), (4, 4)}
    assert gold.possible == {(0, 0), (1, 2), (2, 2), (3, 3), (4, 4)}


def test_one_based_and_swap():
    assert parse_links("1-2 5-1", "f:1", one_based=True) == {(0, 1), (4, 0)}
    assert parse_links("1-2", "f:1", swap=True) == {(2, 1)}
    assert parse_gold("1p2", "f:1", one_based=True, swap=True).possible == {(1, 0)}
    assert parse_links(f"1-{MAX_POSITION + 1}", "f:1", one_based=True) == {(0, MAX_POSITION)}
    for line in ("0-1", "1-0", "1-00"):
        with pytest.raises(UserError, match=r"f:3: .*position 0.*count from 1"):
            parse_links(line, "f:3", one_based=True)
    with pytest.raises(UserError, match=f"beyond {MAX_POSITION}"):
        parse_links(f"1-{MAX_POSITION + 2}", "f:1", one_based=True)


def test_sure_links_must_be_possible():
    with pytest.raises(ValueError, match="possible"):
        Gold(L("0-0"), L("1-1"))


def test_written_lines_are_sorted():
    assert format_pharaoh(L("10-0 2-1 2-0")) == "2-0 2-1 10-0"
    assert format_talp(Gold(L("10-0 2-1"), L("10-0 2-1 2-0"))) == "2p0 2-1 10-0"
    assert format_pharaoh(frozenset()) == ""


@given(golds)
def test_formats_read_what_they_write(gold):
    assert parse_gold(format_talp(gold), "f:1") == gold
    assert parse_links(format_pharaoh(gold.sure), "f:1") == gold.sure


@given(any_links)
def test_swap_is_transpose(links):
    line = format_pharaoh(links)
    assert parse_links(line, "f:1", swap=True) == transpose(links)
    assert transpose(transpose(links)) == links


@given(st.text(alphabet="19-p? ٣²_x\t", max_size=12))
def test_any_line_is_read_or_refused(line):
    well_formed = all(re.fullmatch("[19]+-[19]+", token) for token in line.split(" ") if token)
    if not well_formed or any(len(digits) > 5 for digits in re.findall("[19]+", line)):
        with pytest.raises(UserError, match=r"^f:1: "):
            parse_links(line, "f:1")
    else:
        assert parse_links(line, "f:1") == L(line)


# --------------------------------------------------------------------------------------- files


def test_read_links(tmp_path):
    path = tmp_path / "a.links"
    path.write_text("0-0 1-1\n\n2-0\n", encoding="utf-8")
    assert list(read_links(path)) == [L("0-0 1-1"), L(""), L("2-0")]
    assert list(read_links(path, swap=True))[2] == L("0-2")
    path.write_text("1-1 1p2\n3-1\n", encoding="utf-8")
    assert [gold.possible for gold in read_gold(path, one_based=True)] == [L("0-0 0-1"), L("2-0")]
    assert next(read_links(path, format="talp")) == L("1-1")


def test_reading_is_lazy_and_errors_name_the_line(tmp_path):
    path = tmp_path / "a.links"
    path.write_text("0-0\n1-x\n", encoding="utf-8")
    lines = read_links(path)
    assert next(lines) == L("0-0")
    with pytest.raises(UserError, match=r"a\.links:2: '1-x'"):
        next(lines)


def test_standard_input_is_named(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"0-0\n1-x\n")))
    lines = read_links("-")
    assert next(lines) == L("0-0")
    with pytest.raises(UserError, match=r"^standard input:2: '1-x'"):
        next(lines)


def test_unknown_format_is_refused_before_reading(tmp_path):
    with pytest.raises(UserError, match=r"unknown link format 'farao'.*pharaoh"):
        read_links(tmp_path / "missing", format="farao")


def test_tokens_are_split_on_the_ascii_space_only():
    assert split_tokens("a\u00a0b \u3000 c\u2009d") == ["a\u00a0b", "\u3000", "c\u2009d"]
    assert split_tokens("a\tb\u2028 c") == ["a\tb\u2028", "c"]


def test_runs_of_spaces_separate_once_and_at_the_ends_nothing():
    assert split_tokens("a  b   c") == split_tokens("  a b c ") == ["a", "b", "c"]
    assert split_tokens("") == split_tokens(" ") == split_tokens("   ") == []


def test_check_bounds():
    check_bounds(L("1-2"), 2, 3, "f:4")
    with pytest.raises(UserError, match="f:4: link 2-0 is out of bounds: the source has 2 tokens"):
        check_bounds(L("0-0 2-0"), 2, 3, "f:4")
    with pytest.raises(UserError, match="f:4: link 0-3 is out of bounds: the target has 3 tokens"):
        check_bounds(L("0-3"), 2, 3, "f:4")
    with pytest.raises(UserError, match="the source has 0 tokens"):
        check_bounds(L("0-0"), 0, 0, "f:4")


def test_check_pairs():
    sources, targets = ["a\u3000b c", ""], ["d", ""]
    assert list(check_pairs([L("1-0"), L("")], sources, targets)) == [L("1-0"), L("")]
    names = ("x.links", "x.en", "x.de")
    with pytest.raises(UserError, match=r"x\.links:1: link 2-0"):
        list(check_pairs([L("2-0"), L("")], sources, targets, names))
    with pytest.raises(UserError, match=r"x\.links has 1 line, but x\.en has 2"):
        list(check_pairs([L("")], sources, targets, names))
    with pytest.raises(UserError, match=r"x\.en has 2 lines, but x\.de has 3"):
        list(check_pairs([L("")] * 3, sources, [*targets, ""], names))


@given(st.integers(0, 5), st.integers(0, 5))
def test_in_step(first, second):
    pairs = in_step(iter(range(first)), iter(range(second)), ("one", "two"))
    if first == second:
        assert list(pairs) == [(i, i) for i in range(first)]
    else:
        with pytest.raises(
            UserError, match=rf"one has {first} lines?, but two has {second} lines?:"
        ):
            list(pairs)


# ------------------------------------------------------------------------------ symmetrisation


# Worked by hand with Moses' symal.cpp (printgrow): points are walked target by target, each one's
# neighbours in the order up, left, down, right (as target rows, source columns), then diagonals.
# Wherever links are functions of a word, as symal's input is, its own answer is the same.
BY_HAND = [
    # No intersection: nothing to grow from. final takes (0,0), then (0,1) for target 1;
    # final-and has source 0 aligned by then. Forward comes first.
    ("0-0", "0-1", "grow-diag", ""),
    ("0-0", "0-1", "grow-diag-final", "0-0 0-1"),
    ("0-0", "0-1", "grow-diag-final-and", "0-0"),
    ("0-1", "0-0", "grow-diag-final-and", "0-1"),
    # After the forward links 1-0 has both words aligned. (Backward first would take all three.)
    ("0-0 1-1", "1-0", "grow-diag-final", "0-0 1-1"),
    ("1-0", "0-0 1-1", "grow-diag-final", "0-0 1-0 1-1"),
    # Within a direction in order: 1-0 leaves source 1 aligned for 1-1.
    ("1-0 1-1", "", "grow-diag-final-and", "1-0"),
    # A neighbour joins when one of its words is unaligned (not both): target 1 here.
    ("0-0 0-1", "0-0", "grow-diag", "0-0 0-1"),
    # Both aligned: 0-1 stays out everywhere but in the union.
    ("0-0 1-1 0-1", "0-0 1-1", "grow-diag-final", "0-0 1-1"),
    # Two steps away: not a neighbour. final takes it for its target, final-and does not.
    ("0-0 0-2", "0-0", "grow-diag", "0-0"),
    ("0-0 0-2", "0-0", "grow-diag-final", "0-0 0-2"),
    ("0-0 0-2", "0-0", "grow-diag-final-and", "0-0"),
    # Growth goes on from added points.
    ("0-0 0-1 0-2 0-3", "0-0", "grow-diag", "0-0 0-1 0-2 0-3"),
    # Straight neighbours before diagonal ones: 1-1 takes source 1 from 1-2, both next to 0-1.
    ("0-1 2-2 1-1", "0-1 2-2 1-2", "grow-diag", "0-1 2-2 1-1"),
    # Target by target: 4-0 adds 4-1 (target 1), then 0-2 adds 1-1 (source 1).
    # Source by source, 0-2 would add 1-1 first and 4-1 would find both words aligned.
    ("4-0 4-1 0-2", "4-0 1-1 0-2", "grow-diag", "4-0 0-2 4-1 1-1"),
    # The other way round: 5-0 adds 4-1, so that 0-2 finds 0-1 with both words aligned.
    ("5-0 0-1 0-2", "5-0 4-1 0-2", "grow-diag", "5-0 0-2 4-1"),
    # 2-2 adds 1-2 behind the walk, met in the next pass only; 9-4 adds 8-3 before, which aligns
    # target 3, so 0-3 (next to 1-2, source 0 aligned by 0-7) stays out.
    ("2-2 0-3 9-4 0-7", "2-2 1-2 9-4 8-3 0-7", "grow-diag", "2-2 9-4 0-7 1-2 8-3"),
    # 2-2 adds 3-2 ahead of the walk, met in the same pass: it adds 4-3 before 9-4 adds 8-3.
    ("2-2 4-3 9-4 4-7", "2-2 3-2 9-4 8-3 4-7", "grow-diag", "2-2 9-4 4-7 3-2 4-3 8-3"),
    ("0-0 1-1", "1-1 2-1", "union", "0-0 1-1 2-1"),
    ("0-0 1-1", "1-1 2-1", "intersection", "1-1"),
]


@pytest.mark.parametrize(("forward", "backward", "method", "expected"), BY_HAND)
def test_symmetrisation_by_hand(forward, backward, method, expected):
    assert SYMMETRISATIONS[method](L(forward), L(backward)) == L(expected)


def by_matrix(forward: Links, backward: Links, method: str) -> Links:
    """Koehn's published pseudo-code on boolean matrices (target, source) with an empty border."""
    size = 3 + max((max(link) for link in forward | backward), default=0)
    f, b, now = (np.zeros((size, size), dtype=bool) for _ in range(3))
    for matrix, links in ((f, forward), (b, backward)):
        for source, target in links:
            matrix[target + 1, source + 1] = True
    now[:] = f & b
    changed = True
    while changed:
        changed = False
        for row in range(1, size - 1):
            for column in range(1, size - 1):
                if not now[row, column]:
                    continue
                for down, right in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):  # fmt: skip  # noqa: E501
                    r, c = row + down, column + right
                    if (f[r, c] or b[r, c]) and not (now[r].any() and now[:, c].any()):
                        now[r, c] = changed = True
    if "final" in method:
        for matrix in (f & ~b, b & ~f):
            for r, c in np.argwhere(matrix & ~now):
                aligned = int(now[r].any()) + int(now[:, c].any())
                if aligned == 0 or (aligned == 1 and not method.endswith("and")):
                    now[r, c] = True
    return frozenset((int(c) - 1, int(r) - 1) for r, c in np.argwhere(now))


@pytest.mark.parametrize("method", ["grow-diag", "grow-diag-final", "grow-diag-final-and"])
@given(forward=small_links, backward=small_links)
def test_symmetrisation_equals_the_matrix_twin(method, forward, backward):
    assert SYMMETRISATIONS[method](forward, backward) == by_matrix(forward, backward, method)


chosen = st.lists(st.one_of(st.none(), st.integers(0, 7)), min_size=8, max_size=8)


@pytest.mark.parametrize("method", ["grow-diag", "grow-diag-final", "grow-diag-final-and"])
@given(sources=chosen, targets=chosen)
def test_symmetrisation_equals_the_twin_on_one_link_a_word(method, sources, targets):
    forward = frozenset((s, t) for t, s in enumerate(sources) if s is not None)
    backward = frozenset((s, t) for s, t in enumerate(targets) if t is not None)
    assert SYMMETRISATIONS[method](forward, backward) == by_matrix(forward, backward, method)


@pytest.mark.parametrize("method", SYMMETRISATIONS)
@given(forward=small_links, backward=small_links)
def test_symmetrisations_lie_between_intersection_and_union(method, forward, backward):
    result = SYMMETRISATIONS[method](forward, backward)
    assert isinstance(result, frozenset)
    assert forward & backward <= result <= forward | backward
    assert SYMMETRISATIONS[method](forward, forward) == forward


@given(small_links, small_links)
def test_methods_are_nested(forward, backward):
    grown, final, final_and = (
        SYMMETRISATIONS[name](forward, backward)
        for name in ("grow-diag", "grow-diag-final", "grow-diag-final-and")
    )
    assert grown <= final & final_and
    aligned = [{link[side] for link in forward | backward} for side in (0, 1)]
    assert [{link[side] for link in final} for side in (0, 1)] == aligned  # final leaves no word


def test_symmetrise_works_line_by_line():
    forward, backward = iter([L("0-0"), L("")]), iter([L("0-0 1-0"), L("1-1")])
    lines = symmetrise(forward, backward, "intersection")
    assert next(lines) == L("0-0")
    assert next(backward) == L("1-1")  # not read ahead


def test_symmetrise_errors():
    with pytest.raises(UserError, match="unknown symmetrisation 'grow-dia': did you mean"):
        symmetrise([], [], "grow-dia")
    with pytest.raises(UserError, match="a has 1 line, but b has 3"):
        list(symmetrise([L("")], [L("")] * 3, "union", ("a", "b")))
