"""From one format to another, two directions' files to one, and links against their texts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import IO

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError, unknown
from nmtkit.links.files import in_step, mismatch, name_of, read_items, read_pairs, write_pairs
from nmtkit.links.formats import format_named
from nmtkit.links.pair import Gold, LinkedPair, Links, check_bounds, split_tokens
from nmtkit.links.parts import shown
from nmtkit.links.symmetrisation import SYMMETRISATIONS

NOTHING = LinkedPair(Gold(frozenset(), frozenset()))
File = Path | str


@dataclass
class Converted:
    """What a conversion wrote. ``left_out`` possible-only links had no place in the new format."""

    pairs: int = 0
    links: int = 0
    left_out: int = 0


def convert(
    path: File,
    file: IO[str],
    from_format: str,
    to_format: str,
    *,
    source: File | None = None,
    target: File | None = None,
    symmetrize: str | None = None,
    one_based: bool = False,
    swap: bool = False,
) -> Converted:
    """Write the links of ``path`` to ``file`` in another format, pair by pair.

    With the texts ``source`` and ``target`` every pair is checked against its lines and gets their
    tokens. ``symmetrize`` makes one set of links out of the two that symal has; symal itself keeps
    the two. Raises UserError for what ``read_pairs``, ``with_text`` and ``write_pairs`` do, and
    when ``symmetrize`` or a text is missing or has no use.
    """
    old, new = format_named(from_format), format_named(to_format)
    if symmetrize is not None and not old.directions:
        raise UserError(f"--symmetrize needs two directions, and a {from_format} file has one")
    if symmetrize is None and old.directions and not new.directions:
        raise UserError(
            f"{from_format} has the links of two directions, {to_format} of one: say --symmetrize"
        )
    pairs = _read(path, from_format, source, target, one_based, swap)
    if symmetrize is not None:
        pairs = symmetrise_pairs(pairs, symmetrize)
    done = Converted()

    def counted() -> Iterator[LinkedPair]:
        for pair in pairs:
            links, possible = len(pair.gold.sure), len(pair.gold.possible)
            if new.directions and pair.directions:
                links = possible = len(pair.every_link)
            done.pairs += 1
            done.links += possible if new.possible else links
            done.left_out += 0 if new.possible else possible - links
            yield pair

    write_pairs(file, counted(), to_format)
    return done


def check_lines(
    path: File,
    format: str,
    source: File,
    target: File,
    *,
    one_based: bool = False,
    swap: bool = False,
) -> Generator[str, None, int]:
    """What is wrong with an alignment file, "FILE:LINE: …" for each bad line; returns its pairs.

    A line (a pair of a format with several) is bad when it is malformed, has other words than the
    texts, or a link beyond them; only the first fault of each is told. At the end comes whether the
    three files have different numbers of pairs. Raises UserError for what cannot be read at all.
    """
    by_pair = format_named(format).by_pair
    _texts(path, source, target)
    names = _names(path, (source, target))
    count, texts, at_the_end = 0, 0, list[str]()
    lines = _until_fault(in_step(read_lines(source), read_lines(target), names[1:]), at_the_end)
    for item in read_items(path, format, one_based=one_based, swap=swap):
        if isinstance(item, UserError):
            yield str(item)
            if not by_pair:
                continue
        count += 1
        if (text := next(lines, None)) is None:
            continue
        texts += 1
        try:
            if isinstance(item, LinkedPair):
                _fitted(item, text, count, names)
        except UserError as error:
            yield str(error)
    texts += sum(1 for _ in lines)
    if not at_the_end and (count != texts if by_pair else count > texts):
        at_the_end.append(str(mismatch((names[0], names[1]), (count, texts), "pair")))
    yield from at_the_end
    return max(count, texts)


def _until_fault(
    lines: Iterator[tuple[str, str]], messages: list[str]
) -> Iterator[tuple[str, str]]:
    """The lines as long as they can be read; then why not goes to ``messages``."""
    try:
        yield from lines
    except UserError as error:
        messages.append(str(error))


def with_text(
    pairs: Iterable[LinkedPair],
    sources: Iterable[str],
    targets: Iterable[str],
    names: tuple[str, str, str] = ("links", "source", "target"),
    by_pair: bool = True,
) -> Iterator[LinkedPair]:
    """The pairs with the tokens of their lines; ``names`` are the three files for messages.

    ``by_pair`` False says that the links may end early, as those of naacl do when the last
    sentences have none. Raises UserError when a pair has other tokens already or a link beyond
    them, and for different numbers of lines.
    """
    lines = in_step(sources, targets, names[1:])
    steps = in_step(pairs, lines, names[:2], "pair") if by_pair else _filled(pairs, lines, names)
    for number, (pair, text) in enumerate(steps, start=1):
        yield _fitted(pair, text, number, names)


def _filled(
    pairs: Iterable[LinkedPair], lines: Iterable[tuple[str, str]], names: tuple[str, str, str]
) -> Iterator[tuple[LinkedPair, tuple[str, str]]]:
    """Every line with its pair, or with nothing where there are no more pairs."""
    given, count = iter(pairs), 0
    for count, line in enumerate(lines, start=1):  # noqa: B007 - counted for the message
        yield next(given, NOTHING), line
    if more := sum(1 for _ in given):
        raise mismatch(names[:2], (count + more, count), "pair")


def _fitted(
    pair: LinkedPair, text: tuple[str, str], number: int, names: tuple[str, str, str]
) -> LinkedPair:
    """The pair with the tokens of line ``number`` of the texts, which must be its own."""
    where = pair.where or f"{names[0]}:{number}"
    source, target = map(split_tokens, text)
    sides = ("source", pair.source, source), ("target", pair.target, target)
    for (side, own, tokens), name in zip(sides, names[1:]):
        if own is not None and own != tokens:
            raise UserError(f"{where}: the {side} is not {name}:{number}: {_differ(own, tokens)}")
    check_bounds(pair.every_link, len(source), len(target), where)
    return replace(pair, source=source, target=target, where=where)


def _differ(own: list[str], tokens: list[str]) -> str:
    for position, (one, other) in enumerate(zip(own, tokens)):
        if one != other:
            return f"token {position} is {shown(one)} here, {shown(other)} there"
    return f"{len(own)} tokens here, {len(tokens)} there"


def read_directions(
    forward: File,
    backward: File,
    format: str,
    symmetrize: str,
    *,
    source: File | None = None,
    target: File | None = None,
    one_based: bool = False,
) -> Iterator[LinkedPair]:
    """The pairs of two files together: symmetrised links, and both ``directions``.

    Both files state links as (source, target), but those of giza their own source and target:
    the backward one is the file of GIZA++'s inverse training as it is. The texts, where given, are
    read for each file. Raises UserError as ``with_text`` does, when the files differ in their
    tokens or their number of pairs, and for symal, where one file has both directions.
    """
    known, combine = format_named(format), _combination(symmetrize)
    if str(forward) == str(backward) == "-" or "-" in (str(source), str(target)):
        raise UserError("only one of --forward and --backward can be - (stdin), and no text")
    if known.directions:
        raise UserError(f"a {format} file has both directions: use --convert with --symmetrize")
    ones = _read(forward, format, source, target, one_based, False)
    others = _read(backward, format, source, target, one_based, known.inverse)
    if known.by_pair:
        steps = in_step(ones, others, (name_of(forward), name_of(backward)), "pair")
    else:
        steps = zip_longest(ones, others, fillvalue=NOTHING)
    return (_joined(one, other, combine) for one, other in steps)


def _joined(
    forward: LinkedPair, backward: LinkedPair, combine: Callable[[Links, Links], Links]
) -> LinkedPair:
    source, target = forward.source, forward.target
    if source is not None and (source, target) != (backward.source, backward.target):
        raise UserError(f"{forward.where} and {backward.where} are of different sentences")
    links = combine(forward.links, backward.links)
    directions = forward.links, backward.links
    return LinkedPair(Gold(links, links), source, target, None, directions, forward.where)


def symmetrise_pairs(pairs: Iterable[LinkedPair], method: str) -> Iterator[LinkedPair]:
    """Pairs that have ``directions``, with the links that ``method`` makes of them.

    Raises UserError for an unknown method at once.
    """
    combine = _combination(method)

    def combined(pair: LinkedPair) -> LinkedPair:
        assert pair.directions is not None
        links = combine(*pair.directions)
        return replace(pair, gold=Gold(links, links))

    return map(combined, pairs)


def _combination(method: str) -> Callable[[Links, Links], Links]:
    if method not in SYMMETRISATIONS:
        raise unknown("symmetrisation", method, SYMMETRISATIONS)
    return SYMMETRISATIONS[method]


def _read(
    path: File,
    format: str,
    source: File | None,
    target: File | None,
    one_based: bool,
    swap: bool,
) -> Iterator[LinkedPair]:
    """The pairs of ``path``, checked against the texts where those are given."""
    pairs = read_pairs(path, format, one_based=one_based, swap=swap)
    texts = _texts(path, source, target)
    if texts is None:
        return pairs
    lines = read_lines(texts[0]), read_lines(texts[1])
    return with_text(pairs, *lines, _names(path, texts), format_named(format).by_pair)


def _texts(path: File, source: File | None, target: File | None) -> tuple[File, File] | None:
    """Both texts, or none. Raises UserError for one alone, and when stdin is named twice."""
    if source is None and target is None:
        return None
    if source is None or target is None:
        raise UserError("--source and --target go together: give both")
    if [str(file) for file in (path, source, target)].count("-") > 1:
        raise UserError("only one of the links, --source and --target can be - (stdin)")
    return source, target


def _names(path: File, texts: tuple[File, File]) -> tuple[str, str, str]:
    return name_of(path), name_of(texts[0]), name_of(texts[1])
