"""BPE-dropout: a fresh segmentation of the training text every epoch (Provilkov et al., 2020)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from nmtkit.data import IdArray, Ids, known
from nmtkit.text import Text
from nmtkit.vocabulary import UNK, Vocabulary

#: Segmentations drawn for one word and epoch; more occurrences than that draw from these.
DRAWS = 64


def resegment(
    sentences: Ids, text: Text, vocabulary: Vocabulary, dropout: float, seed: Sequence[int]
) -> Ids:
    """The same sentences with each merge left out with probability `dropout`.

    Words with an unknown subword stay as they are. The result is a function of the arguments.
    """
    draw = random.Random(repr(tuple(seed)))
    drawn: dict[tuple[int, ...], list[list[int]]] = {}
    ids: list[int] = []
    offsets = [0]
    for index in range(len(sentences)):
        for word in _words(sentences.numbers_of(index), text, vocabulary):
            known = drawn.setdefault(word, [])
            if len(known) < DRAWS:
                known.append(_segment(word, text, vocabulary, dropout, draw))
                ids += known[-1]
            else:
                ids += known[draw.randrange(DRAWS)]
        offsets.append(len(ids))
    return Ids(np.array(ids, dtype=np.int32), np.array(offsets, dtype=np.int64))


def _words(numbers: IdArray, text: Text, vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """The numbers of a sentence, a tuple a word."""
    _, word_of = text.words_with_map(vocabulary.tokens(known(numbers).tolist()))
    words: list[list[int]] = []
    last = None
    for number, word in zip(numbers.tolist(), word_of, strict=True):
        if word != last:
            words.append([])
        words[-1].append(number)
        last = word
    return [tuple(word) for word in words]


def _segment(
    word: tuple[int, ...], text: Text, vocabulary: Vocabulary, dropout: float, draw: random.Random
) -> list[int]:
    if min(word) <= UNK:
        return list(word)
    tokens = text.words(vocabulary.tokens(word))
    drawn = [i for token in tokens for i in vocabulary.ids(text.subwords_of(token, dropout, draw))]
    return list(word) if UNK in drawn else drawn  # what dropout cut may not be in the vocabulary
