"""Tables in files: CSV, TSV, Parquet, svmlight and npz, read whole or in chunks, one file or several."""

from __future__ import annotations

import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from majorant.cli.csv_reader import chunk_rows, read_csv, refuse_twice
from majorant.cli.files import PACKED, NoRows, Refusal, known_encoding, named_failures, open_unpacked, standard_input
from majorant.cli.tables import LABELS, MixedColumns, Table, is_string, join_tables
from majorant.core.checks import one_of, whole
from majorant.sources.base import found_files, rows_per_chunk
from majorant.sources.files import open_parquet, read_row_groups, read_svmlight, row_group_runs

FORMATS = ("csv", "tsv", "parquet", "svmlight", "npz")
SUFFIXES = {f".{name}": name for name in FORMATS} | {".tab": "tsv", ".pq": "parquet"}
SUFFIXES |= dict.fromkeys((".svm", ".libsvm"), "svmlight")
SVMLIGHT_LINE = re.compile(rb"[+-]?[\d.eE+-]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?\s*")
# Rows of a row group that is written.
GROUP = 2**17

T = TypeVar("T")


# --- formats ----------------------------------------------------------------------------------------------


def matrices_of_svmlight(file: BinaryIO, origin: str, rows: int | None) -> Iterator[Table]:
    """Yield matrices of at most so many rows; column i is the feature written as i."""
    first_row = 1
    for X, y in read_svmlight(file, f"{origin} is not svmlight text, in row", 1, rows, zero_based=True):
        yield Table(origin, pa.table({LABELS: y}), first_row, X=X)
        first_row += len(y)
    if first_row == 1:
        raise NoRows(f"{origin} is empty")


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


@contextmanager
def parquet_writer(path: Any, types: dict[str, str]) -> Iterator[Callable[[dict[str, list[Any]]], None]]:
    """Yield a function that writes columns of these types to a Parquet file, as they come; few are held."""
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in types.items()])
    held: list[Any] = []

    def write(columns: dict[str, list[Any]] | None) -> None:
        if columns is not None:
            held.append(pa.record_batch(columns, schema))
        if held and (columns is None or sum(batch.num_rows for batch in held) >= GROUP):
            writer.write_table(pa.Table.from_batches(held))
            held.clear()

    with parquet.ParquetWriter(path, schema) as writer:
        yield write
        write(None)


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
        """Return the same files by names that hold in whatever folder a worker has been started."""

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
        """Return what to call it in a sentence."""
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
                yield from matrices_of_svmlight(file, self.name, rows)
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
        """Return what to call them in a sentence."""
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
