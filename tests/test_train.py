"""Training: what a run is a function of, resuming, what is kept."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.checkpoint import average, load
from nmtkit.data import PreparedCorpus
from nmtkit.train import Silent, settings_from, train
from tests.conftest import worked
from tests.micro import BATCHES, CPU, MICRO, Keeping, records, results, run, trainer

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


# ------------------------------------------------------------------------------------ what is kept


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
