"""Faults: damaged checkpoints, disks that fail, memory that is too small, numbers that are none."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.batches import Batch
from nmtkit.errors import UserError
from nmtkit.files import CHECKSUMS, damaged_files, write_checksums
from nmtkit.train import Silent, resume, settings_from, settings_to_resume, train
from nmtkit.train import trainer as module
from nmtkit.train.objective import Objective
from nmtkit.train.state import FOLDER, PREVIOUS, whole_checkpoint
from tests.conftest import contents
from tests.micro import MICRO, records, results, run, trainer


def go_on(folder: Path, *assignments: str) -> None:
    resume(settings_to_resume(folder, assignments), folder)


# -------------------------------------------------------------------------- damaged checkpoints


def broken_state(change: Any) -> Any:
    def apply(folder: Path) -> None:
        path = folder / "checkpoint" / "state.json"
        table = json.loads(path.read_text(encoding="utf-8"))
        change(table)
        path.write_text(json.dumps(table), encoding="utf-8")
        write_checksums(path.parent)  # made, not damaged

    return apply


def cut(name: str) -> Any:
    def apply(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes()[:-1])

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut("metrics.jsonl"), None),  # the record of the end is not needed
        (lambda folder: (folder / "metrics.jsonl").write_text("{}\n"), "shorter than the check"),
        (lambda folder: (folder / "metrics.jsonl").unlink(), "shorter than the checkpoint says"),
        (broken_state(lambda table: table.pop("corpus")), "not the state of a training run"),
        (broken_state(lambda table: table.update(corpus="0")), "not the one that the run began"),
        (broken_state(lambda table: table.pop("epoch")), "not the state of a training run"),
        (broken_state(lambda table: table.update(more=1)), "not the state of a training run"),
        (broken_state(lambda table: table.update(epoch=-1)), "epoch cannot be -1"),
        (broken_state(lambda table: table.update(epoch=1.5)), "epoch must be a whole number"),
        (broken_state(lambda table: table.update(update=True)), "update cannot be True"),
        (broken_state(lambda table: table.update(loss="1")), "loss cannot be '1'"),
    ],
)
def test_broken_checkpoints(micro, tmp_path, damage, message):
    run(micro, tmp_path / "m", "updates=2", "valid_every=2")
    damage(tmp_path / "m")
    if message is None:
        go_on(tmp_path / "m")
    else:
        with pytest.raises(UserError, match=message):
            go_on(tmp_path / "m")


def test_a_checkpoint_of_another_model(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=2")
    chosen = settings_from(str(micro), assignments=[*MICRO, "model.hidden=9", "training.updates=2"])
    train(chosen, tmp_path / "other")
    for name in ("model", "optimizer"):
        path = Path("checkpoint") / f"{name}.safetensors"
        mine = (tmp_path / "m" / path).read_bytes()
        (tmp_path / "m" / path).write_bytes((tmp_path / "other" / path).read_bytes())
        write_checksums(tmp_path / "m" / "checkpoint")
        with pytest.raises(UserError, match=rf"{name}\.safetensors: .*\("):
            go_on(tmp_path / "m")
        (tmp_path / "m" / path).write_bytes(mine)
        write_checksums(tmp_path / "m" / "checkpoint")


def flip(path: Path, place: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


def test_every_flipped_bit_is_found(micro, tmp_path):
    """In every file of a checkpoint, its checksums too: random places, the first and the last."""
    run(micro, tmp_path / "m", "updates=2", "valid_every=1", "average=2")
    draw = random.Random(1)
    files = sorted((tmp_path / "m" / FOLDER).iterdir())
    assert len(files) == 8
    for path in files:
        size = path.stat().st_size
        for place in (0, size - 1, *(draw.randrange(size) for _ in range(20))):
            bit = draw.randrange(8)
            flip(path, place, bit)
            found = damaged_files(path.parent)
            assert path.name in found or (found and path.name == CHECKSUMS)
            flip(path, place, bit)
    assert damaged_files(path.parent) == []


@pytest.mark.parametrize("name", ["model.safetensors", "best.safetensors", "state.json", "cut"])
def test_the_checkpoint_before_is_offered_and_goes_on_as_well(micro, tmp_path, name):
    options = ("updates=11", "valid_every=2", "save_every=3", "average=2")
    run(micro, tmp_path / "whole", *options)
    run(micro, tmp_path / "m", *options, "updates=9")
    place = tmp_path / "m" / FOLDER
    if name == "cut":
        name = "optimizer.safetensors"
        os.truncate(place / name, 1000)
    else:
        flip(place / name, 200, 3)
    before = contents(tmp_path / "m")
    with pytest.raises(UserError) as caught:
        go_on(tmp_path / "m", "training.updates=11")
    assert str(caught.value) == (
        f"{place} is damaged ({name}): remove that folder, and --resume goes on from "
        f"{tmp_path / 'm' / PREVIOUS}, which is whole, at update 8"
    )
    assert contents(tmp_path / "m") == before
    shutil.rmtree(place)
    go_on(tmp_path / "m", "training.updates=11")
    assert results(tmp_path / "m") == results(tmp_path / "whole")


def test_no_checkpoint_is_whole(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=2")
    for name in (FOLDER, PREVIOUS):
        (tmp_path / "m" / name / "random.safetensors").unlink()
    with pytest.raises(UserError, match=r"\(random.safetensors\), and no other .* --overwrite$"):
        go_on(tmp_path / "m")
    shutil.rmtree(tmp_path / "m" / FOLDER)
    with pytest.raises(UserError, match=r"checkpoint.previous is damaged .* no other checkpoint"):
        go_on(tmp_path / "m")


# --------------------------------------------------------------------- killed while it is written


def killed_at(number: int, save: Any) -> bool:
    """Whether a process is killed at the file operation of this number, doing `save`; from 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that other threads are not in the new process
        child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, arguments: Any) -> None:
            nonlocal count
            if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"):
                count += 1
                if count == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        save()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_one_checkpoint_is_whole_at_every_moment_of_writing(micro, tmp_path):
    subject = trainer(micro, tmp_path / "m", "average=2", "valid_every=1")
    for _ in range(2):
        subject._epoch()
    folder = tmp_path / "m"
    before = contents(folder)
    old = {name for name in (FOLDER, PREVIOUS) if (folder / name).is_dir()}
    assert old == {FOLDER, PREVIOUS}
    states = {json.loads(before[f"{name}/state.json"])["seconds"] for name in old}
    found, number = [], 1
    while killed_at(number, subject.save):
        place = whole_checkpoint(folder)
        seconds = json.loads((place / "state.json").read_text())["seconds"]
        found.append((place.name, seconds in states))
        assert damaged_files(place) == []
        number += 1
        shutil.rmtree(folder)
        for name, content in before.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    assert number > 40
    # The old one, then the old one by its new name, then the new one.
    assert list(dict.fromkeys(found)) == [(FOLDER, True), (PREVIOUS, True), (FOLDER, False)]


def test_what_a_killed_process_had_begun_is_removed(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=2")
    for name in (".checkpoint.a1b2c3d4", ".checkpoint._x"):
        (tmp_path / "m" / name).mkdir()
        (tmp_path / "m" / name / "model.safetensors").touch()
    for name in (".model.safetensors.abc", ".config.toml.abc", ".mine"):
        (tmp_path / "m" / name).touch()
    go_on(tmp_path / "m", "training.updates=3")
    assert [p.name for p in (tmp_path / "m").iterdir() if p.name.startswith(".")] == [".mine"]


# ------------------------------------------------------------------------------- disks that fail


class Filling(Silent):
    """The disk is full from an update on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.monkeypatch, self.at = monkeypatch, at

    def updated(self, done, record):
        if record["update"] == self.at:
            self.monkeypatch.setattr("os.fsync", self.full)

    def full(self, _: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("at", [4, 6, 9])
def test_a_full_disk_ends_the_run_in_one_line(micro, tmp_path, monkeypatch, at):
    options = ("updates=11", "valid_every=3", "average=2")
    run(micro, tmp_path / "whole", *options)
    out, saved = tmp_path / "m", 3 * (at // 3 - (at % 3 == 0))
    failing = (at + 2) // 3 * 3
    with monkeypatch.context() as patch, pytest.raises(UserError) as caught:
        run(micro, out, *options, reporter=Filling(patch, at))
    assert str(caught.value) == (
        f"{out}: No space left on device: the run ended at update {failing}; when that is put "
        f"right, nmtkit train --resume --out {out} goes on from update {saved}"
    )
    assert damaged_files(out / FOLDER) == damaged_files(out / PREVIOUS) == []
    assert not list(out.rglob(".*"))
    go_on(out)
    assert results(out) == results(tmp_path / "whole")


TRAIN = [sys.executable, "-m", "nmtkit", "train"]


def ended(arguments: list[Any], limit: int | None = None) -> str:
    """The one line of a process that fails; `limit`: bytes that a file may have."""

    def limited() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [*TRAIN, *map(str, arguments)],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("update", "note"))]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_a_file_that_may_not_grow(micro, tmp_path):
    """Of the system's own refusal, in a process: the optimiser's moments do not fit any more."""
    run(micro, tmp_path / "m", "updates=1")
    moments = tmp_path / "m" / FOLDER / "optimizer.safetensors"
    line = ended(["--resume", "--out", tmp_path / "m", "--updates=9"], moments.stat().st_size - 9)
    assert line.startswith(f"nmtkit: {tmp_path / 'm'}: File too large: the run ended at update ")
    assert line.endswith("goes on from update 1")
    go_on(tmp_path / "m", "training.updates=2")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a file system here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_full_indeed(micro, small_disk):
    out = small_disk / "m"
    options = [f"--set={assignment}" for assignment in [*MICRO, "training.average=9"]]
    line = ended([micro, "--out", out, *options, "--updates=40", "--set=training.valid_every=1"])
    assert "No space left on device: the run ended at update" in line
    assert f"nmtkit train --resume --out {out} goes on from update" in line
    update = int(line.rsplit(" ", 1)[1])
    assert json.loads((out / FOLDER / "state.json").read_text())["update"] == update >= 1
    assert damaged_files(out / FOLDER) == damaged_files(out / PREVIOUS) == []


def test_a_folder_that_is_lost(micro, tmp_path):
    class Losing(Silent):
        def updated(self, done, record):
            if record["update"] == 2:
                shutil.rmtree(tmp_path / "m")

    with pytest.raises(UserError, match=r"cannot write .*No such file.*: the run ended at update"):
        run(micro, tmp_path / "m", "updates=9", "valid_every=3", reporter=Losing())


# ---------------------------------------------------------------- memory, and numbers that are none


def test_the_largest_batches_are_tried_first(micro, tmp_path, monkeypatch):
    options = ("updates=6", "bpe_dropout=0.2", "model.dropout_recurrent=0.3")
    tried = []
    objective = Objective.__call__

    def watched(self: Objective, batch: Batch, guide: Any) -> Any:
        tried.append(tuple(batch.source.shape) + tuple(batch.target_out.shape[1:]))
        return objective(self, batch, guide)

    with monkeypatch.context() as patch:
        patch.setattr(Objective, "__call__", watched)
        run(micro, tmp_path / "m", *options)
    epoch = tried[-6:-1]
    assert len(tried) in (7, 8)
    assert max(b * (s + t) for b, s, t in epoch) in [b * (s + t) for b, s, t in tried[:-6]]
    assert max(b * s * t for b, s, t in epoch) in [b * s * t for b, s, t in tried[:-6]]
    monkeypatch.setattr(module, "try_largest", lambda *_: [])
    run(micro, tmp_path / "untried", *options)
    assert results(tmp_path / "m") == results(tmp_path / "untried")
    go_on(tmp_path / "m", "training.updates=8")
    go_on(tmp_path / "untried", "training.updates=8")
    assert results(tmp_path / "m") == results(tmp_path / "untried")


def test_what_does_not_fit_is_told_and_counted(micro, tmp_path, monkeypatch):
    objective = Objective.__call__
    notes = []

    def small(self: Objective, batch: Batch, guide: Any) -> Any:
        if len(batch.source) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return objective(self, batch, guide)

    class Noting(Silent):
        def noted(self, note):
            notes.append(note)

    monkeypatch.setattr(Objective, "__call__", small)
    run(micro, tmp_path / "m", "updates=5", reporter=Noting())
    assert notes[0].startswith("a batch of 13 sentences, ")
    assert notes[0].endswith(" long, does not fit into memory: such ones will be split, which "
                             "takes longer")  # fmt: skip
    found = [record for record in records(tmp_path / "m") if "did_not_fit" in record]
    assert [record["split_batches"] for record in found] == [1, 2, 3, 4]  # the fifth has 8
    for record in found:
        assert [lengths[0] for lengths in record["did_not_fit"]] == [13]
        assert record["left_out"] == []
        assert record["left_out_sentences"] == 0


def test_gradients_that_fail_are_counted_over_a_break(micro, tmp_path, monkeypatch):
    run(micro, tmp_path / "m", "updates=1")
    objective = Objective.__call__

    def poisoned(self: Objective, batch: Batch, guide: Any) -> Any:
        smoothed, figure = objective(self, batch, guide)
        return smoothed * float("nan"), figure

    monkeypatch.setattr(Objective, "__call__", poisoned)
    go_on(tmp_path / "m", "training.updates=7", "training.patience=0")
    state = json.loads((tmp_path / "m" / FOLDER / "state.json").read_text())
    assert (state["skipped"], state["skipped_in_a_row"]) == (6, 6)
    with pytest.raises(UserError, match=r"update 11: the gradient was not finite 10 times"):
        go_on(tmp_path / "m", "training.updates=40", "training.patience=0")
