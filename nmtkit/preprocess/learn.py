"""What is learned from the training text: truecasers, codes or pieces, vocabularies."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.preprocess.options import PreprocessOptions
from nmtkit.preprocess.passes import Counts, Texts, cut, read_lines, words
from nmtkit.preprocess.report import VocabularyReport
from nmtkit.progress import Progress
from nmtkit.text import Text, TextConfig, learn_codes, learn_sentencepiece, train_truecaser
from nmtkit.vocabulary import Vocabulary

# Codes are learned from so many of the most frequent tokens: subword-nmt needs about 1 KB for each,
# and the rare ones hardly count. Only corpora of many million pairs have more.
LEARNED_FROM = 500_000


def new_texts(options: PreprocessOptions) -> Texts:
    """Both sides' text, with nothing learned yet."""
    source, target = (
        Text(
            TextConfig(
                language=language,
                tokenizer=options.tokenizer,
                normalise=options.normalise,
                case=options.case,
                subwords=options.subwords,
                joint=not options.separate,
                restrict=options.subwords == "bpe" and options.vocabulary_threshold is not None,
            )
        )
        for language in (options.source_lang, options.target_lang)
    )
    return source, target


def with_truecasers(texts: Texts, tokenised: Path, total: int, progress: Progress) -> Texts:
    """``texts`` with truecasers learned from ``total`` tokenised, unfolded pairs."""
    source, target = (
        Text(
            text.config,
            truecaser=train_truecaser(
                words(cut(line)[side])
                for line in progress(
                    read_lines(tokenised), f"learning case of {text.config.language}", total
                )
            ),
        )
        for side, text in enumerate(texts, start=1)
    )
    return source, target


def with_codes(
    texts: Texts, counts: Counts, options: PreprocessOptions, progress: Progress
) -> tuple[Texts, dict[str, int]]:
    """``texts`` with BPE codes learned from the counts of their tokens, and how many merges there
    are, by languages: fewer than asked for where the text has no more pairs.
    """
    names = [text.config.language for text in texts]
    if options.separate:
        tables: dict[str, Mapping[str, int]] = dict(zip(names, counts))
    else:
        tables = {"+".join(names): counts[0] + counts[1]}
    codes = {
        name: learn_codes(most_frequent(tables.pop(name)), options.merges)
        for name in progress(list(tables), "learning BPE", len(tables))
    }
    ordered = list(codes.values())
    source, target = (
        Text(text.config, truecaser=text.truecaser, codes=text_codes)
        for text, text_codes in zip(texts, (ordered[0], ordered[-1]))
    )
    return (source, target), {name: text.count("\n") - 1 for name, text in codes.items()}


def with_pieces(
    texts: Texts, folded: Path, options: PreprocessOptions, progress: Progress
) -> Texts:
    """``texts`` with sentencepiece models learned from the lines of a temporary file."""

    def lines(side: int) -> Iterator[str]:
        return (cut(line)[side] for line in read_lines(folded))

    if options.separate:
        sets = [lines(1), lines(2)]
    else:
        sets = [chain(lines(1), lines(2))]
    models = [
        learn_sentencepiece(some, options.merges)
        for some in progress(sets, "learning pieces", len(sets))
    ]
    source, target = (
        Text(text.config, truecaser=text.truecaser, pieces=model)
        for text, model in zip(texts, (models[0], models[-1]))
    )
    return source, target


def set_vocabularies(
    texts: Texts, counts: Counts, options: PreprocessOptions
) -> tuple[VocabularyReport, VocabularyReport]:
    """Give ``texts`` their vocabularies by the ``counts`` of their subwords.

    Raises UserError when the threshold leaves nothing.
    """
    reports = []
    if options.joint_vocabulary:
        counts = (counts[0] + counts[1],) * 2
    for text, count in zip(texts, counts):
        threshold = options.vocabulary_threshold or 1
        vocabulary = Vocabulary.build(count, options.vocabulary_size, threshold)
        size = sum(1 for _ in vocabulary)
        language = text.config.language
        if not size:
            raise UserError(
                f"no subword of {language!r} is seen {threshold} times: "
                f"use a smaller --vocabulary-threshold"
            )
        text.vocabulary = vocabulary
        reports.append(VocabularyReport(language, types=len(count), size=size))
    return reports[0], reports[1]


def most_frequent(counts: Mapping[str, int]) -> Mapping[str, int]:
    """The ``LEARNED_FROM`` most frequent tokens, equal counts in the order of the tokens."""
    if len(counts) <= LEARNED_FROM:
        return counts
    return dict(heapq.nsmallest(LEARNED_FROM, counts.items(), key=lambda i: (-i[1], i[0])))
