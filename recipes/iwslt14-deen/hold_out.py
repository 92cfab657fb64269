"""Train and dev text out of the talks, as most papers on IWSLT 2014 have them.

    python hold_out.py data/talks data --languages de en

Pairs stay that have 1 to 175 tokens of Moses' a side, and neither side 1.5 times as many as the
other; every 23rd of them is for dev. OUT/train.LANG and OUT/dev.LANG are raw text again: preprocess
tokenises it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from nmtkit.corpus import read_pairs
from nmtkit.errors import UserError
from nmtkit.files import atomic_writer
from nmtkit.text import Text, TextConfig

LONGEST = 175  # tokens
RATIO = 1.5
DEV_EVERY = 23


def clean(prefix: Path, languages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs that stay."""
    source_text, target_text = (Text(TextConfig(language)) for language in languages)
    for source, target in read_pairs(prefix, *languages):
        lengths = len(source_text.tokenise(source)), len(target_text.tokenise(target))
        shorter, longer = sorted(lengths)
        if shorter and longer <= min(LONGEST, RATIO * shorter):
            yield source, target


def main() -> None:
    """Write train and dev."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("prefix", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--languages", nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    options = parser.parse_args()
    languages = options.languages
    counts = {"train": 0, "dev": 0}
    try:
        with ExitStack() as stack:
            files = {
                name: [
                    stack.enter_context(atomic_writer(options.out / f"{name}.{language}"))
                    for language in languages
                ]
                for name in counts
            }
            for number, pair in enumerate(clean(options.prefix, languages), 1):
                name = "train" if number % DEV_EVERY else "dev"
                counts[name] += 1
                for file, line in zip(files[name], pair, strict=True):
                    file.write(line + "\n")
    except UserError as error:
        sys.exit(f"hold_out.py: {error}")
    print(f"{counts['train']} pairs to train, {counts['dev']} for dev", file=sys.stderr)


if __name__ == "__main__":
    main()
