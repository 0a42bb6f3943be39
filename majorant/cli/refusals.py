"""Why a file is refused, as data: where it is wrong, and a sentence that knows of no flag.

What to do about it is said in one place, :mod:`majorant.cli.advice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class Refusal(ValueError):
    """A file holds what cannot be used."""


@dataclass(eq=False)
class NoRows(Refusal):
    """A file holds no rows; ``reason`` says what it holds."""

    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin} {self.reason}"


@dataclass(eq=False)
class MissingValue(Refusal):
    """A column lacks values, in so many rows from ``row`` on."""

    column: str
    origin: str
    row: int
    count: int

    def __str__(self) -> str:
        return f"column {self.column!r} of {self.origin} lacks a value in row {self.row} ({self.count} in all)"


@dataclass(eq=False)
class EmptyColumn(Refusal):
    """A column lacks a value in every row."""

    column: str
    origin: str
    rows: int

    def __str__(self) -> str:
        return f"column {self.column!r} of {self.origin} is empty in all {self.rows} rows"


@dataclass(eq=False)
class EmptyColumnWarning(UserWarning):
    """The same where missing values are filled in: there is nothing to fill them in with."""

    column: str
    origin: str
    rows: int

    def __str__(self) -> str:
        return f"{EmptyColumn(self.column, self.origin, self.rows)}: it is left out"


@dataclass(eq=False)
class NamelessWarning(UserWarning):
    """A column has no name, or that which pandas gives to an index without one; ``counts`` says if it counts rows."""

    column: str
    origin: str
    counts: bool

    def __str__(self) -> str:
        which = f"column {self.column!r}" if self.column else "a column without a name"
        seems = "counts the rows, as an index that pandas wrote does, and" if self.counts else "is no feature: it"
        return f"{which} in {self.origin} {seems} is left out"


class MissingInChoice(MissingValue):
    """The same in a table of alternatives, where neither means nor fewer rows would do."""


@dataclass(eq=False)
class UnusableFlag(Refusal):
    """What says whether a row was chosen is neither a flag nor a share."""

    column: str
    origin: str
    value: float
    row: int

    def __str__(self) -> str:
        return (
            f"column {self.column!r} of {self.origin} holds {self.value:g} in row {self.row}, but a row is chosen (1), "
            "is not (0), or has a share between"
        )


@dataclass(eq=False)
class MissingLabel(Refusal):
    """A row has no label."""

    origin: str
    row: int

    def __str__(self) -> str:
        return f"row {self.row} of {self.origin} has no label"


@dataclass(eq=False)
class NoTarget(Refusal):
    """Nobody said which of the columns holds the labels."""

    origin: str
    columns: Sequence[str]

    def __str__(self) -> str:
        names = ", ".join(filter(None, self.columns))
        return f"it is not said which column of {self.origin} to predict; it has {names}"


@dataclass(eq=False)
class Nameless(Refusal):
    """Columns were named in a file where they have no names."""

    origin: str

    def __str__(self) -> str:
        return f"the columns of {self.origin} have no names"


@dataclass(eq=False)
class NoHeader(Refusal):
    """The first line, which should name the columns, holds numbers."""

    origin: str

    def __str__(self) -> str:
        return f"the first line of {self.origin} holds numbers, not the names of columns"


@dataclass(eq=False)
class NotText(Refusal):
    """Bytes are no text of the encoding; ``reason`` says which and where."""

    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin} {self.reason}"


@dataclass(eq=False)
class Packed(Refusal):
    """A file that should be text is packed, or of another format, and its name does not say so."""

    origin: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.origin} is {self.what}"


@dataclass(eq=False)
class NotANumber(Refusal):
    """A column of numbers holds a word."""

    column: str
    origin: str
    value: str
    row: int

    def __str__(self) -> str:
        what = f"{self.value!r:.80}, which is not a number (row {self.row})"
        return f"column {self.column!r} of {self.origin} holds {what}"


class OtherNotation(NotANumber):
    """A column of numbers holds one that is written with another mark, such as 1,5."""


@dataclass(eq=False)
class StrayWord(Refusal):
    """Nearly all cells of a column are numbers; the first that is none is ``value``, one of ``count`` such cells."""

    column: str
    origin: str
    value: str
    row: int
    count: int

    def __str__(self) -> str:
        more = "" if self.count == 1 else f" ({self.count} such cells in all)"
        where = f"{self.value!r:.80} in row {self.row}{more}"
        return f"column {self.column!r} of {self.origin} is numeric except for {where}"


@dataclass(eq=False)
class UnusableWeight(Refusal):
    """A weight is below zero."""

    column: str
    origin: str
    value: float
    row: int

    def __str__(self) -> str:
        return f"column {self.column!r} of {self.origin} holds the weight {self.value:g} in row {self.row}, below zero"


@dataclass(eq=False)
class UnusableType(Refusal):
    """A column is of a type that no model here can use, such as dates."""

    column: str
    origin: str
    kind: str

    def __str__(self) -> str:
        return f"column {self.column!r} of {self.origin} is of type {self.kind}, neither numbers nor text"


@dataclass(eq=False)
class NameOfRows(Refusal):
    """A column of text has so many different values that it names the rows rather than sorting them."""

    column: str
    count: int
    rows: int

    def __str__(self) -> str:
        return (
            f"column {self.column!r} has {self.count} different strings in {self.rows} rows, as the name of a row does"
        )


@dataclass(eq=False)
class NumbersAsText(Refusal):
    """All values of a column are numbers, some in another notation, so that it was taken for text."""

    column: str
    value: str

    def __str__(self) -> str:
        return f"column {self.column!r} holds numbers such as {self.value!r} that are taken for text"


@dataclass(eq=False)
class NumbersAsTextWarning(UserWarning):
    """The same of a column that somebody chose."""

    column: str
    value: str

    def __str__(self) -> str:
        return str(NumbersAsText(self.column, self.value))


@dataclass(eq=False)
class UnevenRow(Refusal):
    """A row of a table has more or fewer fields than there are columns; ``mark`` is that of a comment, if one."""

    origin: str
    row: int
    found: int
    expected: int
    mark: str = ""

    def __str__(self) -> str:
        fields = f"{self.found} field{'' if self.found == 1 else 's'}"
        columns = "is 1 column" if self.expected == 1 else f"are {self.expected} columns"
        return f"row {self.row} of {self.origin} has {fields}, but there {columns}"


class UnevenRowComment(UnevenRow):
    """The same, and the row or the header looks like a comment."""


@dataclass(eq=False)
class UnevenLine(Refusal):
    """A line of a column file has more or fewer fields than those before."""

    origin: str
    line: int
    found: int
    expected: int

    def __str__(self) -> str:
        return f"line {self.line} of {self.origin} has {self.found} columns, but the lines before have {self.expected}"


class UnevenComment(UnevenLine):
    """The same, and the line or the first one looks like a comment."""
