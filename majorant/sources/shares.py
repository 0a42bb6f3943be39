"""Shares of a source, which workers read for themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from majorant._threads import even_parts
from majorant.data import Labelled
from majorant.sources.base import SHOWN, Chunk, Piece
from majorant.sources.chunks import chunk_of
from majorant.sources.encoding import Encoding
from majorant.sources.joining import in_larger_chunks
from majorant.sources.survey import only_rows, read_checked


@dataclass(frozen=True, eq=False)
class Rows:
    """A piece whose rows are in memory, wherever that is."""

    chunk: Chunk

    @classmethod
    def of(cls, where: str, *parts: Any) -> Rows:
        """Return the piece of rows, labels and weights."""
        return cls(chunk_of(parts, where))

    def read(self) -> Iterator[Chunk]:
        """Yield the rows."""
        yield self.chunk


@dataclass(frozen=True, eq=False)
class ShareOfSource:
    """Some pieces of a source and how they are encoded: a worker makes blocks of them."""

    pieces: Sequence[Piece]
    encoding: Encoding
    fits: bool = True  # whether they may all be in memory

    def __call__(self) -> Iterable[Labelled]:
        """Return the blocks, in memory, or read one by one whenever somebody goes through them."""
        return blocks_of(self.encoding, *self.pieces) if self.fits else _read(self.encoding, self.pieces)


def blocks_of(encoding: Encoding, *pieces: Piece) -> list[Labelled]:
    """Return the blocks of some pieces, encoded."""
    return list(_read(encoding, pieces))


def _read(encoding: Encoding, pieces: Iterable[Piece]) -> Iterator[Labelled]:
    return map(encoding, in_larger_chunks(chain.from_iterable(map(read_checked, pieces))))


def shown(encoding: Encoding, pieces: Iterable[Piece]) -> Labelled | None:
    """Return the first rows of the first piece that has any, encoded, to show what all look like."""
    for piece in pieces:
        for chunk in read_checked(piece):
            return encoding(only_rows(chunk, slice(0, SHOWN)))
    return None


def evenly(items: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Return so many runs of neighbouring items, about as long as each other; fewer if there are fewer items."""
    return [items[some] for some in even_parts(len(items), max(min(parts, len(items)), 1))]
