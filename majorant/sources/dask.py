"""Dask arrays and data frames as a source: one piece for each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from majorant.sources.base import Chunk, Piece, Source
from majorant.sources.shares import Rows


def is_dask(X: Any) -> bool:
    """Return whether something is a Dask collection, without importing Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


@dataclass(frozen=True, eq=False)
class DaskCollections(Source):
    """Rows of a Dask array or data frame with labels, and perhaps weights, that are partitioned alike.

    Sizes of partitions need not be known. Without a cluster they are computed one after the other at every pass.
    """

    X: Any
    y: Any = None
    weight: Any = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """The names of a data frame's columns."""
        columns = getattr(self.X, "columns", None)
        return None if columns is None else [str(name) for name in columns]

    def pieces(self) -> Sequence[Piece]:
        """Return one piece for each partition, which is computed when it is read."""
        return [Partition(each) for each in self.delayed_pieces()]

    def delayed_pieces(self) -> list[Any]:
        """Return the pieces as values that Dask has yet to compute."""
        from dask import delayed

        given = [each for each in (self.X, self.y, self.weight) if each is not None]
        partitions = [_partitions(each, self.X) for each in given]
        for name, some in zip(("y", "sample_weight"), partitions[1:], strict=False):
            if len(some) != len(partitions[0]):
                raise ValueError(
                    f"{name} must be partitioned as X is, into {len(partitions[0])} parts, got {len(some)}; "
                    "rechunk it, or make both from one collection"
                )
        make = delayed(Rows.of, pure=True)
        return [make(f"partition {number}", *parts) for number, parts in enumerate(zip(*partitions, strict=True))]


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition that is computed whenever it is read."""

    rows: Any

    def read(self) -> Iterator[Chunk]:
        """Compute it."""
        yield from self.rows.compute().read()


def _partitions(values: Any, X: Any) -> list[Any]:
    """Return the partitions of a collection, each with all columns."""
    if not is_dask(values):
        raise TypeError(f"X, y and sample_weight must all be Dask collections, got {type(values).__name__}")
    if not hasattr(values, "chunks"):
        return list(values.to_delayed())  # of a data frame, or a series
    if values.ndim == 2 and len(values.chunks[1]) > 1:
        values = values.rechunk({1: -1})
    ours, theirs = values.chunks[0], getattr(X, "chunks", (values.chunks[0],))[0]
    known = not any(size != size for size in (*ours, *theirs))  # NaN is not known
    if known and ours != theirs and sum(ours) == sum(theirs):
        values = values.rechunk({0: theirs})
    return list(values.to_delayed().reshape(-1))
