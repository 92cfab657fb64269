"""The bible-alignments package (SBLGNT to BSB, manual) -> train, dev and test with gold links.

    python convert.py bible_alignments-0.4.2-py3-none-any.whl data

Reads the wheel as it was downloaded, so nothing of it needs to be installed. Writes for each split
SPLIT.grc, SPLIT.en (tokens separated by one space), SPLIT.gold (links i-j, 0-based, i Greek, j
English), SPLIT.ids (verses as BBCCCVVV) and SPLIT.lemma.grc. README.md says how segments, links
and splits are made.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = "data/sources/SBLGNT.tsv"
TARGET = "data/eng/targets/BSB/nt_BSB.tsv"
LINKS = "data/eng/alignments/BSB/SBLGNT-BSB-manual.json"
SEED = 13
TEST_SHARE = DEV_SHARE = 0.1  # of the chapters
VERSE = 8  # characters of an id that name the verse: book 2, chapter 3, verse 3
CHAPTER = 5


@dataclass
class Segment:
    """One verse, or verses joined by a link across them. Links are (Greek, English), 0-based."""

    verses: list[str]
    source: list[str] = field(default_factory=list)
    lemmas: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    links: set[tuple[int, int]] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The verses, joined by "+"."""
        return "+".join(self.verses)

    def columns(self) -> dict[str, str]:
        """File suffix -> this segment's line."""
        return {
            "grc": " ".join(self.source),
            "en": " ".join(self.target),
            "gold": " ".join(f"{i}-{j}" for i, j in sorted(self.links)),
            "ids": self.name,
            "lemma.grc": " ".join(self.lemmas),
        }


@dataclass(frozen=True)
class Token:
    """One token; ``verse`` is the Greek verse it belongs to, for English tokens as well."""

    identifier: str
    verse: str
    text: str
    lemma: str = ""


def read_table(archive: zipfile.ZipFile, name: str) -> Iterator[dict[str, str]]:
    """The rows of a tab-separated member; quotes in it are ordinary characters."""
    with archive.open(name) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
        yield from csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)


def read_source(archive: zipfile.ZipFile) -> list[Token]:
    """The Greek tokens in text order. Ids in the table begin with "n" for New Testament."""
    return [
        Token(row["id"], row["id"].removeprefix("n")[:VERSE], row["text"], row["lemma"])
        for row in read_table(archive, SOURCE)
    ]


def read_target(archive: zipfile.ZipFile) -> list[Token]:
    """The English tokens in text order, punctuation included."""
    return [
        Token(row["id"], row["source_verse"], row["text"]) for row in read_table(archive, TARGET)
    ]


def read_links(archive: zipfile.ZipFile) -> list[tuple[str, str]]:
    """Pairs of token ids; a record with m source and n target tokens gives all m * n."""
    records = json.loads(archive.read(LINKS).decode("utf-8"))["records"]
    return [(i, j) for record in records for i in record["source"] for j in record["target"]]


def join_verses(verses: Iterable[str], joined: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Groups of verses in text order: two verses with a link across them are in one group."""
    group = {verse: [verse] for verse in verses}
    for a, b in joined:
        if group[a] is not group[b]:
            merged = sorted(group[a] + group[b])
            group.update(dict.fromkeys(merged, merged))
    return [members for verse, members in sorted(group.items()) if members[0] == verse]


def make_segments(
    source: list[Token], target: list[Token], links: list[tuple[str, str]]
) -> list[Segment]:
    """Segments in text order; one without Greek, English or links is left out."""
    verse_of = {token.identifier: token.verse for token in source + target}
    across = {(verse_of[i], verse_of[j]) for i, j in links}
    segments = [Segment(verses) for verses in join_verses(set(verse_of.values()), sorted(across))]
    segment_of = {verse: segment for segment in segments for verse in segment.verses}
    place: dict[str, int] = {}
    for token in source:
        segment = segment_of[token.verse]
        place[token.identifier] = len(segment.source)
        segment.source.append(token.text)
        segment.lemmas.append(token.lemma)
    for token in target:
        segment = segment_of[token.verse]
        place[token.identifier] = len(segment.target)
        segment.target.append(token.text)
    for i, j in links:
        segment_of[verse_of[i]].links.add((place[i], place[j]))
    return [segment for segment in segments if segment.source and segment.target and segment.links]


def split_chapters(chapters: Iterable[str]) -> dict[str, str]:
    """Chapter -> "train", "dev" or "test": shuffled, the first tenth test, the second dev."""
    names = sorted(chapters)
    random.Random(SEED).shuffle(names)
    test = round(TEST_SHARE * len(names))
    dev = test + round(DEV_SHARE * len(names))
    return {
        name: "test" if at < test else "dev" if at < dev else "train"
        for at, name in enumerate(names)
    }


def write_splits(segments: list[Segment], out: Path) -> dict[str, list[Segment]]:
    """Write all files of all splits to the folder ``out``; returns what is in which split."""
    split_of = split_chapters({segment.name[:CHAPTER] for segment in segments})
    splits: dict[str, list[Segment]] = {"train": [], "dev": [], "test": []}
    for segment in segments:
        splits[split_of[segment.name[:CHAPTER]]].append(segment)
    out.mkdir(parents=True, exist_ok=True)
    for split, members in splits.items():
        rows = [segment.columns() for segment in members]
        for suffix in ("grc", "en", "gold", "ids", "lemma.grc"):
            text = "".join(row[suffix] + "\n" for row in rows)
            (out / f"{split}.{suffix}").write_bytes(text.encode("utf-8"))
    return splits


def main() -> None:
    """Convert the wheel named on the command line and say how much came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path, help="bible_alignments-0.4.2-py3-none-any.whl")
    parser.add_argument("out", type=Path, help="folder to write to")
    options = parser.parse_args()
    try:
        with zipfile.ZipFile(options.wheel) as archive:
            source, target, links = (
                read_source(archive),
                read_target(archive),
                read_links(archive),
            )
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        sys.exit(f"convert.py: {options.wheel}: cannot read the bible-alignments wheel ({error})")
    splits = write_splits(make_segments(source, target, links), options.out)
    for split, members in splits.items():
        counts = (
            f"{sum(len(s.source) for s in members)} Greek and "
            f"{sum(len(s.target) for s in members)} English tokens, "
            f"{sum(len(s.links) for s in members)} links"
        )
        print(f"{split}: {len(members)} segments, {counts}", file=sys.stderr)


if __name__ == "__main__":
    main()
