"""Parquet, by pyarrow."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np

from majorant._checks import Array
from majorant._extras import needed
from majorant.cli.refusals import NoRows
from majorant.cli.tables.arrow_csv import ArrowCells
from majorant.cli.tables.column import BooleanColumn, Column, NumberColumn, OpaqueColumn, TextColumn
from majorant.cli.tables.table import Table, chunk_rows, refuse_twice
from majorant.sources.base import rows_per_chunk

# Bytes that are read of a column at a time: of row groups that hold millions of rows, not all is then in memory.
BUFFER = 2**20
# Rows of a row group that is written.
GROUP = 2**17


def arrow() -> Any:
    """Return pyarrow, with its Parquet part loaded."""
    pyarrow, _ = (needed(module, "a Parquet file", "files") for module in ("pyarrow", "pyarrow.parquet"))
    return pyarrow


def read_parquet(file: BinaryIO, origin: str, rows: int | None, groups: Sequence[int] | None = None) -> Iterator[Table]:
    """Yield tables of at most so many rows, of all row groups or of some."""
    parquet = _opened(file, origin)
    refuse_twice(parquet.schema_arrow.names, origin)
    each = range(parquet.num_row_groups) if groups is None else groups
    first_row = 1 + sum(_rows_of(parquet, number) for number in range(each[0] if each else 0))
    for batch in _batches(parquet, origin, chunk_rows(rows, len(parquet.schema_arrow.names)), each):
        if batch.num_rows:
            columns = {name: _column(array) for name, array in zip(batch.schema.names, batch.columns, strict=True)}
            yield Table(origin, columns, first_row)
            first_row += batch.num_rows
    if groups is None and first_row == 1:
        raise NoRows(origin, "has no rows")


def runs_of_groups(file: BinaryIO, origin: str) -> list[tuple[int, ...]]:
    """Return runs of row groups, each of which is worth reading apart from the others."""
    parquet = _opened(file, origin)
    enough, rows = rows_per_chunk(len(parquet.schema_arrow.names)), 0
    runs: list[tuple[int, ...]] = [()]
    for number in range(parquet.num_row_groups):
        if rows >= enough:
            runs, rows = [*runs, ()], 0
        runs[-1], rows = (*runs[-1], number), rows + _rows_of(parquet, number)
    return runs


@contextmanager
def parquet_writer(path: Any, types: dict[str, str]) -> Iterator[Callable[[dict[str, list[Any]]], None]]:
    """Yield a function that writes columns of these types to a Parquet file, as they come; few are held."""
    pyarrow = arrow()
    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in types.items()])
    held: list[Any] = []

    def flush() -> None:
        if held:
            writer.write_table(pyarrow.Table.from_batches(held))
            held.clear()

    def write(columns: dict[str, list[Any]]) -> None:
        held.append(pyarrow.record_batch(columns, schema))
        if sum(batch.num_rows for batch in held) >= GROUP:
            flush()

    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        yield write
        flush()


def _opened(file: BinaryIO, origin: str) -> Any:
    pyarrow = arrow()
    try:
        return pyarrow.parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise ValueError(f"{origin} is not a Parquet file, or is incomplete ({problem})") from None


def _rows_of(parquet: Any, group: int) -> int:
    return int(parquet.metadata.row_group(group).num_rows)


def _batches(parquet: Any, origin: str, rows: int, groups: Sequence[int]) -> Iterator[Any]:
    """Yield batches of rows; say in which row group they could not be read."""
    seen = 0
    try:
        for batch in parquet.iter_batches(batch_size=rows, row_groups=list(groups)):
            yield batch
            seen += batch.num_rows
    except (arrow().ArrowException, OSError) as problem:
        ends = list(accumulate(_rows_of(parquet, number) for number in groups))
        group = groups[min(bisect_right(ends, seen), len(ends) - 1)]
        raise ValueError(f"row group {group} of {origin} cannot be read ({problem})") from None


def _column(array: Any) -> Column:
    types = arrow().types
    kind = array.type
    if types.is_dictionary(kind):
        return _column(array.dictionary_decode())
    if types.is_string(kind) or types.is_large_string(kind):
        return TextColumn(ArrowCells(array.fill_null("")), missing=frozenset({""}), typed=True)
    if types.is_boolean(kind):
        return BooleanColumn(_numbers(array))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NumberColumn(_numbers(array))
    return OpaqueColumn(str(kind), len(array))


def _numbers(array: Any) -> Array:
    decimal = arrow().types.is_decimal(array.type)
    values = array.to_pylist() if decimal else array.cast("float64").to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)
