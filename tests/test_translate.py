"""Translating lines with the toy model: one out for one in, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmtkit.align import AlignOptions
from nmtkit.batches import BatchSize
from nmtkit.checkpoint import Trained, load
from nmtkit.files import CONTROLS
from nmtkit.search import SearchOptions
from nmtkit.translate import Output, TranslateOptions, translate
from tests.conftest import COMMON, SOURCE, TARGET, raw, toy_links
from tests.hostile import HOSTILE, LINES
from tests.micro import CPU, run

DETOKENISED = TranslateOptions()
TOKENS = TranslateOptions(tokenized=True)


@pytest.fixture(scope="module")
def trained(toy) -> Trained:
    return load(toy.model, CPU)


@pytest.fixture(scope="module")
def subwords(micro, tmp_path_factory) -> Trained:
    """A model of BPE subwords that has learned next to nothing: it writes what comes."""
    folder = tmp_path_factory.mktemp("translate") / "m"
    return load(run(micro, folder, "updates=30", "learning_rate=0.05"), CPU)


def outputs(model: Trained, lines: list[str], options: TranslateOptions) -> list[Output]:
    return [n_best[0] for n_best in translate([model], lines, options)]


def texts(model: Trained, lines: list[str], options: TranslateOptions = DETOKENISED) -> list[str]:
    return [output.text for output in outputs(model, lines, options)]


def links(output: Output) -> str:
    return " ".join(f"{j}-{i}" for j, i in sorted(output.links))


# --------------------------------------------------------------------------- one out for one in


def test_known_sentences(toy, trained):
    wanted = [raw(target) for _, target in toy.common]
    found = texts(trained, [raw(source) for source, _ in toy.common])
    right = sum(one == other for one, other in zip(found, wanted, strict=True))
    assert right > 0.9 * len(wanted) > 20


def test_case_is_folded_and_tokens_can_stay(trained):
    line = f"{SOURCE[0].upper()} {SOURCE[1].title()}?"
    assert texts(trained, [line]) == [f"{TARGET[1]} {TARGET[0]}?"]
    assert texts(trained, [line], TOKENS) == [f"{TARGET[1]} {TARGET[0]} ?"]


SEPARATORS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r", "\t", "\x1c", "\ufeff", "\u00a0"]


def mixed(toy: Any) -> list[str]:
    lines = []
    for number, (source, _) in enumerate(toy.test):
        separator = SEPARATORS[number % len(SEPARATORS)]
        lines += [raw(source), source.replace(" ", separator), separator, ""]
    return [*lines, *HOSTILE]


def test_batches_change_nothing(toy, trained, subwords):
    lines = mixed(toy)
    for model in (trained, subwords):
        options = TranslateOptions(links=True, search=SearchOptions(beam=3, n_best=2))
        whole = list(translate([model], lines, options))
        assert len(whole) == len(lines)
        for sentences, ahead in ((1, 5000), (7, 5000), (64, 9), (7, 1)):
            size = BatchSize(sentences=sentences, tokens=0, pool=1)
            changed = replace(options, batch=size, align=AlignOptions(batch=size), read_ahead=ahead)
            found = list(translate([model], lines, changed))
            for some, others in zip(whole, found, strict=True):
                assert [(o.text, o.links) for o in some] == [(o.text, o.links) for o in others]
                for one, other in zip(some, others, strict=True):
                    assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


def test_separators_inside_lines_are_spaces(trained):
    plain = f"{SOURCE[0]} {SOURCE[1]}?"
    for separator in SEPARATORS:
        assert texts(trained, [plain.replace(" ", separator)]) == texts(trained, [plain])


def test_blank_stays_blank(trained):
    blank = ["", " ", "   ", "\t", "\u2028\x85\r", "\ufeff", "\u00a0"]
    lines = [line for one in blank for line in (one, SOURCE[0])]
    found = list(translate([trained], lines, TranslateOptions(links=True, replace_unknown=True)))
    assert found[0::2] == [[Output("")]] * len(blank)
    assert all(n_best[0].text for n_best in found[1::2])
    assert list(translate([trained], [], DETOKENISED)) == []


@settings(max_examples=30)
@given(lines=st.lists(LINES, max_size=6))
def test_whatever_comes_in_lines_come_out(trained, subwords, lines):
    for model in (trained, subwords):
        for tokenized in (False, True):
            options = TranslateOptions(
                links=True,
                replace_unknown=True,
                tokenized=tokenized,
                search=SearchOptions(beam=2, n_best=2, max_ratio=1.0, max_extra=3),
            )
            found = list(translate([model], lines, options))
            assert len(found) == len(lines)
            for line, n_best in zip(lines, found, strict=True):
                assert n_best
                for output in n_best:
                    assert not CONTROLS.search(output.text)
                    given_tokens, written = line.split(" "), output.text.split(" ")
                    assert all(given_tokens[j] and written[i] for j, i in output.links)
                if not model.source.segment(line).subwords:
                    assert n_best == [Output("")]


def test_lines_are_read_as_they_are_needed(trained):
    def endless() -> Iterator[str]:
        while True:
            yield SOURCE[0]

    stream = translate([trained], endless(), TranslateOptions(read_ahead=3))
    assert [next(stream)[0].text for _ in range(4)] == [TARGET[0]] * 4


# ------------------------------------------------------------------------------------------- n-best


def test_n_best(toy, trained):
    search = SearchOptions(beam=4, n_best=3, length_penalty=0.7)
    lines = [source for source, _ in toy.test]
    found = list(translate([trained], lines, TranslateOptions(search=search, tokenized=True)))
    single = texts(trained, lines, replace(TOKENS, search=SearchOptions(4, 0.7)))
    for n_best, best in zip(found, single, strict=True):
        assert 1 <= len(n_best) <= 3
        assert n_best[0].text == best
        assert [o.value for o in n_best] == sorted((o.value for o in n_best), reverse=True)
        for output in n_best:
            length = len(output.text.split()) + 1  # a subword a token, and the end
            assert output.value == pytest.approx(output.log_prob / length**0.7, rel=1e-4)
    assert sum(len(n_best) > 1 for n_best in found) > 30


def test_an_ensemble_of_a_model_with_itself_is_that_model(toy, trained):
    lines = [source for source, _ in toy.test]
    alone = outputs(trained, lines, TranslateOptions(links=True))
    for one, (other, *_) in zip(
        alone, translate([trained, trained], lines, TranslateOptions(links=True)), strict=True
    ):
        assert (one.text, one.links) == (other.text, other.links)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


# ------------------------------------------------------------------------------------------- links


def test_links_of_tokens_are_the_known_ones(toy, trained):
    pairs = toy.common
    options = replace(TOKENS, links=True)
    found = outputs(trained, [source for source, _ in pairs], options)
    wanted = [toy_links(source) for source, _ in pairs]
    right = sum(links(one) == other for one, other in zip(found, wanted, strict=True))
    assert right > 0.8 * len(wanted)


def test_links_speak_of_the_lines_as_they_stand(trained):
    """Spaces and joined marks on the way in and on the way out."""
    a, b, c = SOURCE[0], SOURCE[1].upper(), SOURCE[2]
    line = f" {a}  {b}\t{c}?"  # its tokens: a, b TAB c?
    written = f"{TARGET[2]} {TARGET[1]} {TARGET[0]}"
    options = TranslateOptions(links=True)
    (output,) = outputs(trained, [line], options)
    assert output.text == f"{written}?"
    assert links(output) == "0-2 1-0 1-1 1-2"
    (output,) = outputs(trained, [line], replace(options, tokenized=True))
    assert output.text == f"{written} ?"
    assert links(output) == "0-2 1-0 1-1 1-3"


# ----------------------------------------------------------------------------------- unknown words


REPLACING = TranslateOptions(replace_unknown=True)


def test_the_raw_source_word_is_copied(trained):
    line = f"{SOURCE[0]} XyZ-Ä12 {SOURCE[1]} ünKnown?"
    assert texts(trained, [line]) == [f"<unk> {TARGET[1]} <unk> {TARGET[0]}?"]
    assert texts(trained, [line], REPLACING) == [f"ünKnown {TARGET[1]} XyZ-Ä12 {TARGET[0]}?"]


def test_the_dictionary_comes_first(trained):
    rare, other = SOURCE[COMMON], SOURCE[COMMON + 1]
    options = replace(
        REPLACING, dictionary={rare: "two words", "xyz": "lower", "XyZ": "as written"}
    )
    line = f"{rare} {SOURCE[0]} {other} XyZ"
    assert texts(trained, [line], options) == [f"as written {other} {TARGET[0]} two words"]


def test_links_of_replaced_words(trained):
    options = replace(REPLACING, dictionary={"XyZ": "two words"}, links=True)
    (output,) = outputs(trained, [f"{SOURCE[0]} XyZ {SOURCE[1]}"], options)
    assert output.text == f"{TARGET[1]} two words {TARGET[0]}"
    assert links(output) == "0-3 1-1 2-0"


def test_every_hypothesis_has_its_words_replaced(trained):
    search = SearchOptions(beam=4, n_best=4)
    (n_best,) = translate([trained], [f"{SOURCE[0]} XyZ"], replace(REPLACING, search=search))
    assert len(n_best) > 1
    assert all("<unk>" not in output.text for output in n_best)
    assert n_best[0].text == f"XyZ {TARGET[0]}"


def test_nothing_unknown_nothing_changed(toy, trained):
    lines = [source for source, _ in toy.common]
    assert texts(trained, lines, REPLACING) == texts(trained, lines)


# ---------------------------------------------------------------------------------------- prefixes


def test_prefixes_come_out_as_given(trained, subwords):
    """Also what is not in the vocabulary, whole or in part."""
    given = f"Ωmega {TARGET[0]}Ω4 x {TARGET[1]}"
    options = TranslateOptions(tokenized=True, links=True, search=SearchOptions(beam=3, n_best=3))
    for model in (trained, subwords):
        lines = [f"{SOURCE[0]} {SOURCE[1]}"] * 2
        given_out, plain = translate([model], lines, options, prefixes=[given, " "])
        [alone] = translate([model], lines[:1], options)
        assert [output.text for output in plain] == [output.text for output in alone]
        for output in given_out:
            assert f"{output.text} ".startswith(f"{given} ")
            assert all(i < len(output.text.split(" ")) for _, i in output.links)
    with pytest.raises(ValueError, match="argument"):
        list(translate([trained], lines, options, prefixes=[given]))
