"""The two forms of energy of `attending.py`, a position at a time, forwards and backwards.

As in `cell_buffers.py`, nothing happens at a position but what depends on the one before, and
weight gradients are one product each, after the loop.

Letters: T positions, B sentences, S source length, D size of h, A attention units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nmtkit.models.cell_buffers import outer
from nmtkit.models.products import Packed, product
from nmtkit.models.tanh import energies_, energies_backward

#: Above this many bytes σ(2 (W_a h + key)) is computed again in the backward pass, not kept.
KEEP_BYTES = 1 << 27

Gradients = dict[str, Tensor | None]


def _add(
    keys: Tensor, query: Tensor, V_c: Tensor | None, coverage: Tensor, t: int, out: Tensor
) -> None:
    """Keys (B, S, A), the query (B, A) and what coverage (T, B, S) adds at t -> out (B, S, A)."""
    torch.add(keys, query.unsqueeze(1), out=out)
    if V_c is not None:
        out.addcmul_(coverage[t].unsqueeze(2), V_c)


class AdditiveForward:
    """v_aᵀ tanh(W_a h + key_j + V_c coverage_j)."""

    def __init__(
        self, keys: Tensor, W_a: Tensor, v_a: Tensor, V_c: Tensor | None, positions: int
    ) -> None:
        # All doubled, as tanh.py wants it.
        self.keys, self.of_query = 2 * keys, Packed(2 * W_a)
        self.v_a, self.V_c = v_a, None if V_c is None else 2 * V_c
        batch, length, units = keys.shape
        self.keep = positions * keys.numel() * keys.element_size() <= KEEP_BYTES
        self.queries = keys.new_empty((positions, batch, units))
        self.hidden = keys.new_empty((positions if self.keep else 1, batch, length, units))
        self.coverage = keys.new_zeros((0 if V_c is None else positions + 1, batch, length))

    def step(self, t: int, query: Tensor) -> Tensor:
        """h (B, D) after dropout -> energies (B, S)."""
        self.queries[t] = self.of_query(query)
        u = self.hidden[t if self.keep else 0]
        _add(self.keys, self.queries[t], self.V_c, self.coverage, t, u)
        return energies_(u, self.v_a)[0]

    def attended(self, t: int, weights: Tensor) -> None:
        """Take the attention (B, S) of position t into account."""
        if self.V_c is not None:
            torch.add(self.coverage[t], weights, out=self.coverage[t + 1])

    @property
    def saved(self) -> tuple[Tensor, ...]:
        return self.queries, self.hidden, self.coverage


class AdditiveBackward:
    """Gradients of the above."""

    def __init__(
        self,
        keys: Tensor,
        W_a: Tensor,
        v_a: Tensor,
        V_c: Tensor | None,
        saved: tuple[Tensor, ...],
    ) -> None:
        self.W_a, self.factor, self.V_c = W_a, 4 * v_a, V_c
        self.queries, self.hidden, self.coverage = saved
        self.kept = len(self.hidden) == len(self.queries)
        if not self.kept:
            self.doubled_keys, self.doubled_V_c = 2 * keys, None if V_c is None else 2 * V_c
        self.d_query = torch.empty_like(self.queries)
        self.d_keys, self.d_v, self.d_V_c = (torch.zeros_like(x) for x in (keys, v_a, v_a))
        self.d_hidden = torch.empty_like(self.hidden[0])
        #: Of the coverage that the following position finds, (B, S).
        self.d_coverage = None if V_c is None else torch.zeros_like(self.coverage[0])

    def step(self, t: int, d_energies: Tensor, d_query: Tensor) -> Tensor:
        """Gradient (B, S) of the energies -> d_query (B, D), and to it that of h after dropout."""
        u, units = self.hidden[t if self.kept else 0], self.factor.shape[0]
        if not self.kept:
            _add(self.doubled_keys, self.queries[t], self.doubled_V_c, self.coverage, t, u)
            u.sigmoid_()
        d_hidden, d_v = energies_backward(d_energies, u, self.d_hidden)
        self.d_v += d_v
        self.d_keys += d_hidden
        if self.V_c is not None and self.d_coverage is not None:
            self.d_coverage += d_hidden.matmul(self.factor * self.V_c)
            self.d_V_c += torch.mv(d_hidden.view(-1, units).t(), self.coverage[t].view(-1))
        torch.sum(d_hidden, 1, out=self.d_query[t])
        self.d_query[t].mul_(self.factor)
        return product(self.d_query[t], self.W_a, d_query)

    def gradients(self, queries: Tensor) -> Gradients:
        """Queries (T, B, D), h after dropout -> the gradients of keys and weights."""
        return {
            "keys": self.d_keys.mul_(self.factor),
            "W_a": outer(self.d_query, queries),
            "v_a": self.d_v,
            "V_c": None if self.V_c is None else self.d_V_c * self.factor,
        }


class DotForward:
    """hᵀ key_j."""

    saved: tuple[Tensor, ...] = ()

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys

    def step(self, t: int, query: Tensor) -> Tensor:
        """h (B, D) after dropout -> energies (B, S)."""
        return torch.bmm(query.unsqueeze(1), self.keys.mT).squeeze(1)

    def attended(self, t: int, weights: Tensor) -> None:
        """Earlier attention changes nothing."""


class DotBackward:
    """Gradients of the above."""

    d_coverage = None

    def __init__(self, keys: Tensor, positions: int) -> None:
        self.keys = keys
        self.d_energies = keys.new_empty((positions, *keys.shape[:2]))

    def step(self, t: int, d_energies: Tensor, d_query: Tensor) -> Tensor:
        """Gradient (B, S) of the energies -> d_query (B, D), and to it that of h after dropout."""
        self.d_energies[t] = d_energies
        return d_query.add_(torch.bmm(d_energies.unsqueeze(1), self.keys).squeeze(1))

    def gradients(self, queries: Tensor) -> Gradients:
        """Queries (T, B, D), h after dropout -> the gradient of the keys."""
        return {"keys": torch.bmm(self.d_energies.permute(1, 2, 0), queries.transpose(0, 1))}
