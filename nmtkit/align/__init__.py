"""Word links from attention: forced decoding of given pairs, subwords to words, extraction.

An attention weight is a reading of the model, not a proof of what caused a word.
"""

from nmtkit.align.choose import Choice, Space, choose
from nmtkit.align.extraction import (
    BOTH,
    METHODS,
    SYMMETRIZE,
    Matrix,
    argmax_links,
    directions,
    extract,
    threshold_links,
)
from nmtkit.align.options import AlignOptions
from nmtkit.align.pairs import Aligned, align
from nmtkit.align.reading import (
    HEAD,
    ROWS,
    SHIFTS,
    Line,
    check_attention,
    choose_attention,
    common_rows,
    read_attention,
    rows_of,
    turned,
    turned_all,
    word_attention,
)

__all__ = [
    "BOTH",
    "HEAD",
    "METHODS",
    "ROWS",
    "SHIFTS",
    "SYMMETRIZE",
    "AlignOptions",
    "Aligned",
    "Choice",
    "Line",
    "Matrix",
    "Space",
    "align",
    "argmax_links",
    "check_attention",
    "choose",
    "choose_attention",
    "common_rows",
    "directions",
    "extract",
    "read_attention",
    "rows_of",
    "threshold_links",
    "turned",
    "turned_all",
    "word_attention",
]
