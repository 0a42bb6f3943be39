"""Tables in memory: named columns as Arrow arrays, or a matrix whose columns have numbers, and classes among labels."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import compute

from majorant.cli.refusals import Refusal
from majorant.core.checks import Array, refuse_null_ending

# Cells of text files where a value is missing; the question mark is that of the UCI repository.
MISSING = pa.array(("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"))
TRUTH = {"true": 1.0, "false": 0.0}
# 1,5 and 1,000: a fraction or thousands.
WITH_COMMA = re.compile(r"\s*[+-]?(\d+(,\d+)+(\.\d*)?|\d+(\.\d{3})+,\d+)([eE][+-]?\d+)?\s*")
# 7, -1, +1 and 2.0 are numbers of classes; 007 is a name, and so is what no int64 holds.
WHOLE = re.compile(r"([+-]?(?:0|[1-9]\d{0,17}))(?:\.0*)?")
FRACTION = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")
# Labels that are fractions name classes if there are no more different ones; more are a quantity.
MOST_FRACTIONS = 20
# Names that a message lists.
LISTED = 20
OTHER_DECIMAL = "say --decimal , (or .) if that is the mark before a fraction; marks between thousands are not read"
# The name of the one column of a matrix.
LABELS = "the labels"


# --- cells ------------------------------------------------------------------------------------------------


def number_in(cell: str, decimal: str = ".") -> float | None:
    """Return the number that a cell holds, None if it holds something else; Python's 1_000 is something else."""
    if "_" in cell or (decimal != "." and "." in cell):
        return None
    try:
        return float(cell.replace(decimal, "."))
    except ValueError:
        return None


def whole_number(cell: str) -> int | None:
    """Return the whole number that a cell holds, None if it holds something else."""
    found = WHOLE.fullmatch(cell)
    return None if found is None else int(found[1])


def looks_numeric(cell: str) -> bool:
    """Return whether a cell is a number by one notation or another."""
    return number_in(cell) is not None or WITH_COMMA.fullmatch(cell) is not None


def cells_of(values: Any) -> Any:
    """Return strings, a sequence or an Arrow array, as an Arrow array that is null where a value is missing."""
    cells = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    return compute.if_else(compute.is_in(cells, value_set=MISSING), None, cells)


def distinct(values: Any) -> tuple[list[str], Array]:
    """Return the different values of an Arrow array as text, in order, and which of them each row holds: -1 for none.

    Examples
    --------
    >>> words, codes = distinct(pa.array([2.0, None, 0.5, 2.0]))
    >>> words, codes.tolist()
    (['2', '0.5'], [0, -1, 1, 0])
    """
    if pa.types.is_floating(values.type):
        values = compute.add(compute.if_else(compute.is_nan(values), None, values), 0.0)  # −0 is 0
    encoded = values.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    if pa.types.is_boolean(values.type):
        words = [str(value).lower() for value in words]
    elif not is_string(values.type):
        words = [str(int(value)) if float(value).is_integer() else repr(value) for value in words]
    return words, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def parsed_cells(cells: Any, decimal: str = ".") -> Array | int:
    """Return cells as floats, NaN where one is missing; or the place of the first that is no number.

    Cells that are all true or false are ones and zeros. Arrow reads what is known to be a number to Python as well.
    """
    comma = decimal != "."
    if not (comma and compute.any(compute.match_substring(cells, ".")).as_py()):
        with suppress(pa.ArrowInvalid):  # a word, or a number with blanks around it
            floats = compute.cast(compute.replace_substring(cells, decimal, ".") if comma else cells, pa.float64())
            if not compute.any(compute.invert(compute.is_finite(floats))).as_py():  # nan(1) is a number to Arrow
                return np.asarray(floats.to_numpy(zero_copy_only=False), np.float64)
    words, codes = distinct(cells)
    numbers = [TRUTH.get(word.lower()) for word in words]
    if not words or None in numbers:
        numbers = []
        for word in words:  # which are in the order of their first rows
            number = number_in(word, decimal)
            if number is None:
                return int(np.argmax(codes == len(numbers)))
            numbers.append(number)
    return np.array([*numbers, np.nan], dtype=np.float64)[codes]


def is_string(kind: Any) -> bool:
    """Return whether an Arrow type is that of strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_usable(kind: Any) -> bool:
    """Return whether a model can use an Arrow type: strings or numbers, not dates and the like."""
    types = pa.types
    return bool(is_string(kind) or types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


# --- tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named columns, which are Arrow arrays, null (or NaN) where a value is missing.

    Strings are text. But in tables of text files, where ``decimal`` is the mark before a fraction, they are cells:
    those of a column are numbers if all of them look so, or are all true or false.
    """

    origin: str
    columns: dict[str, Any]
    first_row: int = 1  # the number that the first row has in its file, counted from 1
    decimal: str | None = None
    taken: Array | None = None  # rows of the table that this one was taken from
    _floats: dict[str, Array | int] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def require(self, name: str) -> Any:
        """Return a column, whatever it holds, or say which columns there are."""
        if name not in self.columns:
            shown = ", ".join(column or "one without a name" for column in list(self.columns)[:LISTED])
            more = f" and {len(self.columns) - LISTED} more" if len(self.columns) > LISTED else ""
            close = difflib.get_close_matches(name, filter(None, self.columns), 1)
            hint = f"did you mean {close[0]!r}?" if close else ""
            raise Refusal(f"{self.origin} has no column {name!r}; it has {shown}{more}", hint)
        return self.columns[name]

    def column(self, name: str, remedy: str = "leave it out with --drop") -> Any:
        """Return a column that a model can use."""
        values = self.require(name)
        if not is_usable(values.type):
            sentence = f"column {name!r} of {self.origin} is of type {values.type}, neither numbers nor text"
            raise Refusal(sentence, remedy and f"{remedy} {name}")
        return values

    def floats(self, name: str) -> Array | int:
        """Return a column as floats, NaN where missing; or the place of its first value that is no number."""
        if name not in self._floats:
            values = self.column(name)
            if is_string(values.type):
                self._floats[name] = parsed_cells(values, self.decimal or ".")
            else:
                self._floats[name] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return self._floats[name]

    def is_text(self, name: str) -> bool:
        """Return whether a column has a value that is neither a number nor missing."""
        return is_string(self.column(name).type) and (self.decimal is None or isinstance(self.floats(name), int))

    def numbers(self, name: str, needed: Array | None = None) -> Array:
        """Return a column as floats, NaN where missing; infinite ones are refused in all rows, or where needed."""
        floats = self.floats(name)
        if isinstance(floats, int):
            cell = self.columns[name][floats].as_py()
            hint = OTHER_DECIMAL if looks_numeric(cell) else "mend that cell, or empty it if its value is missing"
            where = f"{cell!r:.80}, which is not a number (row {self.row(floats)})"
            raise Refusal(f"column {name!r} of {self.origin} holds {where}", hint)
        infinite = np.isinf(floats) if needed is None else np.isinf(floats) & needed
        if infinite.any():
            raise Refusal(f"column {name!r} of {self.origin} is infinite in row {self.row(int(infinite.argmax()))}")
        return floats

    def text(self, name: str) -> list[str | None]:
        """Return a column as strings, None where missing; equal ones are one object."""
        words, codes = distinct(self.column(name))
        names = [*words, None]
        return [names[code] for code in codes.tolist()]

    def missing(self, name: str) -> Array:
        """Return which rows lack a value of a column."""
        if self.is_text(name):
            return np.asarray(self.columns[name].is_null().to_numpy(zero_copy_only=False))
        return np.isnan(self.floats(name))

    def refuse_missing(self, name: str, lacking: Array, hint: str) -> None:
        """Refuse a column if rows lack a value that they must have."""
        if lacking.any():
            where = f"lacks a value in row {self.row(int(lacking.argmax()))} ({int(lacking.sum())} in all)"
            raise Refusal(f"column {name!r} of {self.origin} {where}", hint)

    def complete(self, names: Iterable[str]) -> Array:
        """Return which rows have a value in each of the columns."""
        lacking = np.zeros(len(self), dtype=bool)
        for name in names:
            lacking |= self.missing(name)
        return ~lacking

    def take(self, rows: Array) -> Self:
        """Return the given rows; they keep their numbers."""
        columns = {name: values.take(pa.array(rows)) for name, values in self.columns.items()}
        floats: dict[str, Array | int] = {
            name: values[rows] for name, values in self._floats.items() if not isinstance(values, int)
        }
        taken = rows if self.taken is None else self.taken[rows]
        return replace(self, columns=columns, taken=taken, _floats=floats)

    def row(self, place: int) -> int:
        """Return the number that a row has in its file, counted from 1."""
        return self.first_row + (place if self.taken is None else int(self.taken[place]))


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


def join_tables(parts: Sequence[Table]) -> Table:
    """Return one table of its parts. A column of which some parts are strings is one of strings."""
    first = parts[0]
    columns = {}
    for name in first.columns:
        # A column without a name is used by nobody: not all files need it.
        if not name and not all(name in part.columns for part in parts):
            continue
        arrays = [part.require(name) for part in parts]
        kinds = {array.type for array in arrays}
        unusable = [kind for kind in kinds if not is_usable(kind)]
        if unusable:
            arrays = [pa.nulls(sum(map(len, arrays)), unusable[0])]
        elif any(map(is_string, kinds)):
            arrays = [
                (array if is_string(array.type) else cells_of(part.text(name))).cast(pa.large_string())
                for array, part in zip(arrays, parts, strict=True)
            ]
        elif len(kinds) > 1:
            arrays = [array.cast(pa.float64(), safe=False) for array in arrays]
        columns[name] = pa.concat_arrays(arrays)
    decimal = next((part.decimal for part in parts if part.decimal is not None), None)
    if not isinstance(first, Matrix):
        return Table(first.origin, columns, first.first_row, decimal)
    matrices = [part.X for part in parts if isinstance(part, Matrix)]
    if sp.issparse(first.X):
        width = max(X.shape[1] for X in matrices)
        whole = sp.vstack([widened(X, width) for X in matrices], format="csr")
    else:
        whole = np.vstack(matrices)
    return Matrix(first.origin, columns, first.first_row, X=whole)


# --- labels -----------------------------------------------------------------------------------------------


def find_classes(labels: Iterable[str], target: str) -> Array:
    """Return the sorted classes among labels: integers if all of them are, strings otherwise.

    Examples
    --------
    >>> find_classes(["2", "-1", "2"], "y"), find_classes(["b", "1"], "y")
    (array([-1,  2]), array(['1', 'b'], dtype='<U1'))
    """
    different = sorted(set(labels))
    numbers = [whole_number(label) for label in different]
    if different and None not in numbers:
        return np.unique(np.array(numbers))
    fractions = [label for label in different if FRACTION.fullmatch(label)]
    if len(fractions) > MOST_FRACTIONS:
        raise Refusal(
            f"target {target!r} holds {len(different)} different numbers such as {fractions[0]}: "
            "a quantity, not the names of classes"
        )
    refuse_null_ending(f"target {target!r}", different)
    return np.array(different, dtype=str)


def match_classes(words: Sequence[str], codes: Array, classes: Array, origin: str, row: Callable[[int], int]) -> Array:
    """Return labels, for each row the number of its word, as entries of ``classes``; one that is none is refused.

    Whole numbers may be written as 1.0, and truth as True or 1.
    """
    known = {str(label): i for i, label in enumerate(classes)}
    truths = {label.lower(): i for label, i in known.items() if label.lower() in TRUTH}
    places = np.full(len(words), -1)
    for number, word in enumerate(words):
        spelled = word
        if classes.dtype.kind in "iu":
            whole = TRUTH.get(word.lower(), whole_number(word))
            spelled = word if whole is None else str(int(whole))
        places[number] = known.get(spelled, truths.get(spelled.lower(), -1))
    found = places[codes]
    if (found < 0).any():
        place = int(np.argmax(found < 0))
        raise Refusal(
            f"label {words[codes[place]]!r} in row {row(place)} of {origin} is none of the classes "
            f"{', '.join(list(known)[:LISTED])}"
        )
    return classes[found]
