"""Does attention point at what mattered? Source words are left out, and the target is read again.

An attention weight says where the decoder read, not what its choice rests on: an annotation holds
more than its own word, and the decoder's state knows the sentence too. Jain and Wallace (2019,
"Attention is not Explanation") compare attention with the effect of leaving inputs out; so does
this. Wiegreffe and Pinter (2019, "Attention is not not Explanation") argue that a weak agreement
does not make attention meaningless. The figures compare models and readings; they prove no cause.

The *drop* of a target word is what its log-probability (of all its subwords, in nats, by teacher
forcing) loses when a source word is left out; it is negative when the word becomes more probable.

Letters: I target words, J source words that have subwords.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from nmtkit.align.extraction import Matrix
from nmtkit.align.options import AlignOptions
from nmtkit.align.reading import Line, check_attention, read_attention
from nmtkit.batches import check_length, length_sorted, with_end
from nmtkit.checkpoint import Trained
from nmtkit.errors import UserError, unknown
from nmtkit.models.seq2seq import Seq2Seq
from nmtkit.progress import Progress, silent
from nmtkit.search import force_decode
from nmtkit.vocabulary import UNK

#: How a source word is left out: its subwords removed, so that the source is shorter; or each
#: replaced by UNK, so that all others keep their places (a word that was unknown then stays).
How = Literal["delete", "unknown"]

AHEAD = 200  # pairs sorted by length together; each is decoded once for every source word

Pair = tuple[Line, Line]


@dataclass(frozen=True)
class Faithfulness:
    """What leaving out source words does. Means are over the target words judged.

    A target word is judged when some source word has more of its attention than NULL has, and the
    source has two words or more.
    """

    how: str
    pairs: int
    pairs_judged: int  # those with two source words or more, and a target
    words: int  # target words judged
    words_unlinked: int  # in pairs judged: NULL has the most attention
    drop_attended: float  # nats, of the source word with the most attention
    drop_second: float  # of the one with the next most
    drop_random: float  # of any but the first: the mean over all of them
    most_influential: float  # rate, 0 to 1: no word's drop is larger than the most attended one's
    chance: float  # the rate of a word drawn at random: the mean of 1/J
    correlation: float  # Kendall's tau-b of attention and drop over the source words, mean

    def rows(self) -> list[tuple[str, str]]:
        """The lines of a table: what, how much."""
        return [
            ("pairs", f"{self.pairs}"),
            ("pairs with two source words or more", f"{self.pairs_judged}"),
            ("target words linked by attention", f"{self.words}"),
            ("target words not linked", f"{self.words_unlinked}"),
            ("drop of log-probability in nats, without", ""),
            ("  the most attended source word", f"{self.drop_attended:.3f}"),
            ("  the second most attended", f"{self.drop_second:.3f}"),
            ("  a random other one", f"{self.drop_random:.3f}"),
            ("most attended is most influential", f"{100 * self.most_influential:.1f} %"),
            ("  expected of a random word", f"{100 * self.chance:.1f} %"),
            ("rank correlation (Kendall's tau-b)", f"{self.correlation:.3f}"),
        ]

    def to_json(self) -> dict[str, object]:
        """All figures as JSON values."""
        return asdict(self)


def faithfulness(
    models: Sequence[Trained],
    pairs: Iterable[tuple[str, str]],
    options: AlignOptions,
    progress: Progress = silent,
    how: How = "delete",
) -> Faithfulness:
    """Leave out every source word of every pair of lines once; `models`: one or an ensemble.

    Of `options` the reading of rows and lines and the batch count. The mean over all other source
    words is what drawing one at random gives in the long run, without the chance.

    Raises UserError for a model without attention or without a probability of the target, and
    when there is no target word to judge.
    """
    if how not in get_args(How):
        raise unknown("way to leave a word out", how, get_args(How))
    for trained in models:
        if not isinstance(trained.model, Seq2Seq):
            raise UserError(
                f"{trained.folder}: its architecture does not say how probable a translation is: "
                "measure the faithfulness of another model"
            )
        if not trained.translates:
            raise UserError(
                f"{trained.folder}: it was trained to align only, and cannot say how probable a "
                "translation is: measure the faithfulness of another model"
            )
    check_attention(models)
    read = Line.of_raw if options.raw else Line.of_tokens
    source, target = models[0].source, models[0].target
    stream = iter(progress(pairs, "leaving words out"))
    count, judged = 0, []
    while some := list(islice(stream, AHEAD)):
        lines = [(read(source, s), read(target, t)) for s, t in some]
        for number, pair in enumerate(lines, count + 1):
            check_length(max(len(line.ids) for line in pair), f"pair {number}")
        count += len(some)
        chosen = [pair for pair in lines if len(_words(pair[0])) > 1 and pair[1].ids]
        attentions = read_attention(models, chosen, options)
        drops = _drops(models, chosen, options, how)
        for (line, _), attention, drop in zip(chosen, attentions, drops, strict=True):
            judged.append(judge(attention[:, [*_words(line), -1]], drop))
    return _summary(how, count, judged)


@dataclass(frozen=True)
class Judged:
    """One pair: the figures (words, 6) of its linked target words, and how many are not linked."""

    figures: Matrix  # in the order of Faithfulness, from drop_attended on
    unlinked: int


def judge(attention: Matrix, drops: Matrix) -> Judged:
    """One pair: word attention (I, J+1; the last column NULL), drops (I, J); J is 2 or more.

    A target word without subwords must be all NULL's.
    """
    weights, null = attention[:, :-1], attention[:, -1]
    linked = weights.max(1) >= null
    weights, drops = weights[linked], drops[linked]
    order = np.argsort(-weights, 1, kind="stable")
    first, second = (
        np.take_along_axis(drops, order[:, place : place + 1], 1)[:, 0] for place in (0, 1)
    )
    others = (drops.sum(1) - first) / (drops.shape[1] - 1)
    most = first >= drops.max(1)
    chance = np.full(len(drops), 1 / drops.shape[1])
    tau = np.array([kendall(w, d) for w, d in zip(weights, drops, strict=True)])
    figures = np.stack([first, second, others, most, chance, tau], 1)
    return Judged(figures, int((~linked).sum()))


def kendall(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    """Kendall's tau-b of two rankings (J,), -1 to 1; 0 when all of either are equal."""
    signs = [np.sign(values[:, None] - values) for values in (one, other)]
    untied = [float((sign**2).sum()) for sign in signs]
    if not all(untied):
        return 0.0
    return float((signs[0] * signs[1]).sum() / np.sqrt(untied[0] * untied[1]))


def _words(line: Line) -> list[int]:
    """The words of a line that have subwords."""
    return sorted({word for word in line.word_of if word >= 0})


def _drops(
    models: Sequence[Trained], pairs: Sequence[Pair], options: AlignOptions, how: How
) -> list[Matrix]:
    """The drop (I, J) of every target word without every source word, for each pair."""
    rows = [(p, word) for p, (source, _) in enumerate(pairs) for word in [-1, *_words(source)]]
    sources = [_without(pairs[p][0], word, how) for p, word in rows]
    targets = [pairs[p][1] for p, _ in rows]
    longer = [max(len(s), len(t.ids)) for s, t in zip(sources, targets, strict=True)]
    found = [np.zeros(0)] * len(rows)
    device = models[0].device
    for places in length_sorted(longer, options.batch):
        source = with_end([sources[place] for place in places]).to(device)
        target = with_end([targets[place].ids for place in places]).to(device)
        forced = force_decode([trained.seq2seq for trained in models], source, source != 0, target)
        for place, log_probs in zip(places, forced.log_probs.double().cpu().numpy(), strict=True):
            found[place] = _by_word(targets[place], log_probs)
    drops: list[list[npt.NDArray[np.float64]]] = [[] for _ in pairs]
    for (p, word), log_probs in zip(rows, found, strict=True):
        if word < 0:
            whole = log_probs
        else:
            drops[p].append(whole - log_probs)
    return [np.stack(columns, 1) for columns in drops]


def _without(source: Line, word: int, how: How) -> list[int]:
    """The ids of a source that lacks one word (-1: none)."""
    if word < 0:
        return source.ids
    both = zip(source.ids, source.word_of, strict=True)
    if how == "unknown":
        return [UNK if of == word else i for i, of in both]
    return [i for i, of in both if of != word]


def _by_word(target: Line, log_probs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Log-probabilities of subwords (T, the end and padding too) -> of words (I,)."""
    words = np.array(target.word_of, dtype=np.int64)
    kept = words >= 0
    sums = np.zeros(len(target.words))
    np.add.at(sums, words[kept], log_probs[: len(words)][kept])
    return sums


def _summary(how: str, pairs: int, judged: Sequence[Judged]) -> Faithfulness:
    figures = np.concatenate([np.zeros((0, 6)), *(one.figures for one in judged)])
    if not len(figures):
        raise UserError(
            f"none of the {pairs} pairs has a target word that attention links to one of several "
            "source words: there is nothing to measure"
        )
    unlinked = sum(one.unlinked for one in judged)
    return Faithfulness(how, pairs, len(judged), len(figures), unlinked, *figures.mean(0).tolist())
