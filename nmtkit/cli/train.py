"""nmtkit train."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmtkit.cli.completion import ARCHITECTURES, DEVICES, PRESETS, one_of
from nmtkit.cli.output import say
from nmtkit.cli.processes import rank

if TYPE_CHECKING:
    from nmtkit.train.tensorboard import TensorBoard

_RUN, _SHOW = "How long (whichever first)", "Watching"


def train(
    out: Annotated[Path, typer.Option(help="Model directory to make, or to --resume.")],
    data: Annotated[
        Path | None, typer.Argument(help="Prepared corpus; may be left out if --config names it.")
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of(ARCHITECTURES),
            help="rnnsearch (the default), rnnencdec, seq2seq, luong, gnmt, transformer; to align "
            "only, ibm1, hmm.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of(PRESETS),
            help="Sizes and optimiser: tiny, small, base, paper, aligner; none: the paper's, Adam.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML, such as a model's config.toml.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting: model.hidden=512. Repeatable.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(rich_help_panel=_RUN, help="0: no limit.")] = None,
    updates: Annotated[int | None, typer.Option(rich_help_panel=_RUN, help="0: no limit.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(rich_help_panel=_RUN, help="By the clock, validation included; 0: no limit."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="1 unless said otherwise.")] = None,
    device: Annotated[
        str | None,
        typer.Option(autocompletion=one_of(DEVICES), help="auto (the default), cpu or cuda."),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            autocompletion=one_of(("float32", "bfloat16")),
            help="float32 (the default) or bfloat16 (CUDA).",
        ),
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic", help="The same bytes again on a GPU too, but slower."),
    ] = False,
    guide: Annotated[
        Path | None,
        typer.Option(help="Links (Pharaoh) of the training pairs, for attention to learn."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    resume_if_any: Annotated[
        bool, typer.Option("--resume-if-any", help="Go on with the run in --out, or begin it.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model.")] = False,
    curve: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_SHOW,
            help="Draw loss and scores (.png, .svg) when the run ends; without a corpus: of the "
            "run in --out as it is (extra: plot).",
        ),
    ] = None,
    tensorboard: Annotated[
        bool,
        typer.Option(
            "--tensorboard",
            rich_help_panel=_SHOW,
            help="Write events into --out (extra: tensorboard).",
        ),
    ] = False,
) -> None:
    """Train a model on a prepared corpus. Later settings win: preset, --config, --set, options.

    Without limits the run ends after training.patience (10) validations without a new best.
    """
    given = {
        "epochs": epochs, "updates": updates, "minutes": minutes,
        "seed": seed, "device": device, "precision": precision,
    }  # fmt: skip
    assignments = [*(set_ or ())]
    assignments += [f"training.{key}={value}" for key, value in given.items() if value is not None]
    if deterministic:
        assignments.append("training.deterministic=true")
    if guide is not None:
        assignments.append(f"training.guide={json.dumps(str(guide), ensure_ascii=False)}")
    if curve is not None:
        from nmtkit.curves import check_picture, save_curves

        check_picture(curve)
        begun = resume or resume_if_any or overwrite
        if not (data or config or arch or preset or assignments or begun):
            save_curves(curve, [out])
            return

    from nmtkit import train as core
    from nmtkit.cli.signals import Signals

    terminal = Terminal()
    board = _tensorboard(out) if tensorboard and not rank() else None
    watching: list[Terminal | TensorBoard] = [terminal, board] if board else [terminal]
    reporter = core.Together(*watching)
    before = _stamp(out)
    signals = Signals(requests := core.Requests())
    try:
        with signals.caught():
            resume = resume or (resume_if_any and core.is_begun(out))
            if resume and not (data or arch or preset or config):
                settings = core.settings_to_resume(out, assignments)
            else:
                folder = str(data) if data else None
                settings = core.settings_from(folder, arch, preset, config, assignments)
            if board and isinstance(settings.training, core.EMConfig):
                board.hold()
            if resume:
                core.resume(settings, out, reporter, requests)
            else:
                core.train(settings, out, reporter, overwrite, requests)
            if board:
                board.release()
    except (core.Stopped, KeyboardInterrupt) as error:
        if resume or _stamp(out) != before:
            say(f"stopped: nmtkit train --resume --out {out} goes on from there")
        else:
            say(f"stopped: {out} is as it was" if before else "stopped: nothing is kept")
        raise typer.Exit(signals.exit_code) from error
    finally:
        for one in watching:
            one.close()
    if curve is not None and not rank():
        save_curves(curve, [out])
    say(f"wrote {out}")


def _stamp(out: Path) -> tuple[int, int] | None:
    """Tells the model in a folder from another that took its place; None: there is none."""
    try:
        found = (out / "config.toml").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _tensorboard(out: Path) -> TensorBoard:
    from nmtkit.train.tensorboard import TensorBoard

    return TensorBoard(out)


class Terminal:
    """A progress bar when stderr is a terminal, else a line for every record."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.rate = 0.0
        self.last_minutes = 0.0
        self.tokens = 0

    def updated(self, done: float, record: Mapping[str, object]) -> None:
        """One update of the bar: loss, speed, part done."""
        self.tokens += int(str(record.get("tokens", 0)))
        minutes = float(str(record["minutes"]))
        if minutes - self.last_minutes > 1 / 60:
            self.rate = self.tokens / (60 * (minutes - self.last_minutes))
            self.tokens, self.last_minutes = 0, minutes
        if not sys.stderr.isatty():
            return
        if self.bar is None:
            from tqdm import tqdm

            layout = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
            self.bar = tqdm(total=1.0, file=sys.stderr, bar_format=layout, dynamic_ncols=True)
        self.bar.n = min(1.0, done)
        self.bar.set_description(f"epoch {record['epoch']}", refresh=False)
        if "update" in record:
            self.bar.set_postfix_str(
                f"update {record['update']}, loss {record['train_loss']:.3f}, "
                f"{self.rate:.0f} tokens/s, rate {record['learning_rate']:.2g}"
            )
        else:
            self.bar.refresh()

    def recorded(self, record: Mapping[str, object]) -> None:
        """One line for what also went into metrics.jsonl."""
        text = _line(record)
        if "tokens" in record and self.rate:
            text += f"  {self.rate:.0f} tokens/s"
        if self.bar is not None:
            self.bar.write(text, file=sys.stderr)
        else:
            say(text)

    def noted(self, note: str) -> None:
        """One line for what the user should know."""
        if self.bar is not None:
            self.bar.clear()
        say(f"note: {note}")

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def _line(record: Mapping[str, object]) -> str:
    return "  ".join(f"{key} {_shown(value)}" for key, value in record.items())


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
