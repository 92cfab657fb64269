"""Changes that keep a file's form (JSON, TOML, safetensors, arrays, XML) and break its sense."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import safetensors.torch
import tomli_w
import torch
from torch import Tensor

from nmtkit.checkpoint import write_tensors
from tests.fuzz.mutations import DEEP, DIGITS, LONG, Mutation

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: In the place of these stands in the end what cannot be written otherwise.
WRITTEN = {"@digits@": DIGITS, "@deep@": b"[" * DEEP + b"]" * DEEP}
VALUES: list[Any] = [
    *(True, False, -1, 0, 1, 2, 3, 1000, 100_000, 10**9, 2**31, 2**63 - 1, 2**63, 2**64, 10**30),
    *(0.0, -0.5, 0.5, 1.0, 1e-320, 1e308, math.nan, math.inf, -math.inf),
    *("", "x", "true", "1", "x" * LONG, "\x00", "\x1b[31m\u2028", "e\u0301\U0010ffff"),
    *("../../outside/secret", "/etc/passwd", "../outside", ".", "nul.", "@digits@", "@deep@"),
    *([], {}, [1, 2], ["x"], [[]], {"x": 1}),
]
JSON_ONLY: list[Any] = [None, "\ud800", [None], {"": None}]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree with each of its keys."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(min(len(value), 50)))
    found = [(value, key) for key in keys]
    for key in keys:
        found += _places(value[key])
    return found


def change_tree(tree: Any, draw: Random, values: list[Any]) -> Any:
    """The tree with one place changed."""
    places = _places(tree)
    if not places or draw.random() < 0.03:
        return draw.choice(values)
    container, key = draw.choice(places)
    what = draw.randrange(6)
    if what <= 2:
        container[key] = draw.choice(values)
    elif what == 3:
        del container[key]
    elif what == 4:
        other, place = draw.choice(places)
        container[key], other[place] = other[place], container[key]
    elif isinstance(container, dict):
        container[draw.choice(("x", "", f"{key} ", str(key).upper(), "a.b"))] = container[key]
    else:
        container.append(container[key])
    return tree


def _written(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    for name, put in WRITTEN.items():
        content = content.replace(b'"%s"' % name.encode(), put)
    return content


def _json(tree: Any) -> bytes:
    return _written(json.dumps(tree))


def json_tree(content: bytes, draw: Random) -> bytes:
    try:
        tree = json.loads(content)
        for _ in range(draw.choice((1, 1, 2))):
            tree = change_tree(tree, draw, VALUES + JSON_ONLY)
        return _json(tree)
    except (ValueError, RecursionError):  # another mutation came first
        return content


def json_line(content: bytes, draw: Random) -> bytes:
    lines = content.split(b"\n")
    place = draw.randrange(len(lines))
    lines[place] = json_tree(lines[place], draw)
    return b"\n".join(lines)


def toml_tree(content: bytes, draw: Random) -> bytes:
    try:
        tree = tomllib.loads(content.decode())
        for _ in range(draw.choice((1, 1, 2))):
            tree = change_tree(tree, draw, VALUES)
        return _written(tomli_w.dumps(tree))
    except (ValueError, RecursionError, TypeError, AttributeError):
        return content


def toml_text(content: bytes, draw: Random) -> bytes:
    odd = draw.choice(
        (
            b"a = " + b"[" * DEEP,
            b"a = " + b"{a = " * DEEP,
            b"a." * DEEP + b"a = 1",
            b"[" + b"a." * DEEP + b"a]",
            b"a = 0000-00-00",
            b"a = 9999-99-99T99:99:99Z",
            b"a = " + DIGITS,
            b"a = 1e" + DIGITS,
            b"a = 0x" + DIGITS,
            b'a = "\\ud800"',
            b'a = "\\U00110000"',
            b"model = 1",
            b"[[model]]",
            b"[model]",
            b'preset = "tiny"',
            b"preset = 1",
            b'preset = "../x"',
        )
    )
    return draw.choice((content + b"\n" + odd + b"\n", odd + b"\n" + content))


# ------------------------------------------------------------------------------------ safetensors

KINDS = (
    "BOOL U8 I8 I16 U16 F16 BF16 I32 U32 F32 F64 I64 U64 F8_E4M3 F8_E5M2 F4 C64 F6_E2M3 X".split()
)
SIZES: list[Any] = [0, 1, 3, -1, 2**31, 2**32, 2**63, 2**64 - 1, 2**64, 0.5, "1", None, [1]]


def tensors_header(content: bytes, draw: Random) -> bytes:
    """Types, shapes and places that the data have not."""
    length = int.from_bytes(content[:8], "little")
    try:
        table = json.loads(content[8 : 8 + length])
        name = draw.choice(sorted(table))
        entry = table[name]
        what = draw.randrange(6)
        if what == 0 and name != "__metadata__":
            entry["dtype"] = draw.choice(KINDS)
        elif what == 1 and name != "__metadata__":
            shape = entry["shape"]
            shape[draw.randrange(len(shape)) if shape else slice(0)] = draw.choice(SIZES)
        elif what == 2 and name != "__metadata__":
            entry["data_offsets"][draw.randrange(2)] = draw.choice(SIZES)
        elif what == 3:
            table[draw.choice(("", "x", f"{name}x", "lexicon.keys", "__metadata__"))] = entry
        else:
            table = change_tree(table, draw, VALUES + JSON_ONLY)
        header = _json(table)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return content
    stated = draw.choice((len(header), len(header), len(header), draw.choice((0, 1, 2**40, 2**63))))
    return stated.to_bytes(8, "little") + header + content[8 + length :]


def _odd_numbers(tensor: Tensor, draw: Random) -> Tensor:
    flat = tensor.clone().reshape(-1)
    kinds: tuple[float, ...] = (0, 1, -1)
    if tensor.is_floating_point():
        kinds = (math.nan, math.inf, -math.inf, 1e30, -1e30, 1e-40, 0.0, -1.0)
    elif tensor.dtype == torch.int64:
        kinds = (0, -1, 1, 2**31, 2**63 - 1, -(2**63))
    for _ in range(draw.choice((1, 3, len(flat))) if len(flat) else 0):
        flat[draw.randrange(len(flat))] = draw.choice(kinds)
    return flat.reshape(tensor.shape)


CHANGES: list[Callable[[Tensor, Random], Tensor]] = [
    _odd_numbers,
    _odd_numbers,
    lambda tensor, draw: tensor.reshape(-1),
    lambda tensor, draw: tensor.reshape(1, *tensor.shape),
    lambda tensor, draw: tensor[:0] if tensor.dim() else tensor.reshape(1),
    lambda tensor, draw: tensor[:1].reshape(-1)[0] if tensor.numel() else tensor,
    lambda tensor, draw: torch.cat([tensor, tensor]) if tensor.dim() else tensor,
    lambda tensor, draw: tensor.t().contiguous() if tensor.dim() == 2 else tensor.flip(0),
    lambda tensor, draw: tensor.to(draw.choice((torch.float64, torch.bfloat16, torch.int64))),
    lambda tensor, draw: tensor.to(draw.choice((torch.bool, torch.uint8, torch.complex64))),
    lambda tensor, draw: (
        tensor * draw.choice((0, 1e30, -1)) if tensor.dtype.is_floating_point else tensor
    ),
]


def change_tensors(path: Any, draw: Random) -> None:
    """Rewrite a whole file, sealed, with other tensors or numbers."""
    try:
        tensors = safetensors.torch.load(path.read_bytes())
    except Exception:
        return
    for _ in range(draw.choice((1, 1, 2))):
        if not tensors:
            return
        name, other = draw.choice(sorted(tensors)), draw.choice(sorted(tensors))
        what = draw.randrange(8)
        if what == 0:
            del tensors[name]
        elif what == 1:
            odd = draw.choice(("x", name + ".x", "0.step", "99999999999.step", "1.x", "-1.x"))
            tensors[odd] = tensors[name].clone()
        elif what == 2:
            tensors[name], tensors[other] = tensors[other].clone(), tensors[name].clone()
        else:
            try:
                tensors[name] = draw.choice(CHANGES)(tensors[name], draw)
            except (RuntimeError, IndexError):  # no such change of this shape
                continue
    write_tensors(path, tensors)


# ----------------------------------------------------------------------------------------- arrays


def array(kind: str) -> list[Mutation]:
    """Changes of an array of this type (as NumPy calls it), its length kept."""
    dtype = np.dtype(kind)
    limits = np.iinfo(dtype)
    odd = [0, 1, 2, 3, 4, -1, 59, 60, 100, 10**6, limits.max, limits.min]

    def read(content: bytes) -> Any:
        whole = len(content) // dtype.itemsize * dtype.itemsize
        return np.frombuffer(content[:whole], dtype).copy()

    def odd_numbers(content: bytes, draw: Random) -> bytes:
        found = read(content)
        for _ in range(draw.choice((1, 1, 5)) if len(found) else 0):
            place = draw.choice((0, len(found) - 1, draw.randrange(len(found))))
            found[place] = draw.choice(odd)
        return bytes(found.tobytes())

    def moved(content: bytes, draw: Random) -> bytes:
        found = read(content)
        changed = draw.choice((found[::-1], np.roll(found, 1), np.sort(found), found * 2))
        return bytes(changed.tobytes())

    return [odd_numbers, odd_numbers, moved]


# -------------------------------------------------------------------------------------------- XML

BILLION = b"".join(
    b'<!ENTITY a%d "%s">' % (n, (b"&a%d;" % (n - 1)) * 10 if n else b"ha" * 10) for n in range(12)
)
DECLARED = [
    b'<?xml version="1.0"?>',
    b'<?xml version="1.0" encoding="utf-16"?>',
    b'<?xml version="1.0" encoding="latin-1"?>',
    b'<?xml version="1.0" encoding="utf-7"?>',
    b'<?xml version="1.0" encoding="idna"?>',
    b'<?xml version="1.0" encoding="zip"?>',
    b'<?xml version="1.0" encoding="shift_jis"?>',
    b'<?xml version="1.0" encoding="x\xff"?>',
    b'<?xml version="9" encoding=""?>',
    b"<!DOCTYPE tmx [" + BILLION + b"]>",
    b'<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
    b'<!DOCTYPE tmx SYSTEM "http://127.0.0.1:9/tmx14.dtd">',
    b'<!DOCTYPE tmx [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]>',
    b'<!DOCTYPE tmx [<!ENTITY a0 "&a0;">]>',
    b'<!DOCTYPE tmx [<!ATTLIST tuv xml:lang CDATA "aa">]>',
    b'<!DOCTYPE tmx [<!ATTLIST tuv x CDATA "' + b"x" * LONG + b'">]>',
]
INNER = [
    *(b"&a11;", b"&a;", b"&a0;", b"&nbsp;", b"&#0;", b"&#x110000;", b"&#xd800;", b"&lt;", b"&"),
    *(b"<![CDATA[x]]>", b"<![CDATA[", b"<!--", b"-->", b"<?x y?>", b"]]>", b"<hi>", b"</hi>"),
    *(b"<bpt>x</bpt>", b"</bpt>", b"<ph>", b"<seg>", b"</seg>", b"<tu>", b"</tu>", b"<tuv>"),
    b"<seg>" * DEEP,
    b"<hi>" * DEEP,
    b"<tu>" * DEEP,
    b"<ph>" * DEEP + b"</ph>" * DEEP,
    b"<x y='" + b"z" * LONG + b"'/>",
    b"".join(b"<x%d/>" % n for n in range(3000)),
    b"<x " + b"".join(b"y%d='' " % n for n in range(3000)) + b"/>",
]


def xml_start(content: bytes, draw: Random) -> bytes:
    head, _, rest = content.partition(b"<tmx")
    put = draw.choice(DECLARED)
    start = draw.choice((b"", head)) + put + b"\n"
    return start + b"<tmx" + rest


def xml_inner(content: bytes, draw: Random) -> bytes:
    places = [n for n in range(len(content)) if content[n : n + 1] in b"<>"] or [0]
    place = draw.choice(places) + draw.randrange(2)
    return content[:place] + draw.choice(INNER) + content[place:]


def xml_both(content: bytes, draw: Random) -> bytes:
    return xml_start(xml_inner(content, draw), draw)


def other_encoding(content: bytes, draw: Random) -> bytes:
    text = content.decode("utf-8", "replace")
    codec = draw.choice(("utf-16", "utf-32", "utf-16-le", "utf-7", "cp037"))
    return text.encode(codec, "ignore")


XML: list[Mutation] = [xml_start, xml_inner, xml_inner, xml_both, other_encoding]
