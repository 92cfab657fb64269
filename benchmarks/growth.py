"""How the cost grows: training's tokens a second with each size, translation's with the beam.

    python growth.py [--threads 2] [--updates 6]

One model, `small`, with random text of fixed lengths; each line changes one thing. For every
training line also the limit by matrix products at that size.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import torch
from limit import tokens_a_second
from sizes import BATCH, SIZES, Size
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.memory import keep_freed_memory
from nmtkit.models import build_model
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from nmtkit.search import SearchOptions, beam_search
from nmtkit.vocabulary import EOS, SPECIALS

SOURCE = TARGET = 15
VOCABULARY = 5836
CHANGES: dict[str, tuple[int, ...]] = {
    "source": (8, 15, 30, 60, 100),
    "target": (8, 15, 30, 60, 100),
    "hidden": (256, 512, 1024),
    "vocabulary": (1000, 5836, 16000, 32000),
    "batch": (16, 40, 80, 160, 320),
}
BEAMS = (1, 2, 5, 10, 20)


def model_of(size: Size, vocabulary: int) -> RNNsearch:
    """With fresh parameters."""
    config = RNNsearchConfig(
        embedding=size.embedding,
        encoder_hidden=size.encoder,
        hidden=size.hidden,
        attention_units=size.attention,
        maxout=size.maxout,
        initialisation="glorot",
    )
    torch.manual_seed(1)
    model = build_model(config, vocabulary, vocabulary)
    assert isinstance(model, RNNsearch)
    return model


def ids(sentences: int, length: int, vocabulary: int) -> Tensor:
    """Random sentences of one length, EOS last."""
    found = torch.randint(len(SPECIALS), vocabulary, (sentences, length))
    found[:, -1] = EOS
    return found


def batch_of(sentences: int, source: int, target: int, vocabulary: int) -> Batch:
    """Random sentences of such lengths, ends included."""
    sides = [ids(sentences, length, vocabulary)[:, :-1].numpy() for length in (source, target)]
    return Batch.of(list(sides[0]), list(sides[1]))


def update(model: RNNsearch, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """One step."""
    optimizer.zero_grad(set_to_none=True)
    memory = model.encode(batch.source, batch.source_mask)
    features, _ = model.features(batch.target_in, memory, batch.chosen)
    targets = batch.targets[batch.chosen]
    loss, _ = model.loss(features, targets)
    (loss / targets.numel()).backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def training(
    size: Size, source: int, target: int, vocabulary: int, batch: int, updates: int
) -> float:
    """Target tokens a second."""
    model = model_of(size, vocabulary).train()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    given = batch_of(batch, source, target, vocabulary)
    times = []
    for _ in range(updates + 2):
        began = time.perf_counter()
        update(model, optimizer, given)
        times.append(time.perf_counter() - began)
    return batch * target / statistics.median(times[2:])


def translation(beam: int, sentences: int = 64) -> float:
    """Sentences a second, with random parameters: every hypothesis runs to its limit."""
    model = model_of(SIZES["small"], VOCABULARY).eval()
    sources = ids(sentences, SOURCE, VOCABULARY)
    mask = torch.ones_like(sources, dtype=torch.bool)
    options = SearchOptions(beam=beam, max_ratio=1.0, max_extra=1, early_stop=False)
    times = []
    for _ in range(4):
        began = time.perf_counter()
        beam_search([model], sources, mask, options)
        times.append(time.perf_counter() - began)
    return sentences / statistics.median(times[1:])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--updates", type=int, default=6)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()  # as train does
    usual = {"source": SOURCE, "target": TARGET, "vocabulary": VOCABULARY, "batch": BATCH}
    print("what\tvalue\ttokens/s\tlimit\t%")
    for what, values in CHANGES.items():
        for value in values:
            size = SIZES["small"]
            if what == "hidden":
                size = replace(size, encoder=value // 2, hidden=value, attention=value)
            given = usual if what == "hidden" else {**usual, what: value}
            found = training(size, updates=arguments.updates, **given)
            most = tokens_a_second(size, **given)
            print(f"{what}\t{value}\t{found:.0f}\t{most:.0f}\t{100 * found / most:.0f}", flush=True)
    print("beam\tsentences/s")
    for beam in BEAMS:
        print(f"{beam}\t{translation(beam):.1f}", flush=True)


if __name__ == "__main__":
    main()
