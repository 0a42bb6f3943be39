"""Tables in files: CSV, TSV, Parquet, svmlight and npz, read whole or in chunks, one file or several.

CSV is read by Arrow, and by the csv module where Arrow reads something else: the csv module says what CSV means. It
reads from the first chunk on that holds

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
import io
import itertools
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow_csv

from majorant.cli.files import (
    CHUNK_ROWS,
    PACKED,
    NoRows,
    Refusal,
    known_encoding,
    named_failures,
    open_unpacked,
    standard_input,
)
from majorant.cli.tables import LABELS, MixedColumns, Table, is_number, is_string, join_tables
from majorant.core.checks import one_of, whole
from majorant.sources.base import found_files, rows_per_chunk
from majorant.sources.files import open_parquet, read_row_groups, read_svmlight, row_group_runs

DELIMITERS = (",", "\t", ";", "|", " ")
NAMED = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
# What comments begin with.
COMMENTS = ("#", "%", "//")
# Lines that show the delimiter.
SAMPLE = 20
QUOTE, SPACE, NEWLINE, RETURN = b'" \n\r'


def chunk_rows(rows: int | None, columns: int) -> int:
    """Return the number of rows of a chunk with so many columns, unless ``rows`` sets it.

    Examples
    --------
    >>> chunk_rows(None, 10), chunk_rows(None, 2**12), chunk_rows(7, 2**12)
    (20000, 256, 7)
    """
    return min(CHUNK_ROWS, rows_per_chunk(columns)) if rows is None else rows


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
                expected = "is 1 column" if len(names) == 1 else f"are {len(names)} columns"
                mark = next((mark for cell in (names[0], record[0]) for mark in COMMENTS if cell.startswith(mark)), "")
                hint = mark and f"say --comment '{mark}' if lines that begin so are comments"
                raise Refusal(f"row {row + place} of {origin} has {fields}, but there {expected}", hint)
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
    too_long = len(data) >= np.iinfo(np.int32).max  # bytes that Arrow reads at a time
    if (np.searchsorted(quotes, np.flatnonzero(ends)) % 2).any() or (len(quotes) and spaces) or too_long:
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


FORMATS = ("csv", "tsv", "parquet", "svmlight", "npz")
SUFFIXES = {f".{name}": name for name in FORMATS} | {".tab": "tsv", ".pq": "parquet"}
SUFFIXES |= dict.fromkeys((".svm", ".libsvm"), "svmlight")
SVMLIGHT_LINE = re.compile(rb"[+-]?[\d.eE+-]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?\s*")

T = TypeVar("T")


# --- formats ----------------------------------------------------------------------------------------------


def matrices_of_npz(file: BinaryIO, origin: str, rows: int | None) -> Iterator[Table]:
    """Yield the arrays X and y of a NumPy archive; without y the rows have no labels."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if name in ("X", "y")}
    except (OSError, ValueError, EOFError) as problem:
        raise Refusal(f"{origin} is not a NumPy archive, or is incomplete ({problem})") from None
    if arrays.get("X") is None or arrays["X"].ndim != 2 or not len(arrays["X"]):
        raise Refusal(f"{origin} must hold a two-dimensional array X (and labels y)")
    X = arrays["X"].astype(np.float64)
    y = arrays.get("y", np.full(len(X), np.nan))
    if y.shape != (len(X),):
        raise Refusal(f"y of {origin} must have one label per row of X ({len(X)}), got shape {y.shape}")
    labels = pa.array(list(map(str, y)), pa.string()) if y.dtype.kind in "US" else pa.array(y.astype(float))
    rows = chunk_rows(rows, X.shape[1])
    for start in range(0, len(X), rows):
        yield Table(origin, pa.table({LABELS: labels[start : start + rows]}), start + 1, X=X[start : start + rows])


def tables_of_parquet(
    file: BinaryIO, origin: str, rows: int | None, groups: Sequence[int] | None = None
) -> Iterator[Table]:
    """Yield tables of at most so many rows, of all row groups or of some."""
    opened = open_parquet(file, origin, chunk_rows(rows, 1))
    names, chosen = opened.schema_arrow.names, range(opened.num_row_groups) if groups is None else groups
    refuse_twice(names, origin)
    row = first = 1 + sum(opened.metadata.row_group(number).num_rows for number in range(chosen[0] if chosen else 0))
    for batch in read_row_groups(opened, chosen, chunk_rows(rows, len(names)), origin):
        columns = {}
        for name, column in zip(names, batch.columns, strict=True):
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
            kind = column.type
            if is_string(kind):
                column = compute.if_else(compute.equal(column, ""), None, column)
            elif pa.types.is_decimal(kind):
                column = pa.array(np.array(column.to_pylist(), dtype=np.float64))
            elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
                column = column.cast("float64")
            columns[name] = column
        if batch.num_rows:
            yield Table(origin, pa.table(columns), row)
        row += batch.num_rows
    if groups is None and row == first:
        raise NoRows(f"{origin} has no rows")


# --- files ------------------------------------------------------------------------------------------------


class Tables(ABC):
    """A table in one file or several."""

    sources: tuple[Source, ...]
    name: str  # what to call it in a sentence

    @property
    def paths(self) -> list[str]:
        """The files."""
        return [source.path for source in self.sources]

    @property
    def named(self) -> bool:
        """Whether the columns have names, in all files or in none."""
        first, *others = self.sources
        for other in others:
            if (other.kind in NUMBERED) != (first.kind in NUMBERED):
                raise Refusal(f"{other.name} is {other.kind}, which cannot be read together with {first.kind}")
        return first.kind not in NUMBERED

    @abstractmethod
    def chunks(self, rows: int | None = None) -> Iterator[Table]:
        """Yield the table in parts of at most so many rows, or of as many as take little memory; it is never whole."""

    @abstractmethod
    def pieces(self) -> list[Source]:
        """Return parts that can be read apart from each other: runs of row groups of Parquet, or files."""

    @abstractmethod
    def with_absolute_paths(self) -> Self:
        """Return the same files by absolute paths, for workers that were started in other folders."""

    def read(self, text: frozenset[str] = frozenset()) -> Table:
        """Return the whole table; the columns in ``text`` are kept as they are written."""

        def whole(text: frozenset[str]) -> Table:
            return join_tables([part.compact(text) for part in self.chunks()], text)

        return replace(settle_types(whole, text), origin=self.name, first_row=1)


@dataclass(frozen=True)
class Source(Tables):
    """A table in a file, which may be packed; ``-`` is standard input."""

    path: str
    format: str | None = None  # by default what the name says, or else what the first bytes look like
    # Of CSV: see read_csv.
    delimiter: str | None = None
    header: bool | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    comment: str | None = None
    groups: tuple[int, ...] | None = None  # the row groups of a Parquet file to read; all of them if not given
    _input: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.format is not None:
            one_of("format", self.format, FORMATS)
        known_encoding(self.encoding)
        one_of("decimal", self.decimal, (".", ","))

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name of the file in messages."""
        return "standard input" if self.path == "-" else self.path

    @property
    def sources(self) -> tuple[Source, ...]:  # type: ignore[override]
        """Return the file, of which there is one."""
        return (self,)

    @cached_property
    def kind(self) -> str:
        """Return the format."""
        if self.format is not None:
            return self.format
        path = Path(self.path)
        suffix = Path(path.stem).suffix if path.suffix in PACKED else path.suffix
        if suffix.lower() in SUFFIXES:
            return SUFFIXES[suffix.lower()]
        with named_failures(self.name), self._open() as file:
            line = file.readline(2**20)
        return "parquet" if line.startswith(b"PAR1") else "svmlight" if SVMLIGHT_LINE.fullmatch(line) else "csv"

    def chunks(self, rows: int | None = None) -> Iterator[Table]:
        """Yield the table in parts."""
        if rows is not None:
            whole("rows of a chunk", rows, least=1)
        with named_failures(self.name), self._open() as file:
            if self.kind == "parquet":
                yield from tables_of_parquet(file, self.name, rows, self.groups)
            elif self.kind == "svmlight":
                first = 1
                place = f"{self.name} is not svmlight text, in row"
                for X, y in read_svmlight(file, place, 1, rows, zero_based=True):
                    yield Table(self.name, pa.table({LABELS: y}), first, X=X)
                    first += len(y)
                if first == 1:
                    raise NoRows(f"{self.name} is empty")
            elif self.kind == "npz":
                yield from matrices_of_npz(file, self.name, rows)
            else:
                delimiter = self.delimiter or ("\t" if self.kind == "tsv" else None)
                with io.TextIOWrapper(file, encoding=known_encoding(self.encoding), newline="") as lines:
                    yield from read_csv(lines, self.name, rows, delimiter, self.header, self.decimal, self.comment)

    def pieces(self) -> list[Source]:
        """Return runs of row groups of Parquet, or the file."""
        if self.kind != "parquet" or self.groups is not None:
            return [self]
        with self._open() as file:
            opened = open_parquet(file, self.name)
            runs = row_group_runs(opened.metadata, rows_per_chunk(len(opened.schema_arrow.names)))
            return [replace(self, groups=groups) for groups, _ in runs]

    def with_absolute_paths(self) -> Source:
        """Return the same file."""
        return replace(self, path=os.path.abspath(self.path))

    def _open(self) -> BinaryIO:
        if self.path == "-":
            # Kept, since a second look at it may be needed.
            if not self._input:
                self._input.append(standard_input().read())
            return io.BytesIO(self._input[0])
        return open_unpacked(self.path)


NUMBERED = ("svmlight", "npz")


@dataclass(frozen=True)
class Files(Tables):
    """Files that are read one after the other. Columns are known by their names, in whatever order; some may be empty.

    Rows are numbered file by file where they are read in chunks, and through all of them where they are read at once.
    """

    sources: tuple[Source, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name of the files in messages."""
        more = len(self.sources) - 1
        return f"{self.sources[0].name} and {more} more file{'s' if more > 1 else ''}"

    def chunks(self, rows: int | None = None) -> Iterator[Table]:
        """Yield parts, none of which is of two files."""
        empty: NoRows | None = None
        seen = False
        for source in self.sources:
            try:
                for part in source.chunks(rows):
                    seen = True
                    yield part
            except NoRows as problem:
                empty = problem
        if not seen and empty is not None:
            raise empty

    def pieces(self) -> list[Source]:
        """Return the pieces of all files."""
        return [piece for source in self.sources for piece in source.pieces()]

    def with_absolute_paths(self) -> Files:
        """Return the same files."""
        return Files(tuple(source.with_absolute_paths() for source in self.sources))


def files_of(path: str) -> list[str]:
    """Return the files of a path: one, those that match a pattern, or the Parquet files of a folder."""
    if Path(path).is_dir():
        try:
            return [str(file) for file in found_files(path, ".parquet")]
        except FileNotFoundError:
            raise Refusal(
                f"the folder {path} holds no .parquet files; name others by a pattern, such as '{path}/*.csv'"
            ) from None
    if Path(path).exists() or not has_magic(path):
        return [path]
    found = sorted(glob(path, recursive=True))
    if not found:
        raise Refusal(f"no file matches {path}")
    files = [name for name in found if not Path(name).is_dir()]
    return files or [file for folder in found for file in files_of(folder)]


def settle_types(read: Callable[[frozenset[str]], T], text: frozenset[str]) -> T:
    """Read; where columns turn out to hold text after a while, once more with all of them as text."""
    try:
        return read(text)
    except MixedColumns as mixed:
        return read(text | mixed.names)
