"""What nmtkit --version prints."""

from __future__ import annotations

import ast
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from nmtkit import __version__


def versions() -> str:
    """nmtkit, Python and torch a line each; torch is looked at and not loaded."""
    return "\n".join((f"nmtkit {__version__}", f"Python {platform.python_version()}", _torch()))


def _torch() -> str:
    try:
        found = version("torch")
    except PackageNotFoundError:
        return "torch is not installed"
    spec = find_spec("torch")  # of a top-level package: does not run it
    built = None if spec is None or spec.origin is None else _cuda(Path(spec.origin).parent)
    return f"torch {found}" + (f" ({built})" if built else "")


def _cuda(package: Path) -> str | None:
    """Which CUDA torch was built for, by its version.py; None when that does not say."""
    try:
        tree = ast.parse((package / "version.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return None
    for node in tree.body:
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == "cuda" and isinstance(node.value, ast.Constant):
                number = node.value.value
                return "without CUDA" if number is None else f"CUDA {number!s}"
    return None
