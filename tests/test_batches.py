"""Batches: tensors by hand, and laws of how an epoch is divided."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.batches import Batch, BatchSize, cut, epoch_batches, length_sorted, with_end

lengths_lists = st.lists(st.integers(1, 60), max_size=80)
sizes = st.builds(
    BatchSize, sentences=st.integers(0, 9), tokens=st.integers(0, 90), pool=st.integers(1, 5)
).filter(lambda size: bool(size.sentences or size.tokens))


def array(values):
    return np.array(values, dtype=np.int32)


# --------------------------------------------------------------------------------------- tensors


def test_a_batch_by_hand():
    batch = Batch.of([[7], [5, 6, 8]], [array([4, 9]), []])
    assert batch.source.tolist() == [[7, 3, 0, 0], [5, 6, 8, 3]]
    assert batch.source_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.target_in.tolist() == [[2, 4, 9], [2, 0, 0]]
    assert batch.target_out.tolist() == [[4, 9, 3], [3, 0, 0]]
    assert batch.target_mask.tolist() == [[True, True, True], [True, False, False]]
    assert {tensor.dtype for tensor in (batch.source, batch.target_in, batch.target_out)} == {
        torch.int64
    }


@given(st.lists(st.lists(st.integers(4, 99), max_size=9), min_size=1, max_size=9))
def test_nothing_is_lost_or_invented(sentences):
    batch = Batch.of(sentences, sentences[::-1])
    assert torch.equal(with_end(sentences), batch.source)
    for row, ids in enumerate(sentences):
        real = batch.source[row][batch.source_mask[row]].tolist()
        assert real == [*ids, 3]
    for row, ids in enumerate(sentences[::-1]):
        mask = batch.target_mask[row]
        assert batch.target_out[row][mask].tolist() == [*ids, 3]
        assert batch.target_in[row][mask].tolist() == [2, *ids]
    assert not batch.target_in[~batch.target_mask].any()
    assert not batch.target_out[~batch.target_mask].any()
    assert batch.source.shape[1] == 1 + max(map(len, sentences))


def test_lengths_are_padded_to_multiples():
    """By what stands behind every sentence, so that nothing depends on it."""
    batch = Batch.of([[4] * 7, [5]], [[6] * 8, []], multiple=8)
    assert batch.source.shape == (2, 8)
    assert batch.target_out.shape == (2, 16)
    plain = Batch.of([[4] * 7, [5]], [[6] * 8, []])
    assert torch.equal(batch.target_out[:, :9], plain.target_out)
    assert not batch.target_out[:, 9:].any()
    assert torch.equal(batch.target_mask.nonzero(), plain.target_mask.nonzero())


@pytest.mark.parametrize(
    ("lengths", "chosen"),
    [([63], 64), ([63, 0], 80), ([64, 63, 10], 160), ([9] * 7, 70), ([200, 0, 200], 480)],
)
def test_chosen_targets_are_the_real_ones_and_padding(lengths, chosen):
    """All real targets once, then padding up to a multiple of 80, or as much as there is."""
    batch = Batch.of([[4]] * len(lengths), [[5] * length for length in lengths])
    rows, positions = batch.chosen
    real = int(batch.target_mask.sum())
    assert len(rows) == chosen
    assert torch.equal(torch.stack([rows[:real], positions[:real]], 1), batch.target_mask.nonzero())
    assert not batch.target_mask[rows[real:], positions[real:]].any()
    assert not batch.target_out[rows[real:], positions[real:]].any()
    assert len(set(zip(rows.tolist(), positions.tolist(), strict=True))) == chosen


# --------------------------------------------------------------------------------- the division


def test_cut_by_hand():
    lengths = np.array([2, 3, 3, 9, 1, 1, 1, 1])
    assert cut(lengths, BatchSize(sentences=0, tokens=6, pool=1)) == [
        (0, 2),  # 2 · 3 = 6 fits, 3 · 3 does not
        (2, 3),
        (3, 4),  # longer than the budget: alone
        (4, 8),
    ]
    assert cut(lengths, BatchSize(sentences=3, tokens=0, pool=1)) == [(0, 3), (3, 6), (6, 8)]
    assert cut(np.array([], dtype=np.int64), BatchSize(sentences=3, tokens=0, pool=1)) == []


def cost(lengths, size):
    """Whether these sentences fit one batch."""
    fits = not size.sentences or len(lengths) <= size.sentences
    return fits and (not size.tokens or len(lengths) * max(lengths) <= size.tokens)


@given(lengths_lists, sizes)
def test_cut_is_whole_within_the_limits_and_never_too_soon(lengths, size):
    runs = cut(np.array(lengths, dtype=np.int64), size)
    assert [i for begin, end in runs for i in range(begin, end)] == list(range(len(lengths)))
    for begin, end in runs:
        assert end > begin
        assert cost(lengths[begin:end], size) or end - begin == 1
        assert end == len(lengths) or not cost(lengths[begin : end + 1], size)


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1), sizes)
def test_every_pair_once_an_epoch_within_the_budget(pairs, size):
    source, target = (array(side) for side in zip(*pairs, strict=True))
    batches = epoch_batches(source, target, size, seed=1, epoch=0)
    assert sorted(int(i) for batch in batches for i in batch) == list(range(len(pairs)))
    for batch in batches:
        longer = [max(pairs[i]) + 1 for i in batch]
        assert cost(longer, size) or len(batch) == 1
    again = epoch_batches(source, target, size, seed=1, epoch=0)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]


def realistic(count, seed=0):
    """Lengths like those of news or subtitles: log-normal, the sides in proportion."""
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(2.9, 0.6, count), 1, 100)
    target = np.clip(source * random.lognormal(0.05, 0.18, count), 1, 100)
    return source.astype(np.int32), target.astype(np.int32)


def padding(size, count):
    """The share of padding among the target tokens, and among all tokens, of an epoch."""
    source, target = realistic(count)
    batches = epoch_batches(source, target, size, seed=3, epoch=2)
    padded = [
        sum(len(batch) * (int(lengths[batch].max()) + 1) for batch in batches)
        for lengths in (source, target)
    ]
    real = [int(lengths.sum()) + count for lengths in (source, target)]
    return 1 - real[1] / padded[1], 1 - sum(real) / sum(padded)


@pytest.mark.parametrize(
    "size",
    [
        BatchSize(sentences=80, tokens=0, pool=100),
        BatchSize(sentences=0, tokens=2000, pool=100),
        BatchSize(sentences=64, tokens=4000, pool=100),
    ],
)
def test_little_padding(size):
    target, _ = padding(size, 30_000)
    assert target < 0.04
    _, both = padding(BatchSize(size.sentences, size.tokens, pool=10_000), 150_000)
    assert both < 0.05


def test_epochs_and_seeds_differ_and_batches_come_in_no_order_of_length():
    source, target = realistic(2000)
    size = BatchSize(sentences=20, tokens=0, pool=10)
    epochs = [
        [batch.tolist() for batch in epoch_batches(source, target, size, seed, epoch)]
        for seed, epoch in ((1, 0), (1, 1), (2, 0))
    ]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert {frozenset(batch) for batch in epochs[one]}.isdisjoint(
            frozenset(batch) for batch in epochs[other]
        )
    batches = epoch_batches(source, target, BatchSize(sentences=20, tokens=0, pool=100), 1, 0)
    rises = np.diff([target[batch].mean() for batch in batches]) > 0
    assert 30 < rises.sum() < 70


def test_only_a_pool_is_sorted_together():
    """With a pool of one batch there is no choice of lengths: the batches are mixed."""
    source, target = realistic(4000)
    spreads = []
    for pool in (1, 20):
        size = BatchSize(sentences=40, tokens=0, pool=pool)
        batches = epoch_batches(source, target, size, 1, 0)
        spreads.append(np.mean([np.ptp(target[batch]) for batch in batches]))
    assert spreads[1] < spreads[0] / 5


@given(st.lists(st.integers(0, 60), max_size=80), sizes)
def test_search_takes_the_longest_first(lengths, size):
    batches = list(length_sorted(lengths, size))
    order = [i for batch in batches for i in batch]
    assert order == sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for batch in batches:
        assert cost([lengths[i] + 1 for i in batch], size) or len(batch) == 1
