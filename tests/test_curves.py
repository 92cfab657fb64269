"""Curves of a training run from metrics.jsonl, and its events for TensorBoard."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nmtkit.curves import read_metrics, save_curves, series
from nmtkit.errors import UserError
from nmtkit.train.tensorboard import TensorBoard
from tests.conftest import contents, failed, worked, write
from tests.micro import MICRO

RECORDS: list[dict[str, Any]] = [
    {"update": 100, "epoch": 1, "train_loss": 5.0, "minutes": 0.1},
    {"update": 150, "epoch": 1, "valid_loss": 4.5, "valid_bleu": 2.0, "best": True},
    {"update": 200, "epoch": 2, "train_loss": None, "minutes": 0.2},
    {"update": 300, "epoch": 2, "valid_loss": 3.0, "valid_bleu": 7.25, "best": True},
    {"update": 400, "epoch": 3, "valid_loss": 3.5, "valid_bleu": 6.0, "best": False},
    {"finished": True, "updates": 400, "best_valid_bleu": 7.25, "train_loss": 1.0},
]
PASSES = [{"epoch": n, "of": "hmm", "train_loss": 4.0 / n} for n in (1, 2, 3)]


def run_of(folder: Path, records: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    write(folder / "metrics.jsonl", map(json.dumps, records))
    return folder


# ------------------------------------------------------------------------------------------ curves


def test_series_by_hand():
    assert series(RECORDS, "train_loss") == ([100.0], [5.0])
    assert series(RECORDS, "valid_bleu") == ([150.0, 300.0, 400.0], [2.0, 7.25, 6.0])
    assert series(PASSES, "train_loss") == ([1.0, 2.0, 3.0], [4.0, 2.0, 4.0 / 3])
    assert series(RECORDS, "of") == ([], [])


def drawn(path: Path, *folders: Path) -> str:
    """The text in an SVG of the curves."""
    save_curves(path, folders)
    text = path.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"<!-- (.*?) -->", text))  # matplotlib names what it draws as paths


def test_one_run(tmp_path):
    pytest.importorskip("matplotlib")
    text = drawn(tmp_path / "c.svg", run_of(tmp_path / "run", RECORDS))
    for said in (
        "training",
        "validation",
        "kept: 3",
        "kept: 7.25",
        "validation BLEU",
        "updates",
    ):
        assert said in text
    assert "AER" not in text
    assert "loss, nats a target subword" in text


def test_several_runs_and_passes(tmp_path):
    pytest.importorskip("matplotlib")
    one, other = run_of(tmp_path / "one", RECORDS), run_of(tmp_path / "$x_2$", RECORDS[:2])
    text = drawn(tmp_path / "c.svg", one, other)
    assert f"{one} kept: 7.25" in text
    assert f"{other} kept: 2" in text
    text = drawn(tmp_path / "c.svg", run_of(tmp_path / "hmm", PASSES))
    assert "passes" in text
    assert "updates" not in text


def test_what_cannot_be_drawn(tmp_path, monkeypatch):
    run = run_of(tmp_path / "run", RECORDS)
    with pytest.raises(UserError, match=r"unknown picture format '\.gif'"):
        save_curves(tmp_path / "c.gif", [run])
    with pytest.raises(UserError, match="no figures yet to draw"):
        save_curves(tmp_path / "c.png", [run_of(tmp_path / "empty", [])])
    with pytest.raises(UserError, match=r"cannot read .*none/metrics\.jsonl: No such file"):
        save_curves(tmp_path / "c.png", [tmp_path / "none"])
    for broken in ("{", "[]"):
        write(tmp_path / "run" / "metrics.jsonl", ["{}", broken])
        with pytest.raises(UserError, match=r"metrics\.jsonl:2: not a JSON object"):
            read_metrics(run)
    assert not (tmp_path / "c.png").exists()
    monkeypatch.setattr("nmtkit.curves.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'nmtkit\[plot\]'"):
        save_curves(tmp_path / "c.png", [run])


def test_the_option(micro, tmp_path):
    pytest.importorskip("matplotlib")
    settings = [f"--set={assignment}" for assignment in MICRO]
    model, picture = tmp_path / "m", tmp_path / "c.png"
    run = ("train", micro, "--out", model, "--updates", 3, *settings)
    assert "unknown picture format" in failed(*run, "--curve", tmp_path / "c.jpg")
    assert not model.exists()
    worked(*run, "--curve", picture)
    first = picture.read_bytes()
    assert first.startswith(b"\x89PNG")
    before = contents(model)
    picture.unlink()
    worked("train", "--out", model, "--curve", picture)  # draws, and trains nothing
    assert picture.read_bytes() == first
    assert contents(model) == before


# ------------------------------------------------------------------------------------- TensorBoard


class Writer:
    """Notes what a SummaryWriter is told."""

    told: list[tuple[Any, ...]]

    def __init__(self, log_dir: str, purge_step: int) -> None:
        self.told = WRITERS.setdefault((log_dir, purge_step), [])

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.told.append((name, value, step))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.told.append(("closed",))


WRITERS: dict[tuple[str, int], list[tuple[Any, ...]]] = {}


@pytest.fixture
def writers(monkeypatch):
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    WRITERS.clear()
    return WRITERS


def test_events_of_records(writers, tmp_path):
    reporter = TensorBoard(tmp_path)
    for record in RECORDS:
        reporter.updated(0.5, record)
        reporter.recorded(record)
    reporter.close()
    assert writers == {
        (str(tmp_path), 100): [
            ("train_loss", 5.0, 100),
            ("minutes", 0.1, 100),
            ("valid_loss", 4.5, 150),
            ("valid_bleu", 2.0, 150),
            ("minutes", 0.2, 200),
            ("valid_loss", 3.0, 300),
            ("valid_bleu", 7.25, 300),
            ("valid_loss", 3.5, 400),
            ("valid_bleu", 6.0, 400),
            ("closed",),
        ]
    }


def test_a_run_with_tensorboard(writers, micro, tmp_path):
    settings = [f"--set={assignment}" for assignment in MICRO]
    model = tmp_path / "m"
    worked("train", micro, "--out", model, "--epochs", 1, "--tensorboard", *settings)
    worked("train", "--resume", "--out", model, "--epochs", 2, "--tensorboard")
    metrics = [record for record in read_metrics(model) if "valid_loss" in record]
    assert list(writers) == [(str(model), record["update"]) for record in metrics]
    for record, told in zip(metrics, writers.values(), strict=True):
        assert ("valid_loss", record["valid_loss"], record["update"]) in told
        assert told[-1] == ("closed",)


def test_an_aligner_with_tensorboard(writers, micro, tmp_path):
    """Its folder is whole before events are written into it."""
    model = tmp_path / "m"
    worked("train", micro, "--arch", "ibm1", "--out", model, "--epochs", 2, "--tensorboard")
    (told,) = writers.values()
    assert list(writers) == [(str(model), 1)]
    losses = [record["train_loss"] for record in read_metrics(model) if "finished" not in record]
    assert [value for name, value, _ in told[:-1] if name == "train_loss"] == losses
    assert told[-1] == ("closed",)


def test_without_tensorboard(monkeypatch, micro, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    message = failed("train", micro, "--out", tmp_path / "m", "--updates", 1, "--tensorboard")
    assert message == "TensorBoard is not installed: pip install 'nmtkit[tensorboard]'"
    assert not (tmp_path / "m").exists()
