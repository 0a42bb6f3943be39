"""Tables as a source of rows to fit: encoded chunk by chunk, here or, since pieces can be pickled, elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant.cli.refusals import NoRows
from majorant.cli.tables.files import Tables
from majorant.cli.tables.schema import Schema, Wanted
from majorant.cli.tables.sources import Source
from majorant.sources import Chunk, Piece
from majorant.sources import Source as Rows
from majorant.sources.base import Labels
from majorant.sources.chunks import rows_of


@dataclass(frozen=True, eq=False)
class Reading:
    """How tables become rows: by what was learnt of their columns, without those that lack what they must have."""

    wanted: Wanted
    schema: Schema
    classes: Array
    rows: int | None = None  # of a chunk

    def __call__(self, source: Source) -> Iterator[Chunk]:
        """Yield the rows of a file."""
        with suppress(NoRows):
            for part in source.chunks(self.rows):
                complete = self.wanted.complete(part)
                if len(complete):
                    labels = np.searchsorted(self.classes, self.schema.labels(complete, self.classes))
                    X, weight = rows_of(self.schema.features(complete)), self.schema.weights(complete)
                    yield Chunk(X, Labels(self.classes, labels), weight, part.origin, part.first_row)


@dataclass(frozen=True, eq=False)
class EncodedRows(Rows):
    """The rows of a table that is read again and again; one piece for each file, or for some row groups of Parquet.

    Parameters
    ----------
    tables : Source or Files
    reading : Reading
        How they become rows.
    watcher : callable, optional
        Told how many rows were read, again and again.
    """

    tables: Tables
    reading: Reading
    watcher: Callable[[int], None] | None = None

    def pieces(self) -> Sequence[Piece]:
        """Return the pieces."""
        return [EncodedPiece(source, self.reading) for source in self.tables.pieces()]


@dataclass(frozen=True, eq=False)
class EncodedPiece:
    """A file, or some row groups of one."""

    source: Source
    reading: Reading

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        return self.reading(self.source)
