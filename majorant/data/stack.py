"""Arrays that grow at their end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from majorant._checks import Array

SMALLEST = 16


class Stack:
    """Numbers, and room for more: it doubles when it is full, so that all moves together cost as much as the last one.

    Examples
    --------
    >>> stack = Stack(float, [1.0, 2.0])
    >>> stack.extend([3.0])
    >>> stack.cut(2)
    >>> stack.values
    array([1., 2.])
    """

    def __init__(self, dtype: DTypeLike, values: ArrayLike = ()) -> None:
        self._room, self._size = np.empty(SMALLEST, dtype=dtype), 0
        self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[Any, ...]:
        return Stack, (self._room.dtype, self.values)  # without the room

    @property
    def values(self) -> Array:
        """The numbers, which may be written to; a view that ``extend`` may leave behind."""
        return self._room[: self._size]

    def extend(self, values: ArrayLike) -> None:
        """Put more numbers at the end."""
        more = np.asarray(values, dtype=self._room.dtype)
        end = self._size + len(more)
        if end > len(self._room):
            self._room = np.concatenate([self.values, np.empty(2 * end - self._size, dtype=self._room.dtype)])
        self._room[self._size : end] = more
        self._size = end

    def cut(self, size: int) -> None:
        """Drop all but the first ones."""
        self._size = min(size, self._size)
