"""Hostile files: some hundred random ones, and every kind that once did harm."""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import nmtkit
from nmtkit import cli
from nmtkit.batches import LONGEST as SUBWORDS
from nmtkit.config import DOTS, read_toml
from nmtkit.corpus import streams, tmx
from nmtkit.curves import save_curves
from nmtkit.errors import UserError
from nmtkit.files import damaged_files, read_json, write_checksums
from nmtkit.text.casing import Truecaser
from nmtkit.train.state import STATE
from nmtkit.translate.markup import MOST, parse
from nmtkit.vocabulary import Vocabulary
from tests.conftest import failed, worked, write
from tests.fuzz.campaign import shares
from tests.fuzz.case import Case, run
from tests.fuzz.entries import seal_text
from tests.fuzz.given import LANGUAGES, make
from tests.fuzz.kinds import KINDS

INPUTS = 250
SOURCE = Path(nmtkit.__file__).parent


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("valid"))


@pytest.fixture
def model(base, tmp_path) -> Path:
    return Path(shutil.copytree(base / "models" / "rnnsearch", tmp_path / "model"))


def align(base: Path, model: Path) -> str:
    pair = ("--source", base / "test.tokens.aa", "--target", base / "test.tokens.zz")
    return failed("align", model, *pair)


# ---------------------------------------------------------------------------------- random inputs


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_random_files_do_no_harm(kind, base, tmp_path):
    count = shares(INPUTS)[KINDS.index(kind)]
    outcomes = [run(Case(kind, number, seed=2), base, tmp_path / "case") for number in range(count)]
    assert {one.what for one in outcomes} <= {"result", "error"}, [
        (number, one.text) for number, one in enumerate(outcomes) if one.what == "fault"
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_valid_files_are_read(kind, base, tmp_path):
    """So that what is refused is refused for the change."""
    for command in kind.commands:
        case = Case(replace(kind, commands=[command], given=kind.given[:1], files=["-"]), 0)
        assert run(case, base, tmp_path / "case").what == "result", command


def test_what_does_harm_is_seen(base, tmp_path, monkeypatch):
    """A traceback, a long wait, a file changed or left behind, an error of two lines."""
    case = Case(KINDS[0], 1)

    def judged(harm):
        monkeypatch.setattr("tests.fuzz.case.command", lambda *a: harm(tmp_path / "case") or done)
        return run(case, base, tmp_path / "case")

    done = cli_done(0, "")
    assert judged(lambda _: None).what == "result"
    assert judged(lambda place: (place / "outside" / "secret").write_text("x")).what == "fault"
    assert judged(lambda place: (place / "out" / ".x").touch()).what == "fault"
    assert "ZeroDivisionError" in judged(lambda place: 1 // 0).text
    monkeypatch.setattr("tests.fuzz.case.CPU_SECONDS", 0.05)
    assert "too long" in judged(lambda place: all(iter(int, 1)) or loop()).text
    done = cli_done(1, "nmtkit: one\n")
    assert judged(lambda _: None).what == "error"
    done = cli_done(1, "nmtkit: one\ntwo\n")
    assert judged(lambda _: None).what == "fault"
    assert not (tmp_path / "case").exists()


def loop():
    while True:
        pass


def cli_done(code, err):
    from tests.conftest import Done

    return Done(code, "", err)


# ------------------------------------------------------------------------------ pipes and devices


@pytest.mark.parametrize("name", ["text.json", "vocabulary.aa", "codes.bpe", "truecase.zz"])
def test_a_pipe_in_a_model_is_not_waited_for(base, model, name):
    (model / name).unlink()
    os.mkfifo(model / name)
    assert re.fullmatch(r"cannot read .*: it is not a plain file", align(base, model))


def test_a_device_is_not_read_for_ever(base, model):
    (model / "vocabulary.aa").unlink()
    (model / "vocabulary.aa").symlink_to("/dev/zero")
    assert align(base, model).endswith("vocabulary.aa: it is not a plain file")


def test_pipes_among_checksums_and_metrics(model, tmp_path):
    write_checksums(model)
    (model / "SHA256SUMS").unlink()
    os.mkfifo(model / "SHA256SUMS")
    assert damaged_files(model) == ["SHA256SUMS"]
    (model / "metrics.jsonl").unlink()
    os.mkfifo(model / "metrics.jsonl")
    with pytest.raises(UserError, match="it is not a plain file"):
        save_curves(tmp_path / "x.svg", [model])


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.toml", "model.safetensors", "validated"])
def test_a_resumed_run_writes_through_no_link(base, tmp_path, name):
    shutil.copytree(base / "run", tmp_path / "run")
    outside = tmp_path / "outside"
    if name == "validated":
        outside.mkdir()
        (outside / "kept").write_text("x")
    else:
        shutil.copy(tmp_path / "run" / name, outside)
        (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).symlink_to(outside)
    before = sorted(outside.iterdir()) if outside.is_dir() else outside.read_bytes()
    message = failed("train", "--resume", "--out", tmp_path / "run", "--updates", 3)
    assert f"{name} is not a plain file" in message
    assert before == (sorted(outside.iterdir()) if outside.is_dir() else outside.read_bytes())


def test_a_link_to_itself(base, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    models, text = base / "models", base / "test.aa"
    read = ("preprocess", *LANGUAGES, "--train", base / "few.tsv", "--out", tmp_path / "data")
    for line in (
        ("translate", models / "rnnsearch", "--source", loop),
        ("translate", loop, "--source", text),
        ("align", "--convert", loop),
        ("train", base / "corpus", "--out", loop),
        ("train", "--config", loop, "--out", tmp_path / "m"),
        (*read, "--merge", loop),
    ):
        assert "loop" in failed(*line)
    worked("translate", models / "rnnsearch", "--source", text, "--out", loop)
    assert loop.is_file()


# ------------------------------------------------------------------------------ numbers and depth


@pytest.mark.parametrize("digits", [19, 5000])
def test_counts_of_too_many_digits(tmp_path, digits):
    count = "9" * digits
    specials = "".join(f"{special}\t0\n" for special in ("<pad>", "<unk>", "<s>", "</s>"))
    (tmp_path / "v").write_text(f"{specials}a\t{count}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"v:5: a line of a vocabulary must be"):
        Vocabulary.load(tmp_path / "v")
    (tmp_path / "t").write_text(f"a ({count}/{count})\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"t:1: a line of a truecaser must be"):
        Truecaser.load(tmp_path / "t")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "9" * 5000, "not valid TOML"),
        ("a." * DOTS + "a = 1\n" + "b = 1", "more than 20 tables within each other"),
        ("a = " + "[" * 30 + "]" * 30, "more than 20 tables within each other"),
        ("a." * (DOTS + 1) + "a = 1", r"or 100 dots in a line"),
        ("#" * (1 << 18) + "#", "more than 262144 characters"),
        ("a = " + "[" * 100_000, "not valid TOML"),
    ],
)
def test_settings_that_would_take_all_memory(tmp_path, text, message):
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_toml(tmp_path / "s.toml")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("embedding", "0x" + "f" * 5000, "embedding is an integer of more than 64 bits"),
        ("embedding", str(2**63), "embedding is an integer of more than 64 bits"),
        ("encoder_layers", "1000000", "encoder_layers must be at most 1000, got 1000000"),
        ("decoder_layers", "1001", "decoder_layers must be at most 1000, got 1001"),
    ],
)
def test_sizes_that_are_lies(base, tmp_path, key, value, message):
    model = Path(shutil.copytree(base / "models" / "transformer", tmp_path / "model"))
    text = (model / "config.toml").read_text(encoding="utf-8")
    changed = re.sub(rf"^{key} = \d+$", f"{key} = {value}", text, flags=re.M)
    assert changed != text
    (model / "config.toml").write_text(changed, encoding="utf-8")
    assert message in align(base, model)


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e999", "-1e16", "true", '"1"', "[]"])
@pytest.mark.parametrize("name", ["decays", "best", "seconds"])
def test_positions_that_no_run_can_come_to(base, tmp_path, name, value):
    run = Path(shutil.copytree(base / "run", tmp_path / "run"))
    table = read_json(run / "checkpoint" / STATE, "")
    text = json.dumps({**table, name: "@"}).replace('"@"', value)
    (run / "checkpoint" / STATE).write_text(text, encoding="utf-8")
    write_checksums(run / "checkpoint")
    message = failed("train", "--resume", "--out", run, "--updates", 3)
    assert f"{STATE}: {name} cannot be" in message


@pytest.mark.parametrize("step", ['"1"', "null", "[1]", "true", "1e999", "1" + "0" * 400, "NaN"])
def test_figures_that_cannot_be_drawn(tmp_path, step):
    write(
        tmp_path / "metrics.jsonl",
        [f'{{"update": {step}, "train_loss": 1}}', f'{{"update": 1, "train_loss": {step}}}'],
    )
    with pytest.raises(UserError, match="no figures yet to draw"):
        save_curves(tmp_path / "x.svg", [tmp_path])
    write(tmp_path / "metrics.jsonl", ["[" * 100_000])
    with pytest.raises(UserError, match=r"metrics.jsonl:1: not a JSON object"):
        save_curves(tmp_path / "x.svg", [tmp_path])


@pytest.mark.parametrize("name", ["truecase.aa", "codes.bpe"])
def test_parts_that_segmenting_needs(base, model, name):
    table = read_json(model / "text.json", "")
    del table["source"]["files"][name]
    (model / "text.json").write_text(json.dumps(table), encoding="utf-8")
    assert align(base, model).endswith(f"[source] files lacks {name!r}")


# ------------------------------------------------------------------------------- lines without end


def test_a_line_without_end(tmp_path, monkeypatch):
    """Some kilobytes of gzip can hold gigabytes."""
    monkeypatch.setattr(streams, "LONGEST", 1000)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\n" + b"x" * 998 + b"\n" + b"x" * 10**6))
    found: list[str] = []
    with pytest.raises(UserError, match=r"a.gz:3: a line of 1000 bytes or more: that is no text"):
        found.extend(streams.read_lines(tmp_path / "a.gz"))
    assert list(map(len, found)) == [1, 998]


@pytest.mark.parametrize(
    "inner",
    [
        "<tu>" * tmx.DEEPEST,
        "".join(f"<x{number}/>" for number in range(tmx.MOST_NAMES)),
        "<x y='" + "z" * 10_000,
        "<!--" + "z" * 10_000,
        "<tu><tuv xml:lang='aa'><seg>" + "z " * 10_000,
        "<tu>" + "<tuv xml:lang='aa'><seg/></tuv>" * 100,
    ],
)
def test_translation_memories_without_end(tmp_path, monkeypatch, inner):
    monkeypatch.setattr(tmx, "LARGEST", 9_000)
    (tmp_path / "a.tmx").write_text(f"<tmx>{inner}", encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.tmx:1: a unit of more than .* no translation memory"):
        list(tmx.read_tmx(tmp_path / "a.tmx", "aa", "zz"))


def test_lines_that_need_too_much_memory(base, tmp_path):
    words = write(tmp_path / "long", ["a", "x " * SUBWORDS + "x"])
    both = ("--source", words, "--target", words)
    model = base / "models" / "transformer"
    said = f"{SUBWORDS + 1} subwords, more than {SUBWORDS}: cut it into sentences"
    assert failed("translate", model, "--source", words) == f"{words}:2: {said}"
    assert failed("translate", model, "--source", words, "--prefix", words).endswith(said)
    assert failed("align", model, *both) == f"pair 2: {said}"
    assert failed("align", model, "--faithfulness", *both) == f"pair 2: {said}"
    assert failed("score", "--model", model, *both) == f"pair 2: {said}"


def test_lines_that_need_too_much_time():
    parse("<br/>" * MOST, "here")
    with pytest.raises(UserError, match=f"here: more than {MOST} elements: cut the line"):
        parse("<br/>" * (MOST + 1), "here")


def test_lines_that_are_too_long_for_ter(tmp_path):
    long = write(tmp_path / "long", ["x " * 2001])
    short = write(tmp_path / "short", ["x"])
    message = failed("score", long, "--reference", long, "--metric", "ter")
    assert message.startswith(f"{long}:1: 2001 words, 2001 in the reference: too long for TER")
    worked("score", long, "--reference", long, "--metric", "bleu", "--metric", "chrf")
    worked("score", long, "--reference", short, "--metric", "ter")


def test_long_validation_text_is_refused_before_training(base, tmp_path):
    words = write(tmp_path / "valid.aa", ["a", "x " * SUBWORDS + "x"])
    shutil.copy(words, tmp_path / "valid.zz")
    files = ("--train", base / "train", "--valid", tmp_path / "valid", "--subwords", "none")
    worked("preprocess", *LANGUAGES, *files, "--out", tmp_path / "data", "--workers", 1)
    message = failed("train", tmp_path / "data", "--out", tmp_path / "m", "--preset", "tiny")
    assert message.startswith(f"{tmp_path / 'data' / 'valid.aa.txt'}:2: ")


# ----------------------------------------------------------------------------------- error lines


def test_an_error_line_is_one_line_of_text(base, tmp_path):
    odd = "\x1b[31m\u2028\x85\r" + "x" * 5000
    write(tmp_path / "links", [f"0-0 {odd}"])
    (tmp_path / "a.tmx").write_text(f"<{'x' * 5000}/>", encoding="utf-8")
    read = ("preprocess", *LANGUAGES, "--train", tmp_path / "a.tmx", "--out", tmp_path / "data")
    for message in (failed(*read), failed("align", "--convert", tmp_path / "links")):
        assert len(message) <= cli.LONGEST + 2
        assert message.isprintable()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: 9 bytes")])
def test_too_little_memory_is_one_line(base, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("nmtkit.checkpoint.read_tensors", fail)
    assert align(base, base / "models" / "hmm").startswith("not enough memory (")


# ------------------------------------------------------------------------------------- no pickles


def test_nothing_is_ever_unpickled():
    """Nor imported, evaluated or run: no file can make the source do that."""
    forbidden = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "yaml", "cloudpickle"}
    calls = {"eval", "exec", "compile", "__import__"}
    methods = {("torch", "load"), ("np", "load"), ("numpy", "load"), ("torch", "save")}
    methods |= {("np", "fromfile"), ("os", "system"), ("torch.jit", "load")}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not forbidden & {name.split(".")[0] for name in names}, path
            if isinstance(node, ast.Name):
                assert node.id not in calls, f"{path}:{node.lineno}"
            if isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle", path
            if isinstance(node, ast.Attribute):
                holder = ast.unparse(node.value)
                assert (holder, node.attr) not in methods, f"{path}:{node.lineno}"


def test_seals_are_right(base, model):
    """The harness' own: a change under the right checksum reaches what lies behind it."""
    with (model / "codes.bpe").open("a", encoding="utf-8") as file:
        file.write("q q\n")
    assert "is not the file that text.json was saved with" in align(base, model)
    seal_text(model)
    pair = ("--source", base / "test.tokens.aa", "--target", base / "test.tokens.zz")
    assert worked("align", model, *pair)
