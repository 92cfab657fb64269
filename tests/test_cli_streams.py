"""Where commands read from and write to: pipes, closed streams, outputs that are inputs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import contents, failed, misused, raw, worked, write


@pytest.fixture
def source(toy, tmp_path):
    return write(tmp_path / "source", [raw(source) for source, _ in toy.common[:3]])


def test_a_pipe_is_written_to_and_stays_one(toy, source, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    worked("translate", toy.model, "--source", source, "--out", pipe)
    reader.join(20)
    assert read == [worked("translate", toy.model, "--source", source)]
    assert pipe.is_fifo()


def test_an_input_is_never_an_output(toy, source, tmp_path):
    text, links = source.read_text(), write(tmp_path / "links", ["0-0"])
    assert "is an input" in failed("translate", toy.model, "--source", source, "--out", source)
    arguments = ("translate", toy.model, "--source", source, "--out", tmp_path / "x")
    assert "is an input" in failed(*arguments, "--alignments", tmp_path / "." / "source")
    combine = ("align", "--forward", links, "--backward", tmp_path / "other")
    write(tmp_path / "other", ["0-0"])
    assert "is an input" in failed(*combine, "--out", links)
    assert (source.read_text(), links.read_text()) == (text, "0-0\n")


def test_outputs_that_are_files_of_a_model(toy, model, micro, tmp_path):
    copy, other = (Path(shutil.copytree(one, tmp_path / one.name)) for one in (model, toy.reverse))
    (tmp_path / "link").symlink_to(copy)
    (tmp_path / "codes").symlink_to(copy / "codes.bpe")
    elsewhere = tmp_path / "vocabulary"
    (copy / "vocabulary.zz").rename(elsewhere)
    (copy / "vocabulary.zz").symlink_to(elsewhere)
    before = contents(tmp_path)
    texts = ("--source", micro.parent / "valid.aa", "--target", micro.parent / "valid.zz")
    align = ("align", copy, *texts)
    translate = ("translate", copy, *texts[:2])
    checkpoint = copy / "checkpoint" / "state.json"
    assert checkpoint.exists()
    for given, output in (
        ((*align, "--out"), copy / "model.safetensors"),
        ((*align, "--page"), tmp_path / "link" / "vocabulary.aa"),
        ((*align, "--page"), tmp_path / "codes"),
        ((*align, "--out"), copy / "vocabulary.zz"),
        ((*align, "--out"), elsewhere),
        ((*align, "--heatmap"), copy),
        ((*align, "--heatmap"), copy / "new" / "pictures"),
        ((*translate, "--out"), checkpoint),
        ((*translate, "--alignments"), copy / "text.json"),
    ):
        message = failed(*given, output)
        assert message == (
            f"{output} belongs to the model {copy} and would be replaced: choose another output"
        )
    for option, output in (("--out", other / "config.toml"), ("--heatmap", other)):
        message = failed("align", copy, "--reverse", other, *texts, option, output)
        assert message.startswith(f"{output} belongs to the model {other} and would")
    assert contents(tmp_path) == before
    worked(*translate, "--beam", 1, "--out", copy / "valid.out")  # a file that is not there yet


@pytest.mark.parametrize(
    ("closed", "message"),
    [("<&-", ""), (">&-", "nmtkit: standard output is closed: there is nowhere to write to")],
)
def test_closed_streams(toy, closed, message):
    call = f"{sys.executable} -m nmtkit translate {toy.model} {closed}"
    done = subprocess.run(
        ["sh", "-c", call], check=False, capture_output=True, stdin=subprocess.DEVNULL, text=True
    )
    assert done.stdout == ""
    assert done.stderr.strip() == message
    assert done.returncode == (1 if message else 0)


def test_options_without_effect_are_refused(toy, source, tmp_path):
    pair = ("--source", source, "--target", source)
    assert "say that too" in misused("align", toy.model, *pair, "--threshold", 0.2)
    assert "two directions" in misused("align", toy.model, *pair, "--symmetrize", "union")
    message = failed("align", toy.model, *pair, "--reverse", toy.model)
    assert "--reverse wants a model from" in message


def test_scores_of_nothing_are_refused(toy, source, tmp_path):
    blank, empty = write(tmp_path / "blank", ["", ""]), write(tmp_path / "empty", [])
    assert "has no links" in failed("score", blank, "--gold", blank)
    assert "given twice" in failed("score", blank, blank, "--gold", blank)
    pair = ("--source", empty, "--target", empty)
    assert "nothing to score" in failed("score", "--model", toy.model, *pair)
    assert "only one of" in failed("align", "--forward", "-", "--backward", "-")


def test_a_beam_that_no_memory_holds(toy, source):
    message = failed("translate", toy.model, "--source", source, "--beam", 10**20)
    assert message.startswith("beam must be from 1 to 1000")
