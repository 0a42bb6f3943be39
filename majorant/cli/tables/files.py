"""Several files that are one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import TypeAlias

from majorant.cli.refusals import NoRows
from majorant.cli.tables.sources import Source, read_whole
from majorant.cli.tables.table import Matrix, Table
from majorant.sources.paths import found_files


@dataclass(frozen=True)
class Files:
    """Files that are read one after the other. Columns are known by their names, in whatever order; some may be empty.

    Rows are numbered file by file where they are read in chunks, and through all of them where they are read at once.
    """

    each: tuple[Source, ...]

    @property
    def path(self) -> str:
        """Return the first of them."""
        return self.each[0].path

    @property
    def paths(self) -> list[str]:
        """Return all of them."""
        return [source.path for source in self.each]

    @property
    def name(self) -> str:
        """Return what to call them in a sentence."""
        more = len(self.each) - 1
        return f"{self.each[0].name} and {more} more file{'s' if more > 1 else ''}"

    @property
    def named(self) -> bool:
        """Whether the columns have names, in all files or in none."""
        first = self.each[0]
        for other in self.each:
            if other.named != first.named:
                raise ValueError(f"{other.name} is {other.kind}, which cannot be read together with {first.kind}")
        return first.named

    def chunks(self, rows: int | None = None) -> Iterator[Table | Matrix]:
        """Yield parts of at most so many rows, none of which is of two files."""
        empty: NoRows | None = None
        seen = False
        for source in self.each:
            try:
                for part in source.chunks(rows):
                    seen = True
                    yield part
            except NoRows as problem:
                empty = problem
        if not seen and empty is not None:
            raise empty

    def read(self, text: frozenset[str] = frozenset()) -> Table | Matrix:
        """Return the whole table; the columns in ``text`` are kept as they are written."""
        whole = read_whole(self.chunks, text)
        if isinstance(whole, Matrix):
            return Matrix(self.name, whole.X, whole.labels)
        return Table(self.name, whole.columns)

    def pieces(self) -> list[Source]:
        """Return parts that can be read apart from each other."""
        return [piece for source in self.each for piece in source.pieces()]


Tables: TypeAlias = Source | Files


def files_of(path: str) -> list[str]:
    """Return the files that somebody means: one, those that match a pattern, or the Parquet files of a folder."""
    if Path(path).is_dir():
        try:
            return [str(file) for file in found_files(path, ".parquet")]
        except FileNotFoundError:
            raise ValueError(
                f"the folder {path} holds no .parquet files; name others by a pattern, such as '{path}/*.csv'"
            ) from None
    if Path(path).exists() or not has_magic(path):
        return [path]
    found = sorted(glob(path, recursive=True))
    if not found:
        raise ValueError(f"no file matches {path}")
    files = [each for each in found if not Path(each).is_dir()]
    return files or [file for folder in found for file in files_of(folder)]
