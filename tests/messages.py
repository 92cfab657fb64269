"""The error lines that the source can print, as docs/troubleshooting.md quotes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nmtkit

PACKAGE = Path(nmtkit.__file__).parent
ERRORS = {"UserError", "WrongUsage"}
GAP = "…"  # what differs from case to case


def templates(package: Path = PACKAGE) -> dict[str, str]:
    """Every line of an error class, with … for what is filled in -> where the source has it."""
    found: dict[str, str] = {}
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ERRORS:
                text = "".join(_pieces(node.args[0])) if node.args else ""
                if text.strip(f"{GAP}: "):
                    found.setdefault(text, f"{path.relative_to(package)}:{node.lineno}")
    return found


def _pieces(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _pieces(value)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from (*_pieces(node.left), *_pieces(node.right))
    else:
        yield GAP
