"""recipes/lineage: its text, and its tables from what the commands leave."""

from __future__ import annotations

import gzip
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.checkpoint import write_tensors

FOLDER = Path(__file__).parent.parent / "recipes" / "lineage"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("report")


def make_run(out: Path, corpus: str, system: str, bleu: float, aer: float | None) -> None:
    model, output = out / "models" / corpus / system, out / "output" / corpus
    model.mkdir(parents=True)
    output.mkdir(parents=True, exist_ok=True)
    tensors = {"W": torch.zeros(20, 1000), "table": torch.zeros(7, dtype=torch.int64)}
    write_tensors(model / "model.safetensors", tensors)
    records = [
        {"update": 10, "best": True, "valid_loss": 3.5},
        {"update": 20, "best": False, "valid_loss": 3.25},
        {"finished": True, "updates": 20, "minutes": 2.04, "best_update": 10},
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (model / "metrics.jsonl").write_text(text, encoding="utf-8")
    buckets = [{"shortest": 1, "longest": 10, "sentences": 4, "value": bleu / 2}]
    scores = [
        {"name": "BLEU", "value": bleu, "by_length": buckets},
        {"name": "chrF2", "value": 40.0},
    ]
    (output / f"{system}.json").write_text(json.dumps({"x": scores}), encoding="utf-8")
    if aer is not None:
        (output / f"{system}.consumed.aer").write_text(json.dumps({"x": {"aer": aer}}))


def test_a_run_is_read_from_what_the_commands_leave(report, tmp_path):
    make_run(tmp_path, "debates", "luong", 12.5, 0.25)
    run = report.read_run(tmp_path, "debates", "luong")
    assert run[:5] == ("luong", 20_000, 2.04, 20, 3.5)
    assert run.aer == {"consumed": 25.0}


def test_the_tables(report, tmp_path):
    for system, bleu, aer in (("seq2seq", 10.0, None), ("luong", 12.5, 0.25)):
        make_run(tmp_path, "debates", system, bleu, aer)
    runs = [report.read_run(tmp_path, "debates", name) for name in ("seq2seq", "luong")]
    rows = report.lineage(runs).split("\n")
    costs = "parameters, M | minutes | updates | dev loss"
    assert rows[0] == f"|  | {costs} | BLEU | chrF2 | 1–10 (4) | AER, consumed |"
    assert rows[2:] == [
        "| seq2seq | 0.02 | 2.0 | 20 | 3.500 | 10.00 | 40.00 | 5.0 | – |",
        "| luong | 0.02 | 2.0 | 20 | 3.500 | 12.50 | 40.00 | 6.2 | 25.0 |",
    ]
    rows = report.ablations(runs, {"seq2seq": "", "luong": "model.cell=lstm"}).split("\n")
    assert rows[2] == "| seq2seq | 0.02 | 2.0 | 20 | 3.500 | 10.00 |  | 40.00 |"
    assert rows[3] == "| luong `cell=lstm` | 0.02 | 2.0 | 20 | 3.500 | 12.50 | +2.50 | 40.00 |"


def test_what_is_kept_of_bleu_at_length(report):
    buckets = [{"shortest": n, "value": bleu} for n, bleu in ((1, 30.0), (11, 20.0), (41, 5.0))]
    assert report.share_kept(buckets) == ["25"]
    assert report.share_kept(buckets[:2]) == []
    assert report.share_kept([{"shortest": n, "value": 0.0} for n in (11, 41)]) == ["–"]


def test_joined_captions(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    out.mkdir()
    for language in ("en", "de"):
        for part, count in (("train", 11), ("val", 4), ("test_2016_flickr", 5)):
            lines = "".join(f"{language}{number}\n" for number in range(count))
            (data / f"{part}.{language}").write_text(lines, encoding="utf-8")
    command = [sys.executable, str(FOLDER / "joined.py"), str(data), str(out), "--passes", "2"]
    subprocess.run(command, check=True)
    found = {path.name: path.read_text(encoding="utf-8") for path in out.iterdir()}
    train = found["joined.train.en"].splitlines()
    assert [len(line.split(" ")) for line in train] == [1, 2, 3, 4, 1] * 2
    for half in (train[:5], train[5:]):
        assert sorted(" ".join(half).split(" ")) == sorted(f"en{n}" for n in range(11))
    assert found["joined.train.de"] == found["joined.train.en"].replace("en", "de")
    wanted = ["de0", "de1", "de2", "de3", "de4", "de0 de1", "de2 de3", "de0 de1 de2"]
    assert found["joined.test.de"].splitlines() == [*wanted, "de0 de1 de2 de3"]
    assert len(found["joined.valid.en"].splitlines()) == 4 + 2 + 1 + 1


def test_what_is_not_made_yet_is_named(report, tmp_path):
    with pytest.raises(report.UserError, match="gnmt: not made yet"):
        report.read_run(tmp_path, "captions", "gnmt")


def test_the_readme_keeps_all_but_the_tables(report, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("# A\n<!-- made by make readme -->\nold\n<!-- end -->\nB\n", encoding="utf-8")
    report.put(readme, "new")
    wanted = "# A\n<!-- made by make readme -->\n\nnew\n\n<!-- end -->\nB\n"
    assert readme.read_text(encoding="utf-8") == wanted
    readme.write_text("# A\n", encoding="utf-8")
    with pytest.raises(report.UserError, match="marks"):
        report.put(readme, "new")


def test_the_recipe_knows_every_system(report):
    text = (FOLDER / "Makefile").read_text(encoding="utf-8")
    assert f"SYSTEMS := {' '.join(report.SYSTEMS)}\n" in text
    assert f"ROWS := {' '.join(report.ROWS)}\n" in text
    trained = [corpus for corpus in report.TITLES if corpus not in report.MODELS_OF]
    assert f"CORPORA := {' '.join(trained)}\n" in text
    assert f"LONG := {' '.join(report.LONG)}\n" in text
    for system in report.SYSTEMS:
        assert (FOLDER / f"{system}.toml").is_file()


def hansards(data: Path, lines: dict[str, list[str]]) -> None:
    """A folder as the recipe wants it: the same lines to train on and as dev."""
    (data / "gold").mkdir(parents=True)
    for language, some in lines.items():
        text = "".join(f"{line}\n" for line in some)
        with gzip.open(data / f"train-a.{language}.gz", "wt", encoding="utf-8") as file:
            file.write(text)
        (data / f"dev.{language}").write_text(text, encoding="utf-8")
        (data / "gold" / f"test.{language}").write_text("a\n", encoding="utf-8")
    (data / "gold" / "test.gold").write_text("0-0\n", encoding="utf-8")


def debates(data: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / "debates.py"), str(data), str(out), "--pairs", "8"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_debates(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    out.mkdir()
    numbers = {language: [f"{language}{n}" for n in range(10)] for language in ("en", "fr")}
    numbers["fr"][1] = " "  # nothing that "en1" could stand beside in the middle of a line
    numbers["en"][6] = " ".join(["long"] * 59)  # no room for two more words
    hansards(data, numbers)
    assert debates(data, out).returncode == 0
    found = {path.name: path.read_text(encoding="utf-8").split("\n") for path in out.iterdir()}
    long = numbers["en"][6]
    assert found["debates.train.en"] == ["en0", "en2 en3", "en4 en5", long + " en7", ""]
    assert found["debates.train.fr"] == ["fr0", "fr2 fr3", "fr4 fr5", "fr6 fr7", ""]
    assert found["debates.valid.fr"] == ["fr0", "fr2 fr3", "fr4", ""]
    assert found["sentences.test.en"] == ["en5", long, "en7", "en8", "en9", ""]
    singles, pairs = ["en5", "en7", "en8", "en9"], ["en5 en7", "en8 en9"]
    assert found["debates.test.en"] == [*singles, *pairs, "en5 en7 en8", "en5 en7 en8 en9", ""]
    assert (found["gold.en"], found["gold.talp"]) == (["a", ""], ["0-0", ""])


@pytest.mark.parametrize("part", ["dev", "train-a"])
def test_debates_of_unequal_length(tmp_path, part):
    data = tmp_path / "data"
    lines = [str(n) for n in range(12)]
    hansards(data, {"en": lines, "fr": lines[:-1]})
    other = {"dev": "train-a", "train-a": "dev"}[part]
    for name in (f"{other}.en.gz", f"{other}.fr.gz"):
        (data / name).unlink(missing_ok=True)
    for language in ("en", "fr"):
        (data / f"{other}.{language}").write_text("a\n", encoding="utf-8")
    done = debates(data, tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert f"{part}.fr" in done.stderr
    assert "has 12 lines, but " in done.stderr
    assert "has 11 lines: they must correspond line by line" in done.stderr


def test_debates_that_are_not_there(tmp_path):
    data = tmp_path / "data"
    hansards(data, {"en": ["a"], "fr": ["b"]})
    (data / "dev.fr").unlink()
    done = debates(data, tmp_path)
    assert done.returncode == 1
    assert "has no dev.fr or dev.fr.gz" in done.stderr


def test_the_table_of_learning_rates(report, tmp_path):
    for name, losses in {"luong@4e-3": [5.0, 4.5], "luong@1e-2": [4.25], "gnmt@4e-3": []}.items():
        folder = tmp_path / "models" / "rates" / name
        folder.mkdir(parents=True)
        lines = [{"update": 1, "train_loss": 9.0}, *({"valid_loss": loss} for loss in losses)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    lines = report.trials(tmp_path).split("\n")
    assert lines[0] == "|  | 4e-3 | 1e-2 |"
    assert "| luong | 4.500 | 4.250 |" in lines
    assert "| gnmt | – | – |" in lines
    assert report.trials(tmp_path / "nowhere") == ""
