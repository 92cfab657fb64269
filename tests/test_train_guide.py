"""Training with a guide: what is learnt, measured, kept, resumed and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.align import AlignOptions, align, turned
from nmtkit.batches import Batch
from nmtkit.checkpoint import load
from nmtkit.data import PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.links import read_gold
from nmtkit.score import score_links
from nmtkit.train import resume, settings_from, settings_to_resume, train
from nmtkit.train import validation as module
from nmtkit.train.guided import decoder_loss, head_loss
from nmtkit.train.update import Update
from nmtkit.vocabulary import EOS
from tests.conftest import MICRO_PAIRS, prepare, toy_links, write
from tests.micro import MICRO, batch_of, records, results, run, trainer
from tests.reference_rnnsearch import ORDERS

HEAD = "model.alignment_head=true"
ONLY_LINKS = "translation_weight=0"
WIDTHS = ("embedding", "encoder_hidden", "hidden", "attention_units")
LARGER = [f"model.{name}=16" for name in WIDTHS]


@pytest.fixture
def links(micro: Path) -> Path:
    return micro.parent / "train.links"


@pytest.fixture
def gold(micro: Path) -> Path:
    return micro.parent / "valid.links"


def error(folder: Path, rows: str | None, pairs: Any, gold: Path, both: bool = False) -> float:
    """The AER in percent of the links that `align` reads."""
    trained = load(folder, torch.device("cpu"))
    other = turned(trained) if both else None
    options = AlignOptions(rows=rows, symmetrize="posterior-mean")
    found = align([trained], pairs, options, reverse=[other] if other else [])
    return 100 * score_links([one.links for one in found], list(read_gold(gold))).aer


# --------------------------------------------------------------------------------- what is learnt


LEARNT = {
    "head": ([HEAD, "guide_rows=own", "epochs=20"], None),
    "the model's own without head": (["guide_rows=own", "epochs=50"], "predicting"),
    "next": (["guide_rows=next", "epochs=30"], "next"),
    "consumed, two rows later": (["guide_rows=consumed", "epochs=40"], "consumed"),
    "consumed, a row later": (
        ["guide_rows=consumed", "epochs=30", "model.order=groundhog"],
        "consumed",
    ),
}


@pytest.mark.parametrize("case", LEARNT)
def test_the_links_are_learnt(micro, links, tmp_path, case):
    """Without translation; `align` then reads them from the rows that were guided."""
    options, rows = LEARNT[case]
    given = (f"guide={links}", ONLY_LINKS, "learning_rate=0.02", "schedule=cosine")
    run(micro, tmp_path / "m", *given, *LARGER, *options)
    pairs = MICRO_PAIRS["train"]
    assert error(tmp_path / "m", rows, pairs, links) < 5
    if rows is None:
        assert error(tmp_path / "m", rows, pairs, links, both=True) < 5


def test_it_is_the_guide_that_is_learnt(micro, tmp_path):
    """Other links, that no translation would teach: the words in their order."""
    straight = [
        " ".join(f"{j}-{j}" for j in range(len(source.split(" "))))
        for source, _ in MICRO_PAIRS["train"]
    ]
    path = write(tmp_path / "straight", straight)
    given = (f"guide={path}", ONLY_LINKS, "learning_rate=0.02", "schedule=cosine")
    run(micro, tmp_path / "m", *given, *LARGER, HEAD, "epochs=20")
    assert error(tmp_path / "m", None, MICRO_PAIRS["train"], path) < 5


# -------------------------------------------------------------------------------- what is minimised


ROWS = ["head", "predicting", "next", "consumed"]


def with_guide(subject: Any, rows: list[int]) -> tuple[Batch, Tensor]:
    batch = batch_of(subject.corpus, rows)
    guide = subject.links.guide(subject.corpus.train)
    return batch, guide.batch(rows, batch.source.shape[1], batch.target_out.shape[1])


def small(micro: Path, links: Path, folder: Path, rows: str, *options: str) -> Any:
    head = [HEAD] if rows == "head" else []
    subject = trainer(micro, folder, f"guide={links}", f"guide_rows={rows}", *head, *options)
    subject.model.eval()
    return subject


@pytest.mark.parametrize("rows", ROWS)
def test_the_objective_is_the_weighted_sum(micro, links, tmp_path, rows):
    options = ("translation_weight=0.5", "guide_weight=2", "label_smoothing=0.1")
    subject = small(micro, links, tmp_path / "m", rows, *options)
    batch, guide = with_guide(subject, list(range(9)))
    model = subject.model
    memory = model.encode(batch.source, batch.source_mask)
    # A row more than there are targets, as forced decoding has: for what has consumed the end.
    target_in = torch.cat([torch.full((9, 1), 2), batch.target_out], 1)
    features, attention = model.features(target_in, memory)
    features = features[:, :-1][batch.target_mask]
    smoothed, nll = model.loss(features, batch.target_out[batch.target_mask], 0.1)
    if rows == "head":
        one, other = model.align(batch.source, batch.target_out, batch.target_mask, memory)
        loss = head_loss(one, other, guide, batch.source_mask, batch.target_mask)
    else:
        loss = decoder_loss(attention, guide, {"predicting": 0, "next": 1, "consumed": 2}[rows])
    objective, figure = subject.objective(batch, guide)
    torch.testing.assert_close(objective, 0.5 * smoothed + 2 * loss, rtol=1e-5, atol=0)
    torch.testing.assert_close(figure, nll, rtol=1e-5, atol=0)
    subject.model.train()
    update = subject._update(batch, guide)
    assert update.loss == pytest.approx(nll.item(), rel=1e-5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rows", ROWS)
def test_it_depends_on_no_padding(micro, links, tmp_path, rows, order):
    options = (ONLY_LINKS, f"model.order={order}", "updates=1")
    subject = small(micro, links, tmp_path / "m", rows, *options)
    subject.model.double()
    lengths = subject.corpus.train.target_lengths
    chosen = [int(i) for i in (lengths.argmin(), lengths.argmax(), 0, 1, 2)]

    def objective(group: list[int]) -> Tensor:
        batch, guide = with_guide(subject, group)
        found, figure = subject.objective(batch, guide)
        assert torch.equal(found, figure)  # nothing but links is learnt
        return found

    alone = sum(objective([row]) for row in chosen)
    # The decoder's attention is taken in single precision.
    torch.testing.assert_close(objective(chosen), alone, rtol=1e-6, atol=0.0)


@pytest.mark.parametrize(
    ("rows", "trained"),
    [
        ("head", {"source_embedding", "target_embedding", "encoder", "head"}),
        (
            "predicting",
            {"source_embedding", "target_embedding", "encoder"}
            | {"initial", "attention", "decoder_gru"},
        ),
    ],
)
def test_only_what_reads_links_learns_without_translation(micro, links, tmp_path, rows, trained):
    """Not even weight decay touches the rest."""
    options = ("optimizer=adamw", "weight_decay=0.1", "clip=0", ONLY_LINKS)
    subject = small(micro, links, tmp_path / "m", rows, *options)
    before = {name: p.clone() for name, p in subject.model.state_dict().items()}
    for _ in range(2):
        subject._update(*with_guide(subject, list(range(9))))
    after = subject.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if name.split(".")[0] in trained}


def test_every_batch_has_its_own_links(micro, links, tmp_path):
    """With BPE-dropout too: rows over the subwords as they were cut this time."""
    given = (f"guide={links}", HEAD, "bpe_dropout=0.4")
    subject = trainer(micro, tmp_path / "m", *given)
    words = subject.trained.source.words_with_map, subject.trained.target.words_with_map
    vocabularies = subject.trained.source_vocabulary, subject.trained.target_vocabulary
    seen = []

    def watched(batch: Batch, guide: Tensor) -> Any:
        assert guide.shape == (*batch.target_out.shape, batch.source.shape[1])
        torch.testing.assert_close(guide.sum(2), batch.target_mask.float())
        for b in range(len(guide)):
            sides = []
            for ids, known, join in zip(
                (batch.source[b], batch.target_out[b]), vocabularies, words, strict=True
            ):
                ends = ids.tolist().index(EOS)
                sides.append(join(known.tokens(ids[:ends].tolist())))
            (source, source_of), (_, target_of) = sides
            wanted = {tuple(map(int, x.split("-"))) for x in toy_links(" ".join(source)).split(" ")}
            of = [[*source_of, -1], [*target_of, -2]]
            found = {(of[0][j], of[1][i]) for i, j in guide[b].nonzero().tolist()}
            assert found == wanted | {(-1, -2)}
            seen.append(tuple(batch.source[b].tolist()))
        subject.position.update += 1
        subject.position.batch += 1
        return Update(1.0, 1, 1.0)

    subject._update = watched  # type: ignore[method-assign,assignment]
    for _ in range(2):
        subject._epoch()
    assert len(seen) == 2 * len(MICRO_PAIRS["train"])
    assert len(set(seen)) > 1.5 * len(MICRO_PAIRS["train"])


# --------------------------------------------------------------------------- measuring and keeping


def test_without_translation_nothing_is_translated(micro, links, gold, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "translate", None)
    given = (f"guide={links}", ONLY_LINKS, HEAD, "updates=4", "valid_every=2")
    run(micro, tmp_path / "a", *given)
    found = records(tmp_path / "a")
    assert not any(key.startswith("valid_") for record in found for key in record)
    assert found[-1]["best_update"] == 4  # with nothing to choose by, the last
    last = (tmp_path / "a" / "checkpoint" / "model.safetensors").read_bytes()
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == last
    run(micro, tmp_path / "b", *given, f"valid_gold={gold}", "select=aer")
    found = [record for record in records(tmp_path / "b") if "best" in record]
    assert [{key for key in record if key.startswith("valid")} for record in found] == [
        {"valid_aer"}
    ] * 2


@pytest.mark.parametrize("rows", ["head", "consumed"])
def test_the_model_of_the_lowest_aer_is_kept(micro, links, gold, tmp_path, rows):
    head = [HEAD] if rows == "head" else []
    given = (f"guide={links}", f"guide_rows={rows}", *head, f"valid_gold={gold}", "select=aer")
    run(micro, tmp_path / "m", *given, "learning_rate=0.1", "valid_every=3", "updates=42")
    *validations, last = [r for r in records(tmp_path / "m") if "best" in r or "finished" in r]
    errors = [record["valid_aer"] for record in validations]
    for at, record in enumerate(validations):
        assert record["best"] == (at == 0 or errors[at] < min(errors[:at]))
        assert {"valid_bleu", "valid_loss"} <= record.keys()
    assert not validations[-1]["best"], "the test needs a run that gets worse"
    assert last["best_valid_aer"] == min(errors)
    # What `nmtkit align` then finds: both directions, if the head reads them.
    found = error(
        tmp_path / "m",
        None if rows == "head" else rows,
        MICRO_PAIRS["valid"],
        gold,
        both=rows == "head",
    )
    assert found == pytest.approx(min(errors))


@pytest.mark.parametrize("tokenizer", ["moses", "none"])
def test_validation_lines_are_read_as_in_training(tokenizer, tmp_path):
    """Running text: a mark is the tokenizer's to cut off, the links count "da!" as one word."""
    pairs = [("da bo!", "ne pu!"), ("bo da!", "pu ne!"), ("da!", "ne!"), ("bo bo!", "pu pu!")]
    for name in ("train", "valid"):
        for side, language in enumerate(("aa", "zz")):
            write(tmp_path / f"{name}.{language}", (pair[side] for pair in pairs))
    gold = write(tmp_path / "gold", ["0-0 1-1", "0-1 1-0", "0-0", "0-1"])
    chosen = ("--subwords", "none", "--tokenizer", tokenizer)
    data = prepare(tmp_path, "aa-zz", tmp_path / "data", *chosen)
    subject = trainer(data, tmp_path / "m", f"valid_gold={gold}")
    seen = []

    def watched(*arguments: Any, **more: Any) -> Any:
        for one in align(*arguments, **more):
            seen.append(one)
            yield one

    with mock.patch.object(module, "align", watched):
        subject.validation.figures()
    assert [(one.source, one.target) for one in seen] == [
        (source.split(" "), target.split(" ")) for source, target in pairs
    ]
    options = AlignOptions(rows="predicting", raw=True)
    for one, wanted in zip(seen, align([subject.trained], pairs, options), strict=True):
        np.testing.assert_array_equal(one.attention, wanted.attention)
    given = list(align([subject.trained], pairs, AlignOptions(rows="predicting")))
    same = all(np.array_equal(a.attention, b.attention) for a, b in zip(seen, given, strict=True))
    assert same == (tokenizer == "none")


# ---------------------------------------------------------------------------------------- resuming


RESUMABLE = {
    "only links": [HEAD, ONLY_LINKS, "select=aer"],
    "both": [HEAD, "select=aer"],
    "the decoder's rows": ["guide_rows=consumed"],
    "BPE-dropout": [HEAD, ONLY_LINKS, "select=aer", "bpe_dropout=0.3"],
    "weight decay": [HEAD, ONLY_LINKS, "select=aer", "optimizer=adamw", "weight_decay=0.1"],
}


@pytest.mark.parametrize("case", RESUMABLE)
def test_resumed_is_uninterrupted(micro, links, gold, tmp_path, case):
    options = (f"guide={links}", f"valid_gold={gold}", "valid_every=3", *RESUMABLE[case])
    run(micro, tmp_path / "whole", *options, "updates=11")
    run(micro, tmp_path / "parts", *options, "updates=7")
    resume(settings_to_resume(tmp_path / "parts", ["training.updates=11"]), tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


def test_a_resumed_run_keeps_its_guide(micro, links, tmp_path):
    run(micro, tmp_path / "m", f"guide={links}", HEAD, "updates=2")
    changed = settings_to_resume(tmp_path / "m", ["training.guide=other"])
    with pytest.raises(UserError, match=r"training\.guide \(was .*links, now other\)"):
        resume(changed, tmp_path / "m")


# ---------------------------------------------------------------------------------- what is refused


def test_files_that_are_refused(micro, links, gold, tmp_path):
    lines = links.read_text(encoding="utf-8").split("\n")[:-1]
    few = write(tmp_path / "few", lines[:-1])
    far = write(tmp_path / "far", [*lines[:-1], "0-99"])
    bad = write(tmp_path / "bad", ["0:0", *lines[1:]])
    valid = gold.read_text(encoding="utf-8").split("\n")[:-1]
    fewer = write(tmp_path / "fewer", valid[:-1])
    beyond = write(tmp_path / "beyond", ["99-0", *valid[1:]])
    corpus = PreparedCorpus.open(micro)
    no_valid = f"{corpus.folder}"
    for options, message in (
        ((f"guide={few}",), f"{few} has 59 lines, but {no_valid} was made from 60 pairs"),
        ((f"guide={far}",), f"{far}:60: link 0-99 is out of bounds"),
        ((f"guide={bad}",), f"{bad}:1: '0:0' is not a link"),
        ((f"guide={tmp_path / 'no'}",), "cannot read"),
        ((f"guide={links}", f"valid_gold={fewer}"), f"{fewer} has 7 lines, but the validation"),
        ((f"guide={links}", f"valid_gold={beyond}"), f"{beyond}:1: link 99-0 is out of bounds"),
        ((f"guide={links}", f"valid_gold={tmp_path / 'no'}"), "cannot read"),
    ):
        with pytest.raises(UserError) as raised:
            run(micro, tmp_path / "m", HEAD, "updates=1", *options)
        assert str(raised.value).startswith(message)
        assert "\n" not in str(raised.value)
        assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["guide_rows=head"], r"guide_rows = head needs model\.alignment_head = true"),
        ([HEAD, "guide_rows=next"], "alignment_head = true, but nothing teaches it"),
        ([HEAD, "guide_weight=0"], "alignment_head = true, but nothing teaches it"),
        ([HEAD, "guide="], "alignment_head = true, but nothing teaches it"),
        ([ONLY_LINKS, "guide="], "there is nothing to learn"),
        ([ONLY_LINKS, "guide_weight=0"], "there is nothing to learn"),
        ([ONLY_LINKS], "without translation there is no BLEU to stop by"),
        ([ONLY_LINKS, "updates=1", "valid_gold={gold}"], "no BLEU or loss to select by: set"),
        (
            [ONLY_LINKS, "updates=1", "valid_gold={gold}", "select=loss"],
            r"set training\.select=aer",
        ),
        (["select=aer"], "select = aer needs valid_gold"),
        (["guide_rows=nxt"], "did you mean 'next'"),
        (["translation_weight=-1"], "translation_weight must be at least 0"),
    ],
)
def test_settings_that_are_refused(micro, links, gold, tmp_path, options, message):
    given = [option.replace("{gold}", str(gold)) for option in options]
    with pytest.raises(UserError, match=message):
        run(micro, tmp_path / "m", f"guide={links}", *given)
    assert not (tmp_path / "m").exists()


def test_a_model_without_attention_learns_no_links(micro, links, gold, tmp_path):
    sizes = [assignment for assignment in MICRO if "attention" not in assignment]
    for option in (f"training.guide={links}", f"training.valid_gold={gold}"):
        chosen = settings_from(str(micro), "rnnencdec", assignments=[*sizes, option])
        with pytest.raises(UserError, match="the model has no attention"):
            train(chosen, tmp_path / "m")
        assert not (tmp_path / "m").exists()
