"""What only a GPU can show: the same results as on the CPU, and recordings that play them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.models import build_model, graphs
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from nmtkit.search import SearchOptions, beam_search
from nmtkit.vocabulary import PAD
from tests.micro import records, settings

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="NO GPU HERE: bfloat16, CUDA graphs and training on CUDA have not been tested",
)
CUDA = torch.device("cuda")
SIZE = 50
ORDERS = ("main-text", "appendix", "groundhog", "conditional")


@pytest.fixture
def recording() -> Iterator[None]:
    graphs.use(True)
    yield
    graphs.use(False)


def model_of(**more: object) -> RNNsearch:
    torch.manual_seed(1)
    sizes = {"embedding": 8, "encoder_hidden": 8, "hidden": 12, "attention_units": 8, "maxout": 8}
    config = RNNsearchConfig(**{**sizes, "initialisation": "glorot", **more})  # type: ignore[arg-type]
    model = build_model(config, SIZE, SIZE)
    assert isinstance(model, RNNsearch)
    return model.double()


def batch_of(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def sentences(lengths: tuple[int, ...]) -> list[list[int]]:
        return [torch.randint(4, SIZE, (n,), generator=generator).tolist() for n in lengths]

    return Batch.of(sentences((5, 2, 7)), sentences((4, 6, 1)), multiple=graphs.LENGTHS)


def gradients(model: RNNsearch, batch: Batch) -> dict[str, Tensor]:
    memory = model.encode(batch.source, batch.source_mask)
    features, _ = model.features(batch.target_in, memory, batch.chosen)
    loss, _ = model.loss(features, batch.targets[batch.chosen], 0.1)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    names = [name for name, _ in model.named_parameters()]
    return {n: g.cpu() for n, g in zip(names, found, strict=True) if g is not None}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reset", ["before", "after"])
@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_a_recording_gives_the_gradients_of_the_cpu(
    order: str, reset: str, attention: str, recording: None
) -> None:
    size = {"hidden": 16} if attention == "dot" else {}
    model = model_of(order=order, reset=reset, attention=attention, **size)
    expected = [gradients(model, batch_of(seed)) for seed in range(4)]
    model.to(CUDA)
    for seed in range(4):  # run, recorded, played, played
        found = gradients(model, batch_of(seed).to(CUDA))
        assert found.keys() == expected[seed].keys()
        for name, gradient in found.items():
            torch.testing.assert_close(gradient, expected[seed][name], rtol=0, atol=1e-10)


def test_search_is_that_of_the_cpu() -> None:
    model = model_of(order="conditional").eval()
    source = batch_of(1).source
    ours = beam_search([model], source, source != PAD, SearchOptions())
    model.to(CUDA)
    theirs = beam_search([model], source.to(CUDA), source.to(CUDA) != PAD, SearchOptions())
    assert [[h.ids for h in one] for one in ours] == [[h.ids for h in one] for one in theirs]


@pytest.mark.parametrize("options", [(), ("cuda_graphs=true",), ("precision=bfloat16",)])
def test_training_on_a_gpu(micro, tmp_path, options: tuple[str, ...]) -> None:
    from nmtkit.train import train

    given = settings(micro, "device=cuda", "updates=30", *options)
    train(given, tmp_path / "m")
    losses = [r["valid_loss"] for r in records(tmp_path / "m") if "valid_loss" in r]
    assert losses
    assert all(math.isfinite(loss) for loss in losses)


def test_an_update_waits_for_the_gpu_once() -> None:
    model = model_of().float().to(CUDA)
    batch = batch_of(2).to(CUDA)
    gradients(model, batch)
    torch.cuda.set_sync_debug_mode("error")
    try:
        memory = model.encode(batch.source, batch.source_mask)
        features, _ = model.features(batch.target_in, memory, batch.chosen)
        model.loss(features, batch.targets[batch.chosen], 0.1)[0].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
