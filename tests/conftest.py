"""A toy language pair, and models that have learned it; the command line run in this process.

The toy task: a source word has one translation, the words come out in reverse order, and the mark
at the end of some sentences stays there. So the right translation and links of all are known.
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: the models are tiny

import hypothesis
import pytest

from nmtkit.cli import main

hypothesis.settings.register_profile("nmtkit", deadline=None)
hypothesis.settings.load_profile("nmtkit")

COMMON, RARE = 24, 12  # the shortlist has the common words and the marks
MARKS = (".", "!", "?")
MOST_WORDS = 6

Pair = tuple[str, str]


# ------------------------------------------------------------------------------ the command line


@dataclass(frozen=True)
class Done:
    """What a command left: exit code, and all of stdout and stderr."""

    code: int
    out: str
    err: str


def command(*arguments: object, stdin: str | bytes = b"") -> Done:
    """`nmtkit ARGUMENTS` through its entry point, with streams that are no terminal."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    streams: dict[str, Any] = {
        name: io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="\n")
        for name, content in (("stdin", given), ("stdout", b""), ("stderr", b""))
    }
    code = 0
    with mock.patch.multiple(sys, argv=["nmtkit", *map(str, arguments)], **streams):
        try:
            main()
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
    texts = []
    for name in ("stdout", "stderr"):
        streams[name].flush()
        texts.append(streams[name].buffer.getvalue().decode())
    return Done(code, *texts)


def process(*arguments: object, stdin: bytes = b"", cwd: Path | None = None) -> Done:
    """`python -m nmtkit ARGUMENTS` as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "nmtkit", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        check=False,
        timeout=300,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def worked(*arguments: object, stdin: str | bytes = b"") -> str:
    """The stdout of a command that must succeed."""
    done = command(*arguments, stdin=stdin)
    assert done.code == 0, done.err
    return done.out


def failed(*arguments: object, stdin: str | bytes = b"") -> str:
    """The message of a command that must fail on its input: one line, and nothing else."""
    done = command(*arguments, stdin=stdin)
    assert (done.code, done.out) == (1, ""), done
    assert done.err.startswith("nmtkit: ")
    assert done.err.endswith("\n")
    assert len(done.err.splitlines()) == 1, done.err
    return done.err.removeprefix("nmtkit: ").removesuffix("\n")


def misused(*arguments: object) -> str:
    """The message of a command used wrongly."""
    done = command(*arguments)
    assert (done.code, done.out) == (2, ""), done
    assert "Usage: nmtkit" in done.err
    assert "Traceback" not in done.err
    return done.err


def write(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, hidden ones too."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def lines_of(text: str) -> list[str]:
    """The lines of a text that only newlines end."""
    assert text == "" or text.endswith("\n")
    return text.split("\n")[:-1]


# -------------------------------------------------------------------------------- the toy language


def invented(count: int, consonants: str, vowels: str, seed: int) -> list[str]:
    draw = random.Random(seed)
    words: list[str] = []
    while len(words) < count:
        word = "".join(draw.choice(consonants) + draw.choice(vowels) for _ in range(3))
        if word not in words:
            words.append(word)
    return words


SOURCE = invented(COMMON + RARE, "bdgklm", "aei", seed=1)
TARGET = invented(COMMON + RARE, "nprstvz", "ouy", seed=2)
TRANSLATION = dict(zip(SOURCE, TARGET, strict=True)) | {mark: mark for mark in MARKS}


def toy_pairs(count: int, seed: int, rare: float = 0.1) -> list[Pair]:
    """Sentence pairs in tokens; every word is a rare one with probability `rare`."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [
            SOURCE[
                COMMON + draw.randrange(RARE) if draw.random() < rare else draw.randrange(COMMON)
            ]
            for _ in range(draw.randint(1, MOST_WORDS))
        ]
        mark = [draw.choice(MARKS)] if draw.random() < 0.7 else []
        translated = [TRANSLATION[word] for word in reversed(words)]
        pairs.append((" ".join(words + mark), " ".join(translated + mark)))
    return pairs


def toy_links(source: str) -> str:
    """The links of a source line (tokens) and its translation, Pharaoh format."""
    tokens = source.split(" ")
    words = len(tokens) - (tokens[-1] in MARKS)
    links = [(j, words - 1 - j) for j in range(words)]
    if words < len(tokens):
        links.append((words, words))
    return " ".join(f"{j}-{i}" for j, i in links)


def raw(line: str) -> str:
    """Tokens as running text."""
    for mark in MARKS:
        line = line.replace(f" {mark}", mark)
    return line


@dataclass(frozen=True)
class Toy:
    """The toy task on disk. Test sentences are in tokens, some have words of no shortlist."""

    folder: Path
    data: Path  # prepared corpus aa -> zz
    model: Path
    reverse: Path  # zz -> aa
    test: Sequence[Pair]

    @property
    def common(self) -> list[Pair]:
        """The test pairs of known words only."""
        known = {*SOURCE[:COMMON], *MARKS}
        return [pair for pair in self.test if known.issuperset(pair[0].split(" "))]


SIZES = {"embedding": 32, "encoder_hidden": 32, "hidden": 48, "attention_units": 32, "maxout": 32}
TRAINING = {"learning_rate": 0.005, "batch_sentences": 32, "select": "loss", "epochs": 8}
SMALL = [
    *(f"--set=model.{name}={size}" for name, size in SIZES.items()),
    *(f"--set=training.{name}={value}" for name, value in TRAINING.items()),
    "--set=model.initialisation=glorot",
    "--set=training.schedule=cosine",
    "--device=cpu",
]


def prepare(folder: Path, languages: str, out: Path, *options: str) -> Path:
    source, target = languages.split("-")
    worked(
        *("preprocess", "--source-lang", source, "--target-lang", target, "--out", out),
        *("--train", folder / "train", "--valid", folder / "valid", "--workers", 1, *options),
    )
    return out


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    folder = tmp_path_factory.mktemp("toy")
    for name, pairs in (("train", toy_pairs(2000, 1)), ("valid", toy_pairs(40, 2, rare=0.0))):
        write(folder / f"{name}.aa", (raw(source) for source, _ in pairs))
        write(folder / f"{name}.zz", (raw(target) for _, target in pairs))
    words = ("--subwords", "none", "--vocabulary-size", str(COMMON + len(MARKS)), "--case", "lower")
    data = prepare(folder, "aa-zz", folder / "data", *words)
    back = prepare(folder, "zz-aa", folder / "data.reverse", *words)
    worked("train", data, "--out", folder / "model", *SMALL)
    worked("train", back, "--out", folder / "reverse", *SMALL)
    return Toy(folder, data, folder / "model", folder / "reverse", toy_pairs(60, 3))


MICRO_PAIRS = {"train": toy_pairs(60, 5), "valid": toy_pairs(8, 6)}


@pytest.fixture(scope="session")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared corpus of 60 pairs in subwords, for runs of a second; beside it its text, and the
    links of both parts.
    """
    folder = tmp_path_factory.mktemp("micro")
    for name, pairs in MICRO_PAIRS.items():
        write(folder / f"{name}.aa", (source for source, _ in pairs))
        write(folder / f"{name}.zz", (target for _, target in pairs))
        write(folder / f"{name}.links", (toy_links(source) for source, _ in pairs))
    return prepare(folder, "aa-zz", folder / "data", "--merges", "60")


@pytest.fixture(scope="session")
def model(micro: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the micro corpus that has learned nothing, for what needs any model at all."""
    from tests.micro import run

    return run(micro, tmp_path_factory.mktemp("micro") / "model", "updates=2")
