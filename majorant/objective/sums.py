"""Sums of what blocks give, the same to the last bit whoever adds them; minima and maxima are sums, too."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any

import numpy as np

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
