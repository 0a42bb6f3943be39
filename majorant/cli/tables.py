"""Tables in memory: Arrow's columns of text or numbers, or a matrix of numbered features, and what cells mean."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import compute

from majorant.cli.files import LISTED, Refusal
from majorant.core.checks import Array, refuse_null_ending

# Cells of text files where a value is missing; the question mark is that of the UCI repository.
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
TRUTH = {"true": True, "false": False}
# 1,5 and 1,000: a fraction or thousands.
WITH_COMMA = re.compile(r"\s*[+-]?(\d+(,\d+)+(\.\d*)?|\d+(\.\d{3})+,\d+)([eE][+-]?\d+)?\s*")
# 7, -1, +1 and 2.0 are numbers of classes; 007 is a name.
WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)(\.0*)?")
FRACTION = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
# As many different fractions are a quantity, and no classes; as many different numbers measure something.
MEASURED = 20
OTHER_DECIMAL = "say --decimal , (or .) if that is the mark before a fraction; marks between thousands are not read"


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell reads as a number; Python's 1_000 does not."""
    return isinstance(read_numbers([cell], decimal), np.ndarray) and cell.lower() not in TRUTH


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
            values[place] = np.nan if cell is None else float(cell.replace(decimal, "."))
        except ValueError:
            return place
        if cell is not None and ("_" in cell or (decimal != "." and "." in cell)):  # 1_000 is a number to Python
            return place
    return values


class MixedColumns(Exception):
    """Columns that began with numbers turned out to hold text: read them as text from the start."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)


LABELS = "the labels"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named columns, or of a matrix ``X`` whose columns are known by number, as in svmlight and npz files.

    Columns are Arrow's: of strings, floats or truth values, or of a type that no model can use. Strings of a text file
    (``decimal`` is its mark before a fraction) are numbers where all of a column look so, or are true or false; those
    of Parquet (``decimal`` is None) are text. A value that is missing is null or NaN. Beside a matrix there is one
    column, of labels.
    """

    origin: str
    data: pa.Table
    first_row: int = 1  # the number of the first in its file, counted from 1
    decimal: str | None = None
    X: Any = None
    taken: Array | None = None  # rows of the table that this one was taken from
    _parsed: dict[str, Array | int] = field(default_factory=dict, repr=False)

    @classmethod
    def of_cells(cls, origin: str, names: Sequence[str], cells: Iterable[Any], row: int, decimal: str) -> Self:
        """Return the cells of a text file by column, Arrow arrays or lists of strings; null where one is missing."""
        arrays = {}  # of columns without a name, the last
        for name, column in zip(names, cells, strict=True):
            column = pa.array(column, pa.string()) if isinstance(column, list | tuple) else column
            missing = compute.is_in(column, value_set=pa.array(MISSING))
            arrays[name] = compute.if_else(missing, None, column)
        return cls(origin, pa.table(arrays), row, decimal)

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.data.column_names)

    def named(self, name: str) -> pa.ChunkedArray:
        """Return a column, or say which columns there are."""
        names = self.columns
        if name not in names:
            shown = ", ".join(column or "one without a name" for column in names[:LISTED])
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            close = difflib.get_close_matches(name, filter(None, names), 1)
            hint = f"did you mean {close[0]!r}?" if close else ""
            raise Refusal(f"{self.origin} has no column {name!r}; it has {shown}{more}", hint)
        return self.data.column(name)

    def column(self, name: str, remedy: str = "leave it out with --drop") -> pa.ChunkedArray:
        """Return a column that a model can use."""
        found = self.named(name)
        if not self.usable(name):
            sentence = f"column {name!r} of {self.origin} is of type {found.type}, neither numbers nor text"
            raise Refusal(sentence, remedy and f"{remedy} {name}")
        return found

    def usable(self, name: str) -> bool:
        """Return whether a column holds numbers, truth values or text, not dates and the like."""
        kind = self.data.column(name).type
        return bool(is_string(kind) or pa.types.is_float64(kind) or pa.types.is_boolean(kind))

    def parsed(self, name: str) -> Array | int:
        """Return a column as floats, NaN where a value is missing; or the place of the first that is no number.

        Arrow reads what is known to be a number to Python as well.
        """
        if name in self._parsed:
            return self._parsed[name]
        column = self.column(name)
        if not is_string(column.type):
            parsed: Array | int = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
        else:
            mark = self.decimal or "."
            points = mark == "." or compute.any(compute.match_substring(column, ".")).as_py()
            cells, parsed = column if points else compute.replace_substring(column, mark, "."), -1
            with suppress(pa.ArrowInvalid):  # a word, or a number with blanks around it
                values = compute.cast(cells, pa.float64())
                # nan(1) is a number to Arrow; so is 1.5 where the mark before a fraction is a comma.
                odd = points and mark != "."
                if not odd and not compute.any(compute.invert(compute.is_finite(values))).as_py():
                    parsed = np.asarray(values.to_numpy(), np.float64)
            if isinstance(parsed, int):
                parsed = read_numbers(self.text(name), mark)
        self._parsed[name] = parsed
        return parsed

    def is_text(self, name: str) -> bool:
        """Return whether a column holds a value that is neither a number nor missing."""
        string = is_string(self.column(name).type)
        return string and (self.decimal is None or isinstance(self.parsed(name), int))

    def numbers(self, name: str) -> Array:
        """Return a column as floats, NaN where missing."""
        parsed = self.parsed(name)
        if isinstance(parsed, int):
            cell = self.data.column(name)[parsed].as_py()
            hint = OTHER_DECIMAL if looks_numeric(cell) else "mend that cell, or empty it if its value is missing"
            where = f"{cell!r:.80}, which is not a number (row {self.row(parsed)})"
            raise Refusal(f"column {name!r} of {self.origin} holds {where}", hint)
        return parsed

    def text(self, name: str) -> list[str | None]:
        """Return a column as strings, None where a value is missing; equal ones are one object."""
        column = self.column(name)
        if is_string(column.type):
            encoded = column.combine_chunks().dictionary_encode()
            words, places = encoded.dictionary.to_pylist(), encoded.indices.to_pylist()
            return [None if place is None else words[place] for place in places]
        different, codes = np.unique(column.cast(pa.float64()).to_numpy(), return_inverse=True)  # labels are few
        if pa.types.is_boolean(column.type):
            names = [None if v != v else "true" if v else "false" for v in different.tolist()]
        else:
            names = [None if v != v else str(int(v)) if v.is_integer() else repr(v) for v in different.tolist()]
        return [names[code] for code in codes.tolist()]

    def counts(self, name: str) -> Counter[str]:
        """Return the count of each value of text, in the order of first rows."""
        column = self.column(name)
        if not is_string(column.type):
            return Counter(value for value in self.text(name) if value is not None)
        found = compute.value_counts(column.drop_null())
        return Counter(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)))

    def missing(self, name: str) -> Array:
        """Return a mask of the rows without a value."""
        if self.is_text(name):
            return np.asarray(self.data.column(name).is_null().to_numpy())
        return np.isnan(self.numbers(name))

    def complete_rows(self, names: Iterable[str]) -> Array:
        """Return a mask of the rows with a value in each of the columns."""
        lacking = np.zeros(len(self), dtype=bool)
        for name in names:
            lacking |= self.missing(name)
        return ~lacking

    def take(self, rows: Array) -> Self:
        """Return the given rows; they keep their numbers."""
        return replace(
            self,
            data=self.data.take(pa.array(rows)),
            X=None if self.X is None else self.X[rows],
            taken=rows if self.taken is None else self.taken[rows],
            _parsed={name: part[rows] for name, part in self._parsed.items() if isinstance(part, np.ndarray)},
        )

    def row(self, place: int) -> int:
        """Return the number that a row has in its file, counted from 1."""
        return self.first_row + (place if self.taken is None else int(self.taken[place]))

    def compact(self, text: Collection[str]) -> Self:
        """Return cells that are numbers as such, which take less memory, but for columns in ``text``."""
        if self.decimal is None:
            return self
        data = self.data
        for place, name in enumerate(self.columns):
            if name not in text and is_string(data.column(name).type) and not self.is_text(name):
                data = data.set_column(place, name, pa.array(self.numbers(name)))
        return replace(self, data=data)


def is_string(kind: pa.DataType) -> bool:
    """Return whether a type is one of strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def widened(X: Any, width: int) -> Any:
    """Return a sparse matrix with empty columns added."""
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def join_tables(parts: Sequence[Table], text: Collection[str]) -> Table:
    """Return one table of its parts; raises :class:`MixedColumns` where they disagree about columns not in ``text``."""
    first = parts[0]
    # A column without a name is used by nobody: not all files need it.
    names = [name for name in first.columns if name or all(name in part.columns for part in parts)]
    joined, mixed = {}, []
    for name in names:
        columns = [part.named(name) for part in parts]
        strings = [is_string(column.type) for column in columns]
        if any(strings):
            if name not in text and not all(strings):
                mixed.append(name)
            # Positions of large strings are 64 bits long: all of them may be more than 2 GB.
            columns = [
                (column if string else pa.chunked_array([part.text(name)], pa.string())).cast(pa.large_string())
                for part, column, string in zip(parts, columns, strings, strict=True)
            ]
        elif len({column.type for column in columns}) > 1:
            columns = [column.cast(pa.float64()) for column in columns]
        joined[name] = pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)
    if mixed:
        raise MixedColumns(mixed)
    X = first.X
    if X is not None and len(parts) > 1:
        matrices = [part.X for part in parts]
        if sp.issparse(X):
            width = max(matrix.shape[1] for matrix in matrices)
            X = sp.vstack([widened(matrix, width) for matrix in matrices], format="csr")
        else:
            X = np.vstack(matrices)
    return Table(first.origin, pa.table(joined), first.first_row, first.decimal, X)


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
    if len(fractions) > MEASURED:
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
            number = TRUTH.get(label.lower(), label if WHOLE.fullmatch(label) else None)
            spelled = label if number is None else str(int(float(number)))
        places[label] = known.get(spelled, truths.get(spelled.lower(), -1))
    found = [places[label] for label in labels]
    if -1 in found:
        place = found.index(-1)
        raise Refusal(
            f"label {labels[place]!r} in row {row(place)} of {origin} is none of the classes "
            f"{', '.join(list(known)[:LISTED])}"
        )
    return classes[np.array(found, dtype=int)]
