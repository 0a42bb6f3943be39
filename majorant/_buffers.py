"""Large arrays that come and go at every step: within a fit their memory is used again.

The system hands out fresh memory page by page, each filled with zeros first, which takes longer than most of what is
written there.
"""

from __future__ import annotations

import ctypes
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from math import prod
from typing import Any

import numpy as np

from majorant._checks import Array

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
