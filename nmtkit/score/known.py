"""Sentences without unknown words (Bahdanau et al., 2015, table 1, last column)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nmtkit.errors import UserError
from nmtkit.score.text import Texts
from nmtkit.text import Text
from nmtkit.vocabulary import UNK


def without_unknown(texts: Texts, folder: Path) -> Texts:
    """Only the lines whose source and reference have no token unknown to the model in ``folder``.

    The lines are cut as the model's own text is; the systems' words do not matter. ``texts`` must
    have the source. Raises UserError when ``folder`` has no text side, and when no line is left.
    """
    assert texts.sources is not None
    if not folder.is_dir():
        raise UserError(f"{folder}: no such model directory")
    source, target = Text.load(folder, "source"), Text.load(folder, "target")
    rows = known_rows(texts.sources, texts.references, source, target)
    if not rows:
        raise UserError(
            f"every sentence of {texts.source_name} or its reference has words unknown to "
            f"{folder}: nothing is left to score"
        )
    return texts.only(rows)


def known_rows(
    sources: Sequence[str], references: Sequence[str], source: Text, target: Text
) -> list[int]:
    """The numbers, from 0, of the pairs that both sides' vocabularies cover."""
    pairs = zip(sources, references, strict=True)
    return [
        row
        for row, (line, reference) in enumerate(pairs)
        if UNK not in source.ids(line) and UNK not in target.ids(reference)
    ]
