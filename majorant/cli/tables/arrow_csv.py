"""CSV by pyarrow, where it is installed: the same table as by the csv module, and faster.

The csv module says what CSV means here; pyarrow is given only what it is known to read alike, and numbers are Python's
floats to the last bit. It is *not* given, and the csv module reads from there to the end of the file:

* quotes that neither begin nor end a cell (``5" pipe``, ``"a"b``) or are never closed, and cells over several lines;
* spaces around cells, where there are quotes as well: pyarrow takes ``, "a, b"`` for two cells;
* lines with more or fewer cells than there are columns, since it is the csv module that names the row;
* cells beyond the limit of the csv module, which that refuses;
* delimiters that are no ASCII character, or are a space, which may stand in runs.

Decoding, comments and blank lines come before either of them. A file that is wrong in two ways may be refused for the
second of them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np

from majorant._checks import Array
from majorant.cli.tables.column import TextColumn
from majorant.cli.tables.lines import Layout, Lines
from majorant.cli.tables.numbers import MISSING

QUOTE, SPACE, NEWLINE, RETURN = b'" \n\r'
# pyarrow drops it at the beginning of what it reads, even in the middle of a file.
BYTE_ORDER_MARK = "\ufeff"
# Bytes of a block, in pyarrow.
MOST = 2**31 - 1


def arrow_columns(lines: Lines, layout: Layout, rows: int) -> Iterator[list[TextColumn]]:
    """Yield the columns of so many lines after the other, as far as pyarrow can be trusted; it leaves the rest."""
    if not _suits(layout.delimiter) or not is_installed():
        return
    while batch := lines.take(rows):
        columns = _columns(batch, layout)
        if columns is None:
            lines.put_back(batch)
            return
        yield columns


def is_installed() -> bool:
    """Return whether there is a pyarrow that reads CSV."""
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError:
        return False
    return True


class _Look(NamedTuple):
    """Whether there are quotes, and spaces around cells."""

    quotes: bool
    spaces: bool


class ArrowCells(Sequence[str]):
    """The cells of a column, which become strings of Python only if somebody looks at them; equal ones are one."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self._strings[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._strings)

    @cached_property
    def _strings(self) -> list[str]:
        encoded = self._array.dictionary_encode()
        different = encoded.dictionary.to_pylist()
        return [different[number] for number in encoded.indices.to_pylist()]


def _suits(delimiter: str) -> bool:
    return delimiter.isascii() and (delimiter == "\t" or delimiter.isprintable()) and delimiter not in '" '


def _columns(batch: Sequence[str], layout: Layout) -> list[TextColumn] | None:
    """Return the columns of some lines, or None if these are better read by the csv module."""
    if max(map(len, batch)) > csv.field_size_limit() or batch[0].startswith(BYTE_ORDER_MARK):
        return None
    try:
        data = "".join(batch).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which some encodings allow
        return None
    look = _look(data, ord(layout.delimiter))
    if look is None or (look.quotes and look.spaces) or len(data) >= MOST:
        return None
    arrays = _parsed(data, layout)
    if arrays is None:
        return None
    return [_column(_trimmed(array) if look.spaces else array, layout.decimal) for array in arrays]


def _look(data: bytes, delimiter: int) -> _Look | None:
    """Return what is in some lines, or None if a quote is not where one may be, or holds the end of a line.

    Quotes enclose cells if they open and close by turns, each opening one after the end of a cell or after another
    quote (which it makes a literal one), each closing one before.
    """
    codes = np.frombuffer(b"\n" + data + b"\n", np.uint8)
    ends = (codes == NEWLINE) | (codes == RETURN)
    beside = ends | (codes == delimiter)
    quotes = np.flatnonzero(codes == QUOTE)
    space = codes == SPACE
    around = np.append(np.flatnonzero(beside[:-1] & space[1:]) + 1, np.flatnonzero(space[:-1] & beside[1:]))
    beside[quotes] = True
    if len(quotes) % 2 or not (beside[quotes[::2] - 1].all() and beside[quotes[1::2] + 1].all()):
        return None
    if _inside(np.flatnonzero(ends), quotes).any():
        return None
    return _Look(len(quotes) > 0, not _inside(around, quotes).all())


def _inside(places: Array, quotes: Array) -> Array:
    return np.searchsorted(quotes, places) % 2 == 1


def _parsed(data: bytes, layout: Layout) -> list[Any] | None:
    """Return the cells by column, as text; None where pyarrow finds lines of other lengths."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    names = [str(number) for number in range(len(layout.names))]
    read = arrow.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1)
    parse = arrow.ParseOptions(delimiter=layout.delimiter)
    convert = arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), check_utf8=False)
    try:
        table = arrow.read_csv(pa.BufferReader(data), read, parse, convert)
    except pa.ArrowInvalid:
        return None
    return [column.combine_chunks() for column in table.columns]


def _trimmed(array: Any) -> Any:
    from pyarrow import compute

    return compute.utf8_trim(array, " ")


def _column(array: Any, decimal: str) -> TextColumn:
    return TextColumn(ArrowCells(array), decimal=decimal, numbers=_numbers(array, decimal))


def _numbers(array: Any, decimal: str) -> Array | None:
    """Return a column as floats, NaN where one is missing; None if Python should look at it."""
    import pyarrow as pa
    from pyarrow import compute

    if decimal != ".":
        if compute.any(compute.match_substring(array, ".")).as_py():
            return None
        array = compute.replace_substring(array, decimal, ".")
    missing = compute.is_in(array, value_set=pa.array(sorted(MISSING)))
    try:
        found = compute.cast(compute.if_else(missing, None, array), pa.float64())
    except pa.ArrowInvalid:  # a word, or a number that only Python reads, such as one with blanks around it
        return None
    # Of what is not finite pyarrow has ideas of its own: nan(1) is a number to it.
    if compute.any(compute.invert(compute.is_finite(found))).as_py():
        return None
    return np.asarray(found.to_numpy(zero_copy_only=False), np.float64)
