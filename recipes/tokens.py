"""Text in Moses' tokens, for scores of tokenised text.

    python tokens.py --language fr [--lowercase] <reference.fr >reference.tok.fr

One line out for one line in, and only a newline ends a line.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nmtkit.corpus import read_lines
from nmtkit.errors import UserError
from nmtkit.text import Text, TextConfig


def main() -> None:
    """Tokenise the standard input, or the file named, to the standard output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", nargs="?", default="-", help="text, or - for the standard input")
    parser.add_argument("--language", required=True, help="en, fr, de …")
    parser.add_argument("--lowercase", action="store_true")
    options = parser.parse_args()
    try:
        config = TextConfig(
            options.language, case="lower" if options.lowercase else "keep", subwords="none"
        )
        text = Text(config)
        for line in read_lines("-" if options.file == "-" else Path(options.file)):
            tokens = " ".join(text.fold(text.tokenise(line)))
            sys.stdout.buffer.write(tokens.encode("utf-8") + b"\n")
    except UserError as error:
        sys.exit(f"tokens.py: {error}")


if __name__ == "__main__":
    main()
