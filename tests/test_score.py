from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from sacrebleu.metrics.bleu import BLEU

from nmtkit.errors import UserError
from nmtkit.score import METRICS, TOKENISED_LINES, TOKENIZERS, looks_tokenised, score_text

REFERENCES = [
    "The committee hasn't met since Tuesday, has it?",
    "Prices rose by 3.5% (or $12) in two weeks. ",
    "Élodie's café “Au Lait” re-opened…",
    "東京 は 大きな 都市 です 。",
    "",
    "One line\u2028with a separator and a\ttab.",
]
SYSTEM = [
    "the committee has not met since Tuesday , has it ?",
    "The prices rose 3.5 % (or $ 12) in two weeks.  ",
    "Élodie's cafe “Au Lait” reopened…",
    "東京 大都市 です。",
    "superfluous words",
    "One line\u2028with a separator, and one tab.",
]
WORSE = ["", "Prices", "", "東京", "", "x"]


def sacrebleu_command(folder, system, *options):
    """What ``python -m sacrebleu`` prints for the texts, with 12 decimals: {name: record}."""
    for name, lines in (("reference", REFERENCES), ("system", system)):
        text = "".join(line + "\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    command = [sys.executable, "-m", "sacrebleu", str(folder / "reference")]
    command += ["-i", str(folder / "system"), "-w", "12", "-f", "json", *options]
    printed = subprocess.run(command, capture_output=True, check=True, encoding="utf-8").stdout
    records = json.loads(printed)
    return {r["name"]: r for r in (records if isinstance(records, list) else [records])}


@pytest.mark.parametrize(
    ("metrics", "settings", "flags"),
    [
        (["bleu", "chrf", "ter"], {}, []),
        (["bleu", "chrf"], {"lowercase": True}, ["-lc", "--chrf-lowercase"]),
        (["bleu", "chrf++"], {"tokenize": "intl"}, ["-tok", "intl", "--chrf-word-order", "2"]),
        (["bleu"], {"tokenize": "char"}, ["-tok", "char"]),
    ],
)
def test_numbers_and_signatures_are_those_of_the_sacrebleu_command(
    tmp_path, metrics, settings, flags
):
    names = ["chrf" if name == "chrf++" else name for name in metrics]
    expected = sacrebleu_command(tmp_path, SYSTEM, "-m", *names, *flags)
    scores = score_text({"system": SYSTEM}, REFERENCES, metrics, **settings)["system"]
    assert len(scores) == len(expected) == len(metrics)
    for score in scores:
        assert 0 < score.value < 100
        assert float(f"{score.value:.12f}") == expected[score.name]["score"]
        assert score.signature == expected[score.name]["signature"]


def test_several_systems_and_order():
    scores = score_text({"b": WORSE, "a": SYSTEM}, REFERENCES, ["ter", "bleu", "chrf++"])
    assert list(scores) == ["b", "a"]
    assert [score.name for score in scores["a"]] == ["TER", "BLEU", "chrF2++"]
    alone = score_text({"a": SYSTEM}, REFERENCES, ["ter", "bleu", "chrf++"])
    assert alone["a"] == scores["a"]
    assert scores["b"][2].value < scores["a"][2].value


@pytest.mark.parametrize("metric", METRICS)
def test_perfect_and_empty_translations(metric):
    perfect, empty = (
        score_text({"s": lines}, REFERENCES, [metric])["s"][0].value
        for lines in (REFERENCES, [""] * len(REFERENCES))
    )
    assert (perfect, empty) == pytest.approx((0, 100) if metric == "ter" else (100, 0))


def test_bleu_by_hand():
    # 5 words against 6: n-gram precisions 5/5, 4/4, 3/3, 2/2; brevity exp(1 - 6/5) = 0.818731
    score = score_text({"s": ["a b c d e"]}, ["a b c d e f"], ["bleu"])["s"][0]
    assert score.value == pytest.approx(81.8731, abs=1e-4)
    assert score.details["precisions"] == [100.0] * 4
    assert (score.details["hypothesis_length"], score.details["reference_length"]) == (5, 6)
    assert str(score).startswith("BLEU = 81.87  [nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")


def test_ter_by_hand_ignores_case():
    # one insertion and one substitution for four words
    score = score_text({"s": ["A x c"]}, ["a b c d"], ["ter"])["s"][0]
    assert score.value == pytest.approx(50)
    assert score.details == {"edits": 2, "reference_length": 4}
    assert "case:lc" in score.signature


def test_scores_become_json():
    for score in score_text({"s": SYSTEM}, REFERENCES, list(METRICS))["s"]:
        record = json.loads(json.dumps(score.to_json()))
        assert record["value"] == score.value
        assert set(record) == {"name", "value", "signature", "details"}


@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_tokenizers_are_sacrebleus(tokenize):
    assert tokenize in BLEU.TOKENIZERS
    needs = {"ja-mecab": "MeCab", "ko-mecab": "mecab_ko"}.get(tokenize)
    if needs and importlib.util.find_spec(needs) is None:
        with pytest.raises(UserError, match=rf"pip install 'sacrebleu\[{tokenize[:2]}\]'"):
            score_text({"s": SYSTEM}, REFERENCES, ["bleu"], tokenize)
    else:
        score = score_text({"s": SYSTEM}, REFERENCES, ["bleu"], tokenize)["s"][0]
        assert f"tok:{tokenize}" in score.signature


def test_unknown_names():
    with pytest.raises(UserError, match="unknown metric 'belu': did you mean 'bleu'"):
        score_text({"s": SYSTEM}, REFERENCES, ["bleu", "belu"])
    with pytest.raises(UserError, match="unknown tokenizer '13b': did you mean '13a'"):
        score_text({"s": SYSTEM}, REFERENCES, tokenize="13b")


@pytest.mark.parametrize(
    ("system", "reference", "message"),
    [
        (["a", "b"], ["a"], "out.de has 2 lines, but ref.de has 1 line: "),
        (["a"], ["a", "b"], "out.de has 1 line, but ref.de has 2 lines: "),
        ([], ["a"], "out.de is empty"),
        (["a"], [], "ref.de is empty"),
        ([], [], "ref.de is empty"),
        (["a"], [" "], "ref.de has only empty lines"),
    ],
)
def test_texts_that_cannot_be_compared(system, reference, message):
    systems = {"fine.de": ["a"] * len(reference), "out.de": system}
    with pytest.raises(UserError, match=f"^{message}"):
        score_text(systems, reference, reference_name="ref.de")


def test_tokenised_text_is_noticed_and_sacrebleu_keeps_quiet(capfd):
    lines = ["a b ."] * TOKENISED_LINES
    assert looks_tokenised(lines)
    assert not looks_tokenised(lines[1:])
    assert not looks_tokenised(["a b."] * 200)
    score_text({"s": lines}, lines)
    assert capfd.readouterr() == ("", "")
