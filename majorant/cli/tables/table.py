"""A table, or a part of one: named columns, or a matrix whose columns are known by number."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array

T = TypeVar("T")
# What a text file may write where a value is missing; the question mark is that of the UCI repository.
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"})
TRUTH = {"true": 1.0, "false": 0.0}
# 1,5 and 1,000: one cannot tell whether that is a fraction or thousands.
WITH_COMMA = re.compile(r"\s*[+-]?(\d+(,\d+)+(\.\d*)?|\d+(\.\d{3})+,\d+)([eE][+-]?\d+)?\s*")
MARK_HINT = "say --decimal , (or .) if that is the mark before a fraction; marks between thousands are not read"


class MixedColumn(Exception):
    """A column that held numbers turned out to hold text: read it as text from the start."""

    def __init__(self, name: str) -> None:
        self.name = name


class Unusable(Exception):
    """A column cannot be read as was asked; ``row`` is where, if that is one place."""

    def __init__(self, sentence: str, row: int | None = None) -> None:
        super().__init__(sentence)
        self.row = row


class TextColumn:
    """Values as they are written.

    ``typed`` says that the file calls them text (Parquet does); otherwise they are numbers if all of them look so, or
    all are true and false. ``decimal`` is the mark before a fraction.
    """

    def __init__(
        self, values: Sequence[str], missing: frozenset[str] = MISSING, typed: bool = False, decimal: str = "."
    ) -> None:
        self.values, self.missing, self.typed, self.decimal = values, missing, typed, decimal
        self._numbers: Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_text(self) -> bool:
        """Whether there is a value that is neither a number nor missing."""
        return self.typed or self._first_word() is not None

    def numbers(self) -> Array:
        """Return floats, NaN where a value is missing."""
        word = self._first_word()
        if word is not None:
            hint = f"; {MARK_HINT}" if looks_numeric(self.values[word]) else ""
            raise Unusable(f"holds {self.values[word]!r}, which is not a number{hint}", word)
        assert self._numbers is not None
        return self._numbers

    def text(self) -> list[str | None]:
        """Return strings, None where a value is missing."""
        return [None if value in self.missing else value for value in self.values]

    def take(self, rows: Array) -> TextColumn:
        """Return the given rows."""
        return self._like([self.values[i] for i in rows])

    def compact(self) -> Column:
        """Return the same in less memory: numbers if they are, each string once otherwise."""
        if not self.is_text:
            return NumberColumn(self.numbers())
        once: dict[str, str] = {}
        return self._like([once.setdefault(value, value) for value in self.values])

    def joined(self, parts: Sequence[TextColumn]) -> TextColumn:
        """Return the values of some columns like this one, end to end."""
        return self._like([value for part in parts for value in part.values])

    def _like(self, values: Sequence[str]) -> TextColumn:
        return TextColumn(values, self.missing, self.typed, self.decimal)

    def _first_word(self) -> int | None:
        """Return where the first value stands that is no number; the numbers are kept if there is none."""
        if self._numbers is not None:
            return None
        try:
            self._numbers = _floats(self.values, self.decimal)
        except ValueError:
            cells = ["nan" if value in self.missing else value for value in self.values]
            try:
                self._numbers = _truths(cells) if _starts_true_or_false(cells) else _floats(cells, self.decimal)
            except ValueError:
                return next(i for i, cell in enumerate(cells) if not is_number(cell, self.decimal))
        return None


class NumberColumn:
    """Numbers, NaN where one is missing."""

    is_text = False

    def __init__(self, values: Array) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def numbers(self) -> Array:
        """Return the numbers."""
        return self.values

    def text(self) -> list[str | None]:
        """Return each number as one would write it."""
        return [None if v != v else str(int(v)) if v == round(v) else repr(v) for v in self.values.tolist()]

    def take(self, rows: Array) -> NumberColumn:
        """Return the given rows."""
        return type(self)(self.values[rows])

    def compact(self) -> Column:
        """Return itself."""
        return self


class BooleanColumn(NumberColumn):
    """Ones and zeros that are called true and false."""

    def text(self) -> list[str | None]:
        """Return true and false."""
        return [None if v != v else "true" if v else "false" for v in self.values.tolist()]


class OpaqueColumn:
    """Values of a type that no model here can use, such as dates or lists; an error only if one asks for them."""

    def __init__(self, kind: str, rows: int) -> None:
        self.kind, self._rows = kind, rows

    def __len__(self) -> int:
        return self._rows

    @property
    def is_text(self) -> bool:
        """Refuse."""
        self._refuse()
        return False

    def numbers(self) -> Array:
        """Refuse."""
        return self._refuse()

    def text(self) -> list[str | None]:
        """Refuse."""
        return self._refuse()

    def take(self, rows: Array) -> OpaqueColumn:
        """Return as many rows."""
        return OpaqueColumn(self.kind, len(rows))

    def compact(self) -> Column:
        """Return itself."""
        return self

    def _refuse(self) -> Any:
        raise Unusable(f"is of type {self.kind}, neither numbers nor text: leave it out with --drop")


Column: TypeAlias = TextColumn | NumberColumn | OpaqueColumn


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
        except Unusable as problem:
            where = "" if problem.row is None else f" (row {self.row(problem.row)})"
            raise ValueError(f"column {name!r} of {self.origin} {problem}{where}") from None


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


def join(parts: list[Table], text: frozenset[str]) -> Table:
    """Return one table of its parts; raises :class:`MixedColumn` where they disagree about a column not in ``text``."""
    first = parts[0]
    columns = {name: _join_columns(name, [part.columns[name] for part in parts], text) for name in first.columns}
    return Table(first.origin, columns, first.first_row)


def join_matrices(parts: list[Matrix]) -> Matrix:
    """Return one matrix of its parts, as wide as the widest."""
    width = max(part.X.shape[1] for part in parts)
    rows = [part.X if part.X.shape[1] == width else widened(part.X, width) for part in parts]
    X = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.vstack(rows)
    labels = _join_columns("label", [part.labels for part in parts], frozenset())
    assert not isinstance(labels, OpaqueColumn)
    return Matrix(parts[0].origin, X, labels, parts[0].first_row)


def widened(X: Any, width: int) -> Any:
    """Return a sparse matrix with empty columns added."""
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def _join_columns(name: str, parts: Sequence[Column], text: frozenset[str]) -> Column:
    if all(isinstance(part, NumberColumn) for part in parts):
        kind = BooleanColumn if all(isinstance(part, BooleanColumn) for part in parts) else NumberColumn
        return kind(np.concatenate([part.numbers() for part in parts]))
    if isinstance(parts[0], OpaqueColumn):
        return OpaqueColumn(parts[0].kind, sum(map(len, parts)))
    words = [part for part in parts if isinstance(part, TextColumn)]
    if len(words) < len(parts) and name not in text:
        raise MixedColumn(name)
    return words[0].joined(words)


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell reads as a number; Python's 1_000 does not."""
    try:
        _floats([cell], decimal)
    except ValueError:
        return False
    return True


def looks_numeric(cell: str) -> bool:
    """Return whether a cell is a number by one notation or another."""
    return is_number(cell) or WITH_COMMA.fullmatch(cell) is not None


def refuse_twice(names: Sequence[str], origin: str) -> None:
    """Raise if two columns have one name."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{origin} has two columns named {twice[0]!r}")


def _floats(cells: Sequence[str], decimal: str) -> Array:
    every = "".join(cells)
    if "_" in every or (decimal != "." and "." in every):
        raise ValueError
    plain = cells if decimal == "." else [cell.replace(decimal, ".") for cell in cells]
    return np.fromiter(map(float, plain), np.float64, len(cells))


def _starts_true_or_false(cells: Sequence[str]) -> bool:
    first = next((cell for cell in cells if cell != "nan"), "")
    return first.lower() in TRUTH


def _truths(cells: Sequence[str]) -> Array:
    values = [np.nan if cell == "nan" else TRUTH.get(cell.lower()) for cell in cells]
    if None in values:
        raise ValueError
    return np.array(values, dtype=np.float64)


def _listed(names: Iterable[str], most: int = 20) -> str:
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
