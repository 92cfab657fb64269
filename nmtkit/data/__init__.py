"""The prepared corpus on disk: what `preprocess` writes and `train` reads, memory-mapped.

A folder holds ``manifest.json``, ``report.json``, the text side (see ``text.py``), and for each
part (``train``, ``valid``) and language two little-endian arrays without a header:

- ``PART.LANGUAGE.ids``      int32, the ids of all sentences end to end, without EOS; a word that
  the vocabulary lacks is a number below 0 (format 2: UNK), so that equal ones can be told
- ``PART.LANGUAGE.offsets``  int64, one more than there are pairs: sentence i is ids[o[i]:o[i+1]]

``train.lines`` (int64): for every training pair, which pair of the training text it was, counted
from 0 over all files in their order, before any was dropped; and ``valid.LANGUAGE.txt``, the
validation lines themselves. A folder may come from anywhere, so nothing in it is believed:
`PreparedCorpus.open` checks every field, size, offset, id and number.
"""

from nmtkit.data.bitext import (
    Bitext,
    BitextWriter,
    IdArray,
    Ids,
    OffsetArray,
    PairCounts,
    check_languages,
    ids_path,
    known,
    lines_path,
    numbers_path,
)
from nmtkit.data.prepared import MANIFEST, PreparedCorpus, write_manifest

__all__ = [
    "MANIFEST",
    "Bitext",
    "BitextWriter",
    "IdArray",
    "Ids",
    "OffsetArray",
    "PairCounts",
    "PreparedCorpus",
    "check_languages",
    "ids_path",
    "known",
    "lines_path",
    "numbers_path",
    "write_manifest",
]
