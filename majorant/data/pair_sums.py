"""Which pairs of numbers occur, and what their values sum to, chunk by chunk."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array

# A pair is one number: the first of both, then so many bits for the second.
BITS = 16
MASK = 2**BITS - 1
# So many pairs wait, and as many as are known by then, before they are put in order: each is so a few times at most.
WAITING = 2**20


class PairSums:
    """Pairs in rising order, each with a sum. It takes as much memory as there are different ones, a few times."""

    def __init__(self) -> None:
        self._keys, self._sums = np.empty(0, dtype=np.int64), np.empty(0)
        self._waiting: list[tuple[Array, Array]] = []
        self._many = 0

    def add(self, first: Array, second: Array, values: Array | None = None) -> None:
        """Count pairs, or add their values."""
        keys = (first.astype(np.int64) << BITS) | second
        if values is None:
            keys, counts = np.unique(keys, return_counts=True)
            values = counts.astype(np.float64)
        self._waiting.append((keys, values))
        self._many += len(keys)
        if self._many > max(WAITING, len(self._keys)):
            self._settle()

    def found(self) -> tuple[Array, Array, Array]:
        """Return first, second and sum of each pair."""
        self._settle()
        return self._keys >> BITS, self._keys & MASK, self._sums

    def _settle(self) -> None:
        """Put what waits in its place. Values are added in the order in which they came."""
        if not self._waiting:
            return
        keys = np.unique(np.concatenate([self._keys, *(new for new, _ in self._waiting)]))
        sums = np.zeros(len(keys))
        for some, values in [(self._keys, self._sums), *self._waiting]:
            np.add.at(sums, np.searchsorted(keys, some), values)
        self._keys, self._sums, self._waiting, self._many = keys, sums, [], 0
