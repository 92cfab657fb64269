"""RNNsearch (Bahdanau, Cho and Bengio, 2015, arXiv 1409.0473) written out slowly, to test against.

NumPy, float64, one sentence at a time, one position after the other, no padding and no batch: a
transcription of the equations of section 3 and appendix A.2, knowing nothing of the package but the
names of its parameters; with the coverage of Tu et al. (2016, arXiv 1601.04811, eqs. 4 and 6) where
there is a V_c, the scores of Luong et al. (2015, arXiv 1508.04025, section 3.1), and LSTMs
(Hochreiter and Schmidhuber, 1997). Letters: S source length, T target length, E embedding, H
encoder hidden a direction, D decoder hidden, A attention, L readout, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]

ORDERS = ("main-text", "appendix", "groundhog", "conditional")
RESETS = ("before", "after")
EMBEDDED_AS_ZERO = (0, 2)  # padding, and the word before the first one
LOCATIONS = 100  # source positions that the score location knows


class Kind(NamedTuple):
    """Which of the models it is."""

    order: str = "main-text"
    reset: str = "before"
    encoder: str = "bidirectional"
    cell: str = "gru"
    attention: str = "additive"
    context: str = "dynamic"
    readout: str = "maxout"
    temperature: float = 1.0


def sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def softmax(scores: Sequence[float]) -> list[float]:
    largest = max(scores)
    powers = [math.exp(score - largest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def gru(
    parameters: Parameters, name: str, reset: str, h: Array, x: Array, mask: Array | None = None
) -> Array:
    """One step of the gated unit (Cho et al., 2014; the paper's A.1.1): h, input x -> new h.

    `mask` is recurrent dropout: it multiplies h where h enters a product with U, and nowhere else.
    """
    size = len(h)
    weight, recurrent, bias = (parameters[f"{name}.{letter}"] for letter in ("W", "U", "b"))
    W_z, W_r, W = weight[:size], weight[size : 2 * size], weight[2 * size :]
    U_z, U_r, U = recurrent[:size], recurrent[size : 2 * size], recurrent[2 * size :]
    b_z, b_r, b = bias[:size], bias[size : 2 * size], bias[2 * size :]
    seen = h if mask is None else mask * h
    z = sigmoid(W_z @ x + U_z @ seen + b_z)
    r = sigmoid(W_r @ x + U_r @ seen + b_r)
    if reset == "before":
        candidate = np.tanh(W @ x + U @ (r * seen) + b)
    elif reset == "after":
        candidate = np.tanh(W @ x + b + r * (U @ seen + parameters[f"{name}.b_candidate"]))
    else:
        raise ValueError(reset)
    return np.asarray((1.0 - z) * h + z * candidate)


def lstm(
    parameters: Parameters, name: str, state: Array, x: Array, mask: Array | None = None
) -> Array:
    """One step of an LSTM: state [h ; c], input x -> the new [h ; c]; `mask` as in `gru`."""
    size = len(state) // 2
    h, c = state[:size], state[size:]
    seen = h if mask is None else mask * h
    weight, recurrent, bias = (parameters[f"{name}.{letter}"] for letter in ("W", "U", "b"))
    sums = weight @ x + recurrent @ seen + bias
    i, f, o = (sigmoid(sums[n * size : (n + 1) * size]) for n in range(3))
    c = f * c + i * np.tanh(sums[3 * size :])
    return np.concatenate([o * np.tanh(c), c])


def consume(
    parameters: Parameters, name: str, kind: Kind, state: Array, x: Array, mask: Array | None
) -> Array:
    """One step of the cell `name`; the state is h, or [h ; c]."""
    if kind.cell == "lstm":
        return lstm(parameters, f"{name}_lstm", state, x, mask)
    return gru(parameters, f"{name}_gru", kind.reset, state, x, mask)


def begin(kind: Kind, hidden: Array) -> Array:
    """The state that starts with h."""
    return np.concatenate([hidden, np.zeros(len(hidden))]) if kind.cell == "lstm" else hidden


def annotate(
    parameters: Parameters,
    kind: Kind,
    source_ids: Sequence[int],
    masks: Mapping[str, Array] | None = None,
) -> tuple[list[Array], list[Array]]:
    """Annotations h_j = [forward_j ; backward_j], S of (2H,) or (H,) (section 3.2), and the state
    that each direction ends in: forward_S, backward_1.
    """
    words = [parameters["source_embedding.weight"][word] for word in source_ids]
    read: list[list[Array]] = []
    last: list[Array] = []
    for direction in ("forward", "backward"):
        if kind.encoder not in (direction, "bidirectional"):
            continue
        name = f"encoder.{direction}"
        size = parameters[f"{name}_{kind.cell}.U"].shape[1]
        state = begin(kind, np.zeros(size))
        states: list[Array] = []
        for word in words if direction == "forward" else reversed(words):
            state = consume(parameters, name, kind, state, word, (masks or {}).get(direction))
            states.append(state[:size])
        last.append(states[-1])
        read.append(states if direction == "forward" else states[::-1])
    return [np.concatenate(both) for both in zip(*read, strict=True)], last


def energy(
    parameters: Parameters, kind: Kind, query: Array, j: int, h_j: Array, earlier: Sequence[Array]
) -> float:
    """Query (D,), annotation h_j at source position j -> the energy, before the temperature."""
    if kind.attention == "dot":
        return float(query @ h_j)
    W_a = parameters["attention.W_a"]
    if kind.attention == "general":
        return float(query @ (W_a @ h_j))
    if kind.attention == "location":
        return float(W_a[j] @ query) if j < LOCATIONS else -math.inf
    if kind.attention == "concat":
        return float(parameters["attention.v_a"] @ np.tanh(W_a @ np.concatenate([query, h_j])))
    inner = W_a @ query + parameters["attention.U_a"] @ h_j + parameters["attention.b_a"]
    if "attention.V_c" in parameters:
        inner = inner + parameters["attention.V_c"] * sum(alpha[j] for alpha in earlier)
    return float(parameters["attention.v_a"] @ np.tanh(inner))


def attend(
    parameters: Parameters,
    kind: Kind,
    query: Array,
    annotations: list[Array],
    earlier: Sequence[Array],
) -> tuple[list[float], Array]:
    """Query (D,) -> weights alpha_j, S of them, and the context c = sum_j alpha_j h_j (2H,).

    earlier: alpha (S,) of the positions before. Only where there is a V_c (A,) do they count.
    """
    alpha = softmax(
        [
            energy(parameters, kind, query, j, h_j, earlier) / kind.temperature
            for j, h_j in enumerate(annotations)
        ]
    )
    context = np.zeros(len(annotations[0]))
    for weight, h_j in zip(alpha, annotations, strict=True):
        context = context + weight * h_j
    return alpha, context


def read_out(
    parameters: Parameters, state: Array, word: Array, context: Array, kind: str = "maxout"
) -> Array:
    """Log-probabilities (V,) of the next word: maxout over pairs, then softmax (A.2.2)."""
    t_tilde = (
        parameters["readout.U_o"] @ state
        + parameters["readout.V_o"] @ word
        + parameters["readout.C_o"] @ context
        + parameters["readout.b_o"]
    )
    t = np.array([max(t_tilde[2 * k], t_tilde[2 * k + 1]) for k in range(len(t_tilde) // 2)])
    if kind == "tanh":
        t = np.tanh(t_tilde)
    logits = parameters["output.weight"] @ t + parameters["output.bias"]
    largest = logits.max()
    return np.asarray(logits - largest - math.log(np.exp(logits - largest).sum()))


def embed_target(parameters: Parameters, word: int) -> Array:
    """E y (E,): nothing where there is no word."""
    table = parameters["target_embedding.weight"]
    return np.zeros(table.shape[1]) if word in EMBEDDED_AS_ZERO else np.asarray(table[word])


def forward(
    parameters: Parameters,
    kind: Kind,
    source_ids: Sequence[int],
    target_in_ids: Sequence[int],
    masks: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """One sentence through the model.

    source_ids: S words, the last of them EOS. target_in_ids: T words y_0 .. y_{T-1}, the first BOS.
    masks: recurrent dropout for a whole sentence, "forward" (H,), "backward" (H,), "decoder" (D,).
    Returns annotations (S, 2H), attention (T, S), contexts (T, 2H), states (T, D) and log_probs
    (T, V); row i - 1 belongs to y_i. A state is s_i (groundhog: u_i, the state that has read
    y_{i-1} and c_{i-1}).
    """
    annotations, last = annotate(parameters, kind, source_ids, masks)
    mask = (masks or {}).get("decoder")

    def read(name: str, state: Array, x: Array) -> Array:
        return consume(parameters, name, kind, state, x, mask)

    def look(state: Array) -> tuple[list[float], Array]:
        if kind.context == "fixed":
            return [0.0] * len(annotations), np.concatenate(last)
        query = state[:size] if mask is None else mask * state[:size]
        return attend(parameters, kind, query, annotations, rows["attention"])

    def write(state: Array, word: Array, c: Array) -> Array:
        return read_out(parameters, state[:size], word, c, kind.readout)

    size = len(parameters["initial.bias"])
    first = np.tanh(parameters["initial.weight"] @ last[-1] + parameters["initial.bias"])
    s = begin(kind, first)
    previous_context: Array | None = None
    rows: dict[str, list[Array]] = {"attention": [], "contexts": [], "states": [], "log_probs": []}
    for y in target_in_ids:
        word = embed_target(parameters, y)
        if kind.order == "main-text":
            alpha, c = look(s)
            s = read("decoder", s, np.concatenate([word, c]))
            log_probs = write(s, word, c)
        elif kind.order == "appendix":
            alpha, c = look(s)
            log_probs = write(s, word, c)
            s = read("decoder", s, np.concatenate([word, c]))
        elif kind.order == "groundhog":
            if previous_context is not None:
                s = read("decoder", s, np.concatenate([word, previous_context]))
            alpha, c = look(s)
            log_probs = write(s, word, c)
            previous_context = c
        elif kind.order == "conditional":
            between = read("decoder", s, word)
            alpha, c = look(between)
            s = read("context", between, c)
            log_probs = write(s, word, c)
        else:
            raise ValueError(kind.order)
        rows["attention"].append(np.array(alpha))
        rows["contexts"].append(c)
        rows["states"].append(s[:size])
        rows["log_probs"].append(log_probs)
    return {"annotations": np.stack(annotations)} | {name: np.stack(r) for name, r in rows.items()}


def loss(
    parameters: Parameters,
    kind: Kind,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    masks: Sequence[Mapping[str, Array]] | None = None,
) -> float:
    """Minus the log-probability of the targets, summed over (source, target) pairs.

    Sources end in EOS; targets are y_1 .. y_n, and BOS and EOS are put here. `masks`: one a pair.
    """
    total = 0.0
    for i, (source_ids, target_ids) in enumerate(pairs):
        target_in = [2, *target_ids]
        target_out = [*target_ids, 3]
        pair_masks = None if masks is None else masks[i]
        result = forward(parameters, kind, source_ids, target_in, pair_masks)
        for position, word in enumerate(target_out):
            total -= float(result["log_probs"][position, word])
    return total
