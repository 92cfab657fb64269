"""What is known of one sentence pair: its links, and where known its tokens and probabilities.

A link is a pair (source, target) of token positions counted from 0; the links of one sentence pair
are a frozenset, so repeated links are harmless. Tokens are what runs of ASCII spaces separate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from nmtkit.errors import UserError

Link = tuple[int, int]
Links = frozenset[Link]


@dataclass(frozen=True)
class Gold:
    """The reference links of one sentence pair: ``sure`` is a subset of ``possible``.

    Raises ValueError when it is not.
    """

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise ValueError("every sure link must be a possible link too")


@dataclass(frozen=True)
class LinkedPair:
    """A sentence pair as an alignment file states it; what its format has no place for is None.

    ``probabilities`` belong to links of ``gold.possible``, not necessarily to all of them.
    ``directions`` are the forward and the backward links, both (source, target), of a file that
    holds both: forward is the model source to target, where every target word chooses its source
    word. ``gold`` then says what both have (sure) and what either has (possible), until they are
    symmetrised. ``where`` is FILE:LINE for messages.
    """

    gold: Gold
    source: list[str] | None = None
    target: list[str] | None = None
    probabilities: Mapping[Link, float] | None = None
    directions: tuple[Links, Links] | None = None
    where: str = field(default="", compare=False)

    @property
    def links(self) -> Links:
        """The sure links."""
        return self.gold.sure

    @property
    def every_link(self) -> Links:
        """Sure and possible ones, and those of each direction."""
        return self.gold.possible.union(*self.directions or ())

    def swapped(self) -> LinkedPair:
        """The same pair seen from the other side: source for target, backward for forward."""
        known, both = self.probabilities, self.directions
        return replace(
            self,
            gold=Gold(transpose(self.gold.sure), transpose(self.gold.possible)),
            source=self.target,
            target=self.source,
            probabilities=known and {(t, s): value for (s, t), value in known.items()},
            directions=both and (transpose(both[1]), transpose(both[0])),
        )


def transpose(links: Collection[Link]) -> Links:
    """The same links seen from the other side: (target, source)."""
    return frozenset([(second, first) for first, second in links])


def split_tokens(line: str) -> list[str]:
    """The tokens that positions count: what runs of ASCII spaces separate, and nothing else does.

    Spaces at the ends separate nothing; a line of spaces has no token.

    >>> split_tokens("  the  green house ")
    ['the', 'green', 'house']
    """
    return [token for token in line.split(" ") if token]


def check_bounds(
    links: Collection[Link], source_length: int, target_length: int, where: str
) -> None:
    """Raise UserError "FILE:LINE: …" for a link beyond the tokens of its sentence pair."""
    for source, target in sorted(links):
        if source < source_length and target < target_length:
            continue
        side, length = (
            ("source", source_length) if source >= source_length else ("target", target_length)
        )
        raise UserError(
            f"{where}: link {source}-{target} is out of bounds: the {side} has {length} tokens, "
            "counted from 0 (is the file of other sentences, one-based, or target-source?)"
        )
