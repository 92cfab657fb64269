"""What nmtkit survives, in figures.

python faults.py kills --kills 100     processes killed while they train, and resumed
python faults.py flips --flips 2000    bits flipped in checkpoints and models
python faults.py fuzz --inputs 20000   hostile files of every kind (fuzz.py has more options)

Each ends with exit code 1 when something was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: the models are tiny

import torch

from nmtkit.checkpoint import load
from nmtkit.cli import main
from nmtkit.errors import UserError
from nmtkit.files import CHECKSUMS
from nmtkit.train.state import whole_checkpoint

SIZES = ("embedding", "encoder_hidden", "hidden", "attention_units", "maxout")
TINY = [
    *(f"--set=model.{name}=8" for name in SIZES),
    *("--set=model.initialisation=glorot", "--set=model.dropout_embedding=0.2"),
    *("--set=training.batch_sentences=16", "--set=training.patience=0", "--device=cpu"),
]
#: Kinds of runs, by what they have to take up again.
KINDS = {
    "plain": ["--set=training.select=loss"],
    "average": ["--set=training.average=3", "--set=training.valid_every=7"],
    "BPE-dropout": ["--set=training.bpe_dropout=0.2", "--set=training.valid_every=50"],
    "plateau": [
        *("--set=training.schedule=plateau", "--set=training.optimizer=adamw"),
        *("--set=training.decay_patience=1", "--set=training.learning_rate=0.1"),
    ],
}
WORK = Path(__file__).resolve().parent / "work"
EARLY = 0.2  # part of the kills that may come before the first update
WAIT = 1.0  # seconds, at most, until a process that has begun is killed


@dataclass
class Kills:
    """What became of the runs."""

    kills: int = 0
    early: int = 0  # of those, before the first update
    writing: int = 0  # of those, while a checkpoint was being written
    renaming: int = 0  # of those, between the renames that put it in its place
    runs: int = 0
    lost: int = 0  # processes that could not go on
    bits: int = 0  # that differ from the same run in one piece
    records: int = 0  # of metrics.jsonl that differ

    @property
    def failed(self) -> bool:
        return bool(self.lost or self.bits or self.records)


class Process:
    """`nmtkit ARGUMENTS` in a process of its own.

    It is forked from this one, which has loaded all modules: little time goes by until it works.
    """

    def __init__(self, *arguments: object) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.code: int | None = None  # once it has ended; below 0: killed by that signal
        self.message = ""  # then: what it has said
        self.number = os.fork()
        if self.number == 0:
            sys.stdout = sys.stderr = os.fdopen(self.log.fileno(), "w", encoding="utf-8")
            sys.argv = ["nmtkit", *map(str, arguments)]
            code = 1
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)

    def ended(self, wait: bool = False) -> bool:
        """Whether it has ended, or wait until then."""
        if self.code is None:
            number, status = os.waitpid(self.number, 0 if wait else os.WNOHANG)
            if number:
                self.code = os.waitstatus_to_exitcode(status)
                self.log.seek(0)
                self.message = self.log.read().decode()
                self.log.close()
        return self.code is not None

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if not self.ended():
            os.kill(self.number, signal.SIGKILL)
            self.ended(wait=True)


def nmtkit(*arguments: object) -> Process:
    """The process at its end."""
    process = Process(*arguments)
    process.ended(wait=True)
    return process


def needed(*arguments: object) -> None:
    """A process that must go well."""
    process = nmtkit(*arguments)
    if process.code:
        raise SystemExit(process.message)


def corpus(folder: Path, pairs: int = 200) -> Path:
    """A prepared corpus of an invented language: the words of the other one, last first."""
    draw = random.Random(1)
    syllables = [consonant + vowel for consonant in "bdgkm" for vowel in "aeiou"]
    words = ["".join(draw.choices(syllables, k=3)) for _ in range(40)]
    for name, count in (("train", pairs), ("valid", 10)):
        sentences = [[draw.choice(words) for _ in range(draw.randint(2, 9))] for _ in range(count)]
        for language, lines in (
            ("aa", (" ".join(one) for one in sentences)),
            ("zz", (" ".join(word[::-1] for word in reversed(one)) for one in sentences)),
        ):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
    sides = ("--source-lang", "aa", "--target-lang", "zz", "--merges", 80, "--workers", 1)
    files = ("--train", folder / "train", "--valid", folder / "valid", "--out", folder / "data")
    needed("preprocess", *sides, *files)
    return folder / "data"


def survive(folder: Path, kills: int, updates: int, seed: int) -> Kills:
    """Train, kill, resume, until so many kills; compare every run with one that was let alone."""
    found, draw = Kills(), random.Random(seed)
    data = corpus(folder)
    while found.kills < kills:
        kind = [*KINDS][found.runs % len(KINDS)]
        found.runs += 1
        options = [data, *TINY, *KINDS[kind], "--updates", updates, "--seed", found.runs]
        whole, parts = (folder / f"{name}-{found.runs}" for name in ("whole", "parts"))
        needed("train", *options, "--out", whole)
        options += ["--set=training.save_every=1", "--out", parts]
        share = -(-kills // len(KINDS))
        for _ in range(min(share, kills - found.kills)):
            if not _killed(_command(options, parts), parts, draw, found):
                break
        done = nmtkit(*_command(options, parts))
        if done.code:
            print(done.message, file=sys.stderr)
            found.lost += 1
        else:
            found.bits += _different_bits(whole, parts)
            found.records += _different_records(whole, parts)
        print(f"{kind}: {found}", file=sys.stderr, flush=True)
    return found


def _command(options: list[object], out: Path) -> list[object]:
    """Begin, or go on with what is there."""
    return ["train", *options, *["--resume"] * (out / "config.toml").is_file()]


def _killed(command: list[object], out: Path, draw: random.Random, found: Kills) -> bool:
    """Start a process and kill it at some moment; False when it had ended by itself."""
    before = _stamp(out)
    early = draw.random() < EARLY
    process = Process(*command)
    # A new run writes a checkpoint before its first update, a resumed one after it.
    while not early and not process.ended() and _stamp(out) == before:
        time.sleep(0.002)
    time.sleep(draw.uniform(0, WAIT))
    process.kill()
    if process.code != -signal.SIGKILL:
        if process.code:
            print(process.message, file=sys.stderr)
            found.lost += 1
        return False
    found.kills += 1
    found.early += _stamp(out) == before
    found.writing += any(out.glob(".checkpoint.*"))
    found.renaming += (out / "checkpoint.previous").exists() and not (out / "checkpoint").exists()
    return True


def _stamp(out: Path) -> object:
    """Changes with every checkpoint."""
    try:
        found = (out / "checkpoint" / "state.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _different_bits(one: Path, other: Path) -> int:
    names = {path.relative_to(top) for top in (one, other) for path in top.rglob("*.safetensors")}
    names = {name for name in names if name.parts[0] != "checkpoint.previous"}
    total = 0
    for name in sorted(names):
        files = [top / name for top in (one, other)]
        contents = [path.read_bytes() if path.exists() else b"" for path in files]
        numbers = [int.from_bytes(content, "little") for content in contents]
        total += (numbers[0] ^ numbers[1]).bit_count() + abs(len(contents[0]) - len(contents[1]))
    return total


def _different_records(one: Path, other: Path) -> int:
    """Lines of metrics.jsonl that are not the same but for their times."""
    counts = [Counter(map(json.dumps, _records(top))) for top in (one, other)]
    return sum((counts[0] - counts[1]).values()) + sum((counts[1] - counts[0]).values())


def _records(top: Path) -> Iterator[dict[str, Any]]:
    for line in (top / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        del record["minutes"]
        yield record


@dataclass
class Flips:
    """Of flipped bits and cut files: how many there were, and how many were found."""

    flips: int = 0
    found: int = 0
    harmless: int = 0  # not found, since they change no number: in spaces of a header
    resumed: int = 0  # runs that went on from the checkpoint before
    bits: int = 0  # that differ then

    @property
    def failed(self) -> bool:
        return bool(self.flips - self.found - self.harmless or self.bits)


def damage(folder: Path, flips: int, seed: int, resumes: int = 8) -> Flips:
    """Damage checkpoints and models, one bit or one cut at a time; resume after some of that."""
    found, draw = Flips(), random.Random(seed)
    options = [corpus(folder), *TINY, *KINDS["average"], "--set=training.save_every=5"]
    for name, updates in (("whole", 30), ("m", 22)):
        needed("train", *options, "--updates", updates, "--out", folder / name)
    out = folder / "m"
    model = load(out, torch.device("cpu")).model.state_dict()
    files = [*sorted((out / "checkpoint").iterdir()), out / "model.safetensors"]
    for number in range(flips):
        path = files[number % len(files)]
        content = path.read_bytes()
        path.write_bytes(_damaged(content, draw))
        found.flips += 1
        try:
            if path.parent == out:
                after = load(out, torch.device("cpu")).model.state_dict()
                same = all(torch.equal(after[name], tensor) for name, tensor in model.items())
                found.harmless += same
            else:
                whole_checkpoint(out)
        except UserError as error:
            found.found += path.name in str(error) or path.name == CHECKSUMS
        path.write_bytes(content)
    for path in draw.sample(files[:-1], resumes):
        copy = Path(shutil.copytree(out, folder / f"copy-{path.name}"))
        place = copy / "checkpoint" / path.name
        place.write_bytes(_damaged(place.read_bytes(), draw))
        command = ("train", "--resume", "--out", copy, "--updates", 30)
        refused = nmtkit(*command)
        if refused.code == 1 and "remove that folder" in refused.message:
            shutil.rmtree(copy / "checkpoint")
            found.resumed += nmtkit(*command).code == 0
        found.bits += _different_bits(folder / "whole", copy)
    return found


def _damaged(content: bytes, draw: random.Random) -> bytes:
    """One bit flipped; at times the end cut off instead."""
    if draw.random() < 0.2:
        return content[: draw.randrange(len(content))]
    place = draw.randrange(len(content))
    flipped = content[place] ^ 1 << draw.randrange(8)
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def report(found: object) -> None:
    """The figures, one a line."""
    for name, value in vars(found).items():
        print(f"{name:10} {value:8}")


def parse() -> None:
    """Parse, do, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(required=True, dest="command")
    one = commands.add_parser("kills", help="kill and resume training")
    one.add_argument("--kills", type=int, default=100)
    one.add_argument("--updates", type=int, default=250, help="of a run")
    two = commands.add_parser("flips", help="damage checkpoints and models")
    two.add_argument("--flips", type=int, default=2000)
    three = commands.add_parser("fuzz", help="read hostile files")
    three.add_argument("--inputs", type=int, default=20_000)
    three.add_argument("--failures", type=Path, default=WORK / "fuzz", help="saved there")
    for command in (one, two, three):
        command.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.command == "fuzz":
        from fuzz import NAMES, fuzz  # needs what the tests need

        sys.exit(fuzz(given.inputs, given.seed, NAMES, given.failures))
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        found: Kills | Flips
        if given.command == "kills":
            found = survive(folder, given.kills, given.updates, given.seed)
        else:
            found = damage(folder, given.flips, given.seed)
        report(found)
    sys.exit(found.failed)


if __name__ == "__main__":
    parse()
