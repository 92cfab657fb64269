"""nmtkit from Python: what the commands give, and the examples of docs/python.md."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import nmtkit
from nmtkit.align import AlignOptions
from nmtkit.api import AlignKeywords, TranslateKeywords
from nmtkit.links import format_pharaoh
from nmtkit.search import Sampling, SearchOptions
from nmtkit.translate import TranslateOptions
from tests.conftest import MICRO_PAIRS, SMALL, lines_of, prepare, raw, worked, write
from tests.micro import run

PAIRS = [*MICRO_PAIRS["valid"], ("", "nothing"), ("nothing", ""), ("", "")]
DOCS = Path(__file__).parent.parent / "docs" / "python.md"


@pytest.fixture(scope="module")
def folder(micro: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of the micro corpus by their names; texts of PAIRS."""
    folder = tmp_path_factory.mktemp("api")
    (folder / "plain").symlink_to(model)
    run(micro, folder / "other", "updates=2", "seed=2")
    links = f"guide={micro.parent / 'train.links'}"
    run(micro, folder / "headed", "model.alignment_head=true", links, "updates=3")
    back = prepare(micro.parent, "zz-aa", folder / "data", "--merges", "60")
    run(back, folder / "back", "updates=2")
    for name, (data, arch) in {
        "ibm1": (micro, "ibm1"),
        "hmm": (micro, "hmm"),
        "hmm-back": (back, "hmm"),
    }.items():
        worked("train", data, "--arch", arch, "--out", folder / name)
    write(folder / "source", (source for source, _ in PAIRS))
    write(folder / "target", (target for _, target in PAIRS))
    return folder


def loaded(folder: Path, names: str) -> nmtkit.Model:
    return nmtkit.load(*(folder / name for name in names.split()), device="cpu")


def texts(folder: Path) -> tuple[object, ...]:
    return ("--source", folder / "source", "--target", folder / "target")


# ---------------------------------------------------------------------------------- as the commands


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ((), {}),
        (("--beam", 2, "--length-penalty", 0), {"beam": 2, "length_penalty": 0.0}),
        (("--tokenized", "--batch", 3), {"tokenized": True, "batch": 3}),
        (("--replace-unknown", "--rows", "next"), {"replace_unknown": True, "rows": "next"}),
        (("--forbid-unknown", "--diversity", 0.5), {"forbid_unknown": True, "diversity": 0.5}),
        (
            ("--length-normalisation", "gnmt", "--coverage-penalty", 4),
            {"length_normalisation": "gnmt", "coverage_penalty": 4.0},
        ),
    ],
)
def test_translate(toy, flags, options):
    """The toy model has a shortlist, so that there are unknown words to replace."""
    lines = [*(raw(source) for source, _ in toy.test), "", " "]
    found = nmtkit.load(toy.model, device="cpu").translate(lines, **options)
    given = "".join(line + "\n" for line in lines)
    assert found == lines_of(worked("translate", toy.model, "--device", "cpu", *flags, stdin=given))
    assert found[-2:] == ["", ""]
    assert len(set(found)) > 10


def test_what_the_command_reads_from_files(toy, tmp_path, monkeypatch):
    """Dictionary, glossary and prefixes; texts that differ show that each of them is taken up."""
    monkeypatch.setattr("nmtkit.search.shortlist.COMMON", 0)
    lines = [raw(source) for source, _ in toy.test]
    words = sorted({word for source, _ in toy.test for word in source.split(" ")})
    table = {word: word.upper() for word in words}
    prefixes = [target.split(" ")[-1] if i % 2 else "" for i, (_, target) in enumerate(toy.test)]
    file = write(tmp_path / "table", (f"{word}\t{entry}" for word, entry in table.items()))
    prefix = write(tmp_path / "prefix", prefixes)
    last = sorted(toy.test[0][1].split(" "))[0]
    lexicon = write(tmp_path / "lex.tsv", (f"{word}\t{last}\t0.5" for word in words))
    model = nmtkit.load(toy.model, device="cpu")
    given = "".join(line + "\n" for line in lines)
    cases: list[tuple[tuple[object, ...], TranslateKeywords]] = [
        ((), {}),
        (
            ("--replace-unknown", "--dictionary", file),
            {"replace_unknown": True, "dictionary": table},
        ),
        (("--glossary", file), {"glossary": table}),
        (("--prefix", prefix), {"prefixes": prefixes}),
        (("--shortlist", lexicon), {"shortlist": {word: [last] for word in words}}),
    ]
    different = set()
    for flags, options in cases:
        found = model.translate(lines, **options)
        assert found == lines_of(worked("translate", toy.model, *flags, stdin=given))
        different.add(tuple(found))
    assert len(different) == len(cases)


def test_sampling_and_markup(toy):
    model = nmtkit.load(toy.model, device="cpu")
    lines = [f"<b>{source.split(' ')[0]}</b> {source}" for source, _ in toy.test]
    given = "".join(line + "\n" for line in lines)
    drawn = model.translate(lines, n_best=3, sampling=Sampling(temperature=2, top_k=9, seed=3))
    flags = ("--n-best", 3, "--sample", "--temperature", 2, "--top-k", 9, "--seed", 3)
    rows = lines_of(worked("translate", toy.model, *flags, stdin=given))
    assert [one.text for outputs in drawn for one in outputs] == [
        row.split(" ||| ")[1] for row in rows
    ]
    found = model.translate(lines, markup=True)
    assert found == lines_of(worked("translate", toy.model, "--markup", stdin=given))
    assert all("<b>" in line and "</b>" in line for line in found)
    with pytest.raises(nmtkit.UserError, match="line:2: "):
        model.translate(["da", "<b>da"], markup=True)
    [[one]] = model.translate([toy.test[0][0]], n_best=1, attention=True)
    assert one.aligned is not None
    check_shapes(one.aligned, two=False)


@pytest.mark.parametrize("names", ["plain", "plain other"])
def test_n_best_and_ensembles(folder, names, tmp_path):
    lines = [source for source, _ in PAIRS]
    found = loaded(folder, names).translate(lines, n_best=3, beam=4, links=True)
    flags = ("--n-best", 3, "--beam", 4, "--alignments", tmp_path / "links")
    models = [folder / name for name in names.split()]
    printed = worked("translate", *models, "--source", folder / "source", *flags)
    rows = [
        f"{number} ||| {one.text} ||| LogProb= {one.log_prob:.6f} ||| {one.value:.6f}"
        for number, outputs in enumerate(found)
        for one in outputs
    ]
    assert rows == lines_of(printed)
    links = [format_pharaoh(one.links) for outputs in found for one in outputs]
    assert links == lines_of((tmp_path / "links").read_text("utf-8"))
    assert any(links)


@pytest.mark.parametrize(
    ("names", "reverse", "options"),
    [
        ("plain", "", {}),
        ("plain other", "", {"rows": "next", "method": "mutual"}),
        ("plain", "", {"method": "threshold", "threshold": 0.1, "batch": 2}),
        ("plain", "", {"raw": True, "rows": "consumed"}),
        ("plain", "back", {}),
        ("plain other", "back", {"symmetrize": "union"}),
        ("headed", "", {}),
        ("headed", "", {"symmetrize": "product"}),
        ("headed", "back", {"rows": "predicting", "symmetrize": "harmonic"}),
        ("ibm1", "", {}),
        ("hmm", "", {"rows": "predicting"}),
        ("hmm", "hmm-back", {"symmetrize": "posterior-mean", "threshold": 0.5}),
        ("hmm ibm1", "hmm-back", {"symmetrize": "intersection", "method": "mutual"}),
    ],
)
def test_align(folder, names, reverse, options):
    model = loaded(folder, names)
    flags: list[object] = [folder / name for name in names.split()]
    for name, value in options.items():
        flags += [f"--{name}"] if value is True else [f"--{name}", value]
    flags += ["--reverse", folder / reverse] if reverse else []
    found = model.align(PAIRS, reverse=loaded(folder, reverse) if reverse else None, **options)
    assert [format_pharaoh(one.links) for one in found] == lines_of(
        worked("align", *flags, *texts(folder))
    )
    assert any(one.links for one in found)
    printed = lines_of(worked("align", *flags, *texts(folder), "--format", "json"))
    for one, line in zip(found, printed, strict=True):
        read = json.loads(line)
        assert (one.source, one.target) == (read["source"], read["target"])
        assert {(j, i): weight for j, i, weight in read["sure"]} == pytest.approx(
            one.weights(), rel=1e-5
        )
    two = bool(reverse) or (names == "headed" and "symmetrize" in options)
    for one in found:
        check_shapes(one, two)


def check_shapes(one: nmtkit.Aligned, two: bool) -> None:
    sizes = len(one.source), len(one.target)
    assert (one.backward is not None) == two
    for matrix, (columns, rows) in ((one.attention, sizes), (one.backward, sizes[::-1])):
        if matrix is not None:
            assert matrix.shape == (rows, columns + 1)
            assert matrix.dtype == np.float64
            np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("names", ["plain", "plain other"])
def test_score(folder, names):
    found = loaded(folder, names).score(PAIRS)
    flags = [flag for name in names.split() for flag in ("--model", folder / name)]
    printed = json.loads(worked("score", *flags, *texts(folder), "--json"))
    assert [vars(one) for one in found] == printed["pairs"]
    assert all(one.value < 0 < one.subwords for one in found)


def test_the_keywords_are_fields_of_the_options():
    """Of their types too. Only batch is a number where they have a BatchSize, and prefixes are
    lines, not an option.
    """
    for keywords, kinds in (
        (TranslateKeywords, (SearchOptions, TranslateOptions, AlignOptions)),
        (AlignKeywords, (AlignOptions,)),
    ):
        fields: dict[str, Any] = {}
        for kind in reversed(kinds):
            fields |= get_type_hints(kind)
        for name, hint in get_type_hints(keywords).items():
            if name not in ("batch", "prefixes"):
                assert hint in (fields[name], fields[name] | None), name


# -------------------------------------------------------------------------------- what goes wrong


def test_models_that_cannot(folder):
    aligner = loaded(folder, "hmm")
    for call in (lambda: aligner.translate(["da"]), lambda: aligner.score([("da", "nu")])):
        with pytest.raises(nmtkit.UserError, match="only aligns"):
            call()
    with pytest.raises(nmtkit.UserError, match="leave out --rows next"):
        aligner.align(PAIRS, rows="next")
    plain = loaded(folder, "plain")
    with pytest.raises(nmtkit.UserError, match="plain goes from aa to zz: reverse wants a model"):
        plain.align(PAIRS, reverse=plain)
    with pytest.raises(ValueError, match="two directions: reverse, or a model with an alignment"):
        plain.align(PAIRS, symmetrize="union")
    with pytest.raises(nmtkit.UserError, match="nowhere: no such model directory"):
        nmtkit.load(folder / "plain", folder / "nowhere")
    with pytest.raises(nmtkit.UserError, match="one prepared corpus"):
        nmtkit.load(folder / "plain", folder / "back")
    with pytest.raises(nmtkit.UserError, match="unknown device 'gpu'"):
        nmtkit.load(folder / "plain", device="gpu")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"beem": 3}, TypeError, "did you mean 'beam'"),
        ({"beam": 0}, ValueError, "beam must be from 1 to 1000, got 0"),
        ({"batch": 0}, ValueError, "batch must be at least 1, got 0"),
        ({"n_best": 0}, ValueError, r"n_best must be from 1 to beam \(5\), got 0"),
        ({"n_best": 6}, ValueError, r"n_best must be from 1 to beam \(5\), got 6"),
        ({"length_penalty": -1}, ValueError, "length_penalty must be from 0 to 20, got -1"),
        ({"links": True}, ValueError, "links=True is for outputs, not texts"),
        ({"attention": True}, ValueError, "attention=True is for outputs"),
        ({"prefixes": ["", ""]}, ValueError, "0 lines need as many prefixes, not 2"),
        ({"prefixes": "da"}, TypeError, "put it into a list"),
        ({"markup": True, "links": True, "n_best": 1}, ValueError, "do not go with markup"),
        ({"dictionary": {"a": "b"}}, ValueError, "dictionary is for replace_unknown=True"),
        ({"forbid_unknown": True, "replace_unknown": True}, ValueError, "say one of them"),
        ({"rows": "nxt"}, nmtkit.UserError, "did you mean 'next'"),
        (
            {"shortlist": {"no": ["such"]}},
            nmtkit.UserError,
            "does not fit .*: it has no translation",
        ),
        ({"shortlist": {"haus": "house"}}, TypeError, "to a list of target subwords"),
        ({"shortlist": [("haus", ["house"])]}, TypeError, "to a list of target subwords"),
        ({"shortlist": {"a": ["b"]}, "sampling": Sampling()}, ValueError, "is for beams"),
    ],
)
def test_wrong_options_of_translate(folder, options, kind, message):
    with pytest.raises(kind, match=message):
        loaded(folder, "plain").translate([], **options)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"metod": "argmax"}, TypeError, "did you mean 'method'"),
        ({"method": "auto"}, nmtkit.UserError, "unknown extraction method 'auto'"),
        ({"symmetrize": "prodct"}, nmtkit.UserError, "did you mean 'product'"),
        ({"threshold": 0.2}, ValueError, "threshold is of a method"),
        ({"method": "mutual", "threshold": 0}, ValueError, "above 0 and at most 1, got 0"),
        ({"method": "mutual", "symmetrize": "product"}, ValueError, "leave out method"),
        ({"rows": "head"}, nmtkit.UserError, "no alignment head to read"),
    ],
)
def test_wrong_options_of_align(folder, options, kind, message):
    with pytest.raises(kind, match=message):
        loaded(folder, "plain").align([], **options)


def test_what_is_no_line_and_no_pair(folder):
    model: Any = loaded(folder, "plain")
    with pytest.raises(TypeError, match="put it into a list"):
        model.translate("da")
    with pytest.raises(TypeError, match="line 1 \\(from 0\\) must be a string, got None"):
        model.translate(["da", None])
    for pairs in (["da"], [("da", "nu", "ti")], [("da", ["nu"])], ("da", "nu"), [("da", None)]):
        for call in (model.align, model.score):
            with pytest.raises(TypeError, match="pair 0 \\(from 0\\) must be a source line and"):
                call(pairs)
    assert model.translate([]) == model.align([]) == model.score(iter(())) == []


# ------------------------------------------------------------------------------ import, types, docs


def test_the_import_is_light():
    code = (
        "import sys, nmtkit\n"
        "assert {'load', 'Model', '__version__'} <= set(dir(nmtkit)) and not hasattr(nmtkit, 'x')\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "from nmtkit import device, load\n"
        "from nmtkit.errors import UserError\n"
        "assert nmtkit.UserError is UserError and device.resolve and callable(load)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


SCRIPT = """
import nmtkit
from nmtkit.links import format_pharaoh

model: nmtkit.Model = nmtkit.load("models/en-de", device="cpu")
texts: list[str] = model.translate(["a", "b"], beam=2, dictionary={"a": "b"})
best: list[list[nmtkit.Output]] = model.translate(["a"], n_best=2, links=True)
aligned: list[nmtkit.Aligned] = model.align([("a", "b")], reverse=model, symmetrize="product")
rows: int = aligned[0].attention.shape[0]
links: str = format_pharaoh(aligned[0].links)
values: list[float] = [one.value for one in model.score([("a", "b")])]
try:
    nmtkit.load("nowhere")
except nmtkit.UserError as error:
    print(error)
"""
WRONG = """
model.translate(["a"], beem=2)
strings: list[str] = model.translate(["a"], n_best=2)
model.align([("a", "b", "c")])
nmtkit.lode("a")
"""


@pytest.mark.slow
def test_types_of_a_users_script(tmp_path):
    api = pytest.importorskip("mypy.api")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + WRONG, encoding="utf-8")
    known = SCRIPT.count("\n")
    out, err, _ = api.run(["--strict", "--config-file=", f"--cache-dir={tmp_path}", str(script)])
    assert err == ""
    wrong = {int(number) for number in re.findall(r"script\.py:(\d+): error", out)}
    assert wrong == set(range(known + 2, known + WRONG.count("\n") + 1)), out


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What docs/python.md works with: models that know its sentences by heart."""
    folder = tmp_path_factory.mktemp("examples")
    pairs = []
    for (noun, nomen), (how, wie), (verb, tut) in product(
        {"house": "Haus", "book": "Buch", "girl": "Mädchen", "picture": "Bild"}.items(),
        {"small": "klein", "old": "alt", "new": "neu", "big": "groß"}.items(),
        {"is": "ist", "was": "war"}.items(),
    ):
        pairs += [(f"The {noun} {verb} {how}.", f"Das {nomen} {tut} {wie}.")]
        pairs += [(f"{verb.title()} the {noun} {how}?", f"{tut.title()} das {nomen} {wie}?")]
    (folder / "text").mkdir()
    for side, language in enumerate(("en", "de")):
        for part in ("train", "valid"):
            write(folder / "text" / f"{part}.{language}", (pair[side] for pair in pairs))
    for languages in ("en-de", "de-en"):
        data = prepare(folder / "text", languages, folder / languages, "--subwords", "none")
        out = folder / "models" / f"hmm-{languages}"
        worked("train", data, "--arch", "hmm", "--out", out)
    few = [*SMALL, "--set=training.learning_rate=0.01", "--set=training.batch_sentences=16"]
    for seed, name in ((1, "en-de"), (2, "en-de-2")):
        out = folder / "models" / name
        worked("train", folder / "en-de", "--out", out, *few, "--epochs", 15, "--seed", seed)
    return folder


def test_the_examples_of_the_docs(examples, monkeypatch):
    monkeypatch.chdir(examples)
    text = re.sub("(?m)^```.*$", "", DOCS.read_text(encoding="utf-8"))
    test = doctest.DocTestParser().get_doctest(text, {}, DOCS.name, str(DOCS), 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test, out=said.append).failed == 0, "".join(said)
    assert runner.tries > 30
