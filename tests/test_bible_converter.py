"""recipes/bible-grc-en/convert.py, on a wheel of a few made-up verses."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

RECIPE = Path(__file__).parent.parent / "recipes" / "bible-grc-en"

# Chapters of the 27 books from Matthew (40) to Revelation (66).
CHAPTERS = [28, 16, 24, 21, 28, 16, 16, 13, 6, 6, 4, 4, 5, 3, 6, 4, 3, 1, 13, 5, 5, 3, 5, 1, 1]
CHAPTERS += [1, 22]
DEV = """40002 40003 40007 40014 40023 40024 40026 41014 42010 42013 42019 43006 43012 44010 44012
44014 44015 44028 46003 46007 47011 55002 55003 66005 66009 66022"""  # as published with the data

SOURCE = [  # id, text, lemma
    ("n40001001001", "Βίβλος", "βίβλος"),
    ("n40001001002", "γενέσεως", "γένεσις"),
    ("n40001002001", "δὲ", "δέ"),
    ("n40001003001", "καὶ", "καί"),
    ("n40001004001", "λέγει", "λέγω"),
    ("n40001005001", "ναί", "ναί"),
    ("n40001006001", "αὐτός", "αὐτός"),
    ("n40001008001", "ἐγώ", "ἐγώ"),
]
TARGET = [  # id, source_verse, text
    ("40001001001", "40001001", '"'),
    ("40001001002", "40001001", "The"),
    ("40001001003", "40001001", "book"),
    ("40001002001", "40001002", "But"),
    ("40001002002", "40001003", "and"),
    ("40001002003", "40001003", ","),
    ("40001004001", "40001004", "says"),
    ("40001005001", "40001005", "nobody"),
    ("40001007001", "40001007", "extra"),
    ("40001008001", "40001008", "I"),
]
LINKS = [
    (["n40001001001", "n40001001002"], ["40001001003", "40001001002"]),
    (["n40001001001"], ["40001001003"]),  # again
    (["n40001002001"], ["40001002001"]),
    (["n40001003001"], ["40001002002"]),
    (["n40001004001"], ["40001004001", "40001002001"]),  # from verse 4 to verse 2
    (["n40001008001"], ["40001008001"]),
]


def write_wheel(path, links=LINKS):
    with zipfile.ZipFile(path, "w") as archive:
        source = ["id\taltId\ttext\tlemma", *(f"{i}\tx-1\t{t}\t{lemma}" for i, t, lemma in SOURCE)]
        target = ["id\tsource_verse\ttext\texclude", *("\t".join([*row, ""]) for row in TARGET)]
        archive.writestr("data/sources/SBLGNT.tsv", "\n".join([*source, ""]))
        archive.writestr("data/eng/targets/BSB/nt_BSB.tsv", "\n".join([*target, ""]))
        records = [{"source": source, "target": target} for source, target in links]
        archive.writestr(
            "data/eng/alignments/BSB/SBLGNT-BSB-manual.json", json.dumps({"records": records})
        )


@pytest.fixture
def convert(monkeypatch):
    monkeypatch.syspath_prepend(RECIPE)
    return importlib.import_module("convert")


def run(*arguments):
    command = [sys.executable, RECIPE / "convert.py", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_files(tmp_path):
    write_wheel(tmp_path / "x.whl")
    done = run(tmp_path / "x.whl", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    # One chapter: all in train. Verses 5 (no links), 6 (no English), 7 (no Greek) are left out.
    # Verses 2 and 4 are joined although 3 lies between them.
    expected = {
        "train.ids": "40001001\n40001002+40001004\n40001003\n40001008\n",
        "train.grc": "Βίβλος γενέσεως\nδὲ λέγει\nκαὶ\nἐγώ\n",
        "train.lemma.grc": "βίβλος γένεσις\nδέ λέγω\nκαί\nἐγώ\n",
        "train.en": '" The book\nBut says\nand ,\nI\n',
        "train.gold": "0-1 0-2 1-1 1-2\n0-0 1-0 1-1\n0-0\n0-0\n",
    }
    for split in ("dev", "test"):
        expected |= {name.replace("train", split): "" for name in expected if "train" in name}
    written = {path.name: path.read_bytes().decode() for path in (tmp_path / "data").iterdir()}
    assert written == expected
    assert "train: 4 segments, 6 Greek and 8 English tokens, 9 links" in done.stderr


def test_three_verses_in_a_chain_are_one(convert):
    verses = ["1", "2", "3", "4", "5"]
    assert convert.join_verses(verses, [("1", "2"), ("4", "4"), ("5", "2")]) == [
        ["1", "2", "5"],
        ["3"],
        ["4"],
    ]


def test_the_split_is_the_published_one(convert):
    chapters = [
        f"{book:02}{chapter:03}"
        for book, count in enumerate(CHAPTERS, start=40)
        for chapter in range(1, count + 1)
    ]
    assert len(chapters) == 260
    split = convert.split_chapters(reversed(chapters))
    assert sorted(name for name in split if split[name] == "dev") == DEV.split()
    assert [list(split.values()).count(name) for name in ("train", "dev", "test")] == [208, 26, 26]


@pytest.mark.parametrize("content", [None, b"not a wheel"])
def test_a_bad_wheel_is_said_in_one_line(tmp_path, content):
    if content:
        (tmp_path / "x.whl").write_bytes(content)
    done = run(tmp_path / "x.whl", tmp_path / "data")
    assert done.returncode == 1
    assert done.stderr.startswith(f"convert.py: {tmp_path / 'x.whl'}: cannot read")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()
