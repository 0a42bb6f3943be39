"""A table, or a part of one: named columns, or a matrix whose columns are known by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array
from majorant.cli.refusals import NotANumber, OtherNotation, UnusableType
from majorant.cli.tables.column import (
    BooleanColumn,
    Column,
    NumberColumn,
    Opaque,
    OpaqueColumn,
    TextColumn,
    WordAmongNumbers,
)
from majorant.cli.tables.numbers import looks_numeric

# Rows of a chunk if nobody says how many, and cells of one where there are many columns.
CHUNK, CELLS = 20_000, 2**20

T = TypeVar("T")


class MixedColumns(Exception):
    """Columns that began with numbers turned out to hold text: read them as text from the start."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named columns; ``first_row`` is the number of the first in its file, counted from 1."""

    origin: str
    columns: dict[str, Column]
    first_row: int = 1
    taken: Array | None = None  # rows of the table that this one was taken from

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Column:
        """Return a column, or say which there are."""
        if name not in self.columns:
            raise ValueError(f"{self.origin} has no column {name!r}; it has {_listed(self.columns)}")
        return self.columns[name]

    def numbers(self, name: str) -> Array:
        """Return a column as floats, NaN where missing."""
        return self._ask(name, lambda column: column.numbers())

    def text(self, name: str) -> list[str | None]:
        """Return a column as strings, None where missing."""
        return self._ask(name, lambda column: column.text())

    def is_text(self, name: str) -> bool:
        """Return whether a column holds text."""
        return self._ask(name, lambda column: column.is_text)

    def missing(self, name: str) -> Array:
        """Return which rows lack a value in a column."""
        if self.is_text(name):
            return np.array([value is None for value in self.text(name)])
        return np.isnan(self.numbers(name))

    def take(self, rows: Array) -> Table:
        """Return the given rows; they keep their numbers."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        return Table(self.origin, columns, self.first_row, rows if self.taken is None else self.taken[rows])

    def row(self, place: int) -> int:
        """Return the number that a row has in its file."""
        return row_number(self, place)

    def _ask(self, name: str, question: Callable[[Column], T]) -> T:
        try:
            return question(self.column(name))
        except Opaque as found:
            raise UnusableType(name, self.origin, found.kind) from None
        except WordAmongNumbers as found:
            kind = OtherNotation if looks_numeric(found.value) else NotANumber
            raise kind(name, self.origin, found.value, self.row(found.place)) from None


@dataclass(frozen=True, eq=False)
class Matrix:
    """Rows of a matrix with labels, as svmlight and npz files hold them; columns are known by number."""

    origin: str
    X: Any
    labels: NumberColumn | TextColumn
    first_row: int = 1
    taken: Array | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: Array) -> Matrix:
        """Return the given rows; they keep their numbers."""
        taken = rows if self.taken is None else self.taken[rows]
        return Matrix(self.origin, self.X[rows], self.labels.take(rows), self.first_row, taken)

    def row(self, place: int) -> int:
        """Return the number that a row has in its file."""
        return row_number(self, place)


def row_number(rows: Table | Matrix, place: int) -> int:
    """Return the number that a row has in its file, counted from 1."""
    return rows.first_row + (place if rows.taken is None else int(rows.taken[place]))


def chunk_rows(rows: int | None, columns: int) -> int:
    """Return how many rows of so many columns make a chunk, if nobody says so.

    Examples
    --------
    >>> chunk_rows(None, 10), chunk_rows(None, 2**12), chunk_rows(7, 2**12)
    (20000, 256, 7)
    """
    return max(min(CHUNK, CELLS // max(columns, 1)), 1) if rows is None else rows


def join(parts: list[Table], text: frozenset[str]) -> Table:
    """Return one table of its parts; raises :class:`MixedColumns` where they disagree about columns not in ``text``."""
    first = parts[0]
    # A column without a name is used by nobody: not all files need it.
    names = [name for name in first.columns if name or all(name in part.columns for part in parts)]
    by_name = {name: [part.column(name) for part in parts] for name in names}
    mixed = [name for name, columns in by_name.items() if name not in text and _disagree(columns)]
    if mixed:
        raise MixedColumns(mixed)
    return Table(first.origin, {name: _join_columns(columns) for name, columns in by_name.items()}, first.first_row)


def join_matrices(parts: list[Matrix]) -> Matrix:
    """Return one matrix of its parts, as wide as the widest."""
    width = max(part.X.shape[1] for part in parts)
    rows = [part.X if part.X.shape[1] == width else widened(part.X, width) for part in parts]
    X = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.vstack(rows)
    labels = _join_columns([part.labels for part in parts])
    assert not isinstance(labels, OpaqueColumn)
    return Matrix(parts[0].origin, X, labels, parts[0].first_row)


def widened(X: Any, width: int) -> Any:
    """Return a sparse matrix with empty columns added."""
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def _disagree(parts: Sequence[Column]) -> bool:
    return 0 < sum(isinstance(part, TextColumn) for part in parts) < len(parts)


def _join_columns(parts: Sequence[Column]) -> Column:
    if all(isinstance(part, NumberColumn) for part in parts):
        kind = BooleanColumn if all(isinstance(part, BooleanColumn) for part in parts) else NumberColumn
        return kind(np.concatenate([part.numbers() for part in parts]))
    if isinstance(parts[0], OpaqueColumn):
        return OpaqueColumn(parts[0].kind, sum(map(len, parts)))
    words = [part for part in parts if isinstance(part, TextColumn)]
    return words[0].joined(words)


def refuse_twice(names: Sequence[str], origin: str) -> None:
    """Raise if two columns have one name; of columns without any, a table keeps the last."""
    twice = [name for name, times in Counter(filter(None, names)).items() if times > 1]
    if twice:
        raise ValueError(f"{origin} has two columns named {twice[0]!r}")


def _listed(names: Iterable[str], most: int = 20) -> str:
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(name or "one without a name" for name in shown[:most]) + more
