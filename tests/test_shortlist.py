"""Shortlists: what a sentence may be translated by, and the search among it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmtkit.cli.translating import read_shortlist
from nmtkit.errors import UserError
from nmtkit.models import build_model
from nmtkit.models.rnnsearch import RNNsearchConfig
from nmtkit.models.seq2seq import Seq2Seq
from nmtkit.models.stepping import Product, Stepper
from nmtkit.search import SearchOptions, Shortlist, beam_search, shortlist
from nmtkit.vocabulary import EOS, SPECIALS, Vocabulary
from tests.conftest import command, lines_of, raw, worked, write
from tests.test_models import SOURCE_SIZE, TARGET_SIZE, padded
from tests.test_search import SOURCES, Variant, check_equal, search, sharp, variant

__all__ = ["variant"]  # the fixture

SOURCE = Vocabulary((f"s{i}", 1) for i in range(len(SPECIALS), SOURCE_SIZE))  # s4 … s7
TARGET = Vocabulary((f"t{i}", 1) for i in range(len(SPECIALS), TARGET_SIZE))  # t4 … t6
TABLE = {"s4": ["t6"], "s5": ["t5", "nowhere", "t6", "t4"], "s6": ["t4"], "nowhere": ["t5"]}
#: With two each: what each of SOURCES may use besides the specials.
WORDS = [{4}, {6, 5}, set(), {5, 6}, {6}]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "COMMON", 0)
    monkeypatch.setattr(shortlist, "EACH", 2)


@pytest.mark.usefixtures("small")
def test_the_words_of_each_sentence() -> None:
    listed = Shortlist(TABLE, SOURCE, TARGET).of(padded(SOURCES)[0], None)
    assert listed.words.tolist() == [0, 1, 2, 3, 4, 5, 6]
    for closed, words in zip(listed.closed, WORDS, strict=True):
        assert {i for i in range(TARGET_SIZE) if not closed[i]} == {0, 1, 2, EOS} | words
    first = Shortlist(TABLE, SOURCE, TARGET).of(padded(SOURCES[:1])[0], None)
    assert first.words.tolist() == [0, 1, 2, 3, 4]
    prefixed = Shortlist(TABLE, SOURCE, TARGET).of(padded(SOURCES[:1])[0], [(6, 1)])
    assert prefixed.words.tolist() == [0, 1, 2, 3, 4, 6]
    assert prefixed.places((6, 1)) == [5, 1]


def test_the_most_frequent_words_are_everybodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "COMMON", 2)
    table = {"s4": ["t6", "t5"], "s7": ["t4"]}
    listed = Shortlist(table, SOURCE, TARGET).of(torch.tensor([[5, EOS]]), None)
    assert listed.words.tolist() == [0, 1, 2, 3, 4, 5]
    # t4, more frequent than the others, is no target word of this table.
    listed = Shortlist({"s4": ["t6", "t5"]}, SOURCE, TARGET).of(torch.tensor([[5, EOS]]), None)
    assert listed.words.tolist() == [0, 1, 2, 3, 5, 6]


@pytest.mark.parametrize("table", [{}, {"s4": []}, {"s4": ["x"]}, {"x": ["t4"]}])
def test_a_table_of_other_words_is_refused(table: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="no translation between words"):
        Shortlist(table, SOURCE, TARGET)


class Masked(Stepper):
    """Reference: all words' logits, and -inf over those that a sentence may not use."""

    words: list[set[int]]

    def log_probs(
        self,
        features: Tensor,
        attention: Tensor,
        copied: Tensor | None,
        closed: Tensor | None = None,
    ) -> Tensor:
        (words,) = self.words
        logits = self.logits(features)
        others = [i for i in range(logits.shape[1]) if i > EOS and i not in words]
        logits[:, others] = -math.inf
        return self.model.log_probs(logits, features, attention, copied)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("prefixed", [False, True])
def test_search_is_that_among_a_sentences_words(variant: Variant, prefixed: bool) -> None:
    model = sharp(variant, 1)
    options = SearchOptions(beam=3, n_best=3, max_ratio=1.0, max_extra=2)
    prefixes = [(6,), (), (4, 1), (), ()] if prefixed else None
    table = Shortlist(TABLE, SOURCE, TARGET)
    found = beam_search([model], *padded(SOURCES), options, prefixes, shortlist=table)
    for b, source in enumerate(SOURCES):
        stepper = Masked(model)
        own = () if prefixes is None else prefixes[b]
        stepper.words = [WORDS[b] | set(own)]
        (expected,) = beam_search([stepper], *padded([source]), options, [own])
        check_equal(found[b], expected)
        (alone,) = beam_search([model], *padded([source]), options, [own], shortlist=table)
        check_equal(found[b], alone)


def test_a_list_of_all_words_changes_nothing(variant: Variant) -> None:
    model = sharp(variant, 1)
    options = SearchOptions(max_ratio=1.0, max_extra=2)
    table = Shortlist({"s4": ["t4", "t5", "t6"]}, SOURCE, TARGET)
    listed = beam_search([model, model], *padded(SOURCES), options, shortlist=table)
    for found, expected in zip(listed, search([model], SOURCES), strict=True):
        check_equal(found, expected)


@pytest.mark.parametrize("int8", [False, True])
def test_rows_of_a_product(int8: bool) -> None:
    torch.manual_seed(1)
    product = Product([torch.randn(9, 16), torch.randn(8, 16)], torch.randn(17), int8)
    x, rows = torch.randn(5, 16), torch.tensor([0, 3, 11, 16])
    torch.testing.assert_close(product.of_rows(rows)(x), product(x)[:, rows])


@torch.inference_mode()
def test_int8_and_the_fast_stepper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "COMMON", 5)
    config = RNNsearchConfig(embedding=24, encoder_hidden=20, hidden=32, attention_units=16,
                             maxout=24, initialisation="glorot")  # fmt: skip
    torch.manual_seed(1)
    model = build_model(config, 30, 40)
    assert isinstance(model, Seq2Seq)
    source, target = (Vocabulary((f"w{i}", 1) for i in range(4, size)) for size in (30, 40))
    # The five commonest of what the table has: w13 to w17.
    table = Shortlist({f"w{i}": [f"w{i + 9}"] for i in range(4, 30)}, source, target)
    ids, mask = padded([(5, 6, 7, 8, 3), (9, 10, 3)])
    for int8 in (False, True):
        found = beam_search(
            [model.eval().stepper(int8)], ids, mask, SearchOptions(), shortlist=table
        )
        for (best, *_), own in zip(found, ({14, 15, 16, 17}, {18, 19}), strict=True):
            assert best.ids
            assert set(best.ids) <= {1, *range(13, 18), *own}


def test_lexical_tables_are_read(tmp_path) -> None:
    path = write(tmp_path / "lex.tsv", ["a\tx\t0.25", "b\ty\t1", "a\tz\t5e-1"])
    assert read_shortlist(path) == {"a": ["z", "x"], "b": ["y"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a\tb", "lex.tsv:2: expected a source word, TAB, a target word, TAB"),
        ("a\tb\t0.1\tc", "lex.tsv:2: expected"),
        ("a\tb\tc", "lex.tsv:2: expected"),
        ("a\tb\tnan", "lex.tsv:2: expected"),
        ("a\tb\t1.5", "lex.tsv:2: expected"),
        ("\tb\t0.5", "lex.tsv:2: expected"),
        ("", "lex.tsv:2: expected"),
    ],
)
def test_a_line_that_is_none_of_a_table(tmp_path, line: str, message: str) -> None:
    path = write(tmp_path / "lex.tsv", ["a\tb\t0.5", line])
    with pytest.raises(UserError, match=message):
        read_shortlist(path)


@pytest.fixture
def lexicon(toy, tmp_path, monkeypatch) -> Path:
    """An aligner's table on the toy's own corpus."""
    monkeypatch.setattr(shortlist, "COMMON", 0)
    monkeypatch.setattr(shortlist, "EACH", 1)
    worked("train", toy.data, "--arch", "ibm1", "--out", tmp_path / "ibm1")
    return tmp_path / "ibm1" / "lex.tsv"


def test_translations_by_the_table_of_an_aligner(toy, lexicon) -> None:
    text = "".join(raw(source) + "\n" for source, _ in toy.common)
    plain = worked("translate", toy.model, "--device", "cpu", stdin=text)
    for more in ((), ("--int8",), ("--batch", 3)):
        given = ("translate", toy.model, "--device", "cpu", "--shortlist", lexicon, *more)
        assert worked(*given, stdin=text) == plain


def test_what_it_does_not_go_with(toy, lexicon, tmp_path) -> None:
    for given, message in (
        (("--shortlist", lexicon, "--sample"), "--shortlist is for a beam: leave out --sample"),
        (("--shortlist", tmp_path / "no"), "cannot read"),
        (
            ("--shortlist", write(tmp_path / "x", ["x\ty\t0.5"])),
            f"the shortlist does not fit {toy.model}: it has no translation",
        ),
        (("--shortlist", write(tmp_path / "empty", [])), "no words: it must be a lexical table"),
        (("--shortlist", "-"), "only one of --source and --shortlist can be -"),
    ):
        done = command("translate", toy.model, *given, stdin="bada\n")
        assert (done.code, done.out) == (1, "")
        assert message in done.err
        assert len(lines_of(done.err)) == 1
