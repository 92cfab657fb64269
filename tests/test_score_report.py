"""Translations by source length, without unknown words, and by COMET."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from nmtkit.errors import UserError
from nmtkit.files import sha256
from nmtkit.score import TextOptions, Texts, score_text
from nmtkit.score.comet import comet_scores
from nmtkit.score.known import known_rows, without_unknown
from nmtkit.score.lengths import Bucket, buckets, score_by_length
from nmtkit.score.plot import check_plot, plot_by_length
from nmtkit.score.text_report import TextReportOptions, report_text
from nmtkit.text import Text, TextConfig
from nmtkit.vocabulary import Vocabulary
from tests.conftest import worked, write

SOURCES = ["a " * length for length in (3, 10, 11, 0, 35, 20, 7)]
REFERENCES = [f"this is the line number {n} of this little text" for n in range(7)]
GOOD = [line.replace("little", "small") for line in REFERENCES]
BAD = [f"this is line {n} in a text" for n in range(7)]
TEXTS = Texts({"good": GOOD, "bad": BAD}, REFERENCES, SOURCES)


# ------------------------------------------------------------------------------------- by length


def test_buckets():
    assert buckets(SOURCES) == {10: [0, 1, 3, 6], 20: [2, 5], 40: [4]}
    assert buckets(SOURCES, 3) == {3: [0, 3], 9: [6], 12: [1, 2], 21: [5], 36: [4]}
    assert buckets(["a b\tc\u3000d  e"], 4) == {8: [0]}  # any white space


@pytest.mark.parametrize("metric", ["bleu", "ter"])
def test_a_bucket_is_scored_as_if_it_were_the_corpus(metric):
    options = TextOptions((metric, "chrf"), tokenize="none", lowercase=True)
    found = score_by_length(TEXTS, options)
    places = {10: [0, 1, 3, 6], 20: [2, 5], 40: [4]}
    for name, lines in TEXTS.systems.items():
        assert [(b.shortest, b.longest, b.sentences) for b in found[name]] == [
            *((1, 10, 4), (11, 20, 2), (31, 40, 1))
        ]
        for bucket in found[name]:
            rows = places[bucket.longest]
            chosen = {"s": [lines[row] for row in rows]}
            references = [REFERENCES[row] for row in rows]
            (score,) = score_text(chosen, references, [metric], "none", True)["s"]
            assert bucket.value == score.value
    assert found["good"] != found["bad"]


def test_a_bucket_of_blank_references():
    texts = Texts({"s": ["a b c d", "x"]}, ["a b c d", ""], ["s", "s " * 11])
    for metric, values in (("bleu", [100, 0]), ("chrf", [100, 0]), ("ter", [0, 100])):
        found = score_by_length(texts, TextOptions((metric,)))["s"]
        assert [bucket.value for bucket in found] == pytest.approx(values)


def test_the_plot(tmp_path):
    row = [Bucket(1, 10, 40, 20.0), Bucket(11, 20, 200, 25.0), Bucket(31, 40, 7, 10.0)]
    systems = {"runs/_a$b$": row, "runs/b <c>": [*row[:2], Bucket(31, 40, 7, 22.0)]}
    for suffix in ("png", "svg"):
        path = tmp_path / f"plot.{suffix}"
        plot_by_length(path, systems, "BLEU")
        once = path.read_bytes()
        plot_by_length(path, systems, "BLEU")
        assert path.read_bytes() == once
    written = [e.text for e in ElementTree.fromstring(once).iter() if e.tag.endswith("}text")]
    for text in ("_a$b$", "b <c>", "BLEU", "source length in words (below: sentences)", "31–40"):
        assert text in written
    plot_by_length(tmp_path / "x.svg", {"a/s": row, "b/s": row}, "chrF2")
    assert "a/s" in (tmp_path / "x.svg").read_text(encoding="utf-8")
    # a single point; and so many buckets that only those get a label that have room for it
    plot_by_length(tmp_path / "x.svg", {"s": [Bucket(1, 10, 3, 0.0)]}, "BLEU")
    assert "1–10" in (tmp_path / "x.svg").read_text(encoding="utf-8")
    many = [Bucket(n, n, 7, 1.0) for n in range(1, 101)]
    plot_by_length(tmp_path / "x.svg", {"s": many}, "BLEU")
    assert 10 <= (tmp_path / "x.svg").read_text(encoding="utf-8").count(">7</") <= 16


def test_plots_that_are_refused(monkeypatch, tmp_path):
    with pytest.raises(UserError, match=r"unknown picture format '.jpg': did you mean '.png'"):
        check_plot(tmp_path / "plot.jpg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'nmtkit\[plot\]'"):
        check_plot(tmp_path / "plot.png")


# --------------------------------------------------------------------------------- unknown words


def side(language: str, words: str, **settings) -> Text:
    vocabulary = Vocabulary([(word, 1) for word in words.split(" ")])
    config = TextConfig(language, subwords="none", **settings)
    return Text(config, vocabulary=vocabulary)


def test_lines_that_both_vocabularies_cover(tmp_path):
    """After the model's own text side: tokenised and in lower case on the source alone."""
    source = side("en", "the house is old .", case="lower")
    target = side("de", "das Haus ist alt .")
    sources = ["The house is old.", "The house.", "A house.", "The house", "", "the old old"]
    references = ["Das Haus", "das Haus.", "das Haus", "ist, alt", "", "das alt"]
    assert known_rows(sources, references, source, target) == [1, 4, 5]
    source.save(tmp_path, "source")
    target.save(tmp_path, "target")
    texts = Texts({"s": list("abcdef")}, references, sources)
    assert without_unknown(texts, tmp_path) == Texts(
        {"s": ["b", "e", "f"]}, ["das Haus.", "", "das alt"], ["The house.", "", "the old old"]
    )
    nothing = Texts({"s": ["x"]}, ["x"], ["x"], "ref", "src")
    with pytest.raises(UserError, match=r"^every sentence of src or its reference has words"):
        without_unknown(nothing, tmp_path)
    with pytest.raises(UserError, match="no such model directory"):
        without_unknown(nothing, tmp_path / "nowhere")


# ----------------------------------------------------------------------------------------- COMET


@dataclass
class Prediction:
    scores: list[float]

    @property
    def system_score(self) -> float:
        return sum(self.scores) / len(self.scores)


class FakeComet:
    """The part of the package's interface that is used; a score is the share of kept words."""

    def __init__(self) -> None:
        self.calls: list[dict] = []

    def predict(self, samples, batch_size, gpus, progress_bar):
        sys.stdout.write("some talk")
        self.calls.append({"samples": samples, "gpus": gpus, "progress_bar": progress_bar})
        words = [({*s["mt"].split()}, {*s["ref"].split()}) for s in samples]
        return Prediction([len(ours & theirs) / len(theirs) for ours, theirs in words])


@pytest.fixture
def fake(monkeypatch, tmp_path) -> FakeComet:
    """unbabel-comet as a module that knows one checkpoint."""
    (tmp_path / "model" / "checkpoints").mkdir(parents=True)
    (tmp_path / "model" / "checkpoints" / "model.ckpt").write_bytes(b"weights")
    model, module = FakeComet(), ModuleType("comet")

    def load_from_checkpoint(path: str) -> FakeComet:
        if Path(path).read_bytes() != b"weights":
            raise Exception("Invalid\ncheckpoint")
        return model

    module.load_from_checkpoint = load_from_checkpoint  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "comet", module)
    return model


def test_comet(fake, tmp_path, capsys):
    texts = Texts({"a": ["x y\n", "z"], "b": ["", "z w"]}, ["x y", " z w "], ["q", "r"])
    checkpoint = tmp_path / "model" / "checkpoints" / "model.ckpt"
    for path in (checkpoint, tmp_path / "model"):
        found = comet_scores(texts, path, gpus=1)
        assert {name: score.value for name, score in found.items()} == {"a": 0.75, "b": 0.5}
    assert found["a"].name == "COMET"
    assert found["a"].printed() == "0.7500"
    assert found["a"].signature == f"sha256:{sha256(checkpoint)[:16]}|version:unknown"
    assert fake.calls[0] == {
        "samples": [{"src": "q", "mt": "x y", "ref": "x y"}, {"src": "r", "mt": "z", "ref": "z w"}],
        "gpus": 1,
        "progress_bar": False,
    }
    assert capsys.readouterr().out == ""
    report = report_text(texts, TextReportOptions(TextOptions(("chrf",)), comet=checkpoint))
    assert [one.score.name for one in report["b"]] == ["chrF2", "COMET"]


def test_comet_by_the_command(fake, tmp_path):
    texts = {"hyp": ["a b", "c"], "ref": ["a b", "c d"], "src": ["x", "y"]}
    paths = {name: write(tmp_path / name, lines) for name, lines in texts.items()}
    call = ("score", paths["hyp"], "--reference", paths["ref"], "--source", paths["src"])
    options = ("--comet", tmp_path / "model", "--device", "cpu", "--metric", "ter")
    text = worked(*call, *options, "--table", "markdown").split("\n")
    assert [cell.strip() for cell in text[0].split("|")[1:-1]] == ["system", "TER", "COMET"]
    assert [cell.strip() for cell in text[2].split("|")[2:-1]] == ["25.00", "0.7500"]
    assert text[5].startswith("- COMET: sha256:")
    tested = worked(*call, *options, "--bootstrap", 100, "--table", "markdown").split("\n")
    assert [line.split("|")[2].strip() for line in tested if line.startswith("| system")] == [
        *("TER", "COMET")
    ]
    assert [call["gpus"] for call in fake.calls] == [0, 0]


def test_comet_that_is_not_there(fake, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"nowhere: no such COMET checkpoint: give its file"):
        comet_scores(TEXTS, tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"/checkpoints/model\.ckpt: no such COMET"):
        comet_scores(TEXTS, tmp_path)
    other = tmp_path / "other.ckpt"
    other.write_bytes(b"")
    with pytest.raises(UserError, match=r"other\.ckpt: COMET cannot load it: Invalid checkpoint$"):
        comet_scores(TEXTS, other)
    for module in (None, ModuleType("comet")):
        monkeypatch.setitem(sys.modules, "comet", module)
        with pytest.raises(UserError, match=r"needs unbabel-comet: pip install 'nmtkit\[comet\]'$"):
            comet_scores(TEXTS, other)
