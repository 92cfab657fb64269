"""RNNsearch (Bahdanau, Cho and Bengio, 2015, arXiv 1409.0473) written out slowly, to test against.

NumPy, float64, one sentence at a time, one position after the other, no padding and no batch: a
transcription of the equations of section 3 and appendix A.2, knowing nothing of the package but the
names of its parameters; with the coverage of Tu et al. (2016, arXiv 1601.04811, eqs. 4 and 6) where
there is a V_c. Letters: S source length, T target length, E embedding, H encoder hidden a
direction, D decoder hidden, A attention, L maxout, V target vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = Mapping[str, Array]

ORDERS = ("main-text", "appendix", "groundhog", "conditional")
RESETS = ("before", "after")
EMBEDDED_AS_ZERO = (0, 2)  # padding, and the word before the first one


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


def annotate(
    parameters: Parameters,
    reset: str,
    source_ids: Sequence[int],
    masks: Mapping[str, Array] | None = None,
) -> tuple[list[Array], Array]:
    """Annotations h_j = [forward_j ; backward_j], S of (2H,), and backward_1 (H,) (section 3.2)."""
    masks = masks or {}
    words = [parameters["source_embedding.weight"][word] for word in source_ids]
    hidden = parameters["encoder.forward_gru.U"].shape[1]
    length = len(words)
    forwards: list[Array] = []
    state = np.zeros(hidden)
    for j in range(length):
        name = "encoder.forward_gru"
        state = gru(parameters, name, reset, state, words[j], masks.get("forward"))
        forwards.append(state)
    backwards: list[Array] = [np.zeros(hidden)] * length
    state = np.zeros(hidden)
    for j in range(length - 1, -1, -1):
        name = "encoder.backward_gru"
        state = gru(parameters, name, reset, state, words[j], masks.get("backward"))
        backwards[j] = state
    both = [np.concatenate([forwards[j], backwards[j]]) for j in range(length)]
    return both, backwards[0]


def attend(
    parameters: Parameters,
    query: Array,
    annotations: list[Array],
    earlier: Sequence[Array],
    temperature: float,
) -> tuple[list[float], Array]:
    """Query (D,) -> weights alpha_j, S of them, and the context c = sum_j alpha_j h_j (2H,).

    earlier: alpha (S,) of the positions before. Only where there is a V_c (A,) do they count.
    """
    W_a, U_a = parameters["attention.W_a"], parameters["attention.U_a"]
    b_a, v_a = parameters["attention.b_a"], parameters["attention.v_a"]
    scores = []
    for j, h_j in enumerate(annotations):
        inner = W_a @ query + U_a @ h_j + b_a
        if "attention.V_c" in parameters:
            inner = inner + parameters["attention.V_c"] * sum(alpha[j] for alpha in earlier)
        scores.append(float(v_a @ np.tanh(inner)) / temperature)
    alpha = softmax(scores)
    context = np.zeros(len(annotations[0]))
    for weight, h_j in zip(alpha, annotations, strict=True):
        context = context + weight * h_j
    return alpha, context


def read_out(parameters: Parameters, state: Array, word: Array, context: Array) -> Array:
    """Log-probabilities (V,) of the next word: maxout over pairs, then softmax (A.2.2)."""
    t_tilde = (
        parameters["readout.U_o"] @ state
        + parameters["readout.V_o"] @ word
        + parameters["readout.C_o"] @ context
        + parameters["readout.b_o"]
    )
    t = np.array([max(t_tilde[2 * k], t_tilde[2 * k + 1]) for k in range(len(t_tilde) // 2)])
    logits = parameters["output.weight"] @ t + parameters["output.bias"]
    largest = logits.max()
    return np.asarray(logits - largest - math.log(np.exp(logits - largest).sum()))


def embed_target(parameters: Parameters, word: int) -> Array:
    """E y (E,): nothing where there is no word."""
    table = parameters["target_embedding.weight"]
    return np.zeros(table.shape[1]) if word in EMBEDDED_AS_ZERO else np.asarray(table[word])


def forward(
    parameters: Parameters,
    order: str,
    reset: str,
    source_ids: Sequence[int],
    target_in_ids: Sequence[int],
    masks: Mapping[str, Array] | None = None,
    temperature: float = 1.0,
) -> dict[str, Array]:
    """One sentence through the model.

    source_ids: S words, the last of them EOS. target_in_ids: T words y_0 .. y_{T-1}, the first BOS.
    masks: recurrent dropout for a whole sentence, "forward" (H,), "backward" (H,), "decoder" (D,).
    Returns annotations (S, 2H), attention (T, S), contexts (T, 2H), states (T, D) and log_probs
    (T, V); row i - 1 belongs to y_i. A state is s_i (groundhog: u_i, the state that has read
    y_{i-1} and c_{i-1}).
    """
    annotations, backward_1 = annotate(parameters, reset, source_ids, masks)
    mask = (masks or {}).get("decoder")

    def consume(name: str, state: Array, x: Array) -> Array:
        return gru(parameters, name, reset, state, x, mask)

    def attention_from(query: Array) -> tuple[list[float], Array]:
        seen = query if mask is None else mask * query
        return attend(parameters, seen, annotations, rows["attention"], temperature)

    s = np.tanh(parameters["initial.weight"] @ backward_1 + parameters["initial.bias"])
    previous_context: Array | None = None
    rows: dict[str, list[Array]] = {"attention": [], "contexts": [], "states": [], "log_probs": []}
    for y in target_in_ids:
        word = embed_target(parameters, y)
        if order == "main-text":
            alpha, c = attention_from(s)
            s = consume("decoder_gru", s, np.concatenate([word, c]))
            log_probs = read_out(parameters, s, word, c)
        elif order == "appendix":
            alpha, c = attention_from(s)
            log_probs = read_out(parameters, s, word, c)
            s = consume("decoder_gru", s, np.concatenate([word, c]))
        elif order == "groundhog":
            if previous_context is not None:
                s = consume("decoder_gru", s, np.concatenate([word, previous_context]))
            alpha, c = attention_from(s)
            log_probs = read_out(parameters, s, word, c)
            previous_context = c
        elif order == "conditional":
            between = consume("decoder_gru", s, word)
            alpha, c = attention_from(between)
            s = consume("context_gru", between, c)
            log_probs = read_out(parameters, s, word, c)
        else:
            raise ValueError(order)
        rows["attention"].append(np.array(alpha))
        rows["contexts"].append(c)
        rows["states"].append(s)
        rows["log_probs"].append(log_probs)
    return {"annotations": np.stack(annotations)} | {name: np.stack(r) for name, r in rows.items()}


def loss(
    parameters: Parameters,
    order: str,
    reset: str,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    masks: Sequence[Mapping[str, Array]] | None = None,
    temperature: float = 1.0,
) -> float:
    """Minus the log-probability of the targets, summed over (source, target) pairs.

    Sources end in EOS; targets are y_1 .. y_n, and BOS and EOS are put here. `masks`: one a pair.
    """
    total = 0.0
    for i, (source_ids, target_ids) in enumerate(pairs):
        target_in = [2, *target_ids]
        target_out = [*target_ids, 3]
        pair_masks = None if masks is None else masks[i]
        result = forward(parameters, order, reset, source_ids, target_in, pair_masks, temperature)
        for position, word in enumerate(target_out):
            total -= float(result["log_probs"][position, word])
    return total
