"""Products by oneDNN against torch's in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nmtkit.batches import Batch
from nmtkit.models import products
from nmtkit.models.products import Linear, Packed, by_one_dnn, linear, product, sum_of_outer
from nmtkit.models.rnnsearch import RNNsearch, RNNsearchConfig
from tests.test_models import PAIRS

needs_one_dnn = pytest.mark.skipif(products.ONE_DNN is None, reason="no oneDNN on this processor")


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def close(found: Tensor, expected: Tensor) -> None:
    """Within what float32 can hold of sums of some hundred normal numbers."""
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)


@needs_one_dnn
@pytest.mark.parametrize(("value", "there"), [("0", False), ("1", True), (None, True)])
def test_the_environment_turns_it_off(
    monkeypatch: pytest.MonkeyPatch, value: str | None, there: bool
) -> None:
    if value is None:
        monkeypatch.delenv(products.SWITCH, raising=False)
    else:
        monkeypatch.setenv(products.SWITCH, value)
    assert (products._one_dnn() is not None) == there


SHAPES = [(1, 1, 1), (1, 300, 7), (5, 3, 2), (80, 64, 192), (33, 257, 65), (1001, 30, 20)]


@needs_one_dnn
def test_what_is_left_to_torch() -> None:
    x = numbers(3, 4)
    assert by_one_dnn(x, x)
    assert not by_one_dnn(x, x.double())
    assert not by_one_dnn(x[:0], x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not by_one_dnn(x)


@needs_one_dnn
def test_it_can_be_turned_off() -> None:
    a, b = numbers(40, 300), numbers(300, 50)
    torch.backends.mkldnn.set_flags(False)
    try:
        assert not by_one_dnn(a, b)
        assert torch.equal(product(a, b), a @ b)
    finally:
        torch.backends.mkldnn.set_flags(True)
    assert by_one_dnn(a, b)


@pytest.mark.parametrize(("rows", "inner", "columns"), SHAPES)
@pytest.mark.parametrize("plus", ["none", "row", "column of a matrix", "matrix", "view"])
@pytest.mark.parametrize("laid", ["plain", "transposed", "view", "packed"])
def test_a_product(rows: int, inner: int, columns: int, plus: str, laid: str) -> None:
    a, b = numbers(rows, inner), numbers(inner, columns)
    added = {
        "none": None,
        "row": numbers(columns),
        "column of a matrix": numbers(columns, 3)[:, 1],
        "matrix": numbers(rows, columns),
        "view": numbers(rows, columns + 3)[:, 2:-1],
    }[plus]
    expected = a.double() @ b.double()
    if added is not None:
        expected = expected + added.double()
    if laid == "packed":
        close(Packed(b.t())(a, added), expected)
        close(Packed(b.t().contiguous())(a, added), expected)
        return
    if laid == "transposed":
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    elif laid == "view":
        a, b = F.pad(a, (1, 2))[:, 1:-2], F.pad(b, (2, 1))[:, 2:-1]
    close(product(a, b, added), expected)


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("plus", [False, True])
def test_groups(groups: int, plus: bool) -> None:
    a, b = numbers(groups, 20, 12), numbers(groups, 12, 15)
    added = numbers(groups, 20, 15) if plus else None
    expected = a.double() @ b.double() + (0 if added is None else added.double())
    close(product(a, b, added), expected)
    close(Packed(b.mT)(a, added), expected)


@pytest.mark.parametrize("rows", [1, 7, 400, 401, 1230])
@pytest.mark.parametrize("plus", [False, True])
def test_sums_of_outer_products(rows: int, plus: bool) -> None:
    left, right = numbers(rows, 9)[:, 2:8], numbers(rows, 5)
    added = numbers(6, 5) if plus else None
    expected = left.double().t() @ right.double() + (0 if added is None else added.double())
    close(sum_of_outer(left, right, added), expected)
    if not plus:
        exact = sum_of_outer(left.double(), right.double())
        torch.testing.assert_close(exact, expected)
        assert not sum_of_outer(left[:0], right[:0]).any()


@pytest.mark.parametrize(("rows", "inner"), [(0, 4), (4, 0)])
def test_empty_products(rows: int, inner: int) -> None:
    a, b = numbers(rows, inner), numbers(inner, 5)
    assert torch.equal(product(a, b), torch.zeros(rows, 5))
    assert torch.equal(Packed(b.t())(a), torch.zeros(rows, 5))
    assert linear(a, b.t()).shape == (rows, 5)


def test_float64_is_torchs() -> None:
    a, b = numbers(5, 6).double(), numbers(6, 7).double()
    assert torch.equal(product(a, b), a @ b)
    assert torch.equal(Packed(b.t())(a), a @ b)
    assert torch.equal(linear(a, b.t()), F.linear(a, b.t()))


@pytest.mark.parametrize("lead", [(6,), (2, 3), (2, 1, 4), (), (3, 150)])
@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("bias", ["none", "vector", "column of a matrix"])
def test_linear_and_its_gradients(lead: tuple[int, ...], view: bool, bias: str) -> None:
    x, whole, d = numbers(*lead, 8), numbers(5, 11), numbers(*lead, 5)
    given = [x, whole] if bias == "none" else [x, whole, numbers(5, 2)]
    leaves = [one.clone().requires_grad_() for one in given]
    exact = [one.double().requires_grad_() for one in given]

    def run(of: object, one: list[Tensor]) -> Tensor:
        weight = one[1][:, 2:10] if view else one[1][:, :8].contiguous()
        biases = [(each[:, 1] if bias != "vector" else each.sum(1)) for each in one[2:]]
        found: Tensor = of(one[0], weight, *biases)  # type: ignore[operator]
        return found

    found, expected = run(linear, leaves), run(F.linear, exact)
    close(found, expected)
    for one, other in zip(
        torch.autograd.grad(found, leaves, d),
        torch.autograd.grad(expected, exact, d.double()),
        strict=True,
    ):
        close(one, other)


def test_only_gradients_that_are_asked_for() -> None:
    layer = Linear(3, 2)
    layer.weight.requires_grad_(False)
    layer(numbers(4, 3)).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    assert layer.bias.grad.tolist() == [4.0, 4.0]


@needs_one_dnn
@given(st.integers(1, 90), st.integers(1, 90), st.integers(16, 200))
def test_a_row_depends_on_no_other(rows: int, more: int, columns: int) -> None:
    """What search finds for a sentence may not depend on its batch."""
    a, b = numbers(rows + more, 70), numbers(70, columns)
    packed = Packed(b.t())
    assert torch.equal(packed(a)[:rows], packed(a[:rows]))


@needs_one_dnn
@pytest.mark.parametrize("order", ["main-text", "appendix", "groundhog", "conditional"])
@pytest.mark.parametrize("reset", ["before", "after"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_model_in_float32_is_nearly_that_in_float64(order: str, reset: str, cell: str) -> None:
    """All of an update by oneDNN, against the plain loops in float64 by torch alone."""
    sizes = {"embedding": 12, "encoder_hidden": 10, "hidden": 14, "maxout": 6}
    config = RNNsearchConfig(**sizes, attention_units=9, order=order, reset=reset, cell=cell)  # type: ignore[arg-type]
    torch.manual_seed(1)
    model = RNNsearch(config, 30, 30)
    model.initialise()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    batch = Batch.of([source for source, _ in PAIRS], [target for _, target in PAIRS])
    found = {}
    for dtype in (torch.float32, torch.float64):
        model = model.to(dtype)
        model.plain = dtype == torch.float64
        memory = model.encode(batch.source, batch.source_mask)
        features, _ = model.features(batch.target_in, memory, batch.chosen)
        loss, _ = model.loss(features, batch.target_out[batch.chosen])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        found[dtype] = [loss.detach(), *gradients]
    for one, other in zip(found[torch.float32], found[torch.float64], strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
