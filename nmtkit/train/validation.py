"""The figures of the validation set, by which a run knows what is best."""

from __future__ import annotations

import torch

from nmtkit.align import AlignOptions, align, turned
from nmtkit.batches import Batch, BatchSize, length_sorted
from nmtkit.checkpoint import Trained
from nmtkit.data import Bitext, PreparedCorpus
from nmtkit.distributed import Group
from nmtkit.links import Gold
from nmtkit.score import score_links, score_text
from nmtkit.search import SearchOptions
from nmtkit.train.objective import Objective
from nmtkit.train.settings import TrainingConfig
from nmtkit.translate import TranslateOptions, translate


class Validation:
    """Measures the model as it stands, each process a share of the pairs; `gold`: their links,
    perhaps none.
    """

    def __init__(
        self,
        config: TrainingConfig,
        corpus: PreparedCorpus,
        trained: Trained,
        objective: Objective,
        gold: list[Gold] | None,
        group: Group,
    ) -> None:
        self.config, self.corpus, self.trained = config, corpus, trained
        self.objective, self.gold, self.group = objective, gold, group
        self.size = BatchSize(config.batch_sentences, config.batch_tokens, config.pool)

    def figures(self) -> dict[str, float]:
        """Dev loss in nats a token, and dev BLEU, of the model as it stands; {} without dev set."""
        valid = self.corpus.valid
        if valid is None:
            return {}
        self.trained.model.eval()
        figures: dict[str, float] = {}
        if self.config.translation_weight:
            figures["valid_loss"] = self._loss(valid)
            figures["valid_bleu"] = self._bleu()
        if self.gold:
            figures["valid_aer"] = self._aer(self.gold)
        return figures

    def _loss(self, valid: Bitext) -> float:
        loss, tokens = 0.0, 0
        lengths = list(zip(valid.source_lengths, valid.target_lengths, strict=True))
        present = [i for i, pair in enumerate(lengths) if min(pair)]
        with torch.no_grad():
            batches = list(length_sorted([max(lengths[i]) for i in present], self.size))
            for rows in self.group.share(batches):
                batch = Batch.read(valid, [present[row] for row in rows], self.trained.extended)
                loss += float(self.objective.likelihood(batch.to(self.objective.device)))
                tokens += int(batch.target_mask.sum())
        losses, counts = zip(*self.group.gather([loss, tokens]), strict=True)
        return float(sum(losses) / max(1, sum(counts)))

    def _bleu(self) -> float:
        sources, references = self.corpus.valid_lines()
        search = SearchOptions(beam=self.config.valid_beam)
        options = TranslateOptions(search=search)
        lines = self.group.share(sources)
        found = [n_best[0].text for n_best in translate([self.trained], lines, options)]
        hypotheses = self.group.joined(self.group.gather(found))
        lowercase = self.trained.target.config.case == "lower"  # what is written has no capitals
        scores = score_text({"dev": hypotheses}, references, ["bleu"], lowercase=lowercase)
        return scores["dev"][0].value

    def _aer(self, gold: list[Gold]) -> float:
        """As `nmtkit align` reads links from the rows that are guided: of both directions, where
        the model's head reads both. The lines are tokenised as they were in training.
        """
        other = turned(self.trained)
        moses = self.trained.source.config.tokenizer == "moses"
        options = AlignOptions(rows=self.objective.rows, symmetrize="posterior-mean", raw=moses)
        reverse = [] if other is None else [other]
        pairs = self.group.share(list(zip(*self.corpus.valid_lines(), strict=True)))
        found = align([self.trained], pairs, options, reverse=reverse)
        shares = self.group.gather([sorted(one.links) for one in found])
        links = [frozenset((j, i) for j, i in one) for one in self.group.joined(shares)]
        return 100 * score_links(links, gold).aer
