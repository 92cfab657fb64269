"""What goes into a prepared corpus: the files, their pairs, and the versions of what reads them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from nmtkit import __version__
from nmtkit.corpus import corpus_files, read_pairs
from nmtkit.errors import UserError
from nmtkit.files import resolved, sha256
from nmtkit.preprocess.options import PreprocessOptions
from nmtkit.preprocess.passes import Pair

# and for which kind of subwords they are used ("": always)
LIBRARIES = {"numpy": "", "sacremoses": "", "subword-nmt": "bpe", "sentencepiece": "sentencepiece"}

Input = dict[str, object]  # of a file, as the manifest has it


def files_of(options: PreprocessOptions, specs: Iterable[str]) -> list[Path]:
    """The files behind ``specs``. Raises UserError when one is missing."""
    languages = options.source_lang, options.target_lang
    return [path for spec in specs for path in corpus_files(Path(spec), *languages)]


def raw_pairs(options: PreprocessOptions, specs: Iterable[str]) -> Iterator[Pair]:
    """The pairs of all ``specs``, one after the other."""
    languages = options.source_lang, options.target_lang
    return chain.from_iterable(read_pairs(Path(spec), *languages) for spec in specs)


def described(path: Path) -> Input:
    """Name, size and checksum of a file."""
    return {"file": str(path), "bytes": path.stat().st_size, "sha256": sha256(path)}


def versions(options: PreprocessOptions) -> dict[str, str]:
    """Of what takes part in making the files."""
    used = {
        name: version(name) for name, kind in LIBRARIES.items() if kind in ("", options.subwords)
    }
    return {"nmtkit": __version__, "python": platform.python_version(), **used}


def check_outside(out: Path, paths: Iterable[Path]) -> None:
    """Raise UserError for an input that lies in the folder to be written, or is it."""
    for path in paths:
        place = resolved(path)
        if resolved(out) in (place, *place.parents):
            raise UserError(f"{path} lies in {out}, which is to be replaced: choose another --out")
