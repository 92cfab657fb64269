"""nmtkit align with models: links from attention, the choice of how, and faithfulness."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmtkit.cli.found import Found
from nmtkit.cli.output import WrongUsage, bar, in_pairs, say, table
from nmtkit.errors import UserError, unknown
from nmtkit.links import (
    SYMMETRISATIONS,
    Gold,
    LinkedPair,
    check_bounds,
    in_step,
    read_gold,
    split_tokens,
)

if TYPE_CHECKING:
    from nmtkit.align import Aligned, AlignOptions, Choice
    from nmtkit.checkpoint import Trained

AUTO = "auto"
BEST = 5  # choices that the table shows
LITTLE = 10  # percent of agreement: two good models reach several times as much


@dataclass(frozen=True)
class Reading:
    """What the command line says about reading attention; None: nothing."""

    models: Sequence[Path]
    reverse: Path | None
    source: str
    target: str
    rows: str | None
    method: str | None
    threshold: float | None
    symmetrize: str | None
    raw: bool
    batch: int
    device: str
    gold: Path | None
    layer: int | None = None
    head: int | None = None

    def options(self) -> AlignOptions:
        """WrongUsage for what does not go together, UserError for unknown names and values."""
        from nmtkit.align import BOTH, METHODS, AlignOptions
        from nmtkit.batches import BatchSize

        if self.method is not None and self.method not in (*METHODS, AUTO):
            raise unknown("extraction method", self.method, (*METHODS, AUTO))
        given = {"rows": self.rows, "threshold": self.threshold, "symmetrize": self.symmetrize}
        if self.method != AUTO:
            given["method"] = self.method
        try:
            options = AlignOptions(
                **{name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
                raw=self.raw,
                batch=BatchSize.of_search(self.batch),
            )
        except ValueError as error:
            raise UserError(str(error)) from error
        soft = self.symmetrize in BOTH
        if soft and self.method not in (None, AUTO):
            raise WrongUsage(
                f"--symmetrize {self.symmetrize} reads both attentions at once: --method is for "
                f"those that combine links ({', '.join(SYMMETRISATIONS)})"
            )
        if self.threshold is not None and self.method == AUTO:
            raise WrongUsage("--method auto chooses the threshold: leave out --threshold")
        if self.threshold is not None and self.method is None and not soft:
            raise WrongUsage("--threshold is of a --method (or of a --symmetrize): say that too")
        return options

    def check_auto(self, reverse: list[Trained]) -> None:
        """WrongUsage when --method auto has nothing to choose by."""
        if self.method == AUTO and self.gold is None and not reverse:
            raise WrongUsage(
                "--method auto needs something to choose by: --gold FILE with links of these "
                "pairs, or --reverse MODEL for what both directions agree on"
            )

    def load(self) -> tuple[list[Trained], list[Trained]]:
        """The models, and the one of the other direction if there is one.

        A model with an alignment head has both directions in itself.
        """
        from nmtkit import device
        from nmtkit.align import HEAD, choose_attention, rows_of, turned_all
        from nmtkit.checkpoint import load, load_all

        place = device.resolve(self.device)
        models = load_all(self.models, place)
        chosen = self.layer is not None or self.head is not None
        for one in models:
            if rows_of(one, self.rows) == HEAD and chosen and self.method != AUTO:
                raise WrongUsage(
                    "--layer and --head are of the decoder's attention: say --rows predicting, "
                    "next or consumed too"
                )
            choose_attention(one, self.layer, self.head)
        if self.reverse is None:
            others = turned_all(models)
            if others and (self.symmetrize or self.method == AUTO):
                return models, others
            if self.symmetrize is not None:
                raise WrongUsage(
                    "--symmetrize needs two directions: --reverse, a model with an alignment "
                    "head, or --forward with --backward"
                )
            return models, []
        other = load(self.reverse, place)
        languages = models[0].source.config.language, models[0].target.config.language
        backward = other.source.config.language, other.target.config.language
        if backward != languages[::-1]:
            raise UserError(
                f"{self.reverse} goes from {backward[0]} to {backward[1]}: --reverse wants a model "
                f"from {languages[1]} to {languages[0]}"
            )
        choose_attention(other, self.layer, self.head)
        return models, [other]


def links_of(reading: Reading, apart: bool = False) -> Iterator[Found]:
    """The links of every pair, with the (forward) attention; `apart`: each direction's links too.

    Options are checked at once.
    """
    return _read(reading, reading.options(), apart)


def _read(reading: Reading, options: AlignOptions, apart: bool) -> Iterator[Found]:
    from nmtkit.align import BOTH, directions

    models, reverse = reading.load()
    reading.check_auto(reverse)
    if reading.method == AUTO:
        options, found = _chosen(reading, options, models, reverse)
        aligned = iter(found)
    else:
        pairs = in_pairs(reading.source, reading.target)
        aligned = _aligned(models, pairs, options, reverse)
    for one in aligned:
        both = None
        if apart and one.backward is not None and options.symmetrize not in BOTH:
            both = directions(one.attention, one.backward, options)
        gold = Gold(one.links, one.links)
        pair = LinkedPair(gold, one.source, one.target, one.weights(), both)
        yield Found(pair, one.attention[:, :-1])


def _aligned(
    models: list[Trained],
    pairs: Iterator[tuple[str, str]],
    options: AlignOptions,
    reverse: list[Trained],
) -> Iterator[Aligned]:
    """The pairs' links; of several processes each reads a part, and the main one is given all."""
    from nmtkit.align import Aligned, align
    from nmtkit.distributed import group

    if group().size == 1:
        return align(models, pairs, options, bar, reverse)

    def share(part: Sequence[tuple[str, str]], first: int) -> Iterator[dict[str, Any]]:
        found = align(models, part, options, reverse=reverse, first=first)
        return (one.to_json() for one in found)

    found = group().work(pairs, share, options.read_ahead)
    return map(Aligned.from_json, bar(found, "aligning"))


def _chosen(
    reading: Reading, options: AlignOptions, models: list[Trained], reverse: list[Trained]
) -> tuple[AlignOptions, list[Aligned]]:
    """What --method auto finds best; says on stderr what that was, and what came next."""
    from nmtkit.align import SYMMETRIZE, Space, choose, common_rows

    pairs = list(in_pairs(reading.source, reading.target))
    gold = None if reading.gold is None else _gold(reading.gold, reading.source, pairs)
    every = SYMMETRIZE if gold else (options.symmetrize,)
    space = Space(
        rows=common_rows([*models, *reverse]) if reading.rows is None else (reading.rows,),
        symmetrize=every if reading.symmetrize is None else (reading.symmetrize,),
    )
    ranking, aligned = choose(models, pairs, options, space, gold, bar, reverse)
    _say_choice(ranking, reading.gold)
    return ranking[0].options, aligned


def _gold(path: Path, source: str, pairs: list[tuple[str, str]]) -> list[Gold]:
    """The gold links of the pairs; UserError unless they are of these."""
    found = []
    for number, (gold, pair) in enumerate(in_step(read_gold(path), pairs, (str(path), source)), 1):
        source_length, target_length = (len(split_tokens(line)) for line in pair)
        check_bounds(gold.possible, source_length, target_length, f"{path}:{number}")
        found.append(gold)
    return found


def _say_choice(ranking: list[Choice], gold: Path | None) -> None:
    """The best few as a table, then the choice as the options that repeat it."""
    names = list(ranking[0].figures)
    kinds: dict[str, Choice] = {}
    for choice in ranking:  # best first
        anyone = replace(choice, options=replace(choice.options, threshold=None))
        kinds.setdefault(anyone.arguments, choice)
    shown = [
        [choice.arguments, *(f"{choice.figures[name]:.1f}" for name in names)]
        for choice in list(kinds.values())[:BEST]
    ]
    title = f"the best of {len(ranking)} tried, each with its best threshold"
    table(title, ["options", *names], shown, sys.stderr)
    best = ranking[0]
    value = best.figures[names[0]]
    by = f"on {gold}" if gold else "of both directions (a heuristic: gold links are surer)"
    say(f"chose {best.arguments}: {names[0]} {value:.1f} {by}")
    if gold is None and value < LITTLE:
        say("warning: the two directions hardly agree: their links are not to be trusted")


def report_faithfulness(reading: Reading, as_json: bool) -> None:
    """Print what deleting the attended words does."""
    from nmtkit.align.faithfulness import faithfulness

    options = reading.options()
    models, _ = reading.load()
    pairs = in_pairs(reading.source, reading.target)
    found = faithfulness(models, pairs, options, bar)
    if as_json:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=2))
        return
    table("", ["faithfulness", ""], map(list, found.rows()), sys.stdout)
