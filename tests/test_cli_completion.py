"""Shell completion and nmtkit --version."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmtkit import __version__
from nmtkit.align import BOTH, METHODS
from nmtkit.cli import completion
from nmtkit.cli.versions import _cuda
from nmtkit.links import FORMATS, SYMMETRISATIONS
from nmtkit.models import ARCHITECTURES
from nmtkit.search import LENGTH_NORMALISATIONS
from nmtkit.train import preset_names
from tests.conftest import process, worked
from tests.test_cli import HEAVY, loaded_modules

COMMANDS = ["align", "preprocess", "score", "train", "translate"]


def completed(line: str, shell: str = "bash") -> list[str]:
    """What TAB offers at the end of a command line, in a process of its own."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    done = subprocess.run(
        [sys.executable, "-m", "nmtkit"],
        env={**os.environ, **asked, "_NMTKIT_COMPLETE": f"complete_{shell}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell):
    done = process("--show-completion", shell)
    assert (done.code, done.err) == (0, "")
    assert "nmtkit" in done.out
    assert f"complete_{shell}" in done.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installing_writes_below_home(shell, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "nmtkit", "--install-completion", shell],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(f"complete_{shell}" in path.read_text(encoding="utf-8") for path in written)


def test_bash_takes_the_script(tmp_path):
    """bash itself asks the command that the script names, and offers what it says."""
    here = tmp_path / "nmtkit"
    here.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nmtkit "$@"\n')
    here.chmod(0o755)
    script = 'eval "$(nmtkit --show-completion bash)"; COMP_WORDS=(nmtkit tra) COMP_CWORD=1; '
    script += "complete -p nmtkit; _nmtkit_completion nmtkit; echo ${COMPREPLY[@]}"
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "train translate"


def test_a_shell_that_is_not_there():
    done = process("--show-completion", "tcsh")
    assert (done.code, done.out) == (2, "")
    assert "'bash', 'zsh', 'fish'" in done.err


def test_commands_and_options():
    assert sorted(completed("nmtkit ")) == COMMANDS
    assert "--symmetrize" in completed("nmtkit align --sy")
    for shell in ("zsh", "fish"):
        assert "translate" in "\n".join(completed("nmtkit trans", shell))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("nmtkit train --arch ", list(ARCHITECTURES)),
        ("nmtkit train --preset ", preset_names()),
        ("nmtkit train --preset p", ["paper"]),
        ("nmtkit align --symmetrize ", [*SYMMETRISATIONS, *BOTH]),
        ("nmtkit align --symmetrize posterior-m", ["posterior-mean"]),
        ("nmtkit align --method ", [*METHODS, "auto"]),
        ("nmtkit align --format ", list(FORMATS)),
        ("nmtkit align --from g", ["giza"]),
        ("nmtkit align --device c", ["cpu", "cuda"]),
    ],
)
def test_values_of_options(line, offered):
    assert completed(line) == offered


def test_completion_loads_nothing_heavy(monkeypatch):
    words = {"COMP_WORDS": "nmtkit train --arch ", "COMP_CWORD": "3"}
    for name, value in {**words, "_NMTKIT_COMPLETE": "complete_bash"}.items():
        monkeypatch.setenv(name, value)
    loaded = loaded_modules()
    assert "nmtkit.cli.completion" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_names_for_completion_are_those_there_are():
    assert completion.one_of(["ab", "b"])("a") == ["ab"]
    assert list(completion.ARCHITECTURES) == list(ARCHITECTURES)
    assert list(completion.PRESETS) == preset_names()
    assert list(completion.SOFT_SYMMETRISATIONS) == list(BOTH)
    assert list(completion.METHODS) == [*METHODS, "auto"]
    assert list(completion.LENGTH_NORMALISATIONS) == list(LENGTH_NORMALISATIONS)


def test_version_says_what_runs():
    built = f"CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    lines = worked("--version").splitlines()
    assert lines[:2] == [f"nmtkit {__version__}", f"Python {platform.python_version()}"]
    assert lines[2:] == [f"torch {torch.__version__} ({built})"]
    assert loaded_modules("--version").isdisjoint(HEAVY)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from typing import Optional\ncuda: Optional[str] = '12.8'\nhip = None\n", "CUDA 12.8"),
        ("cuda = '11.8'\n", "CUDA 11.8"),
        ("cuda: Optional[str] = None\n", "without CUDA"),
        ("hip = '6.0'\n", None),
        ("cuda = (\n", None),
        (None, None),
    ],
)
def test_which_cuda_torch_was_built_for(tmp_path: Path, text, said):
    if text is not None:
        (tmp_path / "version.py").write_text(text)
    assert _cuda(tmp_path) == said
