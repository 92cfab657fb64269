"""IBM Model 1 and the HMM alignment model, vectorised over sentences.

    Brown, Della Pietra, Della Pietra, Mercer, "The mathematics of statistical machine translation"
    (1993): every target word f_i comes from one source word or from NULL,

        p(f_i, a_i = j) = (1 - p_0) / S · t(f_i | e_j),   p(f_i, a_i = NULL) = p_0 · t(f_i | NULL)

    Vogel, Ney, Tillmann, "HMM-based word alignment in statistical translation" (1996): the place
    depends on the place before it, by the width of the jump alone,

        p(a_i = j | a_{i-1} = k) = (1 - p_0) · c(j - k) / Σ_l c(l - k)

    With NULL as Och and Ney, "A systematic comparison of various statistical alignment models"
    (2003): a word without partner, p(a_i = NULL) = p_0, keeps the place before it. The first jump
    starts from place -1, before the first word. Wide jumps have room in few places, so that c is
    not the number of jumps n(d) alone, but what makes them likeliest; each epoch takes a step there
    (the MM algorithm of Hunter, "MM algorithms for generalized Bradley-Terry models", 2004):

        c(d) <- n(d) / Σ_jumps [how many words are d away] / Σ_l c(l - k)

Both read the posteriors p(a_i = j | e, f), which take the place of attention in links.

Letters: B sentences of one source length, S source words, T target words, R the longest jump.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from nmtkit.models.aligner import Aligner
from nmtkit.models.lexicon import LEAST, Lexicon
from nmtkit.vocabulary import EOS, PAD

MOST = 1_000_000  # pseudo-counts: beyond, nothing would be learnt from any corpus


@dataclass(frozen=True)
class TablesConfig:
    """The prior of the tables, whatever the model."""

    architecture: str = ""
    null: float = 0.2  # p_0
    smoothing: float = 30.0  # pseudo-counts of the lexical table's prior, a source word
    #: Words with the same first so many letters (accents aside) are one class, whose lexical table
    #: smooths that of the words; 0: no classes.
    prefix: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.null < 1:
            raise ValueError(f"null must be between 0 and 1, got {self.null}")
        if not 0 <= self.smoothing <= MOST:
            raise ValueError(f"smoothing must be from 0 to {MOST}, got {self.smoothing}")
        if self.prefix < 0:
            raise ValueError(f"prefix must be 0 or more, got {self.prefix}")


@dataclass(frozen=True)
class IBM1Config(TablesConfig):
    """IBM Model 1 has no more than the lexical table."""

    architecture: Literal["ibm1"] = "ibm1"


@dataclass(frozen=True)
class HMMConfig(TablesConfig):
    """The HMM also has the jumps."""

    architecture: Literal["hmm"] = "hmm"
    longest_jump: int = 100  # R: longer jumps count as this long
    jump_smoothing: float = 100.0  # pseudo-counts of the jumps' prior

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.longest_jump <= 10_000:
            raise ValueError(f"longest_jump must be from 1 to 10000, got {self.longest_jump}")
        if not 0 < self.jump_smoothing <= MOST:
            raise ValueError(
                f"jump_smoothing must be above 0 and at most {MOST}, got {self.jump_smoothing}"
            )


class Reading(NamedTuple):
    """Posteriors of some sentences."""

    links: Tensor  # (B, T, S): p(a_i = j | e, f)
    null: Tensor  # (B, T): p(a_i = NULL | e, f)
    log_likelihood: Tensor  # (): Σ log p(f | e), nats
    #: (2, 2R+1), of widths -R … R: n(d), and the sum that divides it.
    jumps: Tensor | None = None


class IBM1(Aligner):
    """See the module's docstring."""

    def __init__(self, config: TablesConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        self.lexicon = Lexicon(source_size, target_size, config.smoothing)

    def take(self, tensors: Mapping[str, Tensor]) -> None:
        wanted = self.state_dict()
        for name in sorted(wanted.keys() | tensors.keys()):
            if name not in tensors:
                raise ValueError(f"the tensor {name} is missing")
            if name not in wanted:
                raise ValueError(f"unexpected tensor {name}")
        prefix = "lexicon."
        self.lexicon.take(
            {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        )

    def read(self, lexical: Tensor, null: Tensor, real: Tensor) -> Reading:
        """t(f | e) (B, T, S), t(f | NULL) (B, T), real target words (B, T) -> posteriors.

        The real words come first. What t is of the others does not matter; their posteriors are 0.
        """
        p_0 = self.config.null
        links = lexical * ((1 - p_0) / lexical.shape[2])
        unlinked = null * p_0
        total = (links.sum(2) + unlinked).masked_fill(~real, 1.0)
        links = (links / total.unsqueeze(2)).masked_fill(~real.unsqueeze(2), 0.0)
        unlinked = (unlinked / total).masked_fill(~real, 0.0)
        return Reading(links, unlinked, total.log().double().sum())

    def attention(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        lexicon, lengths = self.lexicon, mask.sum(1) - 1
        real = (target != PAD) & (target != EOS)
        result = lexicon.counts.new_zeros((*target.shape, source.shape[1]))
        result[torch.arange(len(source)), :, lengths] = 1.0  # all NULL's, unless read otherwise
        for length in sorted(set(lengths.tolist())):
            if not length:
                continue
            rows = (lengths == length).nonzero().squeeze(1)
            words, translation, here = source[rows, :length], target[rows], real[rows]
            cells = lexicon.cells(words, translation)
            lexical = lexicon.probabilities(cells, words, translation)
            reading = self.read(lexical, lexicon.null_probabilities(translation), here)
            result[rows, :, :length] = reading.links
            result[rows, :, length] = reading.null.masked_fill(~here, 1.0)
        return result


class HMM(IBM1):
    """See the module's docstring."""

    config: HMMConfig
    jumps: Tensor

    def __init__(self, config: HMMConfig, source_size: int, target_size: int) -> None:
        super().__init__(config, source_size, target_size)
        self.register_buffer("jumps", self.prior().float())

    def take(self, tensors: Mapping[str, Tensor]) -> None:
        super().take(tensors)
        jumps = tensors["jumps"]
        if jumps.shape != self.jumps.shape or jumps.dtype != self.jumps.dtype:
            raise ValueError(f"jumps must be {len(self.jumps)} numbers")
        if not (jumps.isfinite() & (jumps > 0)).all():
            raise ValueError("jumps holds numbers that are no counts")
        self.jumps = jumps

    def widths(self, length: int) -> Tensor:
        """The place in `jumps` of every jump from place k-1 (row k) to place j: (S+1, S)."""
        longest = self.config.longest_jump
        places = torch.arange(length, device=self.jumps.device)
        before = torch.arange(-1, length, device=self.jumps.device).unsqueeze(1)
        return (places - before).clamp(-longest, longest) + longest

    def prior(self) -> Tensor:
        """c before anything has been counted: a step to the next word is the likeliest."""
        longest = self.config.longest_jump
        widths = torch.arange(-longest, longest + 1, dtype=torch.float64)
        c = torch.exp(-(widths - 1).abs() / 2) + 0.001
        return c / c.sum()

    def learn(self, jumps: Tensor) -> None:
        """Make c likelier, given the sums (2, 2R+1) of readings.

        The prior's jumps are some more, from places where every width had room.
        """
        (number, room), smoothing = jumps, self.config.jump_smoothing
        number = number + smoothing * self.prior().to(jumps)
        c = number / (room + smoothing / self.jumps.double().sum())
        self.jumps.copy_((c / c.sum()).clamp_min(LEAST))

    def read(self, lexical: Tensor, null: Tensor, real: Tensor) -> Reading:
        """Forward-backward over the target words, every sentence at once.

        In float64: what a rare word makes of a place can be too small for float32.
        """
        p_0, widths = self.config.null, self.widths(lexical.shape[2])
        jump = self.jumps.double()[widths]
        total = jump.sum(1, keepdim=True)
        jump = jump / total
        moved = lexical.transpose(0, 1).contiguous().double() * (1 - p_0)
        stayed = null.t().double().unsqueeze(2) * p_0
        here = real.t().unsqueeze(2)
        before, to_link, scale = _forward(moved, stayed, here, jump)
        after = _backward(moved, stayed, here, jump, scale)
        links = to_link * after[:, :, 1:] * here
        unlinked = (before * after).sum(2, keepdim=True) * stayed / scale * here
        # Expected jumps: p(place before) · p(j | place) · p(f_i | j) · what follows.
        coming = moved * after[:, :, 1:] / scale * here
        expected = jump * (before.flatten(0, 1).t() @ coming.flatten(0, 1))
        room = (expected.sum(1, keepdim=True) / total).expand_as(expected)
        jumps = expected.new_zeros(2, len(self.jumps))
        jumps.index_add_(1, widths.flatten(), torch.stack([expected, room]).flatten(1))
        return Reading(
            links.to(lexical.dtype).transpose(0, 1).contiguous(),
            unlinked.squeeze(2).t().to(null.dtype),
            scale.log().sum(),
            jumps,
        )


def _forward(
    moved: Tensor, stayed: Tensor, real: Tensor, jump: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Scaled forward probabilities.

    moved (T, B, S), stayed and real (T, B, 1), jump (S+1, S) from place k-1 (row k) to place j ->
    of the place before each word (T, B, S+1), of its link (T, B, S), and the scales (T, B, 1). The
    product of a sentence's scales is its probability; after its end they are 1.
    """
    length, sentences, places = moved.shape
    before, to_link = moved.new_zeros(length, sentences, places + 1), torch.empty_like(moved)
    scale = torch.ones_like(stayed)
    place = moved.new_zeros(sentences, places + 1)
    place[:, 0] = 1.0
    for i in range(length):
        before[i] = place
        link, null = moved[i] * (place @ jump), stayed[i] * place
        total = link.sum(1, keepdim=True) + null.sum(1, keepdim=True)
        scale[i] = torch.where(real[i], total, scale[i])
        to_link[i] = link / scale[i]
        place = null / scale[i]
        place[:, 1:] += to_link[i]
    return before, to_link, scale


def _backward(moved: Tensor, stayed: Tensor, real: Tensor, jump: Tensor, scale: Tensor) -> Tensor:
    """Scaled backward probabilities (T, B, S+1): of all that follows, given the place."""
    length, sentences, places = moved.shape
    after = moved.new_ones(length, sentences, places + 1)
    for i in range(length - 1, 0, -1):
        come = (moved[i] * after[i, :, 1:]) @ jump.t() + stayed[i] * after[i]
        after[i - 1] = torch.where(real[i], come / scale[i], after[i - 1])
    return after
