"""The figures of the validation set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nmtkit.train import validation
from tests.conftest import prepare, write
from tests.micro import records, run

TARGET = ["Der Hund sieht das Haus", "Die Katze sieht den Baum", "Ein Vogel sitzt im Baum"]
SOURCE = ["the dog sees the house", "the cat sees the tree", "a bird sits in the tree"]


@pytest.mark.parametrize("case", ["lower", "keep"])
def test_capitals_count_where_the_model_can_write_them(tmp_path, monkeypatch, case):
    for name in ("train", "valid"):
        write(tmp_path / f"{name}.aa", SOURCE)
        write(tmp_path / f"{name}.zz", TARGET)
    data = prepare(tmp_path, "aa-zz", tmp_path / "data", "--merges", "9", "--case", case)
    lowered = [[SimpleNamespace(text=line.lower())] for line in TARGET]
    monkeypatch.setattr(validation, "translate", lambda *_: iter(lowered))
    run(data, tmp_path / "m", "updates=1", "valid_every=1")
    (found,) = [one["valid_bleu"] for one in records(tmp_path / "m") if "best" in one]
    assert (found > 99.9) == (case == "lower")
