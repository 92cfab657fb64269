"""What resuming needs, in the folder `checkpoint/` of the model directory.

model.safetensors      the parameters as they stand
optimizer.safetensors  the optimiser's moments
random.safetensors     the states of the random generators
state.json             the position of the run, and the checksum of the corpus' manifest
best.safetensors       the result so far, if there is one
000000123.safetensors  models of the last validations, to be averaged
SHA256SUMS             the checksums of all these

The one before it stays as `checkpoint.previous/`. A new one is written beside them, and takes its
place by renaming only when it is on disk: whenever the process ends, one of the two is whole.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmtkit.checkpoint import check_tensors, read_tensors, write_tensors
from nmtkit.errors import UserError
from nmtkit.files import copy_file, damaged_files, read_json, write_checksums, write_json

LARGEST = 1e15  # number that a run can come to
FOLDER = "checkpoint"
PREVIOUS = "checkpoint.previous"
BEST = "best.safetensors"
STATE = "state.json"
_LEFT = re.compile(r"\.(checkpoint|[\w.]+\.(safetensors|toml))\..+")  # by a process that was killed
_RANDOM = "random.cpu", "random.cuda"


@dataclass
class Position:
    """Where a run stands; everything but tensors."""

    epoch: int = 0  # being read, from 0
    batch: int = 0  # next of that epoch
    sentences: int = 0  # read of that epoch
    update: int = 0  # updates done
    seconds: float = 0.0  # trained so far
    validated: int = 0  # the update of the last validation
    best: float | None = None
    best_update: int = 0
    stale: int = 0  # validations since the best
    waited: int = 0  # of those, since the learning rate last fell
    decays: int = 0  # times the learning rate fell
    log_bytes: int = 0  # length of metrics.jsonl
    loss: float = 0.0  # summed since the last record, with what it is averaged over
    tokens: int = 0
    skipped: int = 0  # updates left out because the gradient was not finite
    skipped_in_a_row: int = 0  # of those, the last ones without another between
    split: int = 0  # updates whose batch was taken in parts, because it did not fit into memory
    left_out: int = 0  # sentences that did not even alone


def save_state(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    corpus: str,
    kept: Sequence[Path] = (),
    best: Path | None = None,
) -> None:
    """Write `folder`/checkpoint, whole or not at all; the last one becomes the previous.

    `corpus` is the checksum of what is trained on. `kept` and `best` are copied.
    """
    random = {_RANDOM[0]: torch.get_rng_state()}
    if torch.cuda.is_available():
        random[_RANDOM[1]] = torch.cuda.get_rng_state()
    state = optimizer.state_dict()
    moments = {
        f"{index}.{name}": torch.as_tensor(value)
        for index, values in state["state"].items()
        for name, value in values.items()
    }
    place = Path(tempfile.mkdtemp(prefix=f".{FOLDER}.", dir=folder))
    try:
        write_tensors(place / "model.safetensors", model.state_dict())
        write_tensors(place / "optimizer.safetensors", moments)
        write_tensors(place / "random.safetensors", random)
        for path in kept:
            copy_file(path, place / path.name)
        if best is not None:
            copy_file(best, place / BEST)
        write_json(place / STATE, {"corpus": corpus, **asdict(position)})
        write_checksums(place)
        place.chmod(folder.stat().st_mode & 0o777)
        _rotate(folder, place)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _rotate(folder: Path, new: Path) -> None:
    """`new` becomes the checkpoint, and that the previous one: at every moment one is whole."""
    current, previous = folder / FOLDER, folder / PREVIOUS
    oldest = Path(tempfile.mkdtemp(prefix=f".{FOLDER}.", dir=folder))
    if current.exists():
        if previous.exists():
            previous.replace(oldest)
        current.rename(previous)
    new.rename(current)
    shutil.rmtree(oldest, ignore_errors=True)


def whole_checkpoint(folder: Path) -> Path:
    """The last checkpoint of a run, its files checked.

    Raises UserError when there is none, or when it is damaged; if the one before it is whole, the
    message says how to go on from that.
    """
    current, previous = folder / FOLDER, folder / PREVIOUS
    # Without `current` the process was killed while it renamed, or the user took it away.
    found = [place for place in (current, previous) if place.is_dir()]
    if not found:
        raise UserError(f"{folder}: nothing to resume: it has no {FOLDER} folder")
    damaged = damaged_files(found[0])
    if not damaged:
        return found[0]
    names = ", ".join(damaged)
    if found[1:] and not damaged_files(previous):
        update = _read_position(previous / STATE)[0].update
        raise UserError(
            f"{current} is damaged ({names}): remove that folder, and --resume goes on from "
            f"{previous}, which is whole, at update {update}"
        )
    raise UserError(
        f"{found[0]} is damaged ({names}), and no other checkpoint is whole: train again, with "
        "--overwrite"
    )


def clean(folder: Path) -> None:
    """Remove what a process that was killed had begun to write."""
    for path in folder.iterdir():
        if _LEFT.fullmatch(path.name):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def load_state(
    place: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    corpus: str,
) -> Position:
    """Put model, optimiser and random generators back; UserError when they do not fit."""
    position, trained_on = _read_position(place / STATE)
    if trained_on != corpus:
        raise UserError(
            f"{place}: the prepared corpus is not the one that the run began with: put that back, "
            "or start a new run"
        )
    tensors = read_tensors(place / "model.safetensors", device)
    check_tensors(tensors, model.state_dict(), place / "model.safetensors")
    model.load_state_dict(tensors)
    moments: dict[int, dict[str, Tensor]] = {}
    path = place / "optimizer.safetensors"
    for key, tensor in read_tensors(path, device).items():
        index, dot, name = key.partition(".")
        if not (dot and re.fullmatch("[0-9]{1,9}", index)):
            raise UserError(f"{path}: unexpected tensor {key}")
        # The step counters of fused optimisers live beside the parameters, others on the CPU.
        # A copy: what was read is a view of the file, which will be replaced.
        moments.setdefault(int(index), {})[name] = tensor.clone()
    parameters = list(model.parameters())
    # A parameter that has never had a gradient has no moments.
    if not moments.keys() <= set(range(len(parameters))):
        raise UserError(f"{path}: does not fit the model: it belongs to another run")
    wanted = _moments_of(optimizer, device)
    for number, values in moments.items():
        if values.keys() != wanted.keys():
            raise UserError(f"{path}: does not fit the optimiser: it belongs to another run")
        for name, tensor in values.items():
            like = parameters[number] if wanted[name].dim() else wanted[name]
            if tensor.shape != like.shape:
                shape = tuple(tensor.shape)
                raise UserError(f"{path}: {number}.{name} has the wrong shape {shape}")
            right = tensor.dtype == wanted[name].dtype and bool(tensor.isfinite().all())
            if not right or (not tensor.dim() and tensor < 0):  # less than no step was taken
                raise UserError(f"{path}: {number}.{name} holds numbers that cannot be: damaged")
    optimizer.load_state_dict(
        {"state": moments, "param_groups": optimizer.state_dict()["param_groups"]}
    )
    random = read_tensors(place / "random.safetensors", torch.device("cpu"))
    try:
        torch.set_rng_state(random[_RANDOM[0]])
        if device.type == "cuda" and _RANDOM[1] in random:
            torch.cuda.set_rng_state(random[_RANDOM[1]])
    except (KeyError, RuntimeError, TypeError) as error:
        raise UserError(f"{place}: its random state is broken: {error}") from error
    return position


def _moments_of(optimizer: torch.optim.Optimizer, device: torch.device) -> dict[str, Tensor]:
    """What such an optimiser keeps of a parameter, by the example of one with a single number."""
    parameter = nn.Parameter(torch.zeros(1, device=device))
    parameter.grad = torch.zeros_like(parameter)
    kind: Any = type(optimizer)
    example = kind([{**optimizer.param_groups[0], "params": [parameter]}])
    example.step()
    kept = {name: value for name, value in example.state[parameter].items() if value is not None}
    return {name: torch.as_tensor(value) for name, value in kept.items()}


def _read_position(path: Path) -> tuple[Position, str]:
    """The position, and the checksum of the corpus."""
    table: dict[str, Any] = read_json(path, "training state")
    corpus = table.pop("corpus", None)
    kinds = {field.name: str(field.type) for field in fields(Position)}
    if table.keys() != kinds.keys() or not isinstance(corpus, str):
        raise UserError(f"{path}: not the state of a training run of this version")
    for name, value in table.items():
        optional = value is None and "None" in kinds[name]
        # (What is not a number compares as false.)
        number = type(value) in (int, float) and abs(value) <= LARGEST
        if not optional and (not number or (name != "best" and value < 0)):
            raise UserError(f"{path}: {name} cannot be {value!r}")
        if kinds[name] == "int" and not isinstance(value, int):
            raise UserError(f"{path}: {name} must be a whole number, not {value!r}")
    return Position(**table), corpus
