"""CUDA graphs: a function of tensors is recorded once for every shape, and then played.

A recurrence launches tens of small kernels a position, and launching them takes the host longer
than the GPU needs to run them; from a graph they are one launch. Off unless `use` says otherwise,
and without effect on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

LENGTHS = 8  # lengths are to be padded to a multiple of this, so that there are few shapes
SEEN = 2  # calls of a shape before it is worth a recording
MOST = 128  # recordings of a function; each holds the memory of its results

Tensors = tuple[Tensor | None, ...]
Function = Callable[..., Tensors]

_on = False


def use(on: bool) -> None:
    """Record from here on, or no more."""
    global _on
    _on = on


def _on_gpu(tensors: Tensors) -> bool:
    return any(tensor is not None and tensor.is_cuda for tensor in tensors)


class Played:
    """A function that reads its tensors, all on one device, and makes new ones.

    It must do the same for all tensors of one shape, and draw no random numbers; it may return
    None, but no view of another result or of what it is given.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.calls: dict[Any, int] = {}
        self.recordings: dict[Any, _Recording] = {}

    def __call__(self, *tensors: Tensor | None) -> Tensors:
        if not (_on and _on_gpu(tensors)):
            return self.function(*tensors)
        shape = tuple(None if t is None else (t.shape, t.dtype, t.device) for t in tensors)
        found = self.recordings.get(shape)
        if found is None:
            self.calls[shape] = self.calls.get(shape, 0) + 1
            if self.calls[shape] < SEEN or len(self.recordings) >= MOST:
                return self.function(*tensors)
            found = self.recordings[shape] = _Recording(self.function, tensors)
        return found(*tensors)


class _Recording:
    """Of one shape. The tensors it reads and writes stay where they are."""

    def __init__(self, function: Function, tensors: Tensors) -> None:
        self.given = [
            None if t is None else t.clone(memory_format=torch.contiguous_format) for t in tensors
        ]
        # Once beforehand, on another stream: libraries make their workspaces at the first call.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            function(*self.given)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        # Another thread reads the next batch meanwhile.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.results = function(*self.given)

    def __call__(self, *tensors: Tensor | None) -> Tensors:
        for place, tensor in zip(self.given, tensors, strict=True):
            if place is not None and tensor is not None:
                place.copy_(tensor)
        self.graph.replay()
        return tuple(None if result is None else result.clone() for result in self.results)
