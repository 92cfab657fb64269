"""Translations against references, by sacrebleu.

The metrics are sacrebleu's own (Post, 2018), so the numbers and signatures are those of its
command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.base import Score as SacrebleuScore
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmtkit.errors import UserError, unknown
from nmtkit.links import mismatch


@dataclass(frozen=True)
class Score:
    """One corpus-level number. ``signature`` tells all that is needed to compute it again."""

    name: str
    value: float
    signature: str
    details: Mapping[str, Any] = field(default_factory=dict)
    decimals: int = 2  # as many as are customary in print

    def to_json(self) -> dict[str, Any]:
        """What it says, as plain JSON values."""
        return {
            "name": self.name,
            "value": self.value,
            "signature": self.signature,
            "details": dict(self.details),
        }

    def printed(self) -> str:
        """The value, rounded."""
        return f"{self.value:.{self.decimals}f}"

    def __str__(self) -> str:
        return f"{self.name} = {self.printed()}  [{self.signature}]"


@dataclass(frozen=True)
class TextOptions:
    """How texts are compared.

    ``tokenize`` is BLEU's tokeniser, one of ``TOKENIZERS``. ``lowercase`` is for BLEU and chrF;
    TER ignores case in any event, as Tercom and sacrebleu do unless told otherwise.
    """

    metrics: tuple[str, ...] = ("bleu", "chrf", "ter")
    tokenize: str = "13a"
    lowercase: bool = False

    def check(self) -> None:
        """Raise UserError for an unknown metric or tokenizer."""
        for name in self.metrics:
            if name not in METRICS:
                raise unknown("metric", name, METRICS)
        if self.tokenize not in TOKENIZERS:
            raise unknown("tokenizer", self.tokenize, TOKENIZERS)


@dataclass(frozen=True)
class Texts:
    """Systems' translations (file name -> lines), their reference, and, where needed, the source.

    Line i of each belongs to line i of all others. The names are for errors.
    """

    systems: Mapping[str, Sequence[str]]
    references: Sequence[str]
    sources: Sequence[str] | None = None
    reference_name: str = "the reference"
    source_name: str = "the source"

    def check(self) -> None:
        """Raise UserError for different numbers of lines, and when there is nothing to compare."""
        texts = [(self.reference_name, self.references), *self.systems.items()]
        if self.sources is not None:
            texts.append((self.source_name, self.sources))
        for name, lines in texts:
            if not lines:
                raise UserError(f"{name} is empty: there is nothing to score")
            if len(lines) != len(self.references):
                lengths = len(lines), len(self.references)
                raise mismatch((name, self.reference_name), lengths)
        if not any(line.strip() for line in self.references):
            raise UserError(
                f"{self.reference_name} has only empty lines: there is nothing to compare with"
            )

    def only(self, rows: Sequence[int]) -> Texts:
        """The same texts with only these lines, counted from 0."""
        return replace(
            self,
            systems={name: [lines[row] for row in rows] for name, lines in self.systems.items()},
            references=[self.references[row] for row in rows],
            sources=None if self.sources is None else [self.sources[row] for row in rows],
        )

    def stripped(self) -> tuple[dict[str, list[str]], References]:
        """Systems and references for sacrebleu: its command strips the end of every line too."""
        systems = {name: [line.rstrip() for line in lines] for name, lines in self.systems.items()}
        return systems, [[line.rstrip() for line in self.references]]


References = list[list[str]]

# sacrebleu has SentencePiece ones too ("flores200"), which fetch a model from the network.
TOKENIZERS = ("13a", "intl", "none", "char", "zh", "ja-mecab", "ko-mecab")

TER_CELLS = 4_000_000  # words of a line · words of its reference

TOKENISED_LINES = 100  # from so many lines ending in " ." sacrebleu warns of tokenised text


def _bleu(references: References, options: TextOptions) -> Metric:
    try:
        # force only silences a warning; looks_tokenised tells the caller instead.
        return BLEU(
            lowercase=options.lowercase,
            tokenize=options.tokenize,
            force=True,
            references=references,
        )
    except (RuntimeError, ImportError):  # sacrebleu's ways to miss a tokeniser's own package
        extra = options.tokenize.split("-")[0]
        raise UserError(
            f"tokenizer {options.tokenize!r} needs more packages: pip install 'sacrebleu[{extra}]'"
        ) from None


def _chrf(references: References, options: TextOptions) -> Metric:
    return CHRF(lowercase=options.lowercase, references=references)


def _chrf_plus_plus(references: References, options: TextOptions) -> Metric:
    return CHRF(word_order=2, lowercase=options.lowercase, references=references)


def _ter(references: References, options: TextOptions) -> Metric:
    return TER(references=references)


METRICS: dict[str, Callable[[References, TextOptions], Metric]] = {
    "bleu": _bleu,
    "chrf": _chrf,
    "chrf++": _chrf_plus_plus,
    "ter": _ter,
}


def check_lengths(texts: Texts, options: TextOptions) -> None:
    """Raise UserError for lines that are too long for TER.

    sacrebleu's takes time and memory with the product of their lengths.
    """
    for name, lines in texts.systems.items() if "ter" in options.metrics else ():
        for number, pair in enumerate(zip(lines, texts.references), start=1):
            words, others = (len(line.split()) for line in pair)
            if words * others > TER_CELLS:
                raise UserError(
                    f"{name}:{number}: {words} words, {others} in the reference: too long for TER: "
                    "cut the line into sentences, or say --metric bleu --metric chrf"
                )


def score_text(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[str],
    metrics: Sequence[str] = TextOptions.metrics,
    tokenize: str = TextOptions.tokenize,
    lowercase: bool = TextOptions.lowercase,
    reference_name: str = "the reference",
) -> dict[str, list[Score]]:
    """Score every system (file name -> lines) by every metric, in the order given.

    Raises UserError for an unknown metric or tokenizer, for a system without lines or a reference
    without text, and for different numbers of lines (``reference_name`` is the file to name).
    """
    options = TextOptions(tuple(metrics), tokenize, lowercase)
    options.check()
    texts = Texts(systems, references, reference_name=reference_name)
    texts.check()
    check_lengths(texts, options)
    return scores_of(texts, options)


def scores_of(texts: Texts, options: TextOptions) -> dict[str, list[Score]]:
    """As ``score_text``, of texts and options that are known to be good."""
    systems, references = texts.stripped()
    scorers = [METRICS[name](references, options) for name in options.metrics]
    return {name: [_score(s, lines) for s in scorers] for name, lines in systems.items()}


def looks_tokenised(lines: Iterable[str]) -> bool:
    """Whether the text seems to be tokenised, which makes BLEU incomparable to others' numbers."""
    return sum(line.endswith(" .") for line in lines) >= TOKENISED_LINES


def _score(scorer: Metric, hypotheses: list[str]) -> Score:
    result = scorer.corpus_score(hypotheses, None)
    return Score(result.name, result.score, str(scorer.get_signature()), _details(result))


# What a sacrebleu score tells beside its value, by attribute, for those that have it.
DETAILS = {
    "precisions": "precisions",
    "bp": "brevity_penalty",
    "sys_len": "hypothesis_length",
    "ref_len": "reference_length",
    "num_edits": "edits",
    "ref_length": "reference_length",
}


def _details(result: SacrebleuScore) -> dict[str, Any]:
    found = vars(result)
    return {name: found[attribute] for attribute, name in DETAILS.items() if attribute in found}
