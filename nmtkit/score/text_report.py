"""What there is to tell about several systems' translations. The first system is the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.score.comet import comet_scores
from nmtkit.score.lengths import Bucket, score_by_length
from nmtkit.score.paired import Tested, Trials, paired_test
from nmtkit.score.text import Score, TextOptions, Texts, check_lengths, scores_of


@dataclass(frozen=True)
class TextReportOptions:
    """What to tell. The last three need the source, ``gpus`` is for COMET."""

    text: TextOptions = field(default_factory=TextOptions)
    trials: Trials = field(default_factory=Trials)
    length_width: int | None = None  # words a bucket of source lengths
    comet: Path | None = None  # a checkpoint
    gpus: int = 0


@dataclass(frozen=True)
class Scored:
    """A system's score by one metric. Of the last two, those parts that were asked for.

    ``tests``: name of the test -> what it says. ``by_length`` is for the first metric only.
    """

    score: Score
    sentences: int
    tests: dict[str, Tested] = field(default_factory=dict)
    by_length: Sequence[Bucket] | None = None

    def to_json(self) -> dict[str, Any]:
        """The score's fields and ``sentences``; then the tests and the buckets that there are."""
        record = {**self.score.to_json(), "sentences": self.sentences}
        record.update({name: tested.to_json() for name, tested in self.tests.items()})
        if self.by_length is not None:
            record["by_length"] = [asdict(bucket) for bucket in self.by_length]
        return record


def report_text(texts: Texts, options: TextReportOptions) -> dict[str, list[Scored]]:
    """System -> its scores by every metric in order, COMET last.

    Raises UserError for an unknown metric or tokenizer, for texts that cannot be compared
    (``Texts.check``), for randomisation of a single system, and where COMET cannot be had.
    """
    options.text.check()
    texts.check()
    check_lengths(texts, options.text)
    if options.trials.randomisation and len(texts.systems) == 1:
        raise UserError("randomisation compares systems: give two or more")
    # First, because it is the most likely to be missing.
    comet = comet_scores(texts, options.comet, options.gpus) if options.comet else {}
    scores = scores_of(texts, options.text)
    tested = {
        test: paired_test(texts, options.text, test, resamples, options.trials.seed)
        for test, resamples in options.trials.asked().items()
    }
    width = options.length_width
    lengths = score_by_length(texts, options.text, width) if width else {}
    sentences = len(texts.references)
    report: dict[str, list[Scored]] = {}
    for system, row in scores.items():
        report[system] = [
            Scored(
                score,
                sentences,
                {test: found[system][column] for test, found in tested.items()},
                lengths.get(system) if column == 0 else None,
            )
            for column, score in enumerate(row)
        ]
        if comet:
            report[system].append(Scored(comet[system], sentences))
    return report
