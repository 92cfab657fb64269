r"""Raw parallel text: reading it strictly, cleaning its lines, and why a pair is dropped.

Only ``\n`` ends a line. U+2028, NEL, VT, FF or a lone CR inside a line are characters like any
other: a reader that ends a line there shifts every pair that follows.
"""

from nmtkit.corpus.filters import REASONS, Duplicates, Filters
from nmtkit.corpus.pairs import corpus_files, read_pairs
from nmtkit.corpus.streams import open_text, read_lines
from nmtkit.files import CONTROLS, clean_line, count_controls

__all__ = [
    "CONTROLS",
    "REASONS",
    "Duplicates",
    "Filters",
    "clean_line",
    "corpus_files",
    "count_controls",
    "open_text",
    "read_lines",
    "read_pairs",
]
