"""Dask bags of sequences: one piece for each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from majorant.sources.dask import is_dask
from majorant.sources.sequences import Item, SequencePiece


def is_bag(X: Any) -> bool:
    """Return whether something is a Dask bag, without importing Dask."""
    return is_dask(X) and type(X).__name__ == "Bag"


@dataclass(frozen=True, eq=False)
class DaskBag:
    """A bag of pairs (tokens, labels), or, where nothing is to be learnt, of the tokens of sequences.

    Without a cluster its partitions are computed one after the other whenever they are read.
    """

    bag: Any

    def pieces(self) -> Sequence[SequencePiece]:
        """Return one piece for each partition, which is computed when it is read."""
        return [BagPartition(each) for each in self.delayed_pieces()]

    def delayed_pieces(self) -> list[Any]:
        """Return the pieces as values that Dask has yet to compute."""
        from dask import delayed

        make = delayed(Pairs, pure=True)
        return [make(f"partition {number}", part) for number, part in enumerate(self.bag.to_delayed())]


@dataclass(frozen=True, eq=False)
class Pairs:
    """A partition that is in memory, wherever that is."""

    where: str
    elements: Any

    def items(self) -> Iterator[tuple[str, Item]]:
        """Yield all of it."""
        elements = list(self.elements)
        if elements and all(isinstance(each, tuple) and len(each) == 2 for each in elements):
            X, y = zip(*elements, strict=True)
            yield self.where, (X, y, None)
        elif elements:
            yield self.where, (elements, None, None)


@dataclass(frozen=True, eq=False)
class BagPartition:
    """A partition that is computed whenever it is read."""

    pairs: Any

    def items(self) -> Iterator[tuple[str, Item]]:
        """Compute it."""
        yield from self.pairs.compute().items()
