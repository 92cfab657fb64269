"""What makes a run give the same bytes again, and what keeps it from that."""

from __future__ import annotations

import os

import torch

from nmtkit.train.settings import TrainingConfig


def make_deterministic() -> None:
    """Let CUDA compute in one order only, in the whole process; call it before CUDA begins.

    An operation that has no such order then raises RuntimeError.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as the manual of cuBLAS says
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def not_repeatable(config: TrainingConfig, device: torch.device) -> list[str]:
    """Why the same command may give other bytes on the same machine; [] when it does not."""
    reasons = []
    if config.minutes:
        what = "end and learning rate follow" if config.schedule == "cosine" else "the end follows"
        reasons.append(f"{what} the clock (--minutes)")
    if device.type == "cuda" and not config.deterministic:
        reasons.append("a GPU adds in any order (--deterministic: in one)")
    return reasons
