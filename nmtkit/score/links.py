"""Links against gold links: the alignment error rate of Och and Ney (2003), over the whole corpus.

Beside it stand ``significance`` (is a difference more than chance?), ``differences`` (in which
sentences is it?) and ``errors`` (at which words, and what went wrong?).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from operator import add

from nmtkit.errors import UserError
from nmtkit.links import Gold, LinkedPair, Links, check_bounds, in_step, mismatch, split_tokens

NOTHING = LinkedPair(Gold(frozenset(), frozenset()))


@dataclass(frozen=True)
class AlignmentScore:
    r"""Links A against sure links S and possible links P (S ⊆ P), all fractions between 0 and 1.

    precision = |A∩P| / |A|, recall = |A∩S| / |S|, f1 their harmonic mean, and
    aer = 1 - (|A∩S| + |A∩P|) / (|A| + |S|)    (Och and Ney, 2003, section 6)

    The counts are sums over all sentence pairs. Where a denominator is 0: precision is 0 for no
    links at all, unless there was no sure link to find either (then 1); recall is 1 without sure
    links (none was missed); aer is 0 without both; f1 is 0 when precision and recall are.
    So aer = 1 - f1 holds whenever S = P.

    Seen from the errors, aer = (wrong + missed) / (|A| + |S|): ``wrong`` links are |A\P|,
    ``missed`` ones |S\A|. Scores add up: ``sum(scores, AlignmentScore())`` is the corpus's.
    """

    sentences: int = 0
    links: int = 0
    sure: int = 0
    possible: int = 0
    links_in_sure: int = 0
    links_in_possible: int = 0

    def __add__(self, other: AlignmentScore) -> AlignmentScore:
        return AlignmentScore(*map(add, vars(self).values(), vars(other).values()))

    @property
    def precision(self) -> float:
        if not self.links:
            return 0.0 if self.sure else 1.0
        return self.links_in_possible / self.links

    @property
    def recall(self) -> float:
        return self.links_in_sure / self.sure if self.sure else 1.0

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def aer(self) -> float:
        total = self.links + self.sure
        return 1 - (self.links_in_sure + self.links_in_possible) / total if total else 0.0

    @property
    def wrong(self) -> int:
        return self.links - self.links_in_possible

    @property
    def missed(self) -> int:
        return self.sure - self.links_in_sure

    @property
    def errors(self) -> int:
        return self.wrong + self.missed

    @property
    def links_per_sentence(self) -> float:
        return self.links / self.sentences if self.sentences else 0.0

    @property
    def counts(self) -> dict[str, int]:
        return asdict(self)

    def to_json(self) -> dict[str, float | int]:
        """The rates, then the counts behind them."""
        names = ("aer", "precision", "recall", "f1", "links_per_sentence")
        return {**{name: getattr(self, name) for name in names}, **self.counts}


def score_sentence(links: Links, gold: Gold) -> AlignmentScore:
    """Compare the links of one sentence pair with the gold ones."""
    return AlignmentScore(
        1,
        len(links),
        len(gold.sure),
        len(gold.possible),
        len(links & gold.sure),
        len(links & gold.possible),
    )


def score_links(
    hypothesis: Iterable[Links],
    gold: Iterable[Gold],
    names: tuple[str, str] = ("the hypothesis", "the gold file"),
) -> AlignmentScore:
    """Compare the links of every sentence pair with the gold ones and add up over the corpus.

    Raises UserError when the two (``names`` for the message) have different numbers of lines, or
    none at all.
    """
    pairs = in_step(hypothesis, gold, names)
    total = sum((score_sentence(*pair) for pair in pairs), AlignmentScore())
    if not total.sentences:
        raise UserError(f"{names[1]} is empty: there is nothing to score")
    return total


# ------------------------------------------------------------------------------ several systems


@dataclass(frozen=True)
class PairFile:
    """The sentence pairs of one file: links, or the texts, or both.

    ``by_pair`` False is for files that need not state the last pairs if those have no links.
    """

    name: str  # for messages
    pairs: Iterable[LinkedPair]
    by_pair: bool = True


@dataclass(frozen=True)
class Sentence:
    """One sentence pair: gold, the ``links`` of every system, and the tokens where known."""

    number: int  # from 1, as lines are
    gold: Gold
    links: tuple[Links, ...]
    source: list[str] | None = None
    target: list[str] | None = None


def text_file(name: str, lines: Iterable[tuple[str, str]]) -> PairFile:
    """Source and target lines as pairs without links; ``name`` is the source's."""

    def pairs() -> Iterator[LinkedPair]:
        for number, (source, target) in enumerate(lines, start=1):
            tokens = split_tokens(source), split_tokens(target)
            yield LinkedPair(NOTHING.gold, *tokens, where=f"{name}:{number}")

    return PairFile(name, pairs())


def in_parallel(
    systems: Sequence[PairFile], gold: PairFile, texts: PairFile | None = None
) -> Iterator[Sentence]:
    """The sentence pairs of several systems beside gold, one at a time.

    Every link of a system counts, whether its file marks it sure or possible. Raises UserError when
    the files have different numbers of pairs, none at all, or different tokens, and "FILE:LINE: …"
    for a link, of a system or of gold, beyond the tokens of its sentence pair.
    """
    files = [texts, gold, *systems] if texts else [gold, *systems]
    number = 0
    for number, row in enumerate(_side_by_side(files), start=1):
        source, target = _tokens(row)
        reference, *others = row[1:] if texts else row
        links = tuple([pair.gold.possible for pair in others])
        yield Sentence(number, reference.gold, links, source, target)
    if not number:
        raise UserError(f"{gold.name} is empty: there is nothing to score")


def _side_by_side(files: Sequence[PairFile]) -> Iterator[list[LinkedPair]]:
    """A pair of every file, or one without links of a file that has ended early."""
    open_files = [iter(file.pairs) for file in files]
    for number in count():
        row = [next(pairs, None) for pairs in open_files]
        longer = next((n for n, pair in enumerate(row) if pair is not None), None)
        if longer is None:
            return
        for file, pair in zip(files, row):
            if pair is None and file.by_pair:
                total = number + 1 + sum(1 for _ in open_files[longer])
                raise mismatch((file.name, files[longer].name), (number, total), "pair")
        yield [pair or NOTHING for pair in row]


def _tokens(row: Sequence[LinkedPair]) -> tuple[list[str] | None, list[str] | None]:
    """Source and target of a row; the first file that has them is what the others must fit."""
    known = next((pair for pair in row if pair.source is not None), None)
    if known is None or known.source is None or known.target is None:
        return None, None
    for pair in row:
        for side, own, tokens in (
            ("source", pair.source, known.source),
            ("target", pair.target, known.target),
        ):
            if own is not None and own != tokens:
                raise UserError(f"{pair.where}: other tokens of the {side} than {known.where}")
        check_bounds(pair.every_link, len(known.source), len(known.target), pair.where)
    return known.source, known.target
