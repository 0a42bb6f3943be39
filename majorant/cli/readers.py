"""Tables in files: CSV, TSV, Parquet, svmlight and npz, read whole or in chunks, one file or several."""

from __future__ import annotations

import io
import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from glob import glob, has_magic
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet

from majorant.cli.csv_reader import CHUNK, chunk_rows, read_csv, refuse_twice
from majorant.cli.packing import PACKED, known_encoding, named_failures, open_unpacked, standard_input
from majorant.cli.refusals import NoRows, Refusal
from majorant.cli.tables import LABELS, Matrix, Table, is_string, join_tables
from majorant.core.checks import one_of, whole
from majorant.sources.base import found_files, rows_per_chunk

FORMATS = ("csv", "tsv", "parquet", "svmlight", "npz")
SUFFIXES = {f".{name}": name for name in FORMATS} | {".tab": "tsv", ".pq": "parquet"}
SUFFIXES |= dict.fromkeys((".svm", ".libsvm"), "svmlight")
NAMED = ("csv", "tsv", "parquet")  # formats whose columns have names
SVMLIGHT_LINE = re.compile(rb"[+-]?[\d.eE+-]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?\s*")
# Bytes of the svmlight lines of a chunk, if nobody says how many these are.
STRETCH = 2**23
# Bytes that are read of a column of Parquet at a time: of row groups of millions of rows, not all is then in memory.
BUFFER = 2**20


# --- formats ----------------------------------------------------------------------------------------------


def read_svmlight(file: BinaryIO, origin: str, rows: int | None) -> Iterator[Matrix]:
    """Yield matrices of at most so many rows; column i is the feature written as i."""
    from sklearn.datasets import load_svmlight_file

    def parse(lines: list[bytes]) -> Any:
        return load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)

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
        try:
            X, y = parse(batch)
        except ValueError:
            for row, line in enumerate(batch, first_row):
                try:
                    parse([line])
                except ValueError as problem:
                    raise Refusal(f"{origin} is not svmlight text, in row {row}: {problem}") from None
            raise
        yield Matrix(origin, {LABELS: pa.array(y)}, first_row, X=X)
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
    labels = pa.array(y.tolist(), pa.string()) if y.dtype.kind in "US" else pa.array(y.astype(float))
    rows = chunk_rows(rows, X.shape[1])
    for start in range(0, len(X), rows):
        yield Matrix(origin, {LABELS: labels[start : start + rows]}, start + 1, X=X[start : start + rows])


def read_parquet(file: BinaryIO, origin: str, rows: int | None, groups: Sequence[int] | None = None) -> Iterator[Table]:
    """Yield tables of at most so many rows, of all row groups or of some."""
    opened, sizes = open_parquet(file, origin)
    names = opened.schema_arrow.names
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
            columns = {name: of_parquet(values) for name, values in zip(names, batch.columns, strict=True)}
            yield Table(origin, columns, before + seen + 1)
            seen += batch.num_rows
    if groups is None and not seen:
        raise NoRows(f"{origin} has no rows")


def open_parquet(file: BinaryIO, origin: str) -> tuple[Any, list[int]]:
    """Return an open Parquet file, and how many rows each of its row groups has."""
    try:
        opened = parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as problem:
        raise Refusal(f"{origin} is not a Parquet file, or is incomplete ({problem})") from None
    return opened, [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]


def of_parquet(values: Any) -> Any:
    """Return a column of Parquet as a table holds it: empty strings are missing, and decimals are floats."""
    types = pa.types
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if str(values.type) == "string_view":
        values = values.cast(pa.string())
    if is_string(values.type):
        return compute.if_else(compute.equal(values, ""), None, values)
    if types.is_decimal(values.type):
        return pa.array(np.array(values.to_pylist(), dtype=np.float64))
    return values.cast(pa.float64()) if types.is_null(values.type) else values


# --- files ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A table in a file, or in several that are read one after the other; they may be packed, ``-`` is standard input.

    Columns of several files are known by their names, in whatever order, and some of the files may be empty. Rows are
    numbered file by file where they are read in chunks, and through all files where they are read at once.
    """

    paths: str | tuple[str, ...]
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
    def files(self) -> tuple[str, ...]:
        """Return the paths, of which there may be one."""
        return (self.paths,) if isinstance(self.paths, str) else self.paths

    @property
    def name(self) -> str:
        """Return what to call it in a sentence."""
        more = len(self.files) - 1
        return name_of(self.files[0]) + (f" and {more} more file{'s' if more > 1 else ''}" if more else "")

    @property
    def named(self) -> bool:
        """Whether the columns have names, in all files or in none."""
        first = self.kind_of(self.files[0])
        for path in self.files[1:]:
            kind = self.kind_of(path)
            if (kind in NAMED) != (first in NAMED):
                raise Refusal(f"{path} is {kind}, which cannot be read together with {first}")
        return first in NAMED

    def kind_of(self, file: str) -> str:
        """Return the format of a file."""
        if self.format is not None:
            return self.format
        path = Path(file)
        suffix = Path(path.stem).suffix if path.suffix in PACKED else path.suffix
        if suffix.lower() in SUFFIXES:
            return SUFFIXES[suffix.lower()]
        with named_failures(name_of(file)), self._open(file) as opened:
            line = opened.readline(2**20)
        return "parquet" if line.startswith(b"PAR1") else "svmlight" if SVMLIGHT_LINE.fullmatch(line) else "csv"

    def chunks(self, rows: int | None = None) -> Iterator[Table]:
        """Yield the table in parts of at most so many rows, or of as many as take little memory; it is never whole."""
        if rows is not None:
            whole("rows of a chunk", rows, least=1)
        empty: NoRows | None = None
        seen = False
        for path in self.files:
            kind, name = self.kind_of(path), name_of(path)
            try:
                with named_failures(name), self._open(path) as file:
                    for part in self._tables(file, kind, name, rows):
                        seen = True
                        yield part
            except NoRows as problem:
                empty = problem
        if not seen and empty is not None:
            raise empty

    def _tables(self, file: BinaryIO, kind: str, name: str, rows: int | None) -> Iterator[Table]:
        if kind == "parquet":
            yield from read_parquet(file, name, rows, self.groups)
        elif kind == "svmlight":
            yield from read_svmlight(file, name, rows)
        elif kind == "npz":
            yield from read_npz(file, name, rows)
        else:
            delimiter = self.delimiter or ("\t" if kind == "tsv" else None)
            with io.TextIOWrapper(file, encoding=known_encoding(self.encoding), newline="") as lines:
                yield from read_csv(lines, name, rows, delimiter, self.header, self.decimal, self.comment)

    def read(self, as_written: frozenset[str] = frozenset()) -> Table:
        """Return the whole table; of cells that are numbers only these are kept, but for some columns."""
        table = join_tables(list(self.chunks()))
        columns = dict(table.columns)
        for name, values in columns.items():
            if is_string(values.type) and name not in as_written and not table.is_text(name):
                columns[name] = pa.array(table.floats(name))
        return replace(table, origin=self.name, first_row=1, columns=columns)

    def pieces(self) -> list[Source]:
        """Return parts that can be read apart from each other: files, or runs of row groups of Parquet."""
        found = []
        for path in self.files:
            if self.kind_of(path) != "parquet" or self.groups is not None:
                found.append(replace(self, paths=path))
                continue
            with self._open(path) as file:
                opened, sizes = open_parquet(file, name_of(path))
            enough, rows = rows_per_chunk(len(opened.schema_arrow.names)), 0
            groups: tuple[int, ...] = ()
            for number, size in enumerate(sizes):
                groups, rows = (*groups, number), rows + size
                if rows >= enough or number == len(sizes) - 1:
                    found.append(replace(self, paths=path, groups=groups))
                    groups, rows = (), 0
        return found

    def _open(self, path: str) -> BinaryIO:
        if path == "-":
            if not self._input:  # kept: it may be read twice
                self._input.append(standard_input().read())
            return io.BytesIO(self._input[0])
        return open_unpacked(path)


def name_of(path: str) -> str:
    """Return what to call a file in a sentence."""
    return "standard input" if path == "-" else path


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
