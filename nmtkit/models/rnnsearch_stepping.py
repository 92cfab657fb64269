"""RNNsearch, stepped for search: the equations of rnnsearch.py with gated units, rearranged.

- What the gates and the readout get from the word y_{i-1} stands in a table, a row a word.
- Every vector is multiplied once: a state with all matrices that read it (the attention's W_a, the
  gates' U, the readout's U_o), a context with those of the gates and the readout. What the next
  step needs of them is part of the state.

Letters: R hypothesis rows, S source length, E embedding, D decoder state, C annotation size, A
attention units, L readout units (M = 2L with maxout), V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from nmtkit.models.attention import AdditiveAttention, attend
from nmtkit.models.cells import GRU
from nmtkit.models.seq2seq import Memory, Rows
from nmtkit.models.stepping import Product, Stepper
from nmtkit.models.tanh import tanh_
from nmtkit.vocabulary import BOS, PAD

if TYPE_CHECKING:
    from nmtkit.models.rnnsearch import RNNMemory, RNNsearch

#: Above this many bytes what words give is multiplied at every step, not looked up.
TABLE_BYTES = 1 << 28


@dataclass(frozen=True)
class Ready(Rows):
    """The decoder between two words."""

    hidden: Tensor  # (R, D): s_{i-1}
    of_state: Tensor  # (R, A + 2D or 3D): what the next step needs of its products
    of_context: Tensor  # (R, 3D): W_c c_{i-1}; only order = groundhog needs it
    coverage: Tensor  # (R, S)


class Unit:
    """A gated unit whose products with the state come from outside, but for the candidate's."""

    def __init__(self, cell: GRU, int8: bool) -> None:
        self.size = cell.size
        gates, candidate = cell.U[: 2 * cell.size], cell.U[2 * cell.size :]
        self.after = cell.b_candidate is not None
        #: What must be multiplied with the state, and added.
        self.matrix = cell.U if self.after else gates
        zeros = cell.b.new_zeros(2 * cell.size)
        self.bias = zeros if cell.b_candidate is None else torch.cat([zeros, cell.b_candidate])
        self.candidate = None if self.after else Product([candidate], None, int8)

    def __call__(self, x: Tensor, of_state: Tensor, state: Tensor) -> Tensor:
        """Input part (R, 3D), products of the state (R, 2D or 3D), state (R, D) -> next state."""
        gates = 2 * self.size
        z, r = torch.sigmoid(x[:, :gates] + of_state[:, :gates]).chunk(2, 1)
        if self.candidate is None:
            candidate = torch.addcmul(x[:, gates:], r, of_state[:, gates:])
        else:
            candidate = self.candidate(r * state).add_(x[:, gates:])
        return torch.lerp(state, tanh_(candidate), z)


class RNNsearchStepper(Stepper):
    """See the module's docstring. For GRU cells and contexts that attention makes."""

    model: RNNsearch

    def __init__(self, model: RNNsearch, int8: bool = False) -> None:
        super().__init__(model, int8)
        config = model.config
        self.order, self.size, E = config.order, config.hidden, config.embedding
        decoder, second = (cast("GRU | None", cell) for cell in model.cells)
        assert decoder is not None
        score, readout = model.attention, model.readout
        # The additive score's query is a product of the state; other scores make their own.
        self.additive = score if isinstance(score, AdditiveAttention) else None
        self.query = 0 if self.additive is None else len(self.additive.W_a)
        query = [] if self.additive is None else [self.additive.W_a]
        self.first, self.second = (
            Unit(decoder, int8),
            None if second is None else Unit(second, int8),
        )
        width = len(readout.U_o)
        nothing = decoder.b.new_zeros
        self.words = WordTable(model, decoder.W[:, :E], decoder.b, readout.V_o, readout.b_o)
        if self.second is None:
            #: s -> [query, the gates', the readout's]
            bias = torch.cat([nothing(self.query), self.first.bias, nothing(width)])
            self.of_state = Product([*query, self.first.matrix, readout.U_o], bias, int8)
            self.of_context = Product([decoder.W[:, E:], readout.C_o], None, int8)
        else:
            assert second is not None
            bias = torch.cat([nothing(self.query), self.second.bias])
            #: s' -> [query, the second unit's gates'];  s -> [the first's, the readout's]
            self.of_middle = Product([*query, self.second.matrix], bias, int8)
            bias = torch.cat([self.first.bias, nothing(width)])
            self.of_state = Product([self.first.matrix, readout.U_o], bias, int8)
            bias = torch.cat([second.b, nothing(width)])
            self.of_context = Product([second.W, readout.C_o], bias, int8)
        self.width = width

    def start(self, memory: Memory, beam: int) -> Rows:
        rnn = cast("RNNMemory", memory)
        hidden = rnn.initial.repeat_interleave(beam, 0)
        rows, length = len(hidden), memory.mask.shape[1]
        of_state = self.of_state(hidden)
        # What the readout gets of s_0, order = appendix alone asks for.
        kept = of_state if self.order == "appendix" else of_state[:, : -self.width]
        of_context = hidden.new_zeros((rows, 3 * self.size if self.order == "groundhog" else 0))
        return Ready(hidden, kept, of_context, hidden.new_zeros((rows, length)))

    def step(self, tokens: Tensor, state: Rows, memory: Memory) -> tuple[Tensor, Tensor, Rows]:
        ready, rnn = cast("Ready", state), cast("RNNMemory", memory)
        x, of_word = self.words(tokens)
        if self.second is not None:
            return self._conditional(x, of_word, ready, rnn)
        if self.order == "groundhog":
            return self._groundhog(tokens, x, of_word, ready, rnn)
        query, gates = self._split(ready.of_state)
        context, weights = self._look(query, ready.hidden, rnn, ready.coverage)
        of_context = self.of_context(context)
        gates_width = self.first.matrix.shape[0]
        x += of_context[:, : 3 * self.size]
        hidden = self.first(x, gates[:, :gates_width], ready.hidden)
        of_state = self.of_state(hidden)
        appendix = self.order == "appendix"
        seen = (ready.of_state if appendix else of_state)[:, -self.width :]
        kept = of_state if appendix else of_state[:, : -self.width]
        features = self._read_out(seen, of_word, of_context[:, 3 * self.size :])
        return features, weights, Ready(hidden, kept, ready.of_context, ready.coverage + weights)

    def _groundhog(
        self, tokens: Tensor, x: Tensor, of_word: Tensor, ready: Ready, memory: RNNMemory
    ) -> tuple[Tensor, Tensor, Rows]:
        _, gates = self._split(ready.of_state)
        consumed = self.first(x.add_(ready.of_context), gates, ready.hidden)
        hidden = torch.where((tokens == BOS).unsqueeze(1), ready.hidden, consumed)
        of_state = self.of_state(hidden)
        query, _ = self._split(of_state)
        context, weights = self._look(query, hidden, memory, ready.coverage)
        of_context = self.of_context(context)
        seen, kept = of_state[:, -self.width :], of_state[:, : -self.width]
        features = self._read_out(seen, of_word, of_context[:, 3 * self.size :])
        of_next = of_context[:, : 3 * self.size]
        return features, weights, Ready(hidden, kept, of_next, ready.coverage + weights)

    def _conditional(
        self, x: Tensor, of_word: Tensor, ready: Ready, memory: RNNMemory
    ) -> tuple[Tensor, Tensor, Rows]:
        assert self.second is not None
        middle = self.first(x, ready.of_state, ready.hidden)
        query, gates = self._split(self.of_middle(middle))
        context, weights = self._look(query, middle, memory, ready.coverage)
        of_context = self.of_context(context)
        hidden = self.second(of_context[:, : 3 * self.size], gates, middle)
        of_state = self.of_state(hidden)
        seen, kept = of_state[:, -self.width :], of_state[:, : -self.width]
        features = self._read_out(seen, of_word, of_context[:, 3 * self.size :])
        return features, weights, Ready(hidden, kept, ready.of_context, ready.coverage + weights)

    def _split(self, of_state: Tensor) -> tuple[Tensor, Tensor]:
        """The attention's query, and the rest."""
        return of_state[:, : self.query], of_state[:, self.query :]

    def _look(
        self, query: Tensor, hidden: Tensor, memory: RNNMemory, coverage: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Query (R, A) or s (R, D), attention so far (R, S) -> context (R, C), weights (R, S)."""
        sentences, length = memory.mask.shape
        seen = coverage.view(sentences, -1, length)
        if self.additive is None:
            assert self.model.attention is not None
            states = hidden.view(sentences, -1, self.size)
            energies = self.model.attention(states, memory.keys, seen)
        else:
            queries = query.reshape(sentences, -1, self.query)
            energies = self.additive.energies(queries, memory.keys, seen)
        return attend(energies, memory.annotations, memory.mask)

    def _read_out(self, of_state: Tensor, of_word: Tensor, of_context: Tensor) -> Tensor:
        return self.model.readout.units(of_state + of_word + of_context)


class WordTable:
    """What the first unit and the readout get from the word before, biases included."""

    def __init__(self, model: RNNsearch, W: Tensor, b: Tensor, V_o: Tensor, b_o: Tensor) -> None:
        self.gates = len(W)
        self.product = Product([W, V_o], torch.cat([b, b_o]), int8=False)
        self.embedding = model.target_embedding.weight.detach().clone()
        self.embedding[[BOS, PAD]] = 0
        rows = len(self.embedding)
        size = rows * (len(W) + len(V_o)) * self.embedding.element_size()
        self.table = self.product(self.embedding) if size <= TABLE_BYTES else None

    def __call__(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Ids (R,) -> (R, 3D), (R, M)."""
        if self.table is None:
            found = self.product(self.embedding.index_select(0, tokens))
        else:
            found = self.table.index_select(0, tokens)
        return found[:, : self.gates], found[:, self.gates :]
