"""From lines to translations, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat

import torch

from nmtkit.align import Aligned, Matrix, check_attention, rows_of
from nmtkit.batches import check_length, length_sorted, of_sources
from nmtkit.checkpoint import Trained, extended_vocabulary
from nmtkit.errors import UserError
from nmtkit.extended import ExtendedVocabulary
from nmtkit.links import Links
from nmtkit.models.stepping import Stepper
from nmtkit.progress import Progress, silent
from nmtkit.search import Hypothesis, Shortlist, beam_search, sample
from nmtkit.text import Segmented, Text, token_map
from nmtkit.translate.drafts import (
    NO_PREFIX,
    Draft,
    Prefix,
    Source,
    attention_of,
    draft,
    links_of,
    put_terms,
    replace_unknown,
)
from nmtkit.translate.glossary import Glossary
from nmtkit.translate.markup import parse
from nmtkit.translate.options import Output, TranslateOptions
from nmtkit.vocabulary import PAD


def translate(
    models: Sequence[Trained],
    lines: Iterable[str],
    options: TranslateOptions,
    progress: Progress = silent,
    prefixes: Iterable[str] | None = None,
    where: str = "source",
    first: int = 0,
) -> Iterator[list[Output]]:
    """The n best translations of every line, best first; a blank line's only one is empty.

    Lines are read `read_ahead` at a time and searched longest first; the results come out in the
    order of the lines and do not depend on how they were batched. `prefixes`, one a line and as
    raw as the lines, are what the translations begin with; a blank one says nothing. `where` names
    the lines in messages, and `first` is the number of the first, from 0.

    Raises UserError for a model that cannot do what is asked, for malformed markup, and for a line
    too long for any memory; ValueError when there are not as many prefixes as lines.
    """
    if options.int8 and models[0].device.type != "cpu":
        raise UserError("--int8 is for the CPU: say --device cpu too")
    if options.reads_attention:
        check_attention(models)
        for trained in models:
            rows_of(trained, options.align.rows)
    if options.search.coverage_penalty:
        _check_coverage(models)
    if options.shortlist:
        _check_generates(models)
    sources = _read(models, lines, options, prefixes, where, first)
    done: dict[int, list[Output]] = {}
    due = first
    for number, outputs in progress(_searched(models, sources, options), "translating"):
        done[number] = outputs
        while due in done:
            yield done.pop(due)
            due += 1


def _check_coverage(models: Sequence[Trained]) -> None:
    for trained in models:
        if not trained.model.has_attention:
            raise UserError(
                f"{trained.folder}: its architecture has no attention to measure coverage by: "
                "leave out the coverage penalty"
            )


def _check_generates(models: Sequence[Trained]) -> None:
    for trained in models:
        if trained.extended is not None:
            raise UserError(
                f"{trained.folder}: it copies words, which no shortlist has: leave out --shortlist"
            )


def _read(
    models: Sequence[Trained],
    lines: Iterable[str],
    options: TranslateOptions,
    prefixes: Iterable[str] | None,
    where: str,
    first: int,
) -> Iterator[Source]:
    text, extended = models[0].source, extended_vocabulary(models)
    pairs = zip(lines, repeat("") if prefixes is None else prefixes, strict=prefixes is not None)
    for number, (line, beginning) in enumerate(pairs, first):
        marked = parse(line, f"{where}:{number + 1}") if options.markup else None
        if marked is not None:
            line = marked.text
        cut = text.segment(line)
        prefix = _prefix(models[0].target, beginning, cut, extended) if beginning else NO_PREFIX
        check_length(len(cut.subwords), f"{where}:{number + 1}")
        check_length(len(prefix.ids), f"the prefix of {where}:{number + 1}")
        yield Source(number, line, cut, text.ids(cut), prefix, marked)


def _prefix(
    text: Text, line: str, source: Segmented, extended: ExtendedVocabulary | None
) -> Prefix:
    """`extended`: unknown words that the source has are known by it."""
    cut = text.segment(line)
    if extended is None:
        return Prefix(cut.tokens, text.ids(cut), cut.word_of)
    return Prefix(cut.tokens, extended.line_ids(source.subwords, cut.subwords), cut.word_of)


def _searched(
    models: Sequence[Trained], sources: Iterator[Source], options: TranslateOptions
) -> Iterator[tuple[int, list[Output]]]:
    """Number and translations of every line, in the order of the search."""
    glossary = Glossary(options.glossary, models[0].source, models[0].target)
    shortlist = _shortlist(models[0], options)
    with torch.inference_mode():
        steppers = [model.seq2seq.stepper(options.int8) for model in models]
    while some := list(islice(sources, options.read_ahead)):
        for one in some:
            if not one.ids:
                yield one.number, [_blank(one)]
        present = [one for one in some if one.ids]
        for rows in length_sorted([len(one.ids) for one in present], options.batch):
            chosen = [present[row] for row in rows]
            found = _search(models, steppers, chosen, options, shortlist)
            drafts = [
                draft(models[0], one, hypothesis)
                for one, hypotheses in zip(chosen, found, strict=True)
                for hypothesis in hypotheses
            ]
            outputs = iter(_outputs(models, drafts, glossary, options))
            for one, hypotheses in zip(chosen, found, strict=True):
                yield one.number, list(islice(outputs, len(hypotheses))) or [_blank(one)]


def _shortlist(trained: Trained, options: TranslateOptions) -> Shortlist | None:
    if not options.shortlist:
        return None
    try:
        return Shortlist(options.shortlist, trained.source_vocabulary, trained.target_vocabulary)
    except ValueError as error:
        raise UserError(
            f"the shortlist does not fit {trained.folder}: {error}: train ibm1 on the prepared "
            "corpus that the model is of"
        ) from error


def _blank(source: Source) -> Output:
    marked = source.marked
    return Output("" if marked is None else marked.around(source.cut.tokens, "", [], frozenset()))


def _search(
    models: Sequence[Trained],
    steppers: Sequence[Stepper],
    sources: Sequence[Source],
    options: TranslateOptions,
    shortlist: Shortlist | None,
) -> list[list[Hypothesis]]:
    device, extended = models[0].device, extended_vocabulary(models)
    ids, copied = of_sources([models[0].source.numbers(one.cut) for one in sources], extended)
    ids, copied = ids.to(device), None if copied is None else copied.to(device)
    prefixes = [one.prefix.ids for one in sources]
    if options.search.sampling is None:
        given = (options.search, prefixes, copied, shortlist)
        return beam_search(steppers, ids, ids != PAD, *given)
    numbers = [one.number for one in sources]
    return sample(steppers, ids, ids != PAD, options.search, numbers, prefixes, copied)


def _outputs(
    models: Sequence[Trained],
    drafts: list[Draft],
    glossary: Glossary,
    options: TranslateOptions,
) -> list[Output]:
    """The drafts as lines, with all that the options ask for."""
    if options.replace_unknown:
        drafts = replace_unknown(models, drafts, options.align, options.dictionary)
    if options.glossary:
        drafts = put_terms(models, drafts, options.align, glossary, options.tokenized)
    matrices: Sequence[Matrix | None] = [None] * len(drafts)
    if options.links or options.markup or options.attention:
        matrices = attention_of(models, drafts, options.align)
    return [
        _output(models[0], one, matrix, options)
        for one, matrix in zip(drafts, matrices, strict=True)
    ]


def _output(
    trained: Trained, one: Draft, matrix: Matrix | None, options: TranslateOptions
) -> Output:
    text = " ".join(one.words) if options.tokenized else trained.target.restore(one.words)
    aligned, outer = None, Links()
    if matrix is not None:
        inner = links_of(matrix, options.align)
        if options.links:
            outer = _between_lines(one, text, inner)
        if options.attention:
            aligned = Aligned(one.source.cut.tokens, one.words, matrix, inner)
        if one.source.marked is not None:
            text = one.source.marked.around(one.source.cut.tokens, text, one.words, inner)
    found = one.hypothesis
    return Output(text, found.log_prob, found.value, outer, aligned, one.terms)


def _between_lines(one: Draft, text: str, links: Links) -> Links:
    """Links between the lines' own tokens, from those between the model's."""
    source = token_map(one.source.line, one.source.cut.tokens)
    target = token_map(text, one.words)
    moved = {(source[j], target[i]) for j, i in links}
    return frozenset((j, i) for j, i in moved if j >= 0 and i >= 0)
