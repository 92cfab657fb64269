"""nmtkit.config: strict building of dataclasses, TOML in and out, overrides."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.config import build, override, read_toml, to_table, write_toml
from nmtkit.errors import UserError


@dataclass(frozen=True)
class Inner:
    order: Literal["main-text", "appendix", 1] = "main-text"
    sizes: tuple[int, ...] = (1, 2)
    pair: tuple[str, float] = ("a", 0.5)


@dataclass(frozen=True)
class Settings:
    hidden: int
    name: str = "x"
    rate: float = 0.1
    fast: bool = False
    path: Path | None = None
    limit: int | None = None
    either: int | str = 0
    number: float | int = 0
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    weights: dict[str, float] = field(default_factory=dict)
    layers: tuple[Inner, ...] = ()
    derived: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        if self.hidden < 0:
            raise ValueError(f"hidden must not be negative, got {self.hidden}")


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)  # TOML promises no more
NUMBERS = st.floats(allow_nan=False)
INNERS = st.builds(
    Inner,
    order=st.sampled_from(["main-text", "appendix", 1]),
    sizes=st.lists(INTEGERS).map(tuple),
    pair=st.tuples(TEXT, NUMBERS),
)
SETTINGS = st.builds(
    Settings,
    hidden=st.integers(0, 2**63 - 1),
    name=TEXT,
    rate=NUMBERS,
    fast=st.booleans(),
    path=st.none() | st.sampled_from([Path("a b/c"), Path("/x"), Path()]),
    limit=st.none() | INTEGERS,
    either=INTEGERS | TEXT,
    number=INTEGERS | NUMBERS,
    inner=INNERS,
    maybe=st.none() | INNERS,
    weights=st.dictionaries(TEXT, NUMBERS),
    layers=st.lists(INNERS, max_size=2).map(tuple),
)


def typed(value: Any) -> Any:
    """The value with the type of every leaf, as 1 == 1.0 == True."""
    if isinstance(value, (tuple, list)):
        return [type(value), *map(typed, value)]
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if hasattr(value, "__dict__") and not isinstance(value, Path):
        return typed(vars(value))
    return type(value), value


@given(SETTINGS)
def test_build_undoes_to_table(settings):
    assert typed(build(Settings, to_table(settings), "[all]")) == typed(settings)


@given(SETTINGS)
def test_round_trip_through_a_file(tmp_path_factory, settings):
    path = tmp_path_factory.getbasetemp() / "config.toml"
    write_toml(path, to_table(settings))
    assert typed(build(Settings, read_toml(path), "[all]")) == typed(settings)


def test_an_integer_may_stand_for_a_float():
    assert typed(build(Settings, {"hidden": 1, "rate": 2}, "").rate) == (float, 2.0)


def test_defaults_fill_what_is_left_out():
    assert build(Settings, {"hidden": 4}, "[model]") == Settings(hidden=4)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"hiden": 1}, "unknown key in [model] 'hiden': did you mean 'hidden'?"),
        ({"hidden": 1, "derived": 8}, "unknown key in [model] 'derived'"),
        ({}, "[model]: hidden is missing: it must be an integer"),
        ({"hidden": True}, "[model]: hidden must be an integer, not true"),
        ({"hidden": 1.0}, "[model]: hidden must be an integer, not 1.0"),
        ({"hidden": "1"}, "[model]: hidden must be an integer, not '1'"),
        ({"hidden": {}}, "[model]: hidden must be an integer, not a table"),
        ({"hidden": 1, "fast": 1}, "[model]: fast must be true or false, not 1"),
        ({"hidden": 1, "rate": False}, "[model]: rate must be a number, not false"),
        ({"hidden": 1, "rate": 10**400}, "[model]: rate is an integer of more than 64 bits"),
        ({"hidden": 1, "name": 5}, "[model]: name must be a string, not 5"),
        ({"hidden": 1, "path": 5}, "[model]: path must be a path in quotes, not 5"),
        ({"hidden": 1, "limit": "no"}, "[model]: limit must be an integer, not 'no'"),
        ({"hidden": 1, "either": 0.5}, "[model]: either must be an integer or a string, not 0.5"),
        ({"hidden": 1, "either": True}, "[model]: either must be an integer or a string, not true"),
        ({"hidden": 1, "inner": 5}, "[model]: inner must be a table, not 5"),
        ({"hidden": 1, "inner": {"ordr": 1}}, "unknown key in [model.inner] 'ordr'"),
        ({"hidden": 1, "maybe": {"ordr": 1}}, "unknown key in [model.maybe] 'ordr'"),
        (
            {"hidden": 1, "inner": {"order": "apendix"}},
            "unknown order in [model.inner] 'apendix': did you mean 'appendix'?",
        ),
        (
            {"hidden": 1, "inner": {"order": True}},
            "[model.inner]: order must be one of 'main-text', 'appendix', 1, not true",
        ),
        ({"hidden": 1, "inner": {"sizes": 3}}, "sizes must be a list of integers, not 3"),
        ({"hidden": 1, "inner": {"sizes": [3, "4"]}}, "sizes[1] must be an integer, not '4'"),
        ({"hidden": 1, "inner": {"pair": ["a"]}}, "pair must be a list of a string and a number"),
        ({"hidden": 1, "weights": {"a": "b"}}, "weights.a must be a number, not 'b'"),
        ({"hidden": 1, "layers": [{"order": 4}]}, "order must be one of"),
        ({"hidden": -1}, "[model]: hidden must not be negative, got -1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(table, message):
    with pytest.raises(UserError) as caught:
        build(Settings, table, "[model]")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_may_be_a_file():
    with pytest.raises(UserError, match=r"unknown key in recipe\.toml \[inner\] 'x'"):
        build(Settings, {"hidden": 1, "inner": {"x": 1}}, "recipe.toml")


def test_none_that_is_not_the_default_cannot_be_written():
    @dataclass(frozen=True)
    class Loud:
        limit: int | None = 3

    with pytest.raises(TypeError, match="limit is None"):
        to_table(Loud(limit=None))


@pytest.mark.parametrize("value", [b"x", 1j, {1, 2}, (None,)])
def test_a_value_that_toml_has_not_is_a_bug(value):
    with pytest.raises(TypeError, match="name is"):
        to_table(Settings(hidden=1, name=value))


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("a.b=512", 512),
        ("a.b = -1e-3", -0.001),
        ("a.b=true", True),
        ("a.b=inf", math.inf),
        ("a.b=main-text", "main-text"),
        ('a.b="512"', "512"),
        ("a.b=[1, 2]", [1, 2]),
        ("a.b=", ""),
        ("a.b=/data/x=y.txt", "/data/x=y.txt"),
        ("a.b=2026-11-29", "2026-11-29"),
        ("a.b=1\nc = 2", "1\nc = 2"),
        ("a.b=True", "True"),
    ],
)
def test_override_reads_values_as_toml(assignment, value):
    table = {"a": {"b": 0, "c": 1}, "d": 2}
    changed = override(table, [assignment])
    assert typed(changed) == typed({"a": {"b": value, "c": 1}, "d": 2})
    assert table == {"a": {"b": 0, "c": 1}, "d": 2}


def test_override_goes_from_left_to_right_and_makes_tables():
    assert override({}, ["a.b.c=1", "a.b.c=2", "d=x"]) == {"a": {"b": {"c": 2}}, "d": "x"}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("a.b", "write it as key=value"),
        ("=1", "write it as key=value"),
        ("a..b=1", "write it as key=value"),
        ("d.e=1", "'d' is a value, not a table"),
        ("d=[1, 2", "not a TOML value"),
        ('d="x', "not a TOML value"),
    ],
)
def test_override_refuses(assignment, message):
    with pytest.raises(UserError, match=message):
        override({"d": 2}, [assignment])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = 1\nb = \nc = 2\n", "bad.toml:2: not valid TOML: Invalid value"),
        (b"a = 1\n\n[b\n", "bad.toml:3: not valid TOML"),
        (b"a = 1\na = 2\n", "bad.toml:2: not valid TOML"),
        (b'a = 1\nb = """x\n', "bad.toml:2: not valid TOML"),
        (b"a = 1\n# \xff\n", "bad.toml: not UTF-8 at byte 8"),
    ],
)
def test_read_toml_names_file_and_line(tmp_path, content, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_toml(path)
    assert message in str(caught.value)


def test_read_toml_without_a_file(tmp_path):
    with pytest.raises(UserError, match=r"cannot read settings .*missing\.toml"):
        read_toml(tmp_path / "missing.toml")
    with pytest.raises(UserError, match="cannot read settings"):
        read_toml(tmp_path)


def test_read_toml_forgives_a_byte_order_mark_and_windows_line_ends(tmp_path):
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\n[b]\r\nc = 2\r\n")
    assert read_toml(path) == {"a": 1, "b": {"c": 2}}
