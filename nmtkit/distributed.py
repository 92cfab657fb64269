"""Several processes as one: those that `torchrun` starts, or the one process without it.

Every process calls the same methods in the same order. What passes between them are numbers and
JSON, never pickles. On GPUs tensors go by NCCL, on CPUs by gloo.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, islice
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

from nmtkit.errors import UserError

TIMEOUT = timedelta(hours=2)  # for one process to wait for another
ALONE = timedelta(days=7)  # for those that have nothing to do but to wait for the main one
PATIENCE = 0.02  # seconds between two looks
Json = Any  # what JSON can say; tuples arrive as lists


@dataclass(frozen=True)
class Group:
    """One of `size` processes. Of one process alone the methods have nothing to do.

    All but `rank`, `size` and `main` raise UserError when another process has ended.
    """

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The tensor, which becomes the sum of every process's, the same bits in all of them."""
        if self.size > 1:
            with _connected():
                dist.all_reduce(tensor)
        return tensor

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Every tensor becomes the main process's; shapes and types must be the same."""
        for tensor in tensors if self.size > 1 else ():
            with _connected(), torch.no_grad():
                dist.broadcast(tensor, 0)

    def barrier(self) -> None:
        """Wait until every process has come here."""
        self.sum(torch.zeros(1))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return bool(self.sum(torch.tensor([int(flag)])).item())

    def gather(self, value: Json) -> list[Json]:
        """The values of all processes by rank, in every one of them."""
        if self.size == 1:
            return [value]
        content = _packed(value)
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(content)
        self.sum(lengths)
        padded = torch.zeros(int(lengths.max()), dtype=torch.uint8)
        padded[: len(content)] = content
        found = [torch.empty_like(padded) for _ in range(self.size)]
        with _connected():
            dist.all_gather(found, padded)
        return [
            _unpacked(one[:length]) for one, length in zip(found, lengths.tolist(), strict=True)
        ]

    def from_main(self, value: Json) -> Json:
        """The main process's value, in every one; what the others give does not count."""
        if self.size == 1:
            return value
        content = _packed(value) if self.main else torch.empty(0, dtype=torch.uint8)
        length = torch.tensor([len(content)])
        self.broadcast([length])
        if not self.main:
            content = torch.empty(int(length), dtype=torch.uint8)
        self.broadcast([content])
        return _unpacked(content)

    def check_same(self, value: Json, what: str) -> None:
        """UserError, in every process, unless all have the same value."""
        digests = self.gather(hashlib.sha256(json.dumps(value).encode()).hexdigest())
        for rank, digest in enumerate(digests):
            if digest != digests[0]:
                raise UserError(
                    f"process {rank} has other {what} than process 0: all must run the same "
                    "command, on the same files, with the same versions"
                )

    def share(self, items: Sequence[Any]) -> Sequence[Any]:
        """The items of this process: every `size`-th, perhaps none."""
        return items[self.rank :: self.size]

    def joined(self, shares: Sequence[Sequence[Any]]) -> list[Any]:
        """The items in their order, from the shares by rank."""
        items: list[Any] = [None] * sum(map(len, shares))
        for rank, share in enumerate(shares):
            items[rank :: self.size] = share
        return items

    def work(
        self,
        items: Iterable[Json],
        do: Callable[[Sequence[Json], int], Iterable[Json]],
        block: int,
    ) -> Iterator[Json]:
        """What `do` makes of the items, one for one and in order, every process doing a part.

        Only the main process reads `items`, about `size` · `block` at a time, and only it is given
        the results; in the others the iterator is empty, and ends when all is done. `do` takes a
        part and the number of its first item.
        """
        stream = iter(items) if self.main else iter(())
        first = 0
        while some := self.from_main(list(islice(stream, self.size * block))):
            begin, end = (len(some) * r // self.size for r in (self.rank, self.rank + 1))
            results = self.gather(list(do(some[begin:end], first + begin)))
            first += len(some)
            if self.main:
                yield from chain.from_iterable(results)


@functools.cache
def group() -> Group:
    """The group of this process; the first call waits for the others to call it as well."""
    if not _several():
        return Group()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    cuda = torch.cuda.is_available() and dist.is_nccl_available()
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    with _connected():
        dist.init_process_group(
            backend, store=_store(), rank=rank, world_size=size, timeout=TIMEOUT
        )
    return Group(rank, size)


def local_rank() -> int:
    """The number of this process among those of its machine, from 0."""
    return int(os.environ["LOCAL_RANK"]) if _several() else 0


def first_to_fail() -> bool:
    """Whether no other process of the group has failed before: then this one tells the user.

    For a process that is about to end. True only once, and always where there is no group.
    """
    if not _several():
        return True
    main = os.environ["RANK"] == "0"
    if not dist.is_initialized():  # they have not met: the main process may hope that all fail
        return main
    try:
        return bool(_store().add("failed", 1) == 1)
    except (RuntimeError, ValueError):  # where even torchrun is gone
        return main


def close() -> None:
    """Leave the group, at the end of a process that has not failed: when all have come so far."""
    if dist.is_available() and dist.is_initialized():
        with _connected():
            if _store().add("done", 1) == dist.get_world_size():
                _store().set("all done", "")
            _store().wait(["all done"], ALONE)
        dist.destroy_process_group()
        atexit.register(abandon, 0)  # before Python tears down what those threads may still use


def abandon(code: int) -> NoReturn:
    """End this process of a group with this exit code, whatever its threads still do.

    The threads of gloo may outlive what they work on, above all after the loss of another process:
    then an ordinary end of Python is an abort (SIGABRT), which hides from torchrun what happened.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _several() -> bool:
    """Whether torchrun has started this process and others."""
    started = dist.is_available() and dist.is_torchelastic_launched()
    return started and os.environ["WORLD_SIZE"] != "1"


@functools.cache
def _store() -> Any:
    """What all processes of the group can write into, and none that were started before them.

    When torchrun starts its processes again, it may give them the same store as before, with all
    that is in it. So the main process answers everyone by the name that he has just given himself,
    until all have understood; the answer is the name of the group.
    """
    from torch.distributed.rendezvous import rendezvous  # not in every build of torch

    store, rank, size = next(iter(rendezvous("env://", timeout=TIMEOUT)))
    own = name = secrets.token_hex(8)
    if rank == 0:
        while store.add(f"understood {name}", 0) < size - 1:
            for other in range(1, size):
                if store.check([f"asks {other}"]):
                    store.set(f"answer {other}", f"{store.get(f'asks {other}').decode()} {name}")
            time.sleep(PATIENCE)
    else:
        store.set(f"asks {rank}", own)
        answer = ["", ""]
        while answer[0] != own:
            time.sleep(PATIENCE)
            if store.check([f"answer {rank}"]):
                answer = store.get(f"answer {rank}").decode().split(" ")
        name = answer[1]
        store.add(f"understood {name}", 1)
    return dist.PrefixStore(name, store)  # type: ignore[attr-defined]


@contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # of gloo, NCCL and the store
        reason = str(error).splitlines()[0].split(". This is")[0]
        raise UserError(
            f"another process of the run has ended, or its machine: {reason}"
        ) from error


def _packed(value: Json) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _unpacked(content: Tensor) -> Json:
    return json.loads(content.numpy().tobytes())
