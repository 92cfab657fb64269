"""Source-extended vocabularies: the target vocabulary and, behind it, one sentence's other words.

A model that copies (models/copying.py) can write source words that the target vocabulary lacks.
Such a word has the id V + j, where j, counted from 0, is the first place where it stands in its
source sentence; a source word that the target vocabulary has keeps its id there (See, Liu and
Manning, 2017, section 2.2). Words are compared as strings of subwords.

Letters: B sentences, S source length, T target length, V target vocabulary, N numbers. A number
is an id, or below 0 for an unknown word (`nmtkit.vocabulary.unknown_number`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nmtkit.vocabulary import SPECIALS, UNK, Vocabulary, unknown_number

Numbers = npt.NDArray[np.int64]


class ExtendedVocabulary:
    """What source words are among the target words, for one pair of vocabularies."""

    def __init__(self, source: Vocabulary, target: Vocabulary) -> None:
        self._source, self._target = source, target
        no_words = len(SPECIALS)
        #: By source id: the target id or -1; the number it would have if it were unknown, or 0.
        self._target_of = np.array([-1] * no_words + [_id(target, token) for token in source])
        self._unknown = np.array([0] * no_words + [unknown_number(token) for token in source])
        others = sorted((unknown_number(t), _id(target, t)) for t in target if t not in source)
        #: Of the target words that the source vocabulary lacks: (2, W), numbers and ids.
        self._others: Numbers = np.array(others, dtype=np.int64).reshape(-1, 2).T

    def copied(self, source: Numbers) -> Numbers:
        """Source numbers (B, S) -> what copying from each place writes: target id, V + j or -1.

        -1 stands at specials, which are never copied: the ends, padding, and UNK where nobody
        knows which word it was.
        """
        known = np.where(source < 0, self._of_others(source), self._target_of[source.clip(0)])
        word = (source < 0) | (source >= len(SPECIALS))
        own = np.where(word, len(self._target) + _first_places(source), -1)
        return np.where(known < 0, own, known)

    def target_ids(self, source: Numbers, copied: Numbers, target: Numbers) -> Numbers:
        """Target numbers (B, T) -> ids: of a word that only its source (B, S) has, V + j."""
        rows, columns = np.nonzero(target < 0)
        words = np.where(source < 0, source, self._unknown[source.clip(0)])[rows]
        same = words == target[rows, columns, None]
        ids = np.where(target < 0, UNK, target)
        first = copied[rows, same.argmax(1)]
        ids[rows, columns] = np.where(same.any(1), first, UNK)
        return ids

    def line_ids(self, source: Iterable[str], target: Iterable[str]) -> list[int]:
        """The ids of a target line's subwords beside its source's, without EOS."""
        numbers = np.array([[*self._source.numbers(source), UNK]])
        targets = np.array([self._target.numbers(target)], dtype=np.int64)
        found: list[int] = self.target_ids(numbers, self.copied(numbers), targets)[0].tolist()
        return found

    def _of_others(self, numbers: Numbers) -> Numbers:
        """The target ids of words that the source vocabulary lacks, -1 for those of neither."""
        known, ids = self._others
        if not len(known):
            return np.full_like(numbers, -1)
        places = np.searchsorted(known, numbers).clip(max=len(known) - 1)
        return np.where(known[places] == numbers, ids[places], -1)


def _id(vocabulary: Vocabulary, token: str) -> int:
    return vocabulary.ids([token])[0] if token in vocabulary else -1


def _first_places(numbers: Numbers) -> Numbers:
    """For every number (B, S) the first place in its row where the same one stands."""
    order = numbers.argsort(1, kind="stable")
    rising = np.take_along_axis(numbers, order, 1)
    new = np.concatenate([np.ones_like(rising[:, :1]), np.diff(rising, axis=1)], 1) != 0
    heads = np.maximum.accumulate(np.where(new, np.arange(numbers.shape[1]), 0), axis=1)
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.take_along_axis(order, heads, 1), 1)
    return first
