"""Every recipe is complete and its settings build; Multi30k's scripts do what they say."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmtkit.models import build_model
from nmtkit.train.settings import settings_from

FOLDER = Path(__file__).parent.parent / "recipes"
RECIPES = sorted(path for path in FOLDER.iterdir() if path.is_dir() and path.name[0] not in "._")
SETTINGS = sorted(FOLDER.glob("*/*.toml"))


def test_there_are_recipes():
    assert {path.name for path in RECIPES} >= {"demo", "bible-grc-en", "multi30k"}


@pytest.mark.parametrize("folder", RECIPES, ids=lambda path: path.name)
@pytest.mark.parametrize("name", ["Makefile", "README.md", "*.toml"])
def test_a_recipe_is_complete(folder, name):
    found = list(folder.glob(name))
    assert found
    assert all(path.stat().st_size > 0 for path in found)


@pytest.mark.parametrize("path", SETTINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_settings_build_a_model(path):
    settings = settings_from("prepared", config=path)
    model = build_model(settings.model, source_size=11, target_size=12)
    assert sum(parameter.numel() for parameter in model.parameters()) > 0


@pytest.mark.parametrize("folder", RECIPES, ids=lambda path: path.name)
def test_make_can_say_what_it_would_do(folder, tmp_path):
    """No missing rule or file between the first target and the data."""
    command = [
        "make",
        "--always-make",
        "--dry-run",
        "-C",
        folder,
        f"OUT={tmp_path}",
        "NMTKIT=nmtkit",
    ]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=outside)
    assert done.returncode == 0, done.stderr
    assert "nmtkit" in done.stdout
    assert " train " in done.stdout


@pytest.fixture
def download(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER / "multi30k")
    return importlib.import_module("download")


def test_multi30k_checksums_cover_the_sets_of_the_recipe(download):
    names = download.wanted(download.read_checksums(download.HERE / "checksums.sha256"), ["de"])
    assert names == [
        f"{name}.de" for name in ("test_2016_flickr", "test_2017_flickr", "train", "val")
    ]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_multi30k_from_a_folder(download, tmp_path, suffix):
    text = b"Zwei Hunde.\n"
    (tmp_path / f"val.de{suffix}").write_bytes(gzip.compress(text) if suffix else text)
    checksum, out = hashlib.sha256(text).hexdigest(), tmp_path / "data"
    assert download.fetch("val.de", checksum, out, tmp_path)
    assert [path.name for path in out.iterdir()] == ["val.de"]
    assert (out / "val.de").read_bytes() == text
    assert not download.fetch("val.de", checksum, out, Path("nowhere"))  # there already


def test_multi30k_refuses_another_file(download, tmp_path):
    (tmp_path / "val.de").write_bytes(b"x\n")
    with pytest.raises(download.Failure, match=r"val\.de .* not the expected file"):
        download.fetch("val.de", "0" * 64, tmp_path / "data", tmp_path)
    assert not (tmp_path / "data").exists()


def test_multi30k_replaces_a_damaged_file(download, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "val.de").write_bytes(b"half")
    (tmp_path / "val.de").write_bytes(b"whole")
    checksum = hashlib.sha256(b"whole").hexdigest()
    assert download.fetch("val.de", checksum, tmp_path / "data", tmp_path)
    assert (tmp_path / "data" / "val.de").read_bytes() == b"whole"


def test_multi30k_without_a_network_says_what_to_do(download, monkeypatch, tmp_path):
    monkeypatch.setattr(download, "ADDRESS", (tmp_path / "nowhere").as_uri())
    with pytest.raises(download.Failure, match=r"is there a network.*DATA=FOLDER"):
        download.fetch("val.de", "0" * 64, tmp_path / "data", None)


def test_multi30k_tokenises_line_by_line():
    text = "Ein Hund läuft.\n\nA\u2028B \x85 C\x0bD\r\nZwei\n"
    command = [sys.executable, str(FOLDER / "tokens.py"), "--language", "de", "--lowercase"]
    done = subprocess.run(command, input=text.encode(), check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == "ein hund läuft .\n\na b c d\nzwei\n"


def test_multi30k_tokenise_names_bad_text():
    command = [sys.executable, str(FOLDER / "tokens.py"), "--language", "de", "--lowercase"]
    done = subprocess.run(command, input=b"a\n\xff\n", check=False, capture_output=True)
    assert done.returncode == 1
    assert done.stderr.startswith(b"tokens.py: ")
    assert done.stderr.count(b"\n") == 1
