"""What there is to tell about several systems' links. The first system is the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nmtkit.errors import UserError
from nmtkit.score.differences import Difference, differences
from nmtkit.score.errors import Breakdown, break_down
from nmtkit.score.links import AlignmentScore, Sentence, score_sentence
from nmtkit.score.significance import (
    Interval,
    Paired,
    Resampling,
    aer_interval,
    compare,
    error_counts,
)


@dataclass(frozen=True)
class ReportOptions:
    """What to tell beside the scores. The last two keep all sentence pairs in memory."""

    resampling: Resampling | None = None  # an interval for every system, and the paired test
    differences: int = 0  # the most sentence pairs to list for every system but the baseline
    errors: bool = False  # the breakdown, for which the sentences must have their tokens


@dataclass(frozen=True)
class SystemReport:
    """One system. Of the parts after ``score``, those that were asked for.

    ``paired`` and ``differences`` are against ``baseline``, which itself has none.
    """

    name: str
    baseline: str
    score: AlignmentScore
    aer_interval: Interval | None = None
    paired: Paired | None = None
    differences: Sequence[Difference] | None = None
    errors: Breakdown | None = None

    def to_json(self) -> dict[str, Any]:
        """The score's fields; then the other parts that there are, by their names."""
        record: dict[str, Any] = self.score.to_json()
        if self.aer_interval is not None:
            record["aer_interval"] = asdict(self.aer_interval)
        if self.paired is not None:
            record["paired"] = {"baseline": self.baseline, **asdict(self.paired)}
        if self.differences is not None:
            record["differences"] = [one.to_json() for one in self.differences]
        if self.errors is not None:
            record["errors"] = self.errors.to_json()
        return record


def report(
    names: Sequence[str],
    sentences: Iterable[Sentence],
    options: ReportOptions,
    gold_name: str = "the gold file",
) -> list[SystemReport]:
    """A report of every one of the systems ``names``, whose links the ``sentences`` have.

    Raises UserError when gold has no link at all.
    """
    drawn, most = options.resampling, options.differences
    several_times = most or options.errors
    kept = list(sentences) if several_times else []
    sums = [AlignmentScore()] * len(names)
    single: list[list[AlignmentScore]] = [[] for _ in names]
    for sentence in kept if several_times else sentences:
        for n, links in enumerate(sentence.links):
            score = score_sentence(links, sentence.gold)
            sums[n] += score
            if drawn:
                single[n].append(score)
    if not sums[0].possible:
        raise UserError(f"{gold_name} has no links: there is nothing to score against")
    counts = [error_counts(scores) for scores in single]
    return [
        SystemReport(
            name,
            names[0],
            sums[n],
            aer_interval(counts[n], drawn) if drawn else None,
            compare(counts[0], counts[n], drawn) if drawn and n else None,
            differences(kept, most, (0, n)) if most and n else None,
            break_down(kept, n) if options.errors else None,
        )
        for n, name in enumerate(names)
    ]
