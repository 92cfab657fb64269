"""Log-probabilities of given pairs: what search reported, whatever the batch."""

from __future__ import annotations

import json
import math

import pytest

from nmtkit.align import AlignOptions, align
from nmtkit.batches import BatchSize
from nmtkit.checkpoint import Trained, load
from nmtkit.cli.translating import _listed
from nmtkit.errors import UserError
from nmtkit.likelihood import (
    LikelihoodOptions,
    LogProbability,
    NBestOptions,
    _entries,
    log_probabilities,
    perplexity,
    rescore,
)
from nmtkit.search import SearchOptions
from nmtkit.translate import Output, TranslateOptions, translate
from tests.conftest import failed, misused, raw, worked, write
from tests.micro import CPU


@pytest.fixture(scope="module")
def trained(toy) -> Trained:
    return load(toy.model, CPU)


def one_by_one(batch: int) -> LikelihoodOptions:
    return LikelihoodOptions(BatchSize(sentences=batch, tokens=0, pool=1), read_ahead=5)


def test_search_reports_the_same(toy, trained):
    lines = [raw(source) for source, _ in toy.common[:8]]
    # The best only: what comes after it may hold words that are cut otherwise when read again.
    options = TranslateOptions(search=SearchOptions(beam=3))
    best = [n_best[0] for n_best in translate([trained], lines, options)]
    pairs = [(line, output.text) for line, output in zip(lines, best, strict=True)]
    reported = [output.log_prob for output in best]
    found = [one.value for one in log_probabilities([trained], pairs, LikelihoodOptions())]
    assert found == pytest.approx(reported, abs=1e-4)
    assert len(found) == 8


@pytest.mark.parametrize("batch", [1, 7])
def test_batches_change_nothing(toy, trained, batch):
    pairs = [*[(raw(s), raw(t)) for s, t in toy.common[:9]], ("", "x"), ("x", ""), ("", "")]
    expected = list(log_probabilities([trained], pairs, one_by_one(64)))
    found = list(log_probabilities([trained], pairs, one_by_one(batch)))
    assert [one.value for one in found] == pytest.approx([one.value for one in expected], abs=1e-5)
    assert [one.subwords for one in found] == [one.subwords for one in expected]
    assert found[-2].subwords == 1  # the end alone


def test_perplexity_by_hand():
    # Four subwords with probabilities 1/2, 1/2, 1/8, 1/2: (2·2·8·2) ** (1/4)
    rows = [LogProbability(math.log(1 / 4), 2), LogProbability(math.log(1 / 16), 2)]
    assert perplexity(rows) == pytest.approx(64**0.25)
    assert perplexity([]) == 1.0


def test_command(toy, tmp_path):
    sources = write(tmp_path / "s", [raw(source) for source, _ in toy.common[:3]])
    targets = write(tmp_path / "t", [raw(target) for _, target in toy.common[:3]])
    call = ("score", "--model", toy.model, "--source", sources, "--target", targets)
    lines = worked(*call).split("\n")
    assert len(lines) == 4
    assert lines.pop() == ""
    found = json.loads(worked(*call, "--json"))
    assert [float(line) for line in lines] == pytest.approx(
        [row["value"] for row in found["pairs"]], abs=1e-6
    )
    assert found["perplexity"] == pytest.approx(
        perplexity(LogProbability(**row) for row in found["pairs"])
    )


def test_mistakes(toy, tmp_path):
    one, two = write(tmp_path / "one", ["a"]), write(tmp_path / "two", ["a", "b"])
    call = ("score", "--model", toy.model)
    assert "1 line, but" in failed(*call, "--source", one, "--target", two)
    assert "either --target or --n-best" in misused(*call, "--source", one)
    assert "say one of" in misused(*call, "--gold", one)
    assert "no other files" in misused("score", one, *call[1:], "--source", one, "--target", one)


# ----------------------------------------------------------------------------------- n-best lists


def rescored(trained, sources, lines, batch=64, **options):
    found = rescore([trained], sources, lines, NBestOptions(**options), one_by_one(batch), "list")
    return list(found)


def hypotheses(toy) -> tuple[list[str], list[str]]:
    """Three sources, the second without hypotheses; the third's first hypothesis is the worst."""
    (s1, t1), (_, wrong), (s3, t3) = toy.common[:3]
    lines = [
        f"0 ||| {raw(t1)} ||| LM= -1 d: -2 3 ||| -7.5",
        f"2 ||| {raw(wrong)} {raw(wrong)} |||  ||| -1 ||| 0-0 1-1",
        f"2 ||| {raw(t3)} ||| LM= -2 ||| -2",
        f"2 ||| {raw(t3)} ||| LM= -3 ||| -3",
    ]
    return [raw(s1), "x", raw(s3)], lines


def test_a_list_is_rescored_and_ranked(toy, trained):
    sources, lines = hypotheses(toy)
    texts = [line.split(" ||| ")[1] for line in lines]
    pairs = list(zip([sources[0], *[sources[2]] * 3], texts, strict=True))
    probabilities = list(log_probabilities([trained], pairs, LikelihoodOptions()))
    first, worst, second, third = (
        (f"{one.value:.6f}", f"{one.value / one.subwords:.6f}") for one in probabilities
    )
    assert rescored(trained, sources, lines) == [
        f"0 ||| {texts[0]} ||| LM= -1 d: -2 3 Rescored= {first[0]} ||| {first[1]}",
        f"2 ||| {texts[2]} ||| LM= -2 Rescored= {second[0]} ||| {second[1]}",
        f"2 ||| {texts[3]} ||| LM= -3 Rescored= {third[0]} ||| {third[1]}",
        f"2 ||| {texts[1]} ||| Rescored= {worst[0]} ||| {worst[1]} ||| 0-0 1-1",
    ]
    kept = rescored(trained, sources, lines, keep_order=True, feature="N")
    assert kept == [
        f"0 ||| {texts[0]} ||| LM= -1 d: -2 3 N= {first[0]} ||| -7.5",
        f"2 ||| {texts[1]} ||| N= {worst[0]} ||| -1 ||| 0-0 1-1",
        f"2 ||| {texts[2]} ||| LM= -2 N= {second[0]} ||| -2",
        f"2 ||| {texts[3]} ||| LM= -3 N= {third[0]} ||| -3",
    ]
    plain = rescored(trained, sources, lines, length_penalty=0.0, batch=1)
    assert [float(line.split(" ||| ")[3]) for line in plain] == pytest.approx(
        [float(one[0]) for one in (first, second, third, worst)], abs=1e-4
    )


def test_its_own_list_keeps_its_order(toy, tmp_path):
    """Both rank by the same value, whatever the length penalty."""
    source = write(tmp_path / "s", [raw(source) for source, _ in toy.common[:6]])
    for penalty in ("1", "0.5"):
        own = ("--n-best", 3, "--length-penalty", penalty)
        lines = worked("translate", toy.model, "--source", source, "--beam", 3, *own)
        given = ("score", "--model", toy.model, "--source", source, "--n-best", "-")
        found = worked(*given, "--length-penalty", penalty, stdin=lines)
        best = [line for line in lines.split("\n") if line]
        again = [line for line in found.split("\n") if line]
        assert [line.split(" ||| ")[:2] for line in again[::3]] == [
            line.split(" ||| ")[:2] for line in best[::3]
        ]
        for line in again[::3]:
            features = line.split(" ||| ")[2].split()
            assert float(features[1]) == pytest.approx(float(features[3]), abs=1e-4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0 ||| a ||| b", "list:2: expected NUMBER ||| TEXT ||| FEATURES ||| VALUE"),
        ("x ||| a ||| ||| 1", "list:2: expected NUMBER"),
        ("0 ||| a ||| Rescored= 1 ||| 1", "list:2: has a feature Rescored= already"),
        ("3 ||| a ||| ||| 1", "list:2: the source has no sentence 3: they count from 0"),
        ("0 ||| a ||| ||| 1", "list:2: sentence 0 comes after 1: sort the list"),
    ],
)
def test_what_is_no_list(trained, line, message):
    with pytest.raises(UserError, match=message.replace("|", r"\|")):
        rescored(trained, ["a", "b"], ["1 ||| a ||| ||| 0", line])


def test_options_of_lists(toy, tmp_path):
    one = write(tmp_path / "one", ["a"])
    call = ("score", "--model", toy.model, "--source", one)
    assert "a feature's name has no space" in failed(*call, "--n-best", one, "--feature", "a b")
    assert "only one of --source and --n-best" in failed(*call[:-1], "-", "--n-best", "-")
    assert "not JSON" in misused(*call, "--n-best", one, "--json")
    assert "--keep-order is for --n-best" in misused(*call, "--target", one, "--keep-order")


def test_bars_in_a_text_are_written_as_moses_does(trained):
    output = Output("a ||| b | c", -1.5, -0.5)
    line = _listed(3, output)
    assert line == "3 ||| a &#124;&#124;&#124; b | c ||| LogProb= -1.500000 ||| -0.500000\n"
    ((_, entry),) = _entries([line.rstrip("\n")], "Rescored", "list")
    assert entry.text == output.text


def test_a_part_of_the_pairs_has_its_own_numbers(trained, toy):
    pairs = [("a", "b"), ("a", "b " * 5001)]
    with pytest.raises(UserError, match=r"^pair 9: "):
        list(log_probabilities([trained], pairs, LikelihoodOptions(), first=7))
    with pytest.raises(UserError, match=r"^pair 9: "):
        list(align([trained], pairs, AlignOptions(), first=7))
