"""What resuming needs, in the folder `checkpoint/` of the model directory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmtkit.checkpoint import check_tensors, read_tensors, write_tensors
from nmtkit.errors import UserError
from nmtkit.files import output_folder, read_json, write_json

FOLDER = "checkpoint"
BEST = "best.safetensors"  # in it: the result as the checkpoint knew it, where it was replaced
_RANDOM = "random.cpu", "random.cuda"


@dataclass
class Position:
    """Where a run stands; everything but tensors."""

    epoch: int = 0  # being read, from 0
    batch: int = 0  # next of that epoch
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


def save_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, position: Position
) -> None:
    """Write `folder`/checkpoint, whole or not at all."""
    random = {_RANDOM[0]: torch.get_rng_state()}
    if torch.cuda.is_available():
        random[_RANDOM[1]] = torch.cuda.get_rng_state()
    state = optimizer.state_dict()
    moments = {
        f"{index}.{name}": torch.as_tensor(value)
        for index, values in state["state"].items()
        for name, value in values.items()
    }
    with output_folder(folder / FOLDER, overwrite=True) as place:
        write_tensors(place / "model.safetensors", model.state_dict())
        write_tensors(place / "optimizer.safetensors", moments)
        write_tensors(place / "random.safetensors", random)
        write_json(place / "state.json", asdict(position))


def load_state(
    folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> Position:
    """Put model, optimiser and random generators back; UserError when the checkpoint is broken."""
    place = folder / FOLDER
    if not place.is_dir():
        raise UserError(f"{folder}: nothing to resume: it has no {FOLDER} folder")
    position = _read_position(place / "state.json")
    tensors = read_tensors(place / "model.safetensors", device)
    check_tensors(tensors, model.state_dict(), place / "model.safetensors")
    model.load_state_dict(tensors)
    moments: dict[int, dict[str, Tensor]] = {}
    path = place / "optimizer.safetensors"
    for key, tensor in read_tensors(path, device).items():
        index, dot, name = key.partition(".")
        if not (dot and index.isdigit()):
            raise UserError(f"{path}: unexpected tensor {key}")
        # The step counters of fused optimisers live beside the parameters, others on the CPU.
        moments.setdefault(int(index), {})[name] = tensor
    parameters = list(model.parameters())
    # A parameter that has never had a gradient has no moments.
    if not moments.keys() <= set(range(len(parameters))):
        raise UserError(f"{path}: does not fit the model: it belongs to another run")
    for number, values in moments.items():
        for name, tensor in values.items():
            if tensor.dim() and tensor.shape != parameters[number].shape:
                shape = tuple(tensor.shape)
                raise UserError(f"{path}: {number}.{name} has the wrong shape {shape}")
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


def _read_position(path: Path) -> Position:
    table: dict[str, Any] = read_json(path, "training state")
    kinds = {field.name: str(field.type) for field in fields(Position)}
    if table.keys() != kinds.keys():
        raise UserError(f"{path}: not the state of a training run of this version")
    for name, value in table.items():
        optional = value is None and "None" in kinds[name]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not optional and (not number or (name != "best" and value < 0)):
            raise UserError(f"{path}: {name} cannot be {value!r}")
        if kinds[name] == "int" and not isinstance(value, int):
            raise UserError(f"{path}: {name} must be a whole number, not {value!r}")
    return Position(**table)
