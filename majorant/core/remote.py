"""Blocks that live with workers, in other processes or on other machines: tasks travel there, sums come back.

Rows never travel but for those of a sample. Workers hold *shares*: lists of blocks that are worked on one after the
other, so that a round (one message to everybody, one answer) is one call for each share.

Blocks worked on by any ``concurrent.futures.Executor``: a pool of processes, loky, MPI, Ray.

Several fits of the same rows, one read for all: each waits with its task until the others have one, too.
"""

from __future__ import annotations

import pickle
import tempfile
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from shutil import rmtree
from threading import Condition, Thread
from typing import Any, ClassVar, NoReturn, Protocol, TypeVar
from zlib import crc32

import numpy as np

from majorant.core.labelled import Labelled
from majorant.core.rows import (
    Again,
    Blocks,
    Data,
    Function,
    Gives,
    Kept,
    Order,
    PairwiseSum,
    Reducer,
    Threads,
    divided,
    found_again,
    reads_rows,
)
from majorant.core.threads import numerics


def work_on(function: Function, gives: Gives, share: Iterable[Any], *kept: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the sum over the blocks of a share, and what is to be kept with each."""
    total, pieces = PairwiseSum(), []
    for number, some in enumerate(zip(*kept, share, strict=True)):
        found, piece = divided(gives, function(*some))
        total.add(number, found)
        pieces.append(piece)
    return total.value(), pieces


def drawn(share: float, seed: int, block: Labelled) -> Gathered:
    """Return a share of the rows of a block, drawn by a seed and by what it holds."""
    rng = np.random.default_rng([seed, crc32(np.ascontiguousarray(block.y).data), len(block)])
    wanted = min(int(np.ceil(share * len(block))), len(block))
    return Gathered((block.take(np.sort(rng.permutation(len(block))[:wanted])),))


@dataclass(frozen=True, eq=False)
class Gathered:
    """Blocks whose sums are all of them."""

    blocks: tuple[Labelled, ...]

    def __add__(self, other: Gathered) -> Gathered:
        return Gathered(self.blocks + other.blocks)


class Elsewhere:
    """Rows or sequences that workers hold.

    Parameters
    ----------
    at_workers : Rounds
        Where they are.
    like : Labelled or Sequences
        Some of them, or none: what parameters they have.
    rows : int
        How many there are.
    """

    whole = None

    def __init__(self, at_workers: Rounds, like: Any, rows: int) -> None:
        self.at_workers, self.like, self._rows = at_workers, like, rows

    def __len__(self) -> int:
        return self._rows

    def blocks(self, rows: int) -> Iterable[Labelled]:
        """Raise: rows do not come here."""
        self._stay()

    def outlines(self, rows: int) -> Iterable[Labelled]:
        """Raise."""
        self._stay()

    def sample(self, rows: int, seed: int) -> Labelled:
        """Return about so many rows drawn at random without replacement: these do come here."""
        gathered: Gathered = self.at_workers.total(partial(drawn, min(rows / self._rows, 1.0), seed))
        return Labelled.joined(gathered.blocks)

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Labelled]:
        """Raise: solvers that go from row to row need rows here."""
        self._stay()

    def narrowed(self) -> Elsewhere:
        """Return the rows in single precision, if their workers can have a copy of them."""
        narrow = self.at_workers.narrowed()
        return self if narrow is self.at_workers else Elsewhere(narrow, self.like.narrowed(), self._rows)

    def _stay(self) -> NoReturn:
        raise TypeError(
            "these rows stay with their workers: use a solver that asks for sums alone, "
            "such as 'auto', 'bbm', 'newton' or 'lbfgs'"
        )


class AtWorkers(Reducer):
    """Where :class:`Elsewhere` says that its rows are."""

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return the blocks as workers hold them, cut if these can do that; those of a sample are here."""
        return data.at_workers.cut(max(rows, 1)) if isinstance(data, Elsewhere) else Threads().spread(data, rows)


class Rounds(Blocks):
    """Blocks with workers. ``rounds`` counts how often all of them were asked for something."""

    rounds: int = 0

    def map(self, function: Function, *kept: Kept, anew: Function | None = None) -> Kept:
        """Return how it is found when it is needed, of what was kept: that spares a round."""
        return Again(function, kept, anew) if kept else super().map(function, anew=anew)

    def narrowed(self) -> Rounds:
        """Return the rows in single precision, if workers can have a copy of them."""
        return self

    def cut(self, rows: int) -> Rounds:
        """Return the rows so many at a time, if workers can work on them so."""
        return self

    def fits(self, kept: Kept) -> bool:
        """Return whether something was kept with these blocks."""
        return isinstance(kept, list | Again)


# Shares that a worker keeps in memory; the one that was not used for longest goes first.
SHARES_IN_MEMORY = 8
_shares: OrderedDict[str, Iterable[Any]] = OrderedDict()  # of this process


class Reading(Protocol):
    """How a worker gets its share: something that can be pickled."""

    @property
    def fits(self) -> bool:
        """Whether a worker may keep the blocks in memory."""

    def __call__(self) -> Iterable[Any]:
        """Return the blocks."""


@dataclass(frozen=True)
class FromFile:
    """A share that was written to a file, which workers can read."""

    path: Path
    fits: bool = True

    def __call__(self) -> Iterable[Any]:
        """Read it. Nobody but this process and its workers knows the folder."""
        return pickle.loads(self.path.read_bytes())


@dataclass(frozen=True, eq=False)
class Share:
    """A share by its name, and how it is read where it is not in memory."""

    name: str
    read: Reading

    def blocks(self) -> Iterable[Any]:
        """Return the blocks, which this process may remember."""
        if not self.read.fits:
            return self.read()
        if self.name not in _shares:
            _shares[self.name] = self.read()
            while len(_shares) > SHARES_IN_MEMORY:
                _shares.popitem(last=False)
        _shares.move_to_end(self.name)
        return _shares[self.name]


class ExecutorBlocks(Rounds):
    """Shares that whichever worker is free reads, remembers and works on.

    A worker is not known to get the same share again, so nothing is kept with blocks: scores are found from θ.
    """

    delay: ClassVar[float] = 2e6

    def __init__(self, executor: Executor, readings: Sequence[Reading]) -> None:
        name = uuid.uuid4().hex
        self._executor = executor
        self._shares = [Share(f"{name}-{number}", read) for number, read in enumerate(readings)]

    @classmethod
    def holding(cls, executor: Executor, shares: Sequence[Sequence[Any]]) -> ExecutorBlocks:
        """Return blocks that are in memory here, and reach workers through files of a temporary folder."""
        folder = Path(tempfile.mkdtemp(prefix="majorant-"))
        for number, share in enumerate(shares):
            (folder / str(number)).write_bytes(pickle.dumps(share, protocol=pickle.HIGHEST_PROTOCOL))
        blocks = cls(executor, [FromFile(folder / str(number)) for number in range(len(shares))])
        weakref.finalize(blocks, rmtree, folder, ignore_errors=True)
        return blocks

    def has_room(self, numbers: float) -> bool:
        return False

    def run(
        self, function: Function, *kept: Kept, gives: Gives = "both", anew: Function | None = None
    ) -> tuple[Any, Kept]:
        """Return the sum over all blocks; nothing is kept."""
        function, kept = found_again(function, kept)
        assert not kept, "nothing is kept with an executor"
        self.rounds += 1
        total = PairwiseSum()
        for number, found in enumerate(self._executor.map(partial(sum_of_share, function, gives), self._shares)):
            total.add(number, found)
        return total.value(), []


def sum_of_share(function: Function, gives: Gives, share: Share) -> Any:
    """Return the sum over every block of a share."""
    with numerics(1):
        return work_on(function, gives, share.blocks())[0]


T = TypeVar("T")


def all_together(calls: Sequence[Callable[[], T]], group: Group) -> list[T]:
    """Return what every call returns, each in a thread of its own, as members of a group that reads together."""
    results: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            results[number] = calls[number]()
        except BaseException as error:
            errors.append(error)
        finally:
            group.leave()

    threads = [Thread(target=copy_context().run, args=(work, number)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@dataclass(eq=False)
class Request:
    """A function that a fit waits for to be summed."""

    blocks: Blocks
    function: Function
    gives: Gives
    kept: tuple[Kept, ...]
    answer: tuple[Any, Kept] | None = None
    error: BaseException | None = None


class Group:
    """Fits that read together. Rows are read once every one that has not ended waits for them."""

    def __init__(self, members: int) -> None:
        self._members, self._waiting, self._change = members, [], Condition()  # type: tuple[int, list[Request], Any]
        self._blocks: dict[int, Blocks] = {}
        self.reads = 0

    def spread(self, inner: Reducer, data: Data, rows: int) -> Blocks:
        """Return blocks of so many rows, the same for all members."""
        with self._change:
            if rows not in self._blocks:
                self._blocks[rows] = inner.spread(data, rows)
            return self._blocks[rows]

    def run(self, blocks: Blocks, function: Function, kept: tuple[Kept, ...], gives: Gives) -> tuple[Any, Kept]:
        """Return what a function gives, once it is its turn."""
        function, kept = found_again(function, kept)
        if not reads_rows(function):
            return blocks.run(function, *kept, gives=gives)
        request = Request(blocks, function, gives, kept)
        with self._change:
            self._waiting.append(request)
            self._read_if_all_wait()
            while request.answer is None and request.error is None:
                self._change.wait()
        if request.error is not None:
            raise request.error
        assert request.answer is not None
        return request.answer

    def leave(self) -> None:
        """Wait for one less from now on."""
        with self._change:
            self._members -= 1
            self._read_if_all_wait()

    def _read_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._members:
            return
        waiting, self._waiting = self._waiting, []
        for blocks in {id(request.blocks): request.blocks for request in waiting}.values():
            requests = [request for request in waiting if request.blocks is blocks]
            self.reads += 1
            parts = tuple([(request.function, request.gives, len(request.kept)) for request in requests])
            try:
                kept = [pieces for request in requests for pieces in request.kept]
                totals, pieces = blocks.run(partial(jointly, parts), *kept)
            except BaseException as error:
                for request in requests:
                    request.error = error
            else:
                for number, request in enumerate(requests):
                    request.answer = totals[number], [piece[number] for piece in pieces]
        self._change.notify_all()


def jointly(
    parts: tuple[tuple[Function, Gives, int], ...], *kept_and_block: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what adds up of several functions of one block, and what is kept for each, given how much was kept."""
    *kept, block = kept_and_block
    left = iter(kept)
    found = [divided(gives, function(*islice(left, many), block)) for function, gives, many in parts]
    return tuple(total for total, _ in found), tuple(piece for _, piece in found)


@dataclass(frozen=True, eq=False)
class SharedBlocks(Blocks):
    """Blocks that are read together with others."""

    inner: Blocks
    group: Group

    def has_room(self, numbers: float) -> bool:
        return self.inner.has_room(numbers)

    def run(
        self, function: Function, *kept: Kept, gives: Gives = "both", anew: Function | None = None
    ) -> tuple[Any, Kept]:
        return self.group.run(self.inner, function, kept, gives)

    def fits(self, kept: Kept) -> bool:
        return self.inner.fits(kept)


@dataclass(frozen=True, eq=False)
class ReadTogether(Reducer):
    """A place where blocks are worked on by several fits at once."""

    inner: Reducer
    group: Group = field(compare=False)

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return the blocks; those of a sample are everybody's own."""
        if data.whole is not None:
            return self.inner.spread(data, rows)
        return SharedBlocks(self.group.spread(self.inner, data, rows), self.group)
