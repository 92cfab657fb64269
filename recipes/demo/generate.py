"""Write the demo corpus: train, dev, test and long, with gold alignments."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from grammar import Grammar
from spelling import Pair

LONG_BUCKETS = ((20, 25), (26, 31), (32, 37), (38, 43), (44, 51), (52, 60))  # English tokens


def distinct(make: Callable[[], Pair], count: int, seen: set[tuple[str, ...]]) -> Iterator[Pair]:
    """``count`` pairs whose English is not in ``seen`` yet; adds it."""
    for _ in range(count):
        pair = make()
        while pair.source in seen:
            pair = make()
        seen.add(pair.source)
        yield pair


def corpus(pairs: int, dev: int, test: int, long: int, seed: int) -> dict[str, list[Pair]]:
    """The four sets, no English sentence twice; more training pairs leave the others alone."""
    grammar = Grammar(seed)
    seen: set[tuple[str, ...]] = set()
    sets = {"test": list(distinct(grammar.sentence, test, seen))}
    sets["dev"] = list(distinct(grammar.sentence, dev, seen))
    sets["long"] = []
    for i, (low, high) in enumerate(LONG_BUCKETS):
        share = long * (i + 1) // len(LONG_BUCKETS) - long * i // len(LONG_BUCKETS)
        sets["long"] += distinct(lambda a=low, b=high: grammar.long_sentence(a, b), share, seen)  # type: ignore[misc]
    sets["train"] = list(distinct(grammar.sentence, pairs, seen))
    return sets


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write a text file beside its place and rename it into it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_set(folder: Path, name: str, pairs: Sequence[Pair], tokens: bool) -> None:
    """NAME.en and NAME.fr; with ``tokens`` also NAME.tok.en, NAME.tok.fr and NAME.gold."""
    write_lines(folder / f"{name}.en", [pair.source_text for pair in pairs])
    write_lines(folder / f"{name}.fr", [pair.target_text for pair in pairs])
    if tokens:
        write_lines(folder / f"{name}.tok.en", [" ".join(pair.source) for pair in pairs])
        write_lines(folder / f"{name}.tok.fr", [" ".join(pair.target) for pair in pairs])
        write_lines(folder / f"{name}.gold", [pair.gold for pair in pairs])


def summary(sets: dict[str, list[Pair]]) -> str:
    """Sizes, lengths, vocabulary and the share of the training pairs that show each phenomenon."""
    lines = []
    for name, pairs in sets.items():
        if not pairs:
            continue
        lengths = sorted(len(pair.source) for pair in pairs)
        mean = sum(lengths) / len(lengths)
        words = [len({w for pair in pairs for w in side(pair)}) for side in (_source, _target)]
        lines.append(
            f"{name}: {len(pairs)} pairs, {lengths[0]} to {lengths[-1]} English tokens "
            f"(mean {mean:.1f}, median {lengths[len(lengths) // 2]}), "
            f"{words[0]} English and {words[1]} French words"
        )
    train = sets["train"]
    shown = Counter(phenomenon for pair in train for phenomenon in pair.phenomena)
    for phenomenon, count in sorted(shown.items(), key=lambda row: (-row[1], row[0])):
        lines.append(f"  {100 * count / len(train):5.1f} % {phenomenon}")
    return "\n".join(lines)


def _source(pair: Pair) -> tuple[str, ...]:
    return pair.source


def _target(pair: Pair) -> tuple[str, ...]:
    return pair.target


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--pairs", type=int, default=20_000, help="training pairs")
    parser.add_argument("--dev", type=int, default=500, help="development pairs")
    parser.add_argument("--test", type=int, default=500, help="test pairs")
    parser.add_argument("--long", type=int, default=500, help="long pairs, 20 to 60 English tokens")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--links", action="store_true", help="write tokens and links of train too")
    options = parser.parse_args(arguments)
    sets = corpus(options.pairs, options.dev, options.test, options.long, options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, pairs in sets.items():
        write_set(options.out, name, pairs, tokens=name != "train" or options.links)
    print(summary(sets), file=sys.stderr)


if __name__ == "__main__":
    main()
