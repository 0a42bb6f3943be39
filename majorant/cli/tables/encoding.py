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
from majorant.cli.refusals import MissingValue, NameOfRows, NumbersAsText, NumbersAsTextWarning
from majorant.cli.tables.column import Column, TextColumn
from majorant.cli.tables.numbers import is_number, looks_numeric
from majorant.cli.tables.table import Matrix, MixedColumns, Table

# A column of that many different strings, more than one for every two rows, is a name and not a category.
MOST_CATEGORIES = 50
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

    def update(self, values: Array) -> None:
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
    """The different values of a column of text; ``decimal`` is the mark of fractions, had it been numbers."""

    decimal: str | None = None
    levels: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, column: Column) -> _Words:
        return cls(column.decimal if isinstance(column, TextColumn) and not column.typed else None)

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
    """

    def __init__(
        self, names: Sequence[str], *, chosen: bool, missing: str, standardize: bool, text: frozenset[str]
    ) -> None:
        self.names, self.chosen, self.missing, self.standardize, self.text = names, chosen, missing, standardize, text
        self._seen: dict[str, _Numbers | _Words] = {}
        self._mixed: set[str] = set()
        self._rows = 0

    def update(self, table: Table) -> None:
        """Take note of more rows."""
        self._rows += len(table)
        for name in self.names:
            is_text = name in self.text or table.is_text(name)
            refuse_missing(table, name, self.missing)
            seen = self._seen.setdefault(name, _Words.of(table.column(name)) if is_text else _Numbers())
            if isinstance(seen, _Words):
                seen.levels.update(value for value in table.text(name) if value is not None)
            elif is_text:
                self._mixed.add(name)
            else:
                seen.update(table.numbers(name))

    def finish(self) -> Columns:
        """Return what was learnt; raises :class:`MixedColumns` of all that began as numbers and held text later."""
        if self._mixed:
            raise MixedColumns(self._mixed)
        return Columns(tuple(self._finish(name, seen) for name, seen in self._seen.items()))

    def _finish(self, name: str, seen: _Numbers | _Words) -> Numeric | Category:
        if isinstance(seen, _Numbers):
            return seen.finish(name, self.standardize)
        self._question(name, seen.misread())
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
