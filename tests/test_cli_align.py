"""nmtkit align: its options through the command line, with the toy models."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest

from nmtkit.align import BOTH, METHODS, ROWS, SYMMETRIZE, AlignOptions, align
from nmtkit.checkpoint import load
from nmtkit.links import FORMATS, SYMMETRISATIONS, format_pharaoh, parse_links
from tests.conftest import (
    SOURCE,
    TARGET,
    command,
    failed,
    lines_of,
    misused,
    toy_links,
    worked,
    write,
)
from tests.micro import CPU


@pytest.fixture
def texts(toy, tmp_path) -> tuple[object, ...]:
    """--source and --target with the toy test sentences of known words."""
    files = [write(tmp_path / name, (p[n] for p in toy.common)) for n, name in enumerate("st")]
    return ("--source", files[0], "--target", files[1])


@pytest.fixture
def gold(toy, tmp_path) -> Path:
    return write(tmp_path / "gold", (toy_links(source) for source, _ in toy.common))


def aer(links: str, gold: Path, folder: Path) -> float:
    (folder / "found").write_text(links, encoding="utf-8")
    done = worked("score", folder / "found", "--gold", gold, "--json")
    return 100 * float(json.loads(done)[str(folder / "found")]["aer"])


def test_help_names_all_there_is():
    text = re.sub(r"[\s│]+", " ", worked("align", "--help"))
    for name in (*ROWS, *METHODS, "auto", *SYMMETRIZE, *FORMATS):
        assert re.search(rf"[ (]{name}[,;. ]", text), name
    thresholds = {name: method.threshold for name, method in METHODS.items()}
    thresholds |= {name: way.threshold for name, way in BOTH.items()}
    for name, threshold in thresholds.items():
        assert (f"{name} {threshold}" in text) == (threshold > 0)


# ---------------------------------------------------------------------------------- two directions


@pytest.mark.parametrize("way", [way for way in SYMMETRIZE if way not in SYMMETRISATIONS])
def test_both_attentions_together(toy, texts, way):
    found = worked("align", toy.model, "--reverse", toy.reverse, *texts, "--symmetrize", way)
    options = AlignOptions(symmetrize=way)
    wanted = align([load(toy.model, CPU)], toy.common, options, reverse=[load(toy.reverse, CPU)])
    assert lines_of(found) == [format_pharaoh(one.links) for one in wanted]
    right = sum(
        line == toy_links(pair[0]) for line, pair in zip(lines_of(found), toy.common, strict=True)
    )
    assert right > 0.8 * len(toy.common)


def test_both_directions_of_a_stream(toy):
    given = ("align", toy.model, "--reverse", toy.reverse, "--symmetrize", "product")
    target = (toy.folder / "one").with_suffix(".zz")
    write(target, [f"{TARGET[1]} {TARGET[0]}"])
    source = f"{SOURCE[0]} {SOURCE[1]}\n"
    assert worked(*given, "--source", "-", "--target", target, stdin=source) == "0-1 1-0\n"


def test_thresholds(toy, texts):
    given = ("align", toy.model, "--reverse", toy.reverse, *texts)
    strict, loose = (
        worked(*given, "--symmetrize", "posterior-product", "--threshold", threshold)
        for threshold in (0.9, 0.1)
    )
    assert worked(*given, "--symmetrize", "posterior-product", "--threshold", 0.3) == worked(
        *given, "--symmetrize", "posterior-product"
    )
    for fewer, more in zip(lines_of(strict), lines_of(loose), strict=True):
        assert parse_links(fewer, "here") <= parse_links(more, "here")
    assert strict != loose
    single = ("align", toy.model, *texts, "--method", "argmax")
    assert len(worked(*single, "--threshold", 0.99)) < len(worked(*single))


# -------------------------------------------------------------------------------------------- auto


def test_auto_repeats_as_it_says(toy, texts, gold, tmp_path):
    given = ("align", toy.model, "--reverse", toy.reverse, *texts)
    done = command(*given, "--method", "auto", "--gold", gold)
    assert done.code == 0, done.err
    said = re.fullmatch(r"chose (--.*): AER ([0-9.]+) on (.*)", lines_of(done.err)[-1])
    assert said
    assert said[3] == str(gold)
    assert worked(*given, *said[1].split(" ")) == done.out
    error = aer(done.out, gold, tmp_path)
    assert f"{error:.1f}" == said[2]
    assert "--rows predicting" in said[1]
    for options in ((), ("--symmetrize", "product"), ("--symmetrize", "union")):
        assert error <= aer(worked(*given, *options), gold, tmp_path)
    table = done.err.split("chose")[0]
    assert "the best of" in table
    assert "precision" in table
    assert table.count("--rows") == 5
    kinds = re.findall("--rows [^│]*", re.sub(r"--threshold \S+ ", "", table))
    assert len({kind.strip() for kind in kinds}) == 5


def test_auto_of_one_direction(toy, texts, gold, tmp_path):
    given = ("align", toy.model, *texts)
    done = command(*given, "--method", "auto", "--gold", gold, "--rows", "next")
    said = re.search(r"chose (--rows next --method [^:]*): AER", done.err)
    assert said
    assert "--symmetrize" not in said[1]
    assert worked(*given, *said[1].split(" ")) == done.out
    assert aer(done.out, gold, tmp_path) <= aer(worked(*given, "--rows", "next"), gold, tmp_path)


def test_auto_without_gold(toy, texts, gold, tmp_path):
    given = ("align", toy.model, "--reverse", toy.reverse, *texts)
    done = command(*given, "--method", "auto", "--symmetrize", "intersection")
    said = re.search(r"chose (--rows predicting .*): agreement ([0-9.]+) of both", done.err)
    assert said
    assert float(said[2]) > 80
    assert "--symmetrize intersection" in said[1]
    assert worked(*given, *said[1].split(" ")) == done.out
    assert aer(done.out, gold, tmp_path) < 10


def test_auto_warns_of_directions_that_do_not_agree(toy, texts, tmp_path):
    """A sentence and another's translation."""
    other = write(tmp_path / "other", (target for _, target in toy.common[1:] + toy.common[:1]))
    given = ("align", toy.model, "--reverse", toy.reverse, *texts[:2], "--target", other)
    done = command(*given, "--method", "auto", "--symmetrize", "product", "--rows", "next")
    assert done.code == 0
    assert lines_of(done.err)[-1].startswith("warning: the two directions hardly agree")


def test_auto_checks_its_gold(toy, texts, tmp_path):
    given = ("align", toy.model, *texts, "--method", "auto", "--gold")
    short = write(tmp_path / "short", ["0-0"])
    assert f"{short} has 1 line, but {texts[1]} has {len(toy.common)} lines" in failed(
        *given, short
    )
    far = write(tmp_path / "far", ["0-0", *["0p99"] * (len(toy.common) - 1)])
    assert failed(*given, far).startswith(f"{far}:2: link 0-99 is out of bounds")
    none = write(tmp_path / "none", [""] * len(toy.common))
    assert "the gold file has no links" in failed(*given, none)
    empty = write(tmp_path / "empty", [])
    blank = ("--source", empty, "--target", empty)
    message = failed("align", toy.model, *blank, "--method", "auto", "--gold", empty)
    assert "no pairs" in message


# ----------------------------------------------------------------------------------------- formats


def test_formats(toy, tmp_path):
    source = write(tmp_path / "s", [f"{SOURCE[0]} {SOURCE[1]}", ""])
    target = write(tmp_path / "t", [f"{TARGET[1]} {TARGET[0]}", TARGET[0]])
    given = ("align", toy.model, "--source", source, "--target", target, "--format")
    assert worked(*given, "talp") == "0-1 1-0\n\n"
    assert re.fullmatch(r"0001 1 2 S 0\.9\d*\n0001 2 1 S 0\.9\d*\n", worked(*given, "naacl"))
    first, second = map(json.loads, lines_of(worked(*given, "json")))
    assert (first["source"], first["target"]) == (SOURCE[:2], TARGET[1::-1])
    assert [link[:2] for link in first["sure"]] == [[0, 1], [1, 0]]
    assert all(0.9 < link[2] <= 1 for link in first["sure"])
    assert second == {"source": [], "target": [TARGET[0]], "sure": []}
    giza = lines_of(worked(*given, "giza"))
    assert len(giza) == 6
    assert giza[2].rstrip() == f"NULL ({{ }}) {SOURCE[0]} ({{ 2 }}) {SOURCE[1]} ({{ 1 }})"
    both = ("--reverse", toy.reverse, "--symmetrize", "intersection")
    assert lines_of(worked(*given, "symal", *both))[:3] == [
        "1",
        f"2 {TARGET[1]} {TARGET[0]} # 2 1",
        f"2 {SOURCE[0]} {SOURCE[1]} # 2 1",
    ]


def test_symal_keeps_the_directions(toy, texts, tmp_path):
    """They combine to the links that the models' own symmetrisation gives."""
    given = ("align", toy.model, "--reverse", toy.reverse, *texts, "--rows", "next")
    bal = tmp_path / "bal"
    worked(*given, "--format", "symal", "--symmetrize", "intersection", "--out", bal)
    for how in ("union", "grow-diag"):
        found = worked("align", "--convert", bal, "--from", "symal", "--symmetrize", how)
        assert found == worked(*given, "--symmetrize", how)


def test_convert(tmp_path):
    source = write(tmp_path / "s", ["a b", "c"])
    target = write(tmp_path / "t", ["x y z", "w"])
    links = write(tmp_path / "links", ["1-1 2p3", ""])
    given = ("align", "--convert", links, "--from", "talp", "--one-based", "--format")
    done = command(*given, "pharaoh")
    assert (done.code, done.out) == (0, "0-0\n\n")
    assert "warning: 1 links are possible only" in done.err
    assert worked(*given, "naacl") == "0001 1 1 S\n0001 2 3 P\n"
    assert worked(*given, "talp", "--swap") == "0-0 2p1\n\n"
    full = (*given, "json", "--source", source, "--target", target)
    assert [json.loads(line)["target"] for line in lines_of(worked(*full))] == [
        ["x", "y", "z"],
        ["w"],
    ]
    assert worked(*full[:-5], "talp", "--out", tmp_path / "out") == ""
    assert (tmp_path / "out").read_text(encoding="utf-8") == "0-0 1p2\n\n"
    assert "is an input" in failed(*given, "talp", "--out", links)


def test_check_names_every_bad_line(tmp_path):
    source = write(tmp_path / "s", ["a b", "c", "d"])
    target = write(tmp_path / "t", ["x y", "w", "v"])
    texts = ("--source", source, "--target", target)
    good = write(tmp_path / "good", ["0-0 1-1", "", "0-0"])
    done = command("align", "--check", good, *texts)
    assert (done.code, done.out, done.err) == (0, "", "3 lines, all good\n")
    bad = write(tmp_path / "bad", ["0-2", "0-0", "0:0"])
    done = command("align", "--check", bad, *texts)
    assert (done.code, done.err) == (1, "")
    first, second = lines_of(done.out)
    assert first.startswith(f"{bad}:1: link 0-2 is out of bounds")
    assert second.startswith(f"{bad}:3: '0:0' is not a link")
    assert command("align", "--check", bad, "--from", "talp", *texts).code == 1


def test_combining_giza(tmp_path):
    """The backward file is the inverse training's, as it is."""
    header = "# Sentence pair (1) source length {} target length {} alignment score : 0.1"
    forward = write(
        tmp_path / "f", [header.format(2, 2), "x y ", "NULL ({ }) a ({ 1 2 }) b ({ }) "]
    )
    backward = write(
        tmp_path / "b", [header.format(2, 2), "a b ", "NULL ({ }) x ({ 1 }) y ({ 2 }) "]
    )
    given = ("align", "--forward", forward, "--backward", backward, "--from", "giza")
    assert worked(*given, "--symmetrize", "intersection") == "0-0\n"
    assert worked(*given, "--symmetrize", "union") == "0-0 0-1 1-1\n"


# ---------------------------------------------------------------------------------------- pictures


def test_page(toy, texts, gold, tmp_path):
    page, other = tmp_path / "page.html", tmp_path / "other"
    written = worked("align", toy.model, *texts)
    other.write_text(written, encoding="utf-8")
    shown = ("--page", page, "--gold", gold, "--compare", other)
    assert worked("align", toy.model, *texts, *shown) == written
    text = page.read_text(encoding="utf-8")
    assert f"{len(toy.common)} sentence pairs" in text
    assert all(word in text for word in toy.common[0][0].split(" "))
    assert str(other) in text
    files = ("--forward", other, "--backward", other)
    assert worked("align", *files, *texts, "--page", page) == written
    assert f"{len(toy.common)} sentence pairs" in page.read_text(encoding="utf-8")
    before = page.read_bytes()
    far = write(tmp_path / "far", ["0-99"] * len(toy.common))
    message = failed("align", toy.model, *texts, "--page", page, "--compare", far, "--out", other)
    assert message.startswith(f"{far}:1: link 0-99 is out of bounds")
    assert (page.read_bytes(), other.read_text(encoding="utf-8")) == (before, written)


def test_page_of_empty_lines(toy, tmp_path):
    source = write(tmp_path / "s", [SOURCE[0], "", " "])
    target = write(tmp_path / "t", ["", TARGET[0], TARGET[0]])
    texts = ("--source", source, "--target", target)
    gold = write(tmp_path / "gold", ["", "", ""])
    shown = ("--page", tmp_path / "page.html", "--gold", gold)
    assert worked("align", toy.model, *texts, *shown) == "\n\n\n"
    assert "3 sentence pairs" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_more_spaces_change_no_links_in_any_format(toy, tmp_path):
    narrow = (f"{SOURCE[0]} {SOURCE[1]}", ""), (f"{TARGET[1]} {TARGET[0]}", TARGET[0])
    wide = (f" {SOURCE[0]}   {SOURCE[1]} ", "  "), (f"{TARGET[1]}  {TARGET[0]}", f"  {TARGET[0]}")
    texts = [
        ("--source", write(tmp_path / f"{name}.s", s), "--target", write(tmp_path / f"{name}.t", t))
        for name, (s, t) in (("narrow", narrow), ("wide", wide))
    ]
    for format in FORMATS:
        one, other = (worked("align", toy.model, *text, "--format", format) for text in texts)
        assert one == other
        assert one
    links = write(tmp_path / "links", ["0-1 1-0", ""])
    for text in texts:
        assert command("align", "--check", links, *text).code == 0
        given = ("align", "--convert", links, "--from", "pharaoh", *text, "--format", "giza")
        assert "source length 2 target length 2" in worked(*given)


def test_warnings_of_pictures_are_said_once(toy, texts, tmp_path, monkeypatch):
    def complaining(path: Path, *_: object) -> None:
        warnings.warn("no font has it", UserWarning, stacklevel=1)

    monkeypatch.setattr("nmtkit.heatmap.save_heatmap", complaining)
    done = command("align", toy.model, *texts, "--heatmap", tmp_path / "pictures")
    assert (done.code, done.err) == (0, "warning: no font has it\n")


def test_wrong_usage_makes_no_folder(toy, texts, tmp_path):
    misused("align", toy.model, *texts, "--threshold", 0.2, "--heatmap", tmp_path / "pictures")
    assert not (tmp_path / "pictures").exists()


# ------------------------------------------------------------------------------------ faithfulness


def test_faithfulness(toy, texts):
    table = worked("align", toy.model, "--faithfulness", *texts)
    assert re.search(r"most attended is most influential\s*│\s*[0-9.]+ %", table)
    found = json.loads(worked("align", toy.model, "--faithfulness", *texts, "--json"))
    assert found["pairs"] == len(toy.common)
    assert found["most_influential"] > found["chance"]


# ----------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("m {texts} --method auto --gold g --threshold 0.2", "leave out --threshold"),
        ("m {texts} --threshold 0.2", "say that too"),
        ("m {texts} --reverse r --symmetrize union --threshold 0.2", "say that too"),
        ("m {texts} --reverse r --symmetrize product --method argmax", "--method is for those"),
        ("m {texts} --gold g", "--gold is for --method auto and for --page"),
        ("m {texts} --compare c", "--compare is for --page"),
        ("m {texts} --json", "--json does not go with a model"),
        ("m {texts} --from giza", "--from does not go with a model"),
        ("m {texts} --faithfulness --out o", "--out does not go with --faithfulness"),
        ("m {texts} --faithfulness --method argmax", "--method does not go with --faithfulness"),
        ("--faithfulness {texts}", "needs a model directory"),
        ("m --convert l", "MODEL does not go with --convert"),
        ("--convert l --check l", "--convert does not go with --check"),
        ("--convert l --rows next", "--rows does not go with --convert"),
        ("--convert l --source s", "--source and --target go together"),
        ("--check l", "--check needs the lines"),
        ("--check l --out o {texts}", "--out does not go with --check"),
        ("--forward f --backward b --page p", "--page shows the words too"),
        ("--forward f --backward b --raw", "--raw does not go with --forward"),
        ("--backward b", "go together"),
    ],
)
def test_wrong_usage(arguments, message):
    """Found out before any file is looked at."""
    given = arguments.replace("{texts}", "--source s --target t").split(" ")
    flat = " ".join(misused("align", *given).replace("│", " ").split())
    assert message in flat


def test_refused(toy, texts, tmp_path):
    given = ("align", toy.model, *texts)
    page = tmp_path / "page"
    for options, message in (
        (("--format", "gizza"), "unknown link format 'gizza': did you mean 'giza'"),
        (("--method", "aut"), "unknown extraction method 'aut': did you mean 'auto'"),
        (("--page", page, "--out", page), "--out and --page cannot both be"),
        (("--page", tmp_path / "." / "page", "--out", page), "--out and --page cannot both be"),
        (("--page", texts[1]), "is an input"),
        (("--page", page, "--gold", "-", "--compare", "-"), "only one of --gold and --compare"),
        (("--page", page, "--gold", page), "is an input"),
    ):
        assert message in failed(*given, *options)
    assert not page.exists()
    forward = ("--forward", texts[1], "--backward", texts[1])
    message = failed("align", *forward, "--symmetrize", "product")
    assert message.startswith("unknown symmetrisation 'product'")
    message = failed("align", "--convert", texts[1], "--from", "phara")
    assert "did you mean 'pharaoh'" in message
