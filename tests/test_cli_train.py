"""nmtkit train: where settings come from, resuming, and what it may overwrite."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nmtkit.cli.train import Terminal
from nmtkit.train.trainer import Trainer
from tests.conftest import command, contents, failed, worked, write
from tests.micro import MICRO, results


def test_train_takes_settings_from_everywhere(micro, tmp_path):
    write(
        tmp_path / "recipe.toml",
        ['preset = "tiny"', "[model]", "hidden = 16", "[training]", "seed = 5"],
    )
    options = ("--config", tmp_path / "recipe.toml", "--set", "model.maxout=4", "--updates", 1)
    worked("train", micro, "--out", tmp_path / "m", *options, "--seed", 6, "--arch", "rnnsearch")
    text = (tmp_path / "m" / "config.toml").read_text(encoding="utf-8")
    for line in ("hidden = 16", "maxout = 4", "seed = 6", "updates = 1", "embedding = 64"):
        assert f"\n{line}\n" in text
    worked("train", "--config", tmp_path / "m" / "config.toml", "--out", tmp_path / "n")
    for name in ("model.safetensors", "config.toml"):
        assert (tmp_path / "n" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()


def test_resume_from_the_command_line(micro, tmp_path):
    assignments = [f"--set={assignment}" for assignment in MICRO]
    whole = ("train", micro, "--out", tmp_path / "whole", *assignments)
    worked(*whole, "--updates", 10)
    parts = ("train", micro, "--out", tmp_path / "parts", *assignments)
    worked(*parts, "--updates", 5)
    worked(*parts, "--updates", 7, "--resume")  # the same command, and --resume
    worked("train", "--out", tmp_path / "parts", "--updates", 10, "--resume")
    model = "model.safetensors"
    assert (tmp_path / "parts" / model).read_bytes() == (tmp_path / "whole" / model).read_bytes()
    message = failed(*parts, "--updates", 12, "--resume", "--seed", 9)
    assert "training.seed (was 1, now 9)" in message
    assert "nothing to resume" in failed("train", "--out", tmp_path / "new", "--resume")


def test_an_output_folder_that_is_in_use(micro, model, tmp_path):
    assignments = [f"--set={assignment}" for assignment in [*MICRO, "training.updates=1"]]
    given = ("train", micro, *assignments)
    copy = Path(shutil.copytree(model, tmp_path / "m"))
    write(copy / "notes", ["mine"])
    before = contents(copy)
    message = failed(*given, "--out", copy)
    assert message == f"{copy} exists and is not empty: choose another folder or say --overwrite"
    assert contents(copy) == before
    # Not even with --overwrite while anything else is wrong.
    failed("train", tmp_path / "nowhere", "--out", copy, "--overwrite")
    failed(*given, "--out", copy, "--overwrite", "--set", "model.hidden=0")
    failed(*given, "--out", copy, "--overwrite", "--precision", "bfloat16")
    assert contents(copy) == before
    worked(*given, "--out", copy, "--overwrite")
    assert not (copy / "notes").exists()
    worked(*given, "--out", tmp_path / "empty" / "deeper")
    (tmp_path / "link").symlink_to(copy)
    worked(*given, "--out", tmp_path / "link", "--overwrite")
    assert (tmp_path / "link").is_symlink()


def test_overwriting_refuses_what_is_no_model(micro, tmp_path):
    assignments = [f"--set={assignment}" for assignment in [*MICRO, "training.updates=1"]]
    precious = tmp_path / "precious"
    precious.mkdir()
    write(precious / "thesis.txt", ["all of it"])
    before = contents(tmp_path)
    for folder in (precious, micro):
        message = failed("train", micro, *assignments, "--out", folder, "--overwrite")
        assert "--overwrite" in message
    message = failed("train", micro, *assignments, "--out", precious / "thesis.txt")
    assert "thesis.txt" in message
    message = failed("train", micro, *assignments, "--out", precious / "thesis.txt" / "m")
    assert message.startswith(f"cannot make {precious / 'thesis.txt' / 'm'}: ")
    assert contents(tmp_path) == before
    inside = tmp_path / "model"
    worked("train", micro, *assignments, "--out", inside)
    shutil.copytree(micro, inside / "data")
    message = failed("train", inside / "data", *assignments, "--out", inside, "--overwrite")
    assert "lies in" in message
    assert (inside / "data" / "manifest.json").exists()


class Running:
    """`nmtkit train` as a process, in the background of a shell without job control."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nmtkit", "train", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )

    def line(self) -> str:
        """What it says next."""
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def end(self, number: signal.Signals) -> tuple[int, list[str]]:
        """Its exit code and all that it still says, after a signal."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=120)
        assert out == ""
        return self.process.returncode, err.splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_says_how_to_go_on(micro, tmp_path, number):
    assignments = [f"--set={assignment}" for assignment in MICRO]
    limits = ("--updates", 100_000, "--set=training.patience=0")
    out = tmp_path / "m"
    running = Running(micro, "--out", out, *assignments, *limits)
    assert "valid_loss" in running.line()
    code, rest = running.end(number)
    assert code == 128 + number
    rest = [line for line in rest if not line.startswith("update ")]
    assert rest == [f"stopped: nmtkit train --resume --out {out} goes on from there"]
    worked("train", "--resume", "--out", out, "--updates", 1)


def test_a_run_that_is_told_to_save_goes_on(micro, tmp_path):
    assignments = [f"--set={assignment}" for assignment in MICRO]
    limits = ("--updates", 100_000, "--set=training.patience=0", "--set=training.valid_every=99999")
    state = tmp_path / "m" / "checkpoint" / "state.json"
    running = Running(micro, "--out", tmp_path / "m", *assignments, *limits)
    assert running.line().startswith("update 100 ")
    assert json.loads(state.read_text(encoding="utf-8"))["update"] == 0
    running.process.send_signal(signal.SIGUSR1)
    while json.loads(state.read_text(encoding="utf-8"))["update"] == 0:
        running.line()
    assert running.process.poll() is None
    running.end(signal.SIGTERM)


def test_a_run_interrupted_before_its_first_update_goes_on_as_well(micro, tmp_path, monkeypatch):
    def interrupted(_: Trainer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", interrupted)
    assignments = [f"--set={assignment}" for assignment in MICRO]
    done = command("train", micro, "--out", tmp_path / "m", *assignments, "--epochs", 1)
    out = tmp_path / "m"
    assert done.code == 130
    assert done.err == f"stopped: nmtkit train --resume --out {out} goes on from there\n"
    monkeypatch.undo()
    worked("train", "--resume", "--out", out)
    worked("train", micro, "--out", tmp_path / "whole", *assignments, "--epochs", 1)
    assert results(out) == results(tmp_path / "whole")


def test_an_old_model_stays_until_there_is_a_new_one(micro, model, tmp_path, monkeypatch):
    """Even in a run that is ended, and replaced itself; and it can be used meanwhile."""
    out = Path(shutil.copytree(model, tmp_path / "m"))
    weights = (out / "model.safetensors").read_bytes()
    assignments = [f"--set={assignment}" for assignment in MICRO]
    given = ("train", micro, "--out", out, *assignments, "--overwrite", "--updates", 1)
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "run", lambda self: {})
            worked(*given)
        assert not (out / "model.safetensors").exists()
        assert (out / "replaced" / "model.safetensors").read_bytes() == weights
        worked("translate", out / "replaced", stdin="bamo\n")
    message = failed("translate", out, stdin="bamo\n")
    assert message.endswith(f"the model that it replaces is in {out / 'replaced'}")
    worked(*given)
    assert not (out / "replaced").exists()
    assert (out / "model.safetensors").read_bytes() != weights


def test_what_does_not_repeat_is_said(micro, tmp_path):
    assignments = [f"--set={assignment}" for assignment in MICRO]
    given = ("train", micro, *assignments)
    done = command(*given, "--out", tmp_path / "a", "--minutes", 0.001)
    note = "note: another such run may give other bytes: the end follows the clock (--minutes)\n"
    assert done.err.startswith(note)
    done = command(*given, "--out", tmp_path / "b", "--updates", 1)
    assert "note" not in done.err


def test_a_run_interrupted_before_it_begins_leaves_the_old_model(
    micro, model, tmp_path, monkeypatch
):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    copy = Path(shutil.copytree(model, tmp_path / "m"))
    before = contents(tmp_path)
    monkeypatch.setattr("nmtkit.train._run", interrupted)
    done = command("train", micro, "--out", copy, "--overwrite")
    assert (done.code, done.err) == (130, f"stopped: {copy} is as it was\n")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"update": 100, "train_loss": 2.5, "tokens": 30}, True),
        ({"update": 100, "valid_loss": 2.5, "valid_bleu": 1.5, "best": True}, False),
        ({"update": 100, "valid_aer": 2.5, "best": True}, False),
        ({"finished": True, "updates": 100}, False),
    ],
)
def test_only_training_has_a_speed(record, shown, capsys):
    """600 tokens in half a minute."""
    reporter = Terminal()
    reporter.updated(0.5, {"epoch": 1, "tokens": 600, "minutes": 0.5})
    capsys.readouterr()
    reporter.recorded(record)
    line = capsys.readouterr().err
    assert line.startswith("  ".join(f"{k} {v}" for k, v in record.items()))
    assert line.endswith("  20 tokens/s\n") == shown
    assert ("tokens/s" in line) == shown
