"""Threads of this process: how many share the work at hand, and how they share it.

One thread calls BLAS at a time where several share work by blocks of rows (:func:`sharing`); where one large product of
matrices is all there is to do, BLAS gets them all (:func:`all_for_blas`). Who works for others does not share again.

Large arrays that come and go at every step: within a fit their memory is used again.

The system hands out fresh memory page by page, each filled with zeros first, which takes longer than most of what is
written there.

What is asked of vectors at every step: NumPy's own functions take longer than a small step over it.

Vectors are arrays, or, on a device, tensors: what is asked of one is found where it is.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from itertools import pairwise
from math import isfinite, prod, sqrt
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from majorant.core.checks import Array

T = TypeVar("T")
U = TypeVar("U")

_THREADS: ContextVar[int] = ContextVar("threads", default=1)
_OF_BLAS: ContextVar[int | None] = ContextVar("of_blas", default=None)  # threads, if that was limited here
_pools: dict[int, ThreadPoolExecutor] = {}  # by process: threads of a parent do not come along when it is forked


def threads() -> int:
    """Return how many threads share what is done here."""
    return _THREADS.get()


@contextmanager
def numerics(threads: int | None) -> Iterator[None]:
    """Let BLAS have so many threads (None leaves them as they are), and overflow be found where it matters.

    Memory of large arrays is used again (``majorant.core.threads``).
    """
    now = _OF_BLAS.get()
    if now is not None and threads in (None, now):  # one of these contexts is entered already
        yield
        return
    blas = nullcontext() if threads in (None, now) else _limited(threads)
    before = _OF_BLAS.set(now if threads is None else threads)
    try:
        with blas, recycling(), np.errstate(over="ignore", invalid="ignore"):
            yield
    finally:
        _OF_BLAS.reset(before)


@contextmanager
def sharing(threads: int) -> Iterator[None]:
    """Let so many threads share work, with one of BLAS each, and overflow be found where it matters."""
    before = _THREADS.set(threads)
    try:
        with numerics(1):
            yield
    finally:
        _THREADS.reset(before)


def all_for_blas() -> AbstractContextManager[Any]:
    """Return a context in which BLAS has all threads that share work here: for one large product or factor."""
    return nullcontext() if threads() == 1 else _limited(threads())


def blas_threads() -> int:
    """Return how many threads BLAS and OpenMP would use here."""
    return min((library.num_threads or 1 for library in _libraries().lib_controllers), default=1)


def for_each(function: Callable[[T], object], items: Iterable[T], among: int | None = None) -> None:
    """Call a function with each item, by all threads that share work here, or among so many.

    Items are taken in order, one at a time, by whoever is free. After an error no more are taken, and it is passed on.
    """
    many = threads() if among is None else among
    if isinstance(items, Sized):
        many = min(many, len(items))
    if many <= 1:
        for item in items:
            function(item)
        return
    left = _Shared(items)

    def work() -> None:
        try:
            for item in left:
                function(item)
        except BaseException:
            left.stop()
            raise

    _together(work, many)


def mapped(function: Callable[[T], U], items: Sequence[T], among: int | None = None) -> list[U]:
    """Return what a function makes of each item, in order, found by all threads that share work here, or so many."""
    if threads() == 1:
        return [function(item) for item in items]
    results: dict[int, U] = {}

    def find(number: int) -> None:
        results[number] = function(items[number])

    for_each(find, range(len(items)), among)
    return [results[number] for number in range(len(items))]


def _together(work: Callable[[], None], threads: int) -> None:
    """Run the same function in so many threads, this one among them."""
    # They treat overflow as this one does.
    helpers = [_pool().submit(copy_context().run, _alone, work) for _ in range(threads - 1)]
    try:
        work()
    finally:  # who has not begun by now has nothing to do
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error


class _Shared(Generic[T]):
    """What is left of some items, which several threads iterate over: each gets some of them."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items, self._lock = iter(items), Lock()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._lock:
            return next(self._items)

    def stop(self) -> None:
        """Leave the rest."""
        with self._lock:
            self._items = iter(())


def even_slices(length: int, least: int) -> list[slice]:
    """Return slices of at least so many items each, a few for each thread that shares work here.

    They depend on how many threads there are: they are for what is done item by item.
    """
    return even_parts(length, 1 if threads() == 1 else max(min(4 * threads(), length // max(least, 1)), 1))


def even_parts(length: int, parts: int) -> list[slice]:
    """Return so many slices, one after the other, about as long as each other."""
    ends = [length * k // parts for k in range(parts + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


def _alone(work: Callable[[], None]) -> None:
    _THREADS.set(1)  # of the copied context
    work()


def _pool() -> ThreadPoolExecutor:
    pool = _pools.get(os.getpid())
    if pool is None:
        _pools.clear()
        # Threads are started as they are needed.
        pool = _pools[os.getpid()] = ThreadPoolExecutor(max(os.cpu_count() or 1, 8), "majorant")
    return pool


def _limited(threads: int) -> AbstractContextManager[Any]:
    if all(each.num_threads == threads for each in _blas().lib_controllers):  # to ask is quicker than to set it anew
        return nullcontext()
    limited: AbstractContextManager[Any] = _blas().limit(limits=threads)
    return limited


@cache
def _blas() -> Any:
    return _libraries().select(user_api="blas")


@cache
def _libraries() -> Any:
    # Looking for the libraries that are loaded takes milliseconds: once is enough.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# Smaller arrays come from memory that the process has anyway.
LARGE = 2**13
# glibc's numbers of what can be set, and how large it lets the first become by itself; the second is twice that.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_FROM_HEAP = 2**25


class Spare:
    """Memory that nobody uses, by its size; shared by the threads of a fit."""

    def __init__(self) -> None:
        self._memory: defaultdict[int, list[Array]] = defaultdict(list)
        self._open = True

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an array whose memory comes back here when it is gone."""
        size = prod(shape) * np.dtype(dtype).itemsize
        return np.asarray(_Lent(self.take(size), self)).view(dtype).reshape(shape)

    def take(self, size: int) -> Array:
        """Return so many bytes."""
        try:
            return self._memory[size].pop()
        except IndexError:
            return np.empty(size, np.uint8)

    def give_back(self, memory: Array) -> None:
        """Keep it for the next who wants as much, unless all is over."""
        if self._open:
            self._memory[len(memory)].append(memory)

    def close(self) -> None:
        """Let go of everything."""
        self._open = False
        self._memory.clear()


_SPARE: ContextVar[Spare | None] = ContextVar("spare", default=None)


@contextmanager
def recycling(spare: Spare | None = None) -> Iterator[None]:
    """Keep the memory of large arrays made by :func:`empty` for the next, until the outermost such context ends.

    What is given keeps it for longer.
    """
    if _SPARE.get() is not None:
        yield
        return
    ours = Spare() if spare is None else spare
    before = _SPARE.set(ours)
    try:
        yield
    finally:
        _SPARE.reset(before)
        if spare is None:
            ours.close()


def empty(shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Return an array of whatever was in memory."""
    spare, numbers = _SPARE.get(), prod(shape)
    if spare is None or numbers < LARGE:
        return np.empty(shape, dtype)
    return spare.empty(shape, dtype)


class _Lent:
    """Memory that goes back when the last array that uses it is gone: each has this as its base, or the base of one."""

    def __init__(self, memory: Array, home: Spare) -> None:
        self._memory, self._home = memory, home
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._home.give_back(self._memory)


@cache
def hold_on_to_pages() -> None:
    """Let this process hold on to up to 64 MB that it has freed, for each thread, as glibc's would by themselves.

    Workers of Dask are told to return memory at once (``MALLOC_TRIM_THRESHOLD_``), and then every array of more than
    128 kB is made of fresh pages: that took a tenth of the CPU of their share of a fit.
    """
    set_to = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_to is not None:
        set_to(M_MMAP_THRESHOLD, LARGEST_FROM_HEAP)
        set_to(M_TRIM_THRESHOLD, 2 * LARGEST_FROM_HEAP)


def norm(v: Array) -> float:
    """Return ‖v‖."""
    return sqrt(float(v @ v))


def here(vector: Any) -> Array:
    """Return a vector as an array."""
    return vector if isinstance(vector, np.ndarray) else np.asarray(vector.cpu())


def beside(vector: Any, like: Any) -> Any:
    """Return a vector as another one is: in its precision, and on its device."""
    if isinstance(like, np.ndarray):
        return here(vector).astype(like.dtype, copy=False)
    return like.new_tensor(vector) if isinstance(vector, np.ndarray) else vector.to(like)


def all_finite(v: Array) -> bool:
    """Return whether every number is finite."""
    return isfinite(float(v @ v)) or bool(np.isfinite(v).all())  # squares may overflow
