"""Byte-pair encoding (Sennrich et al., 2016) by subword-nmt, and its traps.

* ``X@@`` is a subword that does not end its token. A token may end in "@@" itself: then its last
  "@" becomes a subword of its own, so that a subword ends in "@@" exactly when its token goes on.
* subword-nmt's work on a token grows with the square of its length, so longer tokens than
  ``LONGEST`` are encoded in pieces of that length.
* It keeps what dropout made in its cache, takes its random numbers from Python's global
  generator, prints while learning, and ends the process on a broken codes file. Not here.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

from nmtkit.errors import UserError
from nmtkit.files import CONTROLS

SEPARATOR = "@@"
LONGEST = 100  # characters of a token encoded at once
HEADER = "#version: 0.2"  # the format of subword-nmt since 2017


class Randomness(Protocol):
    """What dropout draws from: ``random.Random`` or ``numpy.random.Generator``."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


def learn_codes(counts: Mapping[str, int], merges: int, min_frequency: int = 2) -> str:
    """The text of a codes file with at most ``merges`` merges, the first learned first.

    ``counts`` of (folded) tokens; their order does not matter. Learning ends early when no pair
    of symbols is seen ``min_frequency`` times. Tokens that hold a space of any kind or a control
    character are left out: subword-nmt would take their parts for symbols or lines.
    """
    if merges < 0:
        raise ValueError(f"merges must be at least 0, got {merges}")
    from subword_nmt import learn_bpe as module

    pieces: dict[str, int] = {}
    for token, count in sorted(counts.items()):
        if count > 0 and not any(map(str.isspace, token)) and not CONTROLS.search(token):
            for piece in _pieces(token):
                pieces[piece] = pieces.get(piece, 0) + count
    codes = io.StringIO(newline="\n")
    if not any(len(piece) > 1 for piece in pieces):
        return HEADER + "\n"  # subword-nmt fails where there is no pair at all
    table = io.StringIO("".join(f"{piece} {n}\n" for piece, n in pieces.items()), newline="\n")
    # Without its progress bar (which leaves a thread behind) and its remarks.
    with _replaced(module, "tqdm", iter), contextlib.redirect_stderr(io.StringIO()):
        module.learn_bpe(table, codes, merges, min_frequency, is_dict=True)
    return codes.getvalue()


def check_codes(codes: str, where: str) -> None:
    """Raise UserError unless ``codes`` is the text of a codes file (``where`` names it)."""
    lines = codes.split("\n")
    if lines[0] != HEADER:
        raise UserError(f"{where}:1: not BPE codes: the first line must be {HEADER!r}")
    if lines.pop():
        raise UserError(f"{where}: the BPE codes do not end with a newline: the file was cut off")
    for number, line in enumerate(lines[1:], start=2):
        if len(line.split(" ")) != 2 or not all(line.split(" ")) or CONTROLS.search(line):
            raise UserError(f"{where}:{number}: a line of BPE codes must be: LEFT RIGHT")


class BytePairs:
    """Tokens -> subwords by given codes."""

    def __init__(self, codes: str, allowed: Collection[str] | None = None) -> None:
        """``codes``: the text of a checked codes file. ``allowed``: merges that make a subword
        outside of it are undone (subword-nmt's vocabulary threshold); None: all merges stand.
        """
        from subword_nmt import apply_bpe

        self._module: Any = apply_bpe
        merges = codes.count("\n") - 1  # said outright: subword-nmt exits where there are none
        lines = io.StringIO(codes, newline="\n")
        self._bpe = apply_bpe.BPE(lines, merges=merges, vocab=allowed or None)

    def split(
        self, token: str, dropout: float = 0.0, random: Randomness | None = None
    ) -> tuple[str, ...]:
        """The subwords of a non-empty ``token``, all but the last marked with ``@@``.

        ``dropout``: the probability that a possible merge is left out at a step (BPE-dropout,
        Provilkov et al., 2020), drawn from ``random`` alone.
        """
        if dropout and random is None:
            raise ValueError("dropout needs a source of random numbers")
        with _replaced(self._module, "random", random) if dropout else contextlib.nullcontext():
            parts = [part for piece in _pieces(token) for part in self._encode(piece, dropout)]
        if parts[-1].endswith(SEPARATOR):
            parts[-1:] = [parts[-1][:-1], parts[-1][-1]]
        return (*(part + SEPARATOR for part in parts[:-1]), parts[-1])

    def _encode(self, piece: str, dropout: float) -> list[str]:
        marked = self._bpe.segment_tokens([piece], dropout)
        self._bpe.cache.clear()  # it would hold what dropout made
        parts = [part[: -len(SEPARATOR)] for part in marked[:-1]] + [marked[-1]]
        # Codes learned from text that holds "</w>" can make subword-nmt lose characters.
        return parts if "".join(parts) == piece and all(parts) else list(piece)


def join(subwords: list[str]) -> tuple[list[str], list[int]]:
    """Tokens, and for every subword the index of its token.

    A subword that is the mark alone (no encoder writes it) and ends the list belongs to the token
    before it, or to none (-1).
    """
    tokens: list[str] = []
    word_of: list[int] = []
    parts: list[str] = []
    for subword in subwords:
        word_of.append(len(tokens))
        if subword.endswith(SEPARATOR):
            parts.append(subword[: -len(SEPARATOR)])
        else:
            tokens.append("".join(parts) + subword)
            parts = []
    rest = "".join(parts)
    if rest:
        tokens.append(rest)
    return tokens, [min(index, len(tokens) - 1) for index in word_of]


def _pieces(token: str) -> list[str]:
    return [token[start : start + LONGEST] for start in range(0, len(token), LONGEST)]


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Let the code of ``module`` see ``value`` under the global ``name``."""
    saved = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, saved)
