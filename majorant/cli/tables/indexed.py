"""svmlight and npz: matrices whose columns are known by number; and how a model reads them."""

from __future__ import annotations

import io
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array
from majorant.cli.refusals import NoRows
from majorant.cli.tables.column import NumberColumn, TextColumn
from majorant.cli.tables.table import CHUNK, Matrix, Table, chunk_rows, widened

# Bytes of the lines of a chunk, if nobody says how many these are.
STRETCH = 2**23


def read_svmlight(file: BinaryIO, origin: str, rows: int | None) -> Iterator[Matrix]:
    """Yield matrices of at most so many rows; column i is the feature written as i."""
    lines = (line for line in file if line.split(b"#", 1)[0].strip())
    first_row = 1
    while batch := _stretch(lines, rows):
        X, y = _parsed(batch, origin, first_row)
        yield Matrix(origin, X, NumberColumn(y), first_row)
        first_row += len(batch)
    if first_row == 1:
        raise NoRows(origin, "is empty")


def _stretch(lines: Iterator[bytes], rows: int | None) -> list[bytes]:
    """Return the next lines: so many, or as many as take little memory."""
    batch: list[bytes] = []
    size = 0
    for line in itertools.islice(lines, CHUNK if rows is None else rows):
        batch.append(line)
        size += len(line)
        if rows is None and size >= STRETCH:
            break
    return batch


def _parsed(lines: list[bytes], origin: str, first_row: int) -> tuple[Any, Array]:
    """Return rows and labels, or say in which row there are none."""
    from sklearn.datasets import load_svmlight_file

    try:
        return load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
    except ValueError as problem:
        if len(lines) == 1:
            raise ValueError(f"{origin} is not svmlight text, in row {first_row}: {problem}") from None
        for place, line in enumerate(lines):
            _parsed([line], origin, first_row + place)
        raise


def read_npz(file: BinaryIO, origin: str, rows: int | None) -> Iterator[Matrix]:
    """Yield the arrays X and y of a NumPy archive; without y the rows have no labels."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name in ("X", "y")}
    except (OSError, ValueError, EOFError) as problem:
        raise ValueError(f"{origin} is not a NumPy archive, or is incomplete ({problem})") from None
    if arrays.get("X") is None or arrays["X"].ndim != 2 or not len(arrays["X"]):
        raise ValueError(f"{origin} must hold a two-dimensional array X (and labels y)")
    X = arrays["X"].astype(np.float64)
    y = arrays.get("y", np.full(len(X), np.nan))
    if y.shape != (len(X),):
        raise ValueError(f"y of {origin} must have one label per row of X ({len(X)}), got shape {y.shape}")
    rows = chunk_rows(rows, X.shape[1])
    for start in range(0, len(X), rows):
        yield Matrix(origin, X[start : start + rows], _labels(y[start : start + rows]), start + 1)


def _labels(y: Array) -> NumberColumn | TextColumn:
    return (
        TextColumn([str(value) for value in y], typed=True) if y.dtype.kind in "US" else NumberColumn(y.astype(float))
    )


@dataclass(frozen=True)
class Indices:
    """Features by number: ``width`` of them, from ``first`` (0 or 1) on, each divided by its ``scale``."""

    first: int
    width: int
    scale: tuple[float, ...] | None = None

    @property
    def names(self) -> list[str]:
        """Return what to call the features."""
        return [str(self.first + i) for i in range(self.width)]

    @property
    def levels(self) -> dict[str, int]:
        """No column is text."""
        return {}

    def encode(self, rows: Matrix | Table, missing: str) -> Any:
        """Return the features; those that the model does not know are left out, those that are absent are zero."""
        if not isinstance(rows, Matrix):
            raise ValueError(f"the model was trained on features without names (svmlight, npz), not on {rows.origin}")
        X, stop = rows.X, self.first + self.width
        if not sp.issparse(X):
            if X.shape[1] < stop:
                raise ValueError(f"X of {rows.origin} has {X.shape[1]} columns, the model needs {stop}")
        elif X.shape[1] < stop:
            X = widened(X, stop)
        X = X[:, self.first : stop]
        _refuse_non_finite(X, rows, self.first)
        return X if self.scale is None else self._scaled(X)

    def unseen(self, rows: Matrix | Table) -> dict[str, Counter[str]]:
        """Return nothing: there are no categories."""
        return {}

    def complete(self, rows: Matrix | Table) -> Array:
        """Return which rows lack nothing: all, since a matrix has no missing values."""
        return np.ones(len(rows), dtype=bool)

    def _scaled(self, X: Any) -> Any:
        factors = 1 / np.array(self.scale)
        return X.multiply(factors).tocsr() if sp.issparse(X) else X * factors


class IndexLearner:
    """Learns :class:`Indices` from matrices: which features there are and, if asked, their standard deviations."""

    def __init__(self, standardize: bool) -> None:
        self.standardize = standardize
        self._least, self._rows = 1, 0
        self._sums = np.zeros((2, 0))

    def update(self, rows: Matrix) -> None:
        """Take note of more rows."""
        X = rows.X
        self._rows += len(rows)
        # svmlight counts from 1; a file that has a feature 0, and any array, counts from 0.
        if not sp.issparse(X) or (X.indices == 0).any():
            self._least = 0
        if X.shape[1] > self._sums.shape[1]:
            self._sums = np.pad(self._sums, ((0, 0), (0, X.shape[1] - self._sums.shape[1])))
        squares = X.multiply(X) if sp.issparse(X) else X * X
        for total, part in zip(self._sums, (X, squares), strict=True):
            total[: X.shape[1]] += np.asarray(part.sum(axis=0)).ravel()

    def finish(self) -> Indices:
        """Return what was learnt."""
        width = self._sums.shape[1] - self._least
        if width < 1:
            raise ValueError("there are no features: every row is empty")
        if not self.standardize:
            return Indices(self._least, width)
        mean, square = self._sums / self._rows
        deviation = np.sqrt(np.maximum(square - mean**2, 0.0))[self._least :]
        return Indices(self._least, width, tuple(np.where(deviation > 0, deviation, 1.0).tolist()))


def _refuse_non_finite(X: Any, rows: Matrix, first: int) -> None:
    values = X.data if sp.issparse(X) else X
    if np.isfinite(values.sum()):
        return
    found = sp.coo_array(X)
    bad = np.flatnonzero(~np.isfinite(found.data))
    if len(bad):
        row, feature = (int(place[bad[0]]) for place in found.coords)
        value = found.data[bad[0]]
        raise ValueError(f"feature {first + feature} of {rows.origin} is {value} in row {rows.row(row)}")
