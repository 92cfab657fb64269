"""Pictures of attention: for the terminal, as PNG or SVG files, and as a page of a whole test set.

Rows are target tokens, columns source tokens, as in figure 3 of Bahdanau et al. (2015). A weight is
a reading of where the model looked, not a proof of why it chose a word.
"""

from nmtkit.heatmap.fonts import FONTS, MissingGlyphs
from nmtkit.heatmap.image import SUFFIXES, Picture, save_heatmap
from nmtkit.heatmap.page import PagePair, write_page
from nmtkit.heatmap.text import SHADES, TextMap, text_heatmap
from nmtkit.heatmap.tokens import Attention, Link

__all__ = [
    "FONTS",
    "SHADES",
    "SUFFIXES",
    "Attention",
    "Link",
    "MissingGlyphs",
    "PagePair",
    "Picture",
    "TextMap",
    "save_heatmap",
    "text_heatmap",
    "write_page",
]
