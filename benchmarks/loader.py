"""The data loader: target tokens a second, padding, and its part of the time of training.

    python loader.py TEXT [--batch 80] [--pool 500] [--speed 4000]

Reads every batch of an epoch of what text.py made, as training does, but nothing else. `--speed`:
the target tokens a second of the training that it is compared with.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from nmtkit.batches import BatchSize, epoch_batches
from nmtkit.data import PreparedCorpus
from nmtkit.distributed import Group
from nmtkit.train.plan import Plan


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--batch", type=int, default=80)
    parser.add_argument("--pool", type=int, default=500)
    parser.add_argument("--speed", type=float, default=4000)
    arguments = parser.parse_args()
    bitext = PreparedCorpus.open(arguments.text / "prepared").train
    began = time.perf_counter()
    size = BatchSize(arguments.batch, 0, arguments.pool)
    lengths = bitext.source_lengths, bitext.target_lengths
    batches = epoch_batches(*lengths, size, seed=1, epoch=0)
    plan, alone = Plan(0, bitext, batches), Group()
    cells, real = [0, 0], [0, 0]
    for number in range(len(batches)):
        batch, _ = plan.read(number, alone)
        for side, mask in enumerate((batch.source_mask, batch.target_mask)):
            cells[side] += mask.numel()
            real[side] += int(mask.sum())
    seconds = time.perf_counter() - began
    speed = real[1] / seconds
    padding = [100 * (1 - r / c) for r, c in zip(real, cells, strict=True)]
    print(f"target tokens/s\t{speed:.0f}")
    print(f"% of training at {arguments.speed:.0f} tokens/s\t{100 * arguments.speed / speed:.2f}")
    print(f"% padding, source and target\t{padding[0]:.1f}\t{padding[1]:.1f}")


if __name__ == "__main__":
    main()
