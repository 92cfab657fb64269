"""Word alignment links: their file formats, checks, and the combination of two directions.

A link is a pair (source, target) of token positions counted from 0; the links of one sentence pair
are a frozenset, so repeated links are harmless. Tokens are what runs of ASCII spaces separate.
"""

from nmtkit.links.convert import (
    Converted,
    check_lines,
    convert,
    read_directions,
    symmetrise_pairs,
    with_text,
)
from nmtkit.links.files import (
    check_pairs,
    in_step,
    mismatch,
    read_gold,
    read_links,
    read_pairs,
    write_pairs,
)
from nmtkit.links.formats import FORMATS, Format
from nmtkit.links.pair import (
    Gold,
    Link,
    LinkedPair,
    Links,
    check_bounds,
    split_tokens,
    transpose,
)
from nmtkit.links.parts import MAX_POSITION
from nmtkit.links.pharaoh import format_pharaoh, format_talp, parse_gold, parse_links
from nmtkit.links.symmetrisation import SYMMETRISATIONS, symmetrise

__all__ = [
    "FORMATS",
    "MAX_POSITION",
    "SYMMETRISATIONS",
    "Converted",
    "Format",
    "Gold",
    "Link",
    "LinkedPair",
    "Links",
    "check_bounds",
    "check_lines",
    "check_pairs",
    "convert",
    "format_pharaoh",
    "format_talp",
    "in_step",
    "mismatch",
    "parse_gold",
    "parse_links",
    "read_directions",
    "read_gold",
    "read_links",
    "read_pairs",
    "split_tokens",
    "symmetrise",
    "symmetrise_pairs",
    "transpose",
    "with_text",
    "write_pairs",
]
