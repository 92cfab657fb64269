"""The training loop: updates, validation, schedule, what is best, what is kept."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from nmtkit.align import rows_of
from nmtkit.batches import Batch, BatchSize, epoch_batches
from nmtkit.checkpoint import WEIGHTS, Trained, average, read_tensors, write_tensors
from nmtkit.curves import METRICS
from nmtkit.data import Bitext, PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.files import atomic_writer
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.train.guide import Guide, read_valid_gold, read_word_links
from nmtkit.train.objective import Objective
from nmtkit.train.optimise import learning_rate
from nmtkit.train.records import Record, Reporter, write_record
from nmtkit.train.resegment import resegment
from nmtkit.train.settings import Settings, TrainingConfig
from nmtkit.train.state import BEST, FOLDER, Position, load_state, save_state
from nmtkit.train.update import Update, Updater
from nmtkit.train.validation import Validation

KEPT = "validated"  # folder of the models to average
RECORD_EVERY = 100  # updates
MOST_SKIPPED = 10  # updates in a row whose gradient was not finite


class Trainer:
    """One run, new or resumed, into one model directory."""

    def __init__(
        self,
        settings: Settings,
        corpus: PreparedCorpus,
        trained: Trained,
        optimizer: torch.optim.Optimizer,
        reporter: Reporter,
    ) -> None:
        assert isinstance(settings.training, TrainingConfig)
        self.settings, self.config = settings, settings.training
        self.corpus, self.trained, self.reporter = corpus, trained, reporter
        self.model: AnySeq2Seq = trained.seq2seq
        self.folder: Path = trained.folder
        self.optimizer, self.position = optimizer, Position()
        self.device = next(self.model.parameters()).device
        self.size = BatchSize(
            self.config.batch_sentences, self.config.batch_tokens, self.config.pool
        )
        self.links = read_word_links(self.config.guide, corpus) if self.config.guide else None
        self.guide: Guide | None = None  # of the epoch
        own = self.config.guide_rows == "own"
        rows = rows_of(trained, None if own else self.config.guide_rows)
        self.objective = Objective(self.config, self.model, rows)
        self.updater = Updater(self.config, self.objective, optimizer)
        gold = read_valid_gold(self.config.valid_gold, corpus)
        self.validation = Validation(self.config, corpus, trained, self.objective, gold)
        self.began = time.monotonic()
        self.skipped_in_a_row = 0
        self.batches_of_epoch = 0

    def resume(self) -> None:
        """Take up the run where its checkpoint stands; UserError when there is none."""
        self.position = load_state(self.folder, self.model, self.optimizer, self.device)
        # What the end of the run that is taken up did beyond its last checkpoint is undone.
        if (self.folder / FOLDER / BEST).is_file():
            (self.folder / FOLDER / BEST).replace(self.folder / WEIGHTS)
        for path in self._kept():
            if int(path.stem) > self.position.validated:
                path.unlink()
        self.began = time.monotonic() - self.position.seconds
        log = self.folder / METRICS
        if not log.is_file() or log.stat().st_size < self.position.log_bytes:
            raise UserError(f"{log}: shorter than the checkpoint says: it was changed")
        with log.open("r+b") as file:
            file.truncate(self.position.log_bytes)

    def run(self) -> Record:
        """Train until a limit is reached; the last record, which says what was kept."""
        while not self._over():
            self._epoch()
        if self.position.update != self.position.validated:
            # Not one that the longer run would have: --resume goes on as if it had not been.
            self._save()
            self._validate(regular=False)
        return self._finish()

    def done(self) -> float:
        """The part of the run that is behind, 0 to 1, by the limit that is nearest."""
        config, position = self.config, self.position
        parts = [0.0]
        if config.epochs:
            # Not known before a resumed run has cut its epoch into batches.
            within = position.batch / self.batches_of_epoch if self.batches_of_epoch else 0.0
            parts.append((position.epoch + within) / config.epochs)
        if config.updates:
            parts.append(position.update / config.updates)
        if config.minutes:
            parts.append((time.monotonic() - self.began) / (60 * config.minutes))
        return max(parts)

    def _over(self) -> bool:
        patience = self.config.patience
        return self.done() >= 1 or bool(patience and self.position.stale >= patience)

    def _epoch(self) -> None:
        """From the batch where the position stands to the end of the epoch, or of the run."""
        position, config = self.position, self.config
        bitext = self._bitext(position.epoch)
        batches = epoch_batches(
            bitext.source_lengths, bitext.target_lengths, self.size, config.seed, position.epoch
        )
        self.batches_of_epoch = len(batches)
        guide = self._guide(bitext)
        for indices in batches[position.batch :]:
            batch = Batch.read(bitext, indices)
            size = batch.target_out.shape[1], batch.source.shape[1]
            links = None if guide is None else guide.batch(indices, size[1], size[0])
            self._count(self._update(batch, links))
            last = position.batch == len(batches)
            if last:
                position.epoch, position.batch = position.epoch + 1, 0
            every = config.valid_every
            if (position.update % every == 0) if every else last:
                self._validate()
            if self._over():
                return

    def _bitext(self, epoch: int) -> Bitext:
        dropout, bitext = self.config.bpe_dropout, self.corpus.train
        if not dropout:
            return bitext
        source, target = self.trained.source, self.trained.target
        seed = (self.config.seed, epoch)
        vocabularies = self.trained.source_vocabulary, self.trained.target_vocabulary
        return Bitext(
            resegment(bitext.source_ids, source, vocabularies[0], dropout, (*seed, 0)),
            resegment(bitext.target_ids, target, vocabularies[1], dropout, (*seed, 1)),
        )

    def _guide(self, bitext: Bitext) -> Guide | None:
        """What teaches these subwords' attention; the corpus' own are the same in every epoch."""
        if self.links and (self.guide is None or bitext is not self.corpus.train):
            self.guide = self.links.guide(bitext)
        return self.guide

    def _update(self, batch: Batch, guide: Tensor | None = None) -> Update:
        """One update; UserError when gradients keep failing to be finite."""
        position = self.position
        position.update += 1
        position.batch += 1
        rate = learning_rate(position.update, self.done(), position.decays, self.config)
        update = self.updater(batch, guide, rate)
        if not update.skipped:
            self.skipped_in_a_row = 0
            return update
        position.skipped += 1
        self.skipped_in_a_row += 1
        if self.skipped_in_a_row == MOST_SKIPPED:
            best = f"the best model so far is in {self.folder}"
            kept = best if (self.folder / WEIGHTS).is_file() else "nothing has been kept yet"
            raise UserError(
                f"update {position.update}: the gradient was not finite {MOST_SKIPPED} times "
                f"in a row: lower training.learning_rate or training.clip; {kept}"
            )
        return update

    def _count(self, update: Update) -> None:
        position = self.position
        seconds = time.monotonic() - self.began
        if not update.skipped:
            position.loss += update.loss
            position.tokens += update.tokens
        record = {
            "update": position.update,
            "epoch": position.epoch + 1,
            "train_loss": position.loss / max(1, position.tokens),
            "tokens": update.tokens,
            "gradient_norm": update.norm,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "minutes": seconds / 60,
        }
        self.reporter.updated(self.done(), record)
        if position.update % RECORD_EVERY == 0:
            self._record({**record, "skipped_updates": position.skipped})
            position.loss, position.tokens = 0.0, 0

    def _validate(self, regular: bool = True) -> None:
        """Score the dev set, keep the model if it is best; if `regular`, write the checkpoint."""
        position, config = self.position, self.config
        figures = self.validation.figures()
        position.validated = position.update
        better = self._better(figures)
        position.stale = 0 if better else position.stale + 1
        position.waited = 0 if better else position.waited + 1
        if position.waited >= config.decay_patience and config.schedule == "plateau":
            position.waited, position.decays = 0, position.decays + 1
        if better:
            position.best, position.best_update = (
                figures.get(config.figure),
                position.update,
            )
            self._write_best(regular)
        self._keep(regular)
        self._record(
            {
                "update": position.update,
                "epoch": position.epoch + bool(position.batch),
                **figures,
                "best": better,
                "minutes": (time.monotonic() - self.began) / 60,
            }
        )
        if regular:
            self._save()

    def _save(self) -> None:
        self.position.seconds = time.monotonic() - self.began
        save_state(self.folder, self.model, self.optimizer, self.position)

    def _write_best(self, regular: bool) -> None:
        """The model as it stands becomes the result; if not `regular`, a resumed run undoes it."""
        weights, saved = self.folder / WEIGHTS, self.folder / FOLDER / BEST
        if not regular and weights.is_file() and not saved.exists():
            with atomic_writer(saved, "wb") as file, weights.open("rb") as old:
                shutil.copyfileobj(old, file)
        write_tensors(weights, self.model.state_dict())

    def _better(self, figures: Mapping[str, float]) -> bool:
        best, name = self.position.best, self.config.figure
        if best is None or name not in figures:
            return math.isfinite(figures.get(name, 0.0))
        return figures[name] > best if self.config.select == "bleu" else figures[name] < best

    def _keep(self, regular: bool) -> None:
        """Put this model among the last ones that may be averaged."""
        if self.config.average < 2:
            return
        folder = self.folder / KEPT
        folder.mkdir(exist_ok=True)
        write_tensors(folder / f"{self.position.update:09d}.safetensors", self.model.state_dict())
        for old in self._kept()[: -self.config.average] if regular else []:
            old.unlink()

    def _kept(self) -> list[Path]:
        return sorted((self.folder / KEPT).glob("*.safetensors"))

    def _finish(self) -> Record:
        """Try the average of the last models; say what is in the model directory."""
        position = self.position
        kept = self._kept()[-self.config.average :]
        averaged = False
        figures: dict[str, float] = {}
        if len(kept) > 1:
            self.model.load_state_dict(average([read_tensors(p, self.device) for p in kept]))
            figures = self.validation.figures()
            averaged = bool(figures) and self._better(figures)
            if averaged:
                position.best = figures[self.config.figure]
                self._write_best(regular=False)
        record = {
            "finished": True,
            "updates": position.update,
            "minutes": (time.monotonic() - self.began) / 60,
            "best_update": position.best_update,
            f"best_{self.config.figure}": position.best,
            "averaged": averaged,
            **({f"average_{name}": value for name, value in figures.items()}),
        }
        self._record(record)
        return record

    def _record(self, record: Record) -> None:
        self.position.log_bytes = write_record(self.folder, record, self.reporter)
