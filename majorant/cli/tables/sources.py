"""Where a table comes from: a file of some format, or standard input."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

from majorant._checks import one_of, whole
from majorant.cli.packing import PACKED, known_encoding, named_failures, open_unpacked, standard_input
from majorant.cli.tables.delimited import Dialect, read_delimited
from majorant.cli.tables.indexed import read_npz, read_svmlight
from majorant.cli.tables.parquet import read_parquet, runs_of_groups
from majorant.cli.tables.table import Matrix, MixedColumns, Table, join, join_matrices

FORMATS = ("csv", "tsv", "parquet", "svmlight", "npz")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".npz": "npz",
}
SVMLIGHT_LINE = re.compile(rb"[+-]?[\d.eE+-]+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?\s*")

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """A table in a file.

    Parameters
    ----------
    path : str
        The file, which may be packed by gzip, bzip2 or xz; ``-`` is standard input.
    format : {"csv", "tsv", "parquet", "svmlight", "npz"}, optional
        By default what the name says, or else what the first bytes look like.
    delimiter : str, optional
        Of CSV; found if not given.
    header : bool, optional
        Whether the first line of a CSV file names the columns.
    decimal : {".", ","}
        The mark before a fraction in CSV.
    encoding : str
        Of CSV.
    comment : str, optional
        Lines of CSV that begin so are skipped.
    groups : sequence of int, optional
        The row groups of a Parquet file that are meant; all of them if not given.
    """

    path: str
    format: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    comment: str | None = None
    groups: tuple[int, ...] | None = None
    _input: list[bytes] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.format is not None:
            one_of("format", self.format, FORMATS)
        known_encoding(self.encoding)
        self._dialect()

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
        return SUFFIXES.get(suffix.lower()) or self._looks_like()

    @property
    def paths(self) -> list[str]:
        """Return the file, of which there is one."""
        return [self.path]

    @property
    def named(self) -> bool:
        """Whether the columns have names."""
        return self.kind in ("csv", "tsv", "parquet")

    def chunks(self, rows: int | None = None) -> Iterator[Table | Matrix]:
        """Yield the table in parts of at most so many rows, or of as many as take little memory; it is never whole."""
        if rows is not None:
            whole("rows of a chunk", rows, least=1)
        with named_failures(self.name), self._open() as file:
            yield from self._parts(file, rows)

    def pieces(self) -> list[Source]:
        """Return parts that can be read apart from each other: runs of row groups of Parquet, or the file."""
        if self.kind != "parquet" or self.groups is not None:
            return [self]
        with self._open() as file:
            return [replace(self, groups=groups) for groups in runs_of_groups(file, self.name) if groups]

    def read(self, text: frozenset[str] = frozenset()) -> Table | Matrix:
        """Return the whole table; the columns in ``text`` are kept as they are written."""
        return read_whole(self.chunks, text)

    def _parts(self, file: BinaryIO, rows: int | None) -> Iterator[Table | Matrix]:
        if self.kind == "parquet":
            return read_parquet(file, self.name, rows, self.groups)
        if self.kind == "svmlight":
            return read_svmlight(file, self.name, rows)
        if self.kind == "npz":
            return read_npz(file, self.name, rows)
        return self._delimited(file, rows)

    def _delimited(self, file: BinaryIO, rows: int | None) -> Iterator[Table]:
        dialect = self._dialect("\t" if self.kind == "tsv" else None)
        with io.TextIOWrapper(file, encoding=known_encoding(self.encoding), newline="") as lines:
            yield from read_delimited(lines, self.name, rows, dialect)

    def _dialect(self, delimiter: str | None = None) -> Dialect:
        return Dialect(self.delimiter or delimiter, self.header, self.decimal, self.comment)

    def _open(self) -> BinaryIO:
        if self.path == "-":
            # Kept, since a second look at it may be needed.
            if not self._input:
                self._input.append(standard_input().read())
            return io.BytesIO(self._input[0])
        return open_unpacked(self.path)

    def _looks_like(self) -> str:
        with named_failures(self.name), self._open() as file:
            line = file.readline(2**20)
        if line.startswith(b"PAR1"):
            return "parquet"
        return "svmlight" if SVMLIGHT_LINE.fullmatch(line) else "csv"


def read_whole(chunks: Callable[[], Iterator[Table | Matrix]], text: frozenset[str]) -> Table | Matrix:
    """Return the table of some chunks; the columns in ``text`` are kept as they are written."""

    def read(text: frozenset[str]) -> Table | Matrix:
        tables, matrices = [], []
        for part in chunks():
            if isinstance(part, Matrix):
                matrices.append(part)
            else:
                columns = {n: column if n in text else column.compact() for n, column in part.columns.items()}
                tables.append(Table(part.origin, columns, part.first_row))
        return join(tables, text) if tables else join_matrices(matrices)

    return settle_types(read, text)


def settle_types(read: Callable[[frozenset[str]], T], text: frozenset[str]) -> T:
    """Read; where columns turn out to hold text after a while, once more with all of them as text."""
    try:
        return read(text)
    except MixedColumns as mixed:
        return read(text | mixed.names)
