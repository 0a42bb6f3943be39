"""CSV by Arrow, and by the csv module where Arrow reads something else.

The csv module says what CSV means here. It reads from the first chunk on that holds

* quotes that neither begin nor end a cell (``5" pipe``, ``"a"b``) or are never closed, or cells over several lines;
* spaces around cells and quotes as well: Arrow takes ``, "a, b"`` for two cells;
* lines with more or fewer cells than there are columns, so that the row can be named;
* cells beyond the limit of the csv module, which it refuses;
* a byte order mark at the beginning of a line, which Arrow drops,

and all files whose delimiter is a space, which may stand in runs, or not ASCII. Decoding, comments and blank lines come
before either.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow_csv

from majorant.cli.files import NoRows, Refusal
from majorant.cli.tables import Table, is_number
from majorant.sources.base import rows_per_chunk

DELIMITERS = (",", "\t", ";", "|", " ")
NAMED = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
# What comments begin with.
COMMENTS = ("#", "%", "//")
# Lines that show the delimiter.
SAMPLE = 20
# Rows of a chunk if nobody says how many; where there are many columns, fewer.
CHUNK = 20_000
QUOTE, SPACE, NEWLINE, RETURN = b'" \n\r'
# Bytes that Arrow reads at a time.
MOST = 2**31 - 1


def chunk_rows(rows: int | None, columns: int) -> int:
    """Return how many rows make a chunk of so many columns, where ``rows`` does not say it.

    Examples
    --------
    >>> chunk_rows(None, 10), chunk_rows(None, 2**12), chunk_rows(7, 2**12)
    (20000, 256, 7)
    """
    return min(CHUNK, rows_per_chunk(columns)) if rows is None else rows


def refuse_twice(names: Sequence[str], origin: str) -> None:
    """Raise if two columns have one name; of columns without any, a table keeps the last."""
    twice = [name for name, times in Counter(filter(None, names)).items() if times > 1]
    if twice:
        raise Refusal(f"{origin} has two columns named {twice[0]!r}")


def read_csv(
    file: Iterable[str],
    origin: str,
    rows: int | None,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str = ".",
    comment: str | None = None,
) -> Iterator[Table]:
    """Yield tables of at most so many rows, or of as many as take little memory; messages call the file ``origin``.

    The delimiter is a character or one of the names in ``NAMED``, found if not given. The first line names the columns
    if ``header`` is true; if that is None it should, and a line of numbers only is refused. ``decimal`` is the mark
    before a fraction, lines that begin with ``comment`` are skipped.
    """
    lines: Iterator[str] = filter(str.strip, file)
    if comment:
        lines = (line for line in lines if not line.startswith(comment))
    sample = list(itertools.islice(lines, SAMPLE))
    if not sample:
        raise NoRows(f"{origin} is empty")
    mark = _find_delimiter(sample, decimal) if delimiter is None else NAMED.get(delimiter, delimiter)
    mark = mark.replace("\\t", "\t")
    if len(mark) != 1:
        raise Refusal(f"delimiter must be one character or one of {', '.join(NAMED)}, got {delimiter!r}")
    lines = itertools.chain(sample, lines)
    stood_on: list[str] = []

    def remembered(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            stood_on.append(line)
            yield line

    first = next(csv_records(remembered(lines), origin, mark))
    if header is False:
        names = [f"c{i}" for i in range(1, len(first) + 1)]
        lines, read = itertools.chain(stood_on, lines), 0
    else:
        if header is None and all(map(is_number, first)):
            raise Refusal(
                f"the first line of {origin} holds numbers, not the names of columns",
                "say --no-header to call them c1, c2, … or --header if these are the names",
            )
        names, read = [cell.strip() for cell in first], len(stood_on)
        refuse_twice(names, origin)
    row, rows = 1, chunk_rows(rows, len(names))

    while batch := list(itertools.islice(lines, rows)):
        columns = arrow_columns(batch, len(names), mark)
        if columns is None:
            lines = itertools.chain(batch, lines)
            break
        yield Table.of_cells(origin, names, columns, row, decimal)
        row, read = row + len(batch), read + len(batch)
    records = csv_records(lines, origin, mark, read)
    while parsed := list(itertools.islice(records, rows)):
        for place, record in enumerate(parsed):
            if len(record) != len(names):
                fields = f"{len(record)} field{'' if len(record) == 1 else 's'}"
                there = "is 1 column" if len(names) == 1 else f"are {len(names)} columns"
                mark = next((mark for cell in (names[0], record[0]) for mark in COMMENTS if cell.startswith(mark)), "")
                hint = mark and f"say --comment '{mark}' if lines that begin so are comments"
                raise Refusal(f"row {row + place} of {origin} has {fields}, but there {there}", hint)
        yield Table.of_cells(origin, names, zip(*parsed, strict=True), row, decimal)
        row += len(parsed)
    if row == 1:
        raise NoRows(f"{origin} has a header but no rows")


def csv_records(lines: Iterable[str], origin: str, delimiter: str, read: int = 0) -> Iterator[list[str]]:
    """Yield the records of lines by the csv module, of which so many were read before."""

    def trimmed() -> Iterator[str]:
        """Yield lines without spaces after their cells; the csv module leaves out those before. Quoted cells stay."""
        before, quoted = re.compile(f" +(?={re.escape(delimiter)}|[\\r\\n]|$)"), False
        for line in lines:
            quotes = line.count('"')
            yield line if quotes or quoted else before.sub("", line)
            quoted ^= quotes % 2 == 1

    lines = map(str.strip, lines) if delimiter == " " else lines
    reader = csv.reader(
        lines if delimiter == " " else trimmed(), delimiter=delimiter, skipinitialspace=True, strict=True
    )
    try:
        yield from reader
    except csv.Error as problem:
        raise Refusal(f"{origin} is not well-formed near line {read + reader.line_num}: {problem}") from None


def _find_delimiter(sample: list[str], decimal: str) -> str:
    """Return the mark that splits every line of the sample into equally many fields, the most of them.

    A space is one only if nothing else is: it may stand beside any other.
    """
    most, best = 1, ","
    for mark in DELIMITERS:
        if mark == decimal or (mark == " " and most > 1):
            continue
        lines = [line.strip() for line in sample] if mark == " " else sample
        try:
            counts = {len(record) for record in csv.reader(lines, delimiter=mark, skipinitialspace=True)}
        except csv.Error:
            continue
        if len(counts) == 1 and max(counts) > most:
            most, best = max(counts), mark
    return best


def arrow_columns(lines: Sequence[str], width: int, delimiter: str) -> list[Any] | None:
    """Return the cells of lines by column, read by Arrow, or None if these are better read by the csv module."""
    if not delimiter.isascii() or delimiter in '" ' or not (delimiter == "\t" or delimiter.isprintable()):
        return None
    if max(map(len, lines)) > csv.field_size_limit() or lines[0].startswith("\ufeff"):
        return None
    data = "".join(lines).encode()
    codes = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    ends = (codes == NEWLINE) | (codes == RETURN)
    edges, space = ends | (codes == ord(delimiter)), codes == SPACE
    around = np.append(np.flatnonzero(edges[:-1] & space[1:]) + 1, np.flatnonzero(space[:-1] & edges[1:]))
    # Quotes enclose cells if they open and close by turns, each opening one after the end of a cell or after another
    # quote (which it makes a literal one), each closing one before.
    quotes = np.flatnonzero(codes == QUOTE)
    edges[quotes] = True
    if len(quotes) % 2 or not (edges[quotes[::2] - 1].all() and edges[quotes[1::2] + 1].all()):
        return None
    spaces = not (np.searchsorted(quotes, around) % 2).all()
    if (np.searchsorted(quotes, np.flatnonzero(ends)) % 2).any() or (len(quotes) and spaces) or len(data) >= MOST:
        return None
    names = [str(number) for number in range(width)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            arrow_csv.ParseOptions(delimiter=delimiter),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), check_utf8=False),
        )
    except pa.ArrowInvalid:  # lines of other lengths
        return None
    cells = [column.combine_chunks() for column in table.columns]
    return [compute.utf8_trim(column, " ") for column in cells] if spaces else cells
