"""nmtkit align with a model whose alignment head reads both directions; nmtkit train --guide."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from nmtkit.align import AlignOptions, align, turned
from nmtkit.checkpoint import load
from nmtkit.links import format_pharaoh
from tests.conftest import MICRO_PAIRS, command, failed, lines_of, misused, worked, write
from tests.micro import CPU, MICRO, records

GUIDED = [
    *(f"model.{name}=16" for name in ("embedding", "encoder_hidden", "hidden", "attention_units")),
    *("model.alignment_head=true", "training.translation_weight=0", "training.epochs=20"),
    *("training.learning_rate=0.02", "training.schedule=cosine"),
]


@pytest.fixture(scope="module")
def links(micro: Path) -> Path:
    return micro.parent / "train.links"


@pytest.fixture(scope="module")
def headed(micro: Path, links: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt the links of the micro corpus, and nothing else."""
    out = tmp_path_factory.mktemp("headed") / "model"
    settings = [f"--set={assignment}" for assignment in (*MICRO, *GUIDED)]
    worked("train", micro, "--out", out, "--guide", links, *settings)
    return out


@pytest.fixture
def texts(micro: Path) -> tuple[object, ...]:
    return ("--source", micro.parent / "train.aa", "--target", micro.parent / "train.zz")


def aer(found: str, gold: Path, folder: Path) -> float:
    (folder / "found").write_text(found, encoding="utf-8")
    done = worked("score", folder / "found", "--gold", gold, "--json")
    return 100 * float(json.loads(done)[str(folder / "found")]["aer"])


# ------------------------------------------------------------------------------------------- align


def test_the_head_is_what_is_read(headed, texts, links, tmp_path):
    found = worked("align", headed, *texts)
    assert worked("align", headed, *texts, "--rows", "head") == found
    assert aer(found, links, tmp_path) < 5
    assert aer(worked("align", headed, *texts, "--rows", "predicting"), links, tmp_path) > 20


@pytest.mark.parametrize("way", ["posterior-mean", "product", "grow-diag-final-and"])
def test_both_directions_of_one_model(headed, texts, links, tmp_path, way):
    found = worked("align", headed, *texts, "--symmetrize", way)
    trained = load(headed, CPU)
    other = turned(trained)
    assert other is not None
    options = AlignOptions(symmetrize=way)
    wanted = align([trained], MICRO_PAIRS["train"], options, reverse=[other])
    assert lines_of(found) == [format_pharaoh(one.links) for one in wanted]
    assert aer(found, links, tmp_path) < 5


def test_a_reverse_model_goes_before_the_head(headed, toy, texts):
    """Then the head reads one direction only."""
    given = ("align", headed, *texts, "--symmetrize", "posterior-mean")
    found = worked(*given, "--reverse", toy.reverse)
    options, other = AlignOptions(symmetrize="posterior-mean"), load(toy.reverse, CPU)
    wanted = align([load(headed, CPU)], MICRO_PAIRS["train"], options, reverse=[other])
    assert lines_of(found) == [format_pharaoh(one.links) for one in wanted]
    assert found != worked(*given)


def test_auto_needs_no_reverse_and_no_gold(headed, texts, links, tmp_path):
    done = command("align", headed, *texts, "--method", "auto", "--symmetrize", "intersection")
    said = re.search(r"chose (--rows head .*): agreement ([0-9.]+) of both", done.err)
    assert said
    assert float(said[2]) > 80
    assert worked("align", headed, *texts, *said[1].split(" ")) == done.out
    assert aer(done.out, links, tmp_path) < 5


def test_formats_that_hold_two_directions(headed, texts):
    both = worked("align", headed, *texts, "--format", "symal", "--symmetrize", "intersection")
    assert len(lines_of(both)) == 3 * len(MICRO_PAIRS["train"])


def test_a_decoder_that_has_not_been_trained(headed, texts, micro, tmp_path):
    """It is said that its figures mean nothing; of the same model with another weight, nothing."""
    warning = f"warning: {headed} was trained to align only: its translations mean nothing\n"
    done = command("translate", headed, "--beam", 1, stdin="bada\n")
    assert (done.code, done.err) == (0, warning)
    done = command("score", "--model", headed, *texts)
    assert (done.code, done.err.startswith(warning)) == (0, True)
    n_best = write(tmp_path / "n-best", ["0 ||| a ||| ||| 0"])
    done = command("score", "--model", headed, *texts[:2], "--n-best", n_best)
    assert (done.code, done.err) == (0, warning)
    message = failed("align", headed, "--faithfulness", *texts)
    assert message.startswith(f"{headed}: it was trained to align only, and cannot say how")
    trained = load(headed, CPU)
    other = turned(trained)
    assert other is not None
    assert not trained.translates
    assert not other.translates
    copy = Path(shutil.copytree(headed, tmp_path / "m"))
    text = (copy / "config.toml").read_text(encoding="utf-8")
    assert "\ntranslation_weight = 0.0\n" in text or "\ntranslation_weight = 0\n" in text
    for weight in ("translation_weight = 0.5\n", ""):
        changed = re.sub(r"(?m)^translation_weight = .*\n", weight, text)
        (copy / "config.toml").write_text(changed, encoding="utf-8")
        assert command("translate", copy, "--beam", 1, stdin="bada\n").err == ""
        found = json.loads(worked("align", copy, "--faithfulness", *texts, "--json"))
        assert found["pairs"] == len(MICRO_PAIRS["train"])


def test_models_without_head(toy, headed, texts):
    message = failed("align", toy.model, *texts, "--rows", "head")
    assert message.startswith(f"{toy.model}: it has no alignment head to read")
    message = failed("align", headed, *texts, "--reverse", toy.reverse, "--rows", "head")
    assert message.startswith(f"{toy.reverse}: it has no alignment head to read")
    for options, wanted in (
        (("--symmetrize", "product"), "--symmetrize needs two directions: --reverse, a model with"),
        (("--method", "auto"), "--gold FILE with links of these pairs, or --reverse MODEL"),
    ):
        flat = " ".join(misused("align", toy.model, *texts, *options).replace("│", " ").split())
        assert wanted in flat


# ------------------------------------------------------------------------------------------- train


def test_the_guide_stands_in_the_settings(headed, links, micro, tmp_path, monkeypatch):
    """As it is given, whatever its name; --config then repeats the run."""
    text = (headed / "config.toml").read_text(encoding="utf-8")
    assert f'\nguide = "{links}"\n' in text
    assert all("valid_bleu" not in record for record in records(headed))
    strange = 'true = 1 "ж\\.links'
    (tmp_path / strange).write_bytes(links.read_bytes())
    monkeypatch.chdir(tmp_path)
    settings = [f"--set={assignment}" for assignment in (*MICRO, *GUIDED, "training.epochs=1")]
    worked("train", micro, "--out", "a", "--guide", strange, *settings)
    worked("train", "--config", "a/config.toml", "--out", "b")
    for name in ("model.safetensors", "config.toml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_guides_that_are_refused(micro, links, tmp_path):
    lines = links.read_text(encoding="utf-8").split("\n")[:-1]
    few = write(tmp_path / "few", lines[1:])
    far = write(tmp_path / "far", [*lines[:-1], "99-0"])
    settings = [f"--set={assignment}" for assignment in (*MICRO, *GUIDED)]
    given = ("train", micro, "--out", tmp_path / "m", *settings)
    for options, message in (
        (("--guide", few), f"{few} has 59 lines, but {micro} was made from 60 pairs and kept 60"),
        (("--guide", far), f"{far}:60: link 99-0 is out of bounds"),
        (("--guide", tmp_path / "no"), f"cannot read {tmp_path / 'no'}"),
        (
            (
                "--guide",
                links,
                "--set=model.alignment_head=false",
                "--set=training.guide_rows=head",
            ),
            "training.guide_rows = head needs model.alignment_head = true",
        ),
    ):
        assert failed(*given, *options).startswith(message)
        assert not (tmp_path / "m").exists()
    message = failed("train", micro, "--out", tmp_path / "m", "--arch", "ibm1", "--guide", links)
    assert message.endswith("ibm1 and hmm have no guide: leave out --guide (training.guide)")
