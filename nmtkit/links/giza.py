"""What GIZA++ writes, and what symal of Moses reads: links with the words they link.

A3 has three lines a pair: a comment with the lengths, the target sentence, and every source word
with the positions (from 1) of the target words that chose it; NULL, the empty word, comes first.

    # Sentence pair (1) source length 2 target length 3 alignment score : 0.01
    the green house
    NULL ({ 2 }) das ({ 1 }) Haus ({ 3 })

Source and target are GIZA's: its target words choose. That is the forward direction; the file of
the inverse training has them exchanged. The ``bal`` file of symal has both directions, again in
three lines: a count, then the target sentence with the source position (from 1; 0 is none) that
each of its words chose, then the source sentence with the target position of each of its words.

    1
    3 the green house # 1 0 2
    2 das Haus # 1 3

The ASCII space separates words, so neither format has empty ones or ones with white space inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from nmtkit.errors import UserError
from nmtkit.links.pair import Gold, Link, LinkedPair, split_tokens, transpose
from nmtkit.links.parts import MAX_SENTENCE, at, read_number, shown

HEADER = re.compile(
    r"# [Ss]entence pair \(([0-9]+)\) source length ([0-9]+) target length ([0-9]+)( .*)?"
)
COUNT = re.compile(r" *[0-9]+ *")
WHITE = re.compile(r"[ \t\n\v\f\r]")  # what C programs take for the end of a word
MISMATCH = ["ALIGN_ERR"]  # Moses' giza2bal.pl puts it for both sentences where its files differ

ONE_EACH = (
    "giza has at most one for a target word: give one direction's links, not symmetrised ones"
)
TWO_WAYS = "symal has at most one for a word and direction: give --forward and --backward"

Line = tuple[str, str]  # FILE:LINE and line


def read_giza(lines: Iterator[Line]) -> Iterator[LinkedPair | UserError]:
    """The pairs of an A3 file, numbered without a gap. A bad one comes as its error.

    A target word may be listed under several source words: other programs write symmetrised links
    so. Line numbers are those of the comments.
    """
    expected = None
    for record in _records(lines, HEADER, "# Sentence pair (1) source length …"):
        try:
            if isinstance(record, UserError):
                raise record
            number, pair = _parse_giza(*record, expected)
            expected = number + 1
            yield pair
        except UserError as error:
            expected = None
            yield error


def read_symal(lines: Iterator[Line]) -> Iterator[LinkedPair | UserError]:
    """The pairs of a bal file with both ``directions``. A bad one comes as its error."""
    for record in _records(lines, COUNT, "a count, 1"):
        try:
            if isinstance(record, UserError):
                raise record
            yield _parse_symal(*record)
        except UserError as error:
            yield error


def _records(
    lines: Iterator[Line], first: re.Pattern[str], what: str
) -> Iterator[tuple[Line, Line, Line] | UserError]:
    """Three lines at a time; after a line that is no ``first`` one, on from the next that is."""
    lost = False
    for where, line in lines:
        if not first.fullmatch(line):
            if not lost:
                yield UserError(f"{where}: {shown(line)} should be: {what}")
            lost = True
            continue
        lost = False
        rest = list(islice(lines, 2))
        if len(rest) < 2:
            yield UserError(f"{where}: the file ends within this sentence pair")
        else:
            yield (where, line), rest[0], rest[1]


def _parse_giza(
    header: Line, targets: Line, sources: Line, expected: int | None
) -> tuple[int, LinkedPair]:
    """The number of the pair, and the pair. Raises UserError."""
    match = HEADER.fullmatch(header[1])
    assert match is not None  # a record begins so
    with at(header[0]):
        number = read_number(match[1], MAX_SENTENCE)
        if expected is not None and number != expected:
            raise ValueError(
                f"pair {number} comes where {expected} should be: sort and merge the parts first "
                "(MGIZA's merge_alignment.py)"
            )
        source_length, target_length = read_number(match[2]), read_number(match[3])
    with at(targets[0]):
        target = split_tokens(targets[1])
        if len(target) != target_length:
            raise ValueError(f"{len(target)} words, but the target length is {target_length}")
    with at(sources[0]):
        listed = _listed(split_tokens(sources[1]))
        if not listed or listed[0][0] != "NULL":
            raise ValueError("the line should begin with: NULL ({")
        if len(listed) - 1 != source_length:
            raise ValueError(f"{len(listed) - 1} words, but the source length is {source_length}")
        links = set()
        for source, (word, positions) in enumerate(listed):
            for position in positions:
                if not 1 <= position <= target_length:
                    raise ValueError(
                        f"{shown(word)} has position {position}, "
                        f"but the target counts from 1 to {target_length}"
                    )
                links.add((source - 1, position - 1))
        nothing = {target for source, target in links if source < 0}
        found = frozenset([link for link in links if link[0] >= 0])
        if both := sorted(nothing & {target for _, target in found}):
            raise ValueError(f"position {both[0] + 1} is given to NULL and to a word")
    source_words = [word for word, _ in listed[1:]]
    return number, LinkedPair(Gold(found, found), source_words, target, where=header[0])


def _listed(tokens: list[str]) -> list[tuple[str, list[int]]]:
    """``word ({ 1 2 })`` … -> words and positions. A word may look like a bracket or a number."""
    listed = []
    start = 0
    while start < len(tokens):
        word = tokens[start]
        if tokens[start + 1 : start + 2] != ["({"]:
            raise ValueError(f"'({{' should follow {shown(word)}")
        start += 2
        positions = []
        while start < len(tokens) and tokens[start] != "})":
            positions.append(read_number(tokens[start]))
            start += 1
        if start == len(tokens):
            raise ValueError(f"'}})' is missing after {shown(word)}")
        listed.append((word, positions))
        start += 1
    return listed


def _parse_symal(count: Line, targets: Line, sources: Line) -> LinkedPair:
    with at(targets[0]):
        target, chosen_sources = _side(targets[1])
    with at(sources[0]):
        source, chosen_targets = _side(sources[1])
        _check_chosen(chosen_targets, len(target))
    with at(targets[0]):
        _check_chosen(chosen_sources, len(source))
        if source == target == MISMATCH:
            raise ValueError("giza2bal.pl found different sentences in its two files")
    forward = frozenset([(s - 1, t) for t, s in enumerate(chosen_sources) if s])
    backward = frozenset([(s, t - 1) for s, t in enumerate(chosen_targets) if t])
    gold = Gold(forward & backward, forward | backward)
    return LinkedPair(gold, source, target, directions=(forward, backward), where=count[0])


def _side(line: str) -> tuple[list[str], list[int]]:
    """``3 the green house # 1 0 2`` -> the words and the numbers."""
    fields = split_tokens(line)
    length = read_number(fields[0]) if fields else 0
    if len(fields) != 2 * length + 2 or fields[length + 1] != "#":
        raise ValueError(
            f"{shown(line)} should be: the number of words, the words, # and a position for each"
        )
    return fields[1 : length + 1], [read_number(field) for field in fields[length + 2 :]]


def _check_chosen(positions: list[int], length: int) -> None:
    if max(positions, default=0) > length:
        raise ValueError(f"position {max(positions)}, but the other side has {length} words")


def write_giza(pair: LinkedPair, number: int) -> str:
    """The three lines of pair ``number``, with a score of 1: only GIZA++ knows another.

    Raises ValueError without tokens, for a token with white space, and for a target word with two
    links.
    """
    source, target = _sentences(pair)
    positions: list[list[str]] = [[] for _ in range(len(source) + 1)]
    for one, chosen in enumerate(_chosen(pair.links, len(target), "target", ONE_EACH), start=1):
        positions[chosen].append(f"{one} ")
    lengths = f"source length {len(source)} target length {len(target)}"
    listed = [f"{word} ({{ {''.join(all)}}}) " for word, all in zip(["NULL", *source], positions)]
    return (
        f"# Sentence pair ({number}) {lengths} alignment score : 1\n"
        f"{''.join([f'{word} ' for word in target])}\n{''.join(listed)}\n"
    )


def write_symal(pair: LinkedPair, number: int) -> str:
    """The three lines of a pair. Where only ``links`` are known, they stand for both directions.

    Raises ValueError without tokens, for a token with white space, and for a word that has two
    links in the direction in which it chooses.
    """
    source, target = _sentences(pair)
    forward, backward = pair.directions or (pair.links, pair.links)
    sources = _chosen(forward, len(target), "target", TWO_WAYS)
    targets = _chosen(transpose(backward), len(source), "source", TWO_WAYS)
    return f"1\n{_format_side(target, sources)}{_format_side(source, targets)}"


def _format_side(sentence: list[str], chosen: list[int]) -> str:
    return " ".join([str(len(sentence)), *sentence, "#", *map(str, chosen)]) + "\n"


def _sentences(pair: LinkedPair) -> tuple[list[str], list[str]]:
    """The tokens of both sides, fit to be written with spaces between them."""
    if pair.source is None or pair.target is None:
        raise ValueError("the words are needed too: give --source and --target")
    for word in [*pair.source, *pair.target]:
        if not word or WHITE.search(word):
            raise ValueError(f"the format has no place for {shown(word)}, a word of white space")
    return pair.source, pair.target


def _chosen(links: Iterable[Link], words: int, side: str, advice: str) -> list[int]:
    """What each of the ``words`` of a side chose, from 1 (0: nothing); links are (chosen, word)."""
    chosen = [0] * words
    for position, word in sorted(links):
        if chosen[word]:
            raise ValueError(f"{side} word {word} (counted from 0) has two links, but {advice}")
        chosen[word] = position + 1
    return chosen
