"""Training: what a run is a function of, resuming, what is kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.checkpoint import average, load
from nmtkit.data import PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.train import Silent, TrainingConfig, resume, settings_from, settings_to_resume, train
from nmtkit.train import trainer as module
from tests.conftest import worked
from tests.micro import BATCHES, CPU, MICRO, records, results, run, trainer

# ------------------------------------------------------------- a run is a function of its settings


DROPOUT = [f"model.dropout_{name}=0.2" for name in ("embedding", "readout", "recurrent")]


def test_same_seed_same_bytes(micro, tmp_path):
    options = ("updates=8", "bpe_dropout=0.2", "valid_every=3")
    first = results(run(micro, tmp_path / "a", *options))
    assert results(run(micro, tmp_path / "b", *options)) == first
    other = results(run(micro, tmp_path / "c", *options, "seed=2"))
    assert other["model"] != first["model"]


def test_config_repeats_the_run(micro, tmp_path):
    chosen = settings_from(
        str(micro), None, "tiny", assignments=[*MICRO, *DROPOUT, "training.updates=7"]
    )
    train(chosen, tmp_path / "a")
    config = tmp_path / "a" / "config.toml"
    again = settings_from(None, config=config)
    assert again == chosen
    train(again, tmp_path / "b")
    assert results(tmp_path / "b") == results(tmp_path / "a")
    assert (tmp_path / "b" / "config.toml").read_bytes() == config.read_bytes()


def test_every_pair_is_read_once_an_epoch(micro, tmp_path):
    corpus = PreparedCorpus.open(micro)
    seen: list[list[tuple[int, ...]]] = []
    subject = trainer(micro, tmp_path / "m")
    update = subject._update

    def watched(batch: Batch, guide: Tensor | None = None) -> Any:
        if subject.position.batch == 0:
            seen.append([])
        rows = batch.source.tolist()
        seen[-1] += [tuple(i for i in row if i) for row in rows]
        return update(batch, guide)

    subject._update = watched  # type: ignore[method-assign]
    for _ in range(2):
        subject._epoch()
    wanted = sorted((*corpus.train.source(i).tolist(), 3) for i in range(len(corpus.train)))
    assert sorted(seen[0]) == sorted(seen[1]) == wanted
    assert seen[0] != seen[1]
    assert (subject.position.epoch, subject.position.update) == (2, 2 * BATCHES)


# ---------------------------------------------------------------------------------------- resuming


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


class Interrupting(Silent):
    """Ctrl-C at an update."""

    def __init__(self, at: int) -> None:
        self.at = at

    def updated(self, done, record):
        if record["update"] == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [5, 6, 8])
def test_interrupted_goes_on_from_the_last_validation(micro, tmp_path, at):
    options = ("updates=11", "valid_every=3", "bpe_dropout=0.1")
    run(micro, tmp_path / "whole", *options)
    with pytest.raises(KeyboardInterrupt):
        run(micro, tmp_path / "parts", *options, reporter=Interrupting(at))
    resume(settings_to_resume(tmp_path / "parts"), tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


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
        ("data=elsewhere", r"data \(was .*, now elsewhere\)"),
    ):
        changed = settings_to_resume(tmp_path / "m", [change, "training.updates=9"])
        with pytest.raises(UserError, match=name):
            resume(changed, tmp_path / "m")
    assert results(tmp_path / "m") == before
    training = settings_to_resume(tmp_path / "m").training
    assert isinstance(training, TrainingConfig)
    assert training.updates == 3


def test_nothing_to_resume(micro, tmp_path):
    with pytest.raises(UserError, match=r"nowhere: nothing to resume"):
        settings_to_resume(tmp_path / "nowhere")
    run(micro, tmp_path / "m", "updates=1")
    for path in (tmp_path / "m" / "checkpoint").iterdir():
        path.unlink()
    (tmp_path / "m" / "checkpoint").rmdir()
    with pytest.raises(UserError, match=r"m: nothing to resume: it has no checkpoint"):
        resume(settings_to_resume(tmp_path / "m"), tmp_path / "m")


def broken_state(change: Any) -> Any:
    def apply(folder: Path) -> None:
        path = folder / "checkpoint" / "state.json"
        table = json.loads(path.read_text(encoding="utf-8"))
        change(table)
        path.write_text(json.dumps(table), encoding="utf-8")

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
        (cut("checkpoint/model.safetensors"), "not a whole safetensors file"),
        (cut("checkpoint/optimizer.safetensors"), "not a whole safetensors file"),
        (cut("checkpoint/random.safetensors"), "not a whole safetensors file"),
        (cut("checkpoint/state.json"), None),  # only the newline
        (lambda folder: (folder / "checkpoint" / "state.json").unlink(), "training state"),
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
        resume(settings_to_resume(tmp_path / "m"), tmp_path / "m")
    else:
        with pytest.raises(UserError, match=message):
            resume(settings_to_resume(tmp_path / "m"), tmp_path / "m")


def test_a_checkpoint_of_another_model(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=2")
    chosen = settings_from(str(micro), assignments=[*MICRO, "model.hidden=9", "training.updates=2"])
    train(chosen, tmp_path / "other")
    for name in ("model", "optimizer"):
        path = Path("checkpoint") / f"{name}.safetensors"
        mine = (tmp_path / "m" / path).read_bytes()
        (tmp_path / "m" / path).write_bytes((tmp_path / "other" / path).read_bytes())
        with pytest.raises(UserError, match=rf"{name}\.safetensors: .*\("):
            resume(settings_to_resume(tmp_path / "m"), tmp_path / "m")
        (tmp_path / "m" / path).write_bytes(mine)


# ------------------------------------------------------------------------------------ what is kept


class Keeping(Silent):
    """Remembers the bytes of the model after every validation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[tuple[dict[str, Any], bytes]] = []

    def recorded(self, record):
        if "best" in record:
            self.kept.append((record, (self.folder / "model.safetensors").read_bytes()))


@pytest.mark.parametrize("select", ["loss", "bleu"])
def test_the_best_model_is_kept(micro, tmp_path, select):
    keeping = Keeping(tmp_path / "m")
    rate = 1.0 if select == "loss" else 0.05
    options = (f"learning_rate={rate}", "valid_every=1", "updates=12", f"select={select}")
    run(micro, tmp_path / "m", *options, reporter=keeping)
    sign = -1 if select == "loss" else 1
    best = -math.inf
    for record, _ in keeping.kept:
        value = sign * record[f"valid_{select}"]
        assert record["best"] == (value > best)
        best = max(best, value)
    chosen = [content for record, content in keeping.kept if record["best"]][-1]
    assert not keeping.kept[-1][0]["best"], "the test needs a run that gets worse"
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == chosen
    assert records(tmp_path / "m")[-1][f"best_valid_{select}"] == sign * best


def test_figures_are_those_of_the_model_on_disk(micro, tmp_path):
    run(micro, tmp_path / "m", "updates=6", "valid_every=2")
    found = records(tmp_path / "m")
    model = load(tmp_path / "m", CPU).seq2seq
    corpus = PreparedCorpus.open(micro)
    assert corpus.valid is not None
    loss = tokens = 0.0
    for i in range(len(corpus.valid)):  # one by one: without padding
        batch = Batch.of([corpus.valid.source(i)], [corpus.valid.target(i)])
        logits, _ = model.decode(batch.target_in, model.encode(batch.source, batch.source_mask))
        loss += float(F.cross_entropy(logits[0], batch.target_out[0], reduction="sum"))
        tokens += batch.target_out.numel()
    best = [record for record in found if record.get("best")][-1]
    assert best["valid_loss"] == pytest.approx(loss / tokens, rel=1e-5)
    assert found[-1]["best_valid_loss"] == best["valid_loss"]


def test_average_by_hand():
    models = [
        {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[4.0]])},
        {"a": torch.tensor([3.0, 5.0]), "b": torch.tensor([[1.0]])},
        {"a": torch.tensor([2.0, 2.0]), "b": torch.tensor([[1.0]])},
    ]
    found = average(models)
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "a": [2.0, 3.0],
        "b": [[2.0]],
    }
    assert found["a"].dtype == torch.float32


@pytest.mark.parametrize("rate", [0.3, 0.001])
def test_the_mean_of_the_last_models_is_tried(micro, tmp_path, rate):
    models: list[dict[str, Tensor]] = []

    class Watching(Silent):
        def recorded(self, record):
            if "best" in record:
                path = tmp_path / "m" / "checkpoint" / "model.safetensors"
                last = tmp_path / "m" / "validated" / f"{record['update']:09d}.safetensors"
                models.append(load_file(last))
                assert path.exists() or not models[:-1]

    options = (f"learning_rate={rate}", "valid_every=2", "updates=10", "average=3")
    run(micro, tmp_path / "m", *options, reporter=Watching())
    mean = {name: torch.stack([model[name] for model in models[-3:]]).mean(0) for name in models[0]}
    last = records(tmp_path / "m")[-1]
    singles = [r["valid_loss"] for r in records(tmp_path / "m") if "best" in r]
    assert last["averaged"] == (last["average_valid_loss"] < min(singles)) == (rate == 0.3)
    kept = load_file(tmp_path / "m" / "model.safetensors")
    wanted = mean if last["averaged"] else models[-1]
    for name, tensor in kept.items():
        torch.testing.assert_close(tensor, wanted[name], rtol=1e-6, atol=1e-7)


def test_without_dev_text_the_last_model_is_kept(tmp_path, micro):
    folder = micro.parent
    worked(
        *("preprocess", "--source-lang", "aa", "--target-lang", "zz", "--merges", 60),
        *("--train", folder / "train", "--out", tmp_path / "data", "--workers", 1),
    )
    run(tmp_path / "data", tmp_path / "m", "updates=6", "average=2")
    model, last = (
        (tmp_path / "m" / f"{name}.safetensors").read_bytes()
        for name in ("model", "checkpoint/model")
    )
    assert model == last
    assert records(tmp_path / "m")[-1]["best_update"] == 6
