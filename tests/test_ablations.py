"""The parts of RNNsearch changed and left out: all combinations, what is refused, tied matrices."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit.align import AlignOptions, read_attention
from nmtkit.checkpoint import Trained, load
from nmtkit.config import build as built
from nmtkit.errors import UserError
from nmtkit.models import blank_model, build_model
from nmtkit.models.attention import LOCATIONS
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from nmtkit.text import Text, TextConfig
from nmtkit.train import resume, settings_to_resume, train
from nmtkit.vocabulary import BOS, EOS
from tests.conftest import prepare, write
from tests.micro import CPU, results, run, settings
from tests.test_models import (
    FIXED,
    PAIRS,
    PLAIN,
    SOURCE_SIZE,
    TARGET_SIZE,
    TINY,
    build,
    close,
    padded,
)

# The options that shape the recurrences, all with all; the others as they come.
SHAPES = product(
    ("bidirectional", "forward", "backward"),
    ("gru", "lstm"),
    ("additive", "dot", "general", "concat", "location", "none"),
    ("main-text", "appendix", "groundhog", "conditional"),
)
OTHERS = (("maxout", "tanh"), ("none", "target", "all"), ("before", "after"))
chance = random.Random(1)
COMBINATIONS = [(*shape, *map(chance.choice, OTHERS)) for shape in SHAPES]


def combined(values: tuple[str, ...]) -> dict[str, Any]:
    names = "encoder", "cell", "attention", "order", "readout", "tied_embeddings", "reset"
    chosen: dict[str, Any] = {**PLAIN, "maxout": 3, **dict(zip(names, values, strict=True))}
    if chosen["attention"] == "none":
        chosen["context"] = "fixed"
    if chosen["attention"] == "dot":
        chosen["hidden"] = RNNsearchConfig(**{**chosen, "attention": "additive"}).annotation
    return chosen


@pytest.mark.parametrize("values", COMBINATIONS, ids="-".join)
def test_every_combination_steps_as_it_trains(values: tuple[str, ...]) -> None:
    """Fast, plain and step by step."""
    model = build(("rnnsearch", combined(values)))
    assert isinstance(model, RNNsearch)
    source, mask = padded([source for source, _ in PAIRS])
    target_in = torch.tensor([[BOS, 4, 6, 1]] * len(PAIRS))
    memory = model.encode(source, mask)
    fast, attention = model.decode(target_in, memory)
    model.plain = True
    plain, same = model.decode(target_in, model.encode(source, mask))
    close(fast, plain)
    close(attention, same)
    state = model.start(memory)
    for t, tokens in enumerate(target_in.unbind(1)):
        features, weights, state = model.step(tokens, state, memory)
        close(model.output(features), fast[:, t])
        close(weights, attention[:, t])


@pytest.mark.parametrize("reset", ["before", "after"])
def test_forward_encoder_and_fixed_context_are_rnnencdec(reset: str) -> None:
    one = build(("rnnsearch", {**PLAIN, **FIXED, "encoder": "forward", "reset": reset}))
    [settings] = [settings for settings in TINY["rnnencdec"] if settings["reset"] == reset]
    other = build(("rnnencdec", settings))
    names = {name: name.replace("encoder.forward_gru", "encoder_gru") for name in one.state_dict()}
    one.load_state_dict({name: other.state_dict()[names[name]] for name in names})
    source, mask = padded([source for source, _ in PAIRS])
    target_in = torch.tensor([[BOS, 4, 6, 1]] * len(PAIRS))
    found, expected = (
        model.decode(target_in, model.encode(source, mask)) for model in (one, other)
    )
    close(found[0], expected[0])


def test_location_attends_to_the_first_hundred_words() -> None:
    model = build(("rnnsearch", {**PLAIN, "attention": "location"}))
    source = torch.full((1, LOCATIONS + 7), 4)
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    _, attention = model.decode(torch.tensor([[BOS, 5]]), memory)
    _, stepped, _ = model.step(torch.tensor([BOS]), model.start(memory), memory)
    for weights in (attention[0, 0], stepped[0]):
        assert (weights[:LOCATIONS] > 0).all()
        assert not weights[LOCATIONS:].any()


def test_without_attention_there_is_nothing_to_align_by() -> None:
    text = Text(TextConfig("en", tokenizer="none", subwords="none"))
    trained = Trained(Path("models/fixed"), build(("rnnsearch", {**PLAIN, **FIXED})), text, text)
    with pytest.raises(UserError, match="models/fixed: its architecture has no attention"):
        read_attention([trained], [], AlignOptions())


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"attention": "none"}, "attention = none and context = fixed go together: set both"),
        ({"context": "fixed"}, "attention = none and context = fixed go together: set both"),
        ({**FIXED, "alignment_head": True}, "alignment_head = true needs attention"),
        ({**FIXED, "copy": True}, "copy = true needs attention"),
        ({**FIXED, "coverage": True}, "coverage goes with attention = additive, not with none"),
        ({"attention": "dot", "coverage": True}, "coverage goes with attention = additive"),
        ({"attention": "dot", "hidden": 5}, r"they have 5 and 4 numbers: change hidden"),
        ({"attention": "dot", "encoder": "forward"}, r"they have 4 and 2 numbers"),
        ({"tied_embeddings": "target"}, "needs maxout as large as embedding, got 2 and 3"),
        ({"tied_embeddings": "all"}, "tied_embeddings = all needs maxout as large as embedding"),
        ({"attention": 256}, "attention must be one of 'additive', 'dot', .*, not 256"),
        ({"attention": "dots"}, "unknown attention in .*did you mean 'dot'"),
    ],
)
def test_what_does_not_go_together_is_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(RNNsearchConfig, {**PLAIN, **chosen}, "config.toml [model]")


def test_forget_gates_start_open() -> None:
    for initialisation in ("paper", "glorot", "unit"):
        config = RNNsearchConfig(**{**PLAIN, "cell": "lstm"}, initialisation=initialisation)
        model = build_model(config, SOURCE_SIZE, TARGET_SIZE)
        assert isinstance(model, RNNsearch)
        for name, size in (("encoder.forward_lstm.b", 2), ("decoder_lstm.b", 4)):
            bias = model.get_parameter(name)
            expected = torch.zeros_like(bias)
            expected[size : 2 * size] = 1  # i, f, o, candidate
            assert torch.equal(bias, expected)
        U = model.get_parameter("decoder_lstm.U").detach()
        torch.testing.assert_close(U[4:8] @ U[4:8].T, torch.eye(4))


@pytest.mark.parametrize("tied", ["none", "target", "all"])
def test_unit_initialisation(tied: str) -> None:
    """An embedding that is also the output layer's matrix is drawn as that."""
    sizes = {**PLAIN, "embedding": 30, "maxout": 30, "tied_embeddings": tied}
    torch.manual_seed(1)
    model = build_model(RNNsearchConfig(**sizes, initialisation="unit"), 60, 60)
    assert isinstance(model, RNNsearch)
    spread = {
        name: parameter.std().item()
        for name, parameter in model.named_parameters()
        if "embedding" in name or name == "output.weight"
    }
    expected = {
        "none": {"source_embedding": 1.0, "target_embedding": 1.0, "output": 30**-0.5},
        "target": {"source_embedding": 1.0, "target_embedding": 30**-0.5},
        "all": {"target_embedding": 30**-0.5},
    }[tied]
    assert spread == pytest.approx({f"{n}.weight": s for n, s in expected.items()}, rel=0.1)


# Tied matrices


@pytest.mark.parametrize(("tied", "tables"), [("none", 3), ("target", 2), ("all", 1)])
def test_a_tied_matrix_is_one_parameter(tied: str, tables: int) -> None:
    config = RNNsearchConfig(**{**PLAIN, "maxout": 3, "tied_embeddings": tied})
    model = blank_model(config, SOURCE_SIZE, SOURCE_SIZE)
    assert isinstance(model, RNNsearch)
    shape = (SOURCE_SIZE, 3)
    found = [name for name, tensor in model.state_dict().items() if tensor.shape == shape]
    assert len(found) == tables
    assert found == [name for name, p in model.named_parameters() if p.shape == shape]
    assert (model.output.weight is model.target_embedding.weight) == (tied != "none")


def test_one_embedding_for_two_vocabularies_is_refused(micro: Path, tmp_path: Path) -> None:
    config = RNNsearchConfig(**{**PLAIN, "maxout": 3, "tied_embeddings": "all"})
    with pytest.raises(UserError, match="one vocabulary for both sides, but they have 8 and 7"):
        blank_model(config, 8, 7)
    with pytest.raises(UserError, match=r"needs one vocabulary for both sides, but .* has two"):
        train(settings(micro, "model.tied_embeddings=all"), tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.fixture(scope="module")
def copying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus whose two sides are the same text, and so have one vocabulary."""
    folder = tmp_path_factory.mktemp("same")
    for name, count in (("train", 60), ("valid", 8)):
        lines = [" ".join("abcdefg"[(i + j) % 7] for j in range(1 + i % 5)) for i in range(count)]
        for side in ("aa", "zz"):
            write(folder / f"{name}.{side}", lines)
    return prepare(folder, "aa-zz", folder / "data", "--subwords", "none")


@pytest.mark.parametrize("tied", ["target", "all"])
def test_tied_training_is_saved_averaged_and_resumed(
    copying: Path, tmp_path: Path, tied: str
) -> None:
    options = (f"model.tied_embeddings={tied}", "average=2", "valid_every=2", "learning_rate=0.02")
    whole = run(copying, tmp_path / "whole", "updates=6", *options)
    half = run(copying, tmp_path / "half", "updates=4", *options)
    resume(settings_to_resume(half, ["training.updates=6"]), half)
    assert results(half) == results(whole)
    model = load(whole, CPU).seq2seq
    assert isinstance(model, RNNsearch)
    assert model.output.weight is model.target_embedding.weight
    source, mask = padded([(4, 5, EOS)])
    logits, _ = model.decode(torch.tensor([[BOS, 4]]), model.encode(source, mask))
    assert logits.shape == (1, 2, len(model.output.weight))


@pytest.mark.parametrize(
    "chosen", [["cell=lstm", "attention=dot", "hidden=16"], ["attention=none", "context=fixed"]]
)
def test_training_of_other_parts_is_resumed(micro: Path, tmp_path: Path, chosen: list[str]) -> None:
    options = [f"model.{one}" for one in chosen]
    whole = run(micro, tmp_path / "whole", "updates=4", "valid_every=2", *options)
    half = run(micro, tmp_path / "half", "updates=2", "valid_every=2", *options)
    resume(settings_to_resume(half, ["training.updates=4"]), half)
    assert results(half) == results(whole)
