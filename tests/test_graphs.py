"""Which calls are recorded and played; what is recorded runs on a GPU only (test_cuda.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from nmtkit.models import graphs


class Fake:
    """A recording that counts."""

    made: list[Any] = []  # noqa: RUF012

    def __init__(self, function: Any, tensors: graphs.Tensors) -> None:
        self.made.append([None if t is None else tuple(t.shape) for t in tensors])

    def __call__(self, *tensors: Tensor | None) -> graphs.Tensors:
        return ("played",)  # type: ignore[return-value]


def run(*tensors: Tensor | None) -> graphs.Tensors:
    return ("run",)  # type: ignore[return-value]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Fake]]:
    monkeypatch.setattr(graphs, "_Recording", Fake)
    monkeypatch.setattr(graphs, "_on_gpu", lambda tensors: True)
    monkeypatch.setattr(Fake, "made", [])
    graphs.use(True)
    yield Fake
    graphs.use(False)


def test_a_shape_is_recorded_when_it_comes_again(fake: type[Fake]) -> None:
    played = graphs.Played(run)
    small, large = torch.zeros(2, 3), torch.zeros(2, 4)
    calls = [(small, None), (small, None), (large, None), (small, None), (small, small)]
    assert [played(*call)[0] for call in calls] == ["run", "played", "run", "played", "run"]
    assert fake.made == [[(2, 3), None]]


def test_another_type_is_another_shape(fake: type[Fake]) -> None:
    played = graphs.Played(run)
    assert [played(torch.zeros(2, dtype=d))[0] for d in (torch.float32, torch.float64)] == [
        "run",
        "run",
    ]


def test_there_are_not_too_many(fake: type[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST", 1)
    played = graphs.Played(run)
    for size in (1, 2):
        played(torch.zeros(size))
    assert [played(torch.zeros(size))[0] for size in (1, 2, 1)] == ["played", "run", "played"]


def test_nothing_is_recorded_unless_asked_for(fake: type[Fake]) -> None:
    graphs.use(False)
    played = graphs.Played(run)
    assert {played(torch.zeros(1))[0] for _ in range(4)} == {"run"}


def test_a_cpu_records_nothing() -> None:
    graphs.use(True)
    try:
        played = graphs.Played(lambda x: (x + 1,))
        assert [played(torch.ones(1))[0].tolist() for _ in range(3)] == [[2.0]] * 3  # type: ignore[union-attr]
        assert not played.recordings
    finally:
        graphs.use(False)
