"""CSV and its kin: the same answer whether pyarrow is installed, which makes it faster, or not."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TextIO

from majorant._checks import one_of
from majorant.cli.refusals import NoHeader, NoRows, UnevenRow, UnevenRowComment
from majorant.cli.tables.arrow_csv import arrow_columns
from majorant.cli.tables.column import TextColumn
from majorant.cli.tables.lines import Layout, Lines
from majorant.cli.tables.numbers import is_number
from majorant.cli.tables.table import Table, chunk_rows, refuse_twice

DELIMITERS = (",", "\t", ";", "|", " ")
NAMED = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
DECIMALS = (".", ",")
# What comments begin with.
COMMENTS = ("#", "%", "//")
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

    def lines(self, file: Iterable[str]) -> Iterator[str]:
        """Yield the lines that have cells in them."""
        held, comment = filter(str.strip, file), self.comment
        return (line for line in held if not line.startswith(comment)) if comment else held


def read_delimited(file: TextIO, origin: str, rows: int | None, dialect: Dialect) -> Iterator[Table]:
    """Yield tables of at most so many rows."""
    held = dialect.lines(file)
    sample = list(itertools.islice(held, SAMPLE))
    if not sample:
        raise NoRows(origin, "is empty")
    lines, delimiter = Lines(itertools.chain(sample, held)), dialect.mark(sample)
    first, stood_on = _first(lines, origin, delimiter)
    layout = Layout(origin, _names(first, origin, dialect.header), delimiter, dialect.decimal)
    if dialect.header is False:
        lines.put_back(stood_on)
    yield from _tables(lines, layout, chunk_rows(rows, len(layout.names)))


def _first(lines: Lines, origin: str, delimiter: str) -> tuple[list[str], list[str]]:
    """Return the first record, and the lines that it stood on."""
    stood_on: list[str] = []

    def remembered() -> Iterator[str]:
        for line in lines:
            stood_on.append(line)
            yield line

    return next(_records(remembered(), lines, origin, delimiter)), stood_on


def _tables(lines: Lines, layout: Layout, rows: int) -> Iterator[Table]:
    row = 1
    for columns in arrow_columns(lines, layout, rows):
        yield Table(layout.origin, dict(zip(layout.names, columns, strict=True)), row)
        row += len(columns[0])
    records = _records(lines, lines, layout.origin, layout.delimiter)
    while batch := list(itertools.islice(records, rows)):
        _check_lengths(batch, layout, row)
        columns = [TextColumn(values, decimal=layout.decimal) for values in zip(*batch, strict=True)]
        yield Table(layout.origin, dict(zip(layout.names, columns, strict=True)), row)
        row += len(batch)
    if row == 1:
        raise NoRows(layout.origin, "has a header but no rows")


def _records(source: Iterable[str], lines: Lines, origin: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the records of a source of lines, which takes them from ``lines``."""
    spaces = delimiter == " "
    reader = csv.reader(
        (line.strip() for line in source) if spaces else _without_blanks(source, delimiter),
        delimiter=delimiter,
        skipinitialspace=True,
        strict=True,
    )
    try:
        yield from reader
    except csv.Error as problem:
        raise ValueError(f"{origin} is not well-formed near line {lines.taken}: {problem}") from None


def _without_blanks(lines: Iterable[str], delimiter: str) -> Iterator[str]:
    """Yield lines without spaces after their cells; the csv module leaves out those before. Quoted cells stay."""
    before, quoted = re.compile(f" +(?={re.escape(delimiter)}|[\\r\\n]|$)"), False
    for line in lines:
        quotes = line.count('"')
        yield line if quotes or quoted else before.sub("", line)
        quoted ^= quotes % 2 == 1


def _check_lengths(batch: list[list[str]], layout: Layout, row: int) -> None:
    width = len(layout.names)
    for place, record in enumerate(batch):
        if len(record) != width:
            first = next((cell for cell in (layout.names[0], record[0]) if cell.startswith(COMMENTS)), "")
            kind = UnevenRowComment if first else UnevenRow
            mark = next((each for each in COMMENTS if first.startswith(each)), "")
            raise kind(layout.origin, row + place, len(record), width, mark)


def _names(first: list[str], origin: str, header: bool | None) -> list[str]:
    if header is False:
        return [f"c{i}" for i in range(1, len(first) + 1)]
    if header is None and all(map(is_number, first)):
        raise NoHeader(origin)
    names = [cell.strip() for cell in first]
    refuse_twice(names, origin)
    return names


def _read_delimiter(delimiter: str) -> str:
    mark = NAMED.get(delimiter, delimiter.replace("\\t", "\t"))
    if len(mark) != 1:
        raise ValueError(f"delimiter must be one character or one of {', '.join(NAMED)}, got {delimiter!r}")
    return mark


def _delimiter(sample: list[str], marks: list[str]) -> str:
    """Return the mark that splits every line of the sample into equally many fields, the most of them.

    A space is one only if nothing else is: it may stand beside any other.
    """
    most, best = 1, ","
    for mark in marks:
        if mark == " " and most > 1:
            break
        lines = [line.strip() for line in sample] if mark == " " else sample
        try:
            counts = {len(record) for record in csv.reader(lines, delimiter=mark, skipinitialspace=True)}
        except csv.Error:
            continue
        if len(counts) == 1 and max(counts) > most:
            most, best = max(counts), mark
    return best
