"""Tables in memory: named columns of text or numbers, or a matrix of numbered features, and what cells mean."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import compute

from majorant.cli.refusals import Refusal
from majorant.core.checks import Array, refuse_null_ending

# Cells of text files where a value is missing; the question mark is that of the UCI repository.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
TRUTH = {"true": 1.0, "false": 0.0}
# 1,5 and 1,000: a fraction or thousands.
WITH_COMMA = re.compile(r"\s*[+-]?(\d+(,\d+)+(\.\d*)?|\d+(\.\d{3})+,\d+)([eE][+-]?\d+)?\s*")
# 7, -1, +1 and 2.0 are numbers of classes; 007 is a name.
WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)(\.0*)?")
FRACTION = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
# More different fractions are a quantity, not classes.
MOST_FRACTIONS = 20
# Names that a message lists.
LISTED = 20
OTHER_DECIMAL = "say --decimal , (or .) if that is the mark before a fraction; marks between thousands are not read"


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell reads as a number; Python's 1_000 does not."""
    try:
        _float(cell, decimal)
    except ValueError:
        return False
    return True


def looks_numeric(cell: str) -> bool:
    """Return whether a cell is a number by one notation or another."""
    return is_number(cell) or WITH_COMMA.fullmatch(cell) is not None


def read_numbers(cells: Sequence[str | None], decimal: str = ".") -> Array | int:
    """Return cells as floats, NaN where one is missing; or the place of the first that is no number.

    Cells that are all true or false are ones and zeros.
    """
    if next(filter(None, cells), "").lower() in TRUTH:
        truths = [np.nan if cell is None else TRUTH.get(cell.lower()) for cell in cells]
        if None not in truths:
            return np.array(truths, dtype=np.float64)
    values = np.empty(len(cells))
    for place, cell in enumerate(cells):
        try:
            values[place] = np.nan if cell is None else _float(cell, decimal)
        except ValueError:
            return place
    return values


def _float(cell: str, decimal: str) -> float:
    if "_" in cell or (decimal != "." and "." in cell):
        raise ValueError
    return float(cell.replace(decimal, "."))


class MixedColumns(Exception):
    """Columns that began with numbers turned out to hold text: read them as text from the start."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)


class Column:
    """A column of a table: an Arrow array of strings or an array of floats, null or NaN where a value is missing.

    Its kind is "cells" of a text file, which are numbers if all of them look so (``decimal`` is the mark before a
    fraction), or all are true or false; "text", "numbers" or "truth", where the file says so; or the name of a type
    that no model can use.
    """

    def __init__(self, values: Any, kind: str, decimal: str = ".") -> None:
        self.values, self.kind, self.decimal = values, kind, decimal

    @classmethod
    def of_cells(cls, cells: Any, decimal: str = ".") -> Self:
        """Return the cells of a text file, a list or an Arrow array of strings, as a column."""
        cells = pa.array(cells, pa.string()) if isinstance(cells, list | tuple) else cells
        missing = compute.is_in(cells, value_set=pa.array(MISSING))
        return cls(compute.if_else(missing, None, cells), "cells", decimal)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_text(self) -> bool:
        """Whether there is a value that is neither a number nor missing."""
        return self.kind == "text" or (self.kind == "cells" and isinstance(self._read, int))

    @property
    def usable(self) -> bool:
        """Whether the values are numbers or text, not dates and the like."""
        return self.kind in ("cells", "text", "numbers", "truth")

    def numbers(self) -> Array | int:
        """Return floats, NaN where a value is missing; or the place of the first value that is no number."""
        return self.values if self.kind in ("numbers", "truth") else self._read

    @cached_property
    def _read(self) -> Array | int:
        """What reading the cells as numbers gives; Arrow reads what is known to be a number to Python as well."""
        cells = self.values
        if self.decimal != "." and not compute.any(compute.match_substring(cells, ".")).as_py():
            cells = compute.replace_substring(cells, self.decimal, ".")
        with suppress(pa.ArrowInvalid):  # a word, or a number with blanks around it
            found = compute.cast(cells, pa.float64())
            # nan(1) is a number to Arrow; so is 1.5 where the mark before a fraction is a comma.
            odd = cells is self.values and self.decimal != "."
            if not odd and not compute.any(compute.invert(compute.is_finite(found))).as_py():
                return np.asarray(found.to_numpy(zero_copy_only=False), np.float64)
        return read_numbers(self.text(), self.decimal)

    def text(self) -> list[str | None]:
        """Return strings, None where a value is missing; equal ones are one object."""
        if self.kind in ("cells", "text"):
            encoded = self.values.dictionary_encode()
            words, places = encoded.dictionary.to_pylist(), encoded.indices.to_pylist()
            return [None if place is None else words[place] for place in places]
        different, codes = np.unique(self.values, return_inverse=True)  # labels are few
        if self.kind == "truth":
            names = [None if v != v else "true" if v else "false" for v in different.tolist()]
        else:
            names = [None if v != v else str(int(v)) if v.is_integer() else repr(v) for v in different.tolist()]
        return [names[code] for code in codes.tolist()]

    def counts(self) -> Counter[str]:
        """Return how often each value of text occurs, in the order of their first rows."""
        if self.kind in ("numbers", "truth"):
            return Counter(value for value in self.text() if value is not None)
        found = compute.value_counts(self.values.drop_null())
        return Counter(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)))

    def missing(self) -> Array:
        """Return which rows lack a value."""
        if self.is_text:
            return np.asarray(self.values.is_null().to_numpy(zero_copy_only=False))
        return np.isnan(self.numbers())

    def take(self, rows: Array) -> Column:
        """Return the given rows."""
        taken = self.values[rows] if isinstance(self.values, np.ndarray) else self.values.take(pa.array(rows))
        column = Column(taken, self.kind, self.decimal)
        if self.kind == "cells" and isinstance(self._read, np.ndarray):
            column._read = self._read[rows]
        return column

    def compact(self) -> Column:
        """Return cells that are numbers as such, which take less memory, and any other column as it is."""
        return self if self.kind != "cells" or self.is_text else Column(self.numbers(), "numbers")


def join_columns(parts: Sequence[Column]) -> Column:
    """Return columns of several tables end to end."""
    kinds = {part.kind for part in parts}
    if kinds <= {"numbers", "truth"}:
        return Column(np.concatenate([part.values for part in parts]), "truth" if kinds == {"truth"} else "numbers")
    if not parts[0].usable:
        return Column(pa.nulls(sum(map(len, parts))), parts[0].kind)
    words = [part for part in parts if part.kind in ("cells", "text")]
    values = pa.concat_arrays([part.values.cast(pa.large_string()) for part in words])
    return Column(values, words[0].kind, words[0].decimal)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named columns; ``first_row`` is the number of the first in its file, counted from 1."""

    origin: str
    columns: dict[str, Column]
    first_row: int = 1
    taken: Array | None = None  # rows of the table that this one was taken from

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def named(self, name: str) -> Column:
        """Return a column, or say which columns there are."""
        if name not in self.columns:
            shown = ", ".join(column or "one without a name" for column in list(self.columns)[:LISTED])
            more = f" and {len(self.columns) - LISTED} more" if len(self.columns) > LISTED else ""
            close = difflib.get_close_matches(name, filter(None, self.columns), 1)
            hint = f"did you mean {close[0]!r}?" if close else ""
            raise Refusal(f"{self.origin} has no column {name!r}; it has {shown}{more}", hint)
        return self.columns[name]

    def column(self, name: str, remedy: str = "leave it out with --drop") -> Column:
        """Return a column that a model can use."""
        found = self.named(name)
        if not found.usable:
            sentence = f"column {name!r} of {self.origin} is of type {found.kind}, neither numbers nor text"
            raise Refusal(sentence, remedy and f"{remedy} {name}")
        return found

    def numbers(self, name: str) -> Array:
        """Return a column as floats, NaN where missing."""
        column = self.column(name)
        found = column.numbers()
        if isinstance(found, int):
            cell = column.values[found].as_py()
            hint = OTHER_DECIMAL if looks_numeric(cell) else "mend that cell, or empty it if its value is missing"
            where = f"{cell!r:.80}, which is not a number (row {self.row(found)})"
            raise Refusal(f"column {name!r} of {self.origin} holds {where}", hint)
        return found

    def text(self, name: str) -> list[str | None]:
        """Return a column as strings, None where missing."""
        return self.column(name).text()

    def is_text(self, name: str) -> bool:
        """Return whether a column holds text."""
        return self.column(name).is_text

    def take(self, rows: Array) -> Self:
        """Return the given rows; they keep their numbers."""
        columns = {name: column.take(rows) for name, column in self.columns.items()}
        return replace(self, columns=columns, taken=rows if self.taken is None else self.taken[rows])

    def row(self, place: int) -> int:
        """Return the number that a row has in its file, counted from 1."""
        return self.first_row + (place if self.taken is None else int(self.taken[place]))

    def complete_rows(self, names: Iterable[str]) -> Array:
        """Return which rows have a value in each of the columns."""
        lacking = np.zeros(len(self), dtype=bool)
        for name in names:
            lacking |= self.column(name).missing()
        return ~lacking


LABELS = "the labels"


@dataclass(frozen=True, eq=False)
class Matrix(Table):
    """Rows of a matrix whose columns are known by number, as in svmlight and npz files; its one column is of labels."""

    X: Any = None

    def take(self, rows: Array) -> Self:
        """Return the given rows; they keep their numbers."""
        return replace(super().take(rows), X=self.X[rows])


def widened(X: Any, width: int) -> Any:
    """Return a sparse matrix with empty columns added."""
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def join_tables(parts: Sequence[Table], text: frozenset[str]) -> Table:
    """Return one table of its parts; raises :class:`MixedColumns` where they disagree about columns not in ``text``."""
    first = parts[0]
    # A column without a name is used by nobody: not all files need it.
    names = [name for name in first.columns if name or all(name in part.columns for part in parts)]
    by_name = {name: [part.named(name) for part in parts] for name in names}
    mixed = [
        name
        for name, columns in by_name.items()
        if name not in text and 0 < sum(column.kind in ("cells", "text") for column in columns) < len(columns)
    ]
    if mixed:
        raise MixedColumns(mixed)
    whole = {name: join_columns(columns) for name, columns in by_name.items()}
    if not isinstance(first, Matrix):
        return Table(first.origin, whole, first.first_row)
    matrices = [part.X for part in parts if isinstance(part, Matrix)]
    if not sp.issparse(first.X):
        return Matrix(first.origin, whole, first.first_row, X=np.vstack(matrices))
    width = max(X.shape[1] for X in matrices)
    return Matrix(
        first.origin, whole, first.first_row, X=sp.vstack([widened(X, width) for X in matrices], format="csr")
    )


def find_classes(labels: Iterable[str], target: str) -> Array:
    """Return the sorted classes among labels: integers if all of them are, strings otherwise.

    Examples
    --------
    >>> find_classes(["2", "-1", "2"], "y"), find_classes(["b", "1"], "y")
    (array([-1,  2]), array(['1', 'b'], dtype='<U1'))
    """
    different = sorted(set(labels))
    if different and all(WHOLE.fullmatch(label) for label in different):
        return np.unique([int(float(label)) for label in different])
    fractions = [label for label in different if FRACTION.fullmatch(label)]
    if len(fractions) > MOST_FRACTIONS:
        raise Refusal(
            f"target {target!r} holds {len(different)} different numbers such as {fractions[0]}: "
            "a quantity, not the names of classes"
        )
    refuse_null_ending(f"target {target!r}", different)
    return np.array(different, dtype=str)


def match_classes(labels: Sequence[str], classes: Array, origin: str, row: Callable[[int], int]) -> Array:
    """Return labels as entries of ``classes``; one that is not among them is refused, by its row's number.

    Whole numbers may be written as 1.0, and truth as True or 1.
    """
    known = {str(label): i for i, label in enumerate(classes)}
    truths = {label.lower(): i for label, i in known.items() if label.lower() in TRUTH}
    places: dict[str, int] = {}
    for label in set(labels):
        spelled = label
        if classes.dtype.kind in "iu":
            whole = TRUTH.get(label.lower(), label if WHOLE.fullmatch(label) else None)
            spelled = label if whole is None else str(int(float(whole)))
        places[label] = known.get(spelled, truths.get(spelled.lower(), -1))
    found = [places[label] for label in labels]
    if -1 in found:
        place = found.index(-1)
        raise Refusal(
            f"label {labels[place]!r} in row {row(place)} of {origin} is none of the classes "
            f"{', '.join(list(known)[:LISTED])}"
        )
    return classes[np.array(found, dtype=int)]
