"""What settings a run is made of, and which are refused."""

from __future__ import annotations

import itertools

import pytest

from nmtkit.errors import UserError
from nmtkit.models.rnnsearch import RNNsearchConfig
from nmtkit.train import TrainingConfig, preset_names, settings_from
from tests.micro import run


def test_later_settings_go_over_earlier_ones(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        'data = "here"\npreset = "tiny"\n[model]\nhidden = 77\n[training]\nclip = 5.0\nseed = 3\n'
    )
    chosen = settings_from("there", config=path, assignments=["training.seed=4"])
    model, training = chosen.model, chosen.training
    assert isinstance(model, RNNsearchConfig)
    assert isinstance(training, TrainingConfig)
    assert chosen.data == "there"
    assert (model.hidden, model.embedding) == (77, 64)
    assert (training.clip, training.seed) == (5.0, 4)
    assert training.batch_sentences == 80
    other = settings_from(None, preset="small", config=path).model
    assert isinstance(other, RNNsearchConfig)
    assert other.embedding == 256
    assert settings_from(None, config=path).data == "here"


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["model.hiden=3"], r"unknown key in settings \[model\] 'hiden': did you mean 'hidden'"),
        (["trainin.seed=3"], r"unknown key in settings 'trainin': did you mean 'training'"),
        (["model.architecture=rnnserch"], "'rnnserch': did you mean 'rnnsearch'"),
        (["preset=smal"], "unknown preset of rnnsearch 'smal': did you mean 'small'"),
        (["training.optimizer=adm"], "'adm': did you mean 'adam'"),
        (["training.schedule=cosin", "training.epochs=1"], "did you mean 'cosine'"),
        (["model.order=main"], "order in settings"),
        (["model.hidden=big"], r"hidden must be an integer, not 'big'"),
        (["model.hidden=1.5"], r"hidden must be an integer, not 1\.5"),
        (["model.hidden=true"], "hidden must be an integer, not true"),
        (["model.hidden=0"], "hidden must be at least 1, got 0"),
        (["model.dropout_readout=1.0"], "dropout_readout must be at least 0 and below 1"),
        (["model=3"], "model must be a table"),
        (["training=3"], "training must be a table"),
        (["training"], "write it as key=value"),
        (["=3"], "write it as key=value"),
        (["training.seed.more=3"], "seed must be an integer, not a table"),
        (["training.seed='"], "not a TOML value"),
        (["training.seed=-1"], "seed must be at least 0"),
        ([f"training.seed={2**63}"], "seed is an integer of more than 64 bits"),
        (["training.learning_rate=0"], "learning_rate must be above 0"),
        (["training.learning_rate=nan"], "learning_rate must be above 0"),
        (["training.learning_rate=inf"], "learning_rate must be above 0"),
        (["training.clip=-1"], "clip must be at least 0"),
        (["training.minutes=inf"], "minutes must be at least 0"),
        (["training.rho=1.0"], "rho must be at least 0 and below 1"),
        (["training.patience=0"], "the run has no end"),
        (["training.batch_sentences=0"], "batch_sentences or batch_tokens"),
        (["training.schedule=cosine"], "the cosine schedule needs an end"),
    ],
)
def test_settings_that_are_refused(assignments, message):
    with pytest.raises(UserError, match=message):
        settings_from("data", assignments=assignments)


def test_data_must_be_named():
    with pytest.raises(UserError, match="data must name the prepared corpus"):
        settings_from(None)


def test_what_needs_a_gpu_or_bpe_says_so(micro, tmp_path, toy):
    with pytest.raises(UserError, match="bfloat16 needs a CUDA GPU"):
        run(micro, tmp_path / "m", "precision=bfloat16", "updates=1")
    with pytest.raises(UserError, match="bpe_dropout needs BPE"):
        run(toy.data, tmp_path / "m", "bpe_dropout=0.1", "updates=1")
    assert not (tmp_path / "m").exists()


def test_presets_are_complete_settings():
    assert preset_names() == ["tiny", "small", "base", "paper", "aligner"]
    guide = ["training.guide=links"]  # without one the aligner has nothing to learn
    for name, other in itertools.combinations(preset_names(), 2):
        found = [settings_from("data", preset=one, assignments=guide) for one in (name, other)]
        assert found[0] != found[1]
    with pytest.raises(UserError, match="give a guide"):
        settings_from("data", preset="aligner")
