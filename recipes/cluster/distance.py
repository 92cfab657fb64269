"""How far the parameters of two model directories are from each other."""

from __future__ import annotations

import sys
from pathlib import Path

from safetensors.torch import load_file


def main(one: Path, other: Path) -> None:
    """Print it, and how large they are."""
    ours, theirs = (
        load_file(folder / "checkpoint" / "model.safetensors") for folder in (one, other)
    )
    furthest = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
    largest = max(float(numbers.abs().max()) for numbers in ours.values())
    print(f"{len(ours)} tensors, greatest difference {furthest:.1e}, greatest number {largest:.2f}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
