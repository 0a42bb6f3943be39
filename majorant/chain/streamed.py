"""Sequences that need not fit in memory: encoded, copied to a file where there is room, and read block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from majorant.chain.feature_index import Universe
from majorant.chain.sequences import Sequences
from majorant.chain.tokens import Tokens
from majorant.core.checks import Array
from majorant.core.rows import Order
from majorant.sources.base import SHOWN
from majorant.sources.cache import ChunkCache, prefetch

# Gradients of blocks, each as long as θ, are added up: so a block has at least a token for so many parameters.
PARAMETERS_PER_TOKEN = 24.0
# Numbers (attributes and tokens) of a record as it is written down, 4 MB about; of a block that is worked on, at least.
RECORD, BLOCK = 2**19, 2**20


class Size(NamedTuple):
    """How much there is of some sequences."""

    sequences: int = 0
    tokens: int = 0
    attributes: int = 0

    @classmethod
    def total(cls, sizes: Iterable[Size]) -> Size:
        """Return the size of everything."""
        return cls(*(sum(each) for each in zip(cls(), *sizes, strict=True)))

    @property
    def numbers(self) -> int:
        """How many numbers it takes to write them down, about."""
        return self.tokens + self.attributes


@dataclass(frozen=True, eq=False)
class Encoded(Tokens):
    """Sequences with labels and weights, as numbers of vocabularies; which have parameters nobody needs to know yet.

    ``y`` is the label of each token, by the number of a vocabulary, and ``weight`` its weight.
    """

    y: Array
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def size(self) -> Size:
        """How much there is."""
        return Size(len(self), len(self.y), len(self.attributes))

    def arrays(self) -> list[Array | None]:
        """Return the arguments that make the same sequences again."""
        return [getattr(self, field.name) for field in fields(self)]

    def part(self, begin: int, end: int) -> Encoded:
        """Return sequences ``begin`` … ``end`` − 1, as views."""
        i, j = int(self.starts[begin]), int(self.starts[end])
        k, m = int(self.indptr[i]), int(self.indptr[j])
        return Encoded(
            self.starts[begin : end + 1] - i,
            self.indptr[i : j + 1] - self.indptr[i],
            self.attributes[k:m],
            None if self.values is None else self.values[k:m],
            self.y[i:j],
            None if self.weight is None else self.weight[i:j],
        )

    @classmethod
    def joined(cls, parts: Sequence[Encoded]) -> Encoded:
        """Return the sequences of all parts."""
        if len(parts) == 1:
            return parts[0]

        def starts(name: str) -> Array:
            """Return where everything begins if what these say is put side by side."""
            arrays = [getattr(part, name) for part in parts]
            ends = np.cumsum([0, *(array[-1] for array in arrays)], dtype=np.int64)
            shifted = [array[:-1] + end.astype(array.dtype) for array, end in zip(arrays, ends, strict=False)]
            return np.concatenate([*shifted, ends[-1:].astype(arrays[0].dtype)])

        def numbers(name: str, beside: str) -> Array | None:
            """Return numbers that are ones where there are none."""
            arrays = [(getattr(part, name), len(getattr(part, beside))) for part in parts]
            if all(array is None for array, _ in arrays):
                return None
            return np.concatenate([np.ones(length) if array is None else array for array, length in arrays])

        return cls(
            starts("starts"),
            starts("indptr"),
            np.concatenate([part.attributes for part in parts]),
            numbers("values", "attributes"),
            np.concatenate([part.y for part in parts]),
            numbers("weight", "y"),
        )


def evened(chunks: Iterable[Encoded], numbers: int) -> Iterator[Encoded]:
    """Yield the same sequences in chunks of about so many numbers: small ones are joined, large ones cut.

    A sequence that has more numbers stays in one piece.
    """
    waiting: list[Encoded] = []
    held = 0
    for chunk in chunks:
        before = chunk.indptr[chunk.starts].astype(np.int64) + chunk.starts
        ends = np.searchsorted(before, np.arange(numbers, before[-1], numbers))
        for begin, end in pairwise(np.unique([0, *ends, len(chunk)]).tolist()):
            waiting.append(chunk.part(begin, end))
            held += waiting[-1].size.numbers
            if held >= numbers:
                yield Encoded.joined(waiting)
                waiting, held = [], 0
    if waiting:
        yield Encoded.joined(waiting)


@dataclass(frozen=True, eq=False)
class Records:
    """Encoded sequences that can be gone through again and again: read from a copy, or encoded anew without one.

    Parameters
    ----------
    again : callable
        Returns the chunks of the source, encoded.
    cache : ChunkCache
        The copy, which is closed where there was no room for one.
    """

    again: Callable[[], Iterator[Encoded]]
    cache: ChunkCache

    @classmethod
    def copied(cls, again: Callable[[], Iterator[Encoded]]) -> Records:
        """Return the records of a source that is read once to be copied."""
        records = cls(again, ChunkCache())
        for record in evened(again(), RECORD):
            records.cache.add(record.arrays())
        return records

    def __iter__(self) -> Iterator[Encoded]:
        if not self.cache.is_open:
            return evened(self.again(), RECORD)
        return (Encoded(*self.cache[number]) for number in range(len(self.cache)))


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
        self.records, self.numbers = records, numbers
        first = next(iter(records))
        self.like = looked_up(first.part(0, min(len(first), SHOWN)), universe, numbers)

    def __len__(self) -> int:
        return self.size.sequences

    def blocks(self, rows: int) -> ReadSequences:
        """Return the data in blocks of at most about so many sequences; going through them reads everything."""
        of_rows = rows * self.size.numbers // max(len(self), 1)
        return ReadSequences(self, max(min(of_rows, block_numbers(self.universe, self.size)), 1))

    def outlines(self, rows: int) -> ReadSequences:
        """Return the same blocks: labels are not kept apart."""
        return self.blocks(rows)

    def store(self) -> ChunkCache:
        """Return a file for arrays of every block."""
        return ChunkCache()

    def narrowed(self) -> StreamedSequences:
        """Return the same: rows are read as they are."""
        return self

    def sample(self, rows: int, seed: int) -> Sequences:
        """Raise: solvers that ask for a sample ask for rows."""
        raise TypeError("sequences that are not in memory are read block by block: there are no rows to draw")

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Sequences]:
        """Raise: solvers that go from row to row ask for rows."""
        raise TypeError("sequences that are not in memory are read block by block: there are no rows to draw")


@dataclass(frozen=True, eq=False)
class ReadSequences:
    """Blocks of about so many numbers that are read, one ahead, whenever somebody goes through them."""

    data: StreamedSequences
    numbers: int

    def __iter__(self) -> Iterator[Sequences]:
        data = self.data
        blocks = (looked_up(block, data.universe, data.numbers) for block in evened(data.records, self.numbers))
        return prefetch(lambda: blocks, 1)


def block_numbers(universe: Universe, size: Size) -> int:
    """Return how many numbers make a block: enough for a gradient as long as θ to be a small part of its work."""
    return max(BLOCK, int(universe.size / PARAMETERS_PER_TOKEN * size.numbers / max(size.tokens, 1)))


def looked_up(encoded: Encoded, universe: Universe, numbers: Array) -> Sequences:
    """Return sequences with their parameters looked up; ``numbers`` are those of the labels in the universe."""
    return Sequences.from_tokens(universe, encoded, numbers[encoded.y], encoded.weight)
