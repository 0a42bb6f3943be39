"""Parquet, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from majorant._checks import Array
from majorant.cli.tables.column import BooleanColumn, Column, NumberColumn, OpaqueColumn, TextColumn
from majorant.cli.tables.table import Table, refuse_twice


def arrow() -> Any:
    """Return pyarrow, with its Parquet part loaded."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError("Parquet files need pyarrow: pip install 'majorant[files]'") from None
    return pyarrow


def read_parquet(file: BinaryIO, origin: str, rows: int) -> Iterator[Table]:
    """Yield tables of at most so many rows."""
    pyarrow = arrow()
    try:
        parquet = pyarrow.parquet.ParquetFile(file)
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise ValueError(f"{origin} is not a Parquet file, or is incomplete ({problem})") from None
    refuse_twice(parquet.schema_arrow.names, origin)
    first_row = 1
    for batch in parquet.iter_batches(batch_size=rows):
        if batch.num_rows:
            columns = {name: _column(array) for name, array in zip(batch.schema.names, batch.columns, strict=True)}
            yield Table(origin, columns, first_row)
            first_row += batch.num_rows
    if first_row == 1:
        raise ValueError(f"{origin} has no rows")


def write_parquet(path: Any, columns: dict[str, Any]) -> None:
    """Write columns to a Parquet file."""
    pyarrow = arrow()
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def _column(array: Any) -> Column:
    types = arrow().types
    kind = array.type
    if types.is_dictionary(kind):
        return _column(array.dictionary_decode())
    if types.is_string(kind) or types.is_large_string(kind):
        return TextColumn([value or "" for value in array.to_pylist()], missing=frozenset({""}), typed=True)
    if types.is_boolean(kind):
        return BooleanColumn(_numbers(array))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NumberColumn(_numbers(array))
    return OpaqueColumn(str(kind), len(array))


def _numbers(array: Any) -> Array:
    decimal = arrow().types.is_decimal(array.type)
    values = array.to_pylist() if decimal else array.cast("float64").to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)
