"""Links that a model's attention is to learn: guided alignment (Chen et al., 2016).

The links come from a file, between words; attention lies between subwords, and so do these.

Letters: B pairs of a batch, S and T the longest source and target in subwords, the end included,
L links, W words.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmtkit.batches import Indices
from nmtkit.data import Bitext, Ids, PreparedCorpus, known
from nmtkit.errors import UserError
from nmtkit.links import Gold, check_bounds, in_step, read_gold, read_links, split_tokens
from nmtkit.text import Text
from nmtkit.vocabulary import UNK

IntArray = npt.NDArray[np.int32]
LongArray = npt.NDArray[np.int64]

CHUNK = 10_000  # pairs expanded at a time
BLOCK = 1 << 20  # ids looked at at a time


@dataclass(frozen=True)
class Guide:
    """The links of every pair between its subwords: those of pair i are links[o[i]:o[i+1]].

    ``links`` (L, 2): source subword, target subword, from 0. ``offsets`` (pairs + 1,). The lengths
    (pairs,) count subwords without the end.
    """

    links: IntArray
    offsets: LongArray
    source_lengths: IntArray
    target_lengths: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, index: int) -> IntArray:
        """The links (L, 2) of pair ``index``: (source subword, target subword)."""
        return self.links[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def batch(self, indices: Indices | Sequence[int], source: int, target: int) -> Tensor:
        """What the attention of the pairs ``indices`` should be: (B, T, S) float32.

        ``source`` is S, ``target`` T. The row of a target subword is spread evenly over the source
        subwords it is linked with. That of one without links, and that of the target's end, is
        all on the source's end, which stands for "unaligned". Rows of padding are 0.
        """
        chosen = np.asarray(indices, dtype=np.int64)
        counts = self.offsets[chosen + 1] - self.offsets[chosen]
        places, rows = _runs(self.offsets[chosen], counts)
        links = self.links[places]
        weights = np.zeros((len(chosen), target, source), dtype=np.float32)
        weights[rows, links[:, 1], links[:, 0]] = 1.0
        linked = weights.sum(2)
        steps = np.arange(target) <= self.target_lengths[chosen, None]  # False: padding
        pairs, free = np.nonzero(steps & (linked == 0))
        weights[pairs, free, self.source_lengths[chosen][pairs]] = 1.0
        weights /= np.maximum(linked, 1.0)[:, :, None]
        return torch.from_numpy(weights)


@dataclass(frozen=True)
class WordLinks:
    """The links of every training pair between its words, checked against its lengths.

    ``links`` (L, 2) int32: source word, target word. ``offsets`` (pairs + 1,). ``lengths``: of the
    pairs' two sides in words.
    """

    links: IntArray
    offsets: LongArray
    words: tuple[Words, Words]
    lengths: tuple[LongArray, LongArray]

    def guide(self, bitext: Bitext) -> Guide:
        """The same links between the subwords of ``bitext``: a word's are all its subwords'.

        ``bitext`` has the words of the corpus, though perhaps cut otherwise (BPE-dropout); raises
        ValueError where they are not as many.
        """
        parts = [self._expand(bitext, *chunk) for chunk in _chunks(len(bitext))]
        links = np.concatenate([links for links, _ in parts])
        counts = np.concatenate([counts for _, counts in parts])
        lengths = bitext.source_lengths, bitext.target_lengths
        return Guide(links, _offsets(counts), *lengths)

    def _expand(self, bitext: Bitext, begin: int, end: int) -> tuple[IntArray, LongArray]:
        """The subword links of pairs [begin, end), and how many each pair has."""
        offsets = self.offsets[begin : end + 1]
        links = self.links[offsets[0] : offsets[-1]]
        pairs = np.repeat(np.arange(end - begin), np.diff(offsets))
        places, sizes = [], []
        for side, sentences in enumerate((bitext.source_ids, bitext.target_ids)):
            spans = self.words[side].spans(sentences, begin, end)
            if (np.diff(spans.first) != self.lengths[side][begin:end]).any():
                raise ValueError("the bitext has other words than the corpus")
            word = spans.first[pairs] + links[:, side]
            places.append(spans.places[word])
            sizes.append(spans.sizes[word])
        totals = sizes[0] * sizes[1]
        within, link = _runs(np.zeros_like(totals), totals)
        source = places[0][link] + within // sizes[1][link]
        target = places[1][link] + within % sizes[1][link]
        counts = np.diff(_offsets(totals)[offsets - offsets[0]])
        return np.stack([source, target], 1).astype(np.int32), counts


@dataclass(frozen=True)
class Spans:
    """The W words of some sentences, end to end, and which of them is each sentence's first."""

    places: LongArray  # (W,): of the first subword in its sentence
    sizes: LongArray  # (W,) in subwords
    first: LongArray  # (sentences + 1,)


class Words:
    """Which subwords of a side begin a word, told by id as `Text.words_with_map` tells it."""

    def __init__(self, text: Text) -> None:
        vocabulary = text.vocabulary
        assert vocabulary is not None, "a prepared corpus has vocabularies"
        tokens = vocabulary.tokens(range(len(vocabulary)))
        join = text.words_with_map
        #: By id: begins a word after another word ("a"), does not end before the next one ("▁b").
        self.begins = np.array([join(["a", token, "b"])[1][1] == 1 for token in tokens])
        self.goes_on = np.array([join([token, "▁b"])[1][1] == 0 for token in tokens])

    def spans(self, sentences: Ids, begin: int, end: int) -> Spans:
        """The words of the sentences [begin, end), none of which is empty."""
        offsets = sentences.offsets[begin : end + 1]
        ids = known(sentences.numbers[offsets[0] : offsets[-1]])
        heads = offsets[:-1] - offsets[0]
        begins = self.begins[ids]
        begins[1:] &= ~self.goes_on[ids[:-1]]
        begins[heads] = True
        starts = np.flatnonzero(begins)
        first = np.searchsorted(starts, offsets - offsets[0])
        places = starts - np.repeat(heads, np.diff(first))
        return Spans(places, np.diff(starts, append=len(ids)), first)

    def counts(self, sentences: Ids) -> LongArray:
        """How many words each of the sentences has."""
        parts = [self.spans(sentences, *chunk) for chunk in _chunks(len(sentences))]
        return np.concatenate([np.diff(part.first) for part in parts])


def read_guide(path: Path | str, corpus: PreparedCorpus, bitext: Bitext | None = None) -> Guide:
    """The links of the Pharaoh file ``path`` for the training pairs of ``corpus``.

    ``bitext``: the training pairs cut into other subwords of the same words. For the file, and
    errors, see `read_word_links`.
    """
    return read_word_links(path, corpus).guide(corpus.train if bitext is None else bitext)


def read_word_links(path: Path | str, corpus: PreparedCorpus) -> WordLinks:
    """The links of the Pharaoh file ``path``, between words of the training pairs of ``corpus``.

    The file has a line for every pair that the corpus kept, or for every pair of the text it was
    made from; a word is a token as preprocessing saw it.

    Raises UserError (FILE:LINE) for a malformed line and for a link out of bounds; for another
    number of lines; and for a corpus in which unknown subwords hide where words end.
    """
    sides = (
        (corpus.source_text, corpus.train.source_ids),
        (corpus.target_text, corpus.train.target_ids),
    )
    for text, sentences in sides:
        _check_known(text, sentences, corpus)
    numbers, sizes = array("i"), array("i")
    for line in read_links(path):
        numbers.extend(chain.from_iterable(sorted(line)))
        sizes.append(len(line))
    lines = _chosen_lines(path, len(sizes), corpus)
    every = _offsets(np.array(sizes, dtype=np.int32))
    counts = every[lines + 1] - every[lines]
    places, pairs = _runs(every[lines], counts)
    links = np.array(numbers, dtype=np.int32).reshape(-1, 2)[places]
    source, target = (Words(text) for text, _ in sides)
    lengths = source.counts(corpus.train.source_ids), target.counts(corpus.train.target_ids)
    wrong = (links[:, 0] >= lengths[0][pairs]) | (links[:, 1] >= lengths[1][pairs])
    if wrong.any():
        place = int(wrong.argmax())
        pair = int(pairs[place])
        link = (int(links[place, 0]), int(links[place, 1]))
        where = f"{path}:{lines[pair] + 1}"
        check_bounds([link], int(lengths[0][pair]), int(lengths[1][pair]), where)
    return WordLinks(links, _offsets(counts), (source, target), lengths)


def _check_known(text: Text, sentences: Ids, corpus: PreparedCorpus) -> None:
    """An unknown subword does not tell whether it ended a word."""
    if text.config.subwords == "none":
        return
    for begin in range(0, len(sentences.numbers), BLOCK):
        if (sentences.numbers[begin : begin + BLOCK] <= UNK).any():
            raise UserError(
                f"{corpus.folder}: the {text.config.language} training text has unknown subwords, "
                "so that its words cannot be told for the guide's links: run nmtkit preprocess "
                "without --vocabulary-size and --vocabulary-threshold, or with --subwords none"
            )


def _chosen_lines(path: Path | str, found: int, corpus: PreparedCorpus) -> LongArray:
    """The line (from 0) of every training pair in a file of ``found`` lines."""
    kept, read = len(corpus.train), corpus.pairs_read
    if found == read:
        return corpus.train_lines
    if found == kept:
        return np.arange(kept)
    raise UserError(
        f"{path} has {found} line{'' if found == 1 else 's'}, but {corpus.folder} was made from "
        f"{read} pairs and kept {kept}: it must have a line for every one of either"
    )


def _offsets(counts: npt.NDArray[Any]) -> LongArray:
    """Where the parts of such sizes begin, laid end to end; and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _runs(begins: LongArray, counts: LongArray) -> tuple[LongArray, LongArray]:
    """All of begin, begin + 1, … (so many as its count) of every run, and each one's run."""
    run = np.repeat(np.arange(len(counts)), counts)
    ends = np.cumsum(counts)
    return np.arange(len(run)) + (begins - (ends - counts))[run], run


def _chunks(pairs: int) -> list[tuple[int, int]]:
    return [(begin, min(begin + CHUNK, pairs)) for begin in range(0, pairs, CHUNK)]


def read_valid_gold(path: str, corpus: PreparedCorpus) -> list[Gold]:
    """The gold links of the validation pairs, checked against their tokens; none without a path."""
    if not path:
        return []
    if corpus.valid is None:
        raise UserError(f"{corpus.folder} has no validation text for {path}: use --valid there")
    pairs = list(zip(*corpus.valid_lines(), strict=True))
    names = (path, f"the validation text of {corpus.folder}")
    found = []
    for number, (gold, pair) in enumerate(in_step(read_gold(path), pairs, names), 1):
        source, target = (len(split_tokens(line)) for line in pair)
        check_bounds(gold.possible, source, target, f"{path}:{number}")
        found.append(gold)
    return found
