"""Rows of data, and sums of functions over them.

A model is a set of functions of one block of rows, such as ``model.loss_and_gradient(θ, block)``. :class:`Blocks` sum
such a function over all blocks of the data, wherever they are:

====================================  ==================================================================
``blocks.total(f, *cached)``          Σ_b f(values of b, b) over all blocks b
``blocks.map(f, *cached)``            the values f(values of b, b), which stay with their blocks
``blocks.run(f, *cached)``            of an f that returns (term, value): the sum of terms, and the values
====================================  ==================================================================

Values that stay with blocks (scores, residuals) are *cached*. Nobody but the blocks looks into them: they are a list
with one value for each block in this process, a reference where workers hold the rows, or a :class:`Recompute`, which
computes them whenever they are needed. A value is handed to later functions together with its block, and never travels.

====================================  ==================================================================
:class:`OneBlock`                     small data in memory: a sum is one call of the function
:class:`LocalBlocks`                  several blocks in this process, shared by threads, perhaps read from files
``core.remote``                       blocks of an executor's processes, or of the workers of a Dask cluster
``device.blocks``                     blocks of tensors on a GPU
====================================  ==================================================================

Terms are added in the order of a binary tree of blocks: sums have the same bits for any number of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count, islice
from threading import Lock
from types import MethodType
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from majorant.core.checks import Array, whole
from majorant.core.structured import Kronecker, balanced
from majorant.core.threads import for_each

# A function of cached values of a block, if there are any, and of the block, which comes last; it can be pickled.
Function: TypeAlias = Callable[..., Any]
# Values that stay with blocks.
Cached: TypeAlias = Any
# What becomes of the result of a function: it is a term of the sum, a value to cache, or a pair of both.
Gives: TypeAlias = Literal["sum", "cached", "both"]

F = TypeVar("F", bound=Function)


class Blocks(ABC):
    """The blocks of some data, and sums over them."""

    # Nanoseconds that pass before any work on blocks has begun; and whether workers hold the rows in memory.
    delay: ClassVar[float] = 0.0
    holds_rows: ClassVar[bool] = False
    # Whether a fit may stop where its metric predicts that nothing is left to gain.
    estimates: ClassVar[bool] = False

    @abstractmethod
    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        """Return the sum of terms over all blocks, and the values that stay with them.

        ``recover`` is a function of a block alone that computes the value again where it was lost with a worker.
        """

    def total(self, function: Function, *cached: Cached) -> Any:
        """Return the sum of the results of a function over all blocks."""
        return self.run(function, *cached, gives="sum")[0]

    def map(self, function: Function, *cached: Cached, recover: Function | None = None) -> Cached:
        """Return the results of a function as values that stay with the blocks."""
        return self.run(function, *cached, gives="cached", recover=recover)[1]

    def total_of_large(self, function: Function, rows: int, size: int, *cached: Cached) -> Any:
        """Return the sum of results so large that the function should be called with many rows at a time.

        A result has about ``size`` numbers, and is worth the work of ``rows`` rows.
        """
        return self.total(function, *cached)

    def has_room(self, numbers: float) -> bool:
        """Return whether as many numbers can be cached with the blocks, in all."""
        return True

    @abstractmethod
    def fits(self, cached: Cached) -> bool:
        """Return whether values may belong to these blocks rather than to others."""

    # --- on a device ----------------------------------------------------------------------------------------

    def kronecker(self, classes: Any, features: Any) -> Kronecker:
        """Return C ⊗ G, whose factors are computed where that is quick."""
        return Kronecker(*balanced(classes, features), majorizes=False)

    def parameters(self, theta: ArrayLike) -> Any:
        """Return parameters as an array, the same if they are one; on a device perhaps as a tensor that stays there."""
        return np.asarray(theta, dtype=np.float64)

    def placed(self, vector: Array) -> Any:
        """Return a vector of parameters where it is best kept from step to step."""
        return vector


@dataclass(frozen=True, eq=False)
class Recompute:
    """Values that are not cached: a function computes them, of cached values and blocks, whenever they are needed."""

    function: Function
    cached: tuple[Cached, ...] = ()
    recover: Function | None = None  # computes them of a block alone


def value_of(cached: Cached, number: int, block: Any) -> Any:
    """Return the value of one block, given its number."""
    if isinstance(cached, Recompute):
        return cached.function(*[value_of(part, number, block) for part in cached.cached], block)
    return cached[number]


def split(result: Any, gives: Gives) -> tuple[Any, Any]:
    """Return the term and the value that a function has returned."""
    return result if gives == "both" else (result, None) if gives == "sum" else (None, result)


def labels_only(function: F) -> F:
    """Mark a function of labels, weights and cached values alone, or a method and all that override it.

    Rows that are not in memory are then not read for it.
    """
    function.reads_rows = False  # type: ignore[attr-defined]
    return function


def reads_rows(function: Function, cached: Iterable[Cached] = ()) -> bool:
    """Return whether a function, or the computation of a value that it is given, reads rows."""
    if any(reads_rows(part.function, part.cached) for part in cached if isinstance(part, Recompute)):
        return True
    while isinstance(function, partial):
        function = function.func
    if not isinstance(function, MethodType):
        return bool(getattr(function, "reads_rows", True))
    versions = (vars(base).get(function.__name__) for base in type(function.__self__).__mro__)
    return all(getattr(version, "reads_rows", True) for version in versions)


def widened(function: Function, *values_and_block: Any) -> Any:
    """Return the result of a function for a block in double precision."""
    *values, block = values_and_block
    return function(*values, block.widened())


# --- blocks in this process ---------------------------------------------------------------------------------


class OneBlock(Blocks):
    """All rows as one block in memory."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        if gives == "sum":
            return self.total(function, *cached), [None]
        if gives == "cached":
            return None, self.map(function, *cached)
        block = self._block
        term, value = function(*[c[0] if isinstance(c, list) else value_of(c, 0, block) for c in cached], block)
        return term, [value]

    def total(self, function: Function, *cached: Cached) -> Any:
        block = self._block
        return function(*[c[0] if isinstance(c, list) else value_of(c, 0, block) for c in cached], block)

    def total_of_large(self, function: Function, rows: int, size: int, *cached: Cached) -> Any:
        block = self._block
        return function(*[c[0] if isinstance(c, list) else value_of(c, 0, block) for c in cached], block)

    def map(self, function: Function, *cached: Cached, recover: Function | None = None) -> Cached:
        block = self._block
        return [function(*[c[0] if isinstance(c, list) else value_of(c, 0, block) for c in cached], block)]

    def fits(self, cached: Cached) -> bool:
        return isinstance(cached, list) and len(cached) == 1


# Numbers that are cached with blocks of rows which are not in memory.
CACHE = 2**25


class LocalBlocks(Blocks):
    """Blocks in this process, one after the other, or by threads that each work on one at a time.

    Parameters
    ----------
    blocks : iterable
        Which can be iterated over again and again.
    threads : int
    outlines : iterable, optional
        The same blocks with labels and weights alone, where rows have to be read.
    cut_from : (sequence of InMemory, int), optional
        The data that blocks were cut from, and to how many rows.
    """

    def __init__(
        self,
        blocks: Iterable[Any],
        threads: int = 1,
        outlines: Iterable[Any] | None = None,
        cut_from: tuple[Sequence[Data], int] | None = None,
    ) -> None:
        self._blocks, self._threads, self._outlines, self._cut_from = blocks, threads, outlines, cut_from
        self._count = -1  # of blocks, once they have been gone through

    @classmethod
    def cut(cls, data: Sequence[Data], rows: int, threads: int) -> LocalBlocks:
        """Return data in memory, in blocks of at most so many rows."""
        return cls(tuple([block for part in data for block in part.blocks(rows)]), threads, cut_from=(data, rows))

    def has_room(self, numbers: float) -> bool:
        return self._outlines is None or numbers <= CACHE  # beside rows in memory cached numbers are few

    def fits(self, cached: Cached) -> bool:
        return isinstance(cached, list) and len(cached) == self._count

    def run(
        self, function: Function, *cached: Cached, gives: Gives = "both", recover: Function | None = None
    ) -> tuple[Any, Cached]:
        blocks, threads = self._blocks, self._threads
        if (self._outlines is not None or threads > 1) and not reads_rows(function, cached):
            blocks = self._blocks if self._outlines is None else self._outlines
            values = cached[0] if cached and isinstance(cached[0], list) else []
            scores = sum(np.size(value[0] if isinstance(value, tuple) else value) for value in values)
            # Scores for each thread of a function of labels alone: fewer take less time than a thread takes to begin.
            threads = min(threads, max(scores // (2**17), 1))
        total, values = _sum(function, blocks, cached, threads, gives)
        self._count = len(values)
        return total, values

    def total_of_large(self, function: Function, rows: int, size: int, *cached: Cached) -> Any:
        if self._cut_from is None:
            return self.total(function, *cached)
        cached = tuple([self.map(c.function, *c.cached) if isinstance(c, Recompute) else c for c in cached])
        data, few = self._cut_from
        joined, blocks = max(rows // few, 1), self._blocks  # blocks that are worked on as one
        if joined > 1:
            blocks = tuple([block for part in data for block in part.blocks(joined * few)])
            counts = [max(-(-len(part) // few), 1) for part in data]
            cached = tuple([_joined(values, counts, joined) for values in cached])
        # Every thread has a result of its own, if there is memory for that and there are blocks enough. Otherwise
        # blocks come one after the other, and threads share the work inside of each.
        apart = size <= 2**20 and isinstance(blocks, Sized) and 3 * len(blocks) >= self._threads
        return _sum(function, blocks, cached, self._threads if apart else 1, "sum")[0]


def _joined(values: list[Any], counts: Sequence[int], joined: int) -> list[Any]:
    """Return values of ``joined`` neighbouring blocks as one, given how many blocks each part of the data has."""
    left = iter(values)
    parts = [list(islice(left, blocks)) for blocks in counts]
    return [np.concatenate(part[k : k + joined], axis=-1) for part in parts for k in range(0, len(part), joined)]


def _sum(
    function: Function, blocks: Iterable[Any], cached: tuple[Cached, ...], threads: int, gives: Gives
) -> tuple[Any, list[Any]]:
    """Return the sum of terms over blocks, and the values of all."""
    total, kept = PairwiseSum(), dict[int, Any]()

    def work_on(numbered: tuple[int, Any]) -> None:
        number, block = numbered
        result = function(*[value_of(values, number, block) for values in cached], block)
        term, kept[number] = split(result, gives)
        total.add(number, term)

    for_each(work_on, enumerate(blocks), min(threads, len(blocks)) if isinstance(blocks, Sized) else threads)
    return total.value(), [kept[number] for number in range(len(kept))]


# Numbers in terms that wait until all others are there.
WAITING = 2**20


class PairwiseSum:
    """A sum of numbered terms in the order of a binary tree: the same to the last bit in whatever order they come.

    Terms wait for the others as long as they are small: NumPy lets go of the interpreter while it adds arrays, and a
    thread would wait to get it back. Partial sums of several terms are added to in place.
    """

    def __init__(self) -> None:
        self._waiting, self._room = dict[int, Any](), WAITING
        self._partial: dict[tuple[int, int], Any] = {}  # sums of 2^level terms, by level and number
        self._lock = Lock()

    def add(self, number: int, term: Any) -> None:
        """Add a term, at once if it is large."""
        self._room -= _size(term)
        if self._room >= 0:
            self._waiting[number] = term
        else:
            self._merge(number, term)

    def value(self) -> Any:
        """Return the sum: larger parts stand before smaller ones."""
        for number in sorted(self._waiting):
            self._merge(number, self._waiting.pop(number))
        (_, (total,)), *larger = sorted(self._partial.items())
        for _, (part,) in larger:
            total = add(part, total, in_place=True)
        return total

    def _merge(self, number: int, term: Any) -> None:
        """Add a term to its neighbour in the tree, and the sum to its own, as far as neighbours are there."""
        for level in count():
            with self._lock:
                other = self._partial.pop((level, number ^ 1), None)
                if other is None:
                    self._partial[level, number] = (term,)
                    return
            left, right = (other[0], term) if number & 1 else (term, other[0])
            term, number = add(left, right, in_place=level > 0), number >> 1


def _size(term: Any) -> int:
    """Return how many numbers a term has; terms that are neither numbers nor arrays are taken to be large."""
    if isinstance(term, tuple):
        return sum(map(_size, term))
    if isinstance(term, np.ndarray):
        return term.size
    return 1 if isinstance(term, float | int) or term is None else WAITING + 1


def add(total: Any, term: Any, *, in_place: bool) -> Any:
    """Return the sum of two terms; arrays of the first may be added to in place."""
    if isinstance(total, tuple):
        return tuple(add(a, b, in_place=in_place) for a, b in zip(total, term, strict=True))
    if in_place and isinstance(total, np.ndarray):
        total += term
        return total
    return None if total is None or term is None else total + term


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


def least(function: Function, *values_and_block: Any) -> Least:
    """Return the number that a function returns, of which the least over all blocks is wanted."""
    return Least(float(function(*values_and_block)))


def most(function: Function, *values_and_block: Any) -> Most:
    """Return the number that a function returns, of which the largest over all blocks is wanted."""
    return Most(float(function(*values_and_block)))


# --- where blocks are ---------------------------------------------------------------------------------------


class Reducer(ABC):
    """A place where blocks can be worked on."""

    @abstractmethod
    def spread(self, data: Data, rows: int) -> Blocks:
        """Return the data in blocks of at most so many rows."""

    def of_steps(self) -> Reducer:
        """Return the reducer for the steps of a solver, which keeps parameters and gradients where rows are."""
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
        rows = max(rows, 1)
        blocks = data.blocks(rows)
        if isinstance(blocks, Blocks):  # workers hold them
            return blocks
        if data.whole is None:
            return LocalBlocks(blocks, self.threads, outlines=data.outlines(rows))
        blocks = tuple(blocks)
        return OneBlock(*blocks) if len(blocks) == 1 else LocalBlocks(blocks, self.threads, cut_from=([data], rows))


# --- data ---------------------------------------------------------------------------------------------------

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


@lru_cache(maxsize=4)
def _random_order(rows: int, key: tuple[int, ...], replacement: bool) -> Array:
    rng = np.random.default_rng(list(key))
    order = rng.integers(rows, size=rows) if replacement else rng.permutation(rows)
    order.flags.writeable = False  # it is shared
    return order


class Data(Protocol):
    """The rows of an objective. Blocks and samples are :class:`InMemory`, whatever the data are."""

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
        """Return the same blocks for functions of labels and weights alone; their rows are not read."""

    def sample(self, rows: int, seed: int) -> InMemory:
        """Return so many rows drawn at random without replacement, all of them if there are no more."""

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[InMemory]:
        """Yield the rows from ``begin`` to ``end`` of a pass, in order, a multiple of so many at a time."""

    def narrowed(self) -> Data:
        """Return the rows in single precision, if a copy of them can be had."""


class InMemory(ABC):
    """Rows in the memory of this process. A subclass says how many there are and how to take a part of them."""

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
        """Return the rows in blocks, all at once: they are only views, and may cache what is computed from them."""
        return (self,) if rows >= len(self) else tuple(self.batches(rows))

    def outlines(self, rows: int) -> tuple[Self, ...]:
        """Return the same blocks: their rows are in memory anyway."""
        return self.blocks(rows)

    def sample(self, rows: int, seed: int) -> Self:
        """Return so many rows drawn at random without replacement, in the order in which they stand."""
        if rows >= len(self):
            return self
        return self.take(np.sort(np.random.default_rng(seed).permutation(len(self))[:rows]))

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Self]:
        """Yield the rows from ``begin`` to ``end`` of a pass, in order, a multiple of so many at a time."""
        rows, size = order.of_pass(passes, len(self))[begin:end], max(CHUNK // multiple, 1) * multiple
        return (self.take(rows[start : start + size]) for start in range(0, len(rows), size))
