"""Moses' tokeniser, detokeniser and punctuation normaliser, by sacremoses.

Nothing is escaped ("&amp;" is four tokens' worth of text, not an ampersand), patterns are compiled
and character sets built once, and the places where sacremoses stumbles are passed around.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

# sacremoses writes (\\.+)"(\\s*[^<]), which takes the square of the length of a row of dots.
SLOW_PATTERNS = {r'(\.+)"(\s*[^<])': r'(?<!\.)(\.+)"(\s*[^<])'}


class Moses:
    """The rules of one language, by its two-letter code; others are treated as Moses treats them:
    with the English abbreviations and no rules of their own.
    """

    def __init__(self, language: str) -> None:
        from sacremoses.normalize import MosesPunctNormalizer
        from sacremoses.tokenize import MosesDetokenizer

        self._tokenizer = _fast_tokenizer(language)
        self._detokenizer = MosesDetokenizer(language)
        self._plain_detokenizer = MosesDetokenizer("")
        self._substitutions = [
            (re.compile(SLOW_PATTERNS.get(pattern, pattern)), replacement)
            for pattern, replacement in MosesPunctNormalizer(language).substitutions
        ]

    def normalise(self, line: str) -> str:
        """``line`` with plain ASCII punctuation (normalize-punctuation.perl)."""
        for pattern, replacement in self._substitutions:
            line = pattern.sub(replacement, line)
        return line

    def tokenise(self, line: str) -> list[str]:
        """The tokens of a clean line; none holds a space of any kind."""
        tokens: list[str] = self._tokenizer.tokenize(line, escape=False)
        return tokens

    def detokenise(self, tokens: Sequence[str]) -> str:
        """The line that ``tokens`` were cut from, as well as one can tell."""
        try:
            line: str = self._detokenizer.detokenize(tokens, unescape=False)
        except TypeError:  # its rule for Czech "…-li" calls next() on a list
            line = self._plain_detokenizer.detokenize(tokens, unescape=False)
        return line


@cache
def moses(language: str) -> Moses:
    """The rules for a language code such as "de" or "de-AT", built once."""
    return _moses(re.split("[-_]", language.lower())[0])


@cache
def _moses(language: str) -> Moses:
    return Moses(language)


def _fast_tokenizer(language: str) -> Any:
    """A MosesTokenizer with the same results in a fraction of the time.

    sacremoses builds its character sets anew for every full stop, asks a pattern of every token
    whether it ends in one, and for Chinese, Japanese and Korean compiles a class of 100 000 single
    characters that is searched one by one.
    """
    from sacremoses.tokenize import MosesTokenizer

    tokenizer: Any = MosesTokenizer(language)
    lower, alpha = frozenset(tokenizer.IsLower), frozenset(tokenizer.IsAlpha)
    tokenizer.islower = lower.issuperset
    tokenizer.isanyalpha = lambda text: not alpha.isdisjoint(text)
    tokenizer.handles_nonbreaking_prefixes = _full_stops(tokenizer.handles_nonbreaking_prefixes)
    tokenizer.NONBREAKING_PREFIXES = frozenset(tokenizer.NONBREAKING_PREFIXES)
    tokenizer.NUMERIC_ONLY_PREFIXES = frozenset(tokenizer.NUMERIC_ONLY_PREFIXES)
    if tokenizer.PAD_NOT_ISALNUM is not MosesTokenizer.PAD_NOT_ISALNUM:
        pattern = re.compile(rf"([^{_ranges(tokenizer.IsAlnum)}\s\.'\`\,\-])")
        tokenizer.PAD_NOT_ISALNUM = pattern, r" \1 "
    return tokenizer


def _full_stops(separated: Callable[[str], str]) -> Callable[[str], str]:
    """``separated`` (full stops, where they end a sentence), asked only about tokens with one.

    It looks at a token and the next.
    """

    def of_line(text: str) -> str:
        tokens = text.split()
        for place, token in enumerate(tokens):
            if token[-1] == "." and len(token) > 1:
                near = separated(" ".join(tokens[place : place + 2]))
                if not f"{near} ".startswith(f"{token} "):
                    tokens[place] = f"{token[:-1]} ."
        return " ".join(tokens)

    return of_line


def _ranges(characters: str) -> str:
    """``characters`` (letters and digits) as ranges for a character class."""
    ranges: list[list[int]] = []
    for code in sorted(set(map(ord, characters))):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
