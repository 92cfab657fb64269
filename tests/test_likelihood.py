"""Log-probabilities of given pairs: what search reported, whatever the batch."""

from __future__ import annotations

import json
import math

import pytest

from nmtkit.batches import BatchSize
from nmtkit.checkpoint import Trained, load
from nmtkit.likelihood import LikelihoodOptions, LogProbability, log_probabilities, perplexity
from nmtkit.search import SearchOptions
from nmtkit.translate import TranslateOptions, translate
from tests.conftest import failed, misused, raw, worked, write
from tests.micro import CPU


@pytest.fixture(scope="module")
def trained(toy) -> Trained:
    return load(toy.model, CPU)


def one_by_one(batch: int) -> LikelihoodOptions:
    return LikelihoodOptions(BatchSize(sentences=batch, tokens=0, pool=1), read_ahead=5)


def test_search_reports_the_same(toy, trained):
    lines = [raw(source) for source, _ in toy.common[:8]]
    # The best only: what comes after it may hold words that are cut otherwise when read again.
    options = TranslateOptions(search=SearchOptions(beam=3))
    best = [n_best[0] for n_best in translate([trained], lines, options)]
    pairs = [(line, output.text) for line, output in zip(lines, best, strict=True)]
    reported = [output.log_prob for output in best]
    found = [one.value for one in log_probabilities([trained], pairs, LikelihoodOptions())]
    assert found == pytest.approx(reported, abs=1e-4)
    assert len(found) == 8


@pytest.mark.parametrize("batch", [1, 7])
def test_batches_change_nothing(toy, trained, batch):
    pairs = [*[(raw(s), raw(t)) for s, t in toy.common[:9]], ("", "x"), ("x", ""), ("", "")]
    expected = list(log_probabilities([trained], pairs, one_by_one(64)))
    found = list(log_probabilities([trained], pairs, one_by_one(batch)))
    assert [one.value for one in found] == pytest.approx([one.value for one in expected], abs=1e-5)
    assert [one.subwords for one in found] == [one.subwords for one in expected]
    assert found[-2].subwords == 1  # the end alone


def test_perplexity_by_hand():
    # Four subwords with probabilities 1/2, 1/2, 1/8, 1/2: (2·2·8·2) ** (1/4)
    rows = [LogProbability(math.log(1 / 4), 2), LogProbability(math.log(1 / 16), 2)]
    assert perplexity(rows) == pytest.approx(64**0.25)
    assert perplexity([]) == 1.0


def test_command(toy, tmp_path):
    sources = write(tmp_path / "s", [raw(source) for source, _ in toy.common[:3]])
    targets = write(tmp_path / "t", [raw(target) for _, target in toy.common[:3]])
    call = ("score", "--model", toy.model, "--source", sources, "--target", targets)
    lines = worked(*call).split("\n")
    assert len(lines) == 4
    assert lines.pop() == ""
    found = json.loads(worked(*call, "--json"))
    assert [float(line) for line in lines] == pytest.approx(
        [row["value"] for row in found["pairs"]], abs=1e-6
    )
    assert found["perplexity"] == pytest.approx(
        perplexity(LogProbability(**row) for row in found["pairs"])
    )


def test_mistakes(toy, tmp_path):
    one, two = write(tmp_path / "one", ["a"]), write(tmp_path / "two", ["a", "b"])
    call = ("score", "--model", toy.model)
    assert "1 line, but" in failed(*call, "--source", one, "--target", two)
    assert "go together" in misused(*call, "--source", one)
    assert "say one of" in misused(*call, "--gold", one)
    assert "no other files" in misused("score", one, *call[1:], "--source", one, "--target", one)
