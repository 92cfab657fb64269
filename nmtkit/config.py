"""TOML to and from any frozen dataclass, strictly. Knows no particular dataclass.

A field may be bool, int, float, str, Path, a Literal, a tuple, a dict with string keys, a nested
dataclass (a sub-table), or a union of these, None included. None is written by leaving the key out.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

import tomli_w

from nmtkit.errors import UserError, unknown
from nmtkit.files import atomic_writer

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")
Table = dict[str, Any]
LARGEST = 1 << 18  # characters of a file of settings
DOTS = 100  # in a line of it
DEEPEST = 20  # tables or lists within each other

NAMES: dict[Any, tuple[str, str]] = {  # how a type is called in an error, singular and plural
    bool: ("true or false", "true or false values"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    Path: ("a path in quotes", "paths"),
}


class Mismatch(Exception):
    """The value's type is wrong; only seen inside this module."""


def read_toml(path: Path) -> Table:
    """The table in the file ``path``.

    Raises UserError when it is missing, not UTF-8, or not TOML; the last with the line's number.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read settings {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start} of the file") from error
    if len(text) > LARGEST or any(line.count(".") > DOTS for line in text.split("\n")):
        # The parser's memory grows with the square of the length of a dotted key.
        raise UserError(
            f"{path}: more than {LARGEST} characters, or {DOTS} dots in a line: no settings are so"
        )
    try:
        table: Table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, or a number of 5000 digits
        found = re.search(r" \(at line (\d+), column \d+\)$", str(error))
        line = int(found[1]) if found else text.rstrip("\n").count("\n") + 1
        message = str(error)[: found.start()] if found else str(error)
        raise UserError(f"{path}:{line}: not valid TOML: {message}") from error
    if _is_deep(table):
        raise UserError(f"{path}: more than {DEEPEST} tables within each other: no settings are so")
    return table


def _is_deep(table: Table) -> bool:
    """Whether tables or lists lie so deep within each other that functions that call themselves
    could not follow.
    """
    level: list[Any] = [table]
    for _ in range(DEEPEST):
        inner = [v for one in level for v in (one.values() if isinstance(one, dict) else one)]
        level = [value for value in inner if isinstance(value, dict | list)]
    return bool(level)


def write_toml(path: Path, table: Table) -> None:
    """Write ``table`` to ``path`` in one piece."""
    with atomic_writer(path) as file:
        file.write(tomli_w.dumps(table))


def build(cls: type[T], table: Table, where: str) -> T:
    """An instance of the dataclass ``cls`` from ``table``; ``where`` names the table ("[model]").

    Nothing is guessed: true is not 1 and "1" is not 1. Only an integer may stand for a float.

    Raises UserError for an unknown or missing key, a value of the wrong type, one that is not among
    a Literal's choices, and a ValueError of the dataclass's own checks.
    """
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, cls))}
    settable = {name: field for name, field in fields.items() if field.init}
    for key in table:
        if key not in settable:
            raise unknown(f"key in {where}", key, settable)
    values = {}
    for name, field in settable.items():
        if name in table:
            values[name] = _value(hints[name], table[name], where, name)
        elif _required(field):
            raise UserError(f"{where}: {name} is missing: it must be {describe(hints[name])}")
    try:
        return cls(**values)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def to_table(settings: Any) -> Table:
    """The table that ``build`` makes an equal instance of.

    Raises TypeError for a value that no table can hold, and for None where the default is not None
    (leaving the key out would give the default).
    """
    table = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if not field.init:
            continue
        if value is not None:
            table[field.name] = _plain(value, field.name)
        elif field.default is not None:
            raise TypeError(f"{field.name} is None, which TOML cannot say, and not so by default")
    return table


def override(table: Table, assignments: Iterable[str]) -> Table:
    """A copy of ``table`` with assignments like "model.hidden=512" carried out in their order.

    A value is read as TOML; what is not TOML, such as a bare word or a path, is a string.

    Raises UserError for an assignment without "=", an empty key, a key inside something that is
    not a table, or a value with unfinished quotes or brackets.
    """
    result = copy.deepcopy(table)
    for assignment in assignments:
        dotted, equals, text = assignment.partition("=")
        keys = [key.strip() for key in dotted.split(".")]
        if not equals or not all(keys):
            raise UserError(f"cannot set {assignment!r}: write it as key=value or table.key=value")
        inner = result
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise UserError(f"cannot set {assignment!r}: {key!r} is a value, not a table")
        inner[keys[-1]] = _parse(text.strip(), assignment)
    return result


def describe(hint: Any, plural: bool = False) -> str:
    """What a field of this type must be, in the words of an error: "an integer"."""
    if hint in NAMES:
        return NAMES[hint][plural]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(arm, plural) for arm in arguments if arm is not type(None))
    if origin is tuple and arguments[1:] == (...,):
        return ("lists of " if plural else "a list of ") + describe(arguments[0], plural=True)
    if origin is tuple:
        return "a list of " + " and ".join(describe(argument) for argument in arguments)
    if origin is dict or dataclasses.is_dataclass(hint):
        return "tables" if plural else "a table"
    raise TypeError(f"settings cannot have a field of the type {hint}")


def _value(hint: Any, value: Any, where: str, name: str) -> Any:
    """``value`` as the type ``hint``, or a UserError that says what is expected."""
    try:
        return _convert(hint, value, where, name)
    except Mismatch:
        origin = typing.get_origin(hint)
        if origin is Literal and isinstance(value, str):
            choices = [str(choice) for choice in typing.get_args(hint)]
            raise unknown(f"{name} in {where}", value, choices) from None
        shown = "a table" if isinstance(value, dict) else _show(value)
        raise UserError(f"{where}: {name} must be {describe(hint)}, not {shown}") from None


def _convert(hint: Any, value: Any, where: str, name: str) -> Any:
    """``value`` as the type ``hint``; raises Mismatch when it is of another type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if type(value) is int and value.bit_length() > 63:
        raise UserError(f"{where}: {name} is an integer of more than 64 bits")
    if origin in (Union, types.UnionType):
        return _union(arguments, value, where, name)
    if origin is Literal:
        for choice in arguments:
            if type(choice) is type(value) and choice == value:
                return choice
        raise Mismatch
    if origin is tuple and isinstance(value, list):
        return _tuple(arguments, value, where, name)
    if origin is dict and isinstance(value, dict):
        return {
            key: _value(arguments[1], item, where, f"{name}.{key}") for key, item in value.items()
        }
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return build(typing.cast(Any, hint), value, _inside(where, name))
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is float and type(value) is int:
        return _float(value)
    if hint in NAMES and type(value) is hint:
        return value
    raise Mismatch


def _union(arms: tuple[Any, ...], value: Any, where: str, name: str) -> Any:
    """The first arm that fits; float last, so that 1 stays an integer where both are allowed."""
    for arm in sorted(arms, key=lambda arm: arm is float):
        try:
            return _convert(arm, value, where, name)
        except Mismatch:
            continue
    raise Mismatch


def _tuple(arguments: tuple[Any, ...], value: list[Any], where: str, name: str) -> tuple[Any, ...]:
    """A tuple of any length, or of just the length and types that the hint says."""
    if arguments[1:] == (...,):
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise Mismatch
    return tuple(
        _value(argument, item, where, f"{name}[{at}]")
        for at, (argument, item) in enumerate(zip(arguments, value, strict=True))
    )


def _float(value: int) -> float:
    """An integer as the float of the same value."""
    try:
        return float(value)
    except OverflowError:
        raise Mismatch from None


def _plain(value: Any, name: str) -> Any:
    """``value`` in the types that TOML has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_table(value)
    if isinstance(value, tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, name) for key, item in value.items()}
    if isinstance(value, Path):
        return str(value)
    if type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"{name} is {value!r}: settings cannot hold a {type(value).__name__}")


def _required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _inside(where: str, name: str) -> str:
    """The name of the sub-table ``name``: "[model]" -> "[model.name]"."""
    if where.endswith("]"):
        return f"{where[:-1]}.{name}]"
    return f"{where} [{name}]".lstrip()


def _show(value: Any) -> str:
    """``value`` as TOML has it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, (str, int, float, list)) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _parse(text: str, assignment: str) -> Any:
    """The TOML value ``text``, or the string itself where it is not one."""
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:
        if text[:1] in ("[", "{", '"', "'"):
            raise UserError(f"cannot set {assignment!r}: not a TOML value: {error}") from error
        return text
    value = table.pop("value")
    if table or not isinstance(value, (bool, int, float, str, list, dict)):
        return text  # a line break let in another key; or a date, which no setting is
    return value
