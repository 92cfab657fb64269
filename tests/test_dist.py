"""The source archive and the wheel: what is in them, and that the wheel installs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from nmtkit import __version__

ROOT = Path(__file__).parent.parent
MADE = {"data", "download", "prepared", "models", "output"}  # in a recipe's folder
NAME = f"nmtkit-{__version__}"


def _left_out(folder: str, names: list[str]) -> set[str]:
    """What no checkout has."""
    parent = Path(folder).parent
    made = MADE if parent.name == "recipes" and parent.parent == ROOT else set()
    local = {name for name in names if re.fullmatch(r"\.(?!ci$).*|__pycache__|.*\.egg-info", name)}
    return local | made.intersection(names) | {"build", "dist"}.intersection(names)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make dist` would write, of a copy of the checkout."""
    copy = tmp_path_factory.mktemp("dist") / "nmtkit"
    shutil.copytree(ROOT, copy, ignore=_left_out)
    made = copy / "recipes" / "demo" / "data" / "train.en"  # which no archive is to have
    made.parent.mkdir()
    made.write_text("a\n", encoding="utf-8")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist")]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


def test_the_source_archive(dist):
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    wanted = (
        *("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "constraints.txt"),
        *("docs/alignment.md", "recipes/align.mk", "recipes/demo/recipe.toml", ".ci/lock.py"),
        *("tests/test_dist.py", "tests/conftest.py", "nmtkit/py.typed", "nmtkit/cli/train.py"),
    )
    assert names.issuperset(wanted)
    assert not [name for name in names if re.search(r"\.pyc$|__pycache__|^recipes/\w+/data", name)]


def test_the_wheel(dist):
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        about = wheel.read(f"{NAME}.dist-info/METADATA").decode()
    code = {str(path.relative_to(ROOT)) for path in (ROOT / "nmtkit").rglob("*.py")}
    data = {str(path.relative_to(ROOT)) for path in (ROOT / "nmtkit").rglob("*.toml")}
    rest = {name for name in names if ".dist-info/" not in name}
    assert rest == code | data | {"nmtkit/py.typed"}
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    assert "\nLicense-Expression: MIT\n" in about
    extras = set(re.findall(r"\nProvides-Extra: (\S+)", about))
    assert extras == {"plot", "sentencepiece", "comet", "tensorboard", "dev"}


def test_the_wheel_installs_and_runs(dist, tmp_path):
    """In an environment that has nothing but what nmtkit depends on."""
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    python = next(path for path in place.glob("*/python*") if path.is_file())
    wheel = dist / f"{NAME}-py3-none-any.whl"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    site = next(place.rglob("site-packages"))
    assert (site / "nmtkit" / "__init__.py").is_file()
    # A line of a .pth file adds a folder, and nothing that is installed there for editing.
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    command = [python.parent / "nmtkit", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"nmtkit {__version__}\nPython ")
    where = [python, "-c", "import nmtkit; print(nmtkit.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(site)


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert text.startswith("cff-version: 1.2.0\n")
    assert f"\nversion: {__version__}\n" in text
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {__version__}" in changes
