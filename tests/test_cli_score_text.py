"""nmtkit score --reference: tables, significance, lengths, sentences without unknown words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import failed, misused, raw, worked, write
from tests.test_score_paired import invented_systems


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("texts")
    systems, references = invented_systems(40)
    texts = {**systems, "reference": references, "source": ["w " * n for n in range(1, 41)]}
    return {name: write(folder / name, lines) for name, lines in texts.items()}


def score(files, *options):
    """The call of two systems."""
    return ("score", files["good"], files["worse"], "--reference", files["reference"], *options)


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of rich's tables, heads included."""
    lines = (line for line in text.splitlines() if line[:1] in "│┃")
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines]


def test_one_table_without_tests_and_one_a_metric_with(files):
    found = json.loads(worked(*score(files, "--json")))
    good, worse = found.values()
    text = worked(*score(files))
    assert rows(text)[0] == ["system", "BLEU", "chrF2", "TER"]
    assert rows(text)[2] == [str(files["worse"]), *(f"{one['value']:.2f}" for one in worse)]
    assert f"\nBLEU: {good[0]['signature']}\n" in text
    trials = ("--bootstrap", 100, "--randomisation", 200, "--metric", "bleu", "--metric", "ter")
    text = worked(*score(files, *trials))
    one = json.loads(worked(*score(files, *trials, "--json")))[str(files["worse"])][1]
    table = rows(text)
    assert len(table) == 6
    assert table[3] == ["system", "TER", "mean ± 95 %", "p (bootstrap)", "p (randomisation)"]
    assert table[4][3:] == ["", ""]
    bootstrap = one["bootstrap"]
    assert table[5][1:] == [
        f"{one['value']:.2f}",
        f"{bootstrap['mean']:.2f} ± {bootstrap['ci']:.2f}",
        f"{bootstrap['p']:.4f}",
        f"{one['randomisation']['p']:.4f}",
    ]
    assert "\nTER, bootstrap: nrefs:1|bs:100|seed:12345|" in text
    assert "\nTER, randomisation: nrefs:1|ar:200|seed:12345|" in text
    assert text.endswith(f"p: of the difference from {files['good']}, paired, two-sided\n")
    alone = ("score", files["good"], "--reference", files["reference"], "--bootstrap", 100)
    assert rows(worked(*alone))[0] == ["system", "BLEU", "mean ± 95 %"]
    # the interval and nothing of a comparison
    assert all(len(row) == 3 for row in rows(worked(*alone)))
    assert "paired" not in worked(*alone)


def test_markdown_and_latex(files, tmp_path):
    odd = write(tmp_path / "a_b|c", files["good"].read_text(encoding="utf-8").splitlines())
    given = ("score", odd, "--reference", files["reference"], "--metric", "bleu", "--table")
    markdown = worked(*given, "markdown").split("\n")
    assert markdown[1] == "|:" + "-" * (len(markdown[0].split("|")[1]) - 1) + "|-------:|"
    assert "/a\\_b\\|c |" in markdown[2]
    assert markdown[3] == ""
    assert markdown[4].startswith("- BLEU: nrefs:1|")
    latex = worked(*given, "latex").split("\n")
    assert latex[0] == "\\begin{tabular}{lr}"
    assert "a\\_b|c" in latex[4]
    assert re.search(r"& +\d+\.\d\d \\\\$", latex[4])
    assert latex[-2].startswith("% BLEU: nrefs:1|")


def test_by_length(files, tmp_path):
    plot = tmp_path / "plot.svg"
    given = score(files, "--source", files["source"], "--by-length", "--metric", "chrf")
    text = worked(*given, "--plot", plot)
    assert "chrF2 by source length" in text
    table = rows(text)[3:]
    assert table[0] == ["words", "sentences", str(files["good"]), str(files["worse"])]
    assert [row[:2] for row in table[1:]] == [
        *(["1–10", "10"], ["11–20", "10"], ["21–30", "10"], ["31–40", "10"])
    ]
    found = json.loads(worked(*given, "--json"))
    buckets = found[str(files["worse"])][0]["by_length"]
    assert [row[3] for row in table[1:]] == [f"{bucket['value']:.2f}" for bucket in buckets]
    drawn = plot.read_text(encoding="utf-8")
    assert "good</text>" in drawn
    assert "chrF2</text>" in drawn
    wide = json.loads(worked(*given, "--bucket", 25, "--json"))[str(files["worse"])][0]
    assert [(b["longest"], b["sentences"]) for b in wide["by_length"]] == [(25, 25), (50, 15)]
    assert wide["sentences"] == 40


def test_only_sentences_without_unknown_words(toy, tmp_path):
    """The toy's shortlist has the common words; lowercasing is part of its text side."""
    pairs = [(raw(s).upper(), raw(t)) for s, t in toy.test]
    kept = [(raw(s).upper(), raw(t)) for s, t in toy.common]
    assert 10 < len(kept) < len(pairs)
    lines: dict[str, list[str]] = {
        name: [pair[side] for pair in some]
        for name, some, side in (
            *(("s", pairs, 0), ("r", pairs, 1), ("kept", kept, 1)),
            *(
                ("h", [("", t[:-1]) for _, t in pairs], 1),
                ("h2", [("", t[:-1]) for _, t in kept], 1),
            ),
        )
    }
    given = {name: write(tmp_path / name, text) for name, text in lines.items()}
    call = ("score", given["h"], "--reference", given["r"], "--source", given["s"])
    text = worked(*call, "--no-unknown", toy.model)
    assert f"{len(kept)} of {len(pairs)} sentences: without words unknown to {toy.model}\n" in text
    (found,) = json.loads(worked(*call, "--no-unknown", toy.model, "--json")).values()
    (expected,) = json.loads(
        worked("score", given["h2"], "--reference", given["kept"], "--json")
    ).values()
    assert found == expected
    assert found[0]["sentences"] == len(kept)
    assert "no such model directory" in failed(*call, "--no-unknown", tmp_path / "nowhere")


def test_what_is_refused(files, tmp_path, monkeypatch):
    sourced = ("--source", files["source"], "--by-length")
    monkeypatch.setitem(sys.modules, "comet", None)
    for options, message in (
        (("--metric", "belu"), "unknown metric 'belu': did you mean 'bleu'"),
        (("--bootstrap", 5), "5 resamples are too few: use 100 or more"),
        (("--bootstrap", 100, "--seed", 0), "seed must be 1 or more, got 0"),
        ((*sourced, "--plot", tmp_path / "a.gif"), "unknown picture format '.gif'"),
        (("--source", write(tmp_path / "s", ["a"]), "--by-length"), "/s has 1 line, but"),
        ((*sourced[:2], "--comet", tmp_path / "m"), "pip install 'nmtkit[comet]'"),
    ):
        assert message in failed(*score(files, *options))
    svg = write(tmp_path / "good.svg", files["good"].read_text(encoding="utf-8").splitlines())
    before = svg.read_bytes()
    given = ("score", svg, "--reference", files["reference"], *sourced, "--plot", svg)
    assert "is an input and would be replaced" in failed(*given)
    known = tmp_path / "model"
    known.mkdir()
    plot = write(known / "loss.svg", ["a"])
    given = (*score(files, *sourced), "--no-unknown", known, "--plot", plot)
    assert f"belongs to the model {known} and would be replaced" in failed(*given)
    assert svg.read_bytes() == before
    streams = ("score", "-", "--reference", files["reference"], "--source", "-", "--by-length")
    assert "only one file can be - (stdin)" in failed(*streams)
    for strays, message in (
        (("--by-length",), "--by-length, --no-unknown and --comet want --source"),
        (("--source", "x"), "--source is for --by-length, --no-unknown and --comet"),
        (("--plot", "x.png"), "--plot is for --by-length: say that too"),
        (("--seed", 3), "--seed is for --bootstrap or --randomisation"),
        (("--test", "bootstrap"), "--test goes with --gold, not --reference"),
        (("--n-best", "x"), "--n-best goes with --model, not --reference"),
        (("--device", "cpu"), "--device goes with --model or --comet, not --reference"),
    ):
        assert message in misused(*score(files, *strays))


def test_nothing_of_it_loads_torch(files, toy, tmp_path):
    code = (
        "import sys\nfrom nmtkit.cli import main\n"
        "try:\n    main()\nexcept SystemExit as error:\n    assert not error.code\n"
        "assert 'torch' not in sys.modules\nassert 'matplotlib' in sys.modules\n"
    )
    known = write(tmp_path / "known", ["."] * 40)
    given = ("score", files["good"], "--reference", known, "--source", known, "--bootstrap", 100)
    options = ("--by-length", "--plot", tmp_path / "p.png", "--no-unknown", toy.model)
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, (*given, *options))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
