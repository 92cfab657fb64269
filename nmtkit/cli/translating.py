"""nmtkit translate at work: lines in, translations, links and talk out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmtkit.cli.output import STREAM, bar, say, warn_of_aligners, writing
from nmtkit.corpus import clean_line, read_lines
from nmtkit.errors import UserError
from nmtkit.links import format_pharaoh, in_step
from nmtkit.progress import Progress, silent

if TYPE_CHECKING:
    from nmtkit.align import Aligned
    from nmtkit.translate import Output, TranslateOptions


@dataclass(frozen=True)
class Streams:
    """Where lines come from and go to; "-" is stdin or stdout."""

    source: str
    prefix: str | None
    out: str
    alignments: str | None

    @property
    def typed(self) -> bool:
        """Whether a person types the lines."""
        return self.source == STREAM and sys.stdin.isatty()

    def lines(self) -> tuple[Iterator[str], Iterator[str] | None]:
        """The lines and their prefixes; UserError when one file ends before the other."""
        lines = read_lines(self.source)
        if self.prefix is None:
            return lines, None
        one, other = tee(in_step(lines, read_lines(self.prefix), (self.source, self.prefix)))
        return (line for line, _ in one), (prefix for _, prefix in other)

    def total(self) -> int | None:
        """The number of lines, where they can be read twice and somebody watches."""
        if sys.stderr.isatty() and self.source != STREAM and Path(self.source).is_file():
            return sum(1 for _ in read_lines(self.source))
        return None


def run(
    folders: list[Path], device: str, streams: Streams, options: TranslateOptions, listed: bool
) -> None:
    """Translate the lines; `listed`: as n-best lists. A line that is typed is answered at once."""
    from nmtkit import device as devices
    from nmtkit.checkpoint import load_all
    from nmtkit.distributed import group
    from nmtkit.translate import TermCount, translate

    tables = [dict(one) for one in (options.dictionary, options.glossary, options.shortlist)]
    dictionary, glossary, shortlist = group().from_main(tables)
    options = replace(options, dictionary=dictionary, glossary=glossary, shortlist=shortlist)
    models = load_all(folders, devices.resolve(device))
    warn_of_aligners(models)
    typed = streams.typed and group().size == 1
    progress: Progress = silent if typed else partial(bar, total=streams.total())
    if typed:
        options = replace(options, read_ahead=1)
        if sys.stderr.isatty():
            say("type a line to translate it; Ctrl-D ends")
    lines, prefixes = streams.lines()
    where = "standard input" if streams.source == STREAM else streams.source

    def share(part: Sequence[tuple[str, str]], first: int) -> Iterator[list[Any]]:
        """A process's part of the lines, with their prefixes."""
        ours, beginnings = zip(*part, strict=True) if part else ((), ())
        found = translate(models, ours, options, silent, beginnings, where, first)
        return _rows(found, first, listed, typed)

    rows: Iterable[list[Any]]
    if group().size > 1:
        pairs = zip(lines, repeat("") if prefixes is None else prefixes)
        rows = progress(group().work(pairs, share, options.read_ahead), "translating")
    else:
        found = translate(models, lines, options, progress, prefixes, where)
        rows = _rows(found, 0, listed, typed)
    terms = TermCount()
    picture = ""
    with ExitStack() as stack:
        text = stack.enter_context(writing(streams.out))
        links = stack.enter_context(writing(streams.alignments)) if streams.alignments else None
        for written, linked, counts, drawn in rows:
            text.write(written)
            if links:
                links.write(linked)
            terms += TermCount(*counts)
            if typed:
                text.flush()
                _show(drawn)
            picture = drawn or picture
    if not typed:
        _show(picture)
    if options.glossary:
        say(
            f"glossary: {sum(terms)} terms in the source; of the translations {terms.present} had "
            f"them, {terms.put} were given them, {terms.missing} have no words linked to them"
        )


def _rows(
    found: Iterator[list[Output]], first: int, listed: bool, typed: bool
) -> Iterator[list[Any]]:
    """What is written of every line: text, links, terms, a picture; the first line's number is
    `first`. Unless `typed`, only the last picture is drawn, in a row of its own.
    """
    last: Aligned | None = None
    for number, outputs in enumerate(found, first):
        texts = (_listed(number, one) if listed else one.text + "\n" for one in outputs)
        links = (format_pharaoh(one.links) + "\n" for one in outputs)
        aligned = outputs[0].aligned
        picture = _picture(aligned) if typed and aligned is not None else ""
        yield ["".join(texts), "".join(links), outputs[0].terms, picture]
        last = aligned or last
    if last is not None and not typed:
        yield ["", "", (), _picture(last)]


def _listed(number: int, output: Output) -> str:
    from nmtkit.likelihood import BARS, ESCAPED_BARS

    text = output.text.replace(BARS, ESCAPED_BARS)
    return f"{number} ||| {text} ||| LogProb= {output.log_prob:.6f} ||| {output.value:.6f}\n"


def _picture(aligned: Aligned) -> str:
    """The attention in letters; what goes to NULL is not drawn."""
    from nmtkit.heatmap import text_heatmap

    return text_heatmap(aligned.attention[:, :-1], aligned.source, aligned.target, aligned.links)


def _show(picture: str) -> None:
    if picture:
        say(picture)


def read_dictionary(path: Path) -> dict[str, str]:
    """Source word TAB translation a line; more columns, such as a probability, are left alone.

    A word's first line wins.
    """
    entries: dict[str, str] = {}
    for number, columns in _columns(path):
        if len(columns) < 2 or not columns[0] or not columns[1]:
            raise UserError(f"{path}:{number}: expected a source word, TAB, its translation")
        entries.setdefault(columns[0], clean_line(columns[1]))
    return entries


def read_shortlist(path: Path) -> dict[str, list[str]]:
    """Source word TAB target word TAB probability a line, as an aligner's lex.tsv has them.

    Returns the target words of each source word, the most probable first.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for number, columns in _columns(path):
        try:
            source, target, probability = columns
            value = float(probability)
            if not (source and target and 0 <= value <= 1):
                raise ValueError
        except ValueError as error:
            raise UserError(
                f"{path}:{number}: expected a source word, TAB, a target word, TAB, the "
                "probability of the one given the other"
            ) from error
        found.setdefault(source, []).append((-value, target))
    if not found:
        raise UserError(f"{path}: no words: it must be a lexical table")
    return {source: [target for _, target in sorted(some)] for source, some in found.items()}


def read_glossary(path: Path) -> dict[str, str]:
    """Source term TAB target term a line; UserError for a term with two translations."""
    entries: dict[str, str] = {}
    places: dict[str, int] = {}
    for number, columns in _columns(path):
        if len(columns) != 2 or not all(clean_line(column).strip() for column in columns):
            raise UserError(f"{path}:{number}: expected a source term, TAB, the target term")
        term, target = (" ".join(clean_line(column).split()) for column in columns)
        if entries.setdefault(term, target) != target:
            raise UserError(
                f"{path}:{number}: {term!r} has another translation in line {places[term]}: "
                "keep one of them"
            )
        places.setdefault(term, number)
    return entries


def _columns(path: Path) -> Iterable[tuple[int, list[str]]]:
    return ((number, line.split("\t")) for number, line in enumerate(read_lines(path), 1))
