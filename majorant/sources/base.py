"""Which files somebody means.

Where rows come from that need not fit in memory: pieces that can be read apart, chunk by chunk, again and again.

How rows that were read become rows that are fitted.

Small chunks, read one after the other, as larger ones: what is done once for each is then done seldom.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from majorant.core.affine import Centre
from majorant.core.checks import Array, refuse_null_ending
from majorant.core.labelled import Labelled
from majorant.core.matrix import CsrDesign, DenseDesign, Design, laid_out


def found_files(path: Any, ending: str = "") -> list[Path]:
    """Return the files of a path, a folder, a pattern, or a list of those, in the order of their names."""
    if isinstance(path, str | Path):
        return _files_of(path, ending)
    if not isinstance(path, Iterable):
        raise TypeError(f"path must be a path, a pattern or a list of paths, got {path!r:.80}")
    found = [file for each in path for file in _files_of(each, ending)]
    if not found:
        raise FileNotFoundError("path must name at least one file, got an empty list")
    return found


def _files_of(path: str | Path, ending: str) -> list[Path]:
    target = Path(path)
    if target.is_dir():
        files = (each for each in target.rglob(f"*{ending}") if each.is_file())
        # Other writers leave marks beside their files.
        found = sorted(each for each in files if not each.name.startswith(("_", ".")))
        if not found:
            raise FileNotFoundError(f"{path} holds no {ending or 'readable'} files")
        return found
    if target.exists():
        return [target]
    found = sorted(Path(each) for each in glob(str(path), recursive=True)) if has_magic(str(path)) else []
    if not found:
        raise FileNotFoundError(f"no file is called, or matches, {path}")
    return found


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


@dataclass(frozen=True, eq=False)
class Encoding:
    """What every chunk has to be told: which classes there are, how many columns, and where these are measured from."""

    classes: Array
    class_weights: Array | None  # of each class
    columns: int
    dtype: np.dtype[Any]
    constant: bool
    centre: Centre | None
    total: int  # rows of all chunks

    def __call__(self, chunk: Chunk) -> Labelled:
        """Return the rows of a chunk, labelled."""
        assert chunk.labels is not None
        codes = np.searchsorted(self.classes, chunk.labels.names)[chunk.labels.codes]
        weight = self.weight_of(codes, chunk.weight)
        center: Any = False if self.centre is None else self.centre
        return Labelled(self.design(chunk), codes, weight, constant=self.constant, center=center).as_some_of(self.total)

    def design(self, chunk: Chunk) -> Design:
        """Return the rows of a chunk as a matrix; columns beyond those of the fit were zero there."""
        if not sp.issparse(chunk.X):
            return DenseDesign(laid_out(chunk.X, self.dtype))
        X = sp.csr_array(chunk.X)
        arrays = laid_out(X.data, self.dtype), laid_out(X.indices), laid_out(X.indptr)
        return CsrDesign(sp.csr_array(arrays, shape=(X.shape[0], self.columns)))

    def weight_of(self, codes: Array, weight: Array | None) -> Array | None:
        """Return the weights of rows times those of their classes."""
        if self.class_weights is None:
            return weight
        of_class = self.class_weights[codes]
        return of_class if weight is None else of_class * weight


# Chunks of fewer numbers are joined, as long as they have no more together.
SMALL = 2**17


def in_larger_chunks(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield the same rows in the same order, in chunks that are no smaller than they have to be.

    Only rows that could be those of one matrix are joined: others are refused by whoever sees them, by their place.
    """
    waiting: list[Chunk] = []
    held = 0
    for chunk in chunks:
        numbers = _numbers(chunk)
        if waiting and (held + numbers > SMALL or not _alike(waiting[-1], chunk)):
            yield joined(waiting)
            waiting, held = [], 0
        if numbers >= SMALL:  # nobody waits for another one, and nothing here holds on to it
            yield chunk
        else:
            waiting.append(chunk)
            held += numbers
        del chunk
    if waiting:
        yield joined(waiting)


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """Return the rows of several chunks as one, which stands where the first of them does."""
    if len(chunks) == 1:
        return chunks[0]
    first, parts = chunks[0], [chunk.X for chunk in chunks]
    X = sp.csr_array(sp.vstack(parts, format="csr")) if first.is_sparse else np.concatenate(parts)
    return replace(first, X=X, labels=_joined_labels(chunks), weight=_joined_weights(chunks))


def _joined_labels(chunks: Sequence[Chunk]) -> Labels | None:
    found = [chunk.labels for chunk in chunks if chunk.labels is not None]
    if not found:
        return None
    names = np.unique(np.concatenate([each.names for each in found]))
    return Labels(names, np.concatenate([np.searchsorted(names, each.names)[each.codes] for each in found]))


def _joined_weights(chunks: Sequence[Chunk]) -> Array | None:
    if all(chunk.weight is None for chunk in chunks):
        return None
    return np.concatenate([np.ones(len(chunk)) if chunk.weight is None else chunk.weight for chunk in chunks])


def _numbers(chunk: Chunk) -> int:
    return int(chunk.X.nnz + len(chunk) if chunk.is_sparse else chunk.X.size)


def _alike(one: Chunk, other: Chunk) -> bool:
    """Return whether rows could be those of one matrix, and labels those of one list."""
    if (one.labels is None) != (other.labels is None):
        return False
    kinds = [chunk.labels.names.dtype.kind for chunk in (one, other) if chunk.labels is not None]
    return (
        one.X.shape[1] == other.X.shape[1]
        and one.X.dtype == other.X.dtype
        and one.is_sparse == other.is_sparse
        and one.open_ended == other.open_ended
        and one.columns == other.columns
        and len(set(kinds)) <= 1
    )
