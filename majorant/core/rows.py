"""What data can do, wherever they are kept: how many rows, blocks of them, a sample, a visit to each in some order.

Sums of what blocks give, the same to the last bit whoever adds them; minima and maxima are sums, too.

Sums over blocks of rows: the one way in which anything is added up, here, by threads, or elsewhere.

A *task* is called with a block and what was kept of it before, and returns two things: what adds up, and what is to be
kept where the block is (scores, residuals), which never travels. Tasks are frozen dataclasses, so that they can be sent
to where the blocks are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from threading import Lock
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from majorant.core.checks import Array, whole
from majorant.core.structured import Centred
from majorant.core.threads import for_each

# Rows copied at a time: a shuffled pass never holds a second copy of the data.
CHUNK = 2**13


@dataclass(frozen=True)
class Order:
    """In which order a pass visits rows: as they stand, or at random, with or without replacement."""

    seed: int = 0
    shuffle: bool = True
    replacement: bool = False

    def of_pass(self, number: int, rows: int) -> Array:
        """Return the rows of a pass, one after the other; the same each time it is asked for."""
        return self.of_chunk(number, None, rows)

    def of_chunk(self, number: int, chunk: int | None, rows: int) -> Array:
        """Return the rows of a chunk in a pass; of data that are one chunk, its number is None."""
        if not self.shuffle:
            return np.arange(rows)
        key = (self.seed, number) if chunk is None else (self.seed, number, chunk)
        return _random_order(rows, key, self.replacement)


class Data(Protocol):
    """What an objective and its solvers need. Blocks and samples are :class:`InMemory`, whatever the data are."""

    @property
    def like(self) -> Any:
        """A block that shows what all rows look like: columns, precision, kind of labels."""

    @property
    def whole(self) -> Any:
        """All rows as one block, if they are in memory; None if not."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def blocks(self, rows: int) -> Iterable[InMemory]:
        """Return the data in blocks of at most so many rows; they can be iterated over again and again."""

    def outlines(self, rows: int) -> Iterable[InMemory]:
        """Return the same blocks for tasks that look at labels and weights alone; rows need not be there."""

    def sample(self, rows: int, seed: int) -> InMemory:
        """Return so many rows drawn at random without replacement, all of them if there are no more."""

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[InMemory]:
        """Yield the rows from ``begin`` to ``end`` of a pass, in order, a multiple of so many at a time."""

    def narrowed(self) -> Data:
        """Return the rows in single precision, if a copy of them can be had."""


class InMemory(ABC):
    """Rows that are all here. A subclass says how many there are and how to take some."""

    weight: Array | None

    @property
    def like(self) -> Self:
        """The rows themselves."""
        return self

    @property
    def whole(self) -> Self:
        """The rows themselves."""
        return self

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def part(self, begin: int, end: int) -> Self:
        """Return rows ``begin`` … ``end`` − 1, as views."""

    @abstractmethod
    def take(self, rows: Array) -> Self:
        """Return a copy of the given rows, in that order, repeats included."""

    def here(self) -> Self:
        """Return the rows in the memory of this process, if they are on a device."""
        return self

    def widened(self) -> Self:
        """Return the rows in double precision."""
        return self

    def narrowed(self) -> Self:
        """Return the rows in single precision, if they can be had in it."""
        return self

    def batches(self, rows: int) -> Iterator[Self]:
        """Yield at most so many rows at a time, one batch after the other."""
        return (self.part(begin, min(begin + rows, len(self))) for begin in range(0, len(self), rows))

    def blocks(self, rows: int) -> tuple[Self, ...]:
        """Return the rows in blocks, all at once: they are only views, and may remember what is found out of them."""
        return (self,) if rows >= len(self) else tuple(self.batches(rows))

    def outlines(self, rows: int) -> tuple[Self, ...]:
        """Return the same blocks: their rows are here anyway."""
        return self.blocks(rows)

    def sample(self, rows: int, seed: int) -> Self:
        """Return so many rows drawn at random without replacement, as they stand here."""
        if rows >= len(self):
            return self
        return self.take(np.sort(np.random.default_rng(seed).permutation(len(self))[:rows]))

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Self]:
        """Yield the rows from ``begin`` to ``end`` of a pass, in order, a multiple of so many at a time."""
        rows, size = order.of_pass(passes, len(self))[begin:end], max(CHUNK // multiple, 1) * multiple
        return (self.take(rows[start : start + size]) for start in range(0, len(rows), size))


@lru_cache(maxsize=4)
def _random_order(rows: int, key: tuple[int, ...], replacement: bool) -> Array:
    rng = np.random.default_rng(list(key))
    order = rng.integers(rows, size=rows) if replacement else rng.permutation(rows)
    order.flags.writeable = False  # it is shared
    return order


# Numbers of a term that is added up only when all others are there; and of how many others.
SMALL, FEW = 2**15, 64


class PairwiseSum:
    """A sum of numbered terms, added in the order of a binary tree: the same whoever adds them, and when.

    Small terms wait until the others are there: threads that add arrays would wait for the interpreter each time. Terms
    that are ours are added to in place: what a block gave may be somebody's, what is added up of several is ours.
    """

    def __init__(self, *, ours: bool = False) -> None:
        self._ours = ours
        self._small: dict[int, Any] = {}
        self._waiting: dict[tuple[int, int], Any] = {}  # sums of 2^level terms, by level and number
        self._lock = Lock()

    def add(self, number: int, term: Any) -> None:
        """Add a term, at once if it is large."""
        if len(self._small) < FEW and _is_small(term):
            self._small[number] = term
        else:
            self._add(number, term)

    def value(self) -> Any:
        """Return the sum of all: larger parts stand before smaller ones."""
        for number in sorted(self._small):
            self._add(number, self._small.pop(number))
        (_, (total,)), *larger = sorted(self._waiting.items())
        for (_, _), (part,) in larger:
            total = add(part, total, ours=True)
        return total

    def _add(self, number: int, term: Any) -> None:
        """Add a term, and what becomes complete by it."""
        for level in count():
            with self._lock:
                other = self._waiting.pop((level, number ^ 1), None)
                if other is None:
                    self._waiting[level, number] = (term,)
                    return
            left, right = (other[0], term) if number & 1 else (term, other[0])
            term, number = add(left, right, ours=self._ours or level > 0), number >> 1


def _is_small(term: Any) -> bool:
    """Return whether many such terms can be kept until they are added up."""
    if isinstance(term, tuple):
        return all(map(_is_small, term))
    return isinstance(term, float | int) or term is None or (isinstance(term, np.ndarray) and term.size <= SMALL)


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


@dataclass(frozen=True)
class Most:
    """A number whose sums are maxima."""

    value: float

    def __add__(self, other: Most) -> Most:
        return self if self.value >= other.value else other


# What a task left with every block; only blocks know what is in it.
Kept: TypeAlias = Any
# Sums of more numbers are not found by several threads at once, each with one of its own.
LARGE = 2**20
# Nor are those of fewer blocks than a third of the threads: they share what is done with a block instead.
ENOUGH = 3
# Scores for each thread that looks at no rows: of fewer, handing the interpreter over takes longer than the work.
SCORES = 2**17
# Numbers that are kept with blocks of rows which are not in memory.
KEPT = 2**25


class Task(Protocol):
    """What is done with each block.

    One that looks at labels, weights and what was kept, but not at rows, says so (``reads_rows = False``): rows that
    are not in memory are then not read for it. One that knows how what it keeps is found without what was kept before
    has a task for that (``anew``). One whose arrays are nobody else's lets them be added to (``gives_away``): where
    there are many parameters, one vector less is a hundredth of all memory.
    """

    def __call__(self, block: Any, *kept: Any) -> tuple[Any, Any]:
        """Return what adds up (numbers, arrays, curvatures, tuples of them), and what is kept with the block."""


@dataclass(frozen=True, eq=False)
class Again:
    """What is not kept with the blocks as it is: a task finds it, of them and of what is, whenever it is needed.

    Where that was lost, ``anew`` finds it of the blocks alone.
    """

    task: Task
    kept: tuple[Kept, ...] = ()
    anew: Task | None = None


class Blocks(ABC):
    """The blocks of data, wherever they are."""

    # Nanoseconds that pass before anybody has begun to work on them; and whether workers hold them in memory.
    delay: ClassVar[float] = 0.0
    holds_rows: ClassVar[bool] = False
    # Whether a fit may stop where its metric says that there is nothing left to gain.
    estimates: ClassVar[bool] = False

    def keep(self, numbers: float) -> bool:
        """Return whether so many numbers can be kept with the blocks, all together."""
        return True

    @abstractmethod
    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks, and what was kept with them."""

    def total(self, task: Task, *kept: Kept) -> Any:
        """Return the sum over all blocks."""
        return self.run(task, *kept)[0]

    def derive(self, task: Task, *kept: Kept, anew: Task | None = None) -> Kept:
        """Return what a task makes of what was kept; where a look at the blocks is dear, not before it is needed.

        ``anew`` is a task that makes the same of the blocks alone.
        """
        return self.run(task, *kept)[1]

    def total_of_large(self, task: Task, rows: int, size: int, *kept: Kept) -> Any:
        """Return the sum over all blocks of a task whose results are so large that it should see many rows at a time.

        They hold about ``size`` numbers; ``rows`` says how many rows are worth one.
        """
        return self.total(task, *kept)

    @abstractmethod
    def fits(self, kept: Kept) -> bool:
        """Return whether something may have been kept with these blocks, and not with others."""

    def narrowed(self) -> Blocks:
        """Return the rows in single precision, if workers can have a copy of them."""
        return self

    def scaling(self, sums: tuple[Any, ...]) -> Centred:
        """Return the curvature that ``MeanGram`` has added up, whose factors are found where that is quick."""
        return Centred.of(*sums)

    def parameters(self, theta: ArrayLike) -> Any:
        """Return parameters as an array, the same if they are one; on a device perhaps as a tensor that stays there."""
        return np.asarray(theta, dtype=np.float64)

    def placed(self, vector: Array) -> Any:
        """Return a vector of parameters where it is best kept from step to step."""
        return vector

    def cut(self, rows: int) -> Blocks:
        """Return the rows so many at a time, if workers can work on them so."""
        return self


class Reducer(ABC):
    """A place where blocks can be worked on."""

    @abstractmethod
    def spread(self, data: Data, rows: int) -> Blocks:
        """Return the data in blocks of at most so many rows."""

    def of_steps(self) -> Reducer:
        """Return the same for an objective that nobody but a solver sees, whose points may stay where rows are."""
        return self


@dataclass(frozen=True)
class Threads(Reducer):
    """In this process, by so many threads. Sums are the same to the last bit, however many there are.

    Parameters
    ----------
    threads : int
        One works alone.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> model, data = majorant.Multinomial(8), majorant.Labelled(X, y)
    >>> one, two = (majorant.Objective(model, data, ridge=1.0, reducer=majorant.Threads(n)) for n in (1, 2))
    >>> one.value([0.0] * one.size) == two.value([0.0] * two.size)
    True
    """

    threads: int = 1

    def __post_init__(self) -> None:
        whole("threads", self.threads, least=1)

    def spread(self, data: Data, rows: int) -> Blocks:
        """Return blocks of so many rows."""
        rows = max(rows, 1)
        if data.whole is not None:
            return LocalBlocks.of([data], rows, self.threads)
        return LocalBlocks(data.blocks(rows), self.threads, outlines=data.outlines(rows))


@dataclass(frozen=True, eq=False)
class Merging:
    """How blocks of so many rows, cut from larger ones, can be made larger again."""

    whole: Sequence[Data]
    rows: int

    def blocks(self, rows: int) -> list[InMemory]:
        """Return blocks of at most so many rows."""
        return [part for each in self.whole for part in each.blocks(rows)]

    def merged(self, rows: int, kept: tuple[Kept, ...]) -> tuple[list[InMemory], tuple[Kept, ...]]:
        """Return blocks of about so many rows, and what was kept with them, side by side."""
        many = max(rows // self.rows, 1)
        if many == 1:
            return self.blocks(self.rows), kept
        return self.blocks(many * self.rows), tuple([self._joined(each, many) for each in kept])

    def _joined(self, kept: Kept, many: int) -> Kept:
        """Return what was kept with some blocks at a time, all of them from the same larger one."""
        left = iter(kept)
        apart = [list(islice(left, max(-(-len(each) // self.rows), 1))) for each in self.whole]
        return [np.concatenate(some[k : k + many], axis=-1) for some in apart for k in range(0, len(some), many)]


class LocalBlocks(Blocks):
    """Blocks that are read here, one after the other, or by threads that each work on one at a time."""

    def __init__(
        self,
        blocks: Iterable[Any],
        threads: int = 1,
        merging: Merging | None = None,
        outlines: Iterable[Any] | None = None,  # of blocks whose rows have to be read
    ) -> None:
        self._blocks, self._threads, self._merging, self._outlines = blocks, threads, merging, outlines
        self._count = -1  # of blocks, once they have been gone through
        self._is_one = isinstance(blocks, tuple) and len(blocks) == 1 and outlines is None  # small data, in memory

    @classmethod
    def of(cls, whole: Sequence[Data], rows: int | None, threads: int) -> LocalBlocks:
        """Return blocks in memory, cut to at most so many rows, or as they are."""
        if rows is None:
            return cls(whole, threads)
        merging = Merging(whole, rows)
        return cls(tuple(merging.blocks(rows)), threads, merging)

    def keep(self, numbers: float) -> bool:
        """Return whether rows are in memory, beside which this is little, or it is little anyway."""
        return self._outlines is None or numbers <= KEPT

    def run(self, task: Task, *kept: Kept) -> tuple[Any, Kept]:
        """Return the sum over all blocks, and what was kept with them."""
        task, kept = found_again(task, kept)
        if self._is_one:
            self._count = 1
            total, piece = task(self._blocks[0], *[each[0] for each in kept])  # type: ignore[index]
            return total, [piece]
        total, pieces = _run(task, self._those(task), kept, self._among(task, kept))
        self._count = len(pieces)
        return total, pieces

    def total_of_large(self, task: Task, rows: int, size: int, *kept: Kept) -> Any:
        """Return a sum of so many numbers: of large blocks, one after the other where it is larger or they are few.

        Threads then share what is done with a block, as far as that can be shared.
        """
        if self._is_one or self._merging is None or self._outlines is not None:
            return self.run(task, *kept)[0]
        task, kept = self._with_found(*found_again(task, kept))
        blocks, kept = self._merging.merged(rows, kept)
        apart = size <= LARGE and not _fewer(blocks, -(-self._threads // ENOUGH))
        return _run(task, blocks, kept, self._threads if apart else 1)[0]

    def _with_found(self, task: Task, kept: tuple[Kept, ...]) -> tuple[Task, tuple[Kept, ...]]:
        """Return a task without what it would have to find first, and that, found block by block."""
        if not isinstance(task, Finding):
            return task, kept
        pieces = self.run(Finding(_keep, task.makers), *kept)[1]
        return task.task, tuple([list(each) for each in zip(*pieces, strict=True)])

    def fits(self, kept: Kept) -> bool:
        """Return whether there is as much kept as there are blocks."""
        return not isinstance(kept, Again) and len(kept) == self._count

    def _among(self, task: Task, kept: tuple[Kept, ...]) -> int:
        """Return how many threads a task is worth."""
        if self._threads == 1 or reads_rows(task):
            return self._threads
        if not kept:
            return 1
        first = kept[0][0][0] if isinstance(kept[0][0], tuple) else kept[0][0]
        return min(self._threads, max(np.size(first) * len(kept[0]) // SCORES, 1))

    def _those(self, task: Task) -> Iterable[Any]:
        """Return the blocks, without their rows if these would have to be read and nobody looks at them."""
        return self._blocks if self._outlines is None or reads_rows(task) else self._outlines


def reads_rows(task: Task) -> bool:
    """Return whether a task looks at rows."""
    return bool(getattr(task, "reads_rows", True))


def found_again(task: Task, kept: tuple[Kept, ...]) -> tuple[Task, tuple[Kept, ...]]:
    """Return a task that finds what was not kept before it does its own, and what was."""
    if Again not in map(type, kept):
        return task, kept
    makers = tuple((each.task, len(each.kept)) if isinstance(each, Again) else None for each in kept)
    lists = (each.kept if isinstance(each, Again) else (each,) for each in kept)
    return Finding(task, makers), tuple(each for some in lists for each in some)


@dataclass(frozen=True, eq=False)
class Finding:
    """A task that is given what others find, each of so much that was kept; None stands for what was kept itself."""

    task: Task
    makers: tuple[tuple[Task, int] | None, ...]

    @property
    def reads_rows(self) -> bool:
        """Whether any of them looks at rows."""
        return reads_rows(self.task) or any(reads_rows(each[0]) for each in self.makers if each is not None)

    def __call__(self, block: Any, *kept: Any) -> tuple[Any, Any]:
        """Return what the task does."""
        left = iter(kept)

        def found(make: tuple[Task, int] | None) -> Any:
            return next(left) if make is None else make[0](block, *islice(left, make[1]))[1]

        return self.task(block, *[found(make) for make in self.makers])


def _keep(block: Any, *found: Any) -> tuple[None, tuple[Any, ...]]:
    return None, found


def _run(task: Task, blocks: Iterable[Any], kept: tuple[Kept, ...], threads: int) -> tuple[Any, Kept]:
    """Return the sum over blocks, and what was kept with each."""
    if _fewer(blocks, 2):
        results = [task(*some) for some in zip(blocks, *kept, strict=True)]
        return results[0][0], [results[0][1]]
    total, pieces = PairwiseSum(ours=getattr(task, "gives_away", False)), {}

    def work_on(numbered: tuple[int, tuple[Any, ...]]) -> None:
        number, some = numbered
        found, pieces[number] = task(*some)
        total.add(number, found)

    for_each(work_on, enumerate(zip(blocks, *kept, strict=True)), threads)
    return total.value(), [pieces[number] for number in range(len(pieces))]


def _fewer(blocks: Iterable[Any], than: int) -> bool:
    """Return whether there are known to be fewer blocks."""
    return isinstance(blocks, Sized) and len(blocks) < than
