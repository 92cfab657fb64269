"""Hypotheses as words, and what the attention is used for before they become lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from nmtkit.align import METHODS, AlignOptions, Line, Matrix, read_attention
from nmtkit.checkpoint import Trained
from nmtkit.links import Links
from nmtkit.search import Hypothesis
from nmtkit.text import Segmented
from nmtkit.translate.glossary import Glossary
from nmtkit.translate.markup import Marked
from nmtkit.translate.options import TermCount
from nmtkit.vocabulary import UNK


@dataclass(frozen=True)
class Prefix:
    """What a translation begins with: the words as given, and their ids."""

    words: list[str]
    ids: list[int]
    word_of: list[int]  # for every id its word


NO_PREFIX = Prefix([], [], [])


@dataclass(frozen=True)
class Source:
    """A line to translate; `number` counts from 0, `line` is without markup."""

    number: int
    line: str
    cut: Segmented
    ids: list[int]
    prefix: Prefix
    marked: Marked | None = None


@dataclass(frozen=True)
class Draft:
    """A hypothesis as target words, before they become a line."""

    source: Source
    hypothesis: Hypothesis
    words: list[str]
    word_of: list[int]  # for every subword its word, or -1
    fixed: int = 0  # so many words at the start were given
    terms: TermCount = field(default_factory=TermCount)

    def unknown(self) -> set[int]:
        """The words that hold an unknown subword and were not given."""
        pairs = zip(self.hypothesis.ids, self.word_of, strict=True)
        return {word for id_, word in pairs if id_ == UNK and word >= self.fixed}


def draft(trained: Trained, source: Source, hypothesis: Hypothesis) -> Draft:
    """The words of a hypothesis; those of the prefix as they were given."""
    vocabulary, text = trained.target_vocabulary, trained.target
    copied = source.cut.subwords  # the words of ids beyond the vocabulary
    words, word_of = text.words_with_map(vocabulary.tokens(hypothesis.ids, copied))
    given, ids = source.prefix.words, source.prefix.ids
    if not given:
        return Draft(source, hypothesis, words, word_of)
    written = text.words(vocabulary.tokens(ids, copied))  # not as given where they are unknown
    # Where subwords mark the start of a word, the last one given may have been made longer.
    last = given[-1] + words[len(written) - 1].removeprefix(written[-1])
    words = [*given[:-1], last, *words[len(written) :]]
    moved = [word + len(given) - len(written) for word in word_of[len(ids) :]]
    return Draft(source, hypothesis, words, [*source.prefix.word_of, *moved], len(given))


def attention_of(
    models: Sequence[Trained], drafts: Sequence[Draft], options: AlignOptions
) -> list[Matrix]:
    """The attention between the tokens of sources and drafts: (I, J+1) each, the last NULL."""
    size = len(models[0].target_vocabulary)
    pairs = [
        (
            Line(d.source.cut.tokens, d.source.ids, list(d.source.cut.word_of)),
            Line(d.words, [i if i < size else UNK for i in d.hypothesis.ids], d.word_of),
        )
        for d in drafts
    ]
    with torch.inference_mode():
        return read_attention(models, pairs, options)


def links_of(matrix: Matrix, options: AlignOptions) -> Links:
    """(source token, target word) from the attention between them."""
    return METHODS[options.method](matrix, options)


def replace_unknown(
    models: Sequence[Trained],
    drafts: Sequence[Draft],
    options: AlignOptions,
    dictionary: Mapping[str, str],
) -> list[Draft]:
    """Put the attended source word, as it was written, or its translation, for every unknown."""
    changed = list(drafts)
    places = [place for place, one in enumerate(drafts) if one.unknown()]
    matrices = attention_of(models, [drafts[place] for place in places], options)
    for place, matrix in zip(places, matrices, strict=True):
        one = drafts[place]
        words = list(one.words)
        for word in one.unknown():
            original = one.source.cut.tokens[int(matrix[word, :-1].argmax())]
            words[word] = dictionary.get(original, original)
        changed[place] = replace(one, words=words)
    return changed


def put_terms(
    models: Sequence[Trained],
    drafts: Sequence[Draft],
    options: AlignOptions,
    glossary: Glossary,
    tokens: bool,
) -> list[Draft]:
    """See that the terms of the glossary are in every draft; `tokens`: written as tokens."""
    changed = list(drafts)
    matches = [glossary.matches(one.source.cut.tokens) for one in drafts]
    places = [place for place, found in enumerate(matches) if found]
    matrices = attention_of(models, [drafts[place] for place in places], options)
    for place, matrix in zip(places, matrices, strict=True):
        one = drafts[place]
        links = links_of(matrix, options)
        edited = glossary.edit(matches[place], one.words, links, one.fixed, tokens)
        word_of = [edited.moved[word] if word >= 0 else word for word in one.word_of]
        changed[place] = replace(one, words=edited.words, word_of=word_of, terms=edited.count)
    return changed
