"""Whatever has a file's form is read, or refused by a UserError: nothing else comes out."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtkit.checkpoint import read_tensors
from nmtkit.config import build, read_toml, to_table, write_toml
from nmtkit.corpus import read_lines
from nmtkit.corpus.tmx import read_tmx
from nmtkit.curves import read_metrics, series
from nmtkit.data import MANIFEST, PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.files import read_json
from nmtkit.links import FORMATS, LinkedPair
from nmtkit.links.files import read_items, write_pairs
from nmtkit.models import ARCHITECTURES
from nmtkit.text.bpe import BytePairs, check_codes
from nmtkit.text.casing import Truecaser
from nmtkit.train import EMConfig, TrainingConfig
from nmtkit.vocabulary import SPECIALS, Vocabulary
from tests.hostile import SPICE

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.sampled_from([0, 1, -1, 1000, 2**31, 2**63, 10**400, 1e308])
)
SCALARS = st.one_of(
    st.booleans(), NUMBERS, st.text(max_size=6), st.sampled_from(["", "../x", "/x"])
)
TREES = st.recursive(
    SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
CONFIGS = [*(one.config for one in ARCHITECTURES.values()), TrainingConfig, EMConfig]
# Files are written anew by every example, into the same folder.
FILES = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def lines_of(alphabet: list[str], odd: int = 20) -> st.SearchStrategy[bytes]:
    """Lines of words of a format, a few other characters, and a byte here and there."""
    words = st.sampled_from(alphabet) | st.text(SPICE, max_size=3)
    text = st.lists(st.lists(words, max_size=8).map(" ".join), max_size=6).map("\n".join)
    return st.one_of(text, text.map(lambda t: f"{t}\n"), st.text()).map(
        lambda t: t.encode("utf-8", "surrogatepass")
    ) | st.binary(max_size=odd)


def read(reader: Any, *arguments: Any) -> Any:
    """What the reader makes of a file; None where it refuses it."""
    with contextlib.suppress(UserError):
        return reader(*arguments)
    return None


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.__name__)
@FILES
@given(data=st.data())
def test_settings(config, data, tmp_path):
    names = st.sampled_from([field.name for field in fields(config)]) | st.text(max_size=3)
    inside = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
    table = data.draw(st.dictionaries(names, inside, max_size=4))
    chosen = read(build, config, table, "[model]")
    if chosen is not None:
        write_toml(tmp_path / "a.toml", to_table(chosen))
        assert build(config, read_toml(tmp_path / "a.toml"), "[model]") == chosen


@FILES
@given(
    content=lines_of(
        ["a", "=", "a=1", "[a]", "[[a]]", "{", "}", "[", "]", "1", "1e999", '"', "'''", "a.b=", "#"]
    )
)
def test_toml(content, tmp_path):
    (tmp_path / "a.toml").write_bytes(content)
    assert isinstance(read(read_toml, tmp_path / "a.toml") or {}, dict)


ALPHABETS = {
    "pharaoh": ["0-0", "1-2", "99999-0", "100000-0", "0p1", "-1-0", "0-", "٣-1", "9" * 5000 + "-1"],
    "talp": ["0-0", "1p2", "3?4", "0x1", "0--1"],
    "naacl": ["1", "2", "0", "0001", "S", "P", "0.5", "nan", "1e9", "99999", "200000", "9" * 5000],
    "giza": [
        *("# Sentence pair (1) source length 1 target length 1 alignment score : 1\na\nNULL"),
        *("# Sentence pair (2) source length 0 target length 1", "NULL", "({", "})", "1", "0", "a"),
        "NULL ({ 1 }) a ({ })",
    ],
    "symal": ["1", "2", "#", "a", "0", "1 a # 1", "1\n1 a # 1\n1 a # 0", "-1", "9" * 5000],
    "json": [
        *('{"sure": [[0, 0]]}', '{"sure":', "[[0,", "0]]}", '{"source": ["a"], "target": ["b"]}'),
        *('{"sure": [[0, 0, 0.5]], "possible": [[1, 1]]}', "1e999", "NaN", "[" * 5000, '{"a": 1}'),
    ],
}


@pytest.mark.parametrize("name", FORMATS)
@FILES
@given(data=st.data())
def test_links(name, data, tmp_path):
    (tmp_path / "links").write_bytes(data.draw(lines_of(ALPHABETS[name])))
    found = read(lambda: list(read_items(tmp_path / "links", name))) or []
    assert all(isinstance(one, LinkedPair | UserError) for one in found)
    pairs = [one for one in found if isinstance(one, LinkedPair)][:50]
    written = io.StringIO()
    write_pairs(written, pairs, "json")
    (tmp_path / "json").write_text(written.getvalue(), encoding="utf-8")
    again = list(read_items(tmp_path / "json", "json"))
    assert [one.gold for one in again] == [one.gold for one in pairs]  # type: ignore[union-attr]


XML = [
    *("<tu>", "</tu>", "<tuv>", "</tuv>", "<seg>", "</seg>", "<hi>", "</hi>", "<ph/>", "<bpt>"),
    *("<tuv xml:lang='aa'>", "<tuv lang='ZZ-x'>", "</bpt>", "&amp;", "&x;", "<!--", "-->", "<?x?>"),
    *("<![CDATA[", "]]>", "<tmx>", "</tmx>", "<tu><tuv xml:lang='aa'><seg>a</seg></tuv>"),
]


@FILES
@given(
    pieces=st.lists(st.sampled_from(XML) | st.text(SPICE, max_size=4), max_size=20),
    start=st.sampled_from(["<tmx>", "<?xml version='1.0'?><tmx>", "<!DOCTYPE tmx><tmx>", ""]),
)
def test_translation_memories(pieces, start, tmp_path):
    (tmp_path / "a.tmx").write_text(start + "".join(pieces), "utf-8", "surrogatepass")
    for pair in read(lambda: list(read_tmx(tmp_path / "a.tmx", "aa", "zz"))) or []:
        assert len(pair) == 2
        assert all(isinstance(side, str) for side in pair)


@FILES
@given(
    lines=st.lists(st.text(SPICE, max_size=5), max_size=4),
    place=st.integers(0),
    bit=st.integers(0, 7),
)
def test_gzip_with_a_flipped_bit(lines, place, bit, tmp_path):
    content = bytearray(gzip.compress("\n".join(lines).encode(), mtime=0))
    content[place % len(content)] ^= 1 << bit
    (tmp_path / "a.gz").write_bytes(content)
    with contextlib.suppress(UserError):
        list(read_lines(tmp_path / "a.gz"))


@FILES
@given(lines=st.lists(TREES, max_size=4))
def test_metrics(lines, tmp_path):
    records = [{"update": one, "train_loss": one} for one in lines]
    text = "".join(json.dumps(record) + "\n" for record in [*records, *lines[:1]])
    (tmp_path / "metrics.jsonl").write_text(text, "utf-8", "surrogatepass")
    steps, values = series(read(read_metrics, tmp_path) or [], "train_loss")
    assert len(steps) == len(values)
    assert all(map(math.isfinite, [*steps, *values]))


@FILES
@given(
    content=lines_of(["a", "b", "1", "<pad>\t0", "a\t1", "\t", "a (1/1)", "(1)", "#version: 0.2"])
)
def test_text_sides(content, tmp_path):
    """Vocabulary, truecaser and codes come back as they were read."""
    path = tmp_path / "file"
    specials = "".join(f"{special}\t0\n" for special in SPECIALS).encode()
    for reader in (Vocabulary.load, Truecaser.load):
        path.write_bytes((specials if reader == Vocabulary.load else b"") + content)
        found = read(reader, path)
        if found is not None:
            found.save(tmp_path / "again")
            assert reader(tmp_path / "again") == found
    codes = "#version: 0.2\n" + content.decode("utf-8", "replace")
    try:
        check_codes(codes, "here")
    except UserError:
        return
    assert "".join(BytePairs(codes).split("aab")).replace("@@", "") == "aab"


HEADERS = st.dictionaries(
    st.sampled_from(["a", "b", "__metadata__"]) | st.text(max_size=3),
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "I64", "BOOL", "BF16", "F8_E4M3", "C64", "U64", "X"]),
            "shape": st.lists(st.sampled_from([0, 1, 2, 2**32, 2**63, -1]), max_size=3),
            "data_offsets": st.lists(st.sampled_from([0, 4, 8, 2**40, -1]), min_size=2, max_size=2),
        }
    )
    | st.dictionaries(st.sampled_from(["sha256", "x"]), st.text(max_size=3))
    | TREES,
    max_size=3,
)


@FILES
@given(
    header=HEADERS | TREES,
    data=st.binary(max_size=16),
    length=st.none() | st.integers(0, 2**64 - 1),
)
def test_safetensors(header, data, length, tmp_path):
    text = json.dumps(header).encode()
    stated = (len(text) if length is None else length).to_bytes(8, "little")
    (tmp_path / "a.safetensors").write_bytes(stated + text + data)
    found = read(read_tensors, tmp_path / "a.safetensors", torch.device("cpu")) or {}
    assert sum(tensor.nbytes for tensor in found.values()) <= len(data)


@FILES
@given(key=st.sampled_from(["train", "valid", "sha256", "format", "source_language"]), value=TREES)
def test_manifests(key, value, micro, tmp_path):
    folder = tmp_path / "data"
    if not folder.exists():
        shutil.copytree(micro, folder)
    table = read_json(Path(micro) / MANIFEST, "")
    inner = table.get(key)
    if isinstance(inner, dict) and isinstance(value, dict):
        value = {**inner, **{(name or min(inner)): v for name, v in value.items()}}
    table[key] = value
    (folder / MANIFEST).write_text(json.dumps(table), "utf-8", "surrogatepass")
    corpus = read(PreparedCorpus.open, folder)
    assert corpus is None or len(corpus.train) <= 60
