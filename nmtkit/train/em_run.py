"""A run of expectation maximisation, from the prepared corpus to the model directory."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from nmtkit.checkpoint import WEIGHTS, Trained, write_tensors
from nmtkit.data import PreparedCorpus
from nmtkit.files import atomic_writer
from nmtkit.models.ibm import IBM1
from nmtkit.train.em import EMConfig, expectation_maximisation
from nmtkit.train.records import Record, Reporter, write_record
from nmtkit.vocabulary import SPECIALS

LEXICON = "lex.tsv"
LEAST = 0.01  # probability of a line in it


class EMRun:
    """One run."""

    def __init__(
        self, config: EMConfig, corpus: PreparedCorpus, trained: Trained, reporter: Reporter
    ) -> None:
        assert isinstance(trained.model, IBM1)
        self.config, self.corpus, self.reporter = config, corpus, reporter
        self.trained, self.model = trained, trained.model

    def run(self, folder: Path) -> Record:
        """Train; write tables and lexicon into `folder`. The last record of metrics.jsonl."""
        record: dict[str, object] = {}
        for record in expectation_maximisation(
            self.trained, self.model, self.corpus.train, self.config, self.reporter.updated
        ):
            write_record(folder, record, self.reporter)
        write_tensors(folder / WEIGHTS, self.model.state_dict())
        lines = write_lexicon(folder / LEXICON, self.trained, self.model)
        finished = {"finished": True, **record, "lexicon": LEXICON, "lexicon_lines": lines}
        write_record(folder, finished, self.reporter)
        return finished


def write_lexicon(path: Path, trained: Trained, model: IBM1) -> int:
    """Source word TAB target word TAB t(target | source); returns the number of lines.

    Source words in the order of their ids, the most probable target word first. Pairs below LEAST
    and special tokens are left out.
    """
    lexicon = model.lexicon
    sources, targets = lexicon.words()
    table = lexicon.table()
    ordinary = (sources >= len(SPECIALS)) & (targets >= len(SPECIALS))
    kept = ((table >= LEAST) & ordinary).nonzero().squeeze(1)
    kept = kept[_by_source(sources[kept], table[kept])]
    source_words = trained.source_vocabulary.tokens(sources[kept].tolist())
    target_words = trained.target_vocabulary.tokens(targets[kept].tolist())
    with atomic_writer(path) as file:
        for row in zip(source_words, target_words, table[kept].tolist(), strict=True):
            file.write("{}\t{}\t{:.6f}\n".format(*row))
    return len(kept)


def _by_source(sources: Tensor, table: Tensor) -> Tensor:
    """The order by source id, then by falling probability."""
    by_probability = table.argsort(descending=True, stable=True)
    return by_probability[sources[by_probability].argsort(stable=True)]
