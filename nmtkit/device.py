"""Which device to compute on."""

from __future__ import annotations

import torch

from nmtkit.errors import UserError, unknown

DEVICES = ("auto", "cpu", "cuda")


def resolve(name: str) -> torch.device:
    """auto is CUDA where there is a GPU, else the CPU. Raises UserError when there is none."""
    if name not in DEVICES:
        raise unknown("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--device cuda: torch finds no CUDA GPU here; use --device cpu")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")
