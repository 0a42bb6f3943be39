"""CSV and its kin, by the csv module: the same answer whether pyarrow is installed or not."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from majorant._checks import one_of
from majorant.cli.tables.table import Table, TextColumn, is_number, refuse_twice

DELIMITERS = (",", "\t", ";", "|", " ")
NAMED = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
DECIMALS = (".", ",")
# Lines looked at to find the delimiter.
SAMPLE = 20


@dataclass(frozen=True)
class Dialect:
    """How text is cut into cells.

    Parameters
    ----------
    delimiter : str, optional
        A character or one of the names in ``NAMED``; found if not given.
    header : bool, optional
        Whether the first line names the columns; if None it should, and a line of numbers only is refused.
    decimal : {".", ","}
        The mark before a fraction.
    comment : str, optional
        Lines that begin so are skipped.
    """

    delimiter: str | None = None
    header: bool | None = None
    decimal: str = "."
    comment: str | None = None

    def __post_init__(self) -> None:
        one_of("decimal", self.decimal, DECIMALS)

    def mark(self, sample: list[str]) -> str:
        """Return the delimiter of a file that begins so."""
        if self.delimiter is None:
            return _delimiter(sample, [mark for mark in DELIMITERS if mark != self.decimal])
        return _read_delimiter(self.delimiter)

    def holds(self, line: str) -> bool:
        """Return whether a line has cells in it."""
        return bool(line.strip()) and not (self.comment and line.startswith(self.comment))


def read_delimited(file: TextIO, origin: str, rows: int, dialect: Dialect) -> Iterator[Table]:
    """Yield tables of at most so many rows."""
    lines = filter(dialect.holds, file)
    sample = list(itertools.islice(lines, SAMPLE))
    if not sample:
        raise ValueError(f"{origin} is empty")
    records = _records(itertools.chain(sample, lines), origin, dialect.mark(sample))
    first = next(records)
    names = _names(first, origin, dialect.header)
    if dialect.header is False:
        records = itertools.chain([first], records)
    yield from _tables(records, names, origin, rows, dialect.decimal)


def _records(lines: Iterable[str], origin: str, delimiter: str) -> Iterator[list[str]]:
    spaces = delimiter == " "
    reader = csv.reader(
        (line.strip() for line in lines) if spaces else lines,
        delimiter=delimiter,
        skipinitialspace=True,
        strict=True,
    )
    try:
        for number, record in enumerate(reader):
            yield [cell.strip() for cell in record] if number == 0 else record
    except csv.Error as problem:
        raise ValueError(f"{origin} is not well-formed near line {reader.line_num}: {problem}") from None


def _tables(records: Iterator[list[str]], names: list[str], origin: str, rows: int, decimal: str) -> Iterator[Table]:
    first_row = 1
    while batch := list(itertools.islice(records, rows)):
        for place, record in enumerate(batch):
            if len(record) != len(names):
                raise ValueError(
                    f"row {first_row + place} of {origin} has {len(record)} fields, but there are {len(names)} columns"
                )
        columns = [TextColumn(values, decimal=decimal) for values in zip(*batch, strict=True)]
        yield Table(origin, dict(zip(names, columns, strict=True)), first_row)
        first_row += len(batch)
    if first_row == 1:
        raise ValueError(f"{origin} has a header but no rows")


def _names(first: list[str], origin: str, header: bool | None) -> list[str]:
    if header is False:
        return [f"c{i}" for i in range(1, len(first) + 1)]
    if header is None and all(map(is_number, first)):
        raise ValueError(
            f"the first line of {origin} holds numbers, not the names of columns; "
            "say --no-header to call them c1, c2, … or --header if these are the names"
        )
    refuse_twice(first, origin)
    return first


def _read_delimiter(delimiter: str) -> str:
    mark = NAMED.get(delimiter, delimiter.replace("\\t", "\t"))
    if len(mark) != 1:
        raise ValueError(f"delimiter must be one character or one of {', '.join(NAMED)}, got {delimiter!r}")
    return mark


def _delimiter(sample: list[str], marks: list[str]) -> str:
    """Return the mark that splits every line of the sample into equally many fields, the most of them."""
    most, best = 1, ","
    for mark in marks:
        lines = [line.strip() for line in sample] if mark == " " else sample
        try:
            counts = {len(record) for record in csv.reader(lines, delimiter=mark, skipinitialspace=True)}
        except csv.Error:
            continue
        if len(counts) == 1 and max(counts) > most:
            most, best = max(counts), mark
    return best
