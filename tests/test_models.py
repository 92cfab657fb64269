"""The laws that every architecture that translates inherits by TINY."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.errors import UserError
from nmtkit.models import ARCHITECTURES, blank_model, build_model
from nmtkit.models.aligner import Aligner
from nmtkit.models.rnnsearch import RNNsearchConfig
from nmtkit.models.seq2seq import AnySeq2Seq, Seq2Seq, at
from nmtkit.vocabulary import BOS, EOS, PAD, UNK
from tests import reference_rnnsearch as reference
from tests.draw import Draw

# Sizes all different where they may be, so that mixed-up dimensions cannot pass.
SIZES = {"embedding": 3, "encoder_hidden": 2, "hidden": 4, "maxout": 2}
PLAIN: dict[str, Any] = {
    "alignment_head": False,
    "coverage": False,
    "temperature": 1.0,
    "attention_units": 3,
    "order": "main-text",
    "reset": "before",
    **SIZES,
}
#: RNNsearch with a part left out or changed.
FIXED = {"attention": "none", "context": "fixed"}
ABLATIONS: list[dict[str, Any]] = [
    {**PLAIN, **changed}
    for changed in (
        {"encoder": "forward"},
        {"encoder": "backward", "order": "groundhog"},
        {"attention": "dot"},
        {"attention": "general", "temperature": 0.7},
        {"attention": "concat", "order": "conditional", "reset": "after"},
        {"attention": "location", "order": "groundhog", "temperature": 0.7},
        FIXED,
        {**FIXED, "encoder": "forward", "order": "appendix"},
        {**FIXED, "encoder": "backward", "order": "groundhog", "reset": "after"},
        {**FIXED, "order": "conditional", "reset": "after"},
        {"readout": "tanh"},
        {"cell": "lstm"},
        {"cell": "lstm", "attention": "general", "order": "conditional"},
        {"cell": "lstm", "coverage": True, "order": "groundhog"},
        {"cell": "lstm", "attention": "location", "encoder": "backward", "order": "appendix"},
        {**FIXED, "cell": "lstm"},
        {**FIXED, "cell": "lstm", "encoder": "forward", "order": "conditional"},
        {"tied_embeddings": "target", "maxout": 3, "readout": "tanh"},
        {"cell": "lstm", "encoder": "forward", "alignment_head": True},
    )
]
#: Windows of 3 words, narrower than the longest of PAIRS; `hidden` is the attention's size too.
LUONG: dict[str, Any] = {
    "embedding": 3,
    "hidden": 4,
    "layers": 1,
    "attention": "general",
    "window": "global",
    "window_size": 1,
    "input_feeding": True,
    "reverse_source": True,
    "tied_embeddings": "none",
}
TRANSFORMER: dict[str, Any] = {
    "embedding": 6,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "heads": 2,
    "feed_forward": 5,
}
STACK: dict[str, Any] = {"embedding": 3, "hidden": 4}
GNMT: dict[str, Any] = {**STACK, "encoder_hidden": 5, "attention_units": 6}
TINY: dict[str, list[dict[str, Any]]] = {
    "rnnsearch": [
        *(
            {**PLAIN, "order": order, "reset": reset}
            for order in reference.ORDERS
            for reset in reference.RESETS
        ),
        {**PLAIN, "order": "main-text", "reset": "before", "coverage": True},
        {**PLAIN, "order": "groundhog", "reset": "after", "coverage": True, "temperature": 0.7},
        {**PLAIN, "order": "conditional", "reset": "after", "alignment_head": True}
        | {"temperature": 0.7},
        *ABLATIONS,
    ],
    "rnnencdec": [{**SIZES, "reset": reset} for reset in reference.RESETS],
    "transformer": [
        TRANSFORMER,
        {**TRANSFORMER, "encoder_layers": 1, "decoder_layers": 1, "heads": 1, "embedding": 5},
        {**TRANSFORMER, "tied_embeddings": "target", "attention_layer": 1, "attention_head": 2},
        {
            **TRANSFORMER,
            "heads": 3,
            "attention_layer": 3,
            "attention_head": 1,
            "alignment_head": True,
        },
    ],
    "luong": [
        *({**LUONG, "attention": score} for score in ("dot", "general", "concat", "location")),
        *(
            {**LUONG, "window": window, "input_feeding": feeding, "layers": layers}
            for window in ("local-m", "local-p")
            for feeding, layers in ((True, 1), (True, 2), (False, 2))
        ),
        {**LUONG, "input_feeding": False, "attention": "concat", "window": "local-p"},
        {**LUONG, "input_feeding": False, "attention": "location"},
        {**LUONG, "attention": "concat", "layers": 2, "reverse_source": False},
        {**LUONG, "attention": "concat", "layers": 2, "input_feeding": False},
        {**LUONG, "attention": "concat", "embedding": 4, "tied_embeddings": "target"},
    ],
    "seq2seq": [
        {**STACK, "reverse_source": reverse, "layers": layers}
        for reverse, layers in ((True, 1), (True, 3), (False, 2))
    ]
    + [{"embedding": 4, "hidden": 4, "layers": 2, "tied_embeddings": "target"}],
    "gnmt": [
        {**GNMT, "order": order, "encoder_layers": encoder, "layers": decoder}
        for order, encoder, decoder in (("previous", 3, 4), ("current", 2, 3), ("current", 3, 2))
    ],
}
SOURCE_SIZE, TARGET_SIZE = 8, 7


def translates(name: str) -> bool:
    model = ARCHITECTURES[name].model
    return not (isinstance(model, type) and issubclass(model, Aligner))


def called(name: str, settings: dict[str, Any]) -> str:
    """The settings that are not those of most variants."""
    usual = {"luong": LUONG, "transformer": TRANSFORMER}.get(name, {**PLAIN, **SIZES})
    told = (f"{key}={value}" for key, value in settings.items() if usual.get(key) != value)
    return " ".join([name, *told])


VARIANTS = [
    pytest.param((name, settings), id=called(name, settings))
    for name in filter(translates, ARCHITECTURES)
    for settings in TINY[name]
]
Pair = tuple[tuple[int, ...], tuple[int, ...]]
# y_1 .. y_n without EOS; ragged on both sides, sources in no order of length.
PAIRS: list[Pair] = [
    ((6, 3), (1,)),
    ((4, 5, 1, 7, 3), (4, 6, 5)),
    ((5, 5, 3), (6, 6, 4, 4, 1)),
    ((3,), ()),
]


def build(variant: tuple[str, dict[str, Any]], seed: int = 1, sharpness: float = 1.0) -> AnySeq2Seq:
    """A float64 model with parameters large enough for every gate and weight to matter.

    The paper's initialisation would not do: with v_a = 0 the attention is uniform whatever it sees.
    """
    name, settings = variant
    sizes = SOURCE_SIZE, TARGET_SIZE
    if settings.get("tied_embeddings") == "all":
        sizes = SOURCE_SIZE, SOURCE_SIZE
    model = blank_model(ARCHITECTURES[name].config(**settings), *sizes)
    generator = torch.Generator().manual_seed(seed)
    assert isinstance(model, Seq2Seq)
    with torch.no_grad():
        model = model.double()
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
        model.output.weight.mul_(sharpness)
    return model.eval()


def padded(rows: Sequence[Sequence[int]], junk: Sequence[int] = (PAD,)) -> tuple[Tensor, Tensor]:
    """Ids (B, S) and mask (B, S); `junk` goes round where the padding is."""
    width = max(map(len, rows))
    ids = [[*row, *((list(junk) * width)[: width - len(row)])] for row in rows]
    mask = [[True] * len(row) + [False] * (width - len(row)) for row in rows]
    return torch.tensor(ids), torch.tensor(mask)


def forced(
    model: AnySeq2Seq, source: Sequence[int], target: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """One sentence alone, without padding: log-probabilities (n+1, V), attention (n+1, S)."""
    ids, mask = padded([source])
    logits, attention = model.decode(torch.tensor([[BOS, *target]]), model.encode(ids, mask))
    return F.log_softmax(logits[0], 1), attention[0]


def training_loss(model: AnySeq2Seq, pairs: Sequence[Pair], junk: Sequence[int] = (PAD,)) -> Tensor:
    """Minus the log-probability of the targets, the way training computes it."""
    source, mask = padded([source for source, _ in pairs], junk)
    target_in, real = padded([(BOS, *target) for _, target in pairs], junk)
    target_out, _ = padded([(*target, EOS) for _, target in pairs])
    features, _ = model.features(target_in, model.encode(source, mask), real.nonzero(as_tuple=True))
    return model.loss(features, target_out[real])[0]


def gradients(
    model: AnySeq2Seq, loss: Tensor, unused: Sequence[str] = ("head",)
) -> dict[str, Tensor]:
    """Those of all modules but the `unused` ones, which must have none."""
    model.zero_grad()
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    names = [name for name, _ in model.named_parameters() if name.split(".")[0] not in unused]
    assert list(found) == names
    return found


def close(found: Tensor, expected: Tensor, atol: float = 1e-12, name: str = "") -> None:
    torch.testing.assert_close(
        found, expected, rtol=0, atol=atol, msg=lambda text: f"{name}: {text}"
    )


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> AnySeq2Seq:
    return build(request.param)


def in_numpy(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    ("name", "preset"), [(name, p) for name in ARCHITECTURES for p in ARCHITECTURES[name].presets]
)
def test_presets_are_settings_of_their_architecture(name: str, preset: str) -> None:
    tables = ARCHITECTURES[name].presets[preset]
    assert tables.keys() == {"model", "training"}
    assert ARCHITECTURES[name].config(**tables["model"]).architecture == name


@pytest.mark.parametrize(
    "wrong",
    [
        *({"hidden": 0}, {"maxout": -1}, {"dropout_readout": 1.0}, {"dropout_embedding": -0.1}),
        *({"temperature": value} for value in (0.0, -1.0, 1e-300, 101.0, float("nan"))),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        RNNsearchConfig(**wrong)


def test_unknown_architecture() -> None:
    config = RNNsearchConfig(architecture="rnnserch")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="did you mean 'rnnsearch'"):
        build_model(config, SOURCE_SIZE, TARGET_SIZE)


# Laws of every architecture


def test_padding_and_batch_change_nothing(model: AnySeq2Seq) -> None:
    """Values: every sentence as if alone, whatever ids stand where the mask says padding."""
    source, mask = padded([source for source, _ in PAIRS], junk=(5, 7, 3))
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS], junk=(6, 4))
    logits, attention = model.decode(target_in, model.encode(source, mask))
    for b, (source_ids, target) in enumerate(PAIRS):
        log_probs, alone = forced(model, source_ids, target)
        rows, columns = len(target) + 1, len(source_ids)
        close(F.log_softmax(logits[b, :rows], 1), log_probs)
        close(attention[b, :rows, :columns], alone)


def test_padding_and_batch_change_no_gradient(model: AnySeq2Seq) -> None:
    found = gradients(model, training_loss(model, PAIRS, junk=(5, 4, 1)))
    alone = [gradients(model, training_loss(model, [pair])) for pair in PAIRS]
    for name, gradient in found.items():
        expected = torch.stack([each[name] for each in alone]).sum(0)
        close(gradient, expected, 1e-11, name)


def test_features_and_output_layer_make_decode(model: AnySeq2Seq) -> None:
    source, mask = padded([source for source, _ in PAIRS])
    target_in, real = padded([(BOS, *target) for _, target in PAIRS])
    target_out, _ = padded([(*target, EOS) for _, target in PAIRS])
    memory = model.encode(source, mask)
    logits, attention = model.decode(target_in, memory)
    features, same_attention = model.features(target_in, memory)
    packed, _ = model.features(target_in, memory, real.nonzero(as_tuple=True))
    close(model.output(features), logits)
    close(same_attention, attention)
    close(model.output(packed), logits[real])
    log_probs = F.log_softmax(logits, 2).gather(2, target_out.unsqueeze(2)).squeeze(2)
    expected = -log_probs[real].sum()
    for found in model.loss(packed, target_out[real]):
        close(found, expected, 1e-11)


@pytest.mark.parametrize("beam", [1, 3])
def test_stepping_is_teacher_forcing(model: AnySeq2Seq, beam: int) -> None:
    """Sentence b owns rows b·K … b·K+K-1, and the rows change nothing in one another."""
    generator = random.Random(1)
    sources = [source for source, _ in PAIRS]
    rows = [(BOS, *generator.choices((UNK, 4, 5, 6), k=4)) for _ in range(len(sources) * beam)]
    expected = [forced(model, sources[r // beam], rows[r][1:]) for r in range(len(rows))]
    memory = model.encode(*padded(sources))
    state = model.start(memory, beam)
    for t, tokens in enumerate(zip(*rows, strict=True)):
        features, attention, state = model.step(torch.tensor(tokens), state, memory)
        log_probs = F.log_softmax(model.output(features), 1)
        for r, (log_probs_alone, attention_alone) in enumerate(expected):
            close(log_probs[r], log_probs_alone[t])
            columns = attention_alone.shape[1]
            close(attention[r, :columns], attention_alone[t])
            assert not attention[r, columns:].any()


def test_state_and_memory_rows_can_be_selected(model: AnySeq2Seq) -> None:
    """Rows go on as they would have where they were: what search does after every step."""
    sources = [source for source, _ in PAIRS]
    memory = model.encode(*padded(sources))
    beam = 2
    state = model.start(memory, beam)
    first = torch.full((len(sources) * beam,), BOS)
    second = torch.tensor([4, 5] * len(sources))
    for tokens in (first, second):
        _, _, state = model.step(tokens, state, memory)
    # Sentence 2 takes its second row twice, sentence 0 turns its two round; 1 and 3 have left.
    rows, sentences = torch.tensor([5, 5, 1, 0]), torch.tensor([2, 0])
    chosen, memory = state.select(rows), memory.select(sentences)
    assert {len(getattr(memory, f.name)) for f in fields(memory)} == {2}
    features, _, _ = model.step(torch.tensor([6, 4, 1, 6]), chosen, memory)
    histories = [(2, (5, 6)), (2, (5, 4)), (0, (5, 1)), (0, (4, 6))]
    for row, (b, history) in enumerate(histories):
        expected = forced(model, sources[b], history)[0][-1]
        close(F.log_softmax(model.output(features[row]), 0), expected)


def test_attention_is_a_distribution_over_real_tokens(model: AnySeq2Seq) -> None:
    if not model.has_attention:
        pytest.skip("no attention")
    source, mask = padded([source for source, _ in PAIRS], junk=(5, 7))
    target_in, _ = padded([(BOS, *target) for _, target in PAIRS])
    memory = model.encode(source, mask)
    _, decoded = model.decode(target_in, memory)
    _, stepped, _ = model.step(target_in[:, 0], model.start(memory), memory)
    for attention in (decoded, stepped.unsqueeze(1)):
        close(attention.sum(2), torch.ones_like(attention[:, :, 0]))
        if not model.attention_is_local:
            assert (attention[mask.unsqueeze(1).expand_as(attention)] > 0).all()
        assert not attention[~mask.unsqueeze(1).expand_as(attention)].any()
        assert attention[1].std() > 0.01  # not uniform


def with_another_word(target: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Every i of 1 .. n, and the target with another y_i."""
    for i in range(1, len(target) + 1):
        other = 5 if target[i - 1] != 5 else 1
        yield i, [*target[: i - 1], other, *target[i:]]


def test_future_is_hidden(model: AnySeq2Seq) -> None:
    """Another y_i changes no log-probability of y_1 .. y_i, and does change that of y_{i+1}."""
    source, target = PAIRS[1][0], (4, 6, 5, 1, 4, 6)
    before, _ = forced(model, source, target)
    for i, other in with_another_word(target):
        after, _ = forced(model, source, other)
        torch.testing.assert_close(before[:i], after[:i], rtol=0, atol=1e-12)
        assert (before[i] - after[i]).abs().max() > 1e-6


def test_attention_consumes_a_word_where_the_model_says(model: AnySeq2Seq) -> None:
    """Row i - 1 predicts y_i; another y_i first changes the row `consumed_shift` later."""
    if not model.has_attention:
        pytest.skip("no attention")
    source, target = PAIRS[1][0], (4, 6, 5, 1, 4, 6)
    _, before = forced(model, source, target)
    for i, other in with_another_word(target[:-1]):
        _, after = forced(model, source, [*other, target[-1]])
        consumed = i - 1 + model.consumed_shift
        torch.testing.assert_close(before[:consumed], after[:consumed], rtol=0, atol=1e-12)
        assert (before[consumed] - after[consumed]).abs().max() > 1e-6


def test_real_targets_are_chosen_from_both_layouts() -> None:
    draw = Draw()
    mask = torch.tensor([[True, True, False], [True, True, True]])
    real = tuple(mask.nonzero().unbind(1))
    for x in (draw(2, 3, 4), draw(3, 2, 4).transpose(0, 1), draw(2, 1, 4).expand(2, 3, 4)):
        given = x.detach().requires_grad_()
        found, expected = at(real, given), given[real]
        close(found, expected)
        d = draw(5, 4)
        gradients = [torch.autograd.grad(y, given, d)[0] for y in (found, expected)]
        close(gradients[0], gradients[1])
    assert at(None, given) is given
