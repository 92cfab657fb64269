"""The limit: how fast an update could be if it were nothing but its matrix products.

    python limit.py [--threads 2] [--source 15 --target 15 --vocabulary 5836]

Times every product of an update warm and on its own, by torch's own products and by nmtkit's
(oneDNN's, where it is there). Prints a line a size and way: operations a target word, GFLOP/s, the
fewest milliseconds an update, the most target tokens a second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from sizes import BATCH, SIZES, Product, Size, products
from torch import Tensor

from nmtkit.models.products import product as nmtkits_product

ROUNDS = 9
SHORTEST = 0.01  # seconds a measurement takes at the least
#: torch, what the other tools and most programs multiply by; and the fastest that we know.
WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "torch": torch.matmul,
    "oneDNN": nmtkits_product,
}
FASTEST = "oneDNN"


def seconds(product: Product, way: str = FASTEST) -> float:
    """The least time of all of a product's repetitions: a bound, so the minimum."""
    lead = (product.groups,) if product.groups > 1 else ()
    a = torch.randn(*lead, product.rows, product.inner)
    b = torch.randn(*lead, product.inner, product.columns)
    multiply = WAYS[way]
    began = time.perf_counter()
    multiply(a, b)
    once = time.perf_counter() - began
    repeats = max(1, int(SHORTEST / max(once, 1e-9)))
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(repeats):
            multiply(a, b)
        best = min(best, (time.perf_counter() - began) / repeats)
    return best * product.times


def tokens_a_second(
    size: Size, source: int, target: int, vocabulary: int, batch: int = BATCH
) -> float:
    """Target tokens a second, were there nothing but the products."""
    return batch * target / sum(map(seconds, products(size, source, target, vocabulary, batch)))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--source", type=int, default=15)
    parser.add_argument("--target", type=int, default=15)
    parser.add_argument("--vocabulary", type=int, default=5836)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print("size\tway\tMFLOP a token\tGFLOP/s\tms an update\ttokens/s")
    words = BATCH * arguments.target
    for name, size in SIZES.items():
        parts = products(size, arguments.source, arguments.target, arguments.vocabulary)
        operations = sum(part.operations for part in parts)
        for way in WAYS:
            total = sum(seconds(part, way) for part in parts)
            print(
                f"{name}\t{way}\t{operations / words / 1e6:.1f}\t{operations / total / 1e9:.0f}"
                f"\t{1000 * total:.0f}\t{words / total:.0f}"
            )


if __name__ == "__main__":
    main()
