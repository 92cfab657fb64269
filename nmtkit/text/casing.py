"""Truecasing: words at the start of a sentence get the case they have elsewhere.

The rules are those of Moses' train-truecaser.perl, truecase.perl and detruecase.perl, run by
sacremoses. Its entry points are not used as they stand: they read XML tags across tokens (which
changes the number of tokens and takes time that grows with the square of the line), split at
every Unicode space, and read files line by line with U+2028 as a line end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from nmtkit.errors import UserError
from nmtkit.files import CONTROLS, atomic_writer

LONGEST_WORD = 100  # characters; longer tokens have no case worth changing
LONGEST_COUNT = 18  # digits
NO_WORD = "_"  # stands in for them: a token without letters, which the rules leave alone


class Truecaser:
    """The known forms of every word, the best first."""

    def __init__(self, forms: Mapping[str, Mapping[str, int]]) -> None:
        """``forms``: lowercased word -> form -> count. Equal counts are ordered by form."""
        self.forms: dict[str, dict[str, int]] = {
            word: dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            for word, counts in sorted(forms.items())
        }
        self._rules: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Truecaser) and self.forms == other.forms

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Truecaser], tuple[Mapping[str, Mapping[str, int]]]]:
        return Truecaser, (self.forms,)

    def apply(self, tokens: Sequence[str]) -> list[str]:
        """``tokens`` in their true case, one for one.

        As in truecase.perl, a known form inside a sentence stays as it is; an unknown one, and
        every word at the start of a sentence, takes the best form.
        """
        if self._rules is None:
            self._rules = self._make_rules()
        cased: list[str] = self._rules.truecase([_word(token) for token in tokens], use_known=True)
        return [new if _is_word(old) else old for old, new in zip(tokens, cased)]

    def _make_rules(self) -> Any:
        rules = _new_rules()
        rules.split_xml = list  # tokens come as a list and are taken as they are
        best = {word: next(iter(counts)) for word, counts in self.forms.items()}
        known = {form for counts in self.forms.values() for form in counts}
        rules.model = {"best": best, "known": known}
        return rules

    def save(self, path: Path) -> None:
        """Write Moses' format, a line for every word: ``best (count/total) form (count) …``."""
        with atomic_writer(path) as file:
            for counts in self.forms.values():
                total = sum(counts.values())
                columns = [f"{form} ({count})" for form, count in counts.items()]
                columns[0] = columns[0][:-1] + f"/{total})"
                file.write(" ".join(columns) + "\n")

    @classmethod
    def load(cls, path: Path) -> Truecaser:
        """Read what ``save`` wrote.

        Raises UserError, with the line, for anything else.
        """
        try:
            lines = Path(path).read_bytes().decode("utf-8").split("\n")
        except OSError as error:
            raise UserError(f"cannot read truecaser {path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: the truecaser is not UTF-8 ({error})") from error
        if lines.pop():
            raise UserError(f"{path}: the truecaser does not end with a newline: it was cut off")
        forms: dict[str, dict[str, int]] = {}
        for number, line in enumerate(lines, start=1):
            counts = _parse(line)
            words = {form.lower() for form in counts}
            if len(words) != 1 or any(word in forms for word in words):
                raise UserError(
                    f"{path}:{number}: a line of a truecaser must be one new word in all its "
                    f"forms: FORM (COUNT/TOTAL) FORM (COUNT) …"
                )
            forms[words.pop()] = counts
        return cls(forms)


def train_truecaser(sentences: Iterable[Sequence[str]]) -> Truecaser:
    """Count the forms of all words but those that start a sentence, as train-truecaser.perl does.

    Streams: memory grows with the number of different words, not of ``sentences`` (tokens as
    ``Text.tokenise`` gives them). The order of the sentences does not matter.
    """
    rules = _new_rules()
    forms: dict[str, dict[str, int]] = {}
    for tokens in sentences:
        words = [_word(token) for token in tokens]
        for lowered, form, weight in rules.learn_truecase_weights(words):
            counts = forms.setdefault(lowered, {})
            counts[form] = counts.get(form, 0) + weight
    return Truecaser(forms)


def detruecase(tokens: Sequence[str]) -> list[str]:
    """``tokens`` with a capital at the start of every sentence (detruecase.perl), one for one."""
    ends, delays = _sentence_marks()
    cased = []
    start = True
    for token in tokens:
        cased.append(token[:1].upper() + token[1:] if start else token)
        if token in ends:
            start = True
        elif token not in delays:
            start = False
    return cased


def _is_word(token: str) -> bool:
    return 0 < len(token) <= LONGEST_WORD


def _word(token: str) -> str:
    return token if _is_word(token) else NO_WORD


def _new_rules() -> Any:
    from sacremoses.truecase import MosesTruecaser

    return MosesTruecaser()


@cache
def _sentence_marks() -> tuple[frozenset[str], frozenset[str]]:
    """Tokens that end a sentence, and tokens that may stand before its first word."""
    from sacremoses.truecase import MosesDetruecaser

    rules = MosesDetruecaser()
    return frozenset(rules.SENT_END), frozenset(rules.DELAYED_SENT_START)


def _parse(line: str) -> dict[str, int]:
    """Form -> count of one line; empty when the line is malformed."""
    columns = line.split(" ")
    if len(columns) % 2 or CONTROLS.search(line):
        return {}
    counts: dict[str, int] = {}
    total = ""
    for form, bracket in zip(columns[::2], columns[1::2]):
        count, slash, rest = bracket[1:-1].partition("/")
        total = total or rest
        first = not counts
        digits = count.isascii() and count.isdigit() and len(count) <= LONGEST_COUNT
        if not form or form in counts or not digits or bool(slash) != first:
            return {}
        if bracket[:1] + bracket[-1:] != "()":
            return {}
        counts[form] = int(count)
    return counts if total == str(sum(counts.values())) else {}
