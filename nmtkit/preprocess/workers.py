"""The same function over many chunks, on several cores: results in order, errors passed on."""

from __future__ import annotations

import contextlib
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

from nmtkit.errors import UserError

Item = TypeVar("Item")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

WAITING = (
    4  # chunks in the air for every worker: enough that none is idle, and memory stays bounded
)

_function: Callable[[Any], Any] | None = None


def chunked(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """``items`` in lists of ``size``; the last may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def ordered_map(
    function: Callable[[Chunk], Result], chunks: Iterable[Chunk], workers: int = 1
) -> Iterator[Result]:
    """``map(function, chunks)`` on ``workers`` processes; one worker is this process itself.

    ``function``, chunks and results are pickled when there are several. Processes are spawned on
    every system: forking one that has threads (NumPy's are enough) is not safe. ``chunks`` is read
    only a few ahead. What a worker raises is raised here, in the place of its result.

    Raises UserError when a worker ends before its work does.
    """
    if workers == 1:
        yield from map(function, chunks)
        return
    executor = ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_start, initargs=(function,)
    )
    futures: deque[Future[Result]] = deque()
    try:
        for chunk in chunks:
            futures.append(executor.submit(_call, chunk))
            if len(futures) >= workers * WAITING:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    except BrokenProcessPool as error:
        raise UserError(
            "a worker process was ended by the system (too little memory?): use a smaller --workers"
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _start(function: Callable[[Any], Any]) -> None:
    """Ctrl-C is the parent's to handle: workers finish their chunk and leave in silence."""
    global _function
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _function = function


def _call(chunk: Any) -> Any:
    assert _function is not None, "_start runs first in every worker"
    return _function(chunk)
