"""Links that nmtkit writes, taken through phrase extraction as it is published.

Koehn, Och and Marcu (2003) and Och and Ney (2004): a phrase pair is a span of source words and a
span of target words, both up to n words long, with at least one link between them and no link from
within one to outside the other. Unaligned words at a border may belong to it or not.
"""

from __future__ import annotations

import io

import pytest

from nmtkit.links import read_directions, write_pairs

SOURCE = "vi la casa verde pues"  # "pues" is unaligned
TARGET = "I saw the green house"  # "I" is unaligned
FORWARD = """\
# Sentence pair (1) source length 5 target length 5 alignment score : 0.0031
I saw the green house
NULL ({ 1 }) vi ({ 2 }) la ({ 3 }) casa ({ 5 }) verde ({ 4 }) pues ({ })
"""
BACKWARD = """\
# Sentence pair (1) source length 5 target length 5 alignment score : 0.0042
vi la casa verde pues
NULL ({ 5 }) I ({ }) saw ({ 1 }) the ({ 2 }) green ({ 4 }) house ({ 3 })
"""

# By hand, with n = 3. "la casa" has no phrase: "the green house" reaches "verde" outside.
PHRASES = """\
vi ||| saw
vi ||| I saw
vi la ||| saw the
vi la ||| I saw the
la ||| the
la casa verde ||| the green house
casa ||| house
casa verde ||| green house
casa verde pues ||| green house
verde ||| green
verde pues ||| green
"""


def extract(pharaoh: str, source: str, target: str, longest: int) -> list[str]:
    """Every pair of spans, tested by the definition."""
    links = [tuple(map(int, link.split("-"))) for link in pharaoh.split()]
    sources, targets = source.split(), target.split()
    found = []
    for i in range(len(sources)):
        for i_end in range(i + 1, min(i + longest, len(sources)) + 1):
            for j in range(len(targets)):
                for j_end in range(j + 1, min(j + longest, len(targets)) + 1):
                    inside = [(i <= s < i_end, j <= t < j_end) for s, t in links]
                    if (True, True) in inside and all(a == b for a, b in inside):
                        phrase = sources[i:i_end], targets[j:j_end]
                        found.append(" ||| ".join(map(" ".join, phrase)))
    return found


@pytest.mark.parametrize("method", ["intersection", "grow-diag-final-and", "union"])
def test_links_give_the_phrases_worked_by_hand(tmp_path, method):
    for name, text in {"forward": FORWARD, "backward": BACKWARD}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    pairs = read_directions(tmp_path / "forward", tmp_path / "backward", "giza", method)
    out = io.StringIO()
    write_pairs(out, pairs, "pharaoh")
    assert out.getvalue() == "0-1 1-2 2-4 3-3\n"
    phrases = extract(out.getvalue(), SOURCE, TARGET, longest=3)
    assert sorted(phrases) == sorted(PHRASES.splitlines())
