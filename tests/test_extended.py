"""Unknown words kept apart, and the source-extended vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmtkit.batches import Batch, of_sources
from nmtkit.data import Bitext, Ids, known
from nmtkit.extended import ExtendedVocabulary
from nmtkit.vocabulary import EOS, PAD, UNK, Vocabulary, unknown_number

SOURCE = Vocabulary([("a", 3), ("b", 2), ("c", 1)])  # 4 5 6
TARGET = Vocabulary([("b", 2), ("d", 1)])  # 4 5
EXTENDED = ExtendedVocabulary(SOURCE, TARGET)
V = 6


@pytest.mark.parametrize(
    ("word", "digest"),  # of coreutils: printf WORD | b2sum -l 32
    [("Zanzibar", "2cf77c73"), ("x", "b1ba07e5"), ("</s>", "27840758"), ("Ünal", "bd56c00b")],
)
def test_number_of_an_unknown_word(word: str, digest: str) -> None:
    """It stands in files, so that it may never change."""
    first_31_bits = int.from_bytes(bytes.fromhex(digest), "little") // 2
    assert unknown_number(word) == -1 - first_31_bits
    assert -(2**31) <= unknown_number(word) < 0


def test_numbers_are_ids_with_unknown_words_apart() -> None:
    numbers = SOURCE.numbers(["b", "x", "</s>", "c", "x"])
    assert numbers == [5, unknown_number("x"), unknown_number("</s>"), 6, unknown_number("x")]
    assert SOURCE.ids(["b", "x", "</s>", "c", "x"]) == [5, UNK, UNK, 6, UNK]


def test_tokens_of_an_extension() -> None:
    assert TARGET.tokens([4, V + 1, UNK, V], ["x", "y"]) == ["b", "y", "<unk>", "x"]
    for wrong in (V + 2, -1):
        with pytest.raises(IndexError):
            TARGET.tokens([wrong], ["x", "y"])


def test_readers_see_ids_and_whoever_asks_numbers() -> None:
    numbers = np.array([4, -7, 6, 5, -9], np.int32)
    side = Ids(numbers, np.array([0, 3, 5]))
    assert side[0].tolist() == [4, UNK, 6]
    assert side.numbers_of(1).tolist() == [5, -9]
    bitext = Bitext(side, side)
    assert bitext.source(1).tolist() == bitext.target(1).tolist() == [5, UNK]
    assert known(numbers).dtype == np.int32


def test_what_a_source_word_is_to_the_target() -> None:
    """a: known to the source only · x: to neither · b: to both · d: to the target only."""
    source = SOURCE.numbers(["a", "x", "b", "d", "a", "x", "</s>"])
    expected = [V + 0, V + 1, 4, 5, V + 0, V + 1, V + 6, -1, -1]
    assert EXTENDED.copied(np.array([[*source, EOS, PAD]])).tolist() == [expected]


def test_which_place_a_target_word_has() -> None:
    """q: not in the source either."""
    source = ["a", "x", "b", "d", "a", "x"]
    target = ["x", "b", "q", "a", "d", "x", "c"]
    assert EXTENDED.line_ids(source, target) == [V + 1, 4, UNK, V + 0, 5, V + 1, UNK]
    assert EXTENDED.line_ids([], target) == [UNK, 4, UNK, UNK, 5, UNK, UNK]
    assert EXTENDED.line_ids(source, []) == []


def test_a_word_of_which_only_unk_is_known_is_not_copied() -> None:
    """As corpora of format 2 have it."""
    batch = Batch.of([[4, UNK, UNK]], [[UNK, 4]], EXTENDED)
    assert batch.copied is not None
    assert batch.copied.tolist() == [[V + 0, -1, -1, -1]]
    assert batch.targets.tolist() == [[UNK, 4, EOS]]


def plain(source: Sequence[str], target: Sequence[str]) -> tuple[list[int], list[int]]:
    """By strings, a word at a time."""

    def of(word: str) -> int:
        if word in TARGET:
            return TARGET.ids([word])[0]
        return V + source.index(word) if word in source else UNK

    return [of(word) for word in source], [of(word) for word in target]


words = st.lists(st.sampled_from(["a", "b", "c", "d", "x", "y", "<s>", "b@@"]), max_size=7)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=4))
def test_a_batch_is_every_pair_by_itself(pairs: list[tuple[list[str], list[str]]]) -> None:
    sources = [SOURCE.numbers(source) for source, _ in pairs]
    targets = [TARGET.numbers(target) for _, target in pairs]
    batch = Batch.of(sources, targets, EXTENDED)
    assert batch.copied is not None
    for b, pair in enumerate(pairs):
        copied, ids = plain(*pair)
        rest = batch.copied.shape[1] - len(copied)
        assert batch.copied[b].tolist() == [*copied, *[-1] * rest]
        assert batch.targets[b, : len(ids) + 1].tolist() == [*ids, EOS]
        assert EXTENDED.line_ids(*pair) == ids
        assert batch.source[b, : len(copied)].tolist() == SOURCE.ids(pair[0])
        assert batch.target_out[b, : len(ids)].tolist() == TARGET.ids(pair[1])
        part = batch.part(slice(b, b + 1))
        assert part.copied is not None
        assert part.copied.tolist() == [[*copied, -1]]
        assert part.targets.tolist() == [[*ids, EOS]]
    assert not any((ids < 0).any() for ids in (batch.source, batch.target_in, batch.target_out))


def test_no_sentences_at_all() -> None:
    batch = Batch.of([], [], EXTENDED)
    assert batch.copied is not None
    assert batch.copied.shape == batch.source.shape == (0, 1)


def test_sources_alone() -> None:
    numbers = [SOURCE.numbers(["x", "a"]), SOURCE.numbers(["b"])]
    ids, copied = of_sources(numbers, EXTENDED)
    assert ids.tolist() == [[UNK, 4, EOS], [5, EOS, PAD]]
    assert copied is not None
    assert copied.tolist() == [[V + 0, V + 1, -1], [4, -1, -1]]
    assert of_sources(numbers)[1] is None
