"""The model directory: what is written is read, and whatever is wrong with one is one line."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from nmtkit.checkpoint import (
    Trained,
    check_tensors,
    load,
    load_all,
    model_config,
    read_tensors,
    write_tensors,
)
from nmtkit.device import resolve
from nmtkit.errors import UserError
from nmtkit.files import CHECKSUMS
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from nmtkit.text import Text
from nmtkit.train import settings_to_resume
from tests.micro import CPU


@pytest.fixture
def copy(model, tmp_path) -> Path:
    """A model directory to damage."""
    return Path(shutil.copytree(model, tmp_path / "m"))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8", newline="\n")


def test_written_tensors_are_read_bit_for_bit(tmp_path):
    tensors = {
        "a": torch.tensor([[1.0, -0.0], [float("inf"), 2.0**-140]]),
        "b.c": torch.arange(6).reshape(2, 3).t(),  # not contiguous
        "empty": torch.zeros((0, 3)),
    }
    write_tensors(tmp_path / "t.safetensors", tensors)
    found = read_tensors(tmp_path / "t.safetensors", CPU)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)
        assert torch.equal(torch.signbit(found[name]), torch.signbit(tensor))


def test_a_loaded_model_is_ready_and_that_of_the_run(model):
    trained = load(model, CPU)
    assert not trained.model.training
    assert not any(parameter.requires_grad for parameter in trained.model.parameters())
    weights = load_file(model / "model.safetensors")
    for name, tensor in trained.model.state_dict().items():
        assert torch.equal(tensor, weights[name])
    assert isinstance(trained.model, RNNsearch)
    assert len(trained.source_vocabulary) == len(trained.model.source_embedding.weight)
    assert len(trained.target_vocabulary) == len(trained.model.output.weight)
    assert (trained.source.config.language, trained.target.config.language) == ("aa", "zz")


def test_nothing_in_the_folder_is_a_pickle(model):
    for path in model.rglob("*"):
        if path.is_file():
            head = path.read_bytes()[:4]
            assert head[:2] not in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK")
            kinds = (".toml", ".safetensors", ".json", ".jsonl", ".bpe", ".aa", ".zz")
            assert path.suffix in kinds or path.name == CHECKSUMS


def test_a_pickle_is_never_loaded(copy):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    for content in (pickle.dumps(Trap()), b"PK\x03\x04" + pickle.dumps(Trap())):
        (copy / "model.safetensors").write_bytes(content)
        with pytest.raises(UserError, match="not a whole safetensors file"):
            load(copy, CPU)
    torch.save({"a": Trap()}, copy / "model.safetensors")
    with pytest.raises(UserError, match="not a whole safetensors file"):
        load(copy, CPU)


def test_no_model_directory(tmp_path, model, micro):
    (tmp_path / "empty").mkdir()
    for folder, message in (
        (tmp_path / "nowhere", "nowhere: no such model directory"),
        (model / "config.toml", "no such model directory"),
        (tmp_path / "empty", r"empty: not a model directory: it has no config\.toml"),
        (micro, "not a model directory"),
    ):
        with pytest.raises(UserError, match=message):
            load(folder, CPU)


def test_no_weights_yet(copy):
    (copy / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors yet: no validation"):
        load(copy, CPU)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\nhidden = 8", "\nhidden = 9", r"\(8, 8\).* make it \(8, 9\)"),
        ("maxout = 8", "maxout = 4", r"make it \(\d+, 4\)"),
        ("\nhidden = 8", "\nhidden = 10000000000000", "no model can be so"),
        ("maxout = 8", f"maxout = {10**30}", "maxout is an integer of more than 64 bits"),
        ("maxout = 8", "maxout = 0", "maxout must be at least 1"),
        ("maxout = 8", 'maxout = "8"', "maxout must be an integer"),
        ("maxout = 8", "maxuot = 8", "did you mean 'maxout'"),
        ('"rnnsearch"', '"rnnsaerch"', "unknown architecture 'rnnsaerch': did you mean"),
        ('architecture = "rnnsearch"', "", "architecture is missing"),
        ('architecture = "rnnsearch"', "architecture = 3", "architecture is missing"),
        ('order = "main-text"', 'order = "conditional"', "missing: it belongs to another model"),
        ('reset = "before"', 'reset = "after"', "missing: it belongs to another model"),
        (
            "coverage = false",
            "coverage = true",
            r"the tensor attention\.V_c is missing",
        ),
        ("coverage = false", "coverage = 1", "coverage must be true or false, not 1"),
        ("temperature = 1.0", "temperature = 0", "temperature must be from 0.01 to 100"),
        ("[model]", "[modle]", "the table is missing"),
        ("maxout = 8", "maxout 8", r"config\.toml:\d+: not valid TOML"),
    ],
)
def test_settings_that_do_not_fit(copy, old, new, message):
    replace(copy / "config.toml", old, new)
    with pytest.raises(UserError, match=message) as caught:
        load(copy, CPU)
    assert f"{copy}/" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_from_before_coverage_and_temperature(copy, model):
    """What config.toml does not say is as it was then: the same model, the same run."""
    path = copy / "config.toml"
    lines = path.read_text(encoding="utf-8").split("\n")
    later = ("temperature = 1.0", "coverage = false", "alignment_head = false")
    assert set(later) <= set(lines)
    text = "\n".join(line for line in lines if line not in later)
    path.write_text(text, encoding="utf-8", newline="\n")
    old, new = load(copy, CPU).model, load(model, CPU).model
    assert isinstance(old, RNNsearch)
    assert isinstance(new, RNNsearch)
    assert old.config == new.config
    assert (old.config.temperature, old.config.coverage) == (1.0, False)
    assert settings_to_resume(copy) == settings_to_resume(model)


def test_tensors_that_do_not_fit(copy):
    path = copy / "model.safetensors"
    whole = load_file(path)
    bias = whole["output.bias"]
    for change, message in (
        ({"output.bias": bias.double()}, r"output\.bias is \(\d+,\) float64"),
        ({"output.bias": bias[:-1].clone()}, r"output\.bias is \(\d+,\) float32, but config"),
        ({"more": torch.zeros(1)}, "unexpected tensor more"),
        ({"attention.V_c": torch.zeros(8)}, r"unexpected tensor attention\.V_c"),
        ({"output.bias": bias * torch.nan}, "output.bias holds numbers that are not finite"),
        ({"output.bias": bias + torch.inf}, "output.bias holds numbers that are not finite"),
    ):
        save_file(whole | change, path)
        with pytest.raises(UserError, match=message):
            load(copy, CPU)
    save_file({name: t for name, t in whole.items() if name != "output.bias"}, path)
    with pytest.raises(UserError, match=r"the tensor output\.bias is missing"):
        load(copy, CPU)


def test_text_side_that_does_not_fit(copy, model):
    def damaged(name: str, content: bytes, message: str) -> None:
        old = (copy / name).read_bytes()
        (copy / name).write_bytes(content)
        with pytest.raises(UserError, match=message):
            load(copy, CPU)
        (copy / name).write_bytes(old)

    codes = (copy / "codes.bpe").read_bytes()
    damaged("codes.bpe", codes[:-4], r"codes\.bpe is not the file that text\.json was saved with")
    damaged("codes.bpe", b"", r"codes\.bpe is not the file")
    damaged("vocabulary.zz", b"<pad>\t0\n", r"vocabulary\.zz is not the file")
    damaged("text.json", b"{", "the text settings is not valid JSON")
    load(copy, CPU)
    # Broken codes whose checksum is right: made, not damaged.
    broken = b"#version: 0.2\na b c\n"
    table = json.loads((copy / "text.json").read_text(encoding="utf-8"))
    for side in ("source", "target"):
        table[side]["files"]["codes.bpe"] = hashlib.sha256(broken).hexdigest()
    (copy / "codes.bpe").write_bytes(broken)
    (copy / "text.json").write_text(json.dumps(table), encoding="utf-8")
    with pytest.raises(UserError, match=r"codes\.bpe:2: a line of BPE codes must be"):
        load(copy, CPU)


@settings(max_examples=60)
@given(st.data())
def test_truncated_files_are_refused(model, tmp_path_factory, data):
    content = (model / "model.safetensors").read_bytes()
    length = data.draw(st.integers(0, len(content) - 1))
    path = tmp_path_factory.getbasetemp() / "cut.safetensors"
    path.write_bytes(content[:length])
    with pytest.raises(UserError, match=r"cut\.safetensors: not a whole safetensors file"):
        read_tensors(path, CPU)


@settings(max_examples=150)
@given(st.data())
def test_flipped_bits_are_refused_or_numbers(model, tmp_path_factory, data):
    """A flipped bit is found wherever it lies, unless it changes no number."""
    content = bytearray((model / "model.safetensors").read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    place = data.draw(st.one_of(st.integers(0, header - 1), st.integers(0, len(content) - 1)))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "flipped.safetensors"
    path.write_bytes(content)
    wanted = load(model, CPU).model.state_dict()
    try:
        found = read_tensors(path, CPU)
        check_tensors(found, wanted, path)
    except UserError:
        return
    assert place < header  # such as one in a space
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_files_without_a_checksum_are_taken_as_they_are(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "t.safetensors")
    assert read_tensors(tmp_path / "t.safetensors", CPU)["a"].tolist() == [1, 1]


def test_the_checksum_of_a_model(copy):
    path = copy / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 16]) + content[-1:])
    with pytest.raises(UserError, match=r"model\.safetensors: its checksum differs: it is damaged"):
        load(copy, CPU)


def test_an_ensemble_needs_one_prepared_corpus(model, toy):
    assert len(load_all([model, model], CPU)) == 2
    with pytest.raises(UserError, match="its source vocabulary is not that of"):
        load_all([model, toy.model], CPU)
    with pytest.raises(UserError, match="its source vocabulary is not that of"):
        load_all([toy.model, toy.reverse], CPU)


def test_an_ensemble_reads_its_text_alike(toy, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(toy.model, other)
    path = other / "text.json"
    given = json.loads(path.read_text())
    given["source"]["case"] = "lower" if given["source"]["case"] == "keep" else "keep"
    path.write_text(json.dumps(given))
    with pytest.raises(UserError, match="its source text treatment is not that of"):
        load_all([toy.model, other], CPU)


def test_a_side_without_vocabulary(model):
    whole = load(model, CPU)
    bare = Trained(whole.folder, whole.model, Text(whole.source.config), whole.target)
    with pytest.raises(UserError, match=r"has no vocabulary\.aa"):
        _ = bare.source_vocabulary


def test_model_settings():
    config = model_config({"architecture": "rnnsearch"}, "here")
    assert isinstance(config, RNNsearchConfig)
    assert config.hidden == 1000
    with pytest.raises(UserError, match="here: architecture is missing"):
        model_config({}, "here")


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": torch.ones(2)})
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(path, {"a": torch.zeros(2)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_devices(monkeypatch):
    assert resolve("cpu") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve("auto") == CPU
    with pytest.raises(UserError, match="no CUDA GPU here; use --device cpu"):
        resolve("cuda")
    with pytest.raises(UserError, match="unknown device 'cud': did you mean 'cuda'"):
        resolve("cud")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert resolve("auto") == resolve("cuda") == torch.device("cuda")
    assert resolve("cpu") == CPU
