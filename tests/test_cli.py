"""The command line: what goes in and comes out of the five commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nmtkit import __version__
from nmtkit.links import SYMMETRISATIONS, parse_links, split_tokens, transpose
from tests.conftest import (
    SOURCE,
    TARGET,
    command,
    lines_of,
    process,
    raw,
    toy_links,
    worked,
    write,
)
from tests.hostile import HOSTILE
from tests.micro import MICRO

COMMANDS = ("preprocess", "train", "translate", "score", "align")


@pytest.fixture
def tokens(toy, tmp_path) -> tuple[Path, Path]:
    """Files of the toy test sentences of known words, in tokens."""
    return tuple(  # type: ignore[return-value]
        write(tmp_path / f"tokens.{language}", (pair[side] for pair in toy.common))
        for side, language in enumerate(("aa", "zz"))
    )


# --------------------------------------------------------------------------------------------- help


def loaded_modules(*arguments: str) -> set[str]:
    """The modules that a process of `nmtkit ARGUMENTS` has loaded at its end."""
    code = (
        "import sys\n"
        "from nmtkit.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as error:\n    assert not error.code, error.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


HEAVY = {"torch", "numpy", "sacremoses", "subword_nmt", "sacrebleu", "matplotlib", "sentencepiece"}


def test_help_loads_nothing_heavy():
    assert loaded_modules("--help").isdisjoint(HEAVY)
    for name in COMMANDS:
        assert loaded_modules(name, "--help").isdisjoint(HEAVY)


def test_score_and_preprocess_never_load_torch(tmp_path, toy):
    write(tmp_path / "a", ["x y z w", "x"])
    assert "torch" not in loaded_modules("score", f"{tmp_path}/a", "--reference", f"{tmp_path}/a")
    write(tmp_path / "links", ["0-0"])
    links = str(tmp_path / "links")
    assert "torch" not in loaded_modules("score", links, "--gold", links)
    assert "torch" not in loaded_modules("align", "--forward", links, "--backward", links)
    corpora = ("--train", str(toy.folder / "valid"), "--out", str(tmp_path / "data"))
    languages = ("--source-lang", "aa", "--target-lang", "zz")
    assert "torch" not in loaded_modules("preprocess", *languages, *corpora)


def test_help_names_every_command():
    for arguments in (("--help",), ("-h",)):
        text = worked(*arguments)
        assert all(name in text for name in COMMANDS)
    assert worked("--version").startswith(f"nmtkit {__version__}\n")
    for name in COMMANDS:
        assert "Usage: nmtkit " + name in worked(name, "--help")


# ---------------------------------------------------------------------------------------- translate


def test_translate_by_streams_and_by_files(toy, tmp_path):
    source = "".join(raw(source) + "\n" for source, _ in toy.test)
    written = worked("translate", toy.model, stdin=source)
    assert lines_of(written)[:3] == [raw(target) for _, target in toy.test[:3]]
    (tmp_path / "in").write_text(source, encoding="utf-8")
    options = ("--source", tmp_path / "in", "--out", tmp_path / "out")
    assert worked("translate", toy.model, *options) == ""
    assert (tmp_path / "out").read_text(encoding="utf-8") == written
    assert worked("translate", toy.model, "--source", "-", "--out", "-", stdin=source) == written


def test_translate_counts_lines_by_newlines_alone(toy):
    plain = f"{SOURCE[0]} {SOURCE[1]}?"
    inside = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r", "\t", "\x1c", "\ufeff"]
    lines = [plain.replace(" ", character) for character in inside]
    lines += ["", " ", "\t", "\u00a0", plain + "\r", plain.replace(" ", "\u00a0"), *HOSTILE, plain]
    content = b"\xef\xbb\xbf" + "\n".join([plain, *lines]).encode()  # no newline at the end
    found = lines_of(worked("translate", toy.model, stdin=content))
    wanted = f"{TARGET[1]} {TARGET[0]}?"
    assert len(found) == 1 + len(lines)
    assert found[: 1 + len(inside)] == [wanted] * (1 + len(inside))
    assert found[1 + len(inside) :][:6] == [*[""] * 4, wanted, wanted]
    assert found[-1] == wanted
    crlf = worked("translate", toy.model, stdin=f"{plain}\r\n\r\n{plain}\r\n")
    assert crlf == f"{wanted}\n\n{wanted}\n"
    assert worked("translate", toy.model, stdin="") == ""
    assert worked("translate", toy.model, stdin="\n") == "\n"


def test_translate_does_not_depend_on_the_batch(toy):
    lines = [*HOSTILE]
    for number, (line, _) in enumerate(toy.test):
        lines += [line, HOSTILE[number % len(HOSTILE)]]
    source = "\n".join(lines) + "\n"
    for options in ((), ("--n-best", 2), ("--replace-unknown", "--beam", 2)):
        found = {
            worked("translate", toy.model, "--batch", batch, *options, stdin=source)
            for batch in (1, 7, 64)
        }
        if "--n-best" in options:  # figures differ in the last place
            found = {re.sub(r"\|\|\| LogProb= .*", "", text) for text in found}
        assert len(found) == 1


def test_n_best_is_in_moses_format(toy):
    source = f"{SOURCE[0]} {SOURCE[1]}\n\n{SOURCE[2]}\n"
    lines = lines_of(worked("translate", toy.model, "--n-best", 3, "--beam", 4, stdin=source))
    found = [line.split(" ||| ") for line in lines]
    assert all(len(columns) == 4 for columns in found)
    assert [columns[0] for columns in found] == ["0"] * 3 + ["1"] + ["2"] * 3
    assert found[0][1] == f"{TARGET[1]} {TARGET[0]}"
    assert found[3][1:] == ["", "LogProb= 0.000000", "0.000000"]
    assert found[4][1] == TARGET[2]
    for rows in (found[:3], found[4:]):
        values = [float(columns[3]) for columns in rows]
        assert values == sorted(values, reverse=True)
        log_probs = [float(columns[2].removeprefix("LogProb= ")) for columns in rows]
        assert all(log_prob <= value < 0 for log_prob, value in zip(log_probs, values, strict=True))
    length = 3  # two words and the end
    assert float(found[0][2].split()[1]) / length == pytest.approx(float(found[0][3]), abs=1e-5)


@pytest.mark.parametrize("options", [(), ("--tokenized",), ("--n-best", 2), ("--replace-unknown",)])
def test_alignments_of_its_own_output(toy, tmp_path, options):
    lines = [*(raw(source) for source, _ in toy.test), "", *(HOSTILE * 3)]
    source = "".join(line + "\n" for line in lines)
    links = tmp_path / "links"
    found = lines_of(worked("translate", toy.model, "--alignments", links, *options, stdin=source))
    linked = lines_of(links.read_text(encoding="utf-8"))
    assert len(linked) == len(found)
    for number, (written, between) in enumerate(zip(found, linked, strict=True)):
        given, text = lines[number] if "--n-best" not in options else None, written
        if given is None:
            columns = written.split(" ||| ")
            given, text = lines[int(columns[0])], columns[1]
        for j, i in parse_links(between, "here"):
            assert j < len(split_tokens(given))
            assert i < len(split_tokens(text))
    if options == ("--tokenized",):
        known = [source for source, _ in toy.common]
        right = sum(
            toy_links(s) == linked[n]
            for n, (s, _) in enumerate(toy.test)
            if s in known and s[-1] not in ".!?"
        )
        assert right > 5


def test_alignments_to_stdout(toy, tmp_path):
    options = ("--alignments", "-", "--out", tmp_path / "out")
    assert (
        worked("translate", toy.model, *options, stdin=f"{SOURCE[0]} {SOURCE[1]}\n") == "0-1 1-0\n"
    )


def test_unknown_words(toy, tmp_path):
    entries = ["Xyz\tfrom the dictionary\t0.5", "Xyz\tsecond", f"{SOURCE[0]}\tnever"]
    words = write(tmp_path / "words", entries)
    source = f"{SOURCE[0]} Xyz ÄBC\n"
    run_ = ("translate", toy.model)
    assert worked(*run_, stdin=source) == f"<unk> <unk> {TARGET[0]}\n"
    assert worked(*run_, "--replace-unknown", stdin=source) == f"ÄBC Xyz {TARGET[0]}\n"
    found = worked(*run_, "--replace-unknown", "--dictionary", words, stdin=source)
    assert found == f"ÄBC from the dictionary {TARGET[0]}\n"


def test_dictionaries_cannot_break_lines(toy, tmp_path):
    words = write(tmp_path / "words", ["Xyz\ta\rb\u2028c"])
    options = ("--replace-unknown", "--tokenized", "--dictionary", words)
    assert worked("translate", toy.model, *options, stdin="Xyz\n") == "a b c\n"


# -------------------------------------------------------------------------------------------- align


def test_align_by_streams_and_by_files(toy, tokens, tmp_path):
    source, target = tokens
    files = ("--source", source, "--target", target)
    written = worked("align", toy.model, *files)
    assert written == worked("align", toy.model, *files, "--out", "-")
    assert worked("align", toy.model, *files, "--out", tmp_path / "out") == ""
    assert (tmp_path / "out").read_text(encoding="utf-8") == written
    for stream, other in (("--source", "--target"), ("--target", "--source")):
        paths = dict(zip(("--source", "--target"), tokens, strict=True))
        given = (stream, "-", other, paths[other])
        assert worked("align", toy.model, *given, stdin=paths[stream].read_bytes()) == written


def test_align_does_not_depend_on_the_batch_and_keeps_every_line(toy, tmp_path):
    pairs = [*toy.test, *zip(HOSTILE, HOSTILE[::-1], strict=True)]
    pairs = pairs[::2] + pairs[1::2]
    pairs += [("", ""), ("", TARGET[0]), (SOURCE[0], ""), (SOURCE[0], TARGET[0])]
    files = [write(tmp_path / str(side), (pair[side] for pair in pairs)) for side in (0, 1)]
    for options in ((), ("--raw",), ("--method", "threshold")):
        given = ("--source", files[0], "--target", files[1], *options)
        found = {worked("align", toy.model, *given, "--batch", batch) for batch in (1, 7, 64)}
        assert len(found) == 1
        lines = lines_of(found.pop())
        assert len(lines) == len(pairs)
        assert lines[-4:] == ["", "", "", "0-0"]
        for (source, target), line in zip(pairs, lines, strict=True):
            for j, i in parse_links(line, "here"):
                assert j < len(split_tokens(source.removesuffix("\r")))
                assert i < len(split_tokens(target.removesuffix("\r")))


def test_raw_lines(toy, tmp_path):
    source = write(tmp_path / "s", [f"{SOURCE[0]}  {SOURCE[1]}?", f" {SOURCE[0]} {SOURCE[1]}"])
    target = write(tmp_path / "t", [f"{TARGET[1]}  {TARGET[0]}?", f"{TARGET[1]}   {TARGET[0]}"])
    options = ("--method", "threshold", "--raw", "--source", source, "--target", target)
    assert worked("align", toy.model, *options) == "0-1 1-0 1-1\n0-1 1-0\n"


@pytest.mark.parametrize("method", SYMMETRISATIONS)
def test_both_directions(toy, tmp_path, method):
    # Every other translation lacks words, so that the links are not their own mirror image.
    pairs = [
        (source, target if number % 2 else target.split(" ")[0])
        for number, (source, target) in enumerate(toy.common)
    ]
    source, target = (write(tmp_path / str(n), (pair[n] for pair in pairs)) for n in (0, 1))
    forward = worked("align", toy.model, "--source", source, "--target", target)
    backward = worked("align", toy.reverse, "--source", target, "--target", source)
    files = ("--source", source, "--target", target, "--symmetrize", method)
    both = lines_of(worked("align", toy.model, "--reverse", toy.reverse, *files))
    mirrored = 0
    for one, other, found in zip(lines_of(forward), lines_of(backward), both, strict=True):
        turned = transpose(parse_links(other, "here"))
        mirrored += turned == parse_links(other, "here")
        wanted = SYMMETRISATIONS[method](parse_links(one, "here"), turned)
        assert parse_links(found, "here") == wanted
    assert mirrored < 0.8 * len(pairs)
    whole = list(zip(both, pairs, strict=True))[1::2]
    assert sum(line == toy_links(pair[0]) for line, pair in whole) > 0.7 * len(whole)


def test_combining_links_of_files(tmp_path):
    forward = write(tmp_path / "f", ["0-0 1-1 2-2", "", "0-1"])
    backward = write(tmp_path / "b", ["0-0 1-2 2-2", "0-0", "0-1"])
    given = ("align", "--forward", forward, "--backward", backward)
    assert worked(*given, "--symmetrize", "intersection") == "0-0 2-2\n\n0-1\n"
    assert worked(*given, "--symmetrize", "union") == "0-0 1-1 1-2 2-2\n0-0\n0-1\n"
    assert worked(*given) == "0-0 1-1 2-2\n0-0\n0-1\n"  # grow-diag-final-and
    source = write(tmp_path / "s", ["a b c", "a", "a"])
    target = write(tmp_path / "t", ["x y z", "x", "x y"])
    texts = ("--source", source, "--target", target)
    assert worked(*given, *texts, "--symmetrize", "intersection") == "0-0 2-2\n\n0-1\n"


@pytest.mark.parametrize("rows", ["predicting", "next", "consumed"])
def test_rows_of_align_and_translate(toy, tokens, rows):
    source, target = tokens
    found = worked("align", toy.model, "--source", source, "--target", target, "--rows", rows)
    right = sum(
        line == toy_links(pair[0]) for line, pair in zip(lines_of(found), toy.common, strict=True)
    )
    assert (right > 0.7 * len(toy.common)) == (rows == "predicting")


def test_pictures(toy, tmp_path):
    pytest.importorskip("matplotlib")
    source = write(tmp_path / "s", [f"{SOURCE[0]} {SOURCE[1]}", "", "  "])
    target = write(tmp_path / "t", [f"{TARGET[1]} {TARGET[0]}", TARGET[0], ""])
    files = ("--source", source, "--target", target)
    for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        folder = tmp_path / "pictures" / kind
        given = ("--heatmap", folder, "--heatmap-format", kind)
        assert worked("align", toy.model, *files, *given) == "0-1 1-0\n\n\n"
        names = sorted(path.name for path in folder.iterdir())
        assert names == [f"00000{number}.{kind}" for number in (1, 2, 3)]
        assert all(path.read_bytes().startswith(start) for path in folder.iterdir())


def test_drawing_goes_to_stderr(toy, tokens):
    source, target = tokens
    plain = command("align", toy.model, "--source", source, "--target", target)
    assert plain.err == ""
    drawn = command("align", toy.model, "--source", source, "--target", target, "--show", 1)
    assert drawn.out == plain.out
    first, second = toy.common[:2]
    for word in first[1].split(" "):
        assert word in drawn.err
    assert not set(second[1].split(" ")) - set(first[1].split(" ")) <= set(drawn.err.split())


# -------------------------------------------------------------------------------------------- score


def test_score_translations(tmp_path):
    reference = write(tmp_path / "ref", ["the cat sat on the mat", "a b c d"])
    good = write(tmp_path / "good", ["the cat sat on the mat", "a b c d"])
    bad = write(tmp_path / "bad", ["the cat sat", "x"])
    text = worked("score", good, bad, "--reference", reference)
    assert re.search(r"good\s*│ 100\.00 │ 100\.00 │\s+0\.00", text)
    assert "bad" in text
    assert "BLEU: nrefs:1|case:mixed" in text
    found = json.loads(worked("score", good, bad, "--reference", reference, "--json"))
    assert list(found) == [str(good), str(bad)]
    assert [score["name"] for score in found[str(good)]] == ["BLEU", "chrF2", "TER"]
    assert found[str(good)][0]["value"] == pytest.approx(100)
    assert found[str(bad)][0]["value"] < 50
    some = ("--metric", "ter", "--metric", "chrf++", "--lowercase", "--tokenize", "none", "--json")
    found = json.loads(
        worked("score", "-", "--reference", reference, *some, stdin=good.read_bytes())
    )
    assert [score["name"] for score in found["-"]] == ["TER", "chrF2++"]


def test_score_links(tmp_path):
    gold = write(tmp_path / "gold", ["0-0 1p1 2-2", "0-1"])
    links = write(tmp_path / "links", ["0-0 1-1 2-0", "0-1"])
    # 4 links, 3 sure: 2 of them found, 3 links are possible: AER = 1 - (2 + 3) / (4 + 3).
    text = worked("score", links, "--gold", gold)
    assert re.search(r"links\s+│ 28\.57 │\s+75\.00 │\s+66\.67 │ 70\.59", text)
    found = json.loads(worked("score", links, "--gold", gold, "--json"))[str(links)]
    assert found["aer"] == pytest.approx(2 / 7)
    assert (found["links"], found["sure"], found["possible"], found["sentences"]) == (4, 3, 4, 2)
    turned = write(tmp_path / "turned", ["1-1 2p2 3-3", "2-1"])  # from one, target-source
    same = json.loads(worked("score", links, "--gold", turned, "--one-based", "--swap", "--json"))
    assert same[str(links)] == found


# ------------------------------------------------------------------------- talk, terminals, signals


def test_stdout_holds_data_only(toy, micro, tmp_path):
    """Through processes of their own, without a terminal."""
    done = process("translate", toy.model, stdin=f"{SOURCE[0]}\n".encode())
    assert (done.code, done.out, done.err) == (0, f"{TARGET[0]}\n", "")
    assignments = [f"--set={assignment}" for assignment in MICRO]
    done = process("train", micro, "--out", tmp_path / "m", "--updates", 2, *assignments)
    assert (done.code, done.out) == (0, "")
    assert "valid_loss" in done.err
    assert "\r" not in done.err
    assert "\x1b" not in done.err


def test_a_reader_that_goes_away(toy):
    source = f"{SOURCE[0]} {SOURCE[1]}\n" * 20_000
    with subprocess.Popen(
        [sys.executable, "-m", "nmtkit", "translate", str(toy.model), "--source", "/dev/stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        try:
            running.stdin.write(source.encode())
            running.stdin.close()
        except BrokenPipeError:
            pass
        assert running.stderr.read() == b""
        assert running.wait(60) != 0
