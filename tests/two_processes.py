"""What tests/test_distributed.py lets torchrun start: checks in this process and the others.

Arguments: prepared corpus, model directory, source and target file, folder for the results.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.cli import main, processes
from nmtkit.data import PreparedCorpus
from nmtkit.distributed import Group, close, first_to_fail, group
from nmtkit.errors import UserError
from nmtkit.train import train
from nmtkit.train.gradient import Gradient
from nmtkit.train.objective import Objective
from nmtkit.train.update import Updater
from tests.micro import guide_of, objective_of, settings

RUNS = {
    "whole": ["batch_sentences=7", "updates=12", "valid_every=6", "bpe_dropout=0.1", "epochs=3"],
    "dropout": ["model.dropout_readout=0.3", "updates=9", "save_every=2"],
}
UNEVEN, EMPTY = [*range(13)], [5]  # shares of 7 and 6 sentences, of 1 and none


def gradients(objective: Objective, subject: Group, rows: list[int], guided: bool) -> Any:
    """The gradient of the loss of these pairs, as the group finds it, and its figures."""
    corpus = PreparedCorpus.open(Path(sys.argv[1]))
    ours = rows[subject.rank :: subject.size]
    batch = Batch.read(corpus.train, ours)
    guide = guide_of(batch).double() if guided else None
    figures = Gradient(objective.config, objective, subject)(batch, guide)
    found = {name: p.grad for name, p in objective.model.named_parameters()}
    return figures, {name: None if g is None else g.clone() for name, g in found.items()}


def differences(subject: Group) -> dict[str, float]:
    """How far the group's gradients are from those of one process."""
    found = {}
    for normalise in ("tokens", "sentences"):
        for guided in (False, True):
            for name, rows in (("uneven", UNEVEN), ("empty", EMPTY)):
                objective = objective_of(Path(sys.argv[1]), f"normalise={normalise}")
                one, alone = gradients(objective, Group(), rows, guided)
                both, together = gradients(objective, subject, rows, guided)
                assert (one.tokens, one.sentences) == (both.tokens, both.sentences)
                assert abs(one.loss - both.loss) < 1e-9
                found[f"{name} {normalise} {guided}"] = distance(alone, together)
    return found


def distance(alone: dict[str, Tensor | None], together: dict[str, Tensor | None]) -> float:
    for name in alone:  # without a gradient in one process: without in both
        assert (alone[name] is None) == (together[name] is None), name
    pairs = [(alone[n], together[n]) for n in alone]
    return max(float((a - b).abs().max()) for a, b in pairs if a is not None and b is not None)


def small_memory(subject: Group) -> Any:
    """The same when more than two sentences do not fit into process 1; what was split there."""
    objective = objective_of(Path(sys.argv[1]))
    _, alone = gradients(objective, Group(), UNEVEN, False)
    known = Objective.__call__

    def fails(self: Objective, batch: Batch, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        if subject.rank == 1 and len(batch.source) > 2:
            raise torch.OutOfMemoryError
        return known(self, batch, guide)

    with mock.patch.object(Objective, "__call__", fails):
        figures, together = gradients(objective, subject, UNEVEN, False)
    return distance(alone, together), [sentences for sentences, _, _ in figures.split]


def skipped_together(subject: Group) -> bool:
    """Whether a gradient that is not finite in process 1 changes nothing in any."""
    objective = objective_of(Path(sys.argv[1]))
    optimizer = torch.optim.SGD(objective.model.parameters(), 1.0)
    before = [p.detach().clone() for p in objective.model.parameters()]
    known = Objective.__call__

    def poisoned(self: Objective, batch: Batch, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        loss, figure = known(self, batch, guide)
        return loss * (math.nan if subject.rank == 1 else 1.0), figure

    corpus = PreparedCorpus.open(Path(sys.argv[1]))
    batch = Batch.read(corpus.train, UNEVEN[subject.rank :: subject.size])
    updater = Updater(objective.config, objective, optimizer, subject)
    with mock.patch.object(Objective, "__call__", poisoned):
        skipped = updater(batch, None, 1.0).skipped
    same = all(torch.equal(a, b) for a, b in zip(before, objective.model.parameters(), strict=True))
    changes = not updater(batch, None, 1.0).skipped
    return all(subject.gather(skipped and same and changes))


def operations(subject: Group) -> dict[str, Any]:
    """What every method of the group gives here."""
    rank = subject.rank
    mine = [torch.full((2,), float(rank))]
    subject.broadcast(mine)
    parts: list[list[int]] = []

    def work(part: Any, first: int) -> list[str]:
        parts.append([first, len(part)])
        return [f"{first + i} {item}" for i, item in enumerate(part)]

    worked = list(subject.work(iter("abcdefg") if subject.main else iter(()), work, 2))
    try:
        subject.check_same(rank, "ranks")
        differs = ""
    except UserError as error:
        differs = str(error)
    return {
        "sum": subject.sum(torch.tensor([1, rank])).tolist(),
        "broadcast": mine[0].tolist(),
        "any": [subject.any(rank == 1), subject.any(False)],
        "gather": subject.gather({"rank": "é" * rank}),
        "from_main": subject.from_main([rank, "x", None]),
        "joined": subject.joined(subject.gather(list(subject.share("abcde")))),
        "worked": worked,
        "parts": parts,
        "differs": differs,
    }


def commands(folder: Path) -> None:
    """Commands as processes of the group, to files of their names."""
    _, model, source, target = sys.argv[1:5]
    pairs = ("--source", source, "--target", target)
    translate = ("translate", model, "--source", source, "--device", "cpu")
    for name, arguments in {
        "plain": (*translate, "--out", folder / "plain"),
        "listed": (*translate, "--n-best", "2", "--out", folder / "listed"),
        "drawn": (*translate, "--sample", "--n-best", "2", "--out", folder / "drawn"),
        "linked": (*translate, "--out", folder / "texts", "--alignments", folder / "linked"),
        "align": ("align", model, *pairs, "--format", "json", "--out", folder / "align"),
        "score": ("score", "--model", model, *pairs),
    }.items():
        out = folder / "score" if name == "score" and group().main else folder / f"{group().rank}"
        with (
            out.open("w", encoding="utf-8") as stream,
            mock.patch.multiple(sys, argv=["nmtkit", *map(str, arguments)], stdout=stream),
            mock.patch.object(processes, "leave"),
            mock.patch.object(processes, "mute"),
            contextlib.suppress(SystemExit),
        ):
            main()


if __name__ == "__main__":
    place = Path(sys.argv[5])
    everyone = group().gather(operations(group()))
    results = {
        "operations": everyone,
        "differences": differences(group()),
        "small memory": small_memory(group()),
        "skipped": skipped_together(group()),
    }
    commands(place)
    for name, assignments in RUNS.items():
        train(settings(Path(sys.argv[1]), *assignments), place / name)
    results["first"] = sum(group().gather(int(first_to_fail()) + int(first_to_fail())))
    if group().main:
        (place / "results.json").write_text(json.dumps(results), encoding="utf-8")
    close()
