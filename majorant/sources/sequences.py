"""Sequences that need not fit in memory: where they come from, and the data of an objective that are read anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from majorant._checks import Array
from majorant.data.base import Order
from majorant.data.encoded import Encoded, Size, evened
from majorant.data.sequences import Sequences
from majorant.data.universe import Universe
from majorant.sources.ahead import read_ahead
from majorant.sources.base import SHOWN
from majorant.sources.spool import Spool

# Numbers of a record, as it is written down.
RECORD = 2**19
# A block has as many, at least, if there are; and so many tokens for each parameter of the gradient that it adds to.
BLOCK = 2**20
TOKENS_PER_PARAMETER = 1 / 24
# Blocks that are ready before they are asked for.
AHEAD = 1
NO_ROWS = "sequences that are not in memory are read block by block: there are no rows to draw"
# What a function yields: sequences, labels if there are any, weights if there are any.
Item = tuple[Any, Any, Any]


class SequencePiece(Protocol):
    """Some sequences that can be read apart from the others, here or, since it can be pickled, elsewhere."""

    def items(self) -> Iterator[tuple[str, Item]]:
        """Yield what there is, chunk by chunk, each with a name of its place: the same every time."""


@dataclass(frozen=True, eq=False)
class Records:
    """Encoded sequences that can be gone through again and again: read from a copy, if there was room for one."""

    spool: Spool
    again: Callable[[], Iterator[Encoded]]  # encodes them anew

    @classmethod
    def of(cls, chunks: Callable[[], Iterator[Encoded]]) -> Records:
        """Return those of chunks, copied."""
        records = cls(Spool(), lambda: evened(chunks(), RECORD))
        for record in records.again():
            records.spool.add(record.arrays())
        return records

    def __iter__(self) -> Iterator[Encoded]:
        if not self.spool.is_open:
            return self.again()
        return (Encoded.from_arrays(self.spool[number]) for number in range(len(self.spool)))


class StreamedSequences:
    """Sequences that stay where they are: a few blocks at a time are in memory.

    Parameters
    ----------
    records : iterable of Encoded
        The sequences, the same whenever somebody goes through them.
    universe : Universe
        Which parameters there are.
    numbers : array
        Of the labels in the universe, by the numbers of the records.
    size : Size
        How much there is of all of them.
    even : bool
        Whether the tokens of a sequence all weigh the same.
    """

    whole = None

    def __init__(
        self, records: Iterable[Encoded], universe: Universe, numbers: Array, size: Size, even: bool = False
    ) -> None:
        self.universe, self.size, self.even = universe, size, even
        self._records, self._numbers = records, numbers
        first = next(iter(records))
        self.like = self._decoded(first.part(0, min(len(first), SHOWN)))

    def __len__(self) -> int:
        return self.size.sequences

    def blocks(self, rows: int) -> ReadSequences:
        """Return the data in blocks of at most about so many sequences; going through them reads everything."""
        of_rows = rows * self.size.numbers // max(len(self), 1)
        return ReadSequences(self, max(min(of_rows, block_numbers(self.universe, self.size)), 1))

    def outlines(self, rows: int) -> ReadSequences:
        """Return the same blocks: labels are not kept apart."""
        return self.blocks(rows)

    def sample(self, rows: int, seed: int) -> Sequences:
        """Raise: solvers that ask for a sample ask for rows."""
        raise TypeError(NO_ROWS)

    def store(self) -> Spool:
        """Return somewhere to keep arrays of every block."""
        return Spool()

    def narrowed(self) -> StreamedSequences:
        """Return the same: rows are read as they are."""
        return self

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Sequences]:
        """Raise: solvers that go from row to row ask for rows."""
        raise TypeError(NO_ROWS)

    def read(self, numbers: int) -> Iterator[Sequences]:
        """Yield blocks of about so many numbers, read a little ahead."""
        return read_ahead(lambda: map(self._decoded, evened(self._records, numbers)), AHEAD)

    def _decoded(self, some: Encoded) -> Sequences:
        return some.sequences(self.universe, self._numbers)


@dataclass(frozen=True, eq=False)
class ReadSequences:
    """Blocks that are read whenever somebody goes through them."""

    data: StreamedSequences
    numbers: int

    def __iter__(self) -> Iterator[Sequences]:
        return self.data.read(self.numbers)


def block_numbers(universe: Universe, size: Size) -> int:
    """Return how many numbers make a block: enough for a gradient as long as θ to be a small part of its work."""
    tokens = universe.size * TOKENS_PER_PARAMETER
    return max(BLOCK, int(tokens * size.numbers / max(size.tokens, 1)))


def none_of(universe: Universe) -> Sequences:
    """Return no sequences, which show what parameters others have that are elsewhere."""
    nothing = np.empty(0, dtype=np.uint32)
    start = np.zeros(1, dtype=np.int64)
    return Sequences.of(universe, start, start.astype(np.uint32), nothing, None, nothing.astype(np.int32))
