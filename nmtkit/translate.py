"""Raw lines in, translations out: one for every line, in order; a blank line stays blank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import torch

from nmtkit.align import METHODS, AlignOptions, Line, Matrix, read_attention, token_places
from nmtkit.batches import BatchSize, length_sorted, with_end
from nmtkit.checkpoint import Trained
from nmtkit.links import Links
from nmtkit.progress import Progress, silent
from nmtkit.search import Hypothesis, SearchOptions, beam_search
from nmtkit.text import Segmented
from nmtkit.vocabulary import UNK


@dataclass(frozen=True)
class TranslateOptions:
    """How to search and what to make of the hypotheses."""

    search: SearchOptions = field(default_factory=SearchOptions)
    align: AlignOptions = field(default_factory=AlignOptions)
    links: bool = False  # also link every output to its source line
    replace_unknown: bool = False  # UNK becomes the source word it attends to most …
    dictionary: Mapping[str, str] = field(default_factory=dict)  # … or that word's entry here
    tokenized: bool = False  # leave the output as tokens
    batch: BatchSize = field(default_factory=lambda: BatchSize(sentences=64, tokens=4000, pool=1))
    read_ahead: int = 5000  # lines sorted by length together


@dataclass(frozen=True)
class Output:
    """One translation of a line; links are between the space-separated tokens of both lines."""

    text: str
    log_prob: float = 0.0
    value: float = 0.0
    links: Links = frozenset()


@dataclass(frozen=True)
class _Draft:
    """A hypothesis as target words, before they become a line."""

    hypothesis: Hypothesis
    words: list[str]
    word_of: list[int]

    def unknown(self) -> set[int]:
        """The words that hold an unknown subword."""
        pairs = zip(self.hypothesis.ids, self.word_of, strict=True)
        return {word for id_, word in pairs if id_ == UNK and word >= 0}


def translate(
    models: Sequence[Trained],
    lines: Iterable[str],
    options: TranslateOptions,
    progress: Progress = silent,
) -> Iterator[list[Output]]:
    """The n best translations of every line, best first; a blank line's only one is empty.

    Lines are read `read_ahead` at a time and searched longest first; the results come out in the
    order of the lines and do not depend on how they were batched.
    """
    stream = iter(progress(lines, "translating"))
    while some := list(islice(stream, options.read_ahead)):
        yield from _translate(models, some, options)


def _translate(
    models: Sequence[Trained], lines: list[str], options: TranslateOptions
) -> list[list[Output]]:
    source = models[0].source
    segmented = [source.segment(line) for line in lines]
    found = _search(models, [source.ids(s) for s in segmented], options)
    drafts = [[_draft(models[0], h) for h in hypotheses] for hypotheses in found]
    if options.replace_unknown:
        drafts = _replace_unknown(models, segmented, drafts, options)
    outputs = [[_output(models[0], draft, options) for draft in n_best] for n_best in drafts]
    if options.links:
        outputs = _link(models, lines, segmented, drafts, outputs, options)
    return [n_best or [Output("")] for n_best in outputs]


def _search(
    models: Sequence[Trained], sources: list[list[int]], options: TranslateOptions
) -> list[list[Hypothesis]]:
    """The hypotheses of every source; none for one without subwords."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    present = [i for i, ids in enumerate(sources) if ids]
    device = models[0].device
    for rows in length_sorted([len(sources[i]) for i in present], options.batch):
        chosen = [present[row] for row in rows]
        ids = with_end([sources[i] for i in chosen]).to(device)
        results = beam_search([m.seq2seq for m in models], ids, ids != 0, options.search)
        for i, hypotheses in zip(chosen, results, strict=True):
            found[i] = hypotheses
    return found


def _draft(trained: Trained, hypothesis: Hypothesis) -> _Draft:
    subwords = trained.target_vocabulary.tokens(hypothesis.ids)
    words, word_of = trained.target.words_with_map(subwords)
    return _Draft(hypothesis, words, word_of)


def _output(trained: Trained, draft: _Draft, options: TranslateOptions) -> Output:
    text = " ".join(draft.words) if options.tokenized else trained.target.restore(draft.words)
    return Output(text, draft.hypothesis.log_prob, draft.hypothesis.value)


def _attention(
    models: Sequence[Trained],
    segmented: Sequence[Segmented],
    drafts: Sequence[_Draft],
    options: TranslateOptions,
) -> list[Matrix]:
    """The attention between model tokens of sources and drafts: (I, J+1) each, the last NULL."""
    source = models[0].source
    pairs = [
        (
            Line(s.tokens, source.ids(s), list(s.word_of)),
            Line(draft.words, list(draft.hypothesis.ids), draft.word_of),
        )
        for s, draft in zip(segmented, drafts, strict=True)
    ]
    with torch.inference_mode():
        return read_attention(models, pairs, options.align)


def _replace_unknown(
    models: Sequence[Trained],
    segmented: list[Segmented],
    drafts: list[list[_Draft]],
    options: TranslateOptions,
) -> list[list[_Draft]]:
    """Put the attended source word, as it was written, or its translation, for every unknown."""
    places = [
        (line, rank)
        for line, n_best in enumerate(drafts)
        for rank, draft in enumerate(n_best)
        if draft.unknown()
    ]
    chosen = [drafts[line][rank] for line, rank in places]
    matrices = _attention(models, [segmented[line] for line, _ in places], chosen, options)
    for (line, rank), draft, matrix in zip(places, chosen, matrices, strict=True):
        words = list(draft.words)
        for word in draft.unknown():
            original = segmented[line].tokens[int(matrix[word, :-1].argmax())]
            words[word] = options.dictionary.get(original, original)
        drafts[line][rank] = replace(draft, words=words)
    return drafts


def _link(
    models: Sequence[Trained],
    lines: list[str],
    segmented: list[Segmented],
    drafts: list[list[_Draft]],
    outputs: list[list[Output]],
    options: TranslateOptions,
) -> list[list[Output]]:
    """Links between the lines' own tokens, from those between the model's."""
    flat = [(line, draft) for line, n_best in enumerate(drafts) for draft in n_best]
    sources = [segmented[line] for line, _ in flat]
    matrices = iter(_attention(models, sources, [draft for _, draft in flat], options))
    linked = []
    for line, n_best, written in zip(range(len(lines)), drafts, outputs, strict=True):
        source_places = token_places(lines[line], segmented[line].tokens)
        with_links = []
        for draft, output in zip(n_best, written, strict=True):
            target_places = token_places(output.text, draft.words)
            between = METHODS[options.align.method](next(matrices), options.align)
            moved = {(source_places[j], target_places[i]) for j, i in between}
            links = frozenset((j, i) for j, i in moved if j >= 0 and i >= 0)
            with_links.append(replace(output, links=links))
        linked.append(with_links)
    return linked
