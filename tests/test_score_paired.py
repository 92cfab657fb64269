"""Significance of translations: to the last digit what sacrebleu's own command says."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from nmtkit.errors import UserError
from nmtkit.score import TextOptions, Texts
from nmtkit.score.paired import SEED_VARIABLE, Trials, paired_test
from tests.conftest import failed, worked, write

METRICS = ["bleu", "chrf", "chrf++", "ter"]
KEYS = {"p": "p_value", "mean": "mean", "ci": "ci"}  # ours -> sacrebleu's
# Its command, but for one thing: chrF's and TER's intervals are float32, which JSON has not.
COMMAND = (
    "import functools, json; json.dumps = functools.partial(json.dumps, default=float); "
    "from sacrebleu.sacrebleu import main; main()"
)


def invented_systems(lines: int = 60) -> tuple[dict[str, list[str]], list[str]]:
    """Three systems that lose and swap more and more words of the reference."""
    draw = random.Random(7)
    words = "The cat's house, which (we) saw: 3.5% of old gardens; blue sky and water".split(" ")
    references = [
        " ".join(draw.choices(words, k=draw.randint(3, 14))) + draw.choice(".!?")
        for _ in range(lines)
    ]
    systems: dict[str, list[str]] = {}
    for name, damage in (("good", 0.1), ("similar", 0.12), ("worse", 0.35)):
        systems[name] = []
        for line in references:
            kept = [
                draw.choice(words) if draw.random() < damage else word for word in line.split(" ")
            ]
            systems[name].append(" ".join(kept))
    return systems, references


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The systems' files and the reference, last."""
    folder = tmp_path_factory.mktemp("systems")
    systems, references = invented_systems()
    named = {**systems, "reference": references}
    return [write(folder / name, lines) for name, lines in named.items()]


def sacrebleu(files, *options, seed="12345"):
    """The records that sacrebleu's command prints, a system each; chrF++ by a call of its own."""
    *systems, reference = files
    records: list[dict] = [{} for _ in systems]
    for metrics in (("bleu", "chrf", "ter"), ("chrf", "--chrf-word-order", "2")):
        command = [sys.executable, "-c", COMMAND, reference, "-i", *systems, "-f", "json"]
        command += ["-w", "12", "-m", *metrics, *options]
        environment = {**os.environ, SEED_VARIABLE: seed}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        for record, found in zip(records, json.loads(done.stdout), strict=True):
            record.update(found)
    return records


def ours(files, *options):
    *systems, reference = files
    metrics = [f"--metric={name}" for name in METRICS]
    printed = worked("score", *systems, "--reference", reference, *metrics, *options, "--json")
    return list(json.loads(printed).values())


def test_three_systems_have_sacrebleus_scores(files):
    for row, record in zip(ours(files), sacrebleu(files), strict=True):
        assert [one["name"] for one in row] == ["BLEU", "chrF2", "chrF2++", "TER"]
        for one in row:
            assert 0 < one["value"] < 100
            assert f"{one['value']:.12f}" == record[one["name"]]


@pytest.mark.parametrize(
    ("test", "flags", "seed"),
    [
        ("bootstrap", ("--paired-bs", "--paired-bs-n"), 12345),
        ("bootstrap", ("--paired-bs", "--paired-bs-n"), 3),
        ("randomisation", ("--paired-ar", "--paired-ar-n"), 12345),
        ("randomisation", ("--paired-ar", "--paired-ar-n"), 3),
    ],
)
def test_paired_tests_are_sacrebleus(files, test, flags, seed):
    given = () if seed == 12345 else ("--seed", seed)
    found = ours(files, f"--{test}", 200, *given)
    expected = sacrebleu(files, *flags, "200", seed=str(seed))
    for row, record in zip(found, expected, strict=True):
        for one in row:
            theirs = record[one["name"]]
            assert one["value"] == theirs["score"]  # not a digit is off
            for our_key, their_key in KEYS.items():
                assert one[test].get(our_key) == theirs[their_key]
            trials = f"{'bs' if test == 'bootstrap' else 'ar'}:200|"
            assert trials in one[test]["signature"]
            assert f"|seed:{seed}|" in one[test]["signature"]
    assert "p" not in found[0][0][test]  # the baseline
    assert found[1][0][test]["p"] > 0.05 > found[2][0][test]["p"]


def test_both_tests_at_once_change_neither(files):
    both = ours(files, "--bootstrap", 150, "--randomisation", 120)
    for test, count in (("bootstrap", 150), ("randomisation", 120)):
        alone = ours(files, f"--{test}", count)
        assert [[one[test] for one in row] for row in both] == [
            [one[test] for one in row] for row in alone
        ]


def test_one_system_has_sacrebleus_interval(files):
    one, reference = files[0], files[-1]
    command = [sys.executable, "-m", "sacrebleu", reference, "-i", one, "-m", "bleu", "-w", "10"]
    options = ["--confidence", "--confidence-n", "100", "-f", "json"]
    done = subprocess.run([*command, *options], capture_output=True, check=True)
    expected = json.loads(done.stdout)
    found = ours([one, reference], "--bootstrap", 100)[0][0]["bootstrap"]
    assert set(found) == {"mean", "ci", "signature"}
    # Their mean is computed in another way: the last digits differ.
    assert found["mean"] == pytest.approx(expected["confidence_mean"], abs=1e-9)
    assert found["ci"] == pytest.approx(expected["confidence_var"], abs=1e-9)


def test_the_environment_is_as_before(monkeypatch):
    systems, references = invented_systems(20)
    texts, options = Texts(systems, references), TextOptions(("bleu",))
    monkeypatch.setenv(SEED_VARIABLE, "99")
    found = paired_test(texts, options, "bootstrap", 100, seed=5)
    assert os.environ[SEED_VARIABLE] == "99"
    monkeypatch.delenv(SEED_VARIABLE)
    assert paired_test(texts, options, "bootstrap", 100, seed=5) == found
    assert SEED_VARIABLE not in os.environ
    assert paired_test(texts, options, "bootstrap", 100, seed=6) != found


def test_what_cannot_be_tested(files):
    with pytest.raises(UserError, match="99 resamples are too few: use 100 or more"):
        Trials(randomisation=99)
    with pytest.raises(UserError, match="seed must be 1 or more, got 0"):
        Trials(bootstrap=100, seed=0)
    assert Trials(seed=1).asked() == {}
    alone = ("score", files[0], "--reference", files[-1], "--randomisation", 100)
    assert failed(*alone) == "randomisation compares systems: give two or more"
