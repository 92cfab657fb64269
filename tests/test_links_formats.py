"""Each format by hand: what a published file says, what is refused, and where."""

from __future__ import annotations

import io

import pytest

from nmtkit.errors import UserError
from nmtkit.links import (
    FORMATS,
    MAX_POSITION,
    Gold,
    LinkedPair,
    Links,
    read_gold,
    read_links,
    read_pairs,
    write_pairs,
)


def L(line: str) -> Links:
    return frozenset((int(s), int(t)) for s, t in (token.split("-") for token in line.split()))


def pair(sure="", possible="", **more) -> LinkedPair:
    return LinkedPair(Gold(L(sure), L(sure) | L(possible)), **more)


def written(pairs, format):
    out = io.StringIO()
    write_pairs(out, pairs, format)
    return out.getvalue()


@pytest.fixture
def read(tmp_path):
    def read(text, format, **options):
        path = tmp_path / "f"
        path.write_text(text, encoding="utf-8")
        return list(read_pairs(path, format, **options))

    return read


GREEN = {"source": ["das", "Haus"], "target": ["the", "green", "house"]}
A3 = (
    "# Sentence pair (1) source length 2 target length 3 alignment score : 0.0236746\n"
    "the green house \n"
    "NULL ({ 2 }) das ({ 1 }) Haus ({ 3 }) \n"
)
BAL = "1\n3 the green house  # 1 0 2\n2 das Haus  # 1 2\n"


def test_pharaoh_and_talp(read):
    assert read("0-0 1-2\n\n", "pharaoh") == [pair("0-0 1-2"), pair()]
    assert read("1-1 2p3\n", "talp", one_based=True) == [pair("0-0", "1-2")]
    assert written([pair("10-0 2-1", "2-0")] * 2, "talp") == "2p0 2-1 10-0\n" * 2
    assert written([pair("10-0 2-1", "2-0")], "pharaoh") == "2-1 10-0\n"  # no place for possible


def test_what_is_read_knows_its_line(read):
    for text, format, lines in [
        ("0-0\n0-0\n", "pharaoh", (1, 2)),
        ("2 1 1\n2 2 2\n3 1 1\n", "naacl", (1, 1, 3)),
        (A3 + A3.replace("(1)", "(2)"), "giza", (1, 4)),
        (BAL * 2, "symal", (1, 4)),
        ("{}\n{}\n", "json", (1, 2)),
    ]:
        found = [one.where.rpartition(":") for one in read(text, format)]
        assert [int(line) for _, _, line in found] == list(lines)
        assert all(name.endswith("/f") for name, _, _ in found)


# --------------------------------------------------------------------------------------- naacl


def test_naacl(read):
    text = (
        "0001 1 1\n"
        "0001 2 3 P 0.25\n"
        "1  3 3 1\n"  # a confidence without a mark, two spaces
        "0003 1 2 S\n"  # sentence 2 has no link
        "0003 2 1 P\n0003 2 1 S\n"  # sure wins
        "0004 0 1\n0004 1 0 P\n"  # the NULL word, on either side
    )
    assert read(text, "naacl") == [
        pair("0-0 2-2", "1-2", probabilities={(1, 2): 0.25, (2, 2): 1.0}),
        pair(),
        pair("0-1 1-0"),
        pair(),
    ]
    assert read("1 1 2\n", "naacl", swap=True) == [pair("1-0")]
    assert read("3 1 1\n", "naacl") == [pair(), pair(), pair("0-0")]
    assert read("", "naacl") == []
    assert len(read("100000 1 1\n", "naacl")) == 100_000  # the longest gap


def test_naacl_is_written_as_published():
    known = {(0, 0): 0.5, (1, 2): 1.00000004, (0, 1): 1 / 3}
    pairs = [pair("0-0 1-2", "0-1 0-10", probabilities=known), pair(), pair("0-0")]
    assert written(pairs, "naacl") == (
        "0001 1 1 S 0.5\n0001 1 2 P 0.333333\n0001 1 11 P\n0001 2 3 S 1\n0003 1 1 S\n"
    )
    assert written([pair("0-0")] * 10_000, "naacl").endswith("\n10000 1 1 S\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1", r"f:1: '1 1' should be: sentence source target \[S\|P\] \[confidence\]"),
        ("", "f:1: '' should be"),
        ("1 1 1 S 0.5 x", "should be"),
        ("1 1 1\n0 1 1", "f:2: sentence 0, but sentences count from 1"),
        ("2 1 1\n1 1 1", "f:2: sentence 1 comes after sentence 2: sort the file"),
        ("100001 1 1", "f:1: sentence 100001 comes after sentence 0: the file is damaged"),
        ("1 x 1", "f:1: 'x' is not a number"),
        ("1 1 -1", "'-1' is not a number"),
        ("1 1 ٣", "is not a number"),
        ("1\t1\t1", "should be"),
        (f"1 1 {MAX_POSITION + 2}", f"beyond {MAX_POSITION + 1}: the file is damaged"),
        ("9" * 5000 + " 1 1", "beyond"),
        ("1 1 1 s", "'s' should be S, P or a confidence"),
        ("1 1 1 X 0.5", "'X' should be S or P"),
        ("1 1 1 S P", "'P' should be S, P or a confidence"),
        ("1 1 1 S 1.5", "confidence between 0 and 1"),
        ("1 1 1 S nan", "confidence between 0 and 1"),
        ("1 1 1 S 1_0", "confidence between 0 and 1"),
        ("1 1 1 S 1e999", "confidence between 0 and 1"),
        ("1 1 1 S .5\n1 1 1 S .6", "f:2: the same link came with another confidence before"),
    ],
)
def test_naacl_refuses(read, text, message):
    with pytest.raises(UserError, match=message) as caught:
        read(text + "\n", "naacl")
    assert len(str(caught.value)) < 250


# ---------------------------------------------------------------------------------------- giza


def test_giza(read):
    assert read(A3, "giza") == [pair("0-0 1-2", **GREEN)]
    # The inverse training's file: GIZA's source is the target here.
    swapped = read(A3, "giza", swap=True)
    assert swapped == [pair("0-0 2-1", source=GREEN["target"], target=GREEN["source"])]
    assert written([pair("0-0 1-2", **GREEN)], "giza") == A3.replace("0.0236746", "1")


def test_giza_words_may_look_like_its_marks(read):
    text = (
        "# sentence pair (0) source length 4 target length 3\n"
        "}) ({ NULL\n"
        "NULL ({ }) NULL ({ 3 }) }) ({ 1 }) ({ ({ 2 }) 7 ({ })\n"
    )
    sides = {"source": ["NULL", "})", "({", "7"], "target": ["})", "({", "NULL"]}
    expected = pair("0-2 1-0 2-1", **sides)
    assert read(text, "giza") == [expected]
    assert read(written([expected], "giza"), "giza") == [expected]


def test_giza_of_empty_sentences(read):
    nothing = pair(source=[], target=[])
    text = written([nothing], "giza")
    assert text.split("\n")[1:3] == ["", "NULL ({ }) "]
    assert read(text, "giza") == [nothing]


def test_giza_of_other_programs_may_be_symmetrised(read):
    text = A3.replace("das ({ 1 })", "das ({ 1 3 3 })")
    assert read(text, "giza") == [pair("0-0 0-2 1-2", **GREEN)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# Sentence", "Sentence", "f:1: 'Sentence pair .* should be: # Sentence pair"),
        ("length 2", "length x", "should be: # Sentence pair"),
        ("(1)", "(1111111111111111111)", "f:1: the number .* beyond"),
        ("target length 3", "target length 2", "f:2: 3 words, but the target length is 2"),
        ("source length 2", "source length 3", "f:3: 2 words, but the source length is 3"),
        ("the green house", "", "f:2: 0 words"),
        ("NULL", "null", r"f:3: the line should begin with: NULL \(\{"),
        ("das ({", "das {", r"f:3: '\(\{' should follow 'das'"),
        ("({ 3 })", "({ 3", r"f:3: '\}\)' is missing after 'Haus'"),
        ("({ 3 })", "({ 4 })", "f:3: 'Haus' has position 4, but the target counts from 1 to 3"),
        ("({ 3 })", "({ 0 })", "'Haus' has position 0"),
        ("({ 3 })", "({ 3x })", "f:3: '3x' is not a number"),
        ("({ 3 })", "({ 2 3 })", "f:3: position 2 is given to NULL and to a word"),
        ("\nNULL ({ 2 }) das ({ 1 }) Haus ({ 3 }) ", "", "f:1: the file ends within"),
    ],
)
def test_giza_refuses(read, old, new, message):
    with pytest.raises(UserError, match=message):
        read(A3.replace(old, new), "giza")


def test_giza_parts_must_be_merged(read):
    with pytest.raises(UserError, match=r"f:4: pair 3 comes where 2 should be: sort and merge"):
        read(A3 + A3.replace("(1)", "(3)"), "giza")


# --------------------------------------------------------------------------------------- symal


def test_symal(read):
    # The first sentence is the target, and its numbers are source positions ("b" in symal).
    text = "1\n3 the green house  # 1 0 2\n2 das Haus # 1 2\n"
    forward, backward = L("0-0 1-2"), L("0-0 1-1")
    found = read(text, "symal")
    assert found == [pair("0-0", "1-2 1-1", directions=(forward, backward), **GREEN)]
    assert written(found, "symal") == text.replace("  #", " #")
    swapped = read(text, "symal", swap=True)[0]
    assert swapped.directions == (L("0-0 1-1"), L("0-0 2-1"))
    assert swapped.source == GREEN["target"]


def test_symal_words_may_look_like_its_marks(read):
    one = pair("0-1 1-0", source=["#", "2"], target=["#", "#"])
    text = written([one], "symal")
    assert text == "1\n2 # # # 2 1\n2 # 2 # 2 1\n"
    assert read(text, "symal")[0].directions == (one.links, one.links)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1\n3", "\n3", "f:1: '' should be: a count, 1"),
        ("3 the", "4 the", "f:2: '4 the green house .*' should be: the number of words, the words"),
        ("3 the", "x the", "f:2: 'x' is not a number"),
        (" #", "", "should be: the number"),
        ("# 1 0 2", "# 1 0 2 0", "should be: the number"),
        ("# 1 0 2", "# 1 0 x", "f:2: 'x' is not a number"),
        ("# 1 0 2", "# 1 0 3", "f:2: position 3, but the other side has 2 words"),
        ("# 1 2", "# 1 4", "f:3: position 4, but the other side has 3 words"),
        ("2 das Haus  # 1 2\n", "", "f:1: the file ends within this sentence pair"),
        ("2 das Haus  # 1 2\n", "\n", "f:3: '' should be: the number"),
        (BAL, "1\n1 ALIGN_ERR # 1\n1 ALIGN_ERR # 1\n", "f:2: giza2bal.pl found different sent"),
    ],
)
def test_symal_refuses(read, old, new, message):
    with pytest.raises(UserError, match=message):
        read(BAL.replace(old, new), "symal")


# ---------------------------------------------------------------------------------------- json


def test_json(read):
    known = {(0, 0): 0.93, (1, 0): 1.0}
    one = pair(
        "0-0 1-1", "1-0", probabilities=known, source=["das", "H\r#"], target=["a\u2028", ""]
    )
    text = written([one, pair()], "json")
    assert text == (
        '{"source": ["das", "H\\r#"], "target": ["a\u2028", ""], '
        '"sure": [[0, 0, 0.93], [1, 1]], "possible": [[1, 0, 1.0]]}\n{"sure": []}\n'
    )
    assert read(text, "json") == [one, pair()]
    assert read(' {"possible": [[0, 0]], "sure": [[0,0]]} \n{}\n', "json") == [pair("0-0"), pair()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "f:1: not JSON at character 1"),
        ("0-0", "not JSON at character 2"),
        ("[]", r"'\[\]' should be a JSON object"),
        ('{"sures": []}', "unknown key 'sures': did you mean 'sure'"),
        ('{"sure": [], "sure": []}', "a key comes twice"),
        ('{"source": ["a"]}', "source and target go together"),
        ('{"source": "a b", "target": []}', "source should be a list of strings"),
        ('{"source": [1], "target": []}', "source should be a list of strings"),
        ('{"source": ["a b"], "target": []}', "source token 'a b' has a space or a line end"),
        ('{"source": [], "target": ["a\\n"]}', "target token"),
        ('{"source": [], "target": ["\\ud800"]}', "lone surrogate"),
        ('{"sure": {}}', "sure should be a list of links"),
        ('{"sure": [[0]]}', r"'\[0\]' in sure should be \[source, target\]"),
        ('{"sure": [0]}', "in sure should be"),
        ('{"sure": [[0, 0, 0.5, 1]]}', "in sure should be"),
        ('{"sure": [[0, 1.0]]}', "in sure should be"),
        ('{"sure": [[true, 0]]}', "in sure should be"),
        ('{"possible": [[0, 0, true]]}', "in possible should be"),
        ('{"sure": [[0, -1]]}', "position -1 of sure is not one of 100000, from 0"),
        ('{"sure": [[0, 100000]]}', "position 100000 of sure"),
        (
            '{"sure": [[1, 0]], "source": ["a"], "target": ["b"]}',
            "position 1 of sure is not one of 1",
        ),
        ('{"sure": [[0, 0, 1.5]]}', "probability of link 0-0 is not between 0 and 1"),
        ('{"sure": [[0, 0, -0.1]]}', "is not between 0 and 1"),
        ('{"sure": [[0, 0, 1e999]]}', "is not between 0 and 1"),
        ('{"sure": [[0, 0, NaN]]}', "NaN is not JSON"),
        ('{"sure": [[0, 0, 0.5]], "possible": [[0, 0, 0.25]]}', "0-0 has two probabilities"),
        ('{"sure": [[0, ' + "9" * 5000 + "]]}", "too long"),
        ("[" * 200_000, "brackets within brackets"),
        ('{"sure": ' + "[" * 200_000, "brackets within brackets"),
        (" " * 8_000_001, "more than any sentence pair"),
    ],
    ids=lambda value: value[:30],
)
def test_json_refuses(read, line, message):
    with pytest.raises(UserError, match=message) as caught:
        read(line + "\n", "json")
    assert len(str(caught.value)) < 250


# --------------------------------------------------------------------------------- all of them


def test_writers_refuse_what_they_have_no_place_for(read):
    for format in ("giza", "symal"):
        with pytest.raises(UserError, match=r"^pair 2: the words are needed too: give --source"):
            written([pair(source=[], target=[]), pair("0-0")], format)
        for word in ("", "a b", "a\tb", "a\r"):
            with pytest.raises(UserError, match=r"has no place for .*, a word of white space"):
                written([pair(source=["a"], target=[word])], format)
    with pytest.raises(
        UserError, match=r"target word 1 .* has two links, but giza has at most one"
    ):
        written([pair("0-1 1-1", source=["a", "b"], target=["c", "d"])], "giza")
    with pytest.raises(UserError, match=r"source word 0 .* has two links, but symal has at most"):
        written([pair("0-0 0-1", source=["a"], target=["c", "d"])], "symal")
    read_pair = read("0-0 0-1\n1-1\n", "pharaoh")[1]
    with pytest.raises(UserError, match=r"/f:2: the words are needed too"):
        written([read_pair], "giza")
    for format in FORMATS:
        with pytest.raises(UserError, match="pair 1: link 1-0 is out of bounds"):
            written([pair("1-0", source=["a"], target=["c"])], format)
    for format in ("naacl", "json"):
        for value in (1.1, -0.1, float("nan"), float("inf")):
            with pytest.raises(UserError, match=r"pair 1: .* is not a probability"):
                written([pair("0-0", probabilities={(0, 0): value})], format)


@pytest.mark.parametrize("format", [name for name, one in FORMATS.items() if not one.one_based])
def test_formats_that_know_where_they_begin_are_not_told(tmp_path, format):
    with pytest.raises(UserError, match=f"--one-based is for pharaoh and talp: {format} itself"):
        read_pairs(tmp_path / "missing", format, one_based=True)


def test_unknown_formats_are_refused_before_reading(tmp_path):
    with pytest.raises(UserError, match="unknown link format 'gizza': did you mean 'giza'"):
        read_pairs(tmp_path / "missing", "gizza")
    with pytest.raises(UserError, match="unknown link format 'bal'"):
        write_pairs(io.StringIO(), [], "bal")


def test_links_and_gold_come_from_any_format(tmp_path):
    path = tmp_path / "f"
    path.write_text(BAL, encoding="utf-8")
    assert list(read_gold(path, format="symal")) == [Gold(L("0-0"), L("0-0 1-1 1-2"))]
    path.write_text(A3, encoding="utf-8")
    assert list(read_links(path, format="giza", swap=True)) == [L("0-0 2-1")]
