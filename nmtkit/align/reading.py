"""Word attention of given pairs: forced decoding, and subwords to words.

Letters: B batch, S source subwords with the end, T target subwords with the end, T' rows of the
attention (at least T), J source words, I target words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from nmtkit.align.extraction import Matrix
from nmtkit.batches import length_sorted, with_end
from nmtkit.checkpoint import Trained
from nmtkit.errors import UserError
from nmtkit.links import split_tokens
from nmtkit.models.aligner import Aligner
from nmtkit.models.seq2seq import AnySeq2Seq, Seq2Seq
from nmtkit.search import force_decode
from nmtkit.text import Segmented, Text, token_map
from nmtkit.vocabulary import PAD

if TYPE_CHECKING:
    from nmtkit.align.options import AlignOptions

HEAD = "head"

#: Which row of the decoder's attention belongs to a target word: how many rows after the one that
#: predicts it. The alignment head, where there is one, has a row for every target word.
SHIFTS: dict[str, Callable[[AnySeq2Seq], int]] = {
    "predicting": lambda model: 0,
    "next": lambda model: 1,
    "consumed": lambda model: model.consumed_shift,
}
ROWS = (*SHIFTS, HEAD)


@dataclass(frozen=True)
class Line:
    """The words of one line, the ids of its subwords, and each subword's word (-1: none)."""

    words: list[str]
    ids: list[int]
    word_of: list[int]

    @staticmethod
    def of_tokens(text: Text, line: str) -> Line:
        """The line's tokens as they are: what runs of ASCII spaces separate."""
        tokens = split_tokens(line)
        segmented = text.segment_tokens(tokens)
        return Line(tokens, text.ids(segmented), list(segmented.word_of))

    @staticmethod
    def of_raw(text: Text, line: str) -> Line:
        """The line tokenised as in training, words still its space-separated tokens."""
        return Line.of_segmented(text, line, text.segment(line))

    @staticmethod
    def of_segmented(text: Text, line: str, segmented: Segmented) -> Line:
        places = token_map(line, segmented.tokens)
        word_of = [places[token] for token in segmented.word_of]
        return Line(split_tokens(line), text.ids(segmented), word_of)


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


def check_attention(models: Sequence[Trained]) -> None:
    """UserError for a model whose architecture attends to nothing."""
    for trained in models:
        if not trained.model.has_attention:
            raise UserError(
                f"{trained.folder}: its architecture has no attention to read links from: "
                "align with another model"
            )


def available_rows(trained: Trained) -> tuple[str, ...]:
    """The row readings that the model has."""
    if isinstance(trained.model, Aligner):
        return ("predicting",)
    return (*SHIFTS, HEAD) if trained.model.head is not None else tuple(SHIFTS)


def common_rows(models: Sequence[Trained]) -> tuple[str | None, ...]:
    """The row readings that all models have; None, each model's own, where these differ.

    Models that only align have one, which goes with any.
    """
    known = [available_rows(one) for one in models if not isinstance(one.model, Aligner)]
    if not known:
        return ("predicting",)
    own: tuple[str | None, ...] = () if len(set(known)) == 1 else (None,)
    return (*own, *(rows for rows in known[0] if all(rows in other for other in known)))


def rows_of(trained: Trained, rows: str | None) -> str:
    """The row reading that is asked for (None: the model's own); UserError when it has it not."""
    known = available_rows(trained)
    if rows is None:
        return HEAD if HEAD in known else "predicting"
    if rows in known:
        return rows
    if isinstance(trained.model, Aligner):
        raise UserError(f"{trained.folder}: its architecture only aligns: leave out --rows {rows}")
    raise UserError(
        f"{trained.folder}: it has no alignment head to read: train it with "
        "--set model.alignment_head=true, or say other --rows"
    )


def choose_attention(trained: Trained, layer: int | None, head: int | None) -> None:
    """From now on read the attention of this decoder layer and this head of it (0: of all).

    None: as the model's settings have it. UserError when there is no such layer or head.
    """
    model = trained.model
    for name, number in (("layer", layer), ("head", head)):
        if number is None:
            continue
        if isinstance(model, Aligner):
            raise UserError(f"{trained.folder}: its architecture only aligns: leave out --{name}")
        most = getattr(model, f"attention_{name}s")
        if number > most:
            raise UserError(
                f"{trained.folder}: its decoder has no attention of {name} {number}: --{name} may "
                f"be up to {most}"
            )
        setattr(model, f"attention_{name}", number)


def attention_rows(
    trained: Trained, source: Tensor, mask: Tensor, target: Tensor, rows: str | None
) -> tuple[Tensor, int]:
    """Source ids (B, S), mask (B, S), target ids (B, T) -> attention (B, T', S), the row shift.

    The reading of the target subword that row t predicts is row t + shift, as `rows` has it. Models
    that only align have no choice of rows: `rows` is of the others beside them.
    """
    model = trained.model
    if isinstance(model, Aligner):
        return model.attention(source, mask, target), 0
    rows = rows_of(trained, rows)
    if rows == HEAD:
        forward, _ = model.align(source, target, target != PAD, model.encode(source, mask))
        return forward.exp(), 0
    return force_decode([model], source, mask, target).attention, SHIFTS[rows](model)


class _Turned(Aligner):
    """What the alignment head of a model says of the other direction."""

    def __init__(self, model: AnySeq2Seq) -> None:
        super().__init__()
        self.model = model

    def attention(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        memory = self.model.encode(target, target != PAD)
        _, backward = self.model.align(target, source, mask, memory)
        return backward.exp().transpose(1, 2)


def turned(trained: Trained) -> Trained | None:
    """The other direction of a model with an alignment head, which reads both; else None."""
    model = trained.model
    if not isinstance(model, Seq2Seq) or model.head is None:
        return None
    return Trained(trained.folder, _Turned(model), trained.target, trained.source, False)


def turned_all(models: Sequence[Trained]) -> list[Trained]:
    """The other direction of every model, where all have an alignment head; else none."""
    others = [other for one in models if (other := turned(one)) is not None]
    return others if len(others) == len(models) else []


@torch.inference_mode()
def read_attention(
    models: Sequence[Trained], pairs: Sequence[tuple[Line, Line]], options: AlignOptions
) -> list[Matrix]:
    """The word attention (I, J+1) of every pair by forced decoding, the models' mean.

    Raises UserError for a model without attention.
    """
    check_attention(models)
    matrices = [_nothing(*pair) for pair in pairs]
    present = [p for p, (source, target) in enumerate(pairs) if source.ids and target.ids]
    longer = [max(len(pairs[p][0].ids), len(pairs[p][1].ids)) for p in present]
    device = models[0].device
    for places in length_sorted(longer, options.batch):
        chosen = [present[place] for place in places]
        source = with_end([pairs[p][0].ids for p in chosen]).to(device)
        target = with_end([pairs[p][1].ids for p in chosen]).to(device)
        found = []
        for trained in models:
            rows, shift = attention_rows(trained, source, source != PAD, target, options.rows)
            found.append((rows.double().cpu().numpy(), shift))
        for place, p in enumerate(chosen):
            read = [word_attention(rows[place], *pairs[p], shift) for rows, shift in found]
            matrices[p] = np.mean(read, axis=0)
    return matrices


def _nothing(source: Line, target: Line) -> Matrix:
    """A pair with an empty side: every target word is NULL's."""
    matrix = np.zeros((len(target.words), len(source.words) + 1))
    matrix[:, -1] = 1.0
    return matrix
