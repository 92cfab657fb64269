import gzip
import io
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.corpus import (
    REASONS,
    Duplicates,
    Filters,
    clean_line,
    corpus_files,
    filters,
    open_text,
    read_lines,
    read_pairs,
)
from nmtkit.errors import UserError

INNER = "\u2028 \u2029 \x85 \x0b \x0c \r \x1c \x1d \x1e \t \ufeff"  # no line ends here


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


class Stdin:
    """Standard input over ``raw``, as sys.stdin has it."""

    def __init__(self, raw):
        self.buffer = raw


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("\n\na", ["", "", "a"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\r\nb\rc\n", ["a\r", "b\rc"]),
        ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
        ("\ufeff", [""]),
        ("a\x00b\n", ["a\x00b"]),
        (f"{INNER}a\nb\n", [f"{INNER}a", "b"]),
    ],
)
def test_lines(write, monkeypatch, content, lines):
    raw = content.encode()
    assert list(read_lines(write("plain", raw))) == lines
    assert list(read_lines(write("packed.gz", gzip.compress(raw)))) == lines
    assert list(read_lines(write("packed", gzip.compress(raw)))) == lines  # known by content
    for stdin in (io.BytesIO(raw), io.BytesIO(gzip.compress(raw))):
        monkeypatch.setattr(sys, "stdin", Stdin(stdin))
        assert list(read_lines("-")) == lines
        assert not stdin.closed


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))))
def test_lines_written_are_lines_read(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("corpus") / "a"
    path.write_bytes("".join(f"{line}\r\n" for line in ["", *lines]).encode())
    assert list(read_lines(path)) == ["", *lines]


def test_a_terminal_is_read_line_by_line(monkeypatch):
    class Terminal(io.RawIOBase):
        asked = 0

        def readable(self):
            return True

        def readinto(self, buffer):
            self.asked += 1
            assert self.asked == 1, "waits for a second line before giving the first"
            buffer[:6] = b"hello\n"
            return 6

    monkeypatch.setattr(sys, "stdin", Stdin(io.BufferedReader(Terminal())))
    assert next(read_lines("-")) == "hello"


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"\xff\n", "1: not UTF-8 at byte 0 "),
        (b"ab\ncd\xe4\n", "2: not UTF-8 at byte 5 "),
        (b"\xef\xbb\xbfab\r\nc\xe4\n", "2: not UTF-8 at byte 8 "),
        (b"\xef\xbb\xbfa\xe4\n", "1: not UTF-8 at byte 4 "),
        (b"a\xed\xa0\x80\n", "1: not UTF-8 at byte 1 "),  # a surrogate
        (b"a\n\xc3", "2: not UTF-8 at byte 2 "),
        (b"\xc0\x8a\n", "1: not UTF-8 at byte 0 "),  # a newline, overlong
        ("Hallo\n".encode("utf-16"), "1: not UTF-8 at byte 0 "),
    ],
)
def test_not_utf8(write, content, where):
    for path in (write("a", content), write("b.gz", gzip.compress(content))):
        with pytest.raises(UserError) as caught:
            list(read_lines(path))
        assert f"{path}:{where}" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_unreadable(write, tmp_path):
    whole = gzip.compress(b"line\n" * 10_000)
    for name, content in {
        "cut.gz": whole[:-9],
        "cut": whole[:20],
        "head.gz": whole[:5],
        "empty.gz": b"",
        "plain.gz": b"not gzip\n",
        "broken.gz": whole[:20] + b"\xff\xff\xff\xff" + whole[24:],
        "tail.gz": whole + b"junk",
    }.items():
        with pytest.raises(UserError, match=f"{name}: damaged or truncated gzip"):
            list(read_lines(write(name, content)))
    with pytest.raises(UserError, match=r"cannot read .*none: No such file"):
        list(read_lines(tmp_path / "none"))
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        open_text(tmp_path)


def test_a_consumer_keeps_its_own_errors(write):
    def consume():
        for _ in read_lines(write("a", "a\n")):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        consume()


def test_closing_closes_the_file(write, monkeypatch):
    for path in (write("a", b"a\n"), write("b.gz", gzip.compress(b"a\n"))):
        with open_text(path) as stream:
            assert stream.readline() == b"a\n"
        assert stream.closed
    # An open file would warn here, and warnings are errors.
    next(read_lines(path))


def test_pairs_of_two_files(write, tmp_path):
    write("train.en", f"a {INNER}\n\nc\n")
    write("train.de", "A\nB\n\n")
    expected = [(f"a {INNER}", "A"), ("", "B"), ("c", "")]
    assert list(read_pairs(tmp_path / "train", "en", "de")) == expected
    (tmp_path / "train.de").unlink()
    packed = write("train.de.gz", gzip.compress(b"A\nB\n\n"))
    assert list(read_pairs(tmp_path / "train", "en", "de")) == expected
    assert corpus_files(tmp_path / "train", "en", "de") == (tmp_path / "train.en", packed)


def test_a_dot_in_the_prefix_is_no_suffix(write, tmp_path):
    write("news.2014.en", "a\n")
    write("news.2014.de", "b\n")
    assert list(read_pairs(tmp_path / "news.2014", "en", "de")) == [("a", "b")]


@pytest.mark.parametrize("counts", [(3, 5), (5, 3), (0, 1)])
def test_different_numbers_of_lines(write, tmp_path, counts):
    write("x.en", "a\n" * counts[0])
    write("x.de", "b\n" * counts[1])
    with pytest.raises(UserError) as caught:
        list(read_pairs(tmp_path / "x", "en", "de"))
    assert f"x.en has {counts[0]} lines but " in str(caught.value)
    assert f"x.de has {counts[1]}:" in str(caught.value)


def test_missing_and_ambiguous_files_are_named_at_once(write, tmp_path):
    write("x.en", "a\n")
    with pytest.raises(UserError, match=r"neither .*x\.de nor .*x\.de\.gz exists"):
        read_pairs(tmp_path / "x", "en", "de")
    write("x.de", "a\n")
    write("x.en.gz", gzip.compress(b"a\n"))
    with pytest.raises(UserError, match=r"x\.en and .*x\.en\.gz both exist"):
        read_pairs(tmp_path / "x", "en", "de")
    with pytest.raises(UserError, match=r"x\.tsv does not exist"):
        read_pairs(tmp_path / "x.tsv", "en", "de")


def test_pairs_of_a_tsv(write):
    content = "a\tA\r\n\t\nb \u2028\tB"
    expected = [("a", "A"), ("", ""), ("b \u2028", "B")]
    assert list(read_pairs(write("x.tsv", content), "en", "de")) == expected
    packed = write("x.tsv.gz", gzip.compress(content.encode()))
    assert list(read_pairs(packed, "en", "de")) == expected


@pytest.mark.parametrize(("line", "count"), [("", "1 column"), ("a", "1 column"), ("a\tb\tc", "3")])
def test_a_tsv_line_of_other_columns(write, line, count):
    with pytest.raises(UserError, match=rf"x\.tsv:2: expected source TAB target, found {count}"):
        list(read_pairs(write("x.tsv", f"a\tb\n{line}\n"), "en", "de"))


def test_clean_line_is_at_hand():
    assert clean_line(f"a{INNER}b") == "a" + " " * len(INNER) + "b"


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ((0, 3), "empty source"),
        ((3, 0), "empty target"),
        ((0, 0), "empty source"),
        ((10, 10), None),
        ((11, 10), "too long"),
        ((10, 11), "too long"),
        ((1, 3), None),
        ((3, 1), None),
        ((1, 4), "ratio"),
        ((7, 2), "ratio"),
        ((1, 11), "too long"),  # the first reason that holds
    ],
)
def test_reasons(lengths, reason):
    assert Filters(max_length=10, max_ratio=3.0).reason(*lengths) == reason
    assert reason is None or reason in REASONS


def test_no_limits():
    assert Filters(None, None).reason(1, 10**6) is None


@given(st.lists(st.integers(0, 3000), max_size=400), st.integers(0, 2000))
def test_duplicates_are_those_of_a_set(numbers, more):
    """Also while the table grows: it starts with 1024 places, of which two in three are used."""
    texts = [f"a {number}\tb" for number in [*range(more), *numbers]]
    duplicates, known = Duplicates(), set()
    for text in texts:
        assert duplicates.is_known(text) == (text in known)
        known.add(text)


def test_a_digest_of_nothing_has_its_place(monkeypatch):
    class Zero:
        def __init__(self, *_, **__):
            pass

        def digest(self):
            return bytes(8)

    monkeypatch.setattr(filters, "blake2b", Zero)
    duplicates = Duplicates()
    assert [duplicates.is_known("a") for _ in range(3)] == [False, True, True]


def test_duplicates_take_few_bytes():
    tracemalloc.start()
    duplicates = Duplicates()
    for number in range(40_000):
        duplicates.is_known(str(number))
    held, worst = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 24 * 40_000 + 4096
    assert worst < 36 * 40_000 + 4096


@pytest.mark.parametrize(
    "wrong", [{"max_length": 0}, {"max_ratio": 0.5}, {"max_ratio": float("nan")}]
)
def test_senseless_filters(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Filters(**wrong)
