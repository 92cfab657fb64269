"""The same bytes again, in every command that computes; what keeps a run from that is said."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmtkit.train import TrainingConfig
from nmtkit.train.repeatable import make_deterministic, not_repeatable
from tests.conftest import contents
from tests.micro import MICRO, records

ROOT = Path(__file__).parent.parent
SIDES = ("--source-lang", "aa", "--target-lang", "zz")
TRAIN = ("data", "--out", "m", *(f"--set={one}" for one in MICRO), "--updates", "7")
COMMANDS: list[tuple[str, ...]] = [
    (
        "preprocess",
        *SIDES,
        "--train",
        "train",
        "--valid",
        "valid",
        "--merges",
        "60",
        "--out",
        "data",
    ),
    ("train", *TRAIN),
    ("translate", "m", "--source", "valid.aa", "--out", "out.zz", "--sample"),
    ("align", "m", "--source", "valid.aa", "--target", "valid.zz", "--out", "out.links"),
]
ALL = "import json, sys; from tests.conftest import worked; "
ALL += "[worked(*command) for command in json.loads(sys.argv[1])]"


@pytest.mark.parametrize("threads", [1, 2])
def test_every_command_gives_the_same_bytes_again(micro, tmp_path, threads):
    threading = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    environment = {**os.environ, **threading, "PYTHONPATH": str(ROOT)}
    found = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        for path in micro.parent.glob("*.??"):
            (folder / path.name).write_bytes(path.read_bytes())
        line = [sys.executable, "-c", ALL, json.dumps(COMMANDS)]
        subprocess.run(line, cwd=folder, env=environment, check=True, timeout=200)
        timed = ("metrics.jsonl", "state.json", "SHA256SUMS")  # these hold seconds
        found.append({k: v for k, v in contents(folder).items() if Path(k).name not in timed})
        found[-1]["records"] = repr(records(folder / "m")).encode()
    assert found[0].keys() == found[1].keys()
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
    assert {"m/model.safetensors", "out.zz", "out.links", "data/codes.bpe"} <= found[0].keys()


CPU, GPU = torch.device("cpu"), torch.device("cuda")
CLOCK, ORDER = (
    "the end follows the clock (--minutes)",
    "a GPU adds in any order (--deterministic: in one)",
)


@pytest.mark.parametrize(
    ("config", "device", "wanted"),
    [
        (TrainingConfig(epochs=3), CPU, []),
        (TrainingConfig(epochs=3, minutes=5), CPU, [CLOCK]),
        (
            TrainingConfig(minutes=5, schedule="cosine"),
            CPU,
            [CLOCK.replace("the end follows", "end and learning rate follow")],
        ),
        (TrainingConfig(epochs=3), GPU, [ORDER]),
        (TrainingConfig(minutes=3), GPU, [CLOCK, ORDER]),
        (TrainingConfig(epochs=3, deterministic=True), GPU, []),
    ],
)
def test_what_does_not_repeat(config, device, wanted):
    assert not_repeatable(config, device) == wanted


def test_cuda_is_told_to_keep_one_order(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    try:
        make_deterministic()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.slow
def test_the_harness_of_faults(tmp_path, monkeypatch):
    """benchmarks/faults.py, in short: killed processes, and damaged files."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import faults

    (tmp_path / "kills").mkdir()
    kills = faults.survive(tmp_path / "kills", kills=2, updates=20, seed=random.randrange(1 << 30))
    assert not kills.failed, kills
    (tmp_path / "flips").mkdir()
    flips = faults.damage(tmp_path / "flips", 40, random.randrange(1 << 30), resumes=1)
    assert not flips.failed, flips
    assert (flips.found + flips.harmless, flips.resumed) == (40, 1)
