"""Several processes as one: gloo on the CPU, started by torchrun as a user starts them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from nmtkit import device
from nmtkit.checkpoint import read_tensors
from nmtkit.distributed import Group, close, first_to_fail, group
from nmtkit.errors import UserError
from nmtkit.train import is_begun, resume, settings_to_resume, train
from nmtkit.train.update import seed_of
from tests.conftest import Done, Toy, write
from tests.micro import CPU, records, settings
from tests.two_processes import RUNS

ROOT = Path(__file__).parents[1]


def torchrun(*arguments: object, options: tuple[str, ...] = (), stdin: bytes = b"") -> Done:
    """`torchrun -m ARGUMENTS` with two processes."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *options),
            *("-m", *map(str, arguments)),
        ],
        input=stdin,
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
        timeout=300,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def texts(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("texts")
    pairs = [("", ""), *toy.test[:11], ("", "")]
    return (
        write(folder / "source", [source for source, _ in pairs]),
        write(folder / "target", [target for _, target in pairs]),
    )


@pytest.fixture(scope="module")
def found(
    micro: Path, toy: Toy, texts: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder that two processes have left."""
    folder = tmp_path_factory.mktemp("found")
    done = torchrun("tests.two_processes", micro, toy.model, *texts, folder)
    assert done.code == 0, done.err
    return folder


def results(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def test_what_the_group_does(found):
    first, second = results(found)["operations"]
    everywhere = {
        "sum": [2, 1],
        "broadcast": [0.0, 0.0],
        "any": [True, False],
        "gather": [{"rank": ""}, {"rank": "é"}],
        "from_main": [0, "x", None],
        "joined": list("abcde"),
    }
    for one in (first, second):
        assert {name: one[name] for name in everywhere} == everywhere
        assert one["differs"].startswith("process 1 has other ranks than process 0")
    assert first["worked"] == [f"{i} {item}" for i, item in enumerate("abcdefg")]
    assert second["worked"] == []
    # Two blocks of four and three, half each: where a part begins, and how long it is.
    assert (first["parts"], second["parts"]) == ([[0, 2], [4, 1]], [[2, 2], [5, 2]])


def test_one_process_tells_why_it_fails(found):
    assert results(found)["first"] == 1


def test_the_gradient_is_that_of_one_process(found):
    differences = results(found)["differences"]
    assert len(differences) == 8
    assert max(differences.values()) < 1e-13, differences


def test_one_process_with_little_memory_splits_its_share(found):
    difference, split = results(found)["small memory"]
    assert difference < 1e-13
    assert split == [6, 3, 3][: len(split)]
    assert len(split) == 3


def test_a_gradient_that_is_not_finite_is_skipped_by_all(found):
    assert results(found)["skipped"] is True


def parameters(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "checkpoint" / "model.safetensors", CPU)


def distance(one: Path, other: Path) -> float:
    ours, theirs = parameters(one), parameters(other)
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def test_two_processes_are_one_with_twice_the_batch(micro, found, tmp_path):
    whole = [*RUNS["whole"], "batch_sentences=14"]
    train(settings(micro, *whole), tmp_path / "one")
    assert distance(tmp_path / "one", found / "whole") < 1e-5
    ours, theirs = records(tmp_path / "one"), records(found / "whole")
    assert [sorted(record) for record in ours] == [sorted(record) for record in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def test_resumed_by_another_number_of_processes(micro, found, tmp_path):
    train(settings(micro, *RUNS["whole"], "batch_sentences=14", "updates=17"), tmp_path / "one")
    shutil.copytree(found / "whole", tmp_path / "other")
    more = ["training.updates=17", "training.batch_sentences=14"]
    resume(settings_to_resume(tmp_path / "other", more), tmp_path / "other")
    assert distance(tmp_path / "one", tmp_path / "other") < 1e-5


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plain", ["translate", "--out"]),
        ("listed", ["translate", "--n-best", "2", "--out"]),
        ("drawn", ["translate", "--sample", "--n-best", "2", "--out"]),
        ("linked", ["translate", "--out", "-", "--alignments"]),
        ("align", ["align", "--format", "json", "--out"]),
    ],
)
def test_the_same_bytes_as_one_process(found, toy, texts, tmp_path, name, arguments):
    from tests.conftest import worked

    command, *options = arguments
    files = ["--source", texts[0], *(["--target", texts[1]] if command == "align" else [])]
    worked(command, toy.model, *files, "--device", "cpu", *options, tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == (found / name).read_bytes() != b""


def test_the_same_log_probabilities_as_one_process(found, toy, texts):
    from tests.conftest import worked

    one = worked("score", "--model", toy.model, "--source", texts[0], "--target", texts[1])
    assert one == (found / "score").read_text(encoding="utf-8") != ""


def test_a_run_goes_on_when_a_process_is_killed(micro, found, tmp_path):
    out = tmp_path / "killed"
    done = torchrun("tests.killed_worker", micro, out, options=("--max-restarts", "1"))
    assert done.code == 0, done.err
    assert (tmp_path / "mark").is_file()  # it was killed
    assert "exitcode: -6" not in done.err  # and the other has ended by itself
    for name in ("checkpoint/model", "checkpoint/optimizer", "model"):
        ours, theirs = (folder / f"{name}.safetensors" for folder in (out, found / "dropout"))
        assert ours.read_bytes() == theirs.read_bytes(), name
    assert records(out) == records(found / "dropout")


def test_an_error_is_told_once(toy, tmp_path):
    """In a line of nmtkit's, wherever it happens; torchrun says more for itself."""
    bad = tmp_path / "bad"
    bad.write_bytes(b"bada bogi\n\xff\n")
    done = torchrun("nmtkit", "translate", toy.model, "--source", bad, "--device", "cpu")
    assert done.code != 0
    assert done.out == ""
    told = [line for line in done.err.splitlines() if line.startswith("nmtkit:")]
    assert len(told) == 1
    assert f"{bad}:2: not UTF-8" in told[0]
    assert str(ROOT / "nmtkit") not in done.err  # no traceback through it


# ----------------------------------------------------------------------------------- one process


def test_the_group_of_one_process():
    one = group()
    assert (one.rank, one.size, one.main) == (0, 1, True)
    assert one.sum(torch.tensor([2.0])).tolist() == [2.0]
    assert [one.any(True), one.any(False)] == [True, False]
    assert one.gather({"a": 1}) == [{"a": 1}]
    assert one.from_main([1]) == [1]
    assert list(one.work("abc", lambda part, first: [f"{first}{x}" for x in part], 2)) == [
        "0a",
        "0b",
        "2c",
    ]
    one.check_same(1, "numbers")
    one.barrier()
    assert first_to_fail()
    assert first_to_fail()
    close()


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("items", ["", "a", "abcd", "abcdefg"])
def test_shares_are_joined_in_order(size, items):
    groups = [Group(rank, size) for rank in range(size)]
    shares = [one.share(items) for one in groups]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert "".join(groups[0].joined(shares)) == items


def test_seeds_differ_by_update_and_process():
    seeds = {seed_of(s, u, r) for s in (1, 2) for u in range(20) for r in range(4)}
    assert len(seeds) == 2 * 20 * 4
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_of(1, 2, 3) == seed_of(1, 2, 3)


def test_every_process_has_its_own_gpu(monkeypatch):
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(device, "local_rank", lambda: 1)
    assert device.resolve("auto") == torch.device("cuda")
    assert chosen == [1]
    monkeypatch.setattr(device, "local_rank", lambda: 2)
    assert device.resolve("cpu") == CPU
    with pytest.raises(UserError, match="process 3 of this machine has no GPU of its own"):
        device.resolve("cuda")


def test_whether_there_is_a_run_to_resume(tmp_path):
    assert not is_begun(tmp_path / "none")
    (tmp_path / "run" / "checkpoint").mkdir(parents=True)
    assert is_begun(tmp_path / "run")


# ----------------------------------------------------------------------------- translate --workers


def workers(*arguments: object, stdin: bytes = b"", number: int = 2) -> Done:
    command = [sys.executable, "-m", "nmtkit", *map(str, arguments), "--workers", str(number)]
    done = subprocess.run(
        command, input=stdin, capture_output=True, cwd=ROOT, check=False, timeout=300
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("number", [2, 3])
def test_workers_give_the_same_bytes(toy, texts, number):
    from tests.conftest import worked

    options = ["translate", toy.model, "--device", "cpu"]
    one = worked(*options, "--source", texts[0])
    done = workers(*options, stdin=texts[0].read_bytes(), number=number)
    assert (done.code, done.out, done.err) == (0, one, "")
    assert one.strip()


def test_an_error_of_workers_is_one_line(toy):
    done = workers("translate", toy.model, "--device", "cpu", stdin=b"bada bogi\n\xff\n")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("nmtkit: standard input:2: not UTF-8")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("option", ["--dictionary", "--glossary"])
def test_a_table_from_stdin_reaches_every_worker(toy, tmp_path, option):
    """Words that only the table can have given, in the lines of both halves."""
    word = toy.common[0][0].split(" ")[0]
    source = write(tmp_path / "s", [word if option == "--glossary" else "nowhere"] * 6)
    more = ["--replace-unknown"] if option == "--dictionary" else []
    given = ["translate", toy.model, "--device", "cpu", "--source", source, *more, option, "-"]
    table = f"nowhere\tirgendwo\n{word}\tirgendwo\n".encode()
    done = workers(*given, stdin=table)
    assert done.code == 0, done.err
    lines = done.out.split("\n")[:-1]
    assert len(lines) == 6
    assert all("irgendwo" in line for line in lines)


def test_modules_in_the_present_folder_are_not_taken(toy, texts, tmp_path):
    write(tmp_path / "random.py", ["raise SystemExit(3)"])
    script = Path(sys.executable).with_name("nmtkit")
    given = ["translate", toy.model, "--source", texts[0], "--device", "cpu", "--workers", "2"]
    command = [str(script), *map(str, given)]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False, timeout=120)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout


def test_a_worker_that_does_not_begin_is_no_reason_to_wait(toy, texts):
    program = (
        "import sys\nfrom nmtkit.cli import main, processes\n"
        "processes._command = lambda: [sys.executable, '-c', 'raise SystemExit(3)']\nmain()"
    )
    given = ["translate", toy.model, "--source", texts[0], "--device", "cpu", "--workers", "2"]
    command = [sys.executable, "-c", program, *map(str, given)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=False, timeout=120)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("nmtkit: --workers: a process ended before it began (exit status 3)")


def test_before_they_have_met_the_main_process_tells(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        assert first_to_fail() == (rank == "0")


def test_one_process_preprocesses(toy, texts, tmp_path):
    sides = [write(tmp_path / f"train.{end}", ["a b c"] * 9) for end in ("aa", "zz")]
    given = ["--source-lang", "aa", "--target-lang", "zz", "--train", tmp_path / "train"]
    done = torchrun("nmtkit", "preprocess", *given, "--out", tmp_path / "out", "--workers", "1")
    assert done.code == 0, done.err
    assert (tmp_path / "out" / "manifest.json").is_file()
    sides[0].write_bytes(b"a\xff\n")
    done = torchrun("nmtkit", "preprocess", *given, "--out", tmp_path / "no", "--workers", "1")
    assert done.code != 0
    assert "nmtkit: " in done.err
    assert not (tmp_path / "no").exists()


def test_workers_under_torchrun_are_refused(toy, texts):
    done = torchrun("nmtkit", "translate", toy.model, "--source", texts[0], "--workers", "2")
    assert done.code != 0
    assert "nmtkit: --workers: torchrun has started the processes already" in done.err
