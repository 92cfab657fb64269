"""A stack of LSTM layers (Hochreiter and Schmidhuber, 1997), what the deep recurrent architectures
are made of. The kernels are torch's.

    h_n, c_n = LSTM_n(x_n; h_n, c_n of the position before)        x_{n+1} = h_n, or h_n + x_n

The second form is the residual connection of Wu et al. (2016, eq. 6). Dropout stands between the
layers only, on what a layer reads, never on its own recurrence and never on the residual path
(Zaremba, Sutskever and Vinyals, 2014).

The bias of a layer is the weight of one more input, which is 1 at every real token. Padding that
stands in FRONT of a sentence is then an input of zeros alone, and leaves a state that starts at
zero exactly zero: the kernel's last state is that of every sentence's last token, whatever the
lengths of the batch are.

Letters: B sentences, R = B·K hypothesis rows, T positions, X input size, N layers, D state size.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LSTMState(NamedTuple):
    """The output and the cell of every layer."""

    h: Tensor  # (N, B, D), or rows first (R, N, D)
    c: Tensor  # the same shape


class LSTMStack(nn.Module):
    """N unidirectional layers.

    The layers from number `residual_from` on, counted from 0, add their input to their output.
    Every layer also reads `beside` numbers from elsewhere, which no residual path adds.
    """

    def __init__(
        self,
        input_size: int,
        size: int,
        layers: int,
        dropout: float,
        residual_from: int | None = None,
        beside: int = 0,
    ) -> None:
        super().__init__()
        sizes = [input_size, *[size] * (layers - 1)]
        self.layers = nn.ModuleList(
            nn.LSTM(each + beside + 1, size, bias=False, batch_first=True) for each in sizes
        )
        self.dropout = dropout
        self.residual_from = layers if residual_from is None else residual_from

    def run(
        self,
        x: Tensor,
        initial: tuple[Tensor, Tensor] | None = None,
        real: Tensor | None = None,
        beside: Tensor | None = None,
    ) -> tuple[Tensor, LSTMState]:
        """All positions of x (B, T, X) -> outputs (B, T, D), the state after the last (N, B, D).

        `real` (B, T) says where padding stands, which may only be in front, and without `initial`;
        the outputs there are zero. Without it every position is a token, and what follows a
        sentence's end changes nothing before it.
        """
        if real is None:
            ones = x.new_ones((*x.shape[:2], 1))
        else:
            ones = real.unsqueeze(2).to(x.dtype)
            x = x * ones
        more = [ones] if beside is None else [beside, ones]
        states = []
        for n, layer in enumerate(self.layers):
            read = torch.cat([self._dropped(n, x), *more], 2)
            start = None if initial is None else (initial[0][n : n + 1], initial[1][n : n + 1])
            outputs, state = layer(read, start)
            states.append(state)
            x = outputs + x if n >= self.residual_from else outputs
        h, c = (torch.cat(each) for each in zip(*states, strict=True))
        return x, LSTMState(h, c)

    def read(self, x: Tensor, mask: Tensor, backwards: bool) -> tuple[Tensor, LSTMState]:
        """Padded sentences x (B, S, X), mask (B, S), in their order or from the end to the start.

        Returns the outputs (B, S, D) at the positions of their tokens, zero at padding, and the
        state after the token that is read last (N, B, D).
        """
        if backwards:  # padding comes to stand in front
            outputs, state = self.run(x.flip(1), real=mask.flip(1))
            return outputs.flip(1), state
        length = mask.shape[1]
        places = torch.arange(length, device=mask.device)
        padding = length - mask.sum(1, keepdim=True)  # (B, 1)
        outputs, state = self.run(_taken(x, (places - padding) % length), real=mask.flip(1))
        return _taken(outputs, (places + padding) % length), state

    def step(
        self, x: Tensor, h: Tensor, c: Tensor, beside: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One position of x (R, X), h and c (R, N, D) -> output (R, D), h and c."""
        ones = x.new_ones((len(x), 1))
        more = [ones] if beside is None else [beside, ones]
        hs, cs = [], []
        for n, (W, U) in enumerate(self.weights()):
            read = torch.cat([self._dropped(n, x), *more], 1)
            output, cell = torch.lstm_cell(read, (h[:, n], c[:, n]), W, U)
            hs.append(output)
            cs.append(cell)
            x = output + x if n >= self.residual_from else output
        return x, torch.stack(hs, 1), torch.stack(cs, 1)

    def weights(self) -> list[tuple[Tensor, Tensor]]:
        """Of every layer W (4D, X+1) for what it reads, the bias last, and U (4D, D) for its h.

        The blocks of D rows are the input gate, the forget gate, the candidate, the output gate.
        """
        layers = (layer for layer in self.layers if isinstance(layer, nn.LSTM))
        return [(W, U) for layer in layers for W, U in layer.all_weights]

    def _dropped(self, n: int, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if n else x


def _taken(x: Tensor, positions: Tensor) -> Tensor:
    """x (B, T, X) at the positions (B, T) of each sentence."""
    return x.gather(1, positions.unsqueeze(2).expand_as(x))
