"""How search steps a model: as the model itself does, or the same in fewer and cheaper products.

Search reads a model and does not change it. So what depends on a word alone can stand in a table,
matrices that multiply the same vector can be one, and weights can be rounded to int8.

Letters: B sentences, R rows (hypotheses of all sentences), S source length, V target vocabulary,
F features.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nmtkit.models.products import Packed

if TYPE_CHECKING:
    from nmtkit.models.seq2seq import AnySeq2Seq, Memory, Rows


class Product:
    """x (N, I) -> x Wᵀ + b (N, O), for matrices that do not change any more.

    With `int8` the weights are whole numbers from -127 to 127 times a factor a row of W, and so is
    every row of x, rounded at each call; sums of products are exact. A row's result depends on no
    other row. float32, CPU.
    """

    def __init__(self, weights: Sequence[Tensor], bias: Tensor | None, int8: bool) -> None:
        """Several matrices (O_k, I) are one below the other; the bias (O,) is of all."""
        weight = torch.cat(list(weights)).detach()
        self.weight, self.bias = weight, None if bias is None else bias.detach()
        self.packed = None if int8 else Packed(weight)
        self.integers: Tensor | None = None  # (I, O)
        if int8:
            self.factors = _factors(weight).squeeze(1)
            self.integers = (weight / self.factors.unsqueeze(1)).round().to(torch.int8).t()

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed is not None:
            return self.packed(x, self.bias)
        assert self.integers is not None
        factors = _factors(x)
        rounded = (x / factors).round_().to(torch.int8)
        found = torch._int_mm(rounded, self.integers).to(x.dtype).mul_(factors)
        if self.bias is None:
            return found.mul_(self.factors)
        return torch.addcmul(self.bias, found, self.factors, out=found)

    def of_rows(self, rows: Tensor) -> Product:
        """The same for some rows (U,) of W and b alone."""
        chosen = copy.copy(self)
        chosen.bias = None if self.bias is None else self.bias.index_select(0, rows)
        if self.integers is None:
            chosen.weight = self.weight.index_select(0, rows)
            chosen.packed = Packed(chosen.weight)
        else:
            chosen.factors = self.factors.index_select(0, rows)
            chosen.integers = self.integers.t().index_select(0, rows).t()
        return chosen


def _factors(rows: Tensor) -> Tensor:
    """(N, I) -> what 1 stands for in each row as int8, (N, 1)."""
    return rows.abs().amax(1, keepdim=True).clamp_(min=1e-12) / 127


class Stepper:
    """A model as search sees it. This one uses the model's own step; only the output layer, the
    largest product of most models, may be in int8.
    """

    def __init__(self, model: AnySeq2Seq, int8: bool = False) -> None:
        self.model = model
        self.output = Product([model.output.weight], model.output.bias, int8) if int8 else None

    def only(self, words: Tensor) -> Stepper:
        """The same, whose output is that of these target words (U,) alone."""
        narrow = copy.copy(self)
        if self.output is None:
            weight, bias = self.model.output.weight, self.model.output.bias
            chosen = [part.index_select(0, words) for part in (weight, bias)]
            narrow.output = Product(chosen[:1], chosen[1], int8=False)
        else:
            narrow.output = self.output.of_rows(words)
        return narrow

    def encode(self, source: Tensor, mask: Tensor) -> Memory:
        """Source ids (B, S), mask (B, S)."""
        memory: Memory = self.model.encode(source, mask)
        return memory

    def start(self, memory: Memory, beam: int) -> Rows:
        """The state before the first word, `beam` rows a sentence."""
        state: Rows = self.model.start(memory, beam)
        return state

    def step(self, tokens: Tensor, state: Rows, memory: Memory) -> tuple[Tensor, Tensor, Rows]:
        """y_{i-1} (R,) -> features of y_i (R, F), attention (R, S), next state."""
        return self.model.step(tokens, state, memory)

    def logits(self, features: Tensor) -> Tensor:
        """Features (R, F) -> (R, V)."""
        found: Tensor = (self.model.output if self.output is None else self.output)(features)
        return found

    def log_probs(
        self,
        features: Tensor,
        attention: Tensor,
        copied: Tensor | None,
        closed: Tensor | None = None,
    ) -> Tensor:
        """As the model's, from the features (R, F) of a step; `closed` (B, U): words not to use."""
        logits = self.logits(features)
        if closed is not None:
            rows = logits.view(len(closed), -1, logits.shape[1])
            rows.masked_fill_(closed.unsqueeze(1), -math.inf)
        return self.model.log_probs(logits, features, attention, copied)
