"""Words multiplied once a distinct one, against the embeddings at every place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nmtkit.models.words import EmbeddedWords, distinct
from nmtkit.vocabulary import BOS, PAD
from tests.test_models import PAIRS, padded

IDS = torch.tensor([[5, 6, 5, 7], [6, 5, 5, PAD]])


def test_distinct_ids_and_their_places() -> None:
    found = distinct(IDS)
    assert found is not None
    ids, places = found
    assert ids.tolist() == sorted({5, 6, 7, PAD})
    assert torch.equal(ids[places], IDS)


def test_nothing_is_shared_where_nearly_all_differ() -> None:
    assert distinct(torch.tensor([[4, 5, 6], [7, 8, 4]])) is None  # 5 of 6
    assert distinct(torch.tensor([[4, 5, 6], [7, 4, 5]])) is not None  # 4 of 6


def both() -> tuple[EmbeddedWords, EmbeddedWords, Tensor, Tensor]:
    """The same words as rows and places, and as rows alone; their two leaves."""
    torch.manual_seed(1)
    found = distinct(IDS)
    assert found is not None
    rows = torch.randn(len(found[0]), 3, dtype=torch.float64, requires_grad=True)
    flat = rows.detach()[found[1]].requires_grad_()
    return EmbeddedWords(rows, found[1]), EmbeddedWords(flat), rows, flat


@pytest.mark.parametrize(
    "taken",
    [
        lambda words: words,
        EmbeddedWords.transposed,
        lambda words: words.transposed().following(),
        lambda words: words.at((torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]))),
    ],
)
def test_the_same_products_and_gradients(taken: object) -> None:
    assert callable(taken)
    shared, plain, rows, flat = both()
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    results, gradients = [], []
    for words, leaf in ((shared, rows), (plain, flat)):
        chosen = taken(words)
        results.append((chosen.embedded(), chosen.linear(weight, bias), chosen.linear(weight)))
        # Of different weight at every place, or a lost place would not show.
        total = sum(
            (part * torch.arange(part.numel()).view(part.shape)).sum() for part in results[-1]
        )
        assert isinstance(total, Tensor)
        gradients.append(torch.autograd.grad(total, [leaf, weight, bias]))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    places = shared.places
    assert places is not None
    gathered = torch.zeros_like(rows).index_add(0, places.flatten(), gradients[1][0].flatten(0, 1))
    torch.testing.assert_close(gradients[0][0], gathered)
    for one, other in zip(gradients[0][1:], gradients[1][1:], strict=True):
        torch.testing.assert_close(one, other)


def test_the_pairs_of_the_models_tests_share_words() -> None:
    # So those that compare a model with its plain version compare this too.
    for sentences in ([source for source, _ in PAIRS], [(BOS, *target) for _, target in PAIRS]):
        assert distinct(padded(sentences)[0]) is not None
