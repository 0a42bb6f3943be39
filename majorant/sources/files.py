"""Rows in Parquet, svmlight and .npy files, of which a few chunks are in memory at a time."""

from __future__ import annotations

import bz2
import gzip
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from majorant.core.checks import Array, needed, refuse_null_ending
from majorant.sources import base
from majorant.sources.base import Chunk, Labels, Piece, Source, found_files, rows_per_chunk

if TYPE_CHECKING:
    import pyarrow as pa

# What can be wrong with a line of svmlight, as scikit-learn's reader says it.
BAD_LINE = (ValueError, IndexError, OverflowError)
PACKED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}


# --- Parquet ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parquet(Source):
    """Rows of Parquet files.

    Parameters
    ----------
    path : path, pattern, or list of paths
        A folder stands for all ``.parquet`` files in it and below, in the order of their names.
    target : str, optional
        The column of labels, numbers or strings; needed to fit.
    features : list of str, optional
        Columns to learn from; all others if not given, which must then be numbers.
    weight : str, optional
        A column of weights.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> import pyarrow.parquet
    >>> import majorant
    >>> folder, rng = tempfile.mkdtemp(), np.random.default_rng(0)
    >>> for part in range(3):
    ...     x = rng.normal(size=1000)
    ...     table = pa.table({"x": x, "bought": np.where(x + rng.normal(size=1000) > 0, "yes", "no")})
    ...     pa.parquet.write_table(table, f"{folder}/part-{part}.parquet")
    >>> model = majorant.LogisticRegression().fit(majorant.Parquet(folder, target="bought"))
    >>> model.result_.converged, model.classes_.tolist()
    (True, ['no', 'yes'])
    """

    path: Any
    target: str | None = None
    features: Sequence[str] | None = None
    weight: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise TypeError(f"features must be a list of columns, got {self.features!r}; put it in brackets")

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("path", "target", "features", "weight")}

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the columns that are learnt from."""
        return self._layout[0].features

    def pieces(self) -> Sequence[Piece]:
        """Return a piece for every few row groups of a file."""
        return self._layout[1]

    @cached_property
    def _layout(self) -> tuple[Columns, list[Piece]]:
        """The columns of the first file, which all others have to have as well, and the pieces of all."""
        columns: Columns | None = None
        paths = found_files(self.path, ".parquet")
        found = []
        for path in paths:
            with open_parquet(path, str(path)) as file:
                columns = Columns.of(self, path, file.schema_arrow, columns)
                found.append(file.metadata)
        assert columns is not None
        rows = rows_per_chunk(len(columns.features))
        pieces: list[Piece] = []
        for path, metadata in zip(paths, found, strict=True):
            runs = row_group_runs(metadata, rows)
            pieces += (ParquetPiece(path, columns, groups, first, rows) for groups, first in runs)
        return columns, pieces


@dataclass(frozen=True)
class Columns:
    """The columns that are read, and their types."""

    features: tuple[str, ...]
    target: str | None
    weight: str | None
    types: dict[str, Any]  # of all of them
    dtype: Any = np.float32  # double precision as soon as a column of any file is not in single precision

    @classmethod
    def of(cls, source: Parquet, path: Path, schema: pa.Schema, before: Columns | None) -> Columns:
        """Return the columns that a source names, as a file has them; they must be those of the files ``before``."""
        wanted = [name for name in (source.target, source.weight) if name is not None]
        if before is None:
            features = source.features
            if features is None:
                features = [name for name in schema.names if name not in wanted]
            if not features:
                raise ValueError(f"{path}: there is no column to learn from, only {', '.join(schema.names) or 'none'}")
        else:
            features = before.features
        names = [*features, *wanted]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{path}: column {name!r} is asked for twice, or is target or weight as well")
            if schema.names.count(name) > 1:
                raise ValueError(f"{path}: {schema.names.count(name)} columns are called {name!r}")
            if name not in schema.names:
                rest = f"; there are {', '.join(schema.names)}" if before is None else ", unlike the files before"
                raise ValueError(f"{path}: there is no column {name!r}{rest}")
        types = {name: schema.field(name).type for name in names}
        for name, held in types.items():
            if before is not None:
                if held != before.types[name] and _kind(held) != _kind(before.types[name]):
                    raise ValueError(
                        f"{path}: column {name!r} holds {held}, but {before.types[name]} in the files before"
                    )
            elif name == source.target:
                if _kind(held) not in ("number", "text"):
                    raise ValueError(f"{path}: the target {name!r} holds {held}, not labels")
            elif _kind(held) != "number":
                raise ValueError(
                    f"{path}: column {name!r} holds {held}, not numbers; name the columns to learn from in "
                    "features=[…], or encode it first"
                )
        narrow = all(str(types[name]) in ("float", "halffloat") for name in features)
        dtype = np.float32 if narrow and (before is None or before.dtype == np.float32) else np.float64
        return cls(tuple(features), source.target, source.weight, types if before is None else before.types, dtype)


@dataclass(frozen=True)
class ParquetPiece:
    """A few row groups of a file."""

    path: Path
    columns: Columns
    groups: tuple[int, ...]
    first: int  # row of the file
    rows: int  # of a chunk

    def read(self) -> Iterator[Chunk]:
        """Yield their rows."""
        import pyarrow as pa

        columns, first, groups = self.columns, self.first, self.groups
        span = f" {groups[0]}" if len(groups) == 1 else f"s {groups[0]}–{groups[-1]}"
        where = f"{self.path}, row group{span}"
        try:
            with open_parquet(self.path, str(self.path), self.rows) as file:
                for batch in read_row_groups(file, groups, self.rows, str(self.path), list(columns.types)):
                    X = np.empty((batch.num_rows, len(columns.features)), dtype=columns.dtype)
                    for number, name in enumerate(columns.features):
                        # What is missing becomes NaN, which is refused by its place later on.
                        values = batch.column(name).to_numpy(zero_copy_only=False)
                        X[:, number] = values.astype(np.float64) if values.dtype == object else values
                    weight = None
                    if columns.weight is not None:
                        weight = batch.column(columns.weight).to_numpy(zero_copy_only=False).astype(np.float64)
                    chunk = Chunk(X, None, weight, where, first, columns=columns.features)
                    if columns.target is not None:
                        chunk = replace(chunk, labels=_labels(chunk, batch.column(columns.target), columns.target))
                    yield chunk
                    first += len(chunk)
        finally:
            pa.default_memory_pool().release_unused()


def open_parquet(file: Any, name: str, rows: int = 0) -> Any:
    """Return an open Parquet file, of which chunks of some rows will be read, or refuse what is none by its name.

    Of each column as many bytes are held as a chunk has: row groups of millions of rows are never in memory as a whole.
    """
    pa, parquet = (needed(module, "reading Parquet", "files") for module in ("pyarrow", "pyarrow.parquet"))
    try:
        return parquet.ParquetFile(file, buffer_size=8 * rows, pre_buffer=False)
    except pa.ArrowInvalid as problem:
        raise ValueError(f"{name} is not a Parquet file, or is incomplete ({problem})") from None


def row_group_runs(metadata: Any, rows: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield runs of neighbouring row groups with at least so many rows, if there are, and the first row of each."""
    groups: list[int] = []
    begin = end = 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        end += metadata.row_group(number).num_rows
        if end - begin >= rows or number == metadata.num_row_groups - 1:
            yield tuple(groups), begin
            groups, begin = [], end


def read_row_groups(
    file: Any, groups: Sequence[int], rows: int, name: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield at most so many rows of some row groups at a time; one that cannot be read is refused by its number."""
    import pyarrow as pa

    ends, seen = list(accumulate(file.metadata.row_group(number).num_rows for number in groups)), 0
    batches = file.iter_batches(rows, row_groups=list(groups), columns=columns)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as problem:
            group = groups[min(bisect_right(ends, seen), len(ends) - 1)]
            raise ValueError(f"{name}, row group {group} cannot be read ({str(problem)[:100]})") from None
        if batch is None:
            return
        yield batch
        seen += batch.num_rows


def _labels(chunk: Chunk, column: pa.Array, name: str) -> Labels:
    """Return labels by the dictionary of a column, which finds different ones without sorting rows."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise chunk.refuse(f"the label {name!r} is missing", row)
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    names: Array = encoded.dictionary.to_numpy(zero_copy_only=False)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    if names.dtype == object:
        refuse_null_ending(f"the label {name!r}", names)
        names = np.array(names.tolist())
    if names.dtype.kind == "f" and np.isnan(names[codes]).any():
        raise chunk.refuse(f"the label {name!r} is missing", int(np.argmax(np.isnan(names[codes]))))
    return Labels(names, codes)


def _kind(of: Any) -> str:
    """Return ``number``, ``text``, or the name of a type that is neither."""
    import pyarrow.types as types

    if types.is_floating(of) or types.is_integer(of) or types.is_boolean(of) or types.is_decimal(of):
        return "number"
    if types.is_dictionary(of):
        return _kind(of.value_type)
    return "text" if types.is_string(of) or types.is_large_string(of) or str(of) == "string_view" else str(of)


# --- svmlight ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Svmlight(Source):
    """Rows of svmlight files, ``label index:value …``, also gzipped (``.gz``) or compressed by bzip2 (``.bz2``).

    Parameters
    ----------
    path : path, pattern, or list of paths
        A folder stands for the files in it, in the order of their names.
    n_features : int, optional
        Columns; as many as occur if not given.
    zero_based : bool
        Whether the first column has the index 0. LIBSVM's files begin with 1.
    dtype : dtype
        float64 or float32.

    Examples
    --------
    >>> import tempfile
    >>> import majorant
    >>> path = Path(tempfile.mkdtemp()) / "rows.svm"
    >>> _ = path.write_text(chr(10).join(["1 1:0.5 3:1", "0 2:1", "1 1:2", "0 3:1"]))
    >>> majorant.LogisticRegression().fit(majorant.Svmlight(path)).coef_.shape
    (1, 3)
    """

    path: Any
    n_features: int | None = None
    zero_based: bool = False
    dtype: Any = np.float64

    def __post_init__(self) -> None:
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float64 or float32, got {self.dtype!r}")

    def pieces(self) -> Sequence[Piece]:
        """Return one piece for each file."""
        return [SvmlightPiece(path, self) for path in found_files(self.path)]


@dataclass(frozen=True)
class SvmlightPiece:
    """One file of a source."""

    path: Path
    source: Svmlight

    def read(self) -> Iterator[Chunk]:
        """Yield the rows, those of a few megabytes of lines at a time."""
        first, n_features = 0, self.source.n_features
        settings = dict(n_features=n_features, dtype=self.source.dtype, zero_based=self.source.zero_based)
        try:
            with PACKED.get(self.path.suffix, open)(self.path, "rb") as file:
                for X, y in read_svmlight(file, f"{self.path}, row", **settings):
                    if np.isfinite(y).all() and (y == np.round(y)).all() and np.abs(y).max(initial=0) < 2.0**53:
                        y = y.astype(np.int64)  # whole numbers, which scikit-learn's reader returns as floats
                    yield Chunk.of(X, y, None, str(self.path), first, n_features is None)
                    first += len(y)
        except FileNotFoundError:
            raise
        except (OSError, EOFError) as problem:
            raise ValueError(f"{self.path} cannot be read ({problem})") from None


def read_svmlight(
    file: BinaryIO, place: str, first: int = 0, rows: int | None = None, **settings: Any
) -> Iterator[tuple[Any, Array]]:
    """Yield rows and labels of svmlight text, those of a few megabytes of lines at a time, or at most so many.

    A line that is wrong is refused by the number of its row, of which ``first`` is the first, after ``place``.
    """
    from sklearn.datasets import load_svmlight_file

    def read(text: bytes) -> tuple[Any, Array]:
        return load_svmlight_file(BytesIO(text), **settings)

    while block := file.read(8 * base.CHUNK_NUMBERS):
        block += file.readline()  # the rest of the last line
        try:
            X, y = read(block)
        except BAD_LINE as problem:
            lines = [line for line in block.splitlines() if line.split(b"#")[0].strip()]
            for row, line in enumerate(lines, first):
                try:
                    read(line + b"\n")
                except BAD_LINE as of_line:
                    text = line[:60].decode(errors="replace")
                    from_zero = settings.get("zero_based") is False and "index 0" in str(of_line)
                    hint = "; pass zero_based=True if columns are counted from 0" if from_zero else ""
                    raise ValueError(f"{place} {row}: {of_line} in {text!r}{hint}") from None
            raise ValueError(f"{place}s from {first} on: {problem}") from None
        size = rows or max(len(y), 1)
        yield from ((X[begin : begin + size], y[begin : begin + size]) for begin in range(0, len(y), size))
        first += len(y)


# --- .npy -------------------------------------------------------------------------------------------------


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
        X = StoredArray.of(self.X)
        if len(X.shape) != 2:
            raise ValueError(f"{self.X}: X must have two dimensions, got shape {X.shape}")
        rows, columns = X.shape
        if not columns:
            raise ValueError(f"{self.X}: there is no column to learn from, got shape {X.shape}")
        arrays: list[Any] = []
        for name, values in (("y", self.y), ("weight", self.weight)):
            array = StoredArray.of(values) if isinstance(values, str | Path) else values
            if array is not None and not hasattr(array, "__len__"):
                raise TypeError(f"y and weight must be paths or arrays, got {values!r:.80}")
            if array is not None and len(array) != rows:
                raise ValueError(f"{name} must have one entry for each row of {self.X} ({rows}), got {len(array)}")
            arrays.append(array)
        size = rows_per_chunk(columns)
        pieces: list[Piece] = []
        for begin in range(0, rows, size):
            part = slice(begin, min(begin + size, rows))
            given = [array if array is None or isinstance(array, StoredArray) else array[part] for array in arrays]
            pieces.append(NpyPiece(X, part, *given))
        return pieces


@dataclass(frozen=True)
class StoredArray:
    """An array in a .npy file, of which rows are read as they are asked for: nothing is mapped into memory."""

    path: str | Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int

    @classmethod
    def of(cls, path: str | Path) -> StoredArray:
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

    X: StoredArray
    rows: slice
    y: Any
    weight: Any

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        arrays = (self.X, self.y, self.weight)
        X, y, weight = (array[self.rows] if isinstance(array, StoredArray) else array for array in arrays)
        yield Chunk.of(X, y, weight, str(self.X.path), self.rows.start)
