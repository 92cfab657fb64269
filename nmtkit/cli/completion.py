"""Shell completion: the values of options that take one of a few names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

# What `nmtkit.models` knows, without loading torch at every TAB; a test compares the two.
ARCHITECTURES = (
    *("rnnsearch", "rnnencdec", "seq2seq", "luong", "gnmt", "transformer"),
    *("ibm1", "hmm"),
)
PRESETS = ("tiny", "small", "base", "paper", "aligner")
SOFT_SYMMETRISATIONS = (
    *("product", "harmonic", "competitive", "posterior-union", "posterior-intersection"),
    *("posterior-mean", "posterior-product"),
)
METHODS = ("argmax", "mutual", "threshold", "auto")
LENGTH_NORMALISATIONS = ("power", "gnmt")
DEVICES = ("auto", "cpu", "cuda")

_OPTIONS = ("--show-completion", "--install-completion")
_NAMED = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """For `autocompletion=` of an option: those of the names that begin as the word does."""
    known = list(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


def take_named_shell() -> None:
    """Let a shell's name follow --show-completion: Typer else takes the one it is called from.

    It would print that one's script for `--show-completion zsh` too, and fail where it finds none.
    """
    if len(sys.argv) > 2 and sys.argv[1] in _OPTIONS:
        os.environ[_NAMED] = "1"
