"""One text for all tools: Multi30k, English to German, lowercased, tokenised, cut into subwords.

    python text.py OUT [--from FOLDER] [--merges 8000]

OUT/prepared is nmtkit's corpus; from it come, for the others, OUT/PART.LANG (subwords) and
OUT/PART.tok.LANG (tokens) of train, valid and test, and OUT/vocabulary.LANG. FOLDER: the raw files,
which are downloaded otherwise.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from nmtkit.corpus import read_lines
from nmtkit.data import PreparedCorpus
from nmtkit.files import atomic_writer

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "multi30k"
PARTS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LANGUAGES = ("en", "de")


def make(out: Path, folder: Path | None, merges: int) -> Path:
    """All files, unless they are there."""
    done = out / f".made.{merges}"
    if done.exists():
        return out
    out.mkdir(parents=True, exist_ok=True)
    download = [sys.executable, str(RECIPE / "download.py"), str(out / "raw"), *LANGUAGES]
    subprocess.run(download + (["--from", str(folder)] if folder else []), check=True)
    command = [sys.executable, "-m", "nmtkit", "preprocess", "--source-lang", "en"]
    command += ["--target-lang", "de", "--train", str(out / "raw" / "train")]
    command += ["--valid", str(out / "raw" / "val"), "--case", "lower", "--merges", str(merges)]
    command += ["--max-length", "200", "--out", str(out / "prepared"), "--overwrite"]
    subprocess.run(command, check=True)
    corpus = PreparedCorpus.open(out / "prepared")
    for language, text in zip(LANGUAGES, (corpus.source_text, corpus.target_text), strict=True):
        for part, name in PARTS.items():
            cut = [text.segment(line) for line in read_lines(out / "raw" / f"{name}.{language}")]
            write(out / f"{part}.{language}", (" ".join(one.subwords) for one in cut))
            write(out / f"{part}.tok.{language}", (joined(one.subwords) for one in cut))
        assert text.vocabulary is not None
        write(out / f"vocabulary.{language}", text.vocabulary)
    done.touch()
    return out


def write(path: Path, lines: Iterable[str]) -> None:
    """The lines, in one piece."""
    with atomic_writer(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def joined(subwords: Iterable[str]) -> str:
    """Subwords as tokens again."""
    return " ".join(subwords).replace("@@ ", "")


def tokens_a_sentence(out: Path, language: str, part: str = "train") -> float:
    """Mean subwords of a sentence, its end included."""
    lines = list(read_lines(out / f"{part}.{language}"))
    return sum(len(line.split(" ")) + 1 for line in lines) / len(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="folder", type=Path)
    parser.add_argument("--merges", type=int, default=8000)
    arguments = parser.parse_args()
    out = make(arguments.out, arguments.folder, arguments.merges)
    for language in LANGUAGES:
        print(f"{language}: {tokens_a_sentence(out, language):.2f} subwords a sentence")


if __name__ == "__main__":
    main()
