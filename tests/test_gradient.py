"""The gradient of a batch that does not fit into memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.data import PreparedCorpus
from nmtkit.distributed import Group
from nmtkit.errors import UserError, out_of_memory
from nmtkit.train.gradient import Figures, Gradient
from nmtkit.train.objective import Objective
from nmtkit.train.update import MOST_EMPTY, Updater
from tests.micro import guide_of, objective_of, run

ROWS = [3, 1, 4, 15, 9, 2, 6]
ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    MemoryError(),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried …"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes."),
]


def batch_of(data: Path, rows: list[int]) -> Batch:
    return Batch.read(PreparedCorpus.open(data).train, rows)


def limit(monkeypatch: pytest.MonkeyPatch, most: int, error: Exception, late: bool = False) -> None:
    """Batches of more than `most` words on the longer side raise the error; `late`: in backward."""
    known = Objective.__call__

    def call(self: Objective, batch: Batch, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        words = max(batch.source.numel(), batch.target_out.numel())
        if words > most and not late:
            raise error
        loss, figure = known(self, batch, guide)
        if words > most:
            # An early layer's, so that the gradients of later ones are there already.
            next(self.model.parameters()).register_hook(lambda gradient: fail(words))
        return loss, figure

    def fail(words: int) -> None:
        if words == largest[-1]:
            raise error

    largest: list[int] = []

    def remembering(self: Objective, batch: Batch, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        largest.append(max(batch.source.numel(), batch.target_out.numel()))
        if largest[-1] <= most:
            largest[-1] = -1
        return call(self, batch, guide)

    monkeypatch.setattr(Objective, "__call__", remembering)


def gradient(objective: Objective, batch: Batch, guide: Tensor | None) -> tuple[Figures, list]:
    figures = Gradient(objective.config, objective, Group())(batch, guide)
    found = [p.grad for p in objective.model.parameters()]
    return figures, [None if one is None else one.clone() for one in found]


def differ(one: list[Tensor | None], other: list[Tensor | None]) -> float:
    assert [a is None for a in one] == [b is None for b in other]
    pairs = zip(one, other, strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs if a is not None and b is not None)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("normalise", ["tokens", "sentences"])
def test_the_parts_gradients_are_the_whole_s(micro, monkeypatch, normalise, guided, late):
    objective, batch = objective_of(micro, f"normalise={normalise}"), batch_of(micro, ROWS)
    guide = guide_of(batch).double() if guided else None
    whole, wanted = gradient(objective, batch, guide)
    assert (whole.split, whole.left_out) == ([], [])
    words = max(batch.source.numel(), batch.target_out.numel())
    limit(monkeypatch, words // 4, ERRORS[0], late)
    parts, found = gradient(objective, batch, guide)
    assert differ(wanted, found) < 1e-15
    assert float(parts.loss) == pytest.approx(float(whole.loss), rel=1e-12)
    assert (parts.tokens, parts.sentences) == (whole.tokens, len(ROWS))
    lengths = batch.source.shape[1], batch.target_out.shape[1]
    assert parts.split[0] == (7, *lengths)
    assert len(parts.split) > 2
    assert parts.left_out == []


def test_sentences_that_do_not_fit_alone_are_left_out(micro, monkeypatch):
    alone = {row: batch_of(micro, [row]) for row in ROWS}
    lengths = {row: (b.source.shape[1], b.target_out.shape[1]) for row, b in alone.items()}
    most = max(map(max, lengths.values())) - 1
    others = [row for row in ROWS if max(lengths[row]) <= most]
    assert 0 < len(others) < len(ROWS)
    objective = objective_of(micro)
    whole, wanted = gradient(objective, batch_of(micro, others), None)
    limit(monkeypatch, most, ERRORS[0])
    figures, found = gradient(objective, batch_of(micro, ROWS), None)
    assert differ(wanted, found) < 1e-15  # normalised by the tokens of the others
    assert figures.left_out == [lengths[row] for row in ROWS if row not in others]
    assert (figures.tokens, figures.sentences) == (whole.tokens, len(others))


def test_a_run_splits_and_counts(micro, tmp_path, monkeypatch):
    limit(monkeypatch, 60, ERRORS[2])
    run(micro, tmp_path / "m", "updates=6")
    text = (tmp_path / "m" / "metrics.jsonl").read_text(encoding="utf-8")
    assert '"split_batches": ' in text
    assert '"did_not_fit": [[13, ' in text


def test_nothing_that_fits_ends_the_run(micro, monkeypatch):
    objective = objective_of(micro)
    optimizer = torch.optim.SGD(objective.model.parameters(), 1.0)
    before = [p.detach().clone() for p in objective.model.parameters()]
    updater = Updater(objective.config, objective, optimizer)
    limit(monkeypatch, 0, ERRORS[0])
    for _ in range(MOST_EMPTY - 1):
        update = updater(batch_of(micro, [5]), None, 1.0)
        assert (update.tokens, update.skipped, len(update.left_out)) == (0, False, 1)
    after = objective.model.parameters()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    with pytest.raises(UserError, match=r"not one sentence of 10 batches in a row fits"):
        updater(batch_of(micro, [5]), None, 1.0)


@pytest.mark.parametrize("error", ERRORS)
def test_errors_of_memory(error):
    assert out_of_memory(error)


def test_other_errors_are_not_of_memory(micro, monkeypatch):
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    assert not out_of_memory(error)
    limit(monkeypatch, 0, error)
    with pytest.raises(RuntimeError, match="shapes cannot"):
        gradient(objective_of(micro), batch_of(micro, ROWS), None)
