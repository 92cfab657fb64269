"""Freed memory is used again."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Pages that come from the system while 64 MiB are taken, written and freed four times.
PROGRAM = """
import resource, sys, torch
from nmtkit.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
# The first few do not fit where the one before was: glibc looks for a little more, for alignment,
# and what it then cuts off stays with its thread until seven are there.
for _ in range(12):
    torch.ones(1 << 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    torch.ones(1 << 24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_a_freed_block_is_used_again() -> None:
    assert faults("keep") < 100
    assert faults("give back") > 4 * 10_000
