"""Dask arrays and data frames as a source: one piece for each partition.

Shares of a source, which workers read for themselves.

Rows that a function yields, whenever it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.threads import even_parts
from majorant.sources.base import SHOWN, Chunk, Encoding, Labels, Piece, RowError, Source, in_larger_chunks
from majorant.sources.survey import only_rows, read_checked


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


@dataclass(frozen=True, eq=False)
class Rows:
    """A piece whose rows are in memory, wherever that is."""

    chunk: Chunk

    @classmethod
    def of(cls, where: str, *parts: Any) -> Rows:
        """Return the piece of rows, labels and weights."""
        return cls(chunk_of(parts, where))

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        yield self.chunk


@dataclass(frozen=True, eq=False)
class ShareOfSource:
    """Some pieces of a source and how they are encoded: a worker makes blocks of them."""

    pieces: Sequence[Piece]
    encoding: Encoding
    fits: bool = True  # whether they may all be in memory

    def __call__(self) -> Iterable[Labelled]:
        """Return the blocks, in memory, or read one by one whenever somebody goes through them."""
        return blocks_of(self.encoding, *self.pieces) if self.fits else _read(self.encoding, self.pieces)


def blocks_of(encoding: Encoding, *pieces: Piece) -> list[Labelled]:
    """Return the blocks of some pieces, encoded."""
    return list(_read(encoding, pieces))


def _read(encoding: Encoding, pieces: Iterable[Piece]) -> Iterator[Labelled]:
    return map(encoding, in_larger_chunks(chain.from_iterable(map(read_checked, pieces))))


def shown(encoding: Encoding, pieces: Iterable[Piece]) -> Labelled | None:
    """Return the first rows of the first piece that has any, encoded, to show what all look like."""
    for piece in pieces:
        for chunk in read_checked(piece):
            return encoding(only_rows(chunk, slice(0, SHOWN)))
    return None


def evenly(items: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Return so many runs of neighbouring items, about as long as each other; fewer if there are fewer items."""
    return [items[some] for some in even_parts(len(items), max(min(parts, len(items)), 1))]


@dataclass(frozen=True)
class Chunks(Source):
    """Rows from a function without arguments that yields ``(X, y)`` or ``(X, y, weight)``, the same every time.

    :class:`~majorant.ChainCRF` takes those whose ``X`` and ``y`` are lists of sequences.

    Parameters
    ----------
    factory : callable, or a list of them
        Called once for every pass over the data. Several are several pieces, which workers can share. ``X`` is an
        array, a data frame or a sparse matrix, of as many rows as memory holds several times. Where nothing is to be
        learnt (``predict``), ``X`` alone will do.

    Examples
    --------
    >>> import numpy as np
    >>> import majorant
    >>> def rows():
    ...     for seed in range(10):
    ...         X = np.random.default_rng(seed).normal(size=(100, 3))
    ...         yield X, X @ [1.0, -1.0, 0.0] > 0
    >>> model = majorant.LogisticRegression().fit(majorant.Chunks(rows))
    >>> model.result_.converged, model.score(majorant.Chunks(rows)) > 0.95
    (True, True)

    Sequences, whose tokens are dicts, lists of strings or rows of numbers:

    >>> def sentences():
    ...     yield [[["word=the"], ["word=cat"]], [["word=a"], ["word=dog"]]], [["DET", "NOUN"], ["DET", "NOUN"]]
    ...     yield [[["word=cat"], ["word=sat"]]], [["NOUN", "VERB"]]
    >>> majorant.ChainCRF(c2=0.1).fit(majorant.Chunks(sentences)).predict([[["word=a"], ["word=cat"]]])
    [['DET', 'NOUN']]
    """

    factory: Callable[[], Any] | Sequence[Callable[[], Any]]

    def __post_init__(self) -> None:
        for each in self._factories():
            if not callable(each):
                raise TypeError(
                    f"Chunks needs a function that yields (X, y) whenever it is called, got {type(each).__name__}: a "
                    "fit reads the rows again and again, and a generator ends after the first time; "
                    "pass the function that makes it"
                )

    def pieces(self) -> Sequence[CallPiece]:
        """Return one piece for each function."""
        many = self._factories()
        names = ["chunk"] if len(many) == 1 else [f"function {number}, chunk" for number in range(len(many))]
        return [CallPiece(each, name) for each, name in zip(many, names, strict=True)]

    def _factories(self) -> Sequence[Callable[[], Any]]:
        return self.factory if isinstance(self.factory, list | tuple) else [self.factory]  # type: ignore[list-item]


@dataclass(frozen=True)
class CallPiece:
    """What one function yields."""

    factory: Callable[[], Any]
    name: str

    def read(self) -> Iterator[Chunk]:
        """Call it, and yield its chunks."""
        items = self.factory()
        if not isinstance(items, Iterable):
            raise TypeError(f"the function of Chunks must yield (X, y), got {type(items).__name__} from a call")
        for number, item in enumerate(items):
            yield chunk_of(item, f"{self.name} {number}")

    def items(self) -> Iterator[tuple[str, tuple[Any, Any, Any]]]:
        """Call it, and yield X, y and weight as they are, None where there is none, each with its place."""
        for number, item in enumerate(self.factory()):
            where = f"{self.name} {number}"
            yield where, parts_of(item, where)


def chunk_of(item: Any, where: str) -> Chunk:
    """Return what somebody yielded as a chunk."""
    X, y, weight = parts_of(item, where)
    try:
        rows = rows_of(X)
        labels = None if y is None else Labels.of(y)
        each = None if weight is None else np.asarray(weight, dtype=np.float64).reshape(-1)
        return Chunk(rows, labels, each, where, columns=_names_of(X))
    except RowError as problem:
        raise ValueError(f"{where}, row {problem.row}: {problem.what}") from None
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{where}: {problem}") from None


def parts_of(item: Any, where: str) -> tuple[Any, Any, Any]:
    """Return X, y and weight, None where there is none."""
    parts = item if isinstance(item, tuple) else (item,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"{where}: expected (X, y) or (X, y, weight), got {len(parts)} things")
    X, y, weight = (*parts, None, None)[:3]
    return X, y, weight


def _names_of(X: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns."""
    names = getattr(X, "columns", None)
    return tuple(names) if names is not None and all(isinstance(name, str) for name in names) else None


def rows_of(X: Any) -> Array | sp.csr_array:
    """Return rows as an array or a CSR matrix of floating-point numbers."""
    if sp.issparse(X):
        csr = sp.csr_array(X)
        csr = csr if csr.dtype == np.float32 else csr.astype(np.float64, copy=False)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        return csr
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {array.shape}")
    if array.dtype.kind not in "fiubO":
        raise ValueError(f"X must hold numbers, got {array.dtype}")
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)
