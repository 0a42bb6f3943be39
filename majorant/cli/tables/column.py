"""One column of a table: text, numbers, true and false, or what no model can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from majorant._checks import Array
from majorant.cli.tables.numbers import MISSING, Numbers, read_numbers


class WordAmongNumbers(Exception):
    """A column that should be numbers holds a word, at that place."""

    def __init__(self, value: str, place: int) -> None:
        self.value, self.place = value, place


class Opaque(Exception):
    """A column is of a kind that cannot be used."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class TextColumn:
    """Values as they are written.

    Parameters
    ----------
    values : sequence of str
        The cells.
    missing : set of str
        What stands where a value is missing.
    typed : bool
        Whether the file calls them text, as Parquet does; otherwise they are numbers if all of them look so, or all
        are true and false.
    decimal : {".", ","}
        The mark before a fraction.
    numbers : array, optional
        The cells as floats, where somebody has read them already.
    """

    def __init__(
        self,
        values: Sequence[str],
        missing: frozenset[str] = MISSING,
        typed: bool = False,
        decimal: str = ".",
        numbers: Array | None = None,
    ) -> None:
        self.values, self.missing, self.typed, self.decimal = values, missing, typed, decimal
        self._read = None if numbers is None else Numbers(numbers)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_text(self) -> bool:
        """Whether there is a value that is neither a number nor missing."""
        return self.typed or self._numbers.values is None

    @property
    def first_word(self) -> int | None:
        """The place of the first value that is neither a number nor missing, if there is one."""
        return self._numbers.word

    def numbers(self) -> Array:
        """Return floats, NaN where a value is missing."""
        values, word = self._numbers
        if values is None:
            assert word is not None
            raise WordAmongNumbers(self.values[word], word)
        return values

    def text(self) -> list[str | None]:
        """Return strings, None where a value is missing."""
        return [None if value in self.missing else value for value in self.values]

    def take(self, rows: Array) -> TextColumn:
        """Return the given rows."""
        known = None if self._read is None or self._read.values is None else self._read.values[rows]
        return self._like([self.values[i] for i in rows], known)

    def compact(self) -> Column:
        """Return the same in less memory: numbers if they are, each string once otherwise."""
        if not self.is_text:
            return NumberColumn(self.numbers())
        once: dict[str, str] = {}
        return self._like([once.setdefault(value, value) for value in self.values])

    def joined(self, parts: Sequence[TextColumn]) -> TextColumn:
        """Return the values of some columns like this one, end to end."""
        return self._like([value for part in parts for value in part.values])

    def _like(self, values: Sequence[str], numbers: Array | None = None) -> TextColumn:
        return TextColumn(values, self.missing, self.typed, self.decimal, numbers)

    @property
    def _numbers(self) -> Numbers:
        """Return what reading the cells as numbers gave; tried once, also where it fails."""
        if self._read is None:
            self._read = read_numbers(self.values, self.missing, self.decimal)
        return self._read


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
        different, places = np.unique(self.values, return_inverse=True)  # labels are few
        each = [None if v != v else str(int(v)) if v.is_integer() else repr(v) for v in different.tolist()]
        return [each[place] for place in places.tolist()]

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
        raise Opaque(self.kind)


Column: TypeAlias = TextColumn | NumberColumn | OpaqueColumn
