"""From one format to another, two directions together, and links checked against their texts."""

from __future__ import annotations

import gzip
import io

import pytest

from nmtkit.errors import UserError
from nmtkit.links import (
    SYMMETRISATIONS,
    Converted,
    Gold,
    LinkedPair,
    Links,
    check_lines,
    convert,
    read_directions,
    write_pairs,
)


def L(line: str) -> Links:
    return frozenset((int(s), int(t)) for s, t in (token.split("-") for token in line.split()))


def pair(sure="", possible="", **more) -> LinkedPair:
    return LinkedPair(Gold(L(sure), L(sure) | L(possible)), **more)


def write(path, pairs, format):
    with path.open("w", encoding="utf-8", newline="\n") as file:
        write_pairs(file, pairs, format)


@pytest.fixture
def texts(tmp_path):
    """Three pairs of lines; the last has no link in the tests."""
    paths = {"source": tmp_path / "t.de", "target": tmp_path / "t.en"}
    paths["source"].write_text("das Haus\nja\nnun\n", encoding="utf-8")
    paths["target"].write_text("the house\noh yes\n\n", encoding="utf-8")
    return paths


def converted(path, old, new, **options):
    out = io.StringIO()
    done = convert(path, out, old, new, **options)
    return out.getvalue(), done


# -------------------------------------------------------------------------------------- convert


def test_convert_reports_what_has_no_place(tmp_path, texts):
    path = tmp_path / "gold.gz"
    path.write_bytes(gzip.compress(b"0-0 1p1\n0p1\n\n"))
    assert converted(path, "talp", "naacl")[0] == "0001 1 1 S\n0001 2 2 P\n0002 1 2 P\n"
    assert converted(path, "talp", "pharaoh", **texts) == ("0-0\n\n\n", Converted(3, 1, 2))
    text, done = converted(path, "talp", "json", **texts)
    assert done == Converted(3, 3, 0)
    assert text.split("\n")[1] == (
        '{"source": ["ja"], "target": ["oh", "yes"], "sure": [], "possible": [[0, 1]]}'
    )


def test_convert_streams(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1-1\n1-2\n1-x\n")))
    out = io.StringIO()
    with pytest.raises(UserError, match=r"^standard input:3: '1-x' is not a link"):
        convert("-", out, "pharaoh", "talp", one_based=True, swap=True)
    assert out.getvalue() == "0-0\n1-0\n"  # what came before is written already


def test_naacl_ends_with_the_text(tmp_path, texts):
    path = tmp_path / "f.wa"
    path.write_text("2 1 1\n", encoding="utf-8")
    assert converted(path, "naacl", "pharaoh")[0] == "\n0-0\n"
    assert converted(path, "naacl", "pharaoh", **texts)[0] == "\n0-0\n\n"
    path.write_text("2 1 1\n5 1 1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"f\.wa has 5 pairs, but .*t\.de has 3 pairs"):
        converted(path, "naacl", "pharaoh", **texts)


def test_texts_must_be_those_of_the_links(tmp_path, texts):
    path = tmp_path / "f"
    for pairs, message in [
        ([pair(), pair("1-0")], r"f:2: link 1-0 is out of bounds: the source has 1 tokens"),
        ([pair()], r"f has 1 pair, but .*t\.de has 3 pairs"),
        ([pair()] * 4, r"f has 4 pairs, but .*t\.de has 3 pairs: they must correspond"),
    ]:
        write(path, pairs, "pharaoh")
        with pytest.raises(UserError, match=message):
            converted(path, "pharaoh", "json", **texts)
    first = {"source": ["das", "Haus"], "target": ["the", "house"]}
    for other, message in [
        ({"source": ["ja"], "target": ["oh", "no"]}, "token 1 is 'no' here, 'yes' there"),
        ({"source": ["ja"], "target": ["oh"]}, "1 tokens here, 2 there"),
    ]:
        write(path, [pair(**first), pair(**other)], "giza")
        with pytest.raises(UserError, match=rf"f:4: the target is not .*t\.en:2: {message}"):
            converted(path, "giza", "pharaoh", **texts)
    texts["target"].write_text("the house\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"t\.de has 3 lines, but .*t\.en has 1 line"):
        converted(path, "giza", "pharaoh", **texts)


def test_convert_refuses_options_without_use(tmp_path, texts):
    path = tmp_path / "missing"
    for options, message in [
        ({"symmetrize": "union"}, "--symmetrize needs two directions, and a talp file has one"),
        ({"source": "x"}, "--source and --target go together"),
        ({"source": "-", "target": "-"}, r"only one of the links, --source and --target can be -"),
    ]:
        with pytest.raises(UserError, match=message):
            converted(path, "talp", "json", **options)
    with pytest.raises(UserError, match="symal has the links of two directions, giza of one: say"):
        converted(path, "symal", "giza")
    with pytest.raises(UserError, match="unknown symmetrisation 'unio'"):
        converted(path, "symal", "giza", symmetrize="unio")
    with pytest.raises(UserError, match="unknown link format 'a3'"):
        converted(path, "talp", "a3")


# ----------------------------------------------------------------------------------- directions

FORWARD, BACKWARD = "0-0 1-1\n0-1\n\n", "0-0\n0-0\n\n"


def test_two_directions_to_symal_and_back(tmp_path, texts):
    (tmp_path / "f").write_text(FORWARD, encoding="utf-8")
    (tmp_path / "b").write_text(BACKWARD, encoding="utf-8")
    names = tmp_path / "f", tmp_path / "b"
    pairs = list(read_directions(*names, "pharaoh", "intersection", **texts))
    assert [one.links for one in pairs] == [L("0-0"), L(""), L("")]
    write(tmp_path / "bal", pairs, "symal")
    assert (tmp_path / "bal").read_text(encoding="utf-8") == (
        "1\n2 the house # 1 2\n2 das Haus # 1 0\n1\n2 oh yes # 0 1\n1 ja # 1\n1\n0 #\n1 nun # 0\n"
    )
    assert converted(tmp_path / "bal", "symal", "symal")[0] == (tmp_path / "bal").read_text()
    for method, combine in SYMMETRISATIONS.items():
        text, done = converted(tmp_path / "bal", "symal", "talp", symmetrize=method, **texts)
        expected = [combine(L(f), L(b)) for f, b in zip(FORWARD.split("\n"), BACKWARD.split("\n"))]
        assert list(map(L, text.split("\n")[:-1])) == expected[:3]
        assert done == Converted(3, sum(map(len, expected)), 0)


def test_giza_files_of_both_directions(tmp_path):
    head = "# Sentence pair (1) source length {} target length {} alignment score : 1\n"
    (tmp_path / "f").write_text(head.format(1, 2) + "c d\nNULL ({ }) a ({ 1 2 })\n")
    (tmp_path / "b").write_text(head.format(2, 1) + "a\nNULL ({ }) c ({ }) d ({ 1 })\n")
    (only,) = read_directions(tmp_path / "f", tmp_path / "b", "giza", "intersection")
    assert only == pair("0-1", source=["a"], target=["c", "d"], directions=(L("0-0 0-1"), L("0-1")))
    (tmp_path / "b").write_text(head.format(2, 1) + "a\nNULL ({ }) c ({ }) e ({ 1 })\n")
    with pytest.raises(UserError, match=r"/f:1 and .*/b:1 are of different sentences"):
        list(read_directions(tmp_path / "f", tmp_path / "b", "giza", "union"))


def test_directions_errors(tmp_path):
    path = tmp_path / "f"
    path.write_text("1 1 1\n3 1 1\n", encoding="utf-8")
    (tmp_path / "b").write_text("1 1 1\n", encoding="utf-8")
    naacl = read_directions(path, tmp_path / "b", "naacl", "union")
    assert [one.links for one in naacl] == [L("0-0"), L(""), L("0-0")]
    path.write_text("0-0\n0-0\n", encoding="utf-8")
    (tmp_path / "b").write_text("0-0\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"f has 2 pairs, but .*b has 1 pair"):
        list(read_directions(path, tmp_path / "b", "pharaoh", "union"))
    for arguments, message in [
        ((path, path, "symal", "union"), "a symal file has both directions: use --convert"),
        ((path, path, "talp", "onion"), "unknown symmetrisation 'onion'"),
        (("-", "-", "talp", "union"), "only one of --forward and --backward"),
    ]:
        with pytest.raises(UserError, match=message):
            read_directions(*arguments)


# ---------------------------------------------------------------------------------------- check


def checked(*arguments, **options):
    """The messages without folders, and the count that the generator returns."""
    messages, checking = [], check_lines(*arguments, **options)
    while True:
        try:
            messages.append(next(checking))
        except StopIteration as stop:
            return [
                message.replace(str(arguments[0].parent) + "/", "") for message in messages
            ], stop.value


def test_check_names_every_bad_line(tmp_path, texts):
    path = tmp_path / "f"
    path.write_text("0-0\n0-0 0-2\n0:0\n", encoding="utf-8")
    messages, count = checked(path, "pharaoh", *texts.values())
    assert [message.split(" is ")[0] for message in messages] == ["f:2: link 0-2", "f:3: '0:0'"]
    assert count == 3
    path.write_text("2-1\n1-1 1-2\n\n", encoding="utf-8")
    assert checked(path, "pharaoh", *texts.values(), one_based=True) == (
        [],
        3,
    )
    path.write_text("0-5\nx\n\n0-0\ny\n", encoding="utf-8")
    messages, count = checked(path, "pharaoh", *texts.values())
    assert [message.split(" ")[0] for message in messages] == ["f:1:", "f:2:", "f:5:", "f"]
    assert messages[-1] == "f has 5 pairs, but t.de has 3 pairs: they must correspond pair by pair"
    assert count == 5
    path.write_text("0-5\n", encoding="utf-8")
    assert checked(path, "pharaoh", *texts.values())[0][1].startswith(
        "f has 1 pair, but t.de has 3"
    )
    texts["target"].write_text("the house\n", encoding="utf-8")
    messages, _ = checked(path, "pharaoh", *texts.values())
    assert messages[1:] == [
        "t.de has 3 lines, but t.en has 1 line: they must correspond line by line"
    ]


def test_check_of_formats_with_several_lines(tmp_path, texts):
    path = tmp_path / "f"
    path.write_text("1 1 3\n1 x 1\n2 1 2\n1 1 1\n3 1 1\n", encoding="utf-8")
    messages, count = checked(path, "naacl", *texts.values())
    assert [message.split(" ")[0] for message in messages] == ["f:2:", "f:1:", "f:4:", "f:5:"]
    assert count == 3
    path.write_text("1 1 1\n", encoding="utf-8")
    assert checked(path, "naacl", *texts.values()) == ([], 3)
    sides = [(["das", "Haus"], ["the", "house"]), (["ja"], ["oh", "no"]), (["nun"], [])]
    write(path, [pair(source=source, target=target) for source, target in sides], "giza")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("the house \n", ""), encoding="utf-8")
    messages, count = checked(path, "giza", *texts.values())
    assert [message.split(" ")[0] for message in messages] == ["f:2:", "f:4:"]
    assert count == 3


def test_check_of_what_cannot_be_read(tmp_path, texts):
    with pytest.raises(UserError, match="cannot read"):
        list(check_lines(tmp_path / "missing", "pharaoh", *texts.values()))
    with pytest.raises(UserError, match="only one of the links"):
        list(check_lines("-", "pharaoh", "-", texts["target"]))
