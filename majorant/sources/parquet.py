"""Rows in Parquet files: a few row groups at a time, and only the columns that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from majorant.core.checks import Array, needed, refuse_null_ending
from majorant.sources.base import Chunk, Labels, Piece, Source, found_files, rows_per_chunk

if TYPE_CHECKING:
    import pyarrow as pa

# Bytes that are read of a column at a time: row groups of millions of rows are then never in memory as a whole.
BUFFER = 2**16


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
        files = []
        for path in found_files(self.path, ".parquet"):
            with _opened(path) as file:
                schema = file.schema_arrow
                files.append((path, [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]))
            if columns is None:
                columns = Columns.of(self, path, schema)
            else:
                columns.check(path, schema)
            if not all(str(schema.field(name).type) in ("float", "halffloat") for name in columns.features):
                columns = replace(columns, dtype=np.float64)
        assert columns is not None
        rows = rows_per_chunk(len(columns.features))
        pieces: list[Piece] = []
        for path, sizes in files:
            groups: list[int] = []
            begin = end = 0
            for number, size in enumerate(sizes):
                groups.append(number)
                end += size
                if end - begin >= rows or number == len(sizes) - 1:
                    pieces.append(ParquetPiece(path, columns, tuple(groups), begin, rows))
                    groups, begin = [], end
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
    def of(cls, source: Parquet, path: Path, schema: pa.Schema) -> Columns:
        """Return the columns that a source names, as a file has them."""
        named = source.features
        if named is None:
            named = [name for name in schema.names if name not in (source.target, source.weight)]
        if not named:
            raise ValueError(f"{path}: there is no column to learn from, only {', '.join(schema.names) or 'none'}")
        names = [*named, *(name for name in (source.target, source.weight) if name is not None)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{path}: column {name!r} is asked for twice, or is target or weight as well")
            if schema.names.count(name) > 1:
                raise ValueError(f"{path}: {schema.names.count(name)} columns are called {name!r}")
            if name not in schema.names:
                raise ValueError(f"{path}: there is no column {name!r}; there are {', '.join(schema.names)}")
        types = {name: schema.field(name).type for name in names}
        for name, held in types.items():
            if name == source.target and _kind(held) not in ("number", "text"):
                raise ValueError(f"{path}: the target {name!r} holds {held}, not labels")
            if name != source.target and _kind(held) != "number":
                raise ValueError(
                    f"{path}: column {name!r} holds {held}, not numbers; name the columns to learn from in "
                    "features=[…], or encode it first"
                )
        return cls(tuple(named), source.target, source.weight, types)

    def check(self, path: Path, schema: pa.Schema) -> None:
        """Refuse a file whose columns are others than those of the first."""
        for name, ours in self.types.items():
            if name not in schema.names:
                raise ValueError(f"{path}: there is no column {name!r}, which the files before it have")
            theirs = schema.field(name).type
            if ours != theirs and _kind(ours) != _kind(theirs):
                raise ValueError(f"{path}: column {name!r} holds {theirs}, but {ours} in the files before")


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
            with _opened(self.path) as file:
                for batch in file.iter_batches(self.rows, row_groups=groups, columns=list(columns.types)):
                    X = np.empty((batch.num_rows, len(columns.features)), dtype=columns.dtype)
                    for number, name in enumerate(columns.features):
                        X[:, number] = _numbers(batch.column(name))
                    weight = _numbers(batch.column(columns.weight)).astype(np.float64) if columns.weight else None
                    chunk = Chunk(X, None, weight, where, first, columns=columns.features)
                    if columns.target is not None:
                        chunk = replace(chunk, labels=_labels(chunk, batch.column(columns.target), columns.target))
                    yield chunk
                    first += len(chunk)
        except OSError as problem:
            raise ValueError(f"{where} cannot be read ({str(problem)[:100]})") from None
        finally:
            pa.default_memory_pool().release_unused()


def _opened(path: Path) -> Any:
    pa, parquet = (needed(module, "reading Parquet", "files") for module in ("pyarrow", "pyarrow.parquet"))
    try:
        return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    except pa.ArrowInvalid as problem:
        raise ValueError(f"{path} is not a Parquet file, or is incomplete ({problem})") from None


def _numbers(column: pa.Array) -> Array:
    """Return numbers; what is missing is NaN, which is refused by its place later on."""
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers.astype(np.float64) if numbers.dtype == object else numbers


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
