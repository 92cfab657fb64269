"""Renew constraints.txt: the newest versions that install together, for every Python given.

    python .ci/lock.py python3.10 python3.11 python3.12 python3.13

Each interpreter resolves in a throw-away environment and installs nothing. A package whose newest
version differs between interpreters gets one line a version, with a marker. torch stays as it is:
it decides speed and the last digits of results, so its line is raised by hand and measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
DRIVERS = ("nvidia-", "cuda-", "triton")  # pinned by torch itself, and only in its CUDA builds
HEADER = """\
# The versions that the tests are run with, for pip install -c. pyproject.toml has the floors.
# Renew with `make lock`, then run `make clean test`. By hand only torch, which `make lock` keeps.
"""


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """The interpreter's version ("3.10") and the version of every package it would install."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inner, report = f"{folder}/bin/python", Path(folder, "report.json")
        install = [inner, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        wanted = [*held(), f"{ROOT}[dev]"]
        subprocess.run([*install, "--prefer-binary", "--report", str(report), *wanted], check=True)
        found = json.loads(report.read_text(encoding="utf-8"))
    short = ".".join(found["environment"]["python_full_version"].split(".")[:2])
    packages = {}
    for item in found["install"]:
        name = item["metadata"]["name"].lower().replace("_", "-")
        if name != "nmtkit" and not name.startswith(DRIVERS):
            packages[name] = item["metadata"]["version"].partition("+")[0]  # no local suffix: +cpu
    return short, packages


def held() -> list[str]:
    """The pins that stay: torch's lines of the present file, as requirements."""
    if not CONSTRAINTS.exists():
        return []
    present = CONSTRAINTS.read_text(encoding="utf-8").split("\n")
    return [line for line in present if line.startswith("torch==")]


def lines(resolved: dict[str, dict[str, str]]) -> list[str]:
    """One line for each package and version; a marker where not all interpreters agree."""
    users: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for python, packages in resolved.items():
        for name, version in packages.items():
            users[name][version].append(python)
    result = []
    for name in sorted(users):
        for version, pythons in users[name].items():
            marker = " or ".join(f"python_version == '{python}'" for python in pythons)
            older = [python for python in resolved if python not in pythons]
            if older and len(pythons) > 1:
                marker = f"python_version >= '{pythons[0]}'"
                if pythons != list(resolved)[-len(pythons) :]:
                    marker += f" and python_version <= '{pythons[-1]}'"
            result.append(f"{name}=={version}" + (f" ; {marker}" if older else ""))
    return result


def main() -> None:
    """Write constraints.txt for the interpreters named on the command line, oldest first."""
    resolved = dict(resolve(python) for python in sys.argv[1:])
    text = HEADER + f"# Resolved for Python {', '.join(resolved)}.\n"
    text += "".join(line + "\n" for line in lines(resolved))
    CONSTRAINTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
