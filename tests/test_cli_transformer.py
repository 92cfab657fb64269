"""A Transformer through the commands: train, translate, score, align from any layer and head."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nmtkit.checkpoint import load
from nmtkit.models.transformer import Transformer
from tests.conftest import MICRO_PAIRS, command, failed, lines_of, misused, worked
from tests.micro import CPU, records

SETTINGS = [
    *("model.embedding=32", "model.heads=4", "model.feed_forward=64", "model.dropout_residual=0"),
    *("model.encoder_layers=2", "model.decoder_layers=2", "model.dropout_embedding=0"),
    *("model.tied_embeddings=target", "training.batch_sentences=13", "training.device=cpu"),
    *("training.select=loss", "training.learning_rate=0.01", "training.epochs=12"),
]


def trained(data: Path, out: Path, *settings: str, guide: bool = False) -> Path:
    assignments = [f"--set={assignment}" for assignment in (*SETTINGS, *settings)]
    links = ("--guide", data.parent / "train.links") if guide else ()
    worked("train", data, "--arch", "transformer", "--out", out, *links, *assignments)
    return out


@pytest.fixture(scope="module")
def guided(micro: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its decoder's first head of the first layer has learnt links, from the row after a word."""
    out = tmp_path_factory.mktemp("guided") / "model"
    settings = ("model.attention_head=1", "training.guide_rows=consumed")
    return trained(micro, out, *settings, guide=True)


@pytest.fixture(scope="module")
def headed(micro: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("headed") / "model"
    settings = ("model.alignment_head=true", "training.translation_weight=0")
    return trained(micro, out, *settings, guide=True)


@pytest.fixture
def texts(micro: Path) -> tuple[object, ...]:
    return ("--source", micro.parent / "train.aa", "--target", micro.parent / "train.zz")


def aer(found: str, micro: Path, folder: Path) -> float:
    (folder / "found").write_text(found, encoding="utf-8")
    done = worked("score", folder / "found", "--gold", micro.parent / "train.links", "--json")
    return 100 * float(json.loads(done)[str(folder / "found")]["aer"])


def test_it_learns_and_translates(guided, micro):
    losses = [record["valid_loss"] for record in records(guided) if "valid_loss" in record]
    assert losses[-1] < losses[0] - 0.5
    sources = [source for source, _ in MICRO_PAIRS["valid"]]
    found = lines_of(worked("translate", guided, "--beam", 3, stdin="\n".join(sources) + "\n"))
    assert len(found) == len(sources)
    texts = ("--source", micro.parent / "valid.aa", "--target", micro.parent / "valid.zz")
    assert len(lines_of(worked("score", "--model", guided, *texts))) == len(sources)


def test_a_decoders_head_learns_links(guided, micro, texts, tmp_path):
    found = worked("align", guided, *texts, "--rows", "consumed")
    assert aer(found, micro, tmp_path) < 15
    assert worked("align", guided, *texts, "--rows", "next") == found  # the shift is one
    assert worked("align", guided, *texts, "--rows", "predicting") != found


def test_any_layer_and_head_can_be_read(guided, micro, texts, tmp_path):
    given = ("align", guided, *texts, "--rows", "consumed")
    own = worked(*given)
    assert worked(*given, "--layer", 1, "--head", 1) == own
    others = [worked(*given, *what) for what in (("--layer", 2), ("--head", 2), ("--head", 0))]
    assert len({own, *others}) == 4
    assert min(aer(other, micro, tmp_path) for other in others) > aer(own, micro, tmp_path)


def test_the_alignment_head_reads_both_directions(headed, micro, texts, tmp_path):
    assert aer(worked("align", headed, *texts), micro, tmp_path) < 15
    both = worked("align", headed, *texts, "--symmetrize", "posterior-mean")
    assert aer(both, micro, tmp_path) < 15
    assert worked("align", headed, *texts, "--method", "auto", "--layer", 2)  # of the other rows


def test_what_there_is_not_to_read(guided, headed, model, texts, tmp_path, micro):
    message = failed("align", guided, *texts, "--layer", 3)
    assert message == (f"{guided}: its decoder has no attention of layer 3: --layer may be up to 2")
    message = failed("align", guided, *texts, "--head", 5)
    assert message.endswith("no attention of head 5: --head may be up to 4")
    message = failed("align", model, *texts, "--head", 2)
    assert message.endswith("no attention of head 2: --head may be up to 1")
    misused("align", headed, *texts, "--layer", 1)
    misused("align", headed, *texts, "--layer", 0)
    worked("train", micro, "--arch", "hmm", "--out", tmp_path / "hmm")
    message = failed("align", tmp_path / "hmm", *texts, "--layer", 1)
    assert message == f"{tmp_path / 'hmm'}: its architecture only aligns: leave out --layer"


def test_a_saved_model_is_tied_again(guided):
    found = load(guided, CPU).model
    assert isinstance(found, Transformer)
    assert found.output.weight is found.target_embedding.weight
    assert torch.isfinite(found.output.weight).all()


def test_one_vocabulary_for_all(micro, tmp_path):
    given = ("train", micro, "--arch", "transformer", "--preset", "tiny", "--updates", 1)
    message = failed(*given, "--out", tmp_path / "m", "--set", "model.tied_embeddings=all")
    assert message.startswith("model.tied_embeddings = all needs one vocabulary for both sides")
    assert not (tmp_path / "m").exists()
    wrong = command(*given, "--out", tmp_path / "m", "--set", "model.heads=7")
    assert "embedding must be a multiple of heads, got 64 and 7" in wrong.err
