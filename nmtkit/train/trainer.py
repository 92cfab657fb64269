"""The training loop: updates, validation, schedule, what is best, what is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

import nmtkit
from nmtkit.align import rows_of
from nmtkit.batches import Batch, BatchSize, epoch_batches
from nmtkit.checkpoint import Trained, average, read_tensors
from nmtkit.data import MANIFEST, Bitext, PreparedCorpus
from nmtkit.distributed import group
from nmtkit.errors import UserError
from nmtkit.files import sha256
from nmtkit.models import graphs
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.train.guide import Guide, read_valid_gold, read_word_links
from nmtkit.train.objective import Objective
from nmtkit.train.optimise import learning_rate
from nmtkit.train.plan import Plan, try_largest
from nmtkit.train.records import Record, Reporter, write_record
from nmtkit.train.requests import Requests, Stopped
from nmtkit.train.resegment import resegment
from nmtkit.train.results import Results
from nmtkit.train.settings import Settings, TrainingConfig
from nmtkit.train.state import FOLDER, Position, clean, load_state, save_state, whole_checkpoint
from nmtkit.train.update import Update, Updater, seed_of
from nmtkit.train.validation import Validation

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
        requests: Requests | None = None,
    ) -> None:
        assert isinstance(settings.training, TrainingConfig)
        self.settings, self.config = settings, settings.training
        self.corpus, self.trained, self.reporter = corpus, trained, reporter
        self.requests = requests or Requests()
        self.model: AnySeq2Seq = trained.seq2seq
        self.folder: Path = trained.folder
        self.results = Results(self.folder, self.config.average)
        self.optimizer, self.position = optimizer, Position()
        self.device = next(self.model.parameters()).device
        self.group = group()
        processes, config = self.group.size, self.config
        self.size = BatchSize(
            processes * config.batch_sentences, processes * config.batch_tokens, config.pool
        )
        self.links = read_word_links(self.config.guide, corpus) if self.config.guide else None
        self.guide: Guide | None = None  # of the epoch
        self.plan: Plan | None = None  # of the epoch
        own = self.config.guide_rows == "own"
        rows = rows_of(trained, None if own else self.config.guide_rows)
        self.objective = Objective(self.config, self.model, rows)
        self.updater = Updater(self.config, self.objective, optimizer, self.group)
        gold = read_valid_gold(self.config.valid_gold, corpus)
        self.validation = Validation(self.config, corpus, trained, self.objective, gold, self.group)
        self.began = self.saved = time.monotonic()
        self.clock = 0.0  # seconds trained before this update, in the main process
        self.saved_update = 0

    def resume(self) -> None:
        """Take up the run where its checkpoint stands; UserError when there is none.

        What the run did beyond that is undone, in its results too.
        """
        if self.group.main:
            clean(self.folder)
        place = whole_checkpoint(self.folder)
        corpus = sha256(self.corpus.folder / MANIFEST)
        self.position = load_state(place, self.model, self.optimizer, self.device, corpus)
        if self.group.main:
            self.results.restore(place, self.position.log_bytes)
        self.clock = self.position.seconds
        self.saved = time.monotonic()
        self.began, self.saved_update = self.saved - self.position.seconds, self.position.update

    def prepare(self) -> None:
        """Cut the epoch into batches and try the largest: what cannot go well should fail now.

        Several processes begin with the same parameters, and UserError where they cannot.
        """
        self._begin_together()
        self.plan = self._plan()
        try:
            tried = try_largest(self.plan, self.updater)
        except RuntimeError as error:
            if "deterministic" not in str(error):
                raise
            raise UserError(
                f"--deterministic: {str(error).splitlines()[0]}: leave it out, or say --device cpu"
            ) from error
        for sentences, source, target in [figures.split[0] for figures in tried if figures.split]:
            self.reporter.noted(
                f"a batch of {sentences} sentences, {source} source and {target} target subwords "
                "long, does not fit into memory: such ones will be split, which takes longer"
            )

    def _begin_together(self) -> None:
        if self.group.size == 1:
            return
        corpus = sha256(self.corpus.folder / MANIFEST)
        self.group.check_same([nmtkit.__version__, torch.__version__], "versions")
        self.group.check_same([self.settings.to_table()["model"], asdict(self.config)], "settings")
        self.group.check_same([corpus, asdict(self.position)], "files")
        numbers = self.model.state_dict()
        self.group.broadcast(numbers.values())
        sums = {name: float(tensor.double().sum()) for name, tensor in numbers.items()}
        self.group.check_same(sums, "parameters")

    def run(self) -> Record:
        """Train until a limit is reached; the last record, which says what was kept.

        Raises Stopped when that was asked for, and UserError when the disk fails; the last
        checkpoint is whole then.
        """
        try:
            with self.requests.held():
                try:
                    self._train()
                except Stopped:
                    self.save()
                    raise
                return self._finish()
        except OSError as error:
            what = f"{error.filename or self.folder}: {error.strerror or error}"
            raise self._disk_failed(what) from error
        except UserError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise self._disk_failed(str(error)) from error

    def save(self, folder: Path | None = None) -> None:
        """Write the checkpoint (into the model directory `folder`, while that is being made)."""
        self.position.seconds = time.monotonic() - self.began
        if self.group.main:
            save_state(
                folder or self.folder,
                self.model,
                self.optimizer,
                self.position,
                corpus=sha256(self.corpus.folder / MANIFEST),
                kept=self.results.kept if self.position.validated else (),
                best=self.results.weights if self.position.best_update else None,
            )
        self.requests.saving = False
        self.saved, self.saved_update = time.monotonic(), self.position.update

    def done(self) -> float:
        """The part of the run that is behind, 0 to 1, by the limit that is nearest."""
        config, position = self.config, self.position
        parts = [0.0]
        if config.epochs:
            # Not known before a resumed run has cut its epoch into batches.
            within = position.batch / len(self.plan.batches) if self.plan else 0.0
            parts.append((position.epoch + within) / config.epochs)
        if config.updates:
            parts.append(position.update / config.updates)
        if config.minutes:
            parts.append(self.clock / (60 * config.minutes))
        return max(parts)

    def _train(self) -> None:
        if self._due():  # the run was stopped before it
            self._validate()
        while not self._over():
            self._epoch()
        if self.position.update != self.position.validated:
            # Not one that the longer run would have: --resume goes on as if it had not been.
            self.save()
            self._validate(regular=False)

    def _over(self) -> bool:
        patience = self.config.patience
        return self.done() >= 1 or bool(patience and self.position.stale >= patience)

    def _due(self) -> bool:
        """Whether a validation is to be made before the next update."""
        position, every = self.position, self.config.valid_every
        if position.update == position.validated:
            return False
        return position.update % every == 0 if every else position.batch == 0

    def _epoch(self) -> None:
        """From the batch where the position stands to the end of the epoch, or of the run."""
        position = self.position
        if self.plan is None or self.plan.epoch != position.epoch:
            self.plan = self._plan()
        plan, count = self.plan, len(self.plan.batches)
        position.batch = plan.first(position.sentences)
        with closing(plan.upcoming(position.batch, self.group)) as upcoming:
            for number, (batch, guide) in enumerate(upcoming, position.batch):
                self._obey()
                self._count(self._update(batch, guide))
                position.sentences += len(plan.batches[number])
                if position.batch == count:
                    position.epoch, position.batch, position.sentences = position.epoch + 1, 0, 0
                if self._due():
                    self._validate()
                if self._over():
                    return

    def _obey(self) -> None:
        """Between two updates: end if that is asked for, save if it is asked for or time."""
        if self.group.any(self.requests.stopping):
            raise Stopped
        self.clock = time.monotonic() - self.began
        if self.config.minutes:  # which all processes must count alike
            self.clock = self.group.from_main(self.clock)
        every, minutes = self.config.save_every, self.config.save_minutes
        new = self.position.update != self.saved_update
        due = new and bool(every) and self.position.update % every == 0
        late = bool(minutes) and time.monotonic() - self.saved >= 60 * minutes
        if self.requests.saving or due or late:
            self.save()

    def _plan(self) -> Plan:
        """The epoch where the position stands, as a function of it and the settings alone."""
        self.plan = None  # its memory may be needed
        epoch = self.position.epoch
        bitext = self._bitext(epoch)
        lengths = bitext.source_lengths, bitext.target_lengths
        batches = epoch_batches(*lengths, self.size, self.config.seed, epoch)
        multiple = graphs.LENGTHS if self.config.cuda_graphs else 1
        return Plan(epoch, bitext, batches, self._guide(bitext), self.trained.extended, multiple)

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
        if self.group.size > 1:
            torch.manual_seed(seed_of(self.config.seed, position.update, self.group.rank))
        update = self.updater(batch, guide, rate)
        if not update.skipped:
            position.skipped_in_a_row = 0
            return update
        position.skipped += 1
        position.skipped_in_a_row += 1
        if position.skipped_in_a_row == MOST_SKIPPED:
            best = f"the best model so far is in {self.folder}"
            kept = best if self.results.weights.is_file() else "nothing has been kept yet"
            raise UserError(
                f"update {position.update}: the gradient was not finite {MOST_SKIPPED} times "
                f"in a row: lower training.learning_rate or training.clip; {kept}"
            )
        return update

    def _count(self, update: Update) -> None:
        position = self.position
        minutes = (time.monotonic() - self.began) / 60
        if not update.skipped:
            position.loss += update.loss
            position.tokens += update.tokens
        at = {"update": position.update, "epoch": position.epoch + 1}
        record = {
            **at,
            "train_loss": position.loss / max(1, position.tokens),
            "tokens": update.tokens,
            "gradient_norm": update.norm,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "minutes": minutes,
        }
        self.reporter.updated(self.done(), record)
        if update.split or update.left_out:
            position.split += 1
            position.left_out += len(update.left_out)
            # Sentences, source and target length of each batch; the lengths of each sentence.
            lengths = {"did_not_fit": update.split, "left_out": update.left_out}
            totals = {"split_batches": position.split, "left_out_sentences": position.left_out}
            self._record({**at, **lengths, **totals, "minutes": minutes})
        if position.update % RECORD_EVERY == 0:
            self._record({**record, "skipped_updates": position.skipped})
            position.loss, position.tokens = 0.0, 0

    def _validate(self, regular: bool = True) -> None:
        """Score the dev set, keep the model if it is best; if `regular`, write the checkpoint."""
        position, config = self.position, self.config
        figures = self._figures()
        position.validated = position.update
        better = self._better(figures)
        position.stale = 0 if better else position.stale + 1
        position.waited = 0 if better else position.waited + 1
        if position.waited >= config.decay_patience and config.schedule == "plateau":
            position.waited, position.decays = 0, position.decays + 1
        if better:
            position.best, position.best_update = figures.get(config.figure), position.update
        if self.group.main:
            self.results.keep(self.model, position.update)
            if better:
                self.results.write_best(self.model)
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
            self.save()

    def _figures(self) -> dict[str, float]:
        """Those of the validation, which may be left: it changes nothing.

        One of several processes cannot leave it alone.
        """
        with self.requests.held(self.group.size > 1):
            return self.validation.figures()

    def _better(self, figures: Mapping[str, float]) -> bool:
        best, name = self.position.best, self.config.figure
        if best is None or name not in figures:
            return math.isfinite(figures.get(name, 0.0))
        return figures[name] > best if self.config.select == "bleu" else figures[name] < best

    def _finish(self) -> Record:
        """Try the average of the last models; say what is in the model directory."""
        self.group.barrier()  # until the main process has written the last of them
        position, kept = self.position, self.results.kept
        averaged = False
        figures: dict[str, float] = {}
        # Another machine may not yet see all of these files.
        if self.group.from_main(len(kept)) > 1:
            if self.group.main:
                self.model.load_state_dict(average([read_tensors(p, self.device) for p in kept]))
            self.group.broadcast(self.model.state_dict().values())
            figures = self._figures()
            averaged = bool(figures) and self._better(figures)
            if averaged:
                position.best = figures[self.config.figure]
                if self.group.main:
                    self.results.write_best(self.model)
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
        if self.group.main:
            self.position.log_bytes = write_record(self.folder, record, self.reporter)

    def _disk_failed(self, what: str) -> UserError:
        """The end of a run that could not read or write a file."""
        if not (self.folder / FOLDER).is_dir():
            return UserError(f"{what}: the run ended at update {self.position.update}")
        return UserError(
            f"{what}: the run ended at update {self.position.update}; when that is put right, "
            f"nmtkit train --resume --out {self.folder} goes on from update {self.saved_update}"
        )
