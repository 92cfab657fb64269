"""The networks that are compared, and what one of their updates must compute at the least."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Embedding, encoder a direction, decoder, attention units, maxout units."""

    embedding: int
    encoder: int
    hidden: int
    attention: int
    maxout: int


SIZES = {
    "small": Size(256, 256, 512, 512, 512),
    "small-256": Size(256, 256, 512, 512, 256),
    "paper": Size(620, 1000, 1000, 1000, 500),
}
BATCH = 80  # sentences


@dataclass(frozen=True)
class Product:
    """`times` products (rows, inner) x (inner, columns), each of `groups` at once."""

    rows: int
    inner: int
    columns: int
    times: int = 1
    groups: int = 1

    @property
    def operations(self) -> int:
        """Floating-point operations of all of them."""
        return 2 * self.rows * self.inner * self.columns * self.times * self.groups


def products(
    size: Size, source: int, target: int, vocabulary: int, batch: int = BATCH
) -> list[Product]:
    """The matrix products of one RNNsearch update (order main-text), each arranged at its best.

    `source` and `target`: positions, ends included. What does not depend on the state before is one
    product, and so is every weight gradient; only the recurrences go position by position. Tanh,
    softmax and attention's weighted sums are not counted.
    """
    words, found = batch * source, batch * target
    E, H, D, A, L = size.embedding, size.encoder, size.hidden, size.attention, size.maxout
    C = 2 * H
    whole = [  # rows, inner, columns: forward, gradient of the input, gradient of the weight
        *2 * [(words, E, 3 * H)],
        (words, C, A),
        (found, E, 3 * D),
        (found, D + E + C, 2 * L),
        (found, L, vocabulary),
    ]
    stepped = [  # the same a position: inner, columns, positions, groups
        (H, 3 * H, source, 2),
        (D, 3 * D + A, target, 1),
        (C, 3 * D, target, 1),
    ]
    listed = []
    for m, k, n in whole:
        listed += [Product(m, k, n), Product(m, n, k), Product(k, m, n)]
    for k, n, steps, groups in stepped:
        listed += [Product(batch, k, n, steps, groups), Product(batch, n, k, steps, groups)]
        listed += [Product(k, batch * steps, n, 1, groups)]
    return listed
