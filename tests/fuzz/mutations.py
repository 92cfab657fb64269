"""Changes that know nothing of a file but that it is bytes, lines or fields."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from random import Random

Mutation = Callable[[bytes, Random], bytes]

LONG = 100_000  # characters of what is too long
DEEP = 20_000  # brackets within each other
DIGITS = b"9" * 5_000  # more than Python's int() takes
#: What no field, line or file expects.
ODD = [
    *(b"\x00", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"),  # NUL; no UTF-8
    *(b"\r", b"\x0b", b"\x0c", b"\x1b[31m", b"\x85", "\u2028\x85\u202e\ufeff".encode()),
    *(b" ", b"  ", b"\t", b"\n", b"\n\n", b"|||", b" ||| ", b"@@", b"</s>", b"<unk>", b"<pad>"),
    *(b"&amp;", b"&#0;", b"<a>", b"</a>", b"<", b"%s", b"{0}", b"\\", b'"', b"'", b"#", b"=", b"/"),
    *(b"../../outside/secret", b"/etc/passwd", "\u0130\u00df\u01c5\U0010ffff".encode()),
    "e\u0301\u200d\U0001f469\u200d\U0001f467".encode(),
]
NUMBERS = [
    *(b"-1", b"0", b"00", b"-0", b"1", b"2", b"7", b"1000", b"99999", b"100000", b"2147483647"),
    *(b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808", DIGITS),
    *(b"18446744073709551616", b"1e9", b"1e308", b"1e999", b"-1e999", b"nan", b"NaN", b"inf"),
    *(b"Infinity", b"0.5", b".5", b"1.", b"+1", b"0x10", b"1_0", "٣".encode(), b"true", b"null"),
    *(b'"1"', b"[]", b"{}", b"[1]", b"", b"1 1", b"1-1", b"1979-05-27"),
]
NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
FIELD = re.compile(rb"[^ \t\n|:,\[\]{}()\"=<>-]+")


def _span(content: bytes, draw: Random, most: int = 200) -> tuple[int, int]:
    begin = draw.randint(0, len(content))
    return begin, min(len(content), begin + draw.randint(1, most))


def flip(content: bytes, draw: Random) -> bytes:
    found = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 8)) if found else 0):
        found[draw.randrange(len(found))] ^= 1 << draw.randrange(8)
    return bytes(found)


def cut_off(content: bytes, draw: Random) -> bytes:
    return content[: draw.randint(0, len(content))]


def cut_out(content: bytes, draw: Random) -> bytes:
    begin, end = _span(content, draw)
    return content[:begin] + content[end:]


def repeat_part(content: bytes, draw: Random) -> bytes:
    begin, end = _span(content, draw)
    return content[:end] + content[begin:end] * draw.choice((1, 2, 50)) + content[end:]


def overwrite(content: bytes, draw: Random) -> bytes:
    begin, end = _span(content, draw, 20)
    return content[:begin] + draw.randbytes(end - begin) + content[end:]


def insert(content: bytes, draw: Random) -> bytes:
    place = draw.randint(0, len(content))
    return content[:place] + draw.choice(ODD) + content[place:]


def append(content: bytes, draw: Random) -> bytes:
    return content + draw.choice((*ODD, draw.randbytes(50), content))


def nothing(content: bytes, draw: Random) -> bytes:
    return b""


def noise(content: bytes, draw: Random) -> bytes:
    return draw.randbytes(draw.choice((1, 10, 1000)))


BYTES: list[Mutation] = [
    *(flip, flip, cut_off, cut_out, repeat_part, overwrite, insert, append, nothing, noise)
]


def _of_lines(change: Callable[[list[bytes], Random], Sequence[bytes]]) -> Mutation:
    """A change of the list of lines, of which there is at least one."""

    def mutation(content: bytes, draw: Random) -> bytes:
        lines = content.split(b"\n")
        end = [lines.pop()] if len(lines) > 1 else []
        return b"\n".join([*change(lines, draw), *end])

    mutation.__name__ = change.__name__
    return mutation


@_of_lines
def drop_line(lines: list[bytes], draw: Random) -> list[bytes]:
    del lines[draw.randrange(len(lines))]
    return lines


@_of_lines
def double_line(lines: list[bytes], draw: Random) -> list[bytes]:
    lines.insert(draw.randrange(len(lines) + 1), draw.choice(lines))
    return lines


@_of_lines
def shuffle_lines(lines: list[bytes], draw: Random) -> list[bytes]:
    return draw.sample(lines, len(lines))


@_of_lines
def swap_lines(lines: list[bytes], draw: Random) -> list[bytes]:
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


@_of_lines
def odd_line(lines: list[bytes], draw: Random) -> list[bytes]:
    lines.insert(draw.randrange(len(lines) + 1), draw.choice((b"", *ODD, *NUMBERS)))
    return lines


@_of_lines
def join_lines(lines: list[bytes], draw: Random) -> list[bytes]:
    place = draw.randrange(len(lines))
    lines[place : place + 2] = [draw.choice((b"", b" ", b"\r")).join(lines[place : place + 2])]
    return lines


@_of_lines
def long_line(lines: list[bytes], draw: Random) -> list[bytes]:
    place = draw.randrange(len(lines))
    part = draw.choice((lines[place] + b" ", lines[place], b"x", b".", b"(", b"<a ", *ODD))
    lines[place] += part * (LONG // max(1, len(part)))
    return lines


LINES: list[Mutation] = [
    *(drop_line, double_line, shuffle_lines, swap_lines, odd_line, join_lines, long_line)
]


def _spot(pattern: re.Pattern[bytes], content: bytes, draw: Random) -> tuple[int, int]:
    found = [match.span() for match in pattern.finditer(content[: 1 << 16])]
    return draw.choice(found) if found else (len(content), len(content))


def odd_number(content: bytes, draw: Random) -> bytes:
    begin, end = _spot(NUMBER, content, draw)
    return content[:begin] + draw.choice(NUMBERS) + content[end:]


def odd_field(content: bytes, draw: Random) -> bytes:
    begin, end = _spot(FIELD, content, draw)
    return content[:begin] + draw.choice((b"", *ODD, *NUMBERS, b"x" * LONG)) + content[end:]


def into_field(content: bytes, draw: Random) -> bytes:
    begin, end = _spot(FIELD, content, draw)
    place = draw.randint(begin, end)
    return content[:place] + draw.choice(ODD) + content[place:]


def swap_fields(content: bytes, draw: Random) -> bytes:
    spans = sorted([_spot(FIELD, content, draw), _spot(FIELD, content, draw)])
    (a, b), (c, d) = spans
    if b > c:
        return content
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def double_field(content: bytes, draw: Random) -> bytes:
    begin, end = _spot(FIELD, content, draw)
    return content[:end] + draw.choice((b" ", b"\t", b"")) + content[begin:end] + content[end:]


FIELDS: list[Mutation] = [odd_number, odd_number, odd_field, into_field, swap_fields, double_field]


# ------------------------------------------------------------------------------------------- gzip


def packed(content: bytes, draw: Random) -> bytes:
    return gzip.compress(content, 1, mtime=0)


def packed_and_damaged(content: bytes, draw: Random) -> bytes:
    return draw.choice(BYTES)(packed(content, draw), draw)


def packed_twice(content: bytes, draw: Random) -> bytes:
    return draw.choice((packed(packed(content, draw), draw), packed(content, draw) * 2))


def bomb(content: bytes, draw: Random) -> bytes:
    """Some kilobytes that are 60 megabytes of a single line."""
    part = draw.choice((b"\x00", b"x", b"a "))
    return gzip.compress(content + part * (60_000_000 // max(1, len(part))), 9, mtime=0)


GZIP: list[Mutation] = [packed, packed_and_damaged, packed_and_damaged, packed_twice]
