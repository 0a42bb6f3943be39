"""Named columns as features: numbers as they are, text as one column of zeros and ones for each of its values."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array
from majorant.cli.refusals import (
    EmptyColumn,
    EmptyColumnWarning,
    MissingValue,
    NameOfRows,
    NumbersAsText,
    NumbersAsTextWarning,
    StrayWord,
)
from majorant.cli.tables.column import Column, TextColumn
from majorant.cli.tables.numbers import is_number, looks_numeric
from majorant.cli.tables.table import Matrix, MixedColumns, Table

# A column of that many different strings, more than one for every two rows, is a name and not a category.
MOST_CATEGORIES = 50
# A word in at most that share of the cells of a measured quantity is a slip. Numbers measure something if there are
# that many different ones, or that many of which few occur twice; with fewer, numbers may be names such as 1, 2 and 3+.
STRAY, MEASURED, HARDLY_REPEATED = 0.1, 20, 5
# Among such names, a word is a slip if it stands in one cell of at least that many.
ONE_OF = 50
# Below this share of non-zeros the features are kept as a sparse matrix.
DENSE = 0.2


@dataclass(frozen=True)
class Numeric:
    """A column of numbers: (x − center) / scale, and ``mean`` in place of a missing one."""

    name: str
    mean: float
    center: float = 0.0
    scale: float = 1.0

    width = 1

    @property
    def names(self) -> list[str]:
        """Return the name of the feature."""
        return [self.name]

    def encode(self, table: Table, missing: str) -> Array:
        """Return the feature as one column."""
        values = table.numbers(self.name)
        refuse_missing(table, self.name, missing)
        if np.isinf(values).any():
            row = table.row(int(np.argmax(np.isinf(values))))
            raise ValueError(f"column {self.name!r} of {table.origin} is infinite in row {row}")
        filled = np.where(np.isnan(values), self.mean, values)
        return ((filled - self.center) / self.scale)[:, None]


@dataclass(frozen=True)
class Category:
    """A column of text: one feature for each of its ``levels``; any other value is zero in all of them."""

    name: str
    levels: tuple[str, ...]

    @property
    def width(self) -> int:
        """Return how many features there are."""
        return len(self.levels)

    @property
    def names(self) -> list[str]:
        """Return the names of the features."""
        return [f"{self.name}={level}" for level in self.levels]

    def encode(self, table: Table, missing: str) -> Any:
        """Return the features as a sparse matrix."""
        refuse_missing(table, self.name, missing)
        number = {level: i for i, level in enumerate(self.levels)}
        found = np.array([number.get(value, -1) if value is not None else -1 for value in table.text(self.name)])
        rows = np.flatnonzero(found >= 0)
        shape = (len(found), len(self.levels))
        return sp.csr_matrix((np.ones(len(rows)), (rows, found[rows])), shape=shape)

    def unseen(self, table: Table) -> Counter[str]:
        """Return how often there is a value that is none of the levels."""
        levels = set(self.levels)
        return Counter(value for value in table.text(self.name) if value is not None and value not in levels)


@dataclass(frozen=True)
class Columns:
    """The features of a table with named columns, in the order of the file that was trained on."""

    parts: tuple[Numeric | Category, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of the features."""
        return [name for part in self.parts for name in part.names]

    @property
    def levels(self) -> dict[str, int]:
        """Return how many different values each column of text has."""
        return {part.name: part.width for part in self.parts if isinstance(part, Category)}

    def encode(self, rows: Table | Matrix, missing: str) -> Any:
        """Return the features, dense or, where most of them are zero, sparse. Other columns are left out."""
        table = self._check(rows)
        blocks: list[Any] = [part.encode(table, missing) for part in self.parts]
        if len(self.parts) < DENSE * sum(part.width for part in self.parts):
            return sp.hstack(blocks, format="csr")
        return np.hstack([block.toarray() if sp.issparse(block) else block for block in blocks])

    def unseen(self, rows: Table | Matrix) -> dict[str, Counter[str]]:
        """Return for each column of text which values are new in it, and how often."""
        table = self._check(rows)
        return {part.name: part.unseen(table) for part in self.parts if isinstance(part, Category)}

    def complete(self, rows: Table | Matrix) -> Array:
        """Return which rows lack nothing."""
        table = self._check(rows)
        return complete_rows(table, [part.name for part in self.parts])

    def _check(self, rows: Table | Matrix) -> Table:
        if not isinstance(rows, Table):
            raise ValueError(f"the model was trained on named columns, which {rows.origin} does not have")
        absent = [part.name for part in self.parts if part.name not in rows.columns]
        if absent:
            more = f" (and {len(absent) - 1} more)" if len(absent) > 1 else ""
            raise ValueError(f"{rows.origin} lacks the column {absent[0]!r} that the model was trained on{more}")
        return rows


def complete_rows(table: Table, names: Sequence[str]) -> Array:
    """Return which rows of a table have a value in each of the columns."""
    lacking = np.zeros(len(table), dtype=bool)
    for name in names:
        lacking |= table.missing(name)
    return ~lacking


def refuse_missing(table: Table, name: str, missing: str) -> None:
    """Raise if a value is missing and nothing is to be put in its place."""
    if missing == "mean":
        return
    lacking = table.missing(name)
    if lacking.any():
        raise MissingValue(name, table.origin, table.row(int(np.argmax(lacking))), int(lacking.sum()))


@dataclass
class _Numbers:
    """Count, mean and sum of squares about the mean of what was seen of a column (Chan, Golub & LeVeque 1983)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    empty: bool = True

    def update(self, values: Array) -> None:
        self.empty &= bool(np.isnan(values).all())
        seen = values[np.isfinite(values)]
        if not len(seen):
            return
        total, mean = self.count + len(seen), float(seen.mean())
        apart = mean - self.mean
        self.squares += float(((seen - mean) ** 2).sum()) + apart**2 * self.count * len(seen) / total
        self.mean += apart * len(seen) / total
        self.count = total

    def finish(self, name: str, standardize: bool) -> Numeric:
        if not standardize:
            return Numeric(name, self.mean)
        deviation = float(np.sqrt(self.squares / max(self.count, 1)))
        return Numeric(name, self.mean, self.mean, deviation if deviation > 0 else 1.0)


@dataclass
class _Words:
    """How often a column of text has each value; ``decimal`` is the mark of fractions, had it been numbers.

    ``first`` is the file and the row of the first cell that is no number.
    """

    decimal: str | None = None
    levels: Counter[str] = field(default_factory=Counter)
    first: tuple[str, str, int] | None = None  # the cell, its file and its row

    @classmethod
    def of(cls, column: Column) -> _Words:
        return cls(column.decimal if isinstance(column, TextColumn) and not column.typed else None)

    @property
    def empty(self) -> bool:
        return not self.levels

    def update(self, name: str, table: Table) -> None:
        self.levels.update(value for value in table.text(name) if value is not None)
        column = table.column(name)
        if self.first is None and isinstance(column, TextColumn) and (place := column.first_word) is not None:
            self.first = column.values[place], table.origin, table.row(place)

    def stray(self, name: str) -> StrayWord | None:
        """Return the refusal of a column that is numeric but for a few cells, None if it may hold categories."""
        if self.decimal is None or self.first is None:
            return None
        filled, words, numbers = self.levels.total(), 0, 0
        most = max(STRAY * filled, 1)
        for level, count in self.levels.items():
            if is_number(level, self.decimal):
                numbers += 1
            else:
                words += count
            if words > most:
                return None
        measured = numbers >= MEASURED or (numbers >= HARDLY_REPEATED and 2 * numbers >= filled - words)
        if measured or (words == 1 and filled >= ONE_OF):
            return StrayWord(name, self.first[1], self.first[0], self.first[2], words)
        return None

    def misread(self) -> list[str]:
        """Return the values that kept the column from being numbers, if all are numbers in another notation."""
        if self.decimal is None or not all(map(looks_numeric, self.levels)):
            return []
        return sorted(level for level in self.levels if not is_number(level, self.decimal))

    def finish(self, name: str) -> Category:
        return Category(name, tuple(sorted(self.levels)))


class ColumnLearner:
    """Learns :class:`Columns` from tables.

    Parameters
    ----------
    names : sequence of str
        The columns that are features.
    chosen : bool
        Whether somebody named them; otherwise a column that looks like a name of the rows is refused.
    missing : {"error", "mean", "drop"}
        What to do about missing values.
    standardize : bool
        Whether to bring numbers to mean 0 and standard deviation 1.
    text : set of str
        Columns to take as text whatever they look like.
    categorical : set of str
        Those of them that somebody calls categories, of which nothing is refused.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        chosen: bool,
        missing: str,
        standardize: bool,
        text: frozenset[str],
        categorical: frozenset[str] = frozenset(),
    ) -> None:
        self.names, self.chosen, self.missing, self.standardize = names, chosen, missing, standardize
        self.text, self.categorical = text | categorical, categorical
        self._seen: dict[str, _Numbers | _Words] = {}
        self._mixed: set[str] = set()
        self._rows, self._origin = 0, ""

    def update(self, table: Table) -> None:
        """Take note of more rows."""
        self._rows, self._origin = self._rows + len(table), table.origin
        for name in self.names:
            is_text = name in self.text or table.is_text(name)
            try:
                refuse_missing(table, name, self.missing)
            except MissingValue as found:
                if found.count == len(table) > 1:
                    raise EmptyColumn(name, table.origin, len(table)) from None
                raise
            seen = self._seen.setdefault(name, _Words.of(table.column(name)) if is_text else _Numbers())
            if isinstance(seen, _Words):
                seen.update(name, table)
            elif is_text:
                self._mixed.add(name)
            else:
                seen.update(table.numbers(name))

    def finish(self) -> Columns:
        """Return what was learnt, without columns that are empty throughout.

        Raises :class:`MixedColumns` of all that began as numbers and held text later.
        """
        if self._mixed:
            raise MixedColumns(self._mixed)
        empty = [name for name, seen in self._seen.items() if seen.empty]
        if len(empty) == len(self._seen):
            raise EmptyColumn(empty[0], self._origin, self._rows)
        for name in empty:
            warnings.warn(EmptyColumnWarning(name, self._origin, self._rows), stacklevel=2)
        return Columns(tuple(self._finish(name, seen) for name, seen in self._seen.items() if not seen.empty))

    def _finish(self, name: str, seen: _Numbers | _Words) -> Numeric | Category:
        if isinstance(seen, _Numbers):
            return seen.finish(name, self.standardize)
        if name in self.categorical:
            return seen.finish(name)
        self._question(name, seen.misread())
        if (stray := seen.stray(name)) is not None:
            raise stray
        count = len(seen.levels)
        if not self.chosen and count > max(MOST_CATEGORIES, self._rows / 2):
            raise NameOfRows(name, count, self._rows)
        return seen.finish(name)

    def _question(self, name: str, misread: list[str]) -> None:
        """Refuse numbers of another notation as a category; where somebody chose the column, only warn."""
        if not misread:
            return
        if not self.chosen:
            raise NumbersAsText(name, misread[0])
        warnings.warn(NumbersAsTextWarning(name, misread[0]), stacklevel=2)
