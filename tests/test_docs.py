"""What the pages say is so: every command runs, and every option, key, file and link is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from nmtkit.cli import app
from nmtkit.models import ARCHITECTURES
from nmtkit.train import EMConfig, TrainingConfig
from tests.docs import PAGES, ROOT, blocks, commands, invent, make_models, spans
from tests.messages import templates

IDS = [page.name for page in PAGES]
OTHERS = re.compile(r"(pip|make|python|mypy) ")  # lines that begin so are of other programs
ELSEWHERE = {"--first-step", "--nproc-per-node"}  # train-model.perl's, torchrun's
TROUBLES = ROOT / "docs" / "troubleshooting.md"


@pytest.fixture(scope="module")
def invented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    invent(folder)
    make_models(folder)
    return folder


@pytest.fixture
def place(invented, tmp_path, monkeypatch) -> Path:
    """A folder with the invented files, those of a page beside no other page's."""
    subprocess.run(["cp", "-r", f"{invented}/.", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_pages_are_there():
    names = "install tutorial model alignment replicating from-giza-moses from-opennmt-joeynmt"
    assert {f"{name}.md" for name in f"{names} troubleshooting limits".split()} <= {*IDS}
    readme = PAGES[0].read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert f"](docs/{page.name})" in readme


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda p: p.name)
def test_every_command_runs(page, place, monkeypatch):
    pytest.importorskip("matplotlib")
    if page.name == "tutorial.md":  # which begins with nothing
        place = place / "empty"
        place.mkdir()
        monkeypatch.chdir(place)
        for script in blocks(page, "sh"):
            subprocess.run(["bash", "-euc", script], check=True)
        parts = [(place / "text" / f"{name}.en").read_text() for name in ("train", "dev", "test")]
        assert [text.count("\n") for text in parts] == [42, 3, 3]
    for one in commands(page):
        if one.makes:  # what another page takes for granted
            shutil.rmtree(place / one.makes, ignore_errors=True)
    for one in commands(page):
        if "--install-completion" not in one.line:
            one.run(place)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_options_exist(page):
    root = typer.main.get_command(app)
    known = {"--help"} | {option for parameter in root.params for option in parameter.opts}
    for one in root.commands.values():  # type: ignore[attr-defined]
        known |= {option for parameter in one.params for option in parameter.opts}
    for span in spans(page):
        ours = "\n".join(line for line in span.split("\n") if not OTHERS.match(line))
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w-])", ours))
        foreign = ELSEWHERE | ({"--out", "--pairs"} if "generate.py" in span else set())
        assert named <= known | foreign, f"{page.name}: {named - known} in {span}"


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "python.md"], ids=lambda p: p.name)
def test_settings_exist(page):
    training = {field.name for config in (TrainingConfig, EMConfig) for field in fields(config)}
    model = {field.name for one in ARCHITECTURES.values() for field in fields(one.config)}
    text = "\n".join(spans(page))
    for table, known in (("training", training), ("model", model)):
        keys = re.findall(rf"(?<![\w./-]){table}\.([a-z_0-9]+)", text)
        assert set(keys) - {"safetensors"} <= known
    head = re.search(r"\| key \| default \|.*?\n\n", page.read_text(encoding="utf-8"), re.S)
    if head and page.name == "README.md":
        first = "".join(re.findall(r"^\|([^|]*)\|", head.group(), re.M))
        assert set(re.findall(r"`([a-z_]+)`", first)) <= training


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_and_files_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert target.startswith("http") or (page.parent / target).exists(), target
    for span in spans(page):
        for name in re.findall(r"(?<![\w./])(?:recipes|docs|tests|nmtkit)/[\w./-]+", span):
            assert (ROOT / name.rstrip(".")).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_targets_of_make_exist(page):
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    recipes = {path.name for path in (ROOT / "recipes").iterdir()}
    for line in "\n".join(spans(page)).split("\n"):
        for target in line.split()[1:] if line.startswith("make ") else []:
            named = target.removeprefix("recipe-")
            if re.fullmatch(r"[a-z0-9-]+", target):
                assert target in known or (named != target and named in recipes), line


def test_every_error_line_is_on_its_page():
    """Word for word, with … for what differs; and the page quotes nothing that is not said."""
    text = re.sub(r"\n +", " ", TROUBLES.read_text(encoding="utf-8"))
    quoted = re.findall(r"^- `([^`]+)`", text, re.M)
    assert len(quoted) == len(set(quoted))
    said = templates()
    missing = {line: where for line, where in said.items() if line not in quoted}
    assert not missing, "\n".join(f"- `{line}`  ({where})" for line, where in missing.items())
    assert [line for line in quoted if line not in said] == []
