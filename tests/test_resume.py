"""Resuming: whenever and however a run ends, what goes on from its checkpoint is the same run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nmtkit.errors import UserError
from nmtkit.files import held
from nmtkit.train import (
    Requests,
    Silent,
    Stopped,
    TrainingConfig,
    resume,
    settings_from,
    settings_to_resume,
    state,
    train,
)
from nmtkit.train import trainer as module
from nmtkit.train.plan import Plan
from nmtkit.train.state import FOLDER, PREVIOUS
from nmtkit.train.validation import Validation
from tests.conftest import contents
from tests.micro import BATCHES, MICRO, Keeping, records, results, run, settings, trainer

DROPOUT = [f"model.dropout_{name}=0.2" for name in ("embedding", "readout", "recurrent")]


def go_on(folder: Path, *assignments: str) -> None:
    resume(settings_to_resume(folder, assignments), folder)


RESUMABLE = {
    "epochs": ([], 10),
    "the middle of an epoch": (["valid_every=3"], 6),
    "twice": (["valid_every=2"], 4),
    "BPE-dropout": (["valid_every=3", "bpe_dropout=0.3"], 6),
    "AdamW, warm-up": (["optimizer=adamw", "weight_decay=0.1", "warmup=9", "valid_every=3"], 6),
    "Adadelta": (["optimizer=adadelta", "learning_rate=1.0", "valid_every=3"], 6),
    "plateau": (
        ["schedule=plateau", "decay_patience=1", "learning_rate=0.3", "valid_every=1"],
        7,
    ),
    "average": (["average=3", "valid_every=2", "learning_rate=0.05"], 6),
    "average that wins": (["average=3", "valid_every=1", "learning_rate=0.3"], 6),
    "patience": (["patience=4", "valid_every=1", "learning_rate=0.3"], 5),
    "between validations": (["valid_every=4", "learning_rate=0.3", "average=4"], 7),
    "before the first validation": (["valid_every=9"], 4),
}


@pytest.mark.parametrize("case", RESUMABLE)
def test_resumed_is_uninterrupted(micro, tmp_path, monkeypatch, case):
    monkeypatch.setattr(module, "RECORD_EVERY", 4)
    options, stop = RESUMABLE[case]
    chosen = settings_from(
        str(micro),
        assignments=[*MICRO, *DROPOUT, *(f"training.{a}" for a in [*options, "updates=14"])],
    )
    train(chosen, tmp_path / "whole")
    stopped = settings_from(
        None, config=tmp_path / "whole" / "config.toml", assignments=[f"training.updates={stop}"]
    )
    train(stopped, tmp_path / "parts")
    if case == "twice":
        resume(settings_to_resume(tmp_path / "parts", ["training.updates=9"]), tmp_path / "parts")
    resume(settings_to_resume(tmp_path / "parts", ["training.updates=14"]), tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")
    parts, whole = (tmp_path / name / "config.toml" for name in ("parts", "whole"))
    assert parts.read_bytes() == whole.read_bytes()


def test_resumed_in_an_epoch_when_epochs_are_counted(micro, tmp_path):
    run(micro, tmp_path / "whole", "epochs=2", "valid_every=2")
    run(micro, tmp_path / "parts", "epochs=2", "updates=4", "valid_every=2")
    resume(settings_to_resume(tmp_path / "parts", ["training.updates=0"]), tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")
    assert records(tmp_path / "parts")[-1]["updates"] == 2 * BATCHES


class Dying(Silent):
    """The run ends in the midst of an update, or in a validation's record."""

    def __init__(self, at: int, validated: bool = False) -> None:
        self.at, self.validated = at, validated

    def updated(self, done, record):
        if record["update"] == self.at and not self.validated:
            raise KeyboardInterrupt

    def recorded(self, record):
        if record.get("update") == self.at and "best" in record and self.validated:
            raise KeyboardInterrupt


WAYS = {
    "before the first checkpoint": (Dying(1), "valid_every=3"),
    "between validations": (Dying(5), "valid_every=3"),
    "at a validation": (Dying(6), "valid_every=3"),
    "after a validation": (Dying(7), "valid_every=3"),
    "its record written": (Dying(6, validated=True), "valid_every=3"),
    "saved between": (Dying(6), "valid_every=4,save_every=3"),
    "saved at every update": (Dying(8), "save_every=1"),
    "saved all the time": (Dying(8), "save_minutes=1e-9"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_dies_goes_on_from_its_last_checkpoint(micro, tmp_path, monkeypatch, way):
    monkeypatch.setattr(module, "RECORD_EVERY", 4)
    reporter, more = WAYS[way]
    options = (*more.split(","), "updates=11", "bpe_dropout=0.1", "average=2", "learning_rate=0.1")
    run(micro, tmp_path / "whole", *options)
    with pytest.raises(KeyboardInterrupt):
        run(micro, tmp_path / "parts", *options, reporter=reporter)
    go_on(tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")
    assert (tmp_path / "parts" / "validated").exists()
    kept = [contents(tmp_path / name / "validated") for name in ("parts", "whole")]
    assert kept[0] == kept[1]


def test_resuming_undoes_what_the_end_of_the_run_did(micro, tmp_path):
    keeping = Keeping(tmp_path / "m")
    options = ("average=3", "valid_every=2", "learning_rate=0.3", "updates=10")
    run(micro, tmp_path / "m", *options, reporter=keeping)
    assert records(tmp_path / "m")[-1]["averaged"]
    best = [content for record, content in keeping.kept if record["best"]][-1]
    path = tmp_path / "m" / "model.safetensors"
    assert path.read_bytes() != best
    trainer(micro, tmp_path / "m", *options).resume()
    assert path.read_bytes() == best


def test_a_finished_run_stays_as_it_is(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=7", "valid_every=3", "average=2")
    before = results(tmp_path / "m")
    resume(settings_to_resume(tmp_path / "m"), tmp_path / "m")
    assert results(tmp_path / "m") == before


def test_a_resumed_run_keeps_its_settings(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=3")
    before = results(tmp_path / "m")
    for change, name in (
        ("training.learning_rate=0.5", r"training\.learning_rate \(was 0\.001, now 0\.5\)"),
        ("training.seed=2", r"training\.seed"),
        ("model.hidden=9", r"model\.hidden \(was 8, now 9\)"),
        ("training.deterministic=true", r"training\.deterministic \(was False, now True\)"),
        ("data=elsewhere", r"data \(was .*, now elsewhere\)"),
    ):
        changed = settings_to_resume(tmp_path / "m", [change, "training.updates=9"])
        with pytest.raises(UserError, match=name):
            resume(changed, tmp_path / "m")
    assert results(tmp_path / "m") == before
    training = settings_to_resume(tmp_path / "m").training
    assert isinstance(training, TrainingConfig)
    assert training.updates == 3


def test_two_do_not_train_into_one_folder(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=2")
    before = results(tmp_path / "m")
    chosen = settings_from(str(micro), assignments=[*MICRO, "training.updates=2"])
    with held(tmp_path / "m"):
        with pytest.raises(UserError, match=r"m: another process is training there"):
            go_on(tmp_path / "m", "training.updates=4")
        with pytest.raises(UserError, match=r"m: another process is training there"):
            train(chosen, tmp_path / "m", overwrite=True)
    assert results(tmp_path / "m") == before
    go_on(tmp_path / "m", "training.updates=4")


@pytest.mark.parametrize("way", ["new", "overwrite", "resume"])
def test_a_run_keeps_others_out_while_it_lasts(micro, tmp_path, way):
    folder, refused = tmp_path / "m", []

    class Second(Silent):
        def updated(self, done, record):
            with pytest.raises(UserError, match=r"another process is training there"):
                resume(settings_to_resume(folder), folder)
            refused.append(done)

    chosen = settings_from(str(micro), assignments=[*MICRO, "training.updates=2"])
    if way != "new":
        train(chosen, folder)
    if way == "resume":
        resume(settings_to_resume(folder, ["training.updates=4"]), folder, Second())
    else:
        train(chosen, folder, Second(), overwrite=way == "overwrite")
    assert refused
    with held(folder):  # and no longer
        pass


def test_nothing_to_resume(micro, tmp_path):
    with pytest.raises(UserError, match=r"nowhere: nothing to resume"):
        settings_to_resume(tmp_path / "nowhere")
    run(micro, tmp_path / "m", "updates=1")
    for name in (FOLDER, PREVIOUS):
        shutil.rmtree(tmp_path / "m" / name)
    with pytest.raises(UserError, match=r"m: nothing to resume: it has no checkpoint"):
        resume(settings_to_resume(tmp_path / "m"), tmp_path / "m")


def test_when_to_save_may_change(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=3")
    go_on(tmp_path / "m", "training.updates=4", "training.save_every=1", "training.save_minutes=0")
    assert "save_every = 1\n" in (tmp_path / "m" / "config.toml").read_text(encoding="utf-8")


# ---------------------------------------------------------------------- the position in an epoch


def test_the_position_is_found_by_the_sentences_read(micro, tmp_path):
    plan = trainer(micro, tmp_path / "m")._plan()
    sizes = [len(indices) for indices in plan.batches]
    assert sorted(sizes) == [8, 13, 13, 13, 13]
    for number in range(BATCHES):
        read = sum(sizes[:number])
        assert plan.first(read) == number
        assert plan.first(read + 1) == number  # other batches: none is left out


def test_no_batch_is_read_again(micro, tmp_path, monkeypatch):
    run(micro, tmp_path / "m", "updates=8", "valid_every=4")
    asked = []
    read = Plan.read

    def watched(self: Plan, number: int, *more: Any) -> Any:
        asked.append((self.epoch, number))
        return read(self, number, *more)

    monkeypatch.setattr(Plan, "read", watched)
    monkeypatch.setattr(module, "try_largest", lambda *_: [])
    go_on(tmp_path / "m", "training.updates=11")
    assert asked == [(1, 3), (1, 4), (2, 0), (2, 1)]  # the last: ahead of its time


# ------------------------------------------------------------------------------ asked to stop, save


class Asking(Silent):
    """Asks something of the run at an update."""

    def __init__(self, at: int, ask: Any) -> None:
        self.at, self.ask = at, ask

    def updated(self, done, record):
        if record["update"] == self.at:
            self.ask()


@pytest.mark.parametrize("at", [1, 4, 5, 6, 10])
def test_a_run_that_is_asked_to_stop_saves_first(micro, tmp_path, at):
    """Update 5 ends an epoch: the validation that is due then is made when the run goes on."""
    options = ("epochs=3", "average=2")
    run(micro, tmp_path / "whole", *options)
    requests = Requests()
    with pytest.raises(Stopped):
        train(settings(micro, *options), tmp_path / "m", Asking(at, requests.stop), False, requests)
    state = json.loads((tmp_path / "m" / "checkpoint" / "state.json").read_text())
    assert state["update"] == at
    assert state["validated"] == (0 if at <= 5 else 5)
    go_on(tmp_path / "m")
    assert results(tmp_path / "m") == results(tmp_path / "whole")


@pytest.mark.parametrize("which", [1, 2, 3, 4])
def test_a_validation_is_left_at_once(micro, tmp_path, monkeypatch, which):
    """The third is the one at the end, the fourth of the average."""
    options = ("updates=9", "valid_every=4", "average=2")
    run(micro, tmp_path / "whole", *options)
    requests, figures, count = Requests(), Validation.figures, [0]

    def stopped(self: Validation) -> dict[str, float]:
        count[0] += 1
        if count[0] == which:
            requests.stop()
            pytest.fail("nothing comes after that")
        return figures(self)

    with monkeypatch.context() as patch:
        patch.setattr(Validation, "figures", stopped)
        with pytest.raises(Stopped):
            train(settings(micro, *options), tmp_path / "m", requests=requests)
    go_on(tmp_path / "m")
    assert results(tmp_path / "m") == results(tmp_path / "whole")


def test_stopped_before_it_began(micro, tmp_path, monkeypatch):
    requests = Requests()
    monkeypatch.setattr(module, "epoch_batches", lambda *_: requests.stop())
    with pytest.raises(Stopped):
        train(settings(micro), tmp_path / "m", requests=requests)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_asked_to_save_goes_on(micro, tmp_path, monkeypatch):
    requests, saved = Requests(), []
    save = state.save_state

    def watched(*arguments: Any, **named: Any) -> None:
        saved.append(arguments[3].update)
        save(*arguments, **named)

    monkeypatch.setattr("nmtkit.train.trainer.save_state", watched)
    options = ("updates=9", "valid_every=6")
    train(settings(micro, *options), tmp_path / "m", Asking(3, requests.save), False, requests)
    assert saved == [0, 3, 6, 9]
    run(micro, tmp_path / "whole", *options)
    assert results(tmp_path / "m") == results(tmp_path / "whole")
