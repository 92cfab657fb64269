"""The statistical aligners through the command line, on the toy task."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.torch import load_file, save

from nmtkit.errors import UserError
from nmtkit.train import em, em_run
from tests.conftest import (
    TRANSLATION,
    command,
    contents,
    failed,
    lines_of,
    prepare,
    toy_links,
    toy_pairs,
    worked,
    write,
)
from tests.micro import records

ARCHITECTURES = ("ibm1", "hmm")


@dataclass(frozen=True)
class Corpus:
    """400 pairs, prepared in both directions, and links of others."""

    folder: Path
    data: Path
    back: Path

    def aer(self, *options: object) -> float:
        """Of what align prints for the test pairs with these arguments."""
        texts = ("--source", self.folder / "test.aa", "--target", self.folder / "test.zz")
        links = write(self.folder / "links", lines_of(worked("align", *options, *texts)))
        scores = worked("score", links, "--gold", self.folder / "gold", "--json")
        return float(json.loads(scores)[str(links)]["aer"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("em")
    test = toy_pairs(40, 13)
    for name, pairs in (("train", toy_pairs(400, 11)), ("valid", toy_pairs(8, 12)), ("test", test)):
        for side, language in enumerate(("aa", "zz")):
            write(folder / f"{name}.{language}", (pair[side] for pair in pairs))
    write(folder / "gold", (toy_links(source) for source, _ in test))
    given = ("--subwords", "none", "--tokenizer", "none")
    return Corpus(
        folder,
        prepare(folder, "aa-zz", folder / "data", *given),
        prepare(folder, "zz-aa", folder / "back", *given),
    )


@pytest.fixture(scope="module", params=ARCHITECTURES)
def both(request: pytest.FixtureRequest, corpus: Corpus) -> tuple[Path, Path]:
    """A model of each direction."""
    made = []
    for data in (corpus.data, corpus.back):
        out = corpus.folder / f"{request.param}.{data.name}"
        assert worked("train", data, "--arch", request.param, "--out", out) == ""
        made.append(out)
    return made[0], made[1]


def test_align(corpus, both):
    forward, reverse = both
    # The marks at the ends are as likely linked to words in Model 1, which knows no order.
    most = 0.1 if "ibm1" in forward.name else 0.01
    assert corpus.aer(forward) < most
    for how in ("grow-diag-final-and", "posterior-mean"):
        assert corpus.aer(forward, "--reverse", reverse, "--symmetrize", how) < most


def test_what_a_run_leaves(corpus, both):
    forward, _ = both
    hmm = forward.name.startswith("hmm")
    found = records(forward)
    assert [record.get("of") for record in found[:-1]] == (
        ["ibm1"] * 5 + ["hmm"] * 4 if hmm else ["ibm1"] * 4
    )
    losses = [record["train_loss"] for record in found[:-1]]
    assert losses[-1] < losses[1] < losses[0]
    last = found[-1]
    lexicon = (forward / "lex.tsv").read_text(encoding="utf-8")
    assert last["finished"] is True
    assert last["lexicon"] == "lex.tsv"
    assert last["lexicon_lines"] == len(lines_of(lexicon)) > 30
    assert not (forward / "checkpoint").exists()


def test_the_lexicon(corpus, both):
    rows = [line.split("\t") for line in lines_of((both[0] / "lex.tsv").read_text("utf-8"))]
    assert all(len(row) == 3 for row in rows)
    sources = [row[0] for row in rows]
    vocabulary = lines_of((both[0] / "vocabulary.aa").read_text("utf-8"))
    ordinary = [line.split("\t")[0] for line in vocabulary][4:]
    # Source words in the order of the vocabulary, each one's translations from the likeliest down.
    assert list(dict.fromkeys(sources)) == [word for word in ordinary if word in set(sources)]
    assert sources == sorted(sources, key=ordinary.index)
    for source in set(sources):
        weights = [float(row[2]) for row in rows if row[0] == source]
        assert weights == sorted(weights, reverse=True)
        assert all(0.01 <= weight <= 1 for weight in weights)
        assert sum(weights) <= 1.0001
    best: dict[str, str] = {}
    for source, target, _ in rows:
        best.setdefault(source, target)
    right = sum(TRANSLATION[source] == target for source, target in best.items())
    assert right / len(best) > 0.9


def test_special_tokens_are_not_in_the_lexicon(corpus, tmp_path):
    few = ("--subwords", "none", "--tokenizer", "none", "--vocabulary-size", "9")
    data = prepare(corpus.folder, "aa-zz", tmp_path / "data", *few)
    worked("train", data, "--arch", "ibm1", "--epochs", 2, "--out", tmp_path / "m")
    lexicon = (tmp_path / "m" / "lex.tsv").read_text(encoding="utf-8")
    assert lexicon
    assert "<" not in lexicon


def test_the_lexicon_is_a_dictionary_of_translate(both, model):
    lexicon = both[0] / "lex.tsv"
    source = "".join(pair[0] + "\n" for pair in toy_pairs(3, 14))
    used = ("--replace-unknown", "--dictionary", lexicon, "--beam", 1)
    assert len(lines_of(worked("translate", model, *used, stdin=source))) == 3


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_subwords(arch, micro, corpus, tmp_path):
    worked("train", micro, "--arch", arch, "--out", tmp_path / "m")
    assert corpus.aer(tmp_path / "m") < 0.5  # by chance: 0.8


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_run_repeats_to_the_byte(arch, corpus, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    few = ("--set", "training.ibm1_epochs=1", "--epochs", 2)
    worked("train", corpus.data, "--arch", arch, *few, "--out", first)
    worked("train", "--config", first / "config.toml", "--out", second)
    ours, theirs = contents(first), contents(second)
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"metrics.jsonl"}:  # has times
        assert ours[name] == theirs[name], name
    assert records(first) == records(second)


def test_settings(corpus, tmp_path):
    out = tmp_path / "m"
    given = ["--epochs", 2, "--set", "training.ibm1_epochs=0", "--set", "training.estimate=em"]
    given += ["--set", "model.prefix=0", "--set", "model.null=0.3", "--device", "cpu"]
    worked("train", corpus.data, "--arch", "hmm", *given, "--out", out)
    text = (out / "config.toml").read_text(encoding="utf-8")
    for line in ("prefix = 0", "null = 0.3", "epochs = 2", "ibm1_epochs = 0", 'estimate = "em"'):
        assert f"\n{line}\n" in text
    assert [record["of"] for record in records(out)] == ["hmm"] * 3  # and the finished one


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--preset", "small"), "preset"),
        (("--updates", 5), "ibm1 and hmm have no updates: leave out --updates (training.updates)"),
        (("--minutes", 0.1), "ibm1 and hmm have no minutes: leave out --minutes"),
        (("--seed", 3), "settings [training]: ibm1 and hmm have no seed: leave out --seed"),
        (("--precision", "bfloat16"), "ibm1 and hmm have no precision: leave out --precision"),
        (("--guide", "links"), "ibm1 and hmm have no guide: leave out --guide"),
        (("--set", "training.clip=1"), "ibm1 and hmm have no clip: leave out training.clip"),
        (("--set", "training.sed=1"), "unknown key in settings [training] 'sed'"),
        (("--set", "model.smoothing=1e300"), "smoothing must be from 0 to 1000000, got 1e+300"),
        (("--epochs", 0), "epochs must be at least 1, got 0"),
        (("--set", "model.null=1"), "null must be between 0 and 1"),
        (("--set", "model.hidden=8"), "unknown key in settings [model] 'hidden'"),
        (("--set", "training.estimate=viterbi"), "unknown estimate in settings [training]"),
    ],
)
def test_wrong_settings(arch, given, message, corpus, tmp_path):
    out = tmp_path / "m"
    assert message in failed("train", corpus.data, "--arch", arch, *given, "--out", out)
    assert not out.exists()


def test_what_an_aligner_cannot_do(both, corpus):
    forward = both[0]
    assert "only aligns" in failed("translate", forward, stdin="da\n")
    pair = ("--source", corpus.folder / "test.aa", "--target", corpus.folder / "test.zz")
    assert "only aligns" in failed("score", "--model", forward, *pair)
    assert "is not resumed" in failed("train", "--resume", "--out", forward)
    for rows in ("consumed", "head"):
        message = failed("align", forward, *pair, "--rows", rows)
        assert message == f"{forward}: its architecture only aligns: leave out --rows {rows}"


def ending(monkeypatch: pytest.MonkeyPatch, how: BaseException) -> None:
    """Let every run end so after its first epoch."""

    def ended(*_: object) -> Iterator[dict[str, object]]:
        yield {"epoch": 1, "minutes": 0.0}
        raise how

    monkeypatch.setattr(em_run, "expectation_maximisation", ended)


def test_a_run_that_does_not_end_leaves_nothing(corpus, tmp_path, monkeypatch):
    given = ("train", corpus.data, "--arch", "ibm1", "--out", tmp_path / "m")
    ending(monkeypatch, KeyboardInterrupt())
    done = command(*given)
    assert done.code == 130
    assert done.err.endswith("stopped: nothing is kept\n")
    ending(monkeypatch, UserError("too bad"))
    assert command(*given).err.endswith("nmtkit: too bad\n")
    ending(monkeypatch, RuntimeError())
    with pytest.raises(RuntimeError):
        command(*given)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    worked(*given)


@pytest.mark.parametrize("old", ["aligner", "network"])
def test_an_old_model_stays_until_the_new_one_is_whole(
    old, both, model, corpus, tmp_path, monkeypatch
):
    out = Path(shutil.copytree(both[0] if old == "aligner" else model, tmp_path / "m"))
    before = contents(tmp_path)
    given = ("train", corpus.data, "--arch", "hmm", "--out", out, "--overwrite")
    ending(monkeypatch, KeyboardInterrupt())
    assert command(*given).err.endswith(f"stopped: {out} is as it was\n")
    ending(monkeypatch, OSError(28, "No space left on device"))
    assert "No space left" in command(*given).err
    assert contents(tmp_path) == before
    monkeypatch.undo()
    worked(*given)
    assert {path.name for path in out.iterdir()} == {path.name for path in both[0].iterdir()}


def test_a_loss_that_is_not_finite_ends_the_run(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(em.Expectation, "epoch", lambda *_: (math.nan, 0.0))
    message = command("train", corpus.data, "--arch", "ibm1", "--out", tmp_path / "m").err
    assert message.startswith("nmtkit: epoch 1: the loss is not finite: set model.null and")
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_its_tables(both, corpus, tmp_path):
    copy = Path(shutil.copytree(both[0], tmp_path / "m"))
    (copy / "model.safetensors").unlink()
    pair = ("--source", corpus.folder / "test.aa", "--target", corpus.folder / "test.zz")
    message = failed("align", copy, *pair)
    assert message == f"{copy}: its model.safetensors is missing: copy it again, or train again"


def test_a_damaged_model(both, corpus, tmp_path):
    for file, content in contents(both[0]).items():
        (tmp_path / file).write_bytes(content)
    pair = ("--source", corpus.folder / "test.aa", "--target", corpus.folder / "test.zz")
    whole = (tmp_path / "model.safetensors").read_bytes()
    tensors = load_file(tmp_path / "model.safetensors")
    other = {name.replace("lexicon.keys", "lexicon.kyes"): t for name, t in tensors.items()}
    negative = {name: -t if t.is_floating_point() else t for name, t in tensors.items()}
    for damaged, message in (
        (b"", "not a whole safetensors file"),
        (whole[: len(whole) // 2], "not a whole safetensors file"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "its checksum differs"),
        (save(other), "the tensor lexicon.keys is missing"),
        (save(negative), "holds numbers that are no"),
    ):
        (tmp_path / "model.safetensors").write_bytes(damaged)
        found = failed("align", tmp_path, *pair)
        assert found.startswith(f"{tmp_path / 'model.safetensors'}: ")
        assert message in found
