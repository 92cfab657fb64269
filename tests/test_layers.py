"""Imports point downward, and what needs no torch does not load it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nmtkit

PACKAGE = Path(nmtkit.__file__).parent

# A module, or a package with all its modules, may import from the layers before its own.
LAYERS = [
    {"errors", "memory", "progress"},
    {"files", "distributed"},
    {"config", "vocabulary", "extended", "text", "corpus", "links", "score", "heatmap", "curves"},
    {"data", "batches", "models", "device"},
    {"search", "checkpoint"},
    {"preprocess", "align", "likelihood"},
    {"translate"},
    {"train", "api"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
RANK["__init__"] = -1  # the version
WITHIN_A_LAYER = {
    ("text", "vocabulary"),
    ("extended", "vocabulary"),
    ("links", "corpus"),
    ("score", "links"),
    ("score", "text"),
    ("score", "vocabulary"),
    ("batches", "data"),
}
NEED_TORCH = {
    *("distributed", "models", "batches", "device", "search", "checkpoint", "likelihood"),
    *("translate", "align", "train", "api"),
}
TERMINAL = {"typer", "click", "rich", "tqdm"}  # only cli speaks to a terminal
MEASURES_WIDTH = {("heatmap", "rich.cells")}  # prints nothing: asks how wide a character is


def module_name(path: Path, package: Path) -> str:
    """nmtkit/models/gru.py -> nmtkit.models.gru; nmtkit/models/__init__.py -> nmtkit.models."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part(name: str) -> str:
    """The name that has a rank: nmtkit.models.gru -> models."""
    return [*name.split("."), "__init__"][1]


def run_time_imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports under ``node``, those inside functions too, but not under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from run_time_imports(ast.Module([other], []))
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        else:
            yield from run_time_imports(child)


def imported_names(path: Path, package: Path) -> Iterator[str]:
    """Absolute names of what the file imports; for `from nmtkit import x` it is nmtkit.x."""
    here = module_name(path, package).split(".")
    if path.stem != "__init__":
        here = here[:-1]
    for node in run_time_imports(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
            continue
        base = here[: len(here) + 1 - node.level] if node.level else []
        name = ".".join([*base, *(node.module or "").split(".")]).strip(".")
        if name == package.name:
            for alias in node.names:
                known = (package / alias.name).is_dir() or (package / f"{alias.name}.py").exists()
                yield f"{name}.{alias.name}" if known else name
        else:
            yield name


def violations(package: Path) -> list[str]:
    """One sentence for every import that points sideways or upward."""
    found = []
    for path in sorted(package.rglob("*.py")):
        name = module_name(path, package)
        importer = part(name)
        if importer not in RANK:
            found.append(f"{name} has no layer: give it one in LAYERS")
            continue
        for imported in imported_names(path, package):
            if imported.split(".")[0] != package.name:
                speaks = imported.split(".")[0] in TERMINAL and importer != "cli"
                if speaks and (importer, imported) not in MEASURES_WIDTH:
                    found.append(f"{name} imports {imported}: only cli may")
                continue
            other = part(imported)
            allowed = other == importer or (importer, other) in WITHIN_A_LAYER
            if not allowed and RANK.get(other, len(RANK)) >= RANK[importer]:
                found.append(f"{name} imports {imported}")
    return found


def test_imports_point_downward():
    assert violations(PACKAGE) == []


@pytest.mark.parametrize(
    ("file", "code", "found"),
    [
        ("search.py", "import nmtkit.train", ["nmtkit.search imports nmtkit.train"]),
        ("search.py", "from nmtkit import train", ["nmtkit.search imports nmtkit.train"]),
        ("search.py", "from . import train", ["nmtkit.search imports nmtkit.train"]),
        ("search.py", "def f():\n    from .train import x", ["nmtkit.search imports nmtkit.train"]),
        ("models/gru.py", "from ..data import x", ["nmtkit.models.gru imports nmtkit.data"]),
        ("models/__init__.py", "from ..data import x", ["nmtkit.models imports nmtkit.data"]),
        ("errors.py", "import nmtkit.nothing", ["nmtkit.errors imports nmtkit.nothing"]),
        ("novelty.py", "", ["nmtkit.novelty has no layer: give it one in LAYERS"]),
        ("score.py", "import rich.table", ["nmtkit.score imports rich.table: only cli may"]),
        ("vocabulary.py", "from nmtkit.text import x", ["nmtkit.vocabulary imports nmtkit.text"]),
        ("text.py", "from nmtkit.vocabulary import x", []),
        ("search.py", "from nmtkit import __version__", []),
        ("search.py", "if TYPE_CHECKING:\n    import nmtkit.train", []),
        ("search.py", "from nmtkit.models.gru import x\nimport torch", []),
        ("models/gru.py", "from .seq2seq import x\nfrom nmtkit.models import y", []),
        ("cli.py", "import typer, nmtkit.train", []),
    ],
)
def test_the_check_itself(tmp_path, file, code, found):
    path = tmp_path / "nmtkit" / file
    path.parent.mkdir(parents=True)
    path.write_text(code, encoding="utf-8")
    (tmp_path / "nmtkit" / "train.py").touch()
    assert violations(tmp_path / "nmtkit") == found


def test_light_modules_do_not_load_torch():
    names = sorted(module_name(path, PACKAGE) for path in PACKAGE.rglob("*.py"))
    light = [name for name in names if part(name) not in NEED_TORCH]
    assert "nmtkit.errors" in light
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules: sys.exit(name + ' loads torch')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *light], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
