"""IBM Model 1 and the HMM against an enumeration of all alignments; posteriors as attention."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmtkit.models.ibm import HMM, IBM1, HMMConfig, IBM1Config
from nmtkit.vocabulary import EOS, PAD

SIZE = 9  # of both vocabularies
NOWHERE = None  # NULL, in an alignment


class Read(NamedTuple):
    """What a model says of one sentence: links[i][j], null[i], log-likelihood, jumps."""

    links: list[list[float]]
    null: list[float]
    log_likelihood: float
    jumps: list[float]
    room: list[float]


def hmm(longest: int = 2, null: float = 0.3, seed: int = 0) -> HMM:
    model = HMM(HMMConfig(longest_jump=longest, null=null), SIZE, SIZE).double()
    generator = torch.Generator().manual_seed(seed)
    model.jumps = torch.rand(2 * longest + 1, generator=generator, dtype=torch.float64) + 0.05
    return model


def enumerate_hmm(model: HMM, lexical: list[list[float]], null: list[float]) -> Read:
    """Every alignment of T words to S places or to none, one after another."""
    target, source = len(lexical), len(lexical[0])
    p_0, longest = model.config.null, model.config.longest_jump
    c = model.jumps.tolist()

    def width(before: int, place: int) -> int:
        return max(-longest, min(longest, place - before)) + longest

    def all_room(before: int) -> float:
        return sum(c[width(before, place)] for place in range(source))

    links = [[0.0] * source for _ in range(target)]
    unlinked, jumps, room = [0.0] * target, [0.0] * len(c), [0.0] * len(c)
    likelihood = 0.0
    for alignment in itertools.product([*range(source), NOWHERE], repeat=target):
        probability, before, steps = 1.0, -1, []
        for i, place in enumerate(alignment):
            if place is NOWHERE:
                probability *= p_0 * null[i]
                continue
            probability *= (
                (1 - p_0) * c[width(before, place)] / all_room(before) * lexical[i][place]
            )
            steps.append((before, place))
            before = place
        likelihood += probability
        for i, place in enumerate(alignment):
            if place is NOWHERE:
                unlinked[i] += probability
            else:
                links[i][place] += probability
        for before, place in steps:
            jumps[width(before, place)] += probability
            for other in range(source):
                room[width(before, other)] += probability / all_room(before)
    return Read(
        [[p / likelihood for p in row] for row in links],
        [p / likelihood for p in unlinked],
        math.log(likelihood),
        [p / likelihood for p in jumps],
        [p / likelihood for p in room],
    )


def drawn(seed: int, batch: int, target: int, source: int) -> tuple[Tensor, Tensor]:
    """t(f | e) (B, T, S) and t(f | NULL) (B, T)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, target, source)
    lexical = torch.rand(shape, generator=generator, dtype=torch.float64) ** 3
    return lexical, torch.rand(shape[:2], generator=generator, dtype=torch.float64) ** 3


def everything(size: tuple[int, int]) -> Tensor:
    return torch.ones(size, dtype=torch.bool)


def close(found: Tensor | None, wanted: object) -> None:
    assert found is not None
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64))


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
def test_hmm_is_the_sum_over_all_alignments(source, target, longest, seed):
    model = hmm(longest, null=0.1 + seed % 8 / 10, seed=seed)
    lexical, null = drawn(seed, 1, target, source)
    found = model.read(lexical, null, everything((1, target)))
    wanted = enumerate_hmm(model, lexical[0].tolist(), null[0].tolist())
    close(found.links[0], wanted.links)
    close(found.null[0], wanted.null)
    close(found.log_likelihood, wanted.log_likelihood)
    close(found.jumps, [wanted.jumps, wanted.room])


def test_hmm_by_hand():
    # One target word, two source words, c = (-2 … 2); from before the first: widths 1 and 2.
    model = hmm()
    model.jumps = torch.tensor([1.0, 1.0, 1.0, 3.0, 1.0], dtype=torch.float64)
    lexical = torch.tensor([[[0.2, 0.4]]], dtype=torch.float64)
    found = model.read(lexical, torch.tensor([[0.1]], dtype=torch.float64), everything((1, 1)))
    first, second, none = 0.7 * 0.75 * 0.2, 0.7 * 0.25 * 0.4, 0.3 * 0.1
    total = first + second + none
    close(found.links[0, 0], [first / total, second / total])
    close(found.log_likelihood, math.log(total))
    jumped = (first + second) / total
    rooms = [0, 0, 0, jumped / 4, jumped / 4]
    close(found.jumps, [[0, 0, 0, first / total, second / total], rooms])


def test_learning_jumps_by_hand():
    model = HMM(HMMConfig(longest_jump=1, jump_smoothing=2.0), SIZE, SIZE).double()
    before = [math.exp(-1) + 0.001, math.exp(-0.5) + 0.001, 1.001]  # of widths -1, 0, 1
    prior = [c / sum(before) for c in before]
    assert model.jumps.tolist() == pytest.approx(prior, abs=1e-7)
    model.jumps = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
    model.learn(torch.tensor([[2.0, 4.0, 6.0], [1.0, 3.0, 3.0]], dtype=torch.float64))
    room = [1 + 2 / 4, 3 + 2 / 4, 3 + 2 / 4]
    c = [(n + 2 * p) / r for n, p, r in zip([2, 4, 6], prior, room, strict=True)]
    close(model.jumps, [value / sum(c) for value in c])


def test_widths_that_never_had_room_keep_their_prior():
    model = HMM(HMMConfig(longest_jump=50), SIZE, SIZE)
    number, room = torch.zeros(2, 101, dtype=torch.float64)
    number[50:53], room[45:56] = torch.tensor([1e5, 3e5, 1e5]), 5e5
    for _ in range(30):
        model.learn(torch.stack([number, room / model.jumps[45:56].double().sum()]))
    assert model.jumps[51] / model.jumps[45:56].sum() == pytest.approx(0.6, abs=0.01)
    assert model.jumps[80] == pytest.approx(float(model.prior()[80]), rel=0.05)
    assert model.jumps[47] < 1e-4  # had room, and was not taken
    assert (model.jumps > 0).all()


@pytest.mark.parametrize("kind", ["ibm1", "hmm"])
def test_ragged_batches_read_as_one_sentence_at_a_time(kind):
    model = hmm() if kind == "hmm" else IBM1(IBM1Config(), SIZE, SIZE)
    lengths = [5, 1, 3, 5, 2]
    lexical, null = drawn(7, len(lengths), 5, 3)
    real = torch.arange(5) < torch.tensor(lengths).unsqueeze(1)
    found = model.read(lexical, null, real)
    likelihoods = torch.tensor(0.0, dtype=torch.float64)
    jumps = torch.zeros(2, 5, dtype=torch.float64)
    for b, length in enumerate(lengths):
        one = lexical[b : b + 1, :length], null[b : b + 1, :length]
        alone = model.read(*one, everything((1, length)))
        torch.testing.assert_close(found.links[b, :length], alone.links[0])
        torch.testing.assert_close(found.null[b, :length], alone.null[0])
        assert not found.links[b, length:].any()
        assert not found.null[b, length:].any()
        likelihoods += alone.log_likelihood
        if alone.jumps is not None:
            jumps += alone.jumps
    torch.testing.assert_close(found.log_likelihood, likelihoods)
    if kind == "hmm":
        torch.testing.assert_close(found.jumps, jumps)
    # What stands at padding makes no difference.
    again = model.read(lexical * real.unsqueeze(2), null * real, real)
    for name in ("links", "null", "log_likelihood"):
        torch.testing.assert_close(getattr(again, name), getattr(found, name))


def test_ibm1_by_hand():
    model = IBM1(IBM1Config(null=0.2), SIZE, SIZE)
    lexical = torch.tensor([[[0.5, 0.25], [0.0, 0.1]]])
    found = model.read(lexical, torch.tensor([[0.5, 0.1]]), everything((1, 2)))
    first, second = 0.4 * 0.5 + 0.4 * 0.25 + 0.2 * 0.5, 0.4 * 0.1 + 0.2 * 0.1
    torch.testing.assert_close(
        found.links[0], torch.tensor([[0.2 / first, 0.1 / first], [0, 0.04 / second]])
    )
    torch.testing.assert_close(found.null[0], torch.tensor([0.1 / first, 0.02 / second]))
    assert found.log_likelihood.item() == pytest.approx(math.log(first) + math.log(second))
    assert found.jumps is None


def in_logs(model: HMM, lexical: Tensor, null: Tensor) -> tuple[Tensor, Tensor]:
    """Forward-backward in logarithms: links (T, S) and null (T,) of one sentence."""
    (length, places), p_0 = lexical.shape, model.config.null
    jump = model.jumps.double()[model.widths(places)]
    jump = (jump / jump.sum(1, keepdim=True)).log()
    move, stay = (lexical * (1 - p_0)).log(), (null * p_0).log()
    never = torch.full((1,), -math.inf, dtype=torch.float64)
    before = [torch.cat([torch.zeros(1, dtype=torch.float64), never.expand(places)])]
    for i in range(length):
        link = move[i] + (before[i].unsqueeze(1) + jump).logsumexp(0)
        before.append(torch.logaddexp(torch.cat([never, link]), stay[i] + before[i]))
    after = [torch.zeros(places + 1, dtype=torch.float64)] * (length + 1)
    for i in range(length - 1, -1, -1):
        come = (jump + move[i] + after[i + 1][1:]).logsumexp(1)
        after[i] = torch.logaddexp(come, stay[i] + after[i + 1])
    total = before[-1].logsumexp(0)
    links = [
        move[i] + (before[i].unsqueeze(1) + jump).logsumexp(0) + after[i + 1][1:] - total
        for i in range(length)
    ]
    unlinked = [(before[i] + after[i + 1]).logsumexp(0) + stay[i] - total for i in range(length)]
    return torch.stack(links).exp(), torch.stack(unlinked).exp()


@pytest.mark.parametrize("jumps", ["even", "one"])
def test_long_sentences_of_improbable_words(jumps):
    length = 300
    model = hmm(longest=100)
    model.jumps = torch.full((201,), 1.0)
    if jumps == "one":  # as steep as numbers of a file can be
        model.jumps[:] = 1e-38
        model.jumps[101] = 1e15
    generator = torch.Generator().manual_seed(3)
    # From 1 down to the least probability, in no order.
    lexical = 10 ** (-30 * torch.rand(1, length, length, generator=generator))
    null = 10 ** (-30 * torch.rand(1, length, generator=generator))
    found = model.read(lexical, null, everything((1, length)))
    assert found.log_likelihood.isfinite()
    assert found.jumps is not None
    assert found.jumps.isfinite().all()
    torch.testing.assert_close(found.links.sum(2) + found.null, torch.ones(1, length))
    links, unlinked = in_logs(model, lexical[0].double(), null[0].double())
    torch.testing.assert_close(found.links[0].double(), links, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.null[0].double(), unlinked, atol=1e-5, rtol=1e-4)


def test_ibm1_of_improbable_words():
    model = IBM1(IBM1Config(null=1e-6), SIZE, SIZE)
    found = model.read(
        torch.full((1, 3, 300), 1e-30), torch.full((1, 3), 1e-30), everything((1, 3))
    )
    torch.testing.assert_close(found.links.sum(2) + found.null, torch.ones(1, 3))


# ---------------------------------------------------------------------- posteriors as attention


def trained(kind: str, smoothing: float = 2.0) -> IBM1:
    """A model of which word 4 + k is mostly 4 + k's translation."""
    model: IBM1
    if kind == "hmm":
        model = HMM(HMMConfig(smoothing=smoothing, prefix=0), SIZE, SIZE)
    else:
        model = IBM1(IBM1Config(smoothing=smoothing, prefix=0), SIZE, SIZE)
    counts = {(4 + j, 4 + k): 9.0 if j == k else 0.5 for j in range(3) for k in range(4)}
    lexicon = {
        "keys": torch.tensor([e * SIZE + f for e, f in sorted(counts)]),
        "counts": torch.tensor([counts[pair] for pair in sorted(counts)]),
        "null_counts": torch.tensor([0, 1, 0, 0, 1.0, 0, 0, 2, 0]),
        "source_class": torch.zeros(SIZE, dtype=torch.int64),
        "target_class": torch.zeros(SIZE, dtype=torch.int64),
    }
    tensors = {f"lexicon.{name}": tensor for name, tensor in lexicon.items()}
    if kind == "hmm":
        tensors["jumps"] = torch.linspace(1, 9, 201)
    model.take(tensors)
    return model


PAIRS = [  # ids without the end; sides of every kind of length
    ([4, 5, 6], [4, 5, 6, 7]),
    ([5], [5]),
    ([4, 1, 8, 5, 6], [6, 1]),
    ([], [4, 5]),
    ([6, 6], []),
    ([6, 4, 5], [5, 4, 6]),
]


def padded(sentences: list[list[int]], longest: int) -> Tensor:
    return torch.tensor([[*ids, EOS, *[PAD] * (longest - len(ids))] for ids in sentences])


@pytest.mark.parametrize("kind", ["ibm1", "hmm"])
def test_attention_is_the_posteriors(kind):
    model = trained(kind)
    source, target = padded([s for s, _ in PAIRS], 6), padded([t for _, t in PAIRS], 5)
    found = model.attention(source, source != PAD, target)
    assert found.shape == (len(PAIRS), 6, 7)
    torch.testing.assert_close(found.sum(2), torch.ones(len(PAIRS), 6))
    for attention, (words, translation) in zip(found, PAIRS, strict=True):
        length, rows = len(words), len(translation)
        # Alone, without padding, it is the same.
        alone = [padded([side], len(side)) for side in (words, translation)]
        one = model.attention(alone[0], alone[0] != PAD, alone[1])[0]
        torch.testing.assert_close(attention[: rows + 1, : length + 1], one)
        assert not attention[:, length + 1 :].any()
        # The end of the target, and padding, are NULL's; and so is all with an empty source.
        assert (attention[rows:, length] == 1).all()
        if not length:
            assert (attention[:, 0] == 1).all()
        elif rows:
            e, f = torch.tensor([words]), torch.tensor([translation])
            lexical = model.lexicon.probabilities(model.lexicon.cells(e, f), e, f)
            null = model.lexicon.null_probabilities(f)
            reading = model.read(lexical, null, everything((1, rows)))
            torch.testing.assert_close(attention[:rows, :length], reading.links[0])
            torch.testing.assert_close(attention[:rows, length], reading.null[0])


@pytest.mark.parametrize("kind", ["ibm1", "hmm"])
@pytest.mark.parametrize("smoothing", [0.0, 2.0])
def test_words_that_nothing_explains(kind, smoothing):
    # Target 8 was never seen, source 7 and 8 neither: still a distribution, also of its neighbours.
    model = trained(kind, smoothing)
    source, target = padded([[4, 7, 8, 5]], 4), padded([[8, 4, 8, 8, 5]], 5)
    found = model.attention(source, source != PAD, target)[0]
    torch.testing.assert_close(found.sum(1), torch.ones(6))
    assert found[1, 0] > 0.5
    assert found[4, 3] > 0.5


# ------------------------------------------------------------------------------ files and settings


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("jumps", None, "the tensor jumps is missing"),
        ("other", torch.zeros(1), "unexpected tensor other"),
        ("jumps", torch.ones(200), "jumps must be 201 numbers"),
        ("jumps", torch.ones(201, 1), "jumps must be 201 numbers"),
        ("jumps", torch.ones(201, dtype=torch.float64), "jumps must be 201 numbers"),
        ("jumps", torch.zeros(201), "no counts"),
        ("jumps", torch.full((201,), torch.nan), "no counts"),
        ("lexicon.keys", torch.zeros(12), "keys is not a vector of int64"),
    ],
)
def test_damaged_tensors_are_refused(name, value, message):
    tensors = dict(trained("hmm").state_dict())
    HMM(HMMConfig(), SIZE, SIZE).take(tensors)
    tensors[name] = value
    if value is None:
        del tensors[name]
    with pytest.raises(ValueError, match=message):
        HMM(HMMConfig(), SIZE, SIZE).take(tensors)


@pytest.mark.parametrize(
    "values",
    [
        {"null": 0.0}, {"null": 1.0}, {"null": math.nan}, {"smoothing": -1.0}, {"prefix": -1},
        {"smoothing": math.inf}, {"longest_jump": 0}, {"longest_jump": 10_001},
        {"jump_smoothing": 0.0}, {"jump_smoothing": math.nan}, {"smoothing": math.nan},
        {"smoothing": 1e300}, {"smoothing": 1.1e6}, {"jump_smoothing": 1e300},
    ],
)  # fmt: skip
def test_settings_out_of_range(values):
    (name,) = values
    with pytest.raises(ValueError, match=name):
        HMMConfig(**values)
