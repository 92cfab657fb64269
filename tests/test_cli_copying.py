"""Names that no vocabulary has, through the command line: a model learns to copy those that it has
never seen. And ensembles of different architectures, with and without copying.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import nmtkit
from nmtkit.checkpoint import Trained
from nmtkit.data import MANIFEST, PreparedCorpus
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.search import Hypothesis
from nmtkit.text import Segmented, Text, TextConfig
from nmtkit.translate.drafts import NO_PREFIX, Source, draft
from nmtkit.vocabulary import UNK, Vocabulary
from tests.conftest import (
    COMMON,
    SMALL,
    SOURCE,
    TRANSLATION,
    failed,
    lines_of,
    prepare,
    worked,
    write,
)

PAIRS = 1200
Pair = tuple[str, str]


def name_of(draw: random.Random) -> str:
    """A name with a capital, of 2 or 3 syllables; no two of them are the same but by chance."""
    syllables = [draw.choice("bdfghklmnprstvwxz") + draw.choice("aeiouy") for _ in range(4)]
    return "".join(syllables).capitalize()


def named_pairs(count: int, seed: int) -> list[Pair]:
    """One or two names among the common words; all in the same order on both sides."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        words = [SOURCE[draw.randrange(COMMON)] for _ in range(draw.randint(1, 4))]
        for _ in range(draw.randint(1, 2)):
            words.insert(draw.randint(0, len(words)), name_of(draw))
        pairs.append((" ".join(words), " ".join(TRANSLATION.get(word, word) for word in words)))
    return pairs


TEST = named_pairs(40, 3)
SOURCES = [source for source, _ in TEST]


@dataclass(frozen=True)
class Named:
    """Models of one corpus: two that copy, of which only the first is trained, and two others."""

    data: Path
    copying: Path  # rnnsearch
    luong: Path  # copies too
    plain: Path  # rnnencdec: has no attention
    attending: Path  # rnnsearch with the other row readings

    @property
    def mixed(self) -> list[Path]:
        return [self.copying, self.luong, self.plain]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Named:
    folder = tmp_path_factory.mktemp("named")
    for part, pairs in (("train", named_pairs(PAIRS, 1)), ("valid", named_pairs(30, 2))):
        write(folder / f"{part}.aa", (source for source, _ in pairs))
        write(folder / f"{part}.zz", (target for _, target in pairs))
    words = ("--subwords", "none", "--vocabulary-size", str(COMMON), "--tokenizer", "none")
    data = prepare(folder, "aa-zz", folder / "data", *words)
    copying = ("--set=model.copy=true", "--set=model.order=conditional")
    worked("train", data, "--out", folder / "copying", *SMALL, *copying)
    untrained = ("--updates=2", "--device=cpu", "--preset=tiny")
    worked(
        *("train", data, "--out", folder / "luong", "--arch=luong", *untrained),
        "--set=model.copy=true",
    )
    worked("train", data, "--out", folder / "plain", "--arch=rnnencdec", *untrained)
    worked("train", data, "--out", folder / "attending", *untrained)
    return Named(data, *(folder / name for name in ("copying", "luong", "plain", "attending")))


def translated(models: Sequence[Path], sources: Sequence[str], *options: object) -> list[str]:
    return lines_of(worked("translate", *models, *options, stdin="\n".join(sources) + "\n"))


# Copying


def test_names_that_were_never_seen_are_copied(named: Named) -> None:
    train = (named.data.parent / "train.aa").read_text(encoding="utf-8").split()
    new = [word for source in SOURCES for word in source.split() if word[0].isupper()]
    assert len(set(new) - set(train)) > 0.9 * len(new) > 40
    found = translated([named.copying], SOURCES)
    right = sum(line == target for line, (_, target) in zip(found, TEST, strict=True))
    assert right >= 0.9 * len(TEST), found


def test_the_corpus_keeps_unknown_words_apart(named: Named) -> None:
    manifest = json.loads((named.data / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["format_version"] == 3
    report = json.loads((named.data / "report.json").read_text(encoding="utf-8"))
    names = (named.data.parent / "train.aa").read_text(encoding="utf-8").split()
    unknown = sum(word[0].isupper() for word in names)
    assert report["train"]["source"]["unknown"] == unknown
    assert report["train"]["target"]["unknown"] == unknown


def test_a_corpus_of_the_version_before_has_nothing_to_copy(named: Named, tmp_path: Path) -> None:
    """It is read, and trains a model that copies, though nothing teaches it to."""
    old = shutil.copytree(named.data, tmp_path / "old")
    manifest = json.loads((old / MANIFEST).read_text(encoding="utf-8"))
    (old / MANIFEST).write_text(json.dumps({**manifest, "format_version": 2}), encoding="utf-8")
    for path in old.glob("*.ids"):
        ids = np.fromfile(path, "<i4")
        np.where(ids < 0, UNK, ids).astype("<i4").tofile(path)
    corpora = [PreparedCorpus.open(folder) for folder in (named.data, old)]
    for i in range(20):
        one, other = ((c.train.source(i).tolist(), c.train.target(i).tolist()) for c in corpora)
        assert one == other
    copy = ("--set=model.copy=true", "--preset=tiny", "--updates=2", "--device=cpu")
    worked("train", old, "--out", tmp_path / "model", *copy)


@pytest.mark.parametrize("mixed", [False, True])
def test_log_probabilities_are_those_of_scoring(named: Named, tmp_path: Path, mixed: bool) -> None:
    """Of n-best lists, whose names are copied; alone, and beside models that do not copy."""
    models = named.mixed if mixed else [named.copying]
    listed = [line.split(" ||| ") for line in translated(models, SOURCES, "--n-best", 3)]
    source = write(tmp_path / "source", (SOURCES[int(fields[0])] for fields in listed))
    target = write(tmp_path / "target", (fields[1] for fields in listed))
    assert any(word[0].isupper() for fields in listed for word in fields[1].split())
    options = [option for model in models for option in ("--model", model)]
    scores = lines_of(worked("score", *options, "--source", source, "--target", target))
    for fields, score in zip(listed, scores, strict=True):
        reported = float(fields[2].removeprefix("LogProb= "))
        assert reported == pytest.approx(float(score), abs=2e-4), fields


def test_prefixes_have_unknown_words(named: Named, tmp_path: Path) -> None:
    """One that the source has, and one that nobody has."""
    source = f"{SOURCE[0]} Kavobudi {SOURCE[1]}"
    known = TRANSLATION[SOURCE[0]]
    for beginning in (f"{known} Kavobudi", "Kavobudi", "Zyzyzyzy", f"Kavobudi {known} Zyzyzyzy"):
        prefix = write(tmp_path / "prefix", [beginning])
        [line] = translated([named.copying], [source], "--prefix", prefix)
        assert line.startswith(beginning)
        assert "<unk>" not in line.removeprefix(beginning)


def test_forbidding_unknown_words_forbids_no_copies(named: Named) -> None:
    found = translated([named.copying], SOURCES, "--forbid-unknown")
    assert not any("<unk>" in line for line in found)
    right = sum(line == target for line, (_, target) in zip(found, TEST, strict=True))
    assert right >= 0.9 * len(TEST)


def test_links_of_copied_words(named: Named, tmp_path: Path) -> None:
    """A word is copied from where the attention lies; replacing UNK leaves copies as they are."""
    links = tmp_path / "links"
    found = translated([named.copying], SOURCES, "--alignments", links, "--replace-unknown")
    right = names = 0
    for line, linked, pair in zip(found, links.read_text().split("\n"), TEST, strict=False):
        if line == pair[1]:
            places = [j for j, word in enumerate(line.split()) if word[0].isupper()]
            names += len(places)
            right += sum(f"{j}-{j}" in linked.split() for j in places)
    assert right >= 0.9 * names > 40


def test_terms_and_tags_with_copied_words(named: Named, tmp_path: Path) -> None:
    glossary = write(tmp_path / "terms", ["Kavobudi\tKim Il"])
    source = f"{SOURCE[0]} Kavobudi {SOURCE[1]} {SOURCE[2]}"
    [line] = translated([named.copying], [source], "--glossary", glossary)
    assert "Kim Il" in line
    assert "Kavobudi" not in line
    tagged = source.replace("Kavobudi", "<b>Kavobudi</b>")
    [line] = translated([named.copying], [tagged], "--markup")
    assert re.search("<b>.*Kavobudi.*</b>", line)


def test_samples_copy(named: Named) -> None:
    sampled = translated([named.copying], SOURCES, "--sample", "--temperature", "0.1")
    right = sum(line == target for line, (_, target) in zip(sampled, TEST, strict=True))
    assert right >= 0.8 * len(TEST)


def test_copied_subwords_are_joined() -> None:
    """Of BPE's marks: a word in two parts, of which the first is in no vocabulary."""
    source = Text(TextConfig("aa", tokenizer="none", subwords="none"))
    vocabulary = Vocabulary([("im", 1)])
    config = TextConfig("zz", tokenizer="none")
    target = Text(config, codes="#version: 0.2\n", vocabulary=vocabulary)
    cut = Segmented(["Kim", "Vo"], ["K@@", "im", "Vo"], [0, 0, 1])
    trained = Trained(Path("model"), cast(AnySeq2Seq, None), source, target)
    line = Source(0, "Kim Vo", cut, [UNK, UNK, UNK], NO_PREFIX)
    found = draft(trained, line, Hypothesis((5 + 0, 4, 5 + 2), -1.0, -1.0))
    assert (found.words, found.word_of, found.unknown()) == (["Kim", "Vo"], [0, 0, 1], set())


def test_a_model_without_attention_has_no_such_setting(named: Named, tmp_path: Path) -> None:
    for architecture in ("rnnencdec", "seq2seq"):
        options = (f"--arch={architecture}", "--set=model.copy=true", "--out", tmp_path / "model")
        assert "'copy'" in failed("train", named.data, *options)


# Ensembles of different architectures


def test_mixed_ensembles_translate(named: Named) -> None:
    """The untrained ones are nearly uniform, so that the trained one decides."""
    found = translated(named.mixed, SOURCES)
    alone = translated([named.copying], SOURCES)
    assert sum(one == other for one, other in zip(found, alone, strict=True)) > len(TEST) / 2


def test_every_model_of_an_ensemble_that_aligns_needs_attention(
    named: Named, tmp_path: Path
) -> None:
    source = write(tmp_path / "source", SOURCES)
    target = write(tmp_path / "target", (target for _, target in TEST))
    files = ("--source", source, "--target", target)
    message = failed("align", *named.mixed, *files)
    assert message.startswith(f"{named.plain}: ")
    assert "no attention" in message
    both = worked("align", named.copying, named.luong, named.attending, *files)
    assert len(lines_of(both)) == len(TEST)


def test_the_api_takes_mixed_ensembles(named: Named) -> None:
    """The attention is the mean of each model's own rows, which differ in where they stand."""
    folders = [named.copying, named.luong, named.attending]
    every = nmtkit.load(*folders)
    each = [nmtkit.load(folder) for folder in folders]
    shifts = [one.models[0].seq2seq.consumed_shift for one in each]
    assert shifts == [1, 1, 2]
    for rows in ("consumed", "next", "predicting"):
        mean = np.mean([one.align(TEST[:1], rows=rows)[0].attention for one in each], 0)
        np.testing.assert_allclose(every.align(TEST[:1], rows=rows)[0].attention, mean, atol=1e-6)
    mixed = nmtkit.load(*named.mixed)
    [[output]] = mixed.translate(SOURCES[:1], n_best=1)
    [score] = mixed.score([(SOURCES[0], output.text)])
    assert output.log_prob == pytest.approx(score.value, abs=1e-4)
