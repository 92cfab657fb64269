"""Training: settings, the loop, resuming."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

import torch

from nmtkit import device as devices
from nmtkit.align import HEAD
from nmtkit.batches import check_length
from nmtkit.checkpoint import CONFIG, Trained, vocabulary_of
from nmtkit.config import Table, write_toml
from nmtkit.data import PreparedCorpus, lines_path
from nmtkit.distributed import group
from nmtkit.errors import UserError
from nmtkit.files import check_entries, check_output_folder, held, output_folder, resolved
from nmtkit.memory import keep_freed_memory
from nmtkit.models import AnyConfig, build_model, graphs
from nmtkit.train.em import EMConfig
from nmtkit.train.em_run import EMRun
from nmtkit.train.optimise import OPTIMIZERS
from nmtkit.train.records import Record, Reporter, Silent, Together
from nmtkit.train.repeatable import make_deterministic, not_repeatable
from nmtkit.train.requests import Requests, Stopped
from nmtkit.train.results import keep_replaced
from nmtkit.train.settings import Settings, TrainingConfig, preset_names, settings_from
from nmtkit.train.state import FOLDER, PREVIOUS, Position
from nmtkit.train.trainer import Trainer
from nmtkit.vocabulary import Vocabulary

__all__ = [
    "EMConfig",
    "Position",
    "Record",
    "Reporter",
    "Requests",
    "Settings",
    "Silent",
    "Stopped",
    "Together",
    "TrainingConfig",
    "is_begun",
    "preset_names",
    "resume",
    "settings_from",
    "settings_to_resume",
    "train",
]


#: What a resumed run may change. The size of batches, for another number of processes.
MOVABLE = tuple(
    f"training.{name}"
    for name in (
        "epochs",
        "updates",
        "minutes",
        "patience",
        "save_minutes",
        "save_every",
        "batch_sentences",
        "batch_tokens",
    )
)


def train(
    settings: Settings,
    out: Path,
    reporter: Reporter | None = None,
    overwrite: bool = False,
    requests: Requests | None = None,
) -> Record:
    """Train a new model into the folder `out`; returns the last record of its metrics.jsonl.

    An aligner appears whole or not at all, and a model that it replaces stays until then; the
    directory of a network is there from the beginning, with a checkpoint; a model that it replaces
    stays in its folder `replaced` until it has one of its own.

    Raises Stopped when `requests` say so. Raises UserError when `out` holds something (with
    `overwrite`: something else than a model) or is being trained into, when the prepared corpus is
    broken, or when a GPU is asked for that is not there.
    """
    check_output_folder(out, overwrite, CONFIG)
    with ExitStack() as alone:
        there = out.is_dir()
        if there and group().main:
            alone.enter_context(held(out))
        run = _run(settings, out, reporter or Silent(), requests)
        place = resolved(out)
        if place in (data := resolved(Path(settings.data)), *data.parents):
            raise UserError(f"{settings.data} lies in {out}, which is to be replaced: move it away")
        record: Record = {}
        if isinstance(run, Trainer):
            run.prepare()
        if group().main:
            with output_folder(out, overwrite, CONFIG) as beside:
                run.trained.source.save(beside, "source")
                run.trained.target.save(beside, "target")
                write_toml(beside / CONFIG, settings.to_table())
                if isinstance(run, EMRun):
                    record = run.run(beside)
                else:
                    keep_replaced(out, beside)
                    run.save(beside)
                if not there and out.is_dir():  # another run has made it meanwhile
                    alone.enter_context(held(out))
                alone.enter_context(held(beside))
        if isinstance(run, Trainer):
            record = run.run()
        return record


def resume(
    settings: Settings,
    out: Path,
    reporter: Reporter | None = None,
    requests: Requests | None = None,
) -> Record:
    """Go on with the run in `out` from its last checkpoint, as if it had not been interrupted.

    `settings` may move the run's limits and say when to save, nothing else: UserError names what
    differs, or which file of the checkpoint is damaged.
    """
    _check_unchanged(settings_from(None, config=out / CONFIG).to_table(), settings.to_table())
    check_entries(out, "train again, with --overwrite")
    with held(out) if group().main else nullcontext():
        run = _run(settings, out, reporter or Silent(), requests)
        if isinstance(run, EMRun):
            raise UserError(
                f"{out}: expectation maximisation is not resumed: train again, with --overwrite"
            )
        run.resume()
        run.prepare()
        if group().main:
            write_toml(out / CONFIG, settings.to_table())
        return run.run()


def is_begun(out: Path) -> bool:
    """Whether `out` has a run to resume, as the main one of several processes sees it."""
    found = any((out / name).is_dir() for name in (FOLDER, PREVIOUS))
    return bool(group().from_main(found))


def settings_to_resume(out: Path, assignments: Sequence[str] = ()) -> Settings:
    """The settings of the run in `out`, with assignments to its limits carried out."""
    if not (out / CONFIG).is_file():
        raise UserError(f"{out}: nothing to resume: it has no {CONFIG}")
    return settings_from(None, config=out / CONFIG, assignments=assignments)


def _check_unchanged(before: Table, after: Table) -> None:
    flat = [
        {"data": table["data"]}
        | {f"{t}.{key}": value for t in ("model", "training") for key, value in table[t].items()}
        for table in (before, after)
    ]
    changed = [
        f"{key} (was {flat[0].get(key)}, now {flat[1].get(key)})"
        for key in sorted(flat[0].keys() | flat[1].keys())
        if flat[0].get(key) != flat[1].get(key) and key not in MOVABLE
    ]
    if changed:
        raise UserError(
            f"a resumed run keeps its settings, but {', '.join(changed)}: only "
            f"{', '.join(MOVABLE)} may change; start a new run for anything else"
        )


def _run(
    settings: Settings, out: Path, reporter: Reporter, requests: Requests | None = None
) -> Trainer | EMRun:
    """A run before its first update, the model of a network freshly drawn from the seed."""
    corpus = PreparedCorpus.open(Path(settings.data))
    training = settings.training
    device = devices.resolve(training.device)
    if device.type == "cpu":
        keep_freed_memory()
    texts = corpus.source_text, corpus.target_text
    vocabularies = [vocabulary_of(text, corpus.folder) for text in texts]
    _check_tied(settings.model, vocabularies, corpus.folder)
    sizes = [len(vocabulary) for vocabulary in vocabularies]
    if isinstance(training, TrainingConfig):
        _check(training, corpus, device)
        if training.deterministic and device.type == "cuda":
            make_deterministic()
        graphs.use(training.cuda_graphs)
        if reasons := not_repeatable(training, device):
            reporter.noted(f"another such run may give other bytes: {'; '.join(reasons)}")
        torch.manual_seed(training.seed)
    try:
        model = build_model(settings.model, *sizes).to(device)
    except (RuntimeError, OverflowError, TypeError) as error:  # how torch takes what is too large
        reason = str(error).splitlines()[0]
        raise UserError(f"a model of the sizes in [model] cannot be made here: {reason}") from error
    trained = Trained(out, model, *texts)
    if isinstance(training, EMConfig):
        if group().size > 1:
            raise UserError(
                "ibm1 and hmm are trained by one process: start nmtkit without torchrun"
            )
        return EMRun(training, corpus, trained, reporter)
    _check_rows(training, trained)
    optimizer = OPTIMIZERS[training.optimizer](model.parameters(), training)
    return Trainer(settings, corpus, trained, optimizer, reporter, requests)


def _check_tied(config: AnyConfig, vocabularies: Sequence[Vocabulary], folder: Path) -> None:
    """One embedding for both sides must mean the same by an id on both."""
    tied = getattr(config, "tied_embeddings", "none")
    if tied == "all" and list(vocabularies[0]) != list(vocabularies[1]):
        raise UserError(
            f"model.tied_embeddings = all needs one vocabulary for both sides, but {folder} has "
            "two: say target"
        )


def _check(config: TrainingConfig, corpus: PreparedCorpus, device: torch.device) -> None:
    if config.precision == "bfloat16" and device.type != "cuda":
        raise UserError("training.precision = bfloat16 needs a CUDA GPU: use float32 on the CPU")
    if config.cuda_graphs and device.type != "cuda":
        raise UserError("training.cuda_graphs = true needs a CUDA GPU: leave it out on the CPU")
    if corpus.valid is None and not (config.epochs or config.updates or config.minutes):
        raise UserError(
            f"{corpus.folder} has no validation text to stop by: give --epochs, --updates or "
            "--minutes, or preprocess with --valid"
        )
    if corpus.valid is not None:  # now, rather than at the first validation
        for language, lengths in zip(
            (corpus.source_text.config.language, corpus.target_text.config.language),
            (corpus.valid.source_lengths, corpus.valid.target_lengths),
        ):
            place = int(lengths.argmax())
            check_length(int(lengths[place]), f"{lines_path(corpus.folder, language)}:{place + 1}")
    if config.bpe_dropout and corpus.source_text.config.subwords != "bpe":
        raise UserError(f"training.bpe_dropout needs BPE: {corpus.folder} was made without it")


def _check_rows(config: TrainingConfig, trained: Trained) -> None:
    """What is to learn links, or is judged by them, must be there; and what is there must learn."""
    model = trained.seq2seq
    if (config.guide or config.valid_gold) and not model.has_attention:
        raise UserError("the model has no attention: leave out training.guide and valid_gold")
    if config.guide_rows == HEAD and model.head is None:
        raise UserError("training.guide_rows = head needs model.alignment_head = true")
    guided = config.guide and config.guide_weight and config.guide_rows in ("own", HEAD)
    if model.head is not None and not guided:
        raise UserError(
            "model.alignment_head = true, but nothing teaches it: give training.guide, with "
            "guide_rows = own or head"
        )
