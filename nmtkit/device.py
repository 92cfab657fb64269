"""Which device to compute on."""

from __future__ import annotations

import torch

from nmtkit.distributed import local_rank
from nmtkit.errors import UserError, unknown

DEVICES = ("auto", "cpu", "cuda")


def resolve(name: str) -> torch.device:
    """auto is CUDA where there is a GPU, else the CPU. Under torchrun every process has its own.

    Raises UserError when there is none.
    """
    if name not in DEVICES:
        raise unknown("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch finds no CUDA GPU here; use --device cpu")
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    number, gpus = local_rank(), torch.cuda.device_count()
    if number >= gpus:
        raise UserError(
            f"process {number + 1} of this machine has no GPU of its own, there are {gpus}: start "
            "no more processes (--nproc-per-node, --workers), or say --device cpu"
        )
    if number:
        torch.cuda.set_device(number)  # what "cuda" means from here on
    return torch.device("cuda")
