"""nmtkit score --gold: several systems, their intervals, differences and errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import failed, misused, worked, write


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    lines = {
        "gold": ["0-0 1-1 2p2", "0-1 1-0", "0-0"] * 10,
        "good": ["0-0 1-1 2-2", "0-1 1-0", "0-0"] * 10,
        "bad": ["0-0 1-2", "0-1", "0-0"] * 10,
        "worst": ["2-0", "0-0", ""] * 10,
        "source": ["the old [house]", "3 years", "."] * 10,
        "target": ["das alte Haus", "Jahre 3", "."] * 10,
    }
    return {name: write(tmp_path / name, text) for name, text in lines.items()}


def cells(text: str, name: str) -> list[str]:
    """What a table says in the row of ``name``."""
    row = next(
        line for line in text.splitlines() if re.match(rf"│ (\S*/)?{re.escape(name)}\s", line)
    )
    return [cell.strip() for cell in row.strip("│").split("│")][1:]


def test_several_systems_and_whether_they_differ(files):
    given = ("score", files["good"], files["bad"], files["worst"], "--gold", files["gold"])
    # of three sentences: 4 links, 5 sure ones, of which 3 are found
    assert cells(worked(*given), "bad") == ["33.33", "75.00", "60.00", "66.67", "1.33"]
    text = worked(*given, "--bootstrap", 200)
    good, bad = cells(text, "good"), cells(text, "bad")
    assert good == ["0.00", "100.00", "100.00", "100.00", "2.00", "0.00 to 0.00", "", "", ""]
    assert bad[6] == "+33.33"
    assert bad[5] == bad[7]  # the interval: the baseline has no error in any resample
    assert bad[8] == "0.0050"  # 1 in 201
    assert "\n95 %: bootstrap over 30 sentence pairs, 200 resamples, seed 1\n" in text
    assert f"AER minus that of {files['good']}; p: paired randomisation, two-sided\n" in text
    found = json.loads(worked(*given, "--bootstrap", 200, "--test", "bootstrap", "--json"))
    assert found[str(files["good"])]["aer_interval"]["high"] == 0
    assert "paired" not in found[str(files["good"])]
    paired = found[str(files["bad"])]["paired"]
    assert paired["difference"] == pytest.approx(1 / 3)
    assert (paired["baseline"], paired["test"]) == (str(files["good"]), "bootstrap")
    again = json.loads(worked(*given[:3], "--gold", files["gold"], "--bootstrap", 200, "--json"))
    other = json.loads(worked(*given, "--bootstrap", 200, "--seed", 2, "--json"))
    name = str(files["bad"])
    assert again[name]["aer_interval"] == found[name]["aer_interval"]  # whoever else is scored
    assert other[name]["aer_interval"] != found[name]["aer_interval"]


def test_sentences_that_differ_most(files):
    given = ("score", files["good"], files["bad"], "--gold", files["gold"], "--differences", 2)
    text = worked(*given)
    assert "Sentences that differ most (3-4 sure, 3p4 possible, 3x4 wrong)" in text
    # errors: nothing; 1-2 wrong and 1-1 missed
    assert cells(text, "1") == ["0.00 (0 + 0)", "50.00 (1 + 1)", "1-1 2p2", "1x2"]
    assert cells(text, "4")[0] == "0.00 (0 + 0)"
    texts = ("--source", files["source"], "--target", files["target"])
    assert cells(worked(*given, *texts), "1")[2:] == ["1-1 old / alte", "1x2 old / Haus"]
    assert "2p2 [house] / Haus" in worked(*given, *texts)
    found = json.loads(worked(*given, "--json"))
    assert [one["sentence"] for one in found[str(files["bad"])]["differences"]] == [1, 4]
    assert "differences" not in found[str(files["good"])]


def test_errors_by_kind_and_class(files):
    texts = ("--source", files["source"], "--target", files["target"])
    given = ("score", files["bad"], files["worst"], "--gold", files["gold"], *texts, "--errors")
    text = worked(*given)
    assert cells(text, "wrong: elsewhere") == ["10", "20"]
    assert cells(text, "missed: unaligned")[1] == "50"
    # "3": sure 0-1, which the other system links to "Jahre"
    assert cells(text, "source characters: number") == ["10", "0.00 (0 + 0)", "100.00 (10 + 10)"]
    assert "source frequency: 1 " not in text  # no word is there once: no row
    found = json.loads(worked(*given, "--json"))
    assert found[str(files["bad"])]["errors"]["missed"]["unaligned"] == 20
    assert "errors" not in json.loads(worked(*given[:-1], "--json"))[str(files["bad"])]


def test_tables_for_papers(files):
    """What can be pasted: nothing of a system's name or a link is taken for markup."""
    given = ("score", files["good"], files["bad"], "--gold", files["gold"], "--bootstrap", 100)
    latex = worked(*given, "--table", "latex").split("\n")
    assert [latex[0], latex[-1]] == ["\\begin{tabular}{lrrrrrrrrr}", ""]
    assert "AER 95 \\%" in latex[2]
    assert [cell.strip() for cell in latex[4].split("&")][1:4] == ["0.00", "100.00", "100.00"]
    assert all(line.startswith("% ") for line in latex[latex.index("\\end{tabular}") + 1 : -1])
    texts = ("--source", files["source"], "--target", files["target"])
    asked = ("--differences", 1, "--table", "markdown")
    lines = worked("score", files["good"], files["bad"], "--gold", files["gold"], *texts, *asked)
    assert "\n**Sentences that differ most (3-4 sure, 3p4 possible, 3x4 wrong)**\n\n" in lines
    row = next(line for line in lines.split("\n") if line.startswith("| 1 "))
    assert [cell.strip() for cell in row.split("|")][4:] == [
        *("1-1 old / alte<br>2p2 [house] / Haus", "1x2 old / Haus", "")
    ]


def test_streams_and_formats(files, tmp_path):
    plain = worked("score", files["bad"], "--gold", files["gold"], "--json")
    gold = files["gold"].read_bytes()
    assert worked("score", files["bad"], "--gold", "-", "--json", stdin=gold) == plain
    # a system's links count, whether its file calls them sure or possible
    marked = write(tmp_path / "marked", files["bad"].read_text().replace("-2", "p2").splitlines())
    found = worked("score", marked, "--from", "talp", "--gold", files["gold"], "--json")
    assert list(json.loads(found).values()) == list(json.loads(plain).values())
    assert "is a possible link" in failed("score", marked, "--gold", files["gold"])
    assert "gold:1: '2p2' is a possible link" in failed(
        "score", files["bad"], "--gold", files["gold"], "--gold-from", "pharaoh"
    )


def test_gold_of_the_wpt_and_links_of_giza(files, tmp_path):
    """naacl counts from 1, and states no pair without links; giza has the words itself."""
    gold = write(tmp_path / "gold.naacl", ["0001 1 1 S", "1 2 2 S", "1 3 3 P", "2 1 2", "2 2 1 S"])
    links = write(tmp_path / "links", ["0-0 1-2", "0-1", "0-0"])
    naacl = ("--gold", gold, "--gold-from", "naacl", "--json")
    found = json.loads(worked("score", links, *naacl))[str(links)]
    assert (found["sentences"], found["sure"], found["possible"]) == (3, 4, 5)
    assert (found["links"], found["links_in_sure"], found["links_in_possible"]) == (4, 2, 2)
    pair = "# Sentence pair (1) source length 2 target length 3 alignment score : 0.1"
    text = ["das alte Haus", "NULL ({ }) the ({ 1 }) house ({ 2 3 })"]
    giza = write(tmp_path / "giza", [pair, *text])
    only = write(tmp_path / "only", ["0-0 1-2"])
    given = ("score", giza, "--from", "giza", "--gold", only, "--errors", "--json")
    errors = json.loads(worked(*given))[str(giza)]["errors"]
    assert errors["wrong"] == {"unaligned in gold": 1, "in addition": 0, "elsewhere": 0}
    bal = write(tmp_path / "bal", [])
    message = failed("score", bal, "--from", "symal", "--gold", only)
    assert "a symal file has the links of two directions" in message


def test_what_is_refused(files):
    given = ("score", files["bad"], "--gold", files["gold"])
    for options, message in (
        (("--errors",), "give the words by --source and --target"),
        (("--bootstrap", 10), "10 resamples are too few"),
        (("--bootstrap", 100, "--test", "t"), "unknown test 't'"),
        (("--from", "farao"), "unknown link format 'farao': did you mean 'pharaoh'"),
        (("--source", "-", "--target", "-"), "only one file can be - (stdin)"),
        (("--table", "tex"), "unknown table format 'tex': did you mean 'text'"),
    ):
        assert message in failed(*given, *options)
    for strays, message in (
        (("--seed", 3), "--seed is for --bootstrap"),
        (("--test", "bootstrap"), "--test is for --bootstrap"),
        (("--differences", 3), "--differences compares systems: give two or more"),
        (("--metric", "ter"), "--metric goes with --reference, not --gold"),
        (("--device", "cpu"), "--device goes with --model or --comet, not --gold"),
        (("--source", "x"), "--source and --target go together"),
        (("--randomisation", 100), "--randomisation goes with --reference, not --gold"),
        (("--table", "latex", "--json"), "--table and --json: choose one"),
    ):
        assert message in misused(*given, *strays)
    text = ("score", files["source"], "--reference", files["source"])
    pair = ("--source", files["source"], "--target", files["source"])
    assert "--swap goes with --gold, not --reference" in misused(*text, "--swap")
    assert "--target goes with --gold or --model, not --reference" in misused(*text, *pair)
    assert "--errors goes with --gold" in misused("score", "--model", "m", *pair, "--errors")
