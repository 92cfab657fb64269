"""`nmtkit preprocess`: raw parallel text -> a prepared corpus (see ``data.py``).

Three passes over the text, none of which holds it:

1. read, clean, tokenise, fold (with case "true" after a look at all tokens); drop pairs that are
   empty, too long already in tokens, or duplicates; count tokens
2. learn codes from those counts, and count subwords: the text is not needed (sentencepiece, whose
   tokens may be whole sentences, reads it)
3. write ids; drop pairs that are too long or too unequal in subwords

Codes and vocabularies thus also see the few pairs that only the third pass drops.
"""

from nmtkit.preprocess.options import PreprocessOptions
from nmtkit.preprocess.pipeline import preprocess
from nmtkit.preprocess.report import PartReport, Report, SideReport, VocabularyReport
from nmtkit.preprocess.shards import Shard, preprocess_shard

__all__ = [
    "PartReport",
    "PreprocessOptions",
    "Report",
    "Shard",
    "SideReport",
    "VocabularyReport",
    "preprocess",
    "preprocess_shard",
]
