"""Word links from attention: forced decoding of given pairs, subwords to words, extraction.

An attention weight is a reading of the model, not a proof of what caused a word.

Letters: S source subwords with the end, T target subwords, J source words, I target words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt
import torch

from nmtkit.batches import BatchSize, length_sorted, with_end
from nmtkit.checkpoint import Trained
from nmtkit.errors import UserError, unknown
from nmtkit.links import Links
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.progress import Progress, silent
from nmtkit.search import force_decode
from nmtkit.text import Segmented, Text, token_map

Matrix = npt.NDArray[np.float64]

#: Which row of the attention belongs to a target word: how many rows after the predicting one.
ROWS: dict[str, Callable[[AnySeq2Seq], int]] = {
    "predicting": lambda model: 0,
    "next": lambda model: 1,
    "consumed": lambda model: model.consumed_shift,
}


@dataclass(frozen=True)
class AlignOptions:
    """How links are read from attention, and how many pairs are decoded at once."""

    rows: str = "predicting"
    method: str = "argmax"
    threshold: float = 0.3  # method = threshold: the least weight of a link
    raw: bool = False  # tokenise the lines; links still speak of their space-separated tokens
    batch: BatchSize = field(default_factory=lambda: BatchSize(sentences=64, tokens=4000, pool=1))
    read_ahead: int = 5000  # pairs sorted by length together

    def __post_init__(self) -> None:
        if self.rows not in ROWS:
            raise unknown("row reading", self.rows, ROWS)
        if self.method not in METHODS:
            raise unknown("extraction method", self.method, METHODS)
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, got {self.threshold}")


@dataclass(frozen=True)
class Aligned:
    """One pair: its tokens, the word attention (I, J+1; the last column is NULL), the links."""

    source: list[str]
    target: list[str]
    attention: Matrix
    links: Links


def token_places(line: str, tokens: list[str]) -> list[int]:
    """For every token of the processed line its place in `line` split on the ASCII space, or -1.

    Unlike token_map's, places count the empty tokens that spaces in a row have between them.
    """
    given = [place for place, token in enumerate(line.split(" ")) if token]
    found = token_map(" ".join(token for token in line.split(" ") if token), tokens)
    return [given[index] if index >= 0 else -1 for index in found]


@dataclass(frozen=True)
class Line:
    """The words of one line, the ids of its subwords, and each subword's word (-1: none)."""

    words: list[str]
    ids: list[int]
    word_of: list[int]

    @staticmethod
    def of_tokens(text: Text, line: str) -> Line:
        """The line's tokens as they are: split on the ASCII space only."""
        tokens = line.split(" ")
        segmented = text.segment_tokens(tokens)
        return Line(tokens, text.ids(segmented), list(segmented.word_of))

    @staticmethod
    def of_raw(text: Text, line: str) -> Line:
        """The line tokenised as in training, words still its space-separated tokens."""
        return Line.of_segmented(text, line, text.segment(line))

    @staticmethod
    def of_segmented(text: Text, line: str, segmented: Segmented) -> Line:
        places = token_places(line, segmented.tokens)
        word_of = [places[token] for token in segmented.word_of]
        return Line(line.split(" "), text.ids(segmented), word_of)


def word_attention(attention: Matrix, source: Line, target: Line, shift: int) -> Matrix:
    """Subword attention (T', S) of one pair -> word attention (I, J+1), the last column NULL.

    The subword in row t is the one that row t predicts; its reading is row t + shift. Columns of
    a source word are summed, rows of a target word averaged; attention on the source's end is
    NULL's. The row of a word without subwords is all NULL.
    """
    null = len(source.words)
    columns = np.array([*source.word_of, -1], dtype=np.int64)
    columns[columns < 0] = null
    by_word = np.zeros((len(target.ids), null + 1))
    rows = attention[shift : shift + len(target.ids), : len(columns)]
    np.add.at(by_word.T, columns, rows.T)
    result = np.zeros((len(target.words), null + 1))
    counts = np.zeros(len(target.words))
    words = np.array(target.word_of, dtype=np.int64)
    kept = words >= 0
    np.add.at(result, words[kept], by_word[kept])
    np.add.at(counts, words[kept], 1)
    result /= np.maximum(counts, 1)[:, None]
    result[counts == 0, null] = 1.0
    return result


def argmax_links(attention: Matrix, options: AlignOptions) -> Links:
    """Each target word's strongest source word, unless NULL is stronger."""
    best = attention.argmax(1)
    null = attention.shape[1] - 1
    return frozenset((int(j), i) for i, j in enumerate(best) if j != null)


def threshold_links(attention: Matrix, options: AlignOptions) -> Links:
    """Every pair of words with at least the threshold's weight."""
    targets, sources = np.nonzero(attention[:, :-1] >= options.threshold)
    return frozenset(zip(sources.tolist(), targets.tolist(), strict=True))


#: Attention (I, J+1) -> links. To add a method: a function and a line.
METHODS: dict[str, Callable[[Matrix, AlignOptions], Links]] = {
    "argmax": argmax_links,
    "threshold": threshold_links,
}


def check_attention(models: Sequence[Trained]) -> None:
    """UserError for a model whose architecture attends to nothing."""
    for trained in models:
        if not trained.model.has_attention:
            raise UserError(
                f"{trained.folder}: its architecture has no attention to read links from: "
                "align with another model"
            )


def read_attention(
    models: Sequence[Trained], pairs: Sequence[tuple[Line, Line]], options: AlignOptions
) -> list[Matrix]:
    """The word attention (I, J+1) of every pair by forced decoding, the models' mean.

    Raises UserError for a model without attention.
    """
    check_attention(models)
    matrices: list[Matrix | None] = [None] * len(pairs)
    present = [p for p, (source, target) in enumerate(pairs) if source.ids and target.ids]
    longer = [max(len(pairs[p][0].ids), len(pairs[p][1].ids)) for p in present]
    device = next(models[0].model.parameters()).device
    for rows in length_sorted(longer, options.batch):
        chosen = [present[row] for row in rows]
        source = with_end([pairs[p][0].ids for p in chosen]).to(device)
        target = with_end([pairs[p][1].ids for p in chosen]).to(device)
        found = []
        for trained in models:
            forced = force_decode([trained.model], source, source != 0, target)
            shift = ROWS[options.rows](trained.model)
            found.append((forced.attention.double().cpu().numpy(), shift))
        for row, p in enumerate(chosen):
            read = [word_attention(a[row], *pairs[p], shift) for a, shift in found]
            matrices[p] = np.mean(read, axis=0)
    return [
        _nothing(*pair) if matrix is None else matrix
        for matrix, pair in zip(matrices, pairs, strict=True)
    ]


def _nothing(source: Line, target: Line) -> Matrix:
    """A pair with an empty side: every target word is NULL's."""
    matrix = np.zeros((len(target.words), len(source.words) + 1))
    matrix[:, -1] = 1.0
    return matrix


def align(
    models: Sequence[Trained],
    pairs: Iterable[tuple[str, str]],
    options: AlignOptions,
    progress: Progress = silent,
) -> Iterator[Aligned]:
    """The links of every pair of lines, in order; `models` is one model or an ensemble."""
    first = models[0]
    read = Line.of_raw if options.raw else Line.of_tokens
    stream = iter(progress(pairs, "aligning"))
    while some := list(islice(stream, options.read_ahead)):
        sides = [(read(first.source, s), read(first.target, t)) for s, t in some]
        with torch.inference_mode():
            matrices = read_attention(models, sides, options)
        for (source, target), matrix in zip(sides, matrices, strict=True):
            links = METHODS[options.method](matrix, options)
            yield Aligned(source.words, target.words, matrix, links)
