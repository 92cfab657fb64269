"""The processes behind `preprocess --workers`. Their functions stand at the top of the module, so
that spawned processes find them."""

from __future__ import annotations

import os

import pytest

from nmtkit.errors import UserError
from nmtkit.preprocess.workers import chunked, ordered_map


def double(chunk: list[int]) -> list[int]:
    if 13 in chunk:
        raise UserError("thirteen")
    if 99 in chunk:
        os._exit(1)
    return [2 * number for number in chunk]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_few_ahead(workers):
    taken = []

    def chunks():
        for start in range(12):
            taken.append(start)
            yield [start]

    results = ordered_map(double, chunks(), workers)
    assert next(results) == [0]
    assert len(taken) <= 2 * 4
    assert list(results) == [[2 * number] for number in range(1, 12)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_s_error_is_raised_in_its_place(workers):
    results = ordered_map(double, [[1], [13], [2]], workers)
    assert next(results) == [2]
    with pytest.raises(UserError, match="thirteen"):
        next(results)


def test_a_dead_worker_is_told():
    with pytest.raises(UserError, match="use a smaller --workers"):
        list(ordered_map(double, [[1], [99]], 2))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_ends_the_work(workers):
    def chunks():
        yield [1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(ordered_map(double, chunks(), workers))


def test_chunks():
    assert list(chunked(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(chunked([], 2)) == []
