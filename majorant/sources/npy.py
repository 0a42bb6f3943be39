"""Rows in .npy files, read a stretch at a time: no more of them is ever in memory, or mapped into it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from majorant.core.checks import Array
from majorant.sources.base import Chunk, Labels, Piece, RowError, Source, rows_per_chunk
from majorant.sources.chunks import rows_of

# Chunks of a piece: pieces are what workers share.
CHUNKS_PER_PIECE = 8


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
        """Return stretches of rows."""
        layout = Layout.of(self.X)
        if len(layout.shape) != 2:
            raise ValueError(f"{self.X}: X must have two dimensions, got shape {layout.shape}")
        rows, columns = layout.shape
        if not columns:
            raise ValueError(f"{self.X}: there is no column to learn from, got shape {layout.shape}")
        for name, values in (("y", self.y), ("weight", self.weight)):
            length = None if values is None else _length(values)
            if length is not None and length != rows:
                raise ValueError(f"{name} must have one entry for each row of {self.X} ({rows}), got {length}")
        chunk = rows_per_chunk(columns)
        return [
            NpyPiece(self, begin, min(begin + CHUNKS_PER_PIECE * chunk, rows), chunk)
            for begin in range(0, rows, CHUNKS_PER_PIECE * chunk)
        ]


@dataclass(frozen=True)
class NpyPiece:
    """A stretch of rows."""

    source: Npy
    begin: int
    end: int
    rows: int  # of a chunk

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        X, y, weight = self.source.X, self.source.y, self.source.weight
        for begin in range(self.begin, self.end, self.rows):
            rows, where = slice(begin, min(begin + self.rows, self.end)), str(X)
            try:
                labels = None if y is None else Labels.of(_stretch(y, rows))
            except RowError as problem:
                raise ValueError(f"{where}, row {begin + problem.row}: {problem.what}") from None
            each = None if weight is None else np.asarray(_stretch(weight, rows), dtype=np.float64)
            yield Chunk(rows_of(_stretch(X, rows)), labels, each, where, begin)


@dataclass(frozen=True)
class Layout:
    """What the head of a .npy file says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @classmethod
    def of(cls, path: str | Path) -> Layout:
        """Read it."""
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
        needed = offset + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if os.path.getsize(path) < needed:
            raise ValueError(f"{path} is cut short: {shape} numbers take {needed} bytes, got {os.path.getsize(path)}")
        if dtype.hasobject:
            raise ValueError(f"{path} holds Python objects: save numbers or strings of a fixed length")
        return cls(shape, dtype, offset)


def _stretch(values: Any, rows: slice) -> Array:
    if not isinstance(values, str | Path):
        return np.asarray(values[rows])
    layout = Layout.of(values)
    width = int(np.prod(layout.shape[1:], dtype=np.int64))
    with open(values, "rb") as file:
        file.seek(layout.offset + rows.start * width * layout.dtype.itemsize)
        found = np.fromfile(file, layout.dtype, (rows.stop - rows.start) * width)
    return found.reshape(-1, *layout.shape[1:])


def _length(values: Any) -> int:
    if isinstance(values, str | Path):
        return Layout.of(values).shape[0]
    if not hasattr(values, "__len__"):
        raise TypeError(f"y and weight must be paths or arrays, got {values!r:.80}")
    return len(values)
