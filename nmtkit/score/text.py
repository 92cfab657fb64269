"""Translations against references, by sacrebleu.

The metrics are sacrebleu's own (Post, 2018), so the numbers and signatures are those of its
command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.2f}  [{self.signature}]"


@dataclass(frozen=True)
class TextOptions:
    """How texts are compared.

    ``tokenize`` is BLEU's tokeniser, one of ``TOKENIZERS``. ``lowercase`` is for BLEU and chrF;
    TER ignores case in any event, as Tercom and sacrebleu do unless told otherwise.
    """

    metrics: tuple[str, ...] = ("bleu", "chrf", "ter")
    tokenize: str = "13a"
    lowercase: bool = False


References = list[list[str]]

# sacrebleu has SentencePiece ones too ("flores200"), which fetch a model from the network.
TOKENIZERS = ("13a", "intl", "none", "char", "zh", "ja-mecab", "ko-mecab")

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
    _check_options(options)
    _check_texts(systems, references, reference_name)
    # sacrebleu's command does the same to every line.
    stripped = [[line.rstrip() for line in references]]
    scorers = [METRICS[name](stripped, options) for name in options.metrics]
    return {
        system: [_score(scorer, [line.rstrip() for line in lines]) for scorer in scorers]
        for system, lines in systems.items()
    }


def looks_tokenised(lines: Iterable[str]) -> bool:
    """Whether the text seems to be tokenised, which makes BLEU incomparable to others' numbers."""
    return sum(line.endswith(" .") for line in lines) >= TOKENISED_LINES


def _check_options(options: TextOptions) -> None:
    for name in options.metrics:
        if name not in METRICS:
            raise unknown("metric", name, METRICS)
    if options.tokenize not in TOKENIZERS:
        raise unknown("tokenizer", options.tokenize, TOKENIZERS)


def _check_texts(
    systems: Mapping[str, Sequence[str]], references: Sequence[str], reference_name: str
) -> None:
    for name, lines in [(reference_name, references), *systems.items()]:
        if not lines:
            raise UserError(f"{name} is empty: there is nothing to score")
        if len(lines) != len(references):
            raise mismatch((name, reference_name), (len(lines), len(references)))
    if not any(line.strip() for line in references):
        raise UserError(f"{reference_name} has only empty lines: there is nothing to compare with")


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
