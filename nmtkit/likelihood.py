"""How probable models find given translations."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from nmtkit.batches import Batch, BatchSize, check_length, length_sorted
from nmtkit.checkpoint import Trained, extended_vocabulary
from nmtkit.errors import UserError
from nmtkit.progress import Progress, silent
from nmtkit.search import check_length_penalty, force_decode


@dataclass(frozen=True)
class LikelihoodOptions:
    """How many pairs are decoded at once."""

    batch: BatchSize = field(default_factory=BatchSize.of_search)
    read_ahead: int = 5000  # pairs sorted by length together


@dataclass(frozen=True)
class LogProbability:
    """log p(target | source) in nats, over `subwords` of them, the end of sentence included."""

    value: float
    subwords: int


def log_probabilities(
    models: Sequence[Trained],
    pairs: Iterable[tuple[str, str]],
    options: LikelihoodOptions,
    progress: Progress = silent,
    first: int = 0,
) -> Iterator[LogProbability]:
    """One for every pair of raw lines, in order; of an ensemble, of its mean probability.

    An empty source counts as a sentence of nothing but its end. `first`: the number of the first
    pair, from 0, for messages.
    """
    source, target = models[0].source, models[0].target
    extended = extended_vocabulary(models)
    device = models[0].device
    stream = iter(progress(pairs, "scoring"))
    while some := list(islice(stream, options.read_ahead)):
        cut = [(source.numbers(s), target.numbers(t)) for s, t in some]
        found = [LogProbability(0.0, 0)] * len(some)
        longer = [max(map(len, pair)) for pair in cut]
        for number, length in enumerate(longer, first + 1):
            check_length(length, f"pair {number}")
        first += len(some)
        for rows in length_sorted(longer, options.batch):
            chosen = [cut[row] for row in rows]
            given = Batch.of([s for s, _ in chosen], [t for _, t in chosen], extended).to(device)
            forced = force_decode(
                [model.seq2seq for model in models],
                *(given.source, given.source_mask, given.targets, given.copied),
            )
            values = forced.log_probs.double().sum(1).tolist()
            for row, value in zip(rows, values, strict=True):
                found[row] = LogProbability(value, len(cut[row][1]) + 1)
        yield from found


def perplexity(found: Iterable[LogProbability]) -> float:
    """exp of the mean negative log-probability of a subword, the ends of sentence included."""
    rows = list(found)
    subwords = sum(row.subwords for row in rows)
    return math.exp(-sum(row.value for row in rows) / subwords) if subwords else 1.0


# ----------------------------------------------------------------------------------- n-best lists

BARS = "|||"
ESCAPED_BARS = "&#124;" * 3  # as Moses writes them in a text


@dataclass(frozen=True)
class NBestOptions:
    """What is added to an n-best list, and how it is ranked then."""

    feature: str = "Rescored"
    #: Lines are ranked by log-probability / subwords ** length_penalty, as ``translate`` ranks.
    length_penalty: float = 1.0
    #: Leave the lines' order and last field as they are.
    keep_order: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[^\s=|]+", self.feature):
            raise ValueError(f"a feature's name has no space, = or |, got {self.feature!r}")
        check_length_penalty(self.length_penalty)


@dataclass(frozen=True)
class _Entry:
    """A line of an n-best list: number of the sentence ||| text ||| features ||| value, …"""

    number: int
    fields: list[str]  # between the bars, with the spaces around them

    @property
    def text(self) -> str:
        return self.fields[1].strip(" ").replace(ESCAPED_BARS, BARS)

    def rescored(self, found: LogProbability, options: NBestOptions) -> tuple[float, str]:
        """The value to rank by, and the line with the feature added."""
        value = found.value / found.subwords**options.length_penalty
        features = f"{self.fields[2].strip(' ')} {options.feature}= {found.value:.6f}"
        fields = [*self.fields[:2], f" {features.strip(' ')} ", *self.fields[3:]]
        if not options.keep_order:
            fields[3] = f" {value:.6f}" + (" " if len(fields) > 4 else "")
        return value, BARS.join(fields)


def rescore(
    models: Sequence[Trained],
    sources: Iterable[str],
    n_best: Iterable[str],
    options: NBestOptions,
    batches: LikelihoodOptions,
    name: str = "the n-best list",
    progress: Progress = silent,
) -> Iterator[str]:
    """The lines of an n-best list with the models' log-probability of each as one more feature.

    ``n_best``: lines in Moses' format, raw text, numbered from 0 by the lines of ``sources``; the
    hypotheses of a sentence stand together, and a sentence may have none. They come out best first,
    equals in the order given. Raises UserError, with ``name`` and line, for what is no such list.
    """
    waiting: deque[_Entry] = deque()

    def pairs() -> Iterator[tuple[str, str]]:
        for source, entry in _with_source(_entries(n_best, options.feature, name), sources):
            waiting.append(entry)
            yield source, entry.text

    def in_order() -> Iterator[tuple[int, float, str]]:
        for found in log_probabilities(models, pairs(), batches, progress):
            entry = waiting.popleft()
            yield entry.number, *entry.rescored(found, options)

    for _, group in groupby(in_order(), key=lambda line: line[0]):
        lines = list(group)
        if not options.keep_order:
            lines.sort(key=lambda line: -line[1])
        yield from (line for _, _, line in lines)


def _entries(lines: Iterable[str], feature: str, name: str) -> Iterator[tuple[str, _Entry]]:
    """Every line with its place, checked."""
    before = 0
    for count, line in enumerate(lines, 1):
        where = f"{name}:{count}"
        fields = line.split(BARS)
        number = fields[0].strip(" ")
        if len(fields) < 4 or not re.fullmatch("[0-9]{1,9}", number):
            raise UserError(f"{where}: expected NUMBER ||| TEXT ||| FEATURES ||| VALUE")
        if f" {feature}=" in f" {fields[2]}":
            raise UserError(f"{where}: has a feature {feature}= already: choose another name")
        if int(number) < before:
            raise UserError(f"{where}: sentence {number} comes after {before}: sort the list")
        before = int(number)
        yield where, _Entry(before, fields)


def _with_source(
    entries: Iterable[tuple[str, _Entry]], sources: Iterable[str]
) -> Iterator[tuple[str, _Entry]]:
    """Every entry with its sentence's source line."""
    numbered = enumerate(sources)
    at, source = -1, ""
    for where, entry in entries:
        while at < entry.number:
            found = next(numbered, None)
            if found is None:
                raise UserError(
                    f"{where}: the source has no sentence {entry.number}: they count from 0"
                )
            at, source = found
        yield source, entry
