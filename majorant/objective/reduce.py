"""Sums over blocks of rows: the one way in which anything is added up, here, by threads, or elsewhere.

A *task* is called with a block and what was kept of it before, and returns two things: what adds up, and what is to be
kept where the block is (scores, residuals), which never travels. Tasks are frozen dataclasses, so that they can be sent
to where the blocks are.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeAlias

import numpy as np

from majorant._checks import whole
from majorant.data.base import Data

# What a task left with every block; only blocks know what is in it.
Kept: TypeAlias = Any


class Task(Protocol):
    """What is done with each block."""

    def __call__(self, block: Any, *kept: Any) -> tuple[Any, Any]:
        """Return what adds up (numbers, arrays, curvatures, tuples of them), and what is kept with the block."""


class Blocks(ABC):
    """The blocks of data, wherever they are."""

    @abstractmethod
    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks, and what was kept with them."""

    def total(self, task: Task, *kept: Kept) -> Any:
        """Return the sum over all blocks."""
        return self.run(task, *kept)[0]

    @abstractmethod
    def fits(self, kept: Kept) -> bool:
        """Return whether something may have been kept with these blocks, and not with others."""


class Reducer(ABC):
    """A place where blocks can be worked on."""

    @abstractmethod
    def spread(self, data: Data, rows: int) -> Blocks:
        """Return the data in blocks of at most so many rows."""


@dataclass(frozen=True)
class Threads(Reducer):
    """In this process, by so many threads. Blocks are added up in order; how many there are may change with threads.

    Parameters
    ----------
    threads : int
        One works without a pool.
    """

    threads: int = 1

    def __post_init__(self) -> None:
        whole("threads", self.threads, least=1)

    def pool(self) -> ThreadPoolExecutor:
        """Return the threads of this process: those of a parent did not come along when it was forked."""
        found = vars(self).get("_pool")
        if found is None or found[0] != os.getpid():
            found = os.getpid(), ThreadPoolExecutor(self.threads)
            vars(self)["_pool"] = found
        return found[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return Threads, (self.threads,)  # threads do not travel

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return blocks of so many rows, fewer if there would not be one for each thread."""
        share = -(-len(data) // self.threads)
        return LocalBlocks(data.blocks(max(min(rows, share), 1)), self if self.threads > 1 else None)


class LocalBlocks(Blocks):
    """Blocks that are read here, one after the other, a few at a time if there are threads."""

    def __init__(self, blocks: Iterable[Any], workers: Threads | None = None) -> None:
        self._blocks, self._workers = blocks, workers
        self._count = -1  # of blocks, once they have been gone through

    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks, and what was kept with them."""
        total: Any = None
        pieces: list[Any] = []
        for found, piece in self._results(task, zip(self._blocks, *kept, strict=True)):
            # What the first block gave may be somebody's; what it is added up in is ours.
            total = found if not pieces else add(total, found, ours=len(pieces) > 1)
            pieces.append(piece)
        self._count = len(pieces)
        return total, pieces

    def fits(self, kept: Kept) -> bool:
        """Return whether there is as much kept as there are blocks."""
        return len(kept) == self._count

    def _results(self, task: Task, each: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
        """Yield the results in the order of the blocks; only a few are ever waiting."""
        if self._workers is None:
            for some in each:
                yield task(*some)
            return
        waiting: deque[Future[Any]] = deque(self._begun(task, each, 2 * self._workers.threads))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(self._begun(task, each, 1))

    def _begun(self, task: Task, each: Iterator[tuple[Any, ...]], most: int) -> Iterator[Future[Any]]:
        """Yield the next few tasks, in threads that treat overflow as this one does."""
        assert self._workers is not None
        return (self._workers.pool().submit(copy_context().run, task, *some) for some in islice(each, most))


def add(total: Any, found: Any, *, ours: bool) -> Any:
    """Return the sum; arrays that are ours are added to in place."""
    if isinstance(total, tuple):
        return tuple(add(a, b, ours=ours) for a, b in zip(total, found, strict=True))
    if ours and isinstance(total, np.ndarray):
        total += found
        return total
    return None if total is None else total + found


@dataclass(frozen=True)
class Least:
    """A number whose sums are minima."""

    value: float

    def __add__(self, other: Least) -> Least:
        return self if self.value <= other.value else other
