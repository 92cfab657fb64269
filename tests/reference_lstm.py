"""Stacks of LSTM layers and additive attention written out slowly, to test against.

NumPy, float64, one sentence at a time, one position after the other; it knows nothing of the
package but the names of its parameters. The last column of a layer's matrix W is its bias; its rows
are those of the input gate, the forget gate, the candidate and the output gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]
State = tuple[Array, Array]  # h, c


def sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max())
    return np.asarray(powers / powers.sum())


def lstm(parameters: Parameters, layer: str, x: Array, state: State) -> State:
    """Hochreiter and Schmidhuber (1997) with the forget gate of Gers et al. (2000)."""
    h, c = state
    W, U = parameters[f"{layer}.weight_ih_l0"], parameters[f"{layer}.weight_hh_l0"]
    i, f, g, o = np.split(W[:, :-1] @ x + W[:, -1] + U @ h, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def zero(parameters: Parameters, layer: str) -> State:
    size = parameters[f"{layer}.weight_hh_l0"].shape[1]
    return np.zeros(size), np.zeros(size)


def run(parameters: Parameters, layer: str, words: Sequence[Array]) -> tuple[list[Array], State]:
    """One layer from zero over all words: its outputs and its last state."""
    state, outputs = zero(parameters, layer), []
    for word in words:
        state = lstm(parameters, layer, word, state)
        outputs.append(state[0])
    return outputs, state


def attend(
    parameters: Parameters, attention: str, query: Array, annotations: Sequence[Array]
) -> tuple[Array, Array]:
    """Bahdanau et al. (2015), A.1.2: the context vector and the weights."""
    W_a, U_a, b_a, v_a = (
        parameters[f"{attention}.{leaf}"] for leaf in ("W_a", "U_a", "b_a", "v_a")
    )
    energies = [v_a @ np.tanh(W_a @ query + U_a @ h + b_a) for h in annotations]
    weights = softmax(np.array(energies))
    return np.asarray(sum(w * h for w, h in zip(weights, annotations, strict=True))), weights


def log_probs(parameters: Parameters, features: Array, table: str = "output") -> Array:
    logits = parameters[f"{table}.weight"] @ features + parameters["output.bias"]
    return np.asarray(np.log(softmax(logits)))
