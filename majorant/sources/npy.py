"""Rows in .npy files, a chunk at a time: no more of them is ever in memory, or mapped into it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from majorant.core.checks import Array
from majorant.sources.base import Chunk, Piece, Source, rows_per_chunk


@dataclass(frozen=True)
class Npy(Source):
    """Rows in .npy files: an array of features, one of labels, and perhaps one of weights.

    Parameters
    ----------
    X : path
        Of an array with two dimensions.
    y, weight : path or array, optional
        With one entry for each row.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import majorant
    >>> folder, rng = tempfile.mkdtemp(), np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> np.save(f"{folder}/X.npy", X)
    >>> np.save(f"{folder}/y.npy", X[:, 0] > 0)
    >>> model = majorant.LogisticRegression().fit(majorant.Npy(f"{folder}/X.npy", f"{folder}/y.npy"))
    >>> model.result_.converged
    True
    """

    X: str | Path
    y: Any = None
    weight: Any = None

    def pieces(self) -> Sequence[Piece]:
        """Return one piece for each chunk of rows."""
        X = Stored.of(self.X)
        if len(X.shape) != 2:
            raise ValueError(f"{self.X}: X must have two dimensions, got shape {X.shape}")
        rows, columns = X.shape
        if not columns:
            raise ValueError(f"{self.X}: there is no column to learn from, got shape {X.shape}")
        arrays: list[Any] = []
        for name, values in (("y", self.y), ("weight", self.weight)):
            array = Stored.of(values) if isinstance(values, str | Path) else values
            if array is not None and not hasattr(array, "__len__"):
                raise TypeError(f"y and weight must be paths or arrays, got {values!r:.80}")
            if array is not None and len(array) != rows:
                raise ValueError(f"{name} must have one entry for each row of {self.X} ({rows}), got {len(array)}")
            arrays.append(array)
        size = rows_per_chunk(columns)
        pieces: list[Piece] = []
        for begin in range(0, rows, size):
            part = slice(begin, min(begin + size, rows))
            given = [array if array is None or isinstance(array, Stored) else array[part] for array in arrays]
            pieces.append(NpyPiece(X, part, *given))
        return pieces


@dataclass(frozen=True)
class Stored:
    """An array in a .npy file, of which rows are read as they are asked for."""

    path: str | Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @classmethod
    def of(cls, path: str | Path) -> Stored:
        """Read the head of a file."""
        try:
            with open(path, "rb") as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, by_columns, dtype = read(file)
                offset = file.tell()
        except ValueError as problem:
            raise ValueError(f"{path} is not a .npy file ({problem})") from None
        if by_columns and len(shape) > 1:
            raise ValueError(f"{path} is stored column by column: save np.ascontiguousarray of it")
        needed = offset + prod(shape) * dtype.itemsize
        if os.path.getsize(path) < needed:
            raise ValueError(f"{path} is cut short: {shape} numbers take {needed} bytes, got {os.path.getsize(path)}")
        if dtype.hasobject:
            raise ValueError(f"{path} holds Python objects: save numbers or strings of a fixed length")
        return cls(path, shape, dtype, offset)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        width = prod(self.shape[1:])
        start, count = self.offset + rows.start * width * self.dtype.itemsize, (rows.stop - rows.start) * width
        return np.fromfile(self.path, self.dtype, count, offset=start).reshape(-1, *self.shape[1:])


@dataclass(frozen=True)
class NpyPiece:
    """Rows of X, y and weight: of stored arrays, which have yet to be read, or of arrays in memory."""

    X: Stored
    rows: slice
    y: Any
    weight: Any

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        arrays = (self.X, self.y, self.weight)
        X, y, weight = (array[self.rows] if isinstance(array, Stored) else array for array in arrays)
        yield Chunk.of(X, y, weight, str(self.X.path), self.rows.start)
