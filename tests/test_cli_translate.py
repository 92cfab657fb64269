"""nmtkit translate: at a terminal, and what its options make of search, words and markup."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.conftest import SOURCE, TARGET, command, failed, lines_of, raw, worked, write

A, B, C = SOURCE[:3]
X, Y, Z = TARGET[:3]


class Terminal:
    """`nmtkit translate` on a terminal of its own: stdin and stderr, and stdout apart or not."""

    def __init__(self, *arguments: object, apart: bool = False) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nmtkit", "translate", *map(str, arguments)],
            stdin=slave,
            stdout=subprocess.PIPE if apart else slave,
            stderr=slave,
        )
        os.close(slave)
        self.bytes = b""

    @property
    def seen(self) -> str:
        """All that has come so far."""
        return self.bytes.decode(errors="replace").replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, text: str, times: int = 1) -> str:
        """All that has come by when `text` has; fails after a minute without it."""
        end = time.monotonic() + 60
        while self.seen.count(text) < times and time.monotonic() < end:
            if select.select([self.master], [], [], 0.2)[0]:
                self.bytes += os.read(self.master, 1 << 16)
        assert self.seen.count(text) >= times, self.seen
        return self.seen

    def close(self) -> int:
        self.type("\x04")  # Ctrl-D
        code = self.process.wait(60)
        os.close(self.master)
        return code


@pytest.fixture
def source(toy, tmp_path):
    return write(tmp_path / "source", [raw(source) for source, _ in toy.common])


# At a terminal


def test_a_typed_line_is_answered_at_once(toy):
    terminal = Terminal(toy.model, "--show-attention", "--device", "cpu")
    terminal.read_until("type a line to translate it; Ctrl-D ends\n")
    terminal.type("\n")
    assert terminal.read_until("\n\n\n").endswith("ends\n\n\n")  # the echo, and the blank answer
    terminal.type(f"{A} {B}\n")
    # The whole legend: the terminal would put the next line's echo into what is still to come.
    seen = terminal.read_until("possible link\n")
    assert f"\n{A} {B}\n{Y} {X}\n" in seen  # the echo, the answer, then the picture
    assert "@" in seen.split(f"{Y} {X}\n")[1]
    terminal.type(f"{C}!\n")
    assert f"\n{C}!\n{Z}!\n" in terminal.read_until("possible link\n", times=2)
    assert terminal.close() == 0
    assert "translating" not in terminal.seen  # no progress bar between the lines


def test_a_pipe_gets_a_typed_line_at_once(toy):
    terminal = Terminal(toy.model, "--device", "cpu", apart=True)
    terminal.read_until("Ctrl-D ends\n")
    stdout = terminal.process.stdout
    assert stdout is not None
    terminal.type(f"{A} {B}?\n")
    assert select.select([stdout], [], [], 60)[0]
    assert os.read(stdout.fileno(), 1 << 16).decode() == f"{Y} {X}?\n"
    assert terminal.close() == 0
    assert stdout.read() == b""
    stdout.close()


def test_attention_of_the_last_line_is_drawn(toy):
    done = command("translate", toy.model, "--show-attention", stdin=f"{C}\n{A} {B}\n\n")
    assert (done.code, done.out) == (0, f"{Z}\n{Y} {X}\n\n")
    assert X in done.err
    assert Z not in done.err
    assert done.err.count("largest of its row") == 1
    assert command("translate", toy.model, "--show-attention", stdin="\n").err == ""


# Sampling and beams


def test_samples_repeat_whatever_the_batch(toy, source):
    given = ("translate", toy.model, "--source", source, "--sample", "--temperature", 2)
    plain = worked(*given, "--seed", 3)
    assert worked(*given, "--seed", 3, "--batch", 1) == plain
    assert worked(*given, "--seed", 3, "--batch", 5) == plain
    assert worked(*given, "--seed", 4) != plain
    assert worked(*given) == worked(*given, "--seed", 1)
    assert len(lines_of(plain)) == len(lines_of(source.read_text()))
    five = lines_of(worked(*given, "--n-best", 7, "--top-k", 4))
    assert len(five) == 7 * len(lines_of(plain))
    greedy = worked("translate", toy.model, "--source", source, "--beam", 1)
    assert worked(*given, "--top-k", 1) == greedy


def test_diverse_n_best_lists_differ(toy, source):
    given = ("translate", toy.model, "--source", source, "--n-best", 5)
    plain = worked(*given)
    assert worked(*given, "--diversity", 0) == plain
    diverse = worked(*given, "--diversity", 5)
    assert diverse != plain
    assert len(lines_of(diverse)) == len(lines_of(plain))


# Prefixes and unknown words


def test_translations_begin_with_their_prefix(toy, tmp_path):
    source = write(tmp_path / "s", [f"{A} {B}?", f"{A} {B}", "", f"{A} {B}", f"{A} {B}", B])
    prefixes = [Z.upper(), "", X, f"Qqq {X}", "   ", f"{X}, {Y} {Z}!"]
    prefix = write(tmp_path / "p", prefixes)
    given = ("translate", toy.model, "--source", source)
    found = lines_of(worked(*given, "--prefix", prefix))
    assert found[0].startswith(Z.upper() + " ")
    assert found[1:3] == [f"{Y} {X}", ""]
    assert found[3].startswith(f"Qqq {X}")
    assert found[4] == found[1]
    assert found[5].startswith(f"{X}, {Y} {Z}!") or found[5].startswith(f"{X} , {Y} {Z}!")
    assert worked(*given, "--prefix", prefix, "--batch", 1) == "".join(f"{o}\n" for o in found)
    blank = write(tmp_path / "blank", [""] * 6)
    assert worked(*given, "--prefix", blank) == worked(*given)
    for options in (("--forbid-unknown",), ("--n-best", 3), ("--sample",), ("--replace-unknown",)):
        lines = lines_of(worked(*given, "--prefix", prefix, *options))
        assert sum("Qqq " + X in line for line in lines) == (3 if "--n-best" in options else 1)


def test_unknown_words_are_never_written(toy):
    line = f"{A} Xyz {B} Ääh\n"
    assert "<unk>" in worked("translate", toy.model, stdin=line)
    for options in ((), ("--n-best", 5), ("--sample", "--n-best", 9), ("--diversity", 1)):
        assert "<unk>" not in worked(
            "translate", toy.model, "--forbid-unknown", *options, stdin=line
        )


# Terms and markup


def test_glossary_and_markup(toy, tmp_path):
    terms = write(
        tmp_path / "terms", [f"{A}\tÄpfel & Birnen", f"{B} {C}\tPaar", f"{A}\tÄpfel & Birnen"]
    )
    given = ("translate", toy.model, "--glossary", terms)
    done = command(*given, stdin=f"{A} {C}\n{B} {C} {A}\n")
    assert (done.code, done.out) == (0, f"{Z} Äpfel & Birnen\nÄpfel & Birnen Paar\n")
    assert done.err == (
        "glossary: 3 terms in the source; of the translations 0 had them, 3 were given them, "
        "0 have no words linked to them\n"
    )
    marked = worked(*given, "--markup", stdin=f"<b>{A}</b> {C}\n<!--x-->\n")
    assert marked == f"{Z} <b>Äpfel &amp; Birnen</b>\n<!--x-->\n"
    lines = lines_of(
        worked("translate", toy.model, "--markup", "--n-best", 3, stdin=f"<i>{A}</i>\n")
    )
    assert len(lines) == 3
    assert all(line.count("<i>") == line.count("</i>") == 1 for line in lines)


def test_what_does_not_go_together(toy, tmp_path, source):
    terms = write(tmp_path / "terms", ["a\tb", "c\td", "a\tx"])
    short = write(tmp_path / "short", ["a"])
    given = ("translate", toy.model, "--source", source, "--out", tmp_path / "out")
    for options, message in (
        (("--seed", 1), "--seed is for --sample: say that too"),
        (("--temperature", 0.5), "--temperature is for --sample"),
        (("--top-k", 5), "--top-k is for --sample"),
        (("--sample", "--beam", 5), "--beam does not go with --sample"),
        (("--sample", "--diversity", 1), "--diversity does not go with --sample"),
        (("--sample", "--coverage-penalty", 1), "--coverage-penalty does not go with --sample"),
        (("--sample", "--temperature", 0), "temperature must be above 0"),
        (("--sample", "--n-best", 2000), "n_best must be from 1 to 1000"),
        (("--forbid-unknown", "--replace-unknown"), "leaves nothing to --replace-unknown"),
        (("--markup", "--alignments", tmp_path / "l"), "are of lines without tags"),
        (("--glossary", terms), f"{terms}:3: 'a' has another translation in line 1"),
        (("--glossary", short), f"{short}:1: expected a source term, TAB, the target term"),
        (("--prefix", short), f"{short} has 1 line"),
        (("--prefix", "-", "--glossary", "-"), "only one of --prefix and --glossary can be -"),
        (("--prefix", tmp_path / "out"), "is an input and would be replaced"),
    ):
        assert message in failed(*given, *options)
        assert not (tmp_path / "out").exists()
    assert "only one of --source and --prefix" in failed("translate", toy.model, "--prefix", "-")
    message = failed("translate", toy.model, "--markup", stdin="a\n<b>a\n")
    assert message == "standard input:2: <b> is not closed: lines stand by themselves"
