"""Rows that a function yields whenever it is called, and rows of Dask arrays and data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from majorant.sources.base import Chunk, Piece, Source


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
        for function in self._functions():
            if not callable(function):
                raise TypeError(
                    f"Chunks needs a function that yields (X, y) whenever it is called, got {type(function).__name__}: "
                    "a fit reads the rows again and again, and a generator ends after the first time; "
                    "pass the function that makes it"
                )

    def pieces(self) -> Sequence[CallPiece]:
        """Return one piece for each function."""
        functions = self._functions()
        if len(functions) == 1:
            return [CallPiece(functions[0], "chunk")]
        return [CallPiece(function, f"function {number}, chunk") for number, function in enumerate(functions)]

    def _functions(self) -> Sequence[Callable[[], Any]]:
        return self.factory if isinstance(self.factory, list | tuple) else [self.factory]  # type: ignore[list-item]


@dataclass(frozen=True)
class CallPiece:
    """The items that one function yields."""

    factory: Callable[[], Any]
    name: str

    def read(self) -> Iterator[Chunk]:
        """Call the function, and yield its items as chunks."""
        for where, (X, y, weight) in self.items():
            yield Chunk.of(X, y, weight, where)

    def items(self) -> Iterator[tuple[str, tuple[Any, Any, Any]]]:
        """Call the function, and yield X, y and weight as they are, None where there is none, each with its place."""
        items = self.factory()
        if not isinstance(items, Iterable):
            raise TypeError(f"the function of Chunks must yield (X, y), got {type(items).__name__} from a call")
        for number, item in enumerate(items):
            where, parts = f"{self.name} {number}", item if isinstance(item, tuple) else (item,)
            if not 1 <= len(parts) <= 3:
                raise ValueError(f"{where}: expected (X, y) or (X, y, weight), got {len(parts)} things")
            yield where, (*parts, None, None)[:3]


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
        """Names of a data frame's columns."""
        columns = getattr(self.X, "columns", None)
        return None if columns is None else [str(name) for name in columns]

    def pieces(self) -> Sequence[Piece]:
        """Return one piece for each partition, which is computed when it is read."""
        return [Partition(chunk) for chunk in self.delayed_pieces()]

    def delayed_pieces(self) -> list[Any]:
        """Return the partitions as chunks that Dask has yet to compute."""
        from dask import delayed

        parts: dict[str, list[Any]] = {}
        for name, values in (("X", self.X), ("y", self.y), ("sample_weight", self.weight)):
            if values is None:
                continue
            parts[name] = _partitions(values, self.X)
            if len(parts[name]) != len(parts["X"]):
                raise ValueError(
                    f"{name} must be partitioned as X is, into {len(parts['X'])} parts, got {len(parts[name])}; "
                    "rechunk it, or make both from one collection"
                )
        make = delayed(Chunk.of, pure=True)
        arrays = (parts.get(name, [None] * len(parts["X"])) for name in ("X", "y", "sample_weight"))
        return [make(*part, f"partition {number}") for number, part in enumerate(zip(*arrays, strict=True))]


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
class Partition:
    """A partition that is computed whenever it is read."""

    chunk: Any

    def read(self) -> Iterator[Chunk]:
        """Compute it."""
        yield self.chunk.compute()
