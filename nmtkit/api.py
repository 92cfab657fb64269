"""Models from Python: `nmtkit.load(folder)`, then `translate`, `align` and `score`.

Each method gives what the command of its name gives, with the same options and defaults: keywords
are fields of the options' dataclasses. Nothing here prints or ends the process.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, overload

from nmtkit import device as devices
from nmtkit.align import BOTH, Aligned, AlignOptions, align, rows_of, turned_all
from nmtkit.batches import BatchSize
from nmtkit.checkpoint import Trained, load_all
from nmtkit.errors import UserError, unknown
from nmtkit.likelihood import LikelihoodOptions, LogProbability, log_probabilities
from nmtkit.search import Sampling, SearchOptions
from nmtkit.translate import Output, TranslateOptions, translate

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Aligned", "LogProbability", "Model", "Output", "UserError", "load"]

Pairs = Iterable[tuple[str, str]]  # of lines: source, target
Options = TypeVar("Options", SearchOptions, AlignOptions, TranslateOptions)


class TranslateKeywords(TypedDict, total=False):
    """Options of `Model.translate`; the defaults are TranslateOptions' and SearchOptions'."""

    beam: int  # hypotheses kept
    length_penalty: float  # rank by log-probability / subwords ** this …
    length_normalisation: str  # … or, not power but gnmt, / ((5 + subwords) / 6) ** this …
    coverage_penalty: float  # … less so much for source words with too little attention
    diversity: float  # what each better continuation of one hypothesis costs the next
    sampling: Sampling | None  # draw hypotheses, do not search for them
    forbid_unknown: bool  # never write UNK
    prefixes: Iterable[str] | None  # what each line's translation begins with; blank: anything
    links: bool  # also link every output to its line; with n_best
    attention: bool  # also give the attention of every output; with n_best
    replace_unknown: bool  # UNK becomes the source word that it attends to most …
    dictionary: Mapping[str, str] | None  # … or that word's entry here
    shortlist: Mapping[str, Sequence[str]] | None  # subword -> those to search among, best first
    glossary: Mapping[str, str] | None  # source terms and what they must become
    markup: bool  # lines have XML or HTML tags, which come out around the linked words
    tokenized: bool  # leave tokens as they are
    rows: str | None  # attention row of a word, for all that needs links
    batch: int  # sentences searched at once


class AlignKeywords(TypedDict, total=False):
    """Options of `Model.align`; the defaults are AlignOptions'. None is as if not given."""

    rows: str | None  # attention row of a word: head, predicting, next, consumed
    method: str | None  # of each direction: argmax, mutual, threshold
    threshold: float | None  # least weight of a link, above 0 and at most 1
    symmetrize: str | None  # of two directions
    raw: bool  # tokenise the lines; links still count their space-separated tokens
    batch: int  # pairs read at once


class Model:
    """A model, or an ensemble of several: what `load` gives.

    `models`, one or more, are what the functions of nmtkit.translate, nmtkit.align and
    nmtkit.likelihood take.
    """

    def __init__(self, models: Sequence[Trained]) -> None:
        self.models = tuple(models)

    def __repr__(self) -> str:
        folders = ", ".join(str(one.folder) for one in self.models)
        source, target = self.languages
        return f"<Model {folders}: {source} to {target}, on {self.models[0].device}>"

    @property
    def languages(self) -> tuple[str, str]:
        """The codes of source and target language, such as en and de."""
        first = self.models[0]
        return first.source.config.language, first.target.config.language

    @overload
    def translate(
        self, lines: Iterable[str], *, n_best: None = None, **options: Unpack[TranslateKeywords]
    ) -> list[str]: ...

    @overload
    def translate(
        self, lines: Iterable[str], *, n_best: int, **options: Unpack[TranslateKeywords]
    ) -> list[list[Output]]: ...

    def translate(
        self,
        lines: Iterable[str],
        *,
        n_best: int | None = None,
        **options: Unpack[TranslateKeywords],
    ) -> list[str] | list[list[Output]]:
        """The translation of every raw line, in order; a blank line stays blank.

        With `n_best`, even 1, the best outputs of every line, best first: fewer than asked for
        where the search found fewer, one empty output for a blank line. Options: TranslateKeywords.

        Raises ValueError for values that cannot be, UserError for a model that cannot do this.
        """
        given = _given(options, TranslateKeywords)
        _check_translation(given, n_best is not None)
        number = {} if n_best is None else {"n_best": n_best}
        wanted = _chosen(
            TranslateOptions,
            given,
            search=_chosen(SearchOptions, given, **number),
            align=_chosen(AlignOptions, given),
        )
        sources, prefixes = list(_lines(lines)), None
        if "prefixes" in given:
            prefixes = list(_lines(given["prefixes"]))
            if len(prefixes) != len(sources):
                raise ValueError(f"{len(sources)} lines need as many prefixes, not {len(prefixes)}")
        found = translate(self.models, sources, wanted, prefixes=prefixes, where="line")
        if n_best is None:
            return [outputs[0].text for outputs in found]
        return list(found)

    def align(
        self, pairs: Pairs, *, reverse: Model | None = None, **options: Unpack[AlignKeywords]
    ) -> list[Aligned]:
        """The links of every pair (source line, target line), in order.

        Lines are tokens with spaces between, tokenised as the model's text was, or raw ones
        with `raw`. Of I target and J source tokens the attention is (I, J+1), its last column NULL.
        `reverse` is a model from target to source: `symmetrize` then puts both directions together,
        and `backward` is (J, I+1). A model with an alignment head needs none: name `symmetrize`.
        Options: AlignKeywords.

        Raises ValueError for values that cannot be, UserError for unknown names of ways to align,
        and for a model that cannot do this.
        """
        given = _given(options, AlignKeywords)
        wanted = _chosen(AlignOptions, given)
        soft = given.get("symmetrize") in BOTH
        if soft and "method" in given:
            raise ValueError(
                f"symmetrize {wanted.symmetrize} reads both attentions at once: leave out method"
            )
        if "threshold" in given and not (soft or "method" in given):
            raise ValueError("threshold is of a method (or of a symmetrize): say that too")
        for one in self.models:
            rows_of(one, wanted.rows)
        backward = self._backward(reverse, "symmetrize" in given)
        return list(align(self.models, _pairs(pairs), wanted, reverse=backward))

    def score(self, pairs: Pairs) -> list[LogProbability]:
        """log p(target | source) of every pair of raw lines, in nats, with its subwords' number.

        An ensemble's is the log of its mean probability, word by word. Raises UserError for a model
        that only aligns.
        """
        return list(log_probabilities(self.models, _pairs(pairs), LikelihoodOptions()))

    def _backward(self, reverse: Model | None, wanted: bool) -> Sequence[Trained]:
        """The models of the other direction; a model with an alignment head has it in itself."""
        if reverse is not None:
            if reverse.languages != self.languages[::-1]:
                raise UserError(
                    f"{reverse.models[0].folder} goes from {' to '.join(reverse.languages)}: "
                    f"reverse wants a model from {' to '.join(self.languages[::-1])}"
                )
            return reverse.models
        if not wanted:
            return ()
        heads = turned_all(self.models)
        if not heads:
            raise ValueError(
                "symmetrize needs two directions: reverse, or a model with an alignment head"
            )
        return heads


def load(
    folder: str | os.PathLike[str], *more: str | os.PathLike[str], device: str = "auto"
) -> Model:
    """The model in a model directory, in memory; of several of one prepared corpus an ensemble.

    `device`: auto (a GPU where there is one), cpu or cuda. Raises UserError when a folder is not a
    whole model directory, when the models do not belong together, or when there is no such device.
    """
    return Model(load_all([Path(one) for one in (folder, *more)], devices.resolve(device)))


def _given(options: Mapping[str, Any], known: type) -> dict[str, Any]:
    """The keywords that say something, `batch` as a BatchSize; TypeError for unknown ones."""
    names = known.__annotations__
    for name in options:
        if name not in names:
            raise TypeError(str(unknown("option", name, names)))
    given = {name: value for name, value in options.items() if value is not None}
    if "batch" in given:
        sentences = given["batch"]
        if sentences < 1:
            raise ValueError(f"batch must be at least 1, got {sentences}")
        given["batch"] = BatchSize.of_search(sentences)
    return given


def _check_translation(given: Mapping[str, Any], listed: bool) -> None:
    """ValueError for options of `translate` that do not go together, TypeError for a shortlist
    that is none; `listed`: with n_best.
    """
    for name in ("links", "attention"):
        if given.get(name) and not listed:
            raise ValueError(f"{name}=True is for outputs, not texts: say n_best, 1 or more")
    if given.get("dictionary") and not given.get("replace_unknown"):
        raise ValueError("dictionary is for replace_unknown=True: say that too")
    table = given.get("shortlist", {})
    if not isinstance(table, Mapping) or any(isinstance(words, str) for words in table.values()):
        raise TypeError("shortlist must map each source subword to a list of target subwords")
    if given.get("forbid_unknown") and given.get("replace_unknown"):
        raise ValueError("forbid_unknown leaves nothing to replace_unknown: say one of them")


def _chosen(kind: type[Options], given: Mapping[str, Any], **more: Any) -> Options:
    """The options of a kind: those of the keywords that are its fields, and `more`."""
    names = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in given.items() if name in names}, **more)


def _lines(lines: Iterable[Any]) -> Iterator[str]:
    """The lines; TypeError for what is none."""
    if isinstance(lines, str):
        raise TypeError("lines must be several, and this is one string: put it into a list")
    for number, line in enumerate(lines):
        if not isinstance(line, str):
            raise TypeError(f"line {number} (from 0) must be a string, got {reprlib.repr(line)}")
        yield line


def _pairs(pairs: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The pairs; TypeError for what is none."""
    for number, pair in enumerate(pairs):
        two = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not (two and all(isinstance(line, str) for line in pair)):
            raise TypeError(
                f"pair {number} (from 0) must be a source line and a target line, two strings, "
                f"got {reprlib.repr(pair)}"
            )
        yield pair[0], pair[1]
