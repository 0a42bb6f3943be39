"""Rows that workers hold: functions travel to other processes or machines, and sums come back.

Rows never travel, but for those of a sample. Workers hold *shares*: lists of blocks that are worked on one after the
other, so that a *round* (one message to all workers, one answer from each) is one call for each share.
:class:`ExecutorBlocks` are worked on by any ``concurrent.futures.Executor``: a pool of processes, loky, MPI, Ray.

:class:`SharedReads` let several fits of the same rows read them together.

**Dask**: blocks of the workers of a cluster, in memory there, with their cached values, or computed at every round.

In memory, the share of each worker is held by an *actor* (a stateful object of Dask's), with the values that were
cached with it under a name. A round is one call to each actor: no task is scheduled, so that it takes a few
milliseconds. Many actors are called through each other, as a tree.

An actor that is lost with its worker is made anew by another, from the rows. Values that it had cached are computed
again of these alone, by a function that the client holds with the name (:class:`ShardRef`).
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import time
import uuid
import weakref
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import count, islice
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
    add,
    reads_rows,
    split,
)
from majorant.core.threads import Spare, even_parts, hold_on_to_pages, numerics, recycling, sharing

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


# --- blocks of a Dask cluster -------------------------------------------------------------------------------

# Sums that are added up at a time, and actors that are called at a time.
ARITY = 8
# The share of the memory of all workers that may be taken by cached values, beside the rows.
CACHE_SHARE = 0.2
# Seconds that Dask may take to notice that a worker is lost.
NOTICED_WITHIN = 5.0


class DaskBlocks(UncachedBlocks):
    """Shares that Dask computes at every round, for they are too large to be held.

    A share that is lost with its worker is computed again by another.
    """

    delay: ClassVar[float] = 2e7

    def __init__(self, client: Any, shares: Sequence[Any]) -> None:
        self._client, self._shares = client, shares

    def sum_of_shares(self, function: Function) -> Any:
        from dask import delayed

        # θ travels with each call: what is scattered would be lost with a worker, for good.
        call = delayed(partial(_call_on_worker, function), pure=False)
        with large_graphs():
            sums = self._client.compute([call(share) for share in self._shares])
        while len(sums) > ARITY:  # a tree of sums that workers add up; the last few are added here
            sums = [self._client.submit(added, sums[k : k + ARITY], pure=False) for k in range(0, len(sums), ARITY)]
        return added(self._client.gather(sums))


def _call_on_worker(function: Function, share: Sequence[Any]) -> Any:
    hold_on_to_pages()
    return function(share)


def large_graphs() -> AbstractContextManager[Any]:
    """Return a context in which Dask does not warn of parameters, or vocabularies, that are large: they have to go."""
    from dask import config

    quiet: AbstractContextManager[Any] = config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"})
    return quiet


def added(sums: Sequence[Any]) -> Any:
    """Return the sum of sums, which stay as they are."""
    return reduce(partial(add, in_place=False), sums)


# --- what travels -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The blocks that an actor works on: its share as it is, or cut to so many rows, or in single precision."""

    name: int = -1
    rows: int | None = None
    narrow: bool = False


@dataclass(eq=False)
class ShardRef:
    """The name of values that every actor has cached with its share, in some cut, as long as the client knows it."""

    name: int
    cut: Cut
    recover: Function | None  # computes them of a block alone; it stays with the client

    def __reduce__(self) -> Any:
        return ShardRef, (self.name, self.cut, None)


@dataclass(frozen=True, eq=False)
class Call:
    """The arguments of ``blocks.run`` or ``blocks.total_of_large`` as they travel to actors."""

    function: Function
    gives: Gives
    cached: Sequence[ShardRef | Recompute]
    name: int  # of the values that are to be cached
    forget: Sequence[int] = ()  # names that the client does not know any more
    cut: Cut = Cut()
    large: tuple[int, int] | None = None  # rows that are worth one result, and its size, where that is large


def refs(cached: Sequence[Cached]) -> Iterator[ShardRef]:
    """Yield the references in cached values, also in those that are computed when they are needed."""
    for part in cached:
        if isinstance(part, Recompute):
            yield from refs(part.cached)
        else:
            yield part


def recovery(cached: Cached) -> Function:
    """Return a function that computes cached values of a block alone."""
    if isinstance(cached, Recompute) and cached.recover is None:
        return partial(recovered, cached.function, "cached", tuple(map(recovery, cached.cached)))
    function: Function = cached.recover
    return function


def recovered(function: Function, gives: Gives, of: tuple[Function, ...], block: Any) -> Any:
    """Return the value that a function gives to be cached, of values that are computed of the block alone."""
    return split(function(*[compute(block) for compute in of], block), gives)[1]


def packed(call: Call) -> bytes:
    """Return a call as bytes: it is the same for all actors, and packed once."""
    from distributed.protocol import pickle

    message: bytes = pickle.dumps(call)
    return message


# --- actors -------------------------------------------------------------------------------------------------


class ShardActor:
    """A share in the memory of a worker, with values that are cached with it."""

    def __init__(self, share: Sequence[Any]) -> None:
        from distributed import get_worker

        self._share, self._threads = list(share), int(get_worker().state.nthreads)
        self._blocks: dict[int, LocalBlocks] = {}  # by the name of a cut
        self._cached: dict[int, Cached] = {}
        hold_on_to_pages()
        # Large arrays of every call, whatever the system does with memory: fresh pages would take as long as the work.
        self._spare = Spare()

    def run(self, message: bytes, others: Sequence[Any] = ()) -> Any:
        """Return the sum over this share and those of other actors, and cache values under a name."""
        from distributed.protocol import pickle

        answers = asked(others, message)
        call: Call = pickle.loads(message)
        for name in call.forget:
            self._cached.pop(name, None)
            self._blocks.pop(name, None)
        if self.lacks([ref.name for ref in refs(call.cached)]):
            raise NotCached
        cut = call.cut
        if cut.name not in self._blocks:
            share = [block.narrowed() for block in self._share] if cut.narrow else self._share
            whole = LocalBlocks(share, self._threads)
            self._blocks[cut.name] = whole if cut.rows is None else LocalBlocks.cut(share, cut.rows, self._threads)
        blocks, cached = self._blocks[cut.name], [self._values(part) for part in call.cached]
        with recycling(self._spare), sharing(self._threads):
            if call.large is None:
                total, self._cached[call.name] = blocks.run(call.function, *cached, gives=call.gives)
            else:
                total = blocks.total_of_large(call.function, *call.large, *cached)
        return added([total, *(answer.result() for answer in answers)])

    def _values(self, cached: ShardRef | Recompute) -> Cached:
        """Return values that are cached here."""
        if isinstance(cached, Recompute):
            return replace(cached, cached=tuple(map(self._values, cached.cached)))
        return self._cached[cached.name]

    def lacks(self, names: Sequence[int]) -> list[int]:
        """Return which of the names are not known here."""
        return [name for name in names if name not in self._cached and name not in self._blocks]


class NotCached(Exception):
    """An actor was made anew, and does not know a name."""


def asked(actors: Sequence[Any], message: bytes) -> list[Any]:
    """Return the answers that are to come from a few actors, each of which asks as many others."""
    parts = [actors[part] for part in even_parts(len(actors), min(len(actors), ARITY))] if actors else []
    return [part[0].run(message, part[1:]) for part in parts]


async def _answers(actors: Sequence[Any], message: bytes) -> list[Any]:
    """Return the answers of actors: the thread of the client's loop does all of a round, and wakes ours once."""
    return await asyncio.gather(*asked(actors, message))


class Actors:
    """The actors of a cluster that hold the shares of some data, and the client's connection to them.

    Parameters
    ----------
    client : distributed.Client
    shares : sequence of delayed lists of blocks
        One for each worker.
    memory : float
        Bytes that all workers have.
    """

    def __init__(self, client: Any, shares: Sequence[Any], memory: float) -> None:
        self._client, self._shares, self.memory = client, shares, memory
        self._names, self._forget = count(), list[int]()
        self.rounds = 0
        self._futures = [self._submitted(number) for number in range(len(shares))]
        self.actors = self._connected(self._futures)

    def name_of(self, owner: object) -> int:
        """Return a new name, which actors forget once its owner is gone."""
        name = next(self._names)
        weakref.finalize(owner, self._forget.append, name)
        return name

    def run(self, call: Call) -> Any:
        """Return the sum of what all actors answer, and make those anew that are lost."""
        self.rounds += 1
        call = replace(call, forget=list(self._forget))
        message = packed(call)
        for attempt in range(20):  # a cluster that loses workers as often as that is not worth another
            try:
                total = added(self._client.sync(_answers, self.actors, message))
                break
            except (NotCached, OSError, RuntimeError) as problem:
                if not self._mended(call, problem) or attempt == 19:
                    raise
        del self._forget[: len(call.forget)]
        return total

    def _mended(self, call: Call, problem: Exception) -> bool:
        """Make lost actors and lost values anew; return whether one of them was the problem."""
        deadline = time.monotonic() + (0.0 if isinstance(problem, NotCached) else NOTICED_WITHIN)
        while not (lost := [k for k, future in enumerate(self._futures) if future.status != "finished"]):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for number in lost:
            self._futures[number] = self._submitted(number)
        for number, actor in zip(lost, self._connected([self._futures[number] for number in lost]), strict=True):
            self.actors[number] = actor
        known = {ref.name: ref for ref in refs(call.cached)}
        for actor in self.actors:
            for name in actor.lacks(list(known)).result():
                actor.run(packed(Call(recovery(known[name]), "cached", (), name, cut=known[name].cut))).result()
        return bool(lost) or isinstance(problem, NotCached)

    def _submitted(self, number: int) -> Any:
        """Return the future of an actor, which Dask gives to the worker that has fewest.

        The worker is not named: an actor that waits for a worker that was lost waits for good.
        """
        return self._client.submit(ShardActor, self._client.compute(self._shares[number]), actor=True, pure=False)

    def _connected(self, futures: Sequence[Any]) -> list[Any]:
        """Return actors, which are called directly, if their workers answer, rather than through the scheduler."""
        with self._client.as_current():  # through which they are called from their first call on
            actors = [future.result() for future in futures]
            for answer in [actor.lacks(()) for actor in actors]:
                answer.result()
        if self._client.direct_to_workers is None:
            addresses = [actor._address for actor in actors]
            for actor, answers in zip(actors, self._client.sync(_reachable, self._client, addresses), strict=True):
                if answers:
                    actor._client = DirectClient(self._client)
        return actors


class DirectClient:
    """A client of Dask's that calls actors itself: by default all calls and answers pass through the scheduler."""

    direct_to_workers: ClassVar[bool] = True

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


async def _reachable(client: Any, addresses: Sequence[str]) -> list[bool]:
    """Return which workers answer the client, who may be outside of the network of the workers."""
    from distributed.comm import connect

    async def answers(address: str) -> bool:
        try:
            comm = await connect(address, timeout=1.0, **client.connection_args)
        except (OSError, ValueError):
            return False
        await comm.close()
        return True

    return await asyncio.gather(*map(answers, addresses))


class ActorBlocks(RemoteBlocks):
    """The blocks that actors hold, in some cut: in single precision they are copies, as long as the client knows it."""

    delay: ClassVar[float] = 6e6
    holds_rows: ClassVar[bool] = True

    def __init__(self, actors: Actors, rows: int | None = None, *, narrow: bool = False) -> None:
        self.actors = actors
        self._cut = Cut() if rows is None and not narrow else Cut(actors.name_of(self), rows, narrow)

    @property
    def rounds(self) -> int:  # type: ignore[override]
        """How often all actors were asked for a sum."""
        return self.actors.rounds

    def has_room(self, numbers: float) -> bool:
        return 8 * numbers <= CACHE_SHARE * self.actors.memory

    def fits(self, cached: Cached) -> bool:
        return isinstance(cached, Recompute) or (isinstance(cached, ShardRef) and cached.cut == self._cut)

    def narrowed(self) -> ActorBlocks:
        return ActorBlocks(self.actors, self._cut.rows, narrow=True)

    def cut(self, rows: int) -> ActorBlocks:
        return ActorBlocks(self.actors, rows, narrow=self._cut.narrow)

    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        recover = recover or partial(recovered, function, gives, tuple(map(recovery, cached)))
        ref = ShardRef(-1, self._cut, recover)
        ref.name = self.actors.name_of(ref)
        return self.actors.run(Call(function, gives, cached, ref.name, cut=self._cut)), ref

    def map(self, function: Function, *cached: Cached, recover: Function | None = None) -> Cached:
        if cached:
            return super().map(function, *cached, recover=recover)
        return self.run(function, gives="cached", recover=recover)[1]

    def total_of_large(self, function: Function, rows: int, size: int, *cached: Cached) -> Any:
        return self.actors.run(Call(function, "sum", cached, -1, cut=self._cut, large=(rows, size)))
