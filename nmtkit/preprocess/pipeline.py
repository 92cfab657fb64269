"""The passes of `preprocess` put together."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nmtkit.corpus import REASONS, Filters, clean_line
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
from nmtkit.files import check_output_folder, output_folder, write_json
from nmtkit.preprocess.inputs import Input, check_outside, described, files_of, raw_pairs, versions
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
    Encode,
    Fold,
    Pair,
    Passes,
    Tokenise,
    counted,
    different,
    read_lines,
    subword_counts,
    write_lines,
)
from nmtkit.preprocess.report import PartReport, PartTally, Report, SideReport, VocabularyReport
from nmtkit.preprocess.shards import WHOLE, Shards, tokenised
from nmtkit.progress import Progress, silent


def preprocess(
    options: PreprocessOptions,
    out: Path,
    overwrite: bool = False,
    workers: int = 1,
    progress: Progress = silent,
    shards: Path | None = None,
) -> Report:
    """Raw parallel text -> a prepared corpus in the folder ``out``, whole or not at all.

    Streams: memory grows with the number of different tokens (and with ``deduplicate`` by 12 to 24
    bytes a pair), not with the text. Every number of ``workers`` (processes) writes the same
    bytes; a script that calls this with several needs ``if __name__ == "__main__"``.

    ``shards``: a folder with the folders of all shards (see ``preprocess_shard``), which stand for
    the training text; the same bytes again.

    Raises UserError for bad input, when no pair is left, and when ``out`` cannot be written.
    """
    out = Path(out)
    if workers < 1:
        raise UserError(f"--workers must be at least 1, got {workers}")
    specs = [
        *(options.train if shards is None else ()),
        *([options.valid] if options.valid else []),
    ]
    read = [*files_of(options, specs), *([] if shards is None else [Path(shards)])]
    check_output_folder(out, overwrite, MANIFEST)
    check_outside(out, read)
    parts = None if shards is None else Shards(shards, options)
    try:
        with output_folder(out, overwrite, MANIFEST) as folder:
            return _Run(options, folder, Passes(workers, progress), parts).all()
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error


class _Run:
    """One run: its settings, and what is known so far."""

    def __init__(
        self, options: PreprocessOptions, folder: Path, passes: Passes, shards: Shards | None
    ) -> None:
        self.options = options
        self.folder = folder
        self.work = folder / "work"  # inside the output folder: it goes when that goes
        self.passes = passes
        self.shards = shards
        self.texts = new_texts(options)
        self.filters = Filters(options.max_length, options.max_ratio)
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
        """All pairs -> folded pairs in a temporary file, their tokens in ``counts``."""
        options, passes = self.options, self.passes
        if self.shards is None:
            lines = tokenised(options, passes, self.train)
        else:
            lines = iter(passes.progress(self.shards.lines(self.train), "reading shards"))
        if options.deduplicate:
            lines = different(lines, self.train)
        if options.case == "true":
            path = self.work / "tokenised"
            number = write_lines(path, lines)
            self.texts = with_truecasers(self.texts, path, number, passes.progress)
            lines = passes.fold(read_lines(path), Fold(self.texts), number)
        if options.subwords != "sentencepiece":  # where "tokens" may be sentences
            lines = counted(lines, counts)
        folded = self.work / "folded"
        number = write_lines(folded, lines)
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
            subwords = passes.count_subwords(read_lines(path), CountSubwords(self.texts), number)
            return set_vocabularies(self.texts, subwords, options)
        if options.subwords == "bpe":
            self.texts, self.merges = with_codes(self.texts, counts, options, passes.progress)
        source, target = map(subword_counts, self.texts, counts)
        return set_vocabularies(self.texts, (source, target), options)

    def write_train(self, path: Path, number: int) -> PairCounts:
        lines = self.passes.progress(read_lines(path), "writing ids", number)
        job = Encode(self.texts, self.filters)
        with self.writer("train") as writer, numbers_path(self.folder).open("wb") as numbers:
            self.passes.write_ids(lines, job, writer, self.train, number, numbers)
            counts = writer.close()
        if not counts.pairs:
            raise self.empty()
        return counts

    def write_valid(self) -> tuple[PartTally, PairCounts]:
        """Every line stays; its raw text is kept beside the ids."""
        tally = PartTally()
        with self.writer("valid") as writer:
            chunks = WHOLE.chunks(self.passes.progress(self.kept_lines(), "validation text"))
            lines = self.passes.tokenise(chunks, Tokenise(self.texts), tally)
            job = Encode(self.texts, self.filters, drop=False)
            self.passes.write_ids(lines, job, writer, tally)
            counts = writer.close()
        if not counts.pairs:
            raise UserError(f"the validation text is empty: {self.options.valid}")
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
            for pair in raw_pairs(self.options, [self.options.valid]):
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
            "versions": versions(self.options),
            "options": asdict(self.options),
            "inputs": self.inputs(),
        }
        counts = None if valid is None else valid[1]
        write_manifest(self.folder, self.texts, train, counts, self.train.read, details)
        return report

    def inputs(self) -> list[Input]:
        options = self.options
        train = options.train if self.shards is None else ()
        specs = [*train, *([] if options.valid is None else [options.valid])]
        known = [] if self.shards is None else self.shards.inputs
        return [*known, *map(described, files_of(options, specs))]

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
        dropped = self.train.reasons
        reasons = ", ".join(f"{why}: {dropped[why]}" for why in REASONS if why in dropped)
        return UserError(
            f"no pair of {files} is left of {self.train.read} read (dropped by reason: {reasons})"
        )


def _count_unknown(path: Path) -> int:
    unknown = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            unknown += int(np.count_nonzero(np.frombuffer(block, INT32) < 0))
    return unknown
