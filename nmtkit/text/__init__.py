r"""One side's text: raw line <-> tokens <-> subwords, and back.

The way in:   line -> tokenise -> tokens -> fold -> folded tokens -> subwords_of -> subwords
The way out:  subwords -> words -> tokens -> restore -> line
Law:          ``text.words(text.segment(line).subwords) == text.fold(text.tokenise(line))``

Nothing on the way crashes on hostile text (controls, U+2028, "@@", "<unk>", very long tokens),
and no line that comes out holds a newline or another control character.

Fitting a side (preprocess composes these; every step needs only what stands before it)::

    config = TextConfig("de", case="true", subwords="bpe")
    text = Text(config)
    truecaser = train_truecaser(text.tokenise(line) for line in lines)       # case "true" only
    text = Text(config, truecaser=truecaser)
    counts.update(text.fold(text.tokenise(line)))                            # for all lines
    codes = learn_codes(counts, merges)      # joint codes: the sum of both sides' counts
    text = Text(config, truecaser=truecaser, codes=codes)
    counts_of_subwords.update(text.segment(line).subwords)                   # for all lines
    text.vocabulary = Vocabulary.build(counts_of_subwords, size, threshold)
    text.ids(line)
    text.save(folder, "source")

``subwords="sentencepiece"`` takes ``learn_sentencepiece(" ".join(folded tokens) a line, size)``
as ``Text(config, pieces=model)`` in place of ``codes``. ``subwords="none"`` needs neither.

``TextConfig.restrict`` is subword-nmt's --vocabulary-threshold: once ``text.vocabulary`` is set,
merges whose result is not in the vocabulary are undone, so rare merged subwords do not become
``<unk>``. Set it before the pass that writes ids; the vocabulary then stays as it is.

A Text can be pickled, so worker processes may get one.
"""

from nmtkit.text.bpe import check_codes, learn_codes
from nmtkit.text.casing import Truecaser, train_truecaser
from nmtkit.text.mapping import token_map
from nmtkit.text.pieces import learn_sentencepiece
from nmtkit.text.pipeline import (
    CASES,
    SIDES,
    SUBWORDS,
    TOKENIZERS,
    Segmented,
    Side,
    Text,
    TextConfig,
)

__all__ = [
    "CASES",
    "SIDES",
    "SUBWORDS",
    "TOKENIZERS",
    "Segmented",
    "Side",
    "Text",
    "TextConfig",
    "Truecaser",
    "check_codes",
    "learn_codes",
    "learn_sentencepiece",
    "token_map",
    "train_truecaser",
]
