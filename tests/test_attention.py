"""The scores by hand, and what attention makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nmtkit.models.attending import Inputs, attending, attending_plain
from nmtkit.models.attention import (
    LOCATIONS,
    SCORES,
    Attention,
    GeneralScore,
    Score,
    attend,
    make_score,
    mask_bias,
)
from tests.draw import Draw, close

B, K, S, D, C, A = 2, 3, 4, 5, 5, 6  # dot wants D = C
names = pytest.mark.parametrize("name", SCORES)


def drawn(name: str, annotation: int = C, temperature: float = 1.0) -> Score:
    """A score in float64 whose every parameter matters."""
    made = make_score(name, D, annotation, A, temperature, coverage=False).double()
    draw = Draw()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(draw(*parameter.shape))
    return made


def by_hand(name: str, p: dict[str, np.ndarray], s: np.ndarray, h: np.ndarray, j: int) -> float:
    """One energy of a state s and the annotation h at position j."""
    if name == "additive":
        return float(p["v_a"] @ np.tanh(p["W_a"] @ s + p["U_a"] @ h + p["b_a"]))
    if name == "concat":
        return float(p["v_a"] @ np.tanh(p["W_a"] @ np.concatenate([s, h])))
    if name == "location":
        return float(p["W_a"][j] @ s)
    return float(s @ p["W_a"] @ h) if name == "general" else float(s @ h)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@names
def test_energies_by_hand(name: str, temperature: float) -> None:
    score, draw = drawn(name, temperature=temperature), Draw(2)
    states, annotations = draw(B, K, D), draw(B, S, C)
    found = score(states, score.keys(annotations)).detach().numpy()
    parameters = {key: value.detach().numpy() for key, value in score.named_parameters()}
    assert found.shape == (B, K, S)
    for b, k, j in np.ndindex(found.shape):
        s, h = states[b, k].numpy(), annotations[b, j].numpy()
        expected = by_hand(name, parameters, s, h, j) / temperature
        assert found[b, k, j] == pytest.approx(expected, abs=1e-12)


def test_scores_of_whole_numbers() -> None:
    """dot (1, 2)·(3, 4) = 11; general with W = ((0, 1), (1, 0)): 1·4 + 2·3 = 10."""
    state, annotation = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]])
    dot, general = SCORES["dot"](2, 2, 1), GeneralScore(2, 2, 1)
    with torch.no_grad():
        general.W_a.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert dot(state, dot.keys(annotation)).item() == 11
    assert general(state, general.keys(annotation)).item() == 10


def test_other_sizes_of_annotations() -> None:
    for name in SCORES.keys() - {"dot"}:
        score = drawn(name, annotation=7)
        assert score(Draw()(B, K, D), score.keys(Draw()(B, S, 7))).shape == (B, K, S)
    with pytest.raises(ValueError, match=r"dot needs a decoder state .* have 5 and 7 numbers"):
        SCORES["dot"](D, 7, A)


@pytest.mark.parametrize("name", SCORES.keys() - {"additive"})
def test_coverage_is_of_the_additive_score(name: str) -> None:
    with pytest.raises(ValueError, match=f"with attention = additive, not with {name}"):
        Attention(name, D, C, A, coverage=True)


@names
def test_attention_is_softmax_and_mean(name: str) -> None:
    """K states share a sentence's annotations; padding gets nothing."""
    attention, draw = Attention(name, D, C, A, temperature=0.7).double(), Draw()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(draw(*parameter.shape))
    states, annotations = draw(B * K, D), draw(B, S, C)
    mask = torch.tensor([[True] * 4, [True] * 2 + [False] * 2])
    keys = attention.keys(annotations)
    contexts, weights = attention(states, keys, annotations, mask)
    for row in range(B * K):
        b = row // K
        real = int(mask[b].sum())
        energies = attention.score(states[row].view(1, 1, D), keys[b : b + 1])[0, 0, :real]
        powers = energies.exp()
        close(weights[row, :real], powers / powers.sum())
        assert not weights[row, real:].any()
        close(contexts[row], weights[row, :real] @ annotations[b, :real])


def decoded(name: str, length: int, plain: bool) -> tuple[Tensor, Tensor, Tensor]:
    """One position of the loop with the score's form -> its attention, `attend`'s, gradient."""
    score, draw = drawn(name, temperature=0.7), Draw(3)
    initial, annotations = draw(B, D), draw(B, length, C)
    mask = torch.ones((B, length), dtype=torch.bool)
    mask[1, length // 2 :] = False
    keys = score.keys(annotations)
    inputs = Inputs(
        x=draw(1, B, 3 * D),
        initial=initial,
        annotations=annotations,
        bias=mask_bias(score.visible(mask), initial.dtype),
        dropout=None,
        W_c=draw(3 * D, C),
        U=draw(3 * D, D),
        b_candidate=None,
        **score.form(keys)._asdict(),
    )
    _, _, weights = (attending_plain if plain else attending)(inputs)
    _, expected = attend(score(initial.unsqueeze(1), keys), annotations, mask)
    loss = (weights[0] * draw(B, length)).sum()
    parameters = list(score.parameters())
    grads = torch.autograd.grad(loss, parameters) if parameters else [torch.ones(1)]
    return weights[0], expected, torch.cat([gradient.flatten() for gradient in grads])


@pytest.mark.parametrize("length", [S, LOCATIONS + 3])
@names
def test_forms_are_the_scores(name: str, length: int) -> None:
    """In the loop, fast and plain, and step by step; also where the source is very long."""
    fast, expected, gradient = decoded(name, length, plain=False)
    plain, _, same = decoded(name, length, plain=True)
    close(fast, expected)
    close(plain, expected)
    close(gradient, same)
    assert gradient.any()
    beyond = expected[0, LOCATIONS:]
    assert beyond.any() == (name != "location" and length > LOCATIONS)
    close(expected.sum(1), torch.ones(B, dtype=torch.float64))
