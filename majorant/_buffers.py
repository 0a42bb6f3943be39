"""Large arrays that come and go at every step: within a fit their memory is used again.

The system hands out fresh memory page by page, each filled with zeros first, which takes longer than most of what is
written there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import numpy as np

from majorant._checks import Array

# Smaller arrays come from memory that the process has anyway.
LARGE = 2**13


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
