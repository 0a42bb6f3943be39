"""Threads, memory and vectors of this process.

**Threads.** How many threads share the work at hand is a context variable (:func:`sharing`). Where work is shared by
blocks of rows, BLAS has one thread for each; for one large product or factor BLAS has them all (:func:`all_for_blas`).
Work inside of shared work is not shared again.

**Memory.** Within a fit the memory of large arrays is used again (:func:`empty`): the system hands out fresh memory
page by page, each filled with zeros first, which takes longer than most of what is written there.

**Vectors** are arrays, or tensors on a device. NumPy's own functions take longer than a small step over them.
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
from typing import Any, TypeVar

import numpy as np

from majorant.core.checks import Array

T = TypeVar("T")
U = TypeVar("U")

# --- threads ------------------------------------------------------------------------------------------------

_THREADS: ContextVar[int] = ContextVar("threads", default=1)
_BLAS_THREADS: ContextVar[int | None] = ContextVar("blas_threads", default=None)  # if they were limited here
_pools: dict[int, ThreadPoolExecutor] = {}  # by process: threads of a parent do not come along when it is forked


def threads() -> int:
    """Return how many threads share the work at hand."""
    return _THREADS.get()


@contextmanager
def numerics(threads: int | None) -> Iterator[None]:
    """Give BLAS so many threads (None leaves them as they are), use memory again, and let numbers overflow silently."""
    now = _BLAS_THREADS.get()
    if now is not None and threads in (None, now):  # one of these contexts is entered already
        yield
        return
    before = _BLAS_THREADS.set(now if threads is None else threads)
    try:
        blas = nullcontext() if threads is None else _limited(threads)
        with blas, recycling(), np.errstate(over="ignore", invalid="ignore"):
            yield
    finally:
        _BLAS_THREADS.reset(before)


@contextmanager
def sharing(threads: int) -> Iterator[None]:
    """Let so many threads share work, with one thread of BLAS each, in the context of :func:`numerics`."""
    before = _THREADS.set(threads)
    try:
        with numerics(1):
            yield
    finally:
        _THREADS.reset(before)


def all_for_blas() -> AbstractContextManager[Any]:
    """Return a context in which BLAS has all threads that share work: for one large product or factor."""
    return nullcontext() if threads() == 1 else _limited(threads())


def _limited(threads: int) -> AbstractContextManager[Any]:
    blas = _libraries("blas")
    if all(library.num_threads == threads for library in blas.lib_controllers):  # quicker than to set it anew
        return nullcontext()
    limited: AbstractContextManager[Any] = blas.limit(limits=threads)
    return limited


def blas_threads() -> int:
    """Return how many threads BLAS and OpenMP would use."""
    return min((library.num_threads or 1 for library in _libraries(None).lib_controllers), default=1)


@cache
def _libraries(user_api: str | None) -> Any:
    if user_api is not None:
        return _libraries(None).select(user_api=user_api)
    # It takes milliseconds to look for the libraries that are loaded: once is enough.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def for_each(function: Callable[[T], object], items: Iterable[T], among: int | None = None) -> None:
    """Call a function with each item, by all threads that share work, or among so many.

    Items are taken in order, one at a time, by the next thread that is free. An error ends that, and is passed on.
    """
    many = threads() if among is None else among
    if isinstance(items, Sized):
        many = min(many, len(items))
    if many <= 1:
        for item in items:
            function(item)
        return
    left, lock, end = iter(items), Lock(), object()
    failed = False

    def work() -> None:
        nonlocal failed
        try:
            while not failed:
                with lock:
                    item: Any = next(left, end)
                if item is end:
                    return
                function(item)
        except BaseException:
            failed = True
            raise

    def work_alone() -> None:
        _THREADS.set(1)  # of the copied context
        work()

    pool = _pools.get(os.getpid())
    if pool is None:
        _pools.clear()
        # Threads are started as they are needed.
        pool = _pools[os.getpid()] = ThreadPoolExecutor(max(os.cpu_count() or 1, 8), "majorant")
    # Helpers treat overflow as this thread does.
    helpers = [pool.submit(copy_context().run, work_alone) for _ in range(many - 1)]
    try:
        work()
    finally:  # helpers that have not begun by now have nothing to do
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error


def mapped(function: Callable[[T], U], items: Sequence[T], among: int | None = None) -> list[U]:
    """Return the results of a function for all items, in order, by all threads that share work, or among so many."""
    if threads() == 1:
        return [function(item) for item in items]
    results: dict[int, U] = {}

    def find(number: int) -> None:
        results[number] = function(items[number])

    for_each(find, range(len(items)), among)
    return [results[number] for number in range(len(items))]


def even_slices(length: int, least: int) -> list[slice]:
    """Return slices of at least so many items each, a few for each thread that shares work.

    Their number depends on that of threads: they are for results that do not depend on slices.
    """
    return even_parts(length, 1 if threads() == 1 else max(min(4 * threads(), length // max(least, 1)), 1))


def even_parts(length: int, parts: int) -> list[slice]:
    """Return so many slices, one after the other, about as long as each other."""
    ends = [length * k // parts for k in range(parts + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


# --- memory -------------------------------------------------------------------------------------------------

# Numbers of an array whose memory is used again; smaller arrays come from memory that the process has anyway.
LARGE = 2**13


class Spare:
    """Memory of arrays that are gone, by its size; shared by the threads of a fit."""

    def __init__(self) -> None:
        self.memory: defaultdict[int, list[Array]] | None = defaultdict(list)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Return an array whose memory comes back when it is gone."""
        size = prod(shape) * np.dtype(dtype).itemsize
        try:
            memory = (self.memory or {})[size].pop()
        except (IndexError, KeyError):
            memory = np.empty(size, np.uint8)
        return np.asarray(_Lent(memory, self)).view(dtype).reshape(shape)

    def close(self) -> None:
        """Free all memory."""
        self.memory = None


class _Lent:
    """Memory that is taken back when the last array that uses it is gone: it is the base of each, or of its base."""

    def __init__(self, memory: Array, spare: Spare) -> None:
        self._memory, self._spare = memory, spare
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        known = self._spare.memory
        if known is not None:
            known[len(self._memory)].append(self._memory)


_SPARE: ContextVar[Spare | None] = ContextVar("spare", default=None)


@contextmanager
def recycling(spare: Spare | None = None) -> Iterator[None]:
    """Use the memory of large arrays made by :func:`empty` again, until the outermost such context ends.

    A given ``spare`` keeps it for longer.
    """
    if _SPARE.get() is not None:
        yield
        return
    memory = Spare() if spare is None else spare
    before = _SPARE.set(memory)
    try:
        yield
    finally:
        _SPARE.reset(before)
        if spare is None:
            memory.close()


def empty(shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Return an array of whatever was in memory."""
    spare = _SPARE.get()
    if spare is None or prod(shape) < LARGE:
        return np.empty(shape, dtype)
    return spare.empty(shape, dtype)


@cache
def hold_on_to_pages() -> None:
    """Let this process hold on to up to 64 MB that it has freed, for each thread, as glibc's would by themselves.

    Workers of Dask are told to return memory at once (``MALLOC_TRIM_THRESHOLD_``), and then every array of more than
    128 kB is made of fresh pages: that took a tenth of the CPU of their share of a fit.
    """
    set_to = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_to is not None:
        set_to(-3, 2**25)  # M_MMAP_THRESHOLD: up to what size glibc raises it by itself
        set_to(-1, 2**26)  # M_TRIM_THRESHOLD: twice that


# --- vectors ------------------------------------------------------------------------------------------------


def norm(v: Array) -> float:
    """Return ‖v‖."""
    return sqrt(float(v @ v))


def as_array(vector: Any) -> Array:
    """Return an array or a tensor as an array."""
    return vector if isinstance(vector, np.ndarray) else np.asarray(vector.cpu())


def cast_like(vector: Any, like: Any) -> Any:
    """Return a vector in the precision of another one, and on its device."""
    if isinstance(like, np.ndarray):
        return as_array(vector).astype(like.dtype, copy=False)
    return like.new_tensor(vector) if isinstance(vector, np.ndarray) else vector.to(like)


def all_finite(v: Array) -> bool:
    """Return whether every number is finite."""
    return isfinite(float(v @ v)) or bool(np.isfinite(v).all())  # squares may overflow
