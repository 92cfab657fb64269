"""A small stand-in for the archives of a corpora.tsv, out of any parallel text (see corpora.py).

    python sample.py corpora.tsv TEXT OUT --languages en fr --pairs 400

TEXT is a folder with train*.LANG of both languages, plain or .gz. Every corpus of the table gets
the next so many pairs, in an archive of the name, the files and the formats that the table says: so
a recipe can be tried from its first rule to its last.
"""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import tarfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import escape

from corpora import read_rows

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError

MOST_WORDS = 30  # a side: even models of short sentences keep most


def find(folder: Path, languages: Sequence[str]) -> list[Path]:
    """The first files train*.LANG or train*.LANG.gz of one name in both languages."""
    source, target = languages
    for end in ("", ".gz"):
        for path in sorted(folder.glob(f"train*.{source}{end}")):
            other = path.with_name(path.name.removesuffix(f".{source}{end}") + f".{target}{end}")
            if other.exists():
                return [path, other]
    raise UserError(f"{folder} has no train*.{source} with a train*.{target}, plain or .gz")


def pairs(folder: Path, languages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Its pairs of 1 to MOST_WORDS words."""
    source_lines, target_lines = map(read_lines, find(folder, languages))
    for source, target in zip(source_lines, target_lines, strict=False):
        if all(0 < len(line.split()) <= MOST_WORDS for line in (source, target)):
            yield source, target


def content(name: str, lines: Sequence[str]) -> bytes:
    """The file ``name`` with these segments, in the format that its name says."""
    base = PurePosixPath(name).name
    if base.endswith((".sgm", ".xml")):
        inner = "".join(
            f'<seg id="{number}">{escape(line)}</seg>\n' for number, line in enumerate(lines, 1)
        )
        text = f'<srcset setid="sample">\n<doc docid="1">\n{inner}</doc>\n</srcset>\n'
    elif base.startswith("train.tags."):
        talk = f"<url>http://example.org/</url>\n<talkid>1</talkid>\n<title>{lines[0]}</title>\n"
        text = talk + "".join(f"{line}\n" for line in lines[1:])
    else:
        text = "".join(f"{line}\n" for line in lines)
    data = text.encode("utf-8")
    return gzip.compress(data) if base.endswith(".gz") else data


def create(path: Path) -> tarfile.TarFile:
    """A new archive, compressed where its name says so."""
    return tarfile.open(path, "w:gz") if path.name.endswith("gz") else tarfile.open(path, "w")


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """One file more in an archive."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def main() -> None:
    """Write the archives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path, help="corpora.tsv")
    parser.add_argument("text", type=Path, help="folder with parallel text")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--pairs", type=int, default=400, help="for every corpus")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        rows = read_rows(options.table)
        source = pairs(options.text, options.languages)
        for name in dict.fromkeys(row.archive for row in rows):
            with create(options.out / name) as archive:
                for row in (row for row in rows if row.archive == name):
                    chosen = list(islice(source, options.pairs))
                    if not chosen:
                        raise UserError(f"{options.text} has too few pairs: take fewer a corpus")
                    for file, lines in zip(row.files, zip(*chosen, strict=True), strict=True):
                        add(archive, file, content(file, lines))
    except UserError as error:
        sys.exit(f"sample.py: {error}")


if __name__ == "__main__":
    main()
