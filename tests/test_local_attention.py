"""Local attention: where its window is, and that nothing else is read."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from nmtkit.models.local_attention import LocalAttention

B, K, D, C = 3, 4, 5, 6
LENGTHS = torch.tensor([40, 9, 25])
windows = pytest.mark.parametrize("predictive", [False, True], ids=["local-m", "local-p"])


def local(
    score: str = "general", window: int = 2, predictive: bool = True, state: int = D
) -> LocalAttention:
    attention = LocalAttention(score, state, C, 3, window, predictive).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.normal_(generator=generator)
    return attention


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def example() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """States (B, K, D), annotations (B, S, C), mask (B, S), target positions (B, K)."""
    mask = torch.arange(40) < LENGTHS.unsqueeze(1)
    positions = torch.tensor([[0, 1, 20, 60], [0, 3, 8, 9], [24, 2, 12, 23]])
    return drawn(B, K, D), drawn(B, 40, C), mask, positions


def in_window(attention: LocalAttention, query: Tensor, positions: Tensor) -> Tensor:
    """(B, K, S): |s - p_t| ≤ window, and s a position of the sentence."""
    centres = attention.centres(query, positions, LENGTHS.unsqueeze(1)).unsqueeze(2)
    s = torch.arange(40)
    return ((s - centres).abs() <= attention.window) & (s < LENGTHS.view(-1, 1, 1))


def test_monotonic_centres_stop_at_the_last_word() -> None:
    query, annotations, mask, positions = example()
    attention = local(predictive=False)
    centres = attention.centres(query, positions, LENGTHS.unsqueeze(1))
    assert centres.tolist() == [[0, 1, 20, 39], [0, 3, 8, 8], [24, 2, 12, 23]]
    _, weights = attention(query, attention.keys(annotations), annotations, mask, positions)
    assert weights[0, 3].nonzero().flatten().tolist() == [37, 38, 39]
    assert weights[1, 1].nonzero().flatten().tolist() == [1, 2, 3, 4, 5]
    assert weights[2, 0].nonzero().flatten().tolist() == [22, 23, 24]


def test_predicted_centre_and_gaussian_by_hand() -> None:
    """Equal keys make the softmax uniform, so that only the Gaussian is left."""
    attention = LocalAttention("dot", 1, 1, 1, 2, True).double()
    with torch.no_grad():
        for parameter, value in zip(attention.parameters(), (1.0, -1.0), strict=True):
            parameter.fill_(value)  # W_p, v_p
    query = torch.tensor([[[0.5]]], dtype=torch.float64)
    annotations = torch.ones((1, 12, 1), dtype=torch.float64)
    mask = torch.arange(12).unsqueeze(0) < 10
    context, weights = attention(query, annotations, annotations, mask, torch.zeros(1, 1))
    p_t = 10 / (1 + math.exp(math.tanh(0.5)))  # 3.87: 2 .. 5 are within 2 of it
    gaussian = [math.exp(-((s - p_t) ** 2) / (2 * 1.0**2)) / 4 for s in (2, 3, 4, 5)]
    assert context.item() == pytest.approx(sum(gaussian), abs=1e-12)
    expected = [0, 0, *(value / sum(gaussian) for value in gaussian), *[0] * 6]
    assert weights.flatten().tolist() == pytest.approx(expected, abs=1e-12)


@windows
@pytest.mark.parametrize("score", ["dot", "general", "concat"])
def test_nothing_outside_of_the_window_is_read(score: str, predictive: bool) -> None:
    """Keys and annotations outside of a query's window may be anything, not even numbers."""
    _, annotations, mask, positions = example()
    state = C if score == "dot" else D
    query, positions = drawn(B, 1, state), positions[:, :1]  # one window a sentence
    attention = local(score, predictive=predictive, state=state)
    keys = attention.keys(annotations)
    expected = attention(query, keys, annotations, mask, positions)
    window = in_window(attention, query, positions).squeeze(1).unsqueeze(2)
    assert 0 < window.sum() < 3 * 5 + 1
    broken = [part.masked_fill(~window, math.nan) for part in (keys, annotations)]
    found = attention(query, *broken, mask, positions)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@windows
def test_work_grows_with_the_window_not_with_the_sentence(
    predictive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The energies computed are 2 · window + 1 a query, or the sentence's where that is less."""
    attention = local(window=3, predictive=predictive)
    shapes = []
    score = attention.score.forward

    def noted(query: Tensor, keys: Tensor) -> Tensor:
        energies = score(query, keys)
        shapes.append(energies.numel())
        return energies

    monkeypatch.setattr(attention.score, "forward", noted)
    for length in (5, 50, 500):
        annotations = drawn(2, length, C)
        positions = torch.arange(K).expand(2, K)
        mask = torch.ones((2, length), dtype=torch.bool)
        attention(drawn(2, K, D), attention.keys(annotations), annotations, mask, positions)
    assert shapes == [2 * K * 5, 2 * K * 7, 2 * K * 7]


@windows
def test_a_window_for_the_whole_source_is_shared_and_the_same(predictive: bool) -> None:
    """The columns of S = 5 = 2 · 2 + 1 are one for all queries; one more position parts them."""
    attention = local(predictive=predictive)
    query, positions = drawn(2, K, D), torch.arange(K).expand(2, K)
    annotations = drawn(2, 6, C)
    mask = torch.tensor([[True] * 5 + [False], [True] * 3 + [False] * 3])
    found = []
    for width in (5, 6):
        part = annotations[:, :width]
        result = attention(query, attention.keys(part), part, mask[:, :width], positions)
        found.append((result[0], result[1][:, :, :5]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_gradients_reach_window_and_centre() -> None:
    query, annotations, mask, positions = example()
    attention = local()
    keys = attention.keys(annotations).detach()
    leaves = [part.requires_grad_() for part in (query, keys, annotations)]
    centre = [p for name, p in attention.named_parameters() if name in ("W_p", "v_p")]

    def run(query: Tensor, keys: Tensor, annotations: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = attention(query, keys, annotations, mask, positions)
        return found

    assert torch.autograd.gradcheck(run, (*leaves, *centre), fast_mode=True)
    contexts, _ = run(*leaves)
    *_, d_annotations, d_W_p, d_v_p = torch.autograd.grad(contexts.sum(), [*leaves, *centre])
    read = in_window(attention, query, positions).any(1)
    assert not d_annotations[~read].any()
    assert d_annotations[read].any(1).all()
    assert d_W_p.any()
    assert d_v_p.any()
