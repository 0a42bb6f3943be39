"""Sequences whose attributes and labels are numbers already, while nobody knows yet which of them have parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from majorant._checks import Array
from majorant.data.sequences import Sequences
from majorant.data.tokens import Tokens
from majorant.data.universe import Universe


class Size(NamedTuple):
    """How much there is of some sequences; sizes add up."""

    sequences: int = 0
    tokens: int = 0
    attributes: int = 0

    def plus(self, other: Size) -> Size:
        """Return the size of both together."""
        return Size(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def numbers(self) -> int:
        """How many numbers it takes to write them down, about."""
        return self.tokens + self.attributes


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sequences as numbers of vocabularies.

    Parameters
    ----------
    tokens : Tokens
        Their attributes, by the numbers of a vocabulary.
    y : array
        The label of each token, by the number of another.
    weight : array, optional
        Of each token.
    """

    tokens: Tokens
    y: Array
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.tokens.starts) - 1

    @property
    def size(self) -> Size:
        """How much there is."""
        return Size(len(self), len(self.y), len(self.tokens.attributes))

    def arrays(self) -> tuple[Array | None, ...]:
        """Return what they are made of."""
        tokens = self.tokens
        return tokens.starts, tokens.indptr, tokens.attributes, tokens.values, self.y, self.weight

    @classmethod
    def from_arrays(cls, arrays: Sequence[Any]) -> Encoded:
        """Return the sequences that were taken apart."""
        return cls(Tokens(*arrays[:4]), *arrays[4:])

    def sequences(self, universe: Universe, numbers: Array) -> Sequences:
        """Return them with their parameters looked up; ``numbers`` are those of the labels in the universe."""
        tokens, y = self.tokens, numbers[self.y]
        attributes = universe.number[tokens.attributes]
        return Sequences.of(universe, tokens.starts, tokens.indptr, attributes, tokens.values, y, self.weight)

    def part(self, begin: int, end: int) -> Encoded:
        """Return sequences ``begin`` … ``end`` − 1, as views."""
        tokens = self.tokens
        i, j = int(tokens.starts[begin]), int(tokens.starts[end])
        k, m = int(tokens.indptr[i]), int(tokens.indptr[j])
        some = Tokens(
            tokens.starts[begin : end + 1] - i,
            tokens.indptr[i : j + 1] - tokens.indptr[i],
            tokens.attributes[k:m],
            None if tokens.values is None else tokens.values[k:m],
        )
        return Encoded(some, self.y[i:j], None if self.weight is None else self.weight[i:j])

    def parts(self, numbers: int) -> Iterator[Encoded]:
        """Yield them one part after the other, each of about so many numbers, or of one sequence that has more."""
        before = self.tokens.indptr[self.tokens.starts].astype(np.int64) + self.tokens.starts
        ends = np.searchsorted(before, np.arange(numbers, before[-1], numbers))
        for begin, end in pairwise(np.unique([0, *ends, len(self)]).tolist()):
            yield self.part(begin, end)

    @classmethod
    def joined(cls, parts: Sequence[Encoded]) -> Encoded:
        """Return the sequences of all parts."""
        if len(parts) == 1:
            return parts[0]
        tokens = [part.tokens for part in parts]
        return cls(
            Tokens(
                _one_after_the_other([each.starts for each in tokens]),
                _one_after_the_other([each.indptr for each in tokens]),
                np.concatenate([each.attributes for each in tokens]),
                _ones_where_none([(each.values, len(each.attributes)) for each in tokens]),
            ),
            np.concatenate([part.y for part in parts]),
            _ones_where_none([(part.weight, len(part.y)) for part in parts]),
        )


def evened(chunks: Iterable[Encoded], numbers: int) -> Iterator[Encoded]:
    """Yield the same sequences in chunks of about so many numbers: small ones are joined, large ones cut."""
    waiting: list[Encoded] = []
    many = 0
    for chunk in chunks:
        for part in chunk.parts(numbers):
            waiting.append(part)
            many += part.size.numbers
            if many >= numbers:
                yield Encoded.joined(waiting)
                waiting, many = [], 0
    if waiting:
        yield Encoded.joined(waiting)


def _one_after_the_other(starts: Sequence[Array]) -> Array:
    """Return where everything begins if what these say is put side by side."""
    ends = np.cumsum([0, *(each[-1] for each in starts)], dtype=np.int64)
    shifted = [each[:-1] + end.astype(each.dtype) for each, end in zip(starts, ends, strict=False)]
    return np.concatenate([*shifted, ends[-1:].astype(starts[0].dtype)])


def _ones_where_none(each: Sequence[tuple[Array | None, int]]) -> Array | None:
    if all(values is None for values, _ in each):
        return None
    return np.concatenate([np.ones(length) if values is None else values for values, length in each])
