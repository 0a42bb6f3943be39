"""Rows in Parquet files, a few row groups at a time, only the columns that are asked for."""

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

# Bytes that are read of a column at a time: of row groups that hold millions of rows, not all is then in memory.
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

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the columns that are learnt from."""
        return self._columns.features

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise TypeError(f"features must be a list of columns, got {self.features!r}; put it in brackets")

    def pieces(self) -> Sequence[Piece]:
        """Return a piece for every few row groups of a file."""
        return self._pieces

    @cached_property
    def _pieces(self) -> list[Piece]:
        schemas = [(path, _opened(path).schema_arrow) for path in self._paths]
        for path, schema in schemas:
            self._columns.check(path, schema)
        # Single precision is kept if there is no other anywhere: the order of files does not matter.
        columns = replace(self._columns, narrow=all(self._columns.are_narrow(schema) for _, schema in schemas))
        return [piece for path in self._paths for piece in self._pieces_of(path, columns)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("path", "target", "features", "weight")}

    @cached_property
    def _paths(self) -> list[Path]:
        return found_files(self.path, ".parquet")

    @cached_property
    def _columns(self) -> Columns:
        """The columns of the first file, which all others have to have as well."""
        return Columns.of(self, self._paths[0])

    def _pieces_of(self, path: Path, columns: Columns) -> Iterator[ParquetPiece]:
        file, rows = _opened(path), rows_per_chunk(len(columns.features))
        groups: list[int] = []
        begin = first = 0
        for number in range(file.num_row_groups):
            groups.append(number)
            first += file.metadata.row_group(number).num_rows
            if first - begin >= rows or number == file.num_row_groups - 1:
                yield ParquetPiece(path, columns, tuple(groups), begin, rows)
                groups, begin = [], first
        file.close()


@dataclass(frozen=True)
class Columns:
    """Which columns are read, and of what type they are."""

    features: tuple[str, ...]
    target: str | None
    weight: str | None
    types: dict[str, Any]
    narrow: bool = False  # whether all numbers are in single precision

    @classmethod
    def of(cls, source: Parquet, path: Path) -> Columns:
        """Return those of a file."""
        schema = _opened(path).schema_arrow
        others = {source.target, source.weight}
        named = [name for name in schema.names if name not in others] if source.features is None else source.features
        if not named:
            raise ValueError(f"{path}: there is no column to learn from, only {', '.join(schema.names) or 'none'}")
        columns = cls(tuple(named), source.target, source.weight, {})
        for name in columns.all:
            if columns.all.count(name) > 1:
                raise ValueError(f"{path}: column {name!r} is asked for twice, or is target or weight as well")
            if schema.names.count(name) > 1:
                raise ValueError(f"{path}: {schema.names.count(name)} columns are called {name!r}")
            if name not in schema.names:
                raise ValueError(f"{path}: there is no column {name!r}; there are {', '.join(schema.names)}")
        for name in (*columns.features, *((source.weight,) if source.weight else ())):
            _require_number(path, name, schema.field(name).type)
        held = None if source.target is None else schema.field(source.target).type
        if held is not None and _kind(held) not in ("number", "text"):
            raise ValueError(f"{path}: the target {source.target!r} holds {held}, not labels")
        columns.types.update((name, schema.field(name).type) for name in columns.all)
        return columns

    @property
    def all(self) -> list[str]:
        """Every column that is read."""
        return [*self.features, *(name for name in (self.target, self.weight) if name is not None)]

    @property
    def dtype(self) -> Any:
        """Single precision if that is all there is, else double."""
        return np.float32 if self.narrow else np.float64

    def are_narrow(self, schema: pa.Schema) -> bool:
        """Return whether the features of a file are all in single precision."""
        return all(str(schema.field(name).type) in ("float", "halffloat") for name in self.features)

    def check(self, path: Path, schema: pa.Schema) -> None:
        """Refuse a file whose columns are others than those of the first."""
        for name in self.all:
            if name not in schema.names:
                raise ValueError(f"{path}: there is no column {name!r}, which the files before it have")
            ours, theirs = self.types[name], schema.field(name).type
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
        groups, first = self.groups, self.first
        where = f"{self.path}, row group{'s' if len(groups) > 1 else ''} {_span(groups)}"
        file = _opened(self.path)
        try:
            for batch in file.iter_batches(self.rows, row_groups=groups, columns=self.columns.all, use_threads=True):
                yield self._chunk(batch, where, first)
                first += batch.num_rows
        except OSError as problem:
            raise ValueError(f"{where} cannot be read ({str(problem)[:100]})") from None
        finally:
            file.close()
            _release_unused()

    def _chunk(self, batch: pa.RecordBatch, where: str, first: int) -> Chunk:
        columns = self.columns
        X = np.empty((batch.num_rows, len(columns.features)), dtype=columns.dtype)
        for number, name in enumerate(columns.features):
            X[:, number] = _numbers(batch.column(name))
        chunk = Chunk(X, None, None, where, first, columns=columns.features)
        weight = None if columns.weight is None else _numbers(batch.column(columns.weight)).astype(np.float64)
        labels = None if columns.target is None else _labels(chunk, batch.column(columns.target), columns.target)
        return replace(chunk, labels=labels, weight=weight)


def _opened(path: Path) -> Any:
    pa, parquet = (needed(module, "reading Parquet", "files") for module in ("pyarrow", "pyarrow.parquet"))
    try:
        return parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    except pa.ArrowInvalid as problem:
        raise ValueError(f"{path} is not a Parquet file, or is incomplete ({problem})") from None


def _release_unused() -> None:
    """Give memory back that Arrow keeps for later."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _numbers(column: pa.Array) -> Array:
    """Return numbers; what is missing is NaN, which is refused by its place later on."""
    numbers: Array = column.to_numpy(zero_copy_only=False)
    return numbers.astype(np.float64) if numbers.dtype == object else numbers


def _labels(chunk: Chunk, column: pa.Array, name: str) -> Labels:
    """Return labels by their dictionary, which finds different ones without sorting rows."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise chunk.refuse(f"the label {name!r} is missing", row)
    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    names: Array = encoded.dictionary.to_numpy(zero_copy_only=False)
    if names.dtype == object:
        refuse_null_ending(f"the label {name!r}", names)
        names = np.array(names.tolist())
    if names.dtype.kind == "f" and np.isnan(names).any():
        row = int(np.argmax(np.isnan(column.to_numpy(zero_copy_only=False))))
        raise chunk.refuse(f"the label {name!r} is missing", row)
    return Labels(names, encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp))


def _require_number(path: Path, name: str, kind: Any) -> None:
    if _kind(kind) != "number":
        raise ValueError(
            f"{path}: column {name!r} holds {kind}, not numbers; name the columns to learn from in features=[…], "
            "or encode it first"
        )


def _kind(of: Any) -> str:
    import pyarrow.types as types

    if types.is_floating(of) or types.is_integer(of) or types.is_boolean(of) or types.is_decimal(of):
        return "number"
    if types.is_dictionary(of):
        return _kind(of.value_type)
    return "text" if types.is_string(of) or types.is_large_string(of) or str(of) == "string_view" else str(of)


def _span(groups: Sequence[int]) -> str:
    return str(groups[0]) if len(groups) == 1 else f"{groups[0]}–{groups[-1]}"
