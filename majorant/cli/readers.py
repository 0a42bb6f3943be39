"""Tables in files: CSV, TSV, Parquet, svmlight and npz, read whole or in chunks, one file or several."""

from __future__ import annotations

import io
import itertools
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from majorant.cli.csv_reader import CHUNK, chunk_rows, read_csv, refuse_twice
from majorant.cli.packing import PACKED, known_encoding, named_failures, open_unpacked, standard_input
from majorant.cli.refusals import NoRows, Refusal
from majorant.cli.tables import LABELS, Column, Matrix, MixedColumns, Table, join_tables
from majorant.core.checks import one_of, whole
from majorant.sources.base import found_files, rows_per_chunk

FORMATS = ("csv", "tsv", "parquet", "svmlight", "npz")
SUFFIXES = {f".{name}": name for name in FORMATS} | {".tab": "tsv", ".pq": "parquet"}
SUFFIXES |= dict.fromkeys((".svm", ".libsvm"), "svmlight")
SVMLIGHT_LINE = re.compile(rb"[+-]?[\d.eE+-]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?\s*")
# Bytes of the svmlight lines of a chunk, if nobody says how many these are.
STRETCH = 2**23
# Bytes that are read of a column of Parquet at a time: of row groups of millions of rows, not all is then in memory.
BUFFER = 2**20
# Rows of a row group that is written.
GROUP = 2**17

T = TypeVar("T")


# --- formats ----------------------------------------------------------------------------------------------


def read_svmlight(file: BinaryIO, origin: str, rows: int | None) -> Iterator[Matrix]:
    """Yield matrices of at most so many rows; column i is the feature written as i."""
    from sklearn.datasets import load_svmlight_file

    def parse(lines: list[bytes], first_row: int) -> Any:
        try:
            return load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)
        except ValueError as problem:
            if len(lines) == 1:
                raise Refusal(f"{origin} is not svmlight text, in row {first_row}: {problem}") from None
            for place, line in enumerate(lines):
                parse([line], first_row + place)
            raise

    lines = (line for line in file if line.split(b"#", 1)[0].strip())
    first_row = 1
    while True:
        batch: list[bytes] = []
        size = 0
        for line in itertools.islice(lines, CHUNK if rows is None else rows):
            batch.append(line)
            size += len(line)
            if rows is None and size >= STRETCH:
                break
        if not batch:
            break
        X, y = parse(batch, first_row)
        yield Matrix(origin, {LABELS: Column(y, "numbers")}, first_row, X=X)
        first_row += len(batch)
    if first_row == 1:
        raise NoRows(f"{origin} is empty")


def read_npz(file: BinaryIO, origin: str, rows: int | None) -> Iterator[Matrix]:
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
    rows = chunk_rows(rows, X.shape[1])
    for start in range(0, len(X), rows):
        part = y[start : start + rows]
        if y.dtype.kind in "US":
            labels = Column(pa.array(map(str, part), pa.string()), "text")
        else:
            labels = Column(part.astype(float), "numbers")
        yield Matrix(origin, {LABELS: labels}, start + 1, X=X[start : start + rows])


def read_parquet(file: BinaryIO, origin: str, rows: int | None, groups: Sequence[int] | None = None) -> Iterator[Table]:
    """Yield tables of at most so many rows, of all row groups or of some."""
    opened = _open_parquet(file, origin)
    names, sizes = opened.schema_arrow.names, _sizes_of_groups(opened)
    refuse_twice(names, origin)
    chosen = range(len(sizes)) if groups is None else groups
    before = sum(sizes[: chosen[0]]) if chosen else 0
    ends, seen = list(itertools.accumulate(sizes[number] for number in chosen)), 0
    batches = opened.iter_batches(batch_size=chunk_rows(rows, len(names)), row_groups=list(chosen))
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as problem:
            group = chosen[min(bisect_right(ends, seen), len(ends) - 1)]
            raise Refusal(f"row group {group} of {origin} cannot be read ({problem})") from None
        if batch is None:
            break
        if batch.num_rows:
            columns = {name: _parquet_column(array) for name, array in zip(names, batch.columns, strict=True)}
            yield Table(origin, columns, before + seen + 1)
            seen += batch.num_rows
    if groups is None and not seen:
        raise NoRows(f"{origin} has no rows")


def _open_parquet(file: BinaryIO, origin: str) -> Any:
    try:
        return parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as problem:
        raise Refusal(f"{origin} is not a Parquet file, or is incomplete ({problem})") from None


def _sizes_of_groups(opened: Any) -> list[int]:
    return [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]


def _parquet_column(array: Any) -> Column:
    types = pa.types
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind):
        return Column(compute.if_else(compute.equal(array, ""), None, array), "text")
    if types.is_decimal(kind):
        return Column(np.array(array.to_pylist(), dtype=np.float64), "numbers")
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        values = np.array(array.cast("float64").to_numpy(zero_copy_only=False))
        return Column(values, "truth" if types.is_boolean(kind) else "numbers")
    return Column(array, str(kind))


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


@dataclass(frozen=True)
class Source:
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
    def name(self) -> str:
        """Return what to call it in a sentence."""
        return "standard input" if self.path == "-" else self.path

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

    @property
    def paths(self) -> list[str]:
        """Return the file, of which there is one."""
        return [self.path]

    @property
    def named(self) -> bool:
        """Whether the columns have names."""
        return self.kind in ("csv", "tsv", "parquet")

    def chunks(self, rows: int | None = None) -> Iterator[Table]:
        """Yield the table in parts of at most so many rows, or of as many as take little memory; it is never whole."""
        if rows is not None:
            whole("rows of a chunk", rows, least=1)
        with named_failures(self.name), self._open() as file:
            if self.kind == "parquet":
                yield from read_parquet(file, self.name, rows, self.groups)
            elif self.kind == "svmlight":
                yield from read_svmlight(file, self.name, rows)
            elif self.kind == "npz":
                yield from read_npz(file, self.name, rows)
            else:
                delimiter = self.delimiter or ("\t" if self.kind == "tsv" else None)
                with io.TextIOWrapper(file, encoding=known_encoding(self.encoding), newline="") as lines:
                    yield from read_csv(lines, self.name, rows, delimiter, self.header, self.decimal, self.comment)

    def pieces(self) -> list[Source]:
        """Return parts that can be read apart from each other: runs of row groups of Parquet, or the file."""
        if self.kind != "parquet" or self.groups is not None:
            return [self]
        with self._open() as file:
            opened = _open_parquet(file, self.name)
            enough, rows = rows_per_chunk(len(opened.schema_arrow.names)), 0
            runs: list[tuple[int, ...]] = [()]
            for number, size in enumerate(_sizes_of_groups(opened)):
                if rows >= enough:
                    runs, rows = [*runs, ()], 0
                runs[-1], rows = (*runs[-1], number), rows + size
        return [replace(self, groups=groups) for groups in runs if groups]

    def read(self, text: frozenset[str] = frozenset()) -> Table:
        """Return the whole table; the columns in ``text`` are kept as they are written."""
        return read_whole(self.chunks, text)

    def with_absolute_paths(self) -> Source:
        """Return the same file by a name that holds in whatever folder a worker has been started."""
        return replace(self, path=os.path.abspath(self.path))

    def _open(self) -> BinaryIO:
        if self.path == "-":
            # Kept, since a second look at it may be needed.
            if not self._input:
                self._input.append(standard_input().read())
            return io.BytesIO(self._input[0])
        return open_unpacked(self.path)


@dataclass(frozen=True)
class Files:
    """Files that are read one after the other. Columns are known by their names, in whatever order; some may be empty.

    Rows are numbered file by file where they are read in chunks, and through all of them where they are read at once.
    """

    sources: tuple[Source, ...]

    @property
    def path(self) -> str:
        """Return the first of them."""
        return self.sources[0].path

    @property
    def paths(self) -> list[str]:
        """Return all of them."""
        return [source.path for source in self.sources]

    @property
    def name(self) -> str:
        """Return what to call them in a sentence."""
        more = len(self.sources) - 1
        return f"{self.sources[0].name} and {more} more file{'s' if more > 1 else ''}"

    @property
    def named(self) -> bool:
        """Whether the columns have names, in all files or in none."""
        first = self.sources[0]
        for other in self.sources:
            if other.named != first.named:
                raise Refusal(f"{other.name} is {other.kind}, which cannot be read together with {first.kind}")
        return first.named

    def chunks(self, rows: int | None = None) -> Iterator[Table]:
        """Yield parts of at most so many rows, none of which is of two files."""
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

    def read(self, text: frozenset[str] = frozenset()) -> Table:
        """Return the whole table; the columns in ``text`` are kept as they are written."""
        return replace(read_whole(self.chunks, text), origin=self.name, first_row=1)

    def with_absolute_paths(self) -> Files:
        """Return the same files by names that hold in whatever folder a worker has been started."""
        return Files(tuple(source.with_absolute_paths() for source in self.sources))

    def pieces(self) -> list[Source]:
        """Return parts that can be read apart from each other."""
        return [piece for source in self.sources for piece in source.pieces()]


Tables: TypeAlias = Source | Files


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


def read_whole(chunks: Callable[[], Iterator[Table]], text: frozenset[str]) -> Table:
    """Return the table of some chunks; the columns in ``text`` are kept as they are written."""

    def read(text: frozenset[str]) -> Table:
        parts = []
        for part in chunks():
            columns = {name: column if name in text else column.compact() for name, column in part.columns.items()}
            parts.append(replace(part, columns=columns))
        return join_tables(parts, text)

    return settle_types(read, text)


def settle_types(read: Callable[[frozenset[str]], T], text: frozenset[str]) -> T:
    """Read; where columns turn out to hold text after a while, once more with all of them as text."""
    try:
        return read(text)
    except MixedColumns as mixed:
        return read(text | mixed.names)
