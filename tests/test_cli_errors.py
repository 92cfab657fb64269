"""The command line: every mistake is one line that says what, where and what to do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import (
    SOURCE,
    command,
    contents,
    failed,
    misused,
    worked,
    write,
)

COMMANDS = ("preprocess", "train", "translate", "score", "align")


LANGUAGES = ("--source-lang", "aa", "--target-lang", "zz")


def corpus(folder: Path, source: Any, target: Any) -> Path:
    for language, content in (("aa", source), ("zz", target)):
        if content is not None:
            path = folder / f"c.{language}"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / "c"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "x\ny\n", r"c\.aa has 3 lines but \S*c\.zz has 2"),
        ("a\n", "x\ny", r"c\.aa has 1 lines but \S*c\.zz has 2"),
        ("a\n" + "b" * 5 + "\n", b"x\ny\xff\n", r"c\.zz:2: not UTF-8 at byte 3 of the file"),
        ("", "", "the training text is empty"),
        ("\n\n", "\n\n", "no pair of .* is left of 2 read"),
        ("a\n", None, r"neither \S*c\.zz nor \S*c\.zz\.gz exists"),
        (None, "x\n", r"neither \S*c\.aa nor \S*c\.aa\.gz exists"),
    ],
)
def test_corpora_that_are_refused(tmp_path, source, target, message):
    given = ("preprocess", *LANGUAGES, "--train", corpus(tmp_path, source, target), "--workers", 1)
    before = contents(tmp_path)
    assert re.search(message, failed(*given, "--out", tmp_path / "out"))
    assert contents(tmp_path) == before


def test_preprocess_refuses_and_overwrites(tmp_path, toy):
    given = ("preprocess", *LANGUAGES, "--train", toy.folder / "valid", "--workers", 1)
    for options, message in (
        (("--tokenizer", "mose"), "unknown tokenizer 'mose': did you mean 'moses'"),
        (("--subwords", "bpee"), "unknown kind of subwords 'bpee': did you mean 'bpe'"),
        (("--case", "uper"), "unknown case 'uper'"),
        (("--merges", "0"), "merges must be at least 1"),
        (("--max-ratio", "0.5"), "max_ratio must be at least 1"),
        (("--target-lang", "aa"), "source and target language are both 'aa'"),
        (("--source-lang", "../aa"), "language '../aa': use a code"),
    ):
        assert message in failed(*given, "--out", tmp_path / "data", *options)
        assert not (tmp_path / "data").exists()
    worked(*given, "--out", tmp_path / "data")
    before = contents(tmp_path / "data")
    assert "say --overwrite" in failed(*given, "--out", tmp_path / "data")
    assert contents(tmp_path / "data") == before
    table = worked(*given, "--out", tmp_path / "data", "--overwrite", "--merges", 5)
    assert "5 merges asked, 5 learned" in table
    assert (tmp_path / "data" / "codes.bpe").read_bytes() != before["codes.bpe"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("codes.bpe", b"nonsense\n", r"codes\.bpe"),
        ("vocabulary.zz", b"", r"vocabulary\.zz"),
        ("train.aa.ids", b"1234", r"train\.aa\.ids has 4 bytes"),
        ("manifest.json", b"{}", r"manifest\.json: 'format' must be"),
        ("manifest.json", None, r"manifest\.json is missing: .* is not a prepared corpus"),
        ("valid.zz.txt", None, r"valid\.zz\.txt is missing"),
    ],
)
def test_prepared_corpora_that_are_refused(micro, tmp_path, name, content, message):
    data = Path(shutil.copytree(micro, tmp_path / "data"))
    (data / name).unlink()
    if content is not None:
        (data / name).write_bytes(content)
    assert re.search(message, failed("train", data, "--out", tmp_path / "m", "--updates", 1))
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--arch", "rnnserch"), "unknown architecture 'rnnserch': did you mean 'rnnsearch'"),
        (("--preset", "tinny"), "unknown preset of rnnsearch 'tinny': did you mean 'tiny'"),
        (
            ("--set", "model.hiden=3"),
            "unknown key in settings [model] 'hiden': did you mean 'hidden'",
        ),
        (("--set", "nonsense"), "cannot set 'nonsense': write it as key=value"),
        (("--set", "model.hidden=[1"), "cannot set 'model.hidden=[1': not a TOML value"),
        (("--set", "model.hidden=many"), "hidden must be an integer, not 'many'"),
        (("--set", "training.clip=true"), "clip must be a number, not true"),
        (("--set", "model.hidden=99999999999"), "cannot be made here"),
        (("--set", f"model.hidden={10**25}"), "hidden is an integer of more than 64 bits"),
        (("--device", "gpu"), "unknown device in settings [training] 'gpu'"),
        (("--precision", "float16"), "did you mean 'bfloat16'"),
        (("--seed", "-1"), "seed must be at least 0, got -1"),
        (("--minutes", "nan"), "minutes must be at least 0, got nan"),
        (("--set", "training.patience=0"), "the run has no end"),
        (("--config", "nowhere.toml"), "cannot read settings nowhere.toml"),
    ],
)
def test_settings_that_are_refused(micro, tmp_path, options, message):
    assert message in failed("train", micro, "--out", tmp_path / "m", *options)
    assert not (tmp_path / "m").exists()


def test_no_gpu_no_cuda(micro, model, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    texts = ("--source", write(tmp_path / "t", ["a"]), "--target", tmp_path / "t")
    for given in (
        ("train", micro, "--out", tmp_path / "m", "--updates", 1),
        ("translate", model),
        ("align", model, *texts),
    ):
        message = failed(*given, "--device", "cuda")
        assert message == "--device cuda: torch finds no CUDA GPU here; use --device cpu"
    assert "did you mean 'cuda'" in failed("translate", model, "--device", "cud")


def test_models_that_are_refused(toy, model, micro, tmp_path):
    copy = Path(shutil.copytree(model, tmp_path / "m"))
    weights, config = copy / "model.safetensors", copy / "config.toml"
    content, settings = weights.read_bytes(), config.read_text(encoding="utf-8")
    texts = ("--source", write(tmp_path / "t", ["a"]), "--target", tmp_path / "t")

    def both(*models: Path) -> str:
        """The same line from translate and from align, with nothing left behind."""
        before = contents(tmp_path)
        found = {
            failed("translate", *models, "--out", tmp_path / "out", stdin="a\n"),
            failed("align", *models, *texts, "--out", tmp_path / "out"),
        }
        assert contents(tmp_path) == before
        (message,) = found
        return message

    assert "no such model directory" in both(tmp_path / "nowhere")
    assert "not a model directory" in both(micro)
    assert "is not that of" in both(model, toy.model)
    assert both(copy, tmp_path / "nowhere").startswith(f"{tmp_path / 'nowhere'}: no such")
    for damaged in (content[: len(content) // 2], content[:-1], b"", b"\xff" * 100):
        weights.write_bytes(damaged)
        assert f"{weights}: not a whole safetensors file" in both(copy)
    weights.unlink()
    assert "no model.safetensors yet" in both(copy)
    weights.write_bytes(content)
    config.write_text(settings.replace("maxout = 8", "maxout = 9"), encoding="utf-8")
    assert "but config.toml and the vocabularies make it" in both(copy)
    config.write_text("[model\n", encoding="utf-8")
    assert f"{config}:1: not valid TOML" in both(copy)
    config.write_text(settings, encoding="utf-8")
    (copy / "codes.bpe").write_text("nonsense\n", encoding="utf-8")
    assert f"{copy / 'codes.bpe'} is not the file" in both(copy)


def test_translate_refuses(toy, tmp_path):
    before = write(tmp_path / "out", ["as before"]).read_bytes()
    bad = tmp_path / "bad"
    bad.write_bytes(f"{SOURCE[0]}\nab\xe4\n".encode("latin-1"))
    unknown = write(tmp_path / "words", ["a\tb", "no tab"])
    given = ("translate", toy.model, "--out", tmp_path / "out")
    size = len(SOURCE[0]) + 1 + 2
    for options, message in (
        (("--source", bad), f"{bad}:2: not UTF-8 at byte {size} of the file"),
        (("--source", tmp_path / "nowhere"), "cannot read"),
        (("--source", tmp_path), "cannot read"),
        (("--dictionary", unknown), "--dictionary is for --replace-unknown"),
        (("--replace-unknown", "--dictionary", unknown), f"{unknown}:2: expected a source word"),
        (("--replace-unknown", "--dictionary", tmp_path / "no"), "cannot read"),
        (("--n-best", 6), "--n-best 6 needs at least --beam 6, not 5"),
        (("--rows", "nxt"), "unknown row reading 'nxt': did you mean 'next'"),
        (("--rows", "next"), "--rows is of the attention, which nothing reads"),
        (("--rows", "head", "--show-attention"), "it has no alignment head to read"),
        (("--length-penalty", "inf"), "length_penalty must be from 0 to 20"),
        (("--length-penalty", "21"), "length_penalty must be from 0 to 20"),
        (("--length-normalisation", "gmnt"), "unknown length normalisation 'gmnt': did you mean"),
        (("--coverage-penalty", "inf"), "coverage_penalty must be 0 or more"),
        (("--alignments", tmp_path / "out"), "--alignments and --out cannot both be"),
        (("--alignments", f"{tmp_path}/./out"), "--alignments and --out cannot both be"),
    ):
        assert message in failed(*given, *options, stdin=f"{SOURCE[0]}\n")
        assert (tmp_path / "out").read_bytes() == before
    assert "cannot both be -" in failed("translate", toy.model, "--alignments", "-")
    message = failed("translate", toy.model, "--out", tmp_path / "no" / "out")
    assert f"cannot write {tmp_path / 'no' / 'out'}" in message
    assert "is a folder" in failed("translate", toy.model, "--out", tmp_path)
    message = failed("translate", toy.model, stdin=b"\xff\n")
    assert message.startswith("standard input:1: not UTF-8 at byte 0 of the file")
    names = {"out", "bad", "words"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_align_refuses(toy, tmp_path):
    source = write(tmp_path / "s", ["a", "b", "c"])
    target = write(tmp_path / "t", ["x", "y"])
    write(tmp_path / "out", ["as before"])
    given = ("align", toy.model, "--out", tmp_path / "out")
    same = ("--source", source, "--target", source)
    before = contents(tmp_path)
    for options, message in (
        (
            ("--source", source, "--target", target),
            f"{source} has 3 lines, but {target} has 2 lines",
        ),
        (
            ("--source", target, "--target", source),
            f"{target} has 2 lines, but {source} has 3 lines",
        ),
        (("--source", "-", "--target", "-"), "only one of --source and --target can be -"),
        (("--source", source, "--target", tmp_path / "no"), "cannot read"),
        ((*same, "--rows", "nxt"), "did you mean 'next'"),
        ((*same, "--method", "argmx"), "did you mean 'argmax'"),
        ((*same, "--method", "threshold", "--threshold", "0"), "threshold must be above 0"),
        (
            (*same, "--symmetrize", "grow"),
            "unknown symmetrisation 'grow': did you mean",
        ),
        ((*same, "--heatmap-format", "pgn"), "unknown heat map format 'pgn': did you mean 'png'"),
        ((*same, "--heatmap", source), f"{source}: File exists"),
        ((*same, "--reverse", tmp_path / "no"), "no such model directory"),
    ):
        assert message in failed(*given, *options)
        assert contents(tmp_path) == before


def test_links_that_are_refused(tmp_path):
    good = write(tmp_path / "good", ["0-0", "0-0"])
    short = write(tmp_path / "short", ["0-0"])
    bad = write(tmp_path / "bad", ["0-0", "0-0 1:2"])
    far = write(tmp_path / "far", ["0-0", "0-1"])
    huge = write(tmp_path / "huge", ["0-0", "0-999999"])
    possible = write(tmp_path / "possible", ["0-0", "0p0"])
    lines = write(tmp_path / "lines", ["a", "b"])
    given = ("align", "--out", tmp_path / "out")
    texts = ("--source", lines, "--target", lines)
    for options, message in (
        (("--forward", good, "--backward", short), f"{good} has 2 pairs, but {short} has 1 pair:"),
        (("--forward", good, "--backward", bad), f"{bad}:2: '1:2' is not a link"),
        (("--forward", possible, "--backward", good), f"{possible}:2: '0p0' is a possible link"),
        (("--forward", huge, "--backward", good), f"{huge}:2: '0-999999' has a position beyond"),
        (("--forward", good, "--backward", far, *texts), f"{far}:2: link 0-1 is out of bounds"),
        (
            ("--forward", short, "--backward", good, *texts),
            f"{short} has 1 pair, but {lines} has 2",
        ),
    ):
        assert message in failed(*given, *options)
        assert not (tmp_path / "out").exists()
    for system, gold, message in (
        (bad, good, f"{bad}:2: '1:2' is not a link"),
        (good, bad, f"{bad}:2: '1:2' is not a link"),
        (short, good, f"{short} has 1 pair, but {good} has 2 pairs"),
        (tmp_path / "no", good, "cannot read"),
    ):
        assert message in failed("score", system, "--gold", gold)
    assert f"{far}:2: link 0-1 is out of bounds" in failed("score", far, "--gold", good, *texts)
    assert "has position 0" in failed("score", good, "--gold", good, "--one-based")


def test_score_refuses(tmp_path):
    reference = write(tmp_path / "ref", ["a b", "c"])
    short = write(tmp_path / "short", ["a b"])
    given = ("score", "--reference", reference)
    for options, message in (
        ((short,), f"{short} has 1 line, but {reference} has 2 lines"),
        ((reference, "--metric", "belu"), "unknown metric 'belu': did you mean 'bleu'"),
        ((reference, "--tokenize", "13"), "unknown tokenizer '13': did you mean '13a'"),
        (("-", "-"), "only one system can be - (stdin)"),
        ((tmp_path / "no",), f"cannot read {tmp_path / 'no'}"),
        (("-",), "is empty: there is nothing to score"),
    ):
        assert message in failed(*given, *options)


# -------------------------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("trainn",), "No such command"),
        (("train", "--nonsense"), "No such option"),
        (("train", "data"), "--out"),
        (("train", "data", "--out", "m", "--updates", "many"), "--updates"),
        (("translate", "m", "--beam", "0"), "--beam"),
        (("translate", "m", "--batch", "0"), "--batch"),
        (("translate", "m", "--length-penalty", "-1"), "--length-penalty"),
        (("translate", "--beam", "3"), "models"),
        (("score", "a"), "say one of --reference (translations), --gold (links), --model"),
        (("score", "a", "--reference", "b", "--gold", "c"), "say one of --reference"),
        (("score", "--reference", "b"), "systems"),
        (("preprocess", "--train", "x"), "Missing option"),
        (("align", "--source", "a", "--target", "b"), "needs a model directory"),
        (("align", "m", "--source", "a"), "needs a model directory"),
        (("align", "--forward", "a"), "go together"),
        (("align", "m", "--forward", "a", "--backward", "b"), "go together"),
        (("align", "--forward", "a", "--backward", "b", "--source", "c"), "go together"),
    ],
)
def test_wrong_usage(arguments, message):
    flat = " ".join(misused(*arguments).replace("│", " ").split()).casefold()
    assert message.casefold() in flat


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bare_command_shows_its_help(name):
    done = command(name)
    assert done.code in (0, 2)  # as the installed version of typer has it
    assert f"Usage: nmtkit {name}" in done.out + done.err
    assert "Traceback" not in done.err


def test_a_full_disk_is_one_line(toy, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    write(tmp_path / "out", ["as before"])
    before = contents(tmp_path)
    message = failed("translate", toy.model, "--out", tmp_path / "out", stdin=f"{SOURCE[0]}\n")
    assert "No space left on device" in message
    assert contents(tmp_path) == before
