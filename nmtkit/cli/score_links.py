"""nmtkit score --gold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmtkit.cli.output import STREAM, in_pairs
from nmtkit.cli.tables import Tables, print_json
from nmtkit.errors import UserError
from nmtkit.links import FORMATS, read_pairs

if TYPE_CHECKING:
    from nmtkit.score import PairFile, Sentence
    from nmtkit.score.report import ReportOptions


@dataclass(frozen=True)
class LinkFiles:
    """What to compare, and how the files are to be read."""

    systems: list[str]
    gold: Path
    links_format: str
    gold_format: str
    one_based: bool  # of the gold, as is swap
    swap: bool
    texts: tuple[str, ...]  # none, or source and target

    def sentences(self) -> Iterator[Sentence]:
        """All files in parallel."""
        from nmtkit.score import in_parallel, text_file

        if [*self.systems, str(self.gold), *self.texts].count(STREAM) > 1:
            raise UserError("only one file can be - (stdin)")
        systems = [_pair_file(name, self.links_format) for name in self.systems]
        gold = _pair_file(self.gold, self.gold_format, self.one_based, self.swap)
        if not self.texts:
            return in_parallel(systems, gold)
        source, target = self.texts
        return in_parallel(systems, gold, text_file(source, in_pairs(source, target)))


def _pair_file(
    path: Path | str, format: str, one_based: bool = False, swap: bool = False
) -> PairFile:
    from nmtkit.score import PairFile

    pairs = read_pairs(path, format, one_based=one_based, swap=swap)
    if FORMATS[format].directions:
        raise UserError(
            f"a {format} file has the links of two directions: make them one by "
            "nmtkit align --convert FILE --symmetrize HOW"
        )
    return PairFile(str(path), pairs, FORMATS[format].by_pair)


def link_options(
    bootstrap: int | None, test: str, seed: int, differences: int, errors: bool
) -> ReportOptions:
    """The options of the command as those of the report."""
    from nmtkit.score.report import ReportOptions
    from nmtkit.score.significance import Resampling

    resampling = None if bootstrap is None else Resampling(bootstrap, test, seed)
    return ReportOptions(resampling, differences, errors)


def score_links(files: LinkFiles, options: ReportOptions, tables: Tables | None) -> None:
    """Print the report of all systems: in tables, or as JSON."""
    from nmtkit.cli.link_tables import print_report
    from nmtkit.score.report import report

    systems = report(files.systems, files.sentences(), options, str(files.gold))
    if tables is None:
        print_json({one.name: one.to_json() for one in systems})
    else:
        print_report(systems, tables)
