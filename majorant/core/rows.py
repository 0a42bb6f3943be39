"""Rows of data, and the one way to sum over them: block by block, in memory, by threads, from files or with workers.

A model says what is found in a block (``model.lift``, say); :class:`Blocks` add that up over all of them, or keep it
with each (scores, residuals), wherever the blocks are. What is kept never travels. Sums are added in the order of a
binary tree of blocks, so that they are the same to the last bit whoever adds them.
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


@lru_cache(maxsize=4)
def _random_order(rows: int, key: tuple[int, ...], replacement: bool) -> Array:
    rng = np.random.default_rng(list(key))
    order = rng.integers(rows, size=rows) if replacement else rng.permutation(rows)
    order.flags.writeable = False  # it is shared
    return order


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
        """Return the same blocks for functions of labels and weights alone; rows need not be there."""

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
        """Return the rows in blocks, all at once: they are only views, and may remember what is found out of them."""
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


# --- sums ---------------------------------------------------------------------------------------------------

# Numbers of a term that is added up only when all others are there; and of how many others.
SMALL, FEW = 2**15, 64


class PairwiseSum:
    """A sum of numbered terms, added in the order of a binary tree: the same whoever adds them, and when.

    Small terms wait until the others are there: threads that add arrays would wait for the interpreter each time. Sums
    of several terms are added to in place; so are terms, if they are ``ours``: where there are many parameters, one
    vector less is a hundredth of all memory.
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
    return None if total is None or found is None else total + found


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


def least(function: Function, *kept_and_block: Any) -> Least:
    """Return the number that a function returns, of which the least over all blocks is wanted."""
    return Least(float(function(*kept_and_block)))


def most(function: Function, *kept_and_block: Any) -> Most:
    """Return the number that a function returns, of which the largest over all blocks is wanted."""
    return Most(float(function(*kept_and_block)))


# --- functions of blocks ------------------------------------------------------------------------------------

# A function of what was kept with a block, if anything, and of the block, which comes last; it can be pickled.
Function: TypeAlias = Callable[..., Any]
# What a function returns: what adds up, what is to be kept with the block, or a pair of both.
Gives: TypeAlias = Literal["sum", "kept", "both"]
# What was kept with every block; only blocks know what is in it.
Kept: TypeAlias = Any

F = TypeVar("F", bound=Function)


def without_rows(function: F) -> F:
    """Mark a function, or a method and all that override it, that looks at labels, weights and what was kept alone.

    Rows that are not in memory are then not read for it.
    """
    function.reads_rows = False  # type: ignore[attr-defined]
    return function


def giving_away(function: F) -> F:
    """Mark a function whose arrays are nobody else's, so that those of other blocks may be added to them."""
    function.gives_away = True  # type: ignore[attr-defined]
    return function


def reads_rows(function: Function) -> bool:
    """Return whether a function looks at rows."""
    return bool(_mark(function, "reads_rows", True))


def _mark(function: Function, name: str, default: bool) -> Any:
    """Return a mark of a function, of one whose first arguments are given, or of a method or what it overrides."""
    while isinstance(function, partial):
        function = function.func
    if not isinstance(function, MethodType):
        return getattr(function, name, default)
    versions = (vars(base).get(function.__name__) for base in type(function.__self__).__mro__)
    marks = (getattr(version, name, None) for version in versions)
    return next((mark for mark in marks if mark is not None), default)


def widened(function: Function, *kept_and_block: Any) -> Any:
    """Return what a function makes of a block in double precision."""
    *kept, block = kept_and_block
    return function(*kept, block.widened())


def divided(gives: Gives, result: Any) -> Any:
    """Return what adds up, and what is kept."""
    return result if gives == "both" else (result, None) if gives == "sum" else (None, result)


@dataclass(frozen=True, eq=False)
class Again:
    """What is not kept with the blocks: a function finds it, of what is and of them, whenever it is needed.

    Where that was lost, ``anew`` finds it of the blocks alone.
    """

    function: Function
    kept: tuple[Kept, ...] = ()
    anew: Function | None = None


@dataclass(frozen=True, eq=False)
class Finding:
    """A function that is given what others find, each of so much that was kept; None stands for what was kept."""

    function: Function
    makers: tuple[tuple[Function, int] | None, ...]

    @property
    def reads_rows(self) -> bool:
        """Whether any of them looks at rows."""
        return reads_rows(self.function) or any(reads_rows(make[0]) for make in self.makers if make is not None)

    def found(self, *kept_and_block: Any) -> list[Any]:
        """Return what the others find."""
        *kept, block = kept_and_block
        left = iter(kept)
        return [next(left) if make is None else make[0](*islice(left, make[1]), block) for make in self.makers]

    def __call__(self, *kept_and_block: Any) -> Any:
        return self.function(*self.found(*kept_and_block), kept_and_block[-1])


def found_again(function: Function, kept: tuple[Kept, ...]) -> tuple[Function, tuple[Kept, ...]]:
    """Return a function that finds what was not kept before it does its own, and what was."""
    if Again not in map(type, kept):
        return function, kept
    makers = tuple((piece.function, len(piece.kept)) if isinstance(piece, Again) else None for piece in kept)
    lists = (piece.kept if isinstance(piece, Again) else (piece,) for piece in kept)
    return Finding(function, makers), tuple(piece for pieces in lists for piece in pieces)


# --- blocks -------------------------------------------------------------------------------------------------


class Blocks(ABC):
    """The blocks of data, wherever they are."""

    # Nanoseconds that pass before anybody has begun to work on them; and whether workers hold them in memory.
    delay: ClassVar[float] = 0.0
    holds_rows: ClassVar[bool] = False
    # Whether a fit may stop where its metric says that there is nothing left to gain.
    estimates: ClassVar[bool] = False

    @abstractmethod
    def run(
        self, function: Function, *kept: Kept, gives: Gives = "both", anew: Function | None = None
    ) -> tuple[Any, Kept]:
        """Return the sum over all blocks of what a function gives to it, and what was kept with them.

        ``anew`` is a function that finds what is kept of the blocks alone, without what was kept before.
        """

    def total(self, function: Function, *kept: Kept) -> Any:
        """Return the sum of what a function returns, over all blocks."""
        return self.run(function, *kept, gives="sum")[0]

    def map(self, function: Function, *kept: Kept, anew: Function | None = None) -> Kept:
        """Return what a function makes of every block, kept there; with workers it is found when it is needed."""
        return self.run(function, *kept, gives="kept", anew=anew)[1]

    def total_of_large(self, function: Function, rows: int, size: int, *kept: Kept) -> Any:
        """Return the sum of results so large that the function should see many rows at a time.

        They hold about ``size`` numbers; ``rows`` says how many rows are worth one.
        """
        return self.total(function, *kept)

    def has_room(self, numbers: float) -> bool:
        """Return whether so many numbers can be kept with the blocks, all together."""
        return True

    @abstractmethod
    def fits(self, kept: Kept) -> bool:
        """Return whether something may have been kept with these blocks, and not with others."""

    # --- on a device ----------------------------------------------------------------------------------------

    def scaling(self, sums: tuple[Any, ...]) -> Centred:
        """Return the curvature that sums of ``mean_gram`` make, whose factors are found where that is quick."""
        return Centred.of(*sums)

    def parameters(self, theta: ArrayLike) -> Any:
        """Return parameters as an array, the same if they are one; on a device perhaps as a tensor that stays there."""
        return np.asarray(theta, dtype=np.float64)

    def placed(self, vector: Array) -> Any:
        """Return a vector of parameters where it is best kept from step to step."""
        return vector


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
        rows = max(rows, 1)
        if data.whole is not None:
            return LocalBlocks.cut([data], rows, self.threads)
        return LocalBlocks(data.blocks(rows), self.threads, outlines=data.outlines(rows))


# Sums of more numbers are not found by several threads at once, each with one of its own.
LARGE = 2**20
# Nor are those of fewer blocks than a third of the threads: they share what is done with a block instead.
ENOUGH = 3
# Scores for each thread of a function that looks at no rows: fewer take less time than threads take to begin.
SCORES = 2**17
# Numbers that are kept with blocks of rows which are not in memory.
KEPT = 2**25


class LocalBlocks(Blocks):
    """Blocks that are read here, one after the other, or by threads that each work on one at a time.

    Parameters
    ----------
    blocks : iterable
        Which can be iterated over again and again.
    threads : int
    outlines : iterable, optional
        The same blocks without their rows, where these have to be read.
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
        self._is_one = isinstance(blocks, tuple) and len(blocks) == 1 and outlines is None  # small data, in memory

    @classmethod
    def cut(cls, data: Sequence[Data], rows: int, threads: int) -> LocalBlocks:
        """Return data in memory, in blocks of at most so many rows."""
        return cls(tuple([part for some in data for part in some.blocks(rows)]), threads, cut_from=(data, rows))

    def has_room(self, numbers: float) -> bool:
        return self._outlines is None or numbers <= KEPT  # rows are in memory, beside which this is little

    def fits(self, kept: Kept) -> bool:
        return not isinstance(kept, Again) and len(kept) == self._count

    def run(
        self, function: Function, *kept: Kept, gives: Gives = "both", anew: Function | None = None
    ) -> tuple[Any, Kept]:
        function, kept = found_again(function, kept)
        if self._is_one:
            self._count = 1
            found = function(*[pieces[0] for pieces in kept], self._blocks[0])  # type: ignore[index]
            total, piece = divided(gives, found)
            return total, [piece]
        blocks, threads = self._blocks, self._threads
        if (self._outlines is not None or threads > 1) and not reads_rows(function):
            blocks = self._blocks if self._outlines is None else self._outlines
            first = kept[0][0] if kept else 0.0
            scores = np.size(first[0] if isinstance(first, tuple) else first) * len(kept[0]) if kept else 0
            threads = min(threads, max(scores // SCORES, 1))
        total, pieces = _summed(function, blocks, kept, threads, gives)
        self._count = len(pieces)
        return total, pieces

    def total_of_large(self, function: Function, rows: int, size: int, *kept: Kept) -> Any:
        """Return a sum of large results: of larger blocks, one after the other where results are huge or blocks few.

        Threads then share what is done with a block, as far as that can be shared.
        """
        if self._is_one or self._cut_from is None:
            return self.total(function, *kept)
        function, kept = found_again(function, kept)
        if isinstance(function, Finding):
            pieces = self.run(function.found, *kept, gives="kept")[1]
            function, kept = function.function, tuple([list(column) for column in zip(*pieces, strict=True)])
        data, few = self._cut_from
        many, blocks = max(rows // few, 1), self._blocks
        if many > 1:
            blocks = tuple([part for some in data for part in some.blocks(many * few)])
            kept = tuple([_joined(pieces, [-(-len(some) // few) for some in data], many) for pieces in kept])
        apart = size <= LARGE and not _fewer(blocks, -(-self._threads // ENOUGH))
        return _summed(function, blocks, kept, self._threads if apart else 1, "sum")[0]


def _summed(
    function: Function, blocks: Iterable[Any], kept: tuple[Kept, ...], threads: int, gives: Gives
) -> tuple[Any, Kept]:
    """Return the sum over blocks, and what was kept with each."""
    if _fewer(blocks, 2):
        total, piece = divided(gives, next(function(*some) for some in zip(*kept, blocks, strict=True)))
        return total, [piece]
    total, pieces = PairwiseSum(ours=bool(_mark(function, "gives_away", False))), {}

    def work_on(numbered: tuple[int, tuple[Any, ...]]) -> None:
        number, some = numbered
        found, pieces[number] = divided(gives, function(*some))
        total.add(number, found)

    for_each(work_on, enumerate(zip(*kept, blocks, strict=True)), threads)
    return total.value(), [pieces[number] for number in range(len(pieces))]


def _joined(pieces: Kept, counts: Sequence[int], many: int) -> Kept:
    """Return what was kept with so many blocks at a time, all of them cut from the same data."""
    left = iter(pieces)
    apart = [list(islice(left, max(blocks, 1))) for blocks in counts]
    return [np.concatenate(some[k : k + many], axis=-1) for some in apart for k in range(0, len(some), many)]


def _fewer(blocks: Iterable[Any], than: int) -> bool:
    """Return whether there are known to be fewer blocks."""
    return isinstance(blocks, Sized) and len(blocks) < than
