"""Where rows come from that need not fit in memory: pieces that can be read apart, chunk by chunk, again and again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array, refuse_null_ending

# Told of rows as they are read.
Watcher: TypeAlias = Callable[[int], None]
# Rows that show what all look like.
SHOWN = 1_000
# Numbers of a chunk, about: enough to be worth reading, few enough for several to be in memory.
CHUNK_NUMBERS = 2**20


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of rows: names, each once, and for each row which of them is its own."""

    names: Array
    codes: Array

    @classmethod
    def of(cls, y: Any) -> Labels:
        """Return labels that are written out."""
        refuse_null_ending("labels", y)
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim != 1:
            raise ValueError(f"labels must be one for each row, got an array of shape {y.shape}")
        missing = _missing(y)
        if missing.any():
            raise RowError("the label is missing", int(np.argmax(missing)))
        if y.dtype.kind == "O":
            y = _of_one_type(y)
        if y.dtype.kind == "f" and not (np.isfinite(y).all() and (y == np.round(y)).all()):
            row = int(np.argmax(~np.isfinite(y) | (y != np.round(y))))
            raise RowError(f"labels name classes, but {y[row]} is a measurement; bin it first", row)
        try:
            return cls(*np.unique(y, return_inverse=True))
        except TypeError:
            kinds = sorted({type(label).__name__ for label in y})
            raise ValueError(f"labels must be of one type, got {' and '.join(kinds)}") from None

    def __len__(self) -> int:
        return len(self.codes)


class RowError(ValueError):
    """Something is wrong with a row, whose number within its chunk is known."""

    def __init__(self, what: str, row: int) -> None:
        super().__init__(what)
        self.what, self.row = what, row


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows as they were read: an array or a CSR matrix, labels and weights if there are any, and their place."""

    X: Any
    labels: Labels | None = None
    weight: Array | None = None
    where: str = ""  # of which file, or which piece
    first: int = 0  # number of the first row there
    open_ended: bool = False  # whether further columns, all zero, are not written down
    columns: tuple[str, ...] | None = None  # by their names, if they have any

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Whether rows are given by their non-zeros."""
        return sp.issparse(self.X)

    def refuse(self, what: str, row: int | None = None) -> ValueError:
        """Return an error that says where these rows stand."""
        place = self.where if row is None else f"{self.where}, row {self.first + row}"
        return ValueError(f"{place}: {what}")


def arrays_of(X: Any) -> tuple[Array, ...]:
    """Return what rows are made of."""
    return (X.data, X.indices, X.indptr, np.array(X.shape)) if sp.issparse(X) else (X,)


def rows_from(arrays: Sequence[Array]) -> Array | sp.csr_array:
    """Return the rows that were taken apart."""
    if len(arrays) == 1:
        return arrays[0]
    data, indices, indptr, shape = arrays
    rows = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    rows.has_sorted_indices = rows.has_canonical_format = True  # as it was
    return rows


def some_rows_from(read: Callable[[int, slice], Array], rows: slice, columns: int | None) -> Array | sp.csr_array:
    """Return some of the rows that were taken apart: parts of arrays are read. Sparse ones have so many columns."""
    if columns is None:
        return read(0, rows)
    indptr = read(2, slice(rows.start, rows.stop + 1))
    stored = slice(int(indptr[0]), int(indptr[-1]))
    shape = np.array([rows.stop - rows.start, columns])
    return rows_from([read(0, stored), read(1, stored), indptr - indptr[0], shape])


class Piece(Protocol):
    """Some rows of a source that can be read apart from the others, here or, since it can be pickled, elsewhere."""

    def read(self) -> Iterator[Chunk]:
        """Yield the rows, chunk by chunk: the same chunks every time."""


class Source(ABC):
    """Rows that can be read again and again, in pieces. What an estimator's ``fit`` takes in place of ``X`` and ``y``.

    :class:`Parquet`, :class:`Svmlight`, :class:`Npy` and :class:`Chunks` are sources. Every piece is read as a stream
    of chunks, of which a few are in memory at a time. A ``watcher``, if there is one, is told of rows as this process
    reads them: in a first look, and in every pass.

    Examples
    --------
    >>> import majorant
    >>> issubclass(majorant.Parquet, majorant.Source)
    True
    """

    watcher: Watcher | None = None

    @property
    def feature_names(self) -> Sequence[str] | None:
        """Names of the columns, where they have any."""
        return None

    @abstractmethod
    def pieces(self) -> Sequence[Piece]:
        """Return the pieces, which together are all rows."""

    def chunks(self) -> Iterator[Chunk]:
        """Yield all rows, one piece after the other."""
        for piece in self.pieces():
            yield from piece.read()


def rows_per_chunk(columns: int) -> int:
    """Return how many rows of so many columns make a chunk."""
    return max(CHUNK_NUMBERS // max(columns, 1), 1)


def _of_one_type(y: Array) -> Array:
    """Return labels that are all strings, or all numbers, as an array of those."""
    if all(isinstance(label, str) for label in y) or not any(isinstance(label, str) for label in y):
        return np.array(y.tolist())
    return y


def _missing(y: Array) -> Array:
    """Return which labels are none."""
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind == "O":
        return np.array([label is None or label != label for label in y], dtype=bool)
    return np.zeros(len(y), dtype=bool)
