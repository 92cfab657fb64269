"""What `preprocess` found and did: the numbers that the command prints and report.json holds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SideReport:
    """One language of one part. Lengths are in subwords without EOS; only kept pairs count,
    except in ``controls``.
    """

    language: str
    tokens: int
    subwords: int
    unknown: int  # subwords that are UNK
    mean_length: float
    max_length: int
    controls: int  # control and line-separator characters of the lines read, now spaces

    @property
    def unknown_rate(self) -> float:
        """The share of subwords that are UNK, 0 to 1."""
        return self.unknown / self.subwords if self.subwords else 0.0


@dataclass(frozen=True)
class PartReport:
    """The training or the validation text."""

    read: int  # pairs
    kept: int
    dropped: dict[str, int]  # pairs by reason, in the order of corpus.REASONS; none in validation
    noted: dict[str, int]  # validation: pairs by the reason they would be dropped for, and were not
    source: SideReport
    target: SideReport


@dataclass(frozen=True)
class VocabularyReport:
    """One side's vocabulary of subwords, learned from training text."""

    language: str
    types: int  # different subwords in the training text
    size: int  # ordinary subwords of the vocabulary, specials not counted


@dataclass(frozen=True)
class Report:
    """merges N asked → M learned → vocabulary V: ``merges_asked``, ``merges_learned``, ``size``."""

    train: PartReport
    valid: PartReport | None
    source_vocabulary: VocabularyReport
    target_vocabulary: VocabularyReport
    merges_asked: int | None  # BPE merges or sentencepiece pieces; None for subwords "none"
    merges_learned: dict[str, int]  # by what the codes are for ("en+de", or "en" and "de"); BPE

    def table(self) -> dict[str, object]:
        """All numbers as JSON values: the content of report.json."""
        return {
            "train": _part(self.train),
            "valid": None if self.valid is None else _part(self.valid),
            "source_vocabulary": vars(self.source_vocabulary),
            "target_vocabulary": vars(self.target_vocabulary),
            "merges_asked": self.merges_asked,
            "merges_learned": self.merges_learned,
        }


def _part(part: PartReport) -> dict[str, object]:
    return {**vars(part), "source": _side(part.source), "target": _side(part.target)}


def _side(side: SideReport) -> dict[str, object]:
    return {**vars(side), "unknown_rate": side.unknown_rate}


@dataclass
class SideTally:
    """A SideReport in the making."""

    tokens: int = 0
    subwords: int = 0
    max_length: int = 0
    controls: int = 0

    def add(self, tokens: int, subwords: int) -> None:
        """Count one sentence."""
        self.tokens += tokens
        self.subwords += subwords
        self.max_length = max(self.max_length, subwords)

    def merge(self, other: SideTally) -> None:
        """Count what ``other`` counted."""
        self.tokens += other.tokens
        self.subwords += other.subwords
        self.max_length = max(self.max_length, other.max_length)
        self.controls += other.controls

    def report(self, language: str, sentences: int, unknown: int) -> SideReport:
        return SideReport(
            language=language,
            tokens=self.tokens,
            subwords=self.subwords,
            unknown=unknown,
            mean_length=self.subwords / sentences if sentences else 0.0,
            max_length=self.max_length,
            controls=self.controls,
        )


@dataclass
class PartTally:
    """A PartReport in the making."""

    read: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    source: SideTally = field(default_factory=SideTally)
    target: SideTally = field(default_factory=SideTally)

    def count(self, reason: str, pairs: int = 1) -> None:
        """Count pairs that are dropped, or in validation noted, for ``reason``."""
        self.reasons[reason] = self.reasons.get(reason, 0) + pairs

    def merge(self, other: PartTally) -> None:
        """Count what ``other`` counted."""
        self.read += other.read
        for reason, pairs in other.reasons.items():
            self.count(reason, pairs)
        self.source.merge(other.source)
        self.target.merge(other.target)
