"""Rows that workers hold: functions travel to other processes or machines, and sums come back.

Rows never travel, but for those of a sample. Workers hold *shares*: lists of blocks that are worked on one after the
other, so that a *round* (one message to all workers, one answer from each) is one call for each share.
:class:`ExecutorBlocks` are worked on by any ``concurrent.futures.Executor``: a pool of processes, loky, MPI, Ray. Those
of a Dask cluster are in ``majorant.core.dask``.

:class:`SharedReads` let several fits of the same rows read them together.
"""

from __future__ import annotations

import pickle
import tempfile
import uuid
import weakref
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import islice
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import Any, ClassVar, NoReturn, TypeVar
from zlib import crc32

import numpy as np

from majorant.core.rows import (
    Blocks,
    Cached,
    Data,
    Function,
    Gives,
    LocalBlocks,
    PairwiseSum,
    Recompute,
    Reducer,
    reads_rows,
    split,
)
from majorant.core.threads import numerics

T = TypeVar("T")


class RemoteRows:
    """The data of an objective whose rows or sequences workers hold.

    Parameters
    ----------
    remote : RemoteBlocks
        Their blocks.
    like : Labelled or Sequences
        Some of the rows, or none: what parameters they have.
    rows : int
        How many there are.
    """

    whole = None

    def __init__(self, remote: RemoteBlocks, like: Any, rows: int) -> None:
        self._remote, self.like, self._rows = remote, like, rows

    def __len__(self) -> int:
        return self._rows

    def blocks(self, rows: int) -> Any:
        """Return the blocks as workers hold them, cut if these can do that."""
        return self._remote.cut(max(rows, 1))

    def sample(self, rows: int, seed: int) -> Any:
        """Return about so many rows drawn at random without replacement: these do travel."""
        blocks = self._remote.total(partial(drawn, min(rows / self._rows, 1.0), seed))
        return blocks[0].joined(blocks)

    def narrowed(self) -> RemoteRows:
        """Return the rows in single precision, if their workers can have a copy of them."""
        narrow = self._remote.narrowed()
        return self if narrow is self._remote else RemoteRows(narrow, self.like.narrowed(), self._rows)

    def outlines(self, rows: int) -> NoReturn:
        """Raise: rows stay with workers."""
        self.visits()

    def visits(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise: solvers that go from row to row need them in this process."""
        raise TypeError(
            "these rows stay with their workers: use a solver that asks for sums alone, "
            "such as 'auto', 'bbm', 'newton' or 'lbfgs'"
        )


def drawn(share: float, seed: int, block: Any) -> list[Any]:
    """Return a share of the rows of a block, drawn by a seed and by what the block holds; sums of lists are joined."""
    rng = np.random.default_rng([seed, crc32(np.ascontiguousarray(block.y).data), len(block)])
    wanted = min(int(np.ceil(share * len(block))), len(block))
    return [block.take(np.sort(rng.permutation(len(block))[:wanted]))]


class RemoteBlocks(Blocks):
    """Blocks that workers hold. ``rounds`` counts how often all of them were asked for a sum."""

    rounds: int = 0

    def map(self, function: Function, *cached: Cached, recover: Function | None = None) -> Cached:
        """Return values that are computed when they are needed: that spares a round."""
        return Recompute(function, cached, recover)

    def narrowed(self) -> RemoteBlocks:
        """Return the blocks in single precision, if workers can have a copy of them."""
        return self

    def cut(self, rows: int) -> RemoteBlocks:
        """Return blocks of at most so many rows, if workers can cut theirs."""
        return self

    def fits(self, cached: Cached) -> bool:
        return isinstance(cached, Recompute)


class UncachedBlocks(RemoteBlocks):
    """Blocks of workers that cache nothing between rounds: values are computed again from θ."""

    @abstractmethod
    def sum_of_shares(self, function: Function) -> Any:
        """Return the sum over all shares of what a function of a share returns."""

    def has_room(self, numbers: float) -> bool:
        return False

    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        self.rounds += 1
        return self.sum_of_shares(partial(sum_of_share, function, cached, gives)), []


def sum_of_share(function: Function, cached: tuple[Recompute, ...], gives: Gives, share: Iterable[Any]) -> Any:
    """Return the sum over the blocks of a share."""
    with numerics(1):
        return LocalBlocks(share).run(function, *cached, gives=gives)[0]


# --- executors ----------------------------------------------------------------------------------------------

_shares: OrderedDict[str, Iterable[Any]] = OrderedDict()  # that a worker process has in memory, by name


class ExecutorBlocks(UncachedBlocks):
    """Shares that any free worker of an executor reads, may have in memory, and works on.

    Parameters
    ----------
    executor : Executor
    shares : sequence of callables
        Which return the blocks of a share, and can be pickled.
    fits : bool
        Whether workers may have shares in memory.
    """

    delay: ClassVar[float] = 2e6

    def __init__(self, executor: Executor, shares: Sequence[Callable[[], Iterable[Any]]], *, fits: bool = True) -> None:
        name = uuid.uuid4().hex
        self._executor = executor
        self._calls = [(f"{name}-{number}" if fits else None, read) for number, read in enumerate(shares)]

    @classmethod
    def holding(cls, executor: Executor, shares: Sequence[Sequence[Any]]) -> ExecutorBlocks:
        """Return blocks that are in memory here, and reach workers through files of a temporary folder."""
        folder = Path(tempfile.mkdtemp(prefix="majorant-"))
        for number, share in enumerate(shares):
            (folder / str(number)).write_bytes(pickle.dumps(share, protocol=pickle.HIGHEST_PROTOCOL))
        blocks = cls(executor, [partial(unpickled, folder / str(number)) for number in range(len(shares))])
        weakref.finalize(blocks, rmtree, folder, ignore_errors=True)
        return blocks

    def sum_of_shares(self, function: Function) -> Any:
        total = PairwiseSum()
        for number, term in enumerate(self._executor.map(partial(call_on_share, function), self._calls)):
            total.add(number, term)
        return total.value()


def unpickled(path: Path) -> Any:
    """Return what a file of a folder holds that only this process and its workers know."""
    return pickle.loads(path.read_bytes())


def call_on_share(function: Function, share: tuple[str | None, Callable[[], Iterable[Any]]]) -> Any:
    """Return what a function returns for a share, which this process has in memory afterwards if it has a name."""
    name, read = share
    if name is None:
        return function(read())
    if name not in _shares:
        _shares[name] = read()
        while len(_shares) > 8:  # of several fits, perhaps; the one that was not used for longest goes first
            _shares.popitem(last=False)
    _shares.move_to_end(name)
    return function(_shares[name])


# --- several fits that read the same rows together ----------------------------------------------------------


class SharedReads(Reducer):
    """The reducer of several fits of the same rows: these are read once all fits that still run wait for a sum.

    Parameters
    ----------
    inner : Reducer
        Where blocks are worked on.
    """

    def __init__(self, inner: Reducer) -> None:
        self._inner, self._lock = inner, Lock()
        self._fits = 0  # that still run
        self._requests: list[Request] = []
        self._blocks: dict[int, Blocks] = {}  # by rows

    def spread(self, data: Data, rows: int) -> Blocks:
        if data.whole is not None:  # a sample, which each fit has for itself
            return self._inner.spread(data, rows)
        with self._lock:
            if rows not in self._blocks:
                self._blocks[rows] = self._inner.spread(data, rows)
        return SharedBlocks(self._blocks[rows], self)

    def run_all(self, fits: Sequence[Callable[[], T]]) -> list[T]:
        """Return what every fit returns, each called in a thread of its own."""
        self._fits = len(fits)

        def run(fit: Callable[[], T]) -> T:
            try:
                return fit()
            finally:
                with self._lock:
                    self._fits -= 1
                    self._read_if_all_wait()

        with ThreadPoolExecutor(len(fits), "majorant fit") as pool:
            running = [pool.submit(copy_context().run, run, fit) for fit in fits]
        return [each.result() for each in running]

    def sum(self, blocks: Blocks, function: Function, cached: tuple[Cached, ...], gives: Gives) -> tuple[Any, Cached]:
        """Return what ``blocks.run`` returns, once all fits wait for a sum."""
        request = Request(blocks, function, cached, gives)
        with self._lock:
            self._requests.append(request)
            self._read_if_all_wait()
        return request.answer.result()

    def _read_if_all_wait(self) -> None:
        if len(self._requests) < max(self._fits, 1):
            return
        waiting, self._requests = self._requests, []
        for blocks in {id(request.blocks): request.blocks for request in waiting}.values():
            requests = [request for request in waiting if request.blocks is blocks]
            parts = tuple([(request.function, len(request.cached), request.gives) for request in requests])
            try:
                terms, values = blocks.run(partial(jointly, parts), *[part for r in requests for part in r.cached])
            except BaseException as error:
                for request in requests:
                    request.answer.set_exception(error)
            else:
                for number, request in enumerate(requests):
                    request.answer.set_result((terms[number], [value[number] for value in values]))


class Request:
    """The arguments of ``blocks.run`` that a fit waits for, and what it will return."""

    def __init__(self, blocks: Blocks, function: Function, cached: tuple[Cached, ...], gives: Gives) -> None:
        self.blocks, self.function, self.cached, self.gives = blocks, function, cached, gives
        self.answer: Future[tuple[Any, Cached]] = Future()


def jointly(
    parts: tuple[tuple[Function, int, Gives], ...], *values_and_block: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the terms of several functions of one block, and their values; each takes so many of those given."""
    *values, block = values_and_block
    left = iter(values)
    results = [split(function(*islice(left, many), block), gives) for function, many, gives in parts]
    return tuple(term for term, _ in results), tuple(value for _, value in results)


class SharedBlocks(Blocks):
    """Blocks that several fits read together."""

    def __init__(self, inner: Blocks, reads: SharedReads) -> None:
        self._inner, self._reads = inner, reads

    def has_room(self, numbers: float) -> bool:
        return self._inner.has_room(numbers)

    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        if reads_rows(function, cached):
            return self._reads.sum(self._inner, function, cached, gives)
        return self._inner.run(function, *cached, gives=gives)

    def fits(self, cached: Cached) -> bool:
        return self._inner.fits(cached)
