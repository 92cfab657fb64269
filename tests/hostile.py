"""A small corpus, lines that have broken other toolkits, and Text objects fitted to them."""

from collections import Counter
from functools import cache

from hypothesis import strategies as st

from nmtkit.text import Text, TextConfig, learn_codes, learn_sentencepiece, train_truecaser

CORPUS = [
    "The lower house , the newer house and the widest house .",
    "We saw the House of Commons ; the MP spoke low .",
    "Lower wages ! Wider roads ? The end .",
    "wow @@ a@@ b@ </w> <unk> a</w> a</w> ▁ a▁b &amp; | ' 's",
]
HOSTILE = [
    "",
    "     ",
    "\u2028\u2029\x85\x0b\x0c\r\t\ufeff\x00\x1c",
    "a\u2028b\x85c\rd\te\ufefff",
    "a\u00a0b\u3000c",
    "zero\u200bwidth \u200d e\u0301\u0301 \u0301",
    "👩\u200d👩\u200d👧 👍🏽 \U0010ffff",
    "@@ a@@ @@b @@@ @@@@ @ a@ @@ @@",
    "<unk> </s> <s> <pad> </w> a</w> <b>x y</b> <a b>",
    "&amp; &#124; &apos; | || a|b |c",
    "▁ ▁a a▁b ▁▁ _",
    "\"q\" 'q' `q` „q“ «\u00a0q\u00a0» ... … .. DOTMULTI DOTDOTMULTI THISISPROTECTED000",
    "İstanbul ǅ ß ſ ʼN",
    "don't l'ami 's x' - li %s {0} \\1 \\g<1> $1 #version: 0.2",
]
SPICE = "".join(sorted(set("".join(HOSTILE) + "abcDE.,'\"123-")))
LINES = st.one_of(st.text(), st.text(SPICE, max_size=40), st.sampled_from(HOSTILE))


def tokens_of(lines, **config):
    text = Text(TextConfig("en", subwords="none", **config))
    return [text.tokenise(line) for line in lines]


TRUECASER = train_truecaser(tokens_of(CORPUS))
SPACED = tokens_of(CORPUS + HOSTILE, tokenizer="none")
COUNTS = Counter(token for tokens in tokens_of(CORPUS * 3) + SPACED * 2 for token in tokens)
CODES = learn_codes(COUNTS, 80)


@cache
def sentencepiece_model():
    return learn_sentencepiece(CORPUS * 5, 60)


def make(model=None, language="en", **config):
    """A fitted Text, all but its vocabulary."""
    return Text(TextConfig(language, **config), truecaser=TRUECASER, codes=CODES, pieces=model)
