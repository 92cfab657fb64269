"""The passes of `preprocess` put together."""

from __future__ import annotations

import platform
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import numpy as np

from nmtkit import __version__
from nmtkit.corpus import REASONS, Filters, PairFilter, clean_line, corpus_files
from nmtkit.corpus import read_pairs as read_raw_pairs
from nmtkit.data import (
    MANIFEST,
    BitextWriter,
    PairCounts,
    ids_path,
    lines_path,
    numbers_path,
    write_manifest,
)
from nmtkit.errors import UserError
from nmtkit.files import check_output_folder, output_folder, sha256, write_json
from nmtkit.preprocess.learn import (
    new_texts,
    set_vocabularies,
    with_codes,
    with_pieces,
    with_truecasers,
)
from nmtkit.preprocess.options import PreprocessOptions
from nmtkit.preprocess.passes import (
    INT32,
    Counts,
    CountSubwords,
    Fold,
    Pair,
    Passes,
    Tokenise,
    counted,
    filtered,
    read_numbers,
    read_pairs,
    subword_counts,
    write_ids,
    write_pairs,
)
from nmtkit.preprocess.report import PartReport, PartTally, Report, SideReport, VocabularyReport
from nmtkit.progress import Progress, silent
from nmtkit.vocabulary import UNK

# and for which kind of subwords they are used ("": always)
LIBRARIES = {"numpy": "", "sacremoses": "", "subword-nmt": "bpe", "sentencepiece": "sentencepiece"}


def preprocess(
    options: PreprocessOptions,
    out: Path,
    overwrite: bool = False,
    workers: int = 1,
    progress: Progress = silent,
) -> Report:
    """Raw parallel text -> a prepared corpus in the folder ``out``, whole or not at all.

    Streams: memory grows with the number of different tokens (and with ``deduplicate`` by some
    100 bytes a pair), not with the text. Every number of ``workers`` (processes) writes the same
    bytes; a script that calls this with several needs ``if __name__ == "__main__"``.

    Raises UserError for bad input, when no pair is left, and when ``out`` cannot be written.
    """
    out = Path(out)
    if workers < 1:
        raise UserError(f"--workers must be at least 1, got {workers}")
    inputs = _inputs(options)
    check_output_folder(out, overwrite, MANIFEST)
    for path in inputs:
        if out.resolve() in path.resolve().parents:
            raise UserError(f"{path} lies in {out}, which is to be replaced: choose another --out")
    try:
        with output_folder(out, overwrite, MANIFEST) as folder:
            return _Run(options, folder, Passes(workers, progress)).all()
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error


class _Run:
    """One run: its settings, and what is known so far."""

    def __init__(self, options: PreprocessOptions, folder: Path, passes: Passes) -> None:
        self.options = options
        self.folder = folder
        self.work = folder / "work"  # inside the output folder: it goes when that goes
        self.numbers = self.work / "numbers"  # of the pairs that the first pass keeps
        self.passes = passes
        self.texts = new_texts(options)
        self.train = PartTally()
        self.merges: dict[str, int] = {}

    def all(self) -> Report:
        self.work.mkdir()
        counts: Counts = (Counter(), Counter())
        path, number = self.read(counts)
        vocabularies = self.learn(path, number, counts)
        for count in counts:
            count.clear()  # its memory is needed for the cache of ids
        train = self.write_train(path, number)
        shutil.rmtree(self.work)
        valid = self.write_valid() if self.options.valid is not None else None
        return self.finish(vocabularies, train, valid)

    def read(self, counts: Counts) -> tuple[Path, int]:
        """Raw pairs -> folded pairs in a temporary file, their tokens in ``counts``.

        A pair with too many tokens has too many subwords: it goes before anything is learned.
        """
        options, passes = self.options, self.passes
        first = PairFilter(Filters(options.max_length, None, options.deduplicate))
        raw = chain.from_iterable(_raw_pairs(spec, options) for spec in options.train)
        late = options.case == "true"
        pairs = passes.tokenise(raw, Tokenise(self.texts, not late), self.train, "tokenising")
        folded = self.work / "folded"
        with self.numbers.open("wb") as numbers:
            pairs = filtered(pairs, first, self.train, numbers)
            if late:
                tokenised = self.work / "tokenised"
                number = write_pairs(tokenised, pairs)
                self.texts = with_truecasers(self.texts, tokenised, number, passes.progress)
                pairs = passes.fold(read_pairs(tokenised), Fold(self.texts), number)
            if options.subwords != "sentencepiece":  # where "tokens" may be sentences
                pairs = counted(pairs, counts)
            number = write_pairs(folded, pairs)
        if not number:
            raise self.empty()
        return folded, number

    def learn(
        self, path: Path, number: int, counts: Counts
    ) -> tuple[VocabularyReport, VocabularyReport]:
        """Codes or pieces, and vocabularies; ``counts`` are those of the tokens in ``path``."""
        options, passes = self.options, self.passes
        if options.subwords == "sentencepiece":
            self.texts = with_pieces(self.texts, path, options, passes.progress)
            subwords = passes.count_subwords(read_pairs(path), CountSubwords(self.texts), number)
            return set_vocabularies(self.texts, subwords, options)
        if options.subwords == "bpe":
            self.texts, self.merges = with_codes(self.texts, counts, options, passes.progress)
        source, target = map(subword_counts, self.texts, counts)
        return set_vocabularies(self.texts, (source, target), options)

    def write_train(self, path: Path, number: int) -> PairCounts:
        accept = PairFilter(Filters(self.options.max_length, self.options.max_ratio))
        pairs = self.passes.progress(read_pairs(path), "writing ids", number)
        numbered = zip(read_numbers(self.numbers), pairs, strict=True)
        with self.writer("train") as writer, numbers_path(self.folder).open("wb") as numbers:
            write_ids(numbered, self.texts, writer, accept, self.train, numbers)
            counts = writer.close()
        if not counts.pairs:
            raise self.empty()
        return counts

    def write_valid(self) -> tuple[PartTally, PairCounts]:
        """Every line stays; its raw text is kept beside the ids."""
        options, tally = self.options, PartTally()
        accept = PairFilter(Filters(options.max_length, options.max_ratio))
        with self.writer("valid") as writer:
            pairs = self.passes.tokenise(
                self.kept_lines(), Tokenise(self.texts), tally, "validation text"
            )
            write_ids(enumerate(pairs), self.texts, writer, accept, tally)
            counts = writer.close()
        if not counts.pairs:
            raise UserError(f"the validation text is empty: {options.valid}")
        return tally, counts

    def kept_lines(self) -> Iterator[Pair]:
        """The raw validation pairs, written into the folder (controls as spaces) on the way."""
        assert self.options.valid is not None, "asked for only then"
        with ExitStack() as stack:
            files = [
                stack.enter_context(
                    lines_path(self.folder, text.config.language).open(
                        "w", encoding="utf-8", newline="\n"
                    )
                )
                for text in self.texts
            ]
            for pair in _raw_pairs(self.options.valid, self.options):
                for file, line in zip(files, pair):
                    file.write(clean_line(line) + "\n")
                yield pair

    def finish(
        self,
        vocabularies: tuple[VocabularyReport, VocabularyReport],
        train: PairCounts,
        valid: tuple[PartTally, PairCounts] | None,
    ) -> Report:
        """Text side, report and, last, the manifest."""
        self.texts[0].save(self.folder, "source")
        self.texts[1].save(self.folder, "target")
        report = Report(
            train=self.part("train", self.train, train),
            valid=None if valid is None else self.part("valid", *valid),
            source_vocabulary=vocabularies[0],
            target_vocabulary=vocabularies[1],
            merges_asked=None if self.options.subwords == "none" else self.options.merges,
            merges_learned=self.merges,
        )
        write_json(self.folder / "report.json", report.table())
        details = {
            "versions": _versions(self.options),
            "options": asdict(self.options),
            "inputs": [_input(path) for path in _inputs(self.options)],
        }
        counts = None if valid is None else valid[1]
        write_manifest(self.folder, self.texts, train, counts, self.train.read, details)
        return report

    def part(self, name: str, tally: PartTally, counts: PairCounts) -> PartReport:
        reasons = {why: tally.reasons[why] for why in REASONS if why in tally.reasons}
        sides: list[SideReport] = []
        for text, side in zip(self.texts, (tally.source, tally.target)):
            unknown = _count_unknown(ids_path(self.folder, name, text.config.language))
            sides.append(side.report(text.config.language, counts.pairs, unknown))
        return PartReport(
            read=tally.read,
            kept=counts.pairs,
            dropped=reasons if name == "train" else {},
            noted=reasons if name != "train" else {},
            source=sides[0],
            target=sides[1],
        )

    def writer(self, name: str) -> BitextWriter:
        return BitextWriter(self.folder, name, self.options.source_lang, self.options.target_lang)

    def empty(self) -> UserError:
        files = ", ".join(self.options.train)
        if not self.train.read:
            return UserError(f"the training text is empty: {files}")
        reasons = ", ".join(f"{why}: {number}" for why, number in self.train.reasons.items())
        return UserError(
            f"no pair of {files} is left of {self.train.read} read (dropped by reason: {reasons})"
        )


def _inputs(options: PreprocessOptions) -> list[Path]:
    specs = [*options.train, *([] if options.valid is None else [options.valid])]
    languages = options.source_lang, options.target_lang
    return [path for spec in specs for path in corpus_files(Path(spec), *languages)]


def _raw_pairs(spec: str, options: PreprocessOptions) -> Iterator[Pair]:
    return read_raw_pairs(Path(spec), options.source_lang, options.target_lang)


def _input(path: Path) -> dict[str, object]:
    return {"file": str(path), "bytes": path.stat().st_size, "sha256": sha256(path)}


def _versions(options: PreprocessOptions) -> dict[str, str]:
    """Of what takes part in making the files."""
    used = {
        name: version(name) for name, kind in LIBRARIES.items() if kind in ("", options.subwords)
    }
    return {"nmtkit": __version__, "python": platform.python_version(), **used}


def _count_unknown(path: Path) -> int:
    unknown = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            unknown += int(np.count_nonzero(np.frombuffer(block, INT32) == UNK))
    return unknown
