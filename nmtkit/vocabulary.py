"""Token <-> id: four special ids, then the ordinary tokens from the most frequent down."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.files import CONTROLS, atomic_writer

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
LONGEST = 18  # digits of a count


def unknown_number(token: str) -> int:
    """Below 0, int32: tells one unknown token from another where the model sees UNK for both.

    -1 - (31 bits of a hash): two tokens of a sentence get the same one about never.
    """
    digest = hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return -1 - (int.from_bytes(digest, "little") >> 1)


class Vocabulary:
    """Ordinary tokens with their counts, numbered from ``len(SPECIALS)`` on.

    A token of the text that looks like a special ("</s>") is unknown, never the special itself.
    """

    def __init__(self, counts: Iterable[tuple[str, int]], unknown: int = 0) -> None:
        """``counts``: the ordinary tokens in the order of their ids; ``unknown``: the number of
        running tokens that are not among them (0 where not known).

        Raises ValueError for a token that is empty, doubled, special or holds a control character.
        """
        tokens = list(SPECIALS)
        numbers = [0, unknown, 0, 0]
        self._ids: dict[str, int] = {}
        for token, count in counts:
            if token in SPECIALS or not token or CONTROLS.search(token):
                raise ValueError(f"{token!r} cannot be a token of a vocabulary")
            if token in self._ids:
                raise ValueError(f"{token!r} is in the vocabulary twice")
            self._ids[token] = len(tokens)
            tokens.append(token)
            numbers.append(count)
        self._tokens = tuple(tokens)
        self.counts = tuple(numbers)  # by id; specials have 0, <unk> what was left out

    @classmethod
    def build(
        cls, counts: Mapping[str, int], size: int | None = None, threshold: int = 1
    ) -> Vocabulary:
        """The ``size`` most frequent tokens seen at least ``threshold`` times (None: all of them).

        ``size`` counts ordinary tokens, as the shortlist of Bahdanau et al. (2015) does. Equal
        counts are ordered by token, so the order of ``counts`` does not matter.
        """
        if size is not None and size < 1:
            raise ValueError(f"the size of a vocabulary must be at least 1, got {size}")
        ranked = sorted(
            (
                (token, count)
                for token, count in counts.items()
                if count >= threshold and token not in SPECIALS
            ),
            key=lambda item: (-item[1], item[0]),
        )[:size]
        kept = sum(count for _, count in ranked)
        return cls(ranked, unknown=sum(counts.values()) - kept)

    def __len__(self) -> int:
        """The number of ids, specials included."""
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        """Whether ``token`` is an ordinary token: has an id of its own."""
        return token in self._ids

    def __iter__(self) -> Iterator[str]:
        """The ordinary tokens in the order of their ids."""
        return iter(self._tokens[len(SPECIALS) :])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Vocabulary)
            and self._tokens == other._tokens
            and self.counts == other.counts
        )

    __hash__ = None  # type: ignore[assignment]

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of ``tokens``, UNK for all that are not ordinary tokens of the vocabulary."""
        get = self._ids.get
        return [get(token, UNK) for token in tokens]

    def numbers(self, tokens: Iterable[str]) -> list[int]:
        """As `ids`, but unknown tokens are kept apart by their `unknown_number`."""
        get = self._ids.get
        return [unknown_number(token) if (i := get(token)) is None else i for token in tokens]

    def tokens(self, ids: Iterable[int], extension: Sequence[str] = ()) -> list[str]:
        """The tokens of ``ids``, specials as they are written in ``SPECIALS``.

        Ids from ``len(self)`` up are those of ``extension``, in its order. Raises IndexError for
        an id outside both.
        """
        known, size = self._tokens, len(self._tokens)
        tokens = []
        for i in ids:
            if i < 0:
                raise IndexError(f"no token has the id {i}")
            tokens.append(known[i] if i < size else extension[i - size])
        return tokens

    def save(self, path: Path) -> None:
        """Write a line for every id: token TAB count, the specials first."""
        with atomic_writer(path) as file:
            for token, count in zip(self._tokens, self.counts):
                file.write(f"{token}\t{count}\n")

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what ``save`` wrote.

        Raises UserError, with the line, for anything that ``save`` does not write.
        """
        rows = [
            _row(line, f"{path}:{number}")
            for number, line in enumerate(_lines(Path(path)), start=1)
        ]
        specials, ordinary = rows[: len(SPECIALS)], rows[len(SPECIALS) :]
        if tuple(token for token, _ in specials) != SPECIALS:
            raise UserError(f"{path}: not a vocabulary: must begin with {', '.join(SPECIALS)}")
        seen: set[str] = set()
        for number, (token, _) in enumerate(ordinary, start=len(SPECIALS) + 1):
            if token in SPECIALS or not token or CONTROLS.search(token):
                raise UserError(f"{path}:{number}: {token!r} cannot be a token of a vocabulary")
            if token in seen:
                raise UserError(f"{path}:{number}: {token!r} is in the vocabulary twice")
            seen.add(token)
        return cls(ordinary, unknown=specials[UNK][1])


def _lines(path: Path) -> Sequence[str]:
    """The lines of ``path``, which only a newline ends."""
    try:
        lines = path.read_bytes().decode("utf-8").split("\n")
    except OSError as error:
        raise UserError(f"cannot read vocabulary {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the vocabulary is not UTF-8 ({error})") from error
    if lines.pop():
        raise UserError(f"{path}: the vocabulary does not end with a newline: it was cut off")
    return lines


def _row(line: str, where: str) -> tuple[str, int]:
    """Token and count of one ``line``."""
    columns = line.split("\t")
    count = columns[-1]
    if len(columns) != 2 or not (count.isascii() and count.isdigit() and len(count) <= LONGEST):
        raise UserError(f"{where}: a line of a vocabulary must be: token TAB count")
    return columns[0], int(count)
