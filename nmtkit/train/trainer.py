"""The training loop: updates, validation, schedule, what is best, what is kept."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from nmtkit.align import HEAD, SHIFTS, AlignOptions, align, rows_of, turned
from nmtkit.batches import Batch, BatchSize, Indices, epoch_batches, length_sorted
from nmtkit.checkpoint import WEIGHTS, Trained, average, read_tensors, write_tensors
from nmtkit.curves import METRICS
from nmtkit.data import Bitext, PreparedCorpus
from nmtkit.errors import UserError
from nmtkit.files import atomic_writer
from nmtkit.links import Gold
from nmtkit.models.seq2seq import AnySeq2Seq
from nmtkit.score import score_links, score_text
from nmtkit.search import SearchOptions
from nmtkit.train.guide import Guide, read_valid_gold, read_word_links
from nmtkit.train.guided import decoder_loss, head_loss
from nmtkit.train.optimise import learning_rate
from nmtkit.train.records import Record, Reporter, write_record
from nmtkit.train.resegment import resegment
from nmtkit.train.settings import Settings, TrainingConfig
from nmtkit.train.state import BEST, FOLDER, Position, load_state, save_state
from nmtkit.translate import TranslateOptions, translate

KEPT = "validated"  # folder of the models to average
RECORD_EVERY = 100  # updates
MOST_SKIPPED = 10  # updates in a row whose gradient was not finite


@dataclass(frozen=True)
class Update:
    """One update's figures: loss summed over the target tokens in nats, tokens, gradient norm."""

    loss: float
    tokens: int
    norm: float


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
        self.gold = read_valid_gold(self.config.valid_gold, corpus)
        own = self.config.guide_rows == "own"
        self.rows = rows_of(trained, None if own else self.config.guide_rows)
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
            batch = _batch(bitext, indices)
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
        """One step of the optimiser, unless the gradient is not finite.

        `guide` (B, T, S): what the attention should be.
        """
        position, config = self.position, self.config
        batch = batch.to(self.device)
        guide = None if guide is None else guide.to(self.device)
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        objective, nll = self._objective(batch, guide)
        tokens = int(batch.target_mask.sum())
        over = tokens if config.normalise == "tokens" else len(batch.source)
        (objective / over).backward()  # type: ignore[no-untyped-call]
        limit = config.clip or math.inf
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        position.update += 1
        position.batch += 1
        rate = learning_rate(position.update, self.done(), position.decays, config)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if math.isfinite(norm):
            self.optimizer.step()
            self.skipped_in_a_row = 0
        else:
            position.skipped += 1
            self.skipped_in_a_row += 1
            if self.skipped_in_a_row == MOST_SKIPPED:
                best = f"the best model so far is in {self.folder}"
                kept = best if (self.folder / WEIGHTS).is_file() else "nothing has been kept yet"
                raise UserError(
                    f"update {position.update}: the gradient was not finite {MOST_SKIPPED} times "
                    f"in a row: lower training.learning_rate or training.clip; {kept}"
                )
        return Update(float(nll), tokens, norm)

    def _objective(self, batch: Batch, guide: Tensor | None) -> tuple[Tensor, Tensor]:
        """What is minimised, and the figure to report; sums in nats.

        That figure is the plain negative log-likelihood of the translation; the guide's loss when
        only that is learnt.
        """
        model, config = self.model, self.config
        shift = 0 if guide is None or self.rows == HEAD else SHIFTS[self.rows](model)
        objective = figure = torch.zeros((), device=self.device)
        with self._precision():
            memory = model.encode(batch.source, batch.source_mask)
            if config.translation_weight or self.rows != HEAD:
                target_in, real = batch.target_in, batch.target_mask
                if shift:  # a row that has consumed the end, as `force_decode` has
                    target_in = torch.cat([target_in[:, :1], batch.target_out], 1)
                    real = F.pad(real, (0, 1))
                features, attention = model.features(target_in, memory, real)
            if config.translation_weight:
                targets = batch.target_out[batch.target_mask]
                smoothed, figure = model.loss(features, targets, config.label_smoothing)
                objective = config.translation_weight * smoothed
            if guide is not None and self.rows == HEAD:
                read = model.align(batch.source, batch.target_out, batch.target_mask, memory)
        if guide is None:
            return objective, figure
        if self.rows == HEAD:
            loss = head_loss(*read, guide, batch.source_mask, batch.target_mask)
        else:
            loss = decoder_loss(attention.float(), guide, shift)
        objective = objective + config.guide_weight * loss
        return objective, figure if config.translation_weight else loss.detach()

    def _loss(self, batch: Batch) -> Tensor:
        """The negative log-likelihood of the targets, nats."""
        with self._precision():
            memory = self.model.encode(batch.source, batch.source_mask)
            features, _ = self.model.features(batch.target_in, memory, batch.target_mask)
            return self.model.loss(features, batch.target_out[batch.target_mask])[1]

    def _precision(self) -> torch.autocast:
        half = self.config.precision == "bfloat16"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half)

    def _count(self, update: Update) -> None:
        position = self.position
        seconds = time.monotonic() - self.began
        if math.isfinite(update.norm):
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
        figures = self.figures()
        position.validated = position.update
        better = self._better(figures)
        position.stale = 0 if better else position.stale + 1
        position.waited = 0 if better else position.waited + 1
        if position.waited >= config.decay_patience and config.schedule == "plateau":
            position.waited, position.decays = 0, position.decays + 1
        if better:
            position.best, position.best_update = (
                figures.get(_figure(config.select)),
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

    def figures(self) -> dict[str, float]:
        """Dev loss in nats a token, and dev BLEU, of the model as it stands; {} without dev set."""
        valid = self.corpus.valid
        if valid is None:
            return {}
        self.model.eval()
        figures: dict[str, float] = {}
        if self.config.translation_weight:
            figures["valid_loss"] = self._valid_loss(valid)
            figures["valid_bleu"] = self._valid_bleu()
        if self.gold:
            figures["valid_aer"] = self._valid_aer(self.gold)
        return figures

    def _valid_loss(self, valid: Bitext) -> float:
        loss, tokens = 0.0, 0
        lengths = list(zip(valid.source_lengths, valid.target_lengths, strict=True))
        present = [i for i, pair in enumerate(lengths) if min(pair)]
        with torch.no_grad():
            for rows in length_sorted([max(lengths[i]) for i in present], self.size):
                batch = _batch(valid, [present[row] for row in rows]).to(self.device)
                loss += float(self._loss(batch))
                tokens += int(batch.target_mask.sum())
        return loss / max(1, tokens)

    def _valid_bleu(self) -> float:
        sources, references = self.corpus.valid_lines()
        search = SearchOptions(beam=self.config.valid_beam)
        options = TranslateOptions(search=search)
        hypotheses = [n_best[0].text for n_best in translate([self.trained], sources, options)]
        return score_text({"dev": hypotheses}, references, ["bleu"])["dev"][0].value

    def _valid_aer(self, gold: list[Gold]) -> float:
        """As `nmtkit align` reads links from the rows that are guided: of both directions, where
        the model's head reads both. The lines are tokenised as they were in training.
        """
        other = turned(self.trained)
        moses = self.trained.source.config.tokenizer == "moses"
        options = AlignOptions(rows=self.rows, symmetrize="posterior-mean", raw=moses)
        reverse = [] if other is None else [other]
        pairs = zip(*self.corpus.valid_lines(), strict=True)
        links = [one.links for one in align([self.trained], pairs, options, reverse=reverse)]
        return 100 * score_links(links, gold).aer

    def _better(self, figures: Mapping[str, float]) -> bool:
        best, name = self.position.best, _figure(self.config.select)
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
            figures = self.figures()
            averaged = bool(figures) and self._better(figures)
            if averaged:
                position.best = figures[_figure(self.config.select)]
                self._write_best(regular=False)
        record = {
            "finished": True,
            "updates": position.update,
            "minutes": (time.monotonic() - self.began) / 60,
            "best_update": position.best_update,
            f"best_{_figure(self.config.select)}": position.best,
            "averaged": averaged,
            **({f"average_{name}": value for name, value in figures.items()}),
        }
        self._record(record)
        return record

    def _record(self, record: Record) -> None:
        self.position.log_bytes = write_record(self.folder, record, self.reporter)


def _figure(select: str) -> str:
    return f"valid_{select}"


def _batch(bitext: Bitext, indices: Indices | list[int]) -> Batch:
    rows = [int(i) for i in indices]
    return Batch.of([bitext.source(i) for i in rows], [bitext.target(i) for i in rows])
