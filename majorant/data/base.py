"""What data can do, wherever they are kept: how many rows, blocks of them, a sample, a visit to each in some order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, Self

import numpy as np

from majorant._checks import Array

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
