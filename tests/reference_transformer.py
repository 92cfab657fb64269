"""The Transformer in NumPy, one sentence, one position and one head at a time, as its equations
read: Vaswani et al. (2017), with the norm before every block.

`Parameters`: the model's, by name. Letters: D model size, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Parameters = Mapping[str, Array]
UNPLACED = 0  # the id of PAD, whose embedding is nothing


def sinusoid(place: int, size: int) -> Array:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same."""
    found = np.empty(size)
    for k in range(size):
        angle = place / 10000 ** (2 * (k // 2) / size)
        found[k] = np.cos(angle) if k % 2 else np.sin(angle)
    return found


def affine(p: Parameters, name: str, x: Array) -> Array:
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"]


def norm(p: Parameters, name: str, x: Array) -> Array:
    mean = sum(x) / len(x)
    variance = sum((x - mean) ** 2) / len(x)
    return p[f"{name}.weight"] * (x - mean) / np.sqrt(variance + 1e-5) + p[f"{name}.bias"]


def softmax(energies: Sequence[float]) -> Array:
    exponentials = np.exp(np.array(energies) - max(energies))
    return exponentials / exponentials.sum()


def multi_head(
    p: Parameters, name: str, heads: int, x: Array, seen: Sequence[Array]
) -> tuple[Array, Array]:
    """What the block adds to x (D,), which looks at `seen`; the weights (heads, len(seen))."""
    query = affine(p, f"{name}.query", norm(p, f"{name}.norm", x))
    keys = [affine(p, f"{name}.key", one) for one in seen]
    values = [affine(p, f"{name}.value", one) for one in seen]
    size = len(x) // heads
    contexts, weights = [], []
    for k in range(heads):
        part = slice(k * size, (k + 1) * size)
        alpha = softmax([float(query[part] @ key[part]) / np.sqrt(size) for key in keys])
        contexts.append(sum(a * value[part] for a, value in zip(alpha, values, strict=True)))
        weights.append(alpha)
    return affine(p, f"{name}.output", np.concatenate(contexts)), np.array(weights)


def self_attention(
    p: Parameters, name: str, heads: int, xs: Sequence[Array], causal: bool
) -> list[Array]:
    normed = [norm(p, f"{name}.norm", x) for x in xs]
    return [
        x + multi_head(p, name, heads, x, normed[: i + 1] if causal else normed)[0]
        for i, x in enumerate(xs)
    ]


def feed_forward(p: Parameters, name: str, x: Array) -> Array:
    inner = affine(p, f"{name}.inner", norm(p, f"{name}.norm", x))
    return x + affine(p, f"{name}.outer", np.maximum(0, inner))


def embed(p: Parameters, table: str, ids: Sequence[int], begin: int = 0) -> list[Array]:
    embeddings = p[f"{table}.weight"]
    size = embeddings.shape[1]
    return [
        (np.sqrt(size) * embeddings[i] if i != UNPLACED else 0) + sinusoid(begin + place, size)
        for place, i in enumerate(ids)
    ]


def encode(p: Parameters, layers: int, heads: int, source: Sequence[int]) -> list[Array]:
    """The annotations."""
    table = "source_embedding" if "source_embedding.weight" in p else "target_embedding"
    xs = embed(p, table, source)
    for n in range(layers):
        xs = self_attention(p, f"encoder.{n}.self_attention", heads, xs, causal=False)
        xs = [feed_forward(p, f"encoder.{n}.feed_forward", x) for x in xs]
    return [norm(p, "encoder_norm", x) for x in xs]


def look(
    p: Parameters, n: int, heads: int, x: Array, annotations: Sequence[Array]
) -> tuple[Array, Array]:
    """Decoder layer n after its self-attention; the weights (heads, S)."""
    added, weights = multi_head(p, f"decoder.{n}.source_attention", heads, x, annotations)
    return feed_forward(p, f"decoder.{n}.feed_forward", x + added), weights


def decode(
    p: Parameters, layers: int, heads: int, target_in: Sequence[int], annotations: Sequence[Array]
) -> tuple[Array, Array]:
    """Log-probabilities (T, V), and the weights of all layers and heads (layers, heads, T, S)."""
    xs = embed(p, "target_embedding", target_in)
    weights = []
    for n in range(layers):
        xs = self_attention(p, f"decoder.{n}.self_attention", heads, xs, causal=True)
        both = [look(p, n, heads, x, annotations) for x in xs]
        xs = [x for x, _ in both]
        weights.append(np.stack([alpha for _, alpha in both], 1))
    W = p.get("output.weight", p["target_embedding.weight"])
    logits = [W @ norm(p, "decoder_norm", x) + p["output.bias"] for x in xs]
    log_probs = [x - np.log(np.exp(x - x.max()).sum()) - x.max() for x in logits]
    return np.array(log_probs), np.array(weights)


def align(
    p: Parameters, layer: int, heads: int, target: Sequence[int], annotations: Sequence[Array]
) -> Array:
    """The alignment head's energies (T, S) over the decoder's first `layer` layers."""
    xs = embed(p, "target_embedding", target, begin=1)
    for n in range(layer):
        xs = self_attention(p, f"decoder.{n}.self_attention", heads, xs, causal=False)
        if n < layer - 1:
            xs = [look(p, n, heads, x, annotations)[0] for x in xs]
    energies = np.empty((len(xs), len(annotations)))
    for i, j in np.ndindex(energies.shape):
        query = affine(p, "head.query", norm(p, "head.norm", xs[i]))
        key = affine(p, "head.key", annotations[j])
        energies[i, j] = query @ key / np.sqrt(len(query))
    return energies
