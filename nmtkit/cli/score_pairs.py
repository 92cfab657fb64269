"""nmtkit score --model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path

from nmtkit.cli.output import STREAM, bar, in_pairs, say, warn_of_aligners
from nmtkit.cli.processes import rank
from nmtkit.cli.tables import print_json
from nmtkit.errors import UserError


def score_pairs(
    folders: Sequence[Path], source: str, target: str, device: str, as_json: bool
) -> None:
    """Print the log-probability of every pair, and say the perplexity."""
    from nmtkit import device as devices
    from nmtkit.checkpoint import load_all
    from nmtkit.distributed import group
    from nmtkit.likelihood import LikelihoodOptions, LogProbability, log_probabilities, perplexity

    models = load_all(folders, devices.resolve(device))
    warn_of_aligners(models)
    pairs, options = in_pairs(source, target), LikelihoodOptions()

    def share(part: Sequence[tuple[str, str]], first: int) -> Iterator[tuple[float, int]]:
        """A process's part of the pairs."""
        found = log_probabilities(models, part, options, first=first)
        return ((one.value, one.subwords) for one in found)

    scored: Iterable[LogProbability] = log_probabilities(models, pairs, options, bar)
    if group().size > 1:
        shared = group().work(pairs, share, options.read_ahead)
        scored = starmap(LogProbability, bar(shared, "scoring"))
    found: list[LogProbability] = []
    for one in scored:
        found.append(one)
        if not as_json:
            print(f"{one.value:.6f}")
    if rank():
        return
    if not found:
        raise UserError(f"{source} is empty: there is nothing to score")
    if as_json:
        rows = [vars(one) for one in found]
        print_json({"perplexity": perplexity(found), "pairs": rows})
    else:
        subwords = sum(one.subwords for one in found)
        say(f"perplexity {perplexity(found):.4f} a subword, {subwords} subwords with ends")


def rescore_list(
    folders: Sequence[Path],
    source: str,
    n_best: str,
    device: str,
    length_penalty: float,
    keep_order: bool,
    feature: str,
) -> None:
    """Print the n-best list with the log-probability of every line as one more feature."""
    from nmtkit import device as devices
    from nmtkit.checkpoint import load_all
    from nmtkit.corpus import read_lines
    from nmtkit.likelihood import LikelihoodOptions, NBestOptions, rescore

    if rank():  # of several processes one does it
        return
    if source == n_best == STREAM:
        raise UserError("only one of --source and --n-best can be - (stdin)")
    try:
        options = NBestOptions(feature, length_penalty, keep_order)
    except ValueError as error:
        raise UserError(str(error)) from error
    models = load_all(folders, devices.resolve(device))
    warn_of_aligners(models)
    lists = read_lines(source), read_lines(n_best)
    for line in rescore(models, *lists, options, LikelihoodOptions(), n_best, bar):
        print(line)
