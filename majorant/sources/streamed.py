"""Another order for rows that stand sorted: every stretch of a pass is made of rows from many chunks.

Chunks are drawn into groups, at random, and each is cut into stretches, which are dealt out in turn to as many
*windows* as its group has chunks. A window has about as many rows as a chunk, and labels of all of its group, even if
rows are sorted within chunks. Nothing is read twice, and no more than a few windows are in memory.

Rows of a source as the data of an objective: read anew at every pass, a little ahead of who works on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TypeAlias

import numpy as np

from majorant.core.affine import Absent
from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.rows import CHUNK, Order
from majorant.core.threads import even_parts
from majorant.sources.base import SHOWN, Chunk, Encoding, Source, Watcher, joined, rows_from, some_rows_from
from majorant.sources.survey import Outline, Spool, Survey, only_rows, read_ahead, read_all, starts_of

# Chunks of a group, at most, and stretches of a window, about: each is still worth a read.
MIXED, STRETCHES = 32, 128

# Numbers of chunks, and which of their rows.
Window: TypeAlias = list[tuple[int, slice]]


def windows_of(chunks: Sequence[int], seed: int, passes: int) -> Iterator[Window]:
    """Yield the windows of a pass over chunks of so many rows: the same for the same seed and pass."""
    drawn = Order(seed).of_pass(passes, len(chunks)).tolist()
    for some in even_parts(len(drawn), -(-len(drawn) // MIXED)):
        group = drawn[some]
        many = len(group)
        cuts = {number: even_parts(chunks[number], many * (STRETCHES // many)) for number in group}
        for turn in range(many):
            dealt = [(number, rows) for number in group for rows in cuts[number][turn::many]]
            window = [(number, rows) for number, rows in dealt if rows.start < rows.stop]
            if window:
                yield window


def length_of(window: Window) -> int:
    """Return how many rows there are."""
    return sum(rows.stop - rows.start for _, rows in window)


# Rows are visited in another order than they stand in if their chunk tells more of their labels than this.
TOLD = 0.05


class Streamed:
    """Labelled rows that stay where they are. Labels and weights are kept, a byte or a few for each row.

    Parameters
    ----------
    source : Source
    survey, outline
        What a first look has found.
    encoding : Encoding
        How chunks become labelled rows.
    spool : Spool
        A copy of the rows that is quicker to read, if there was room for one.
    watcher : callable, optional
        Told of rows as they are read.
    """

    whole = None

    def __init__(
        self,
        source: Source,
        survey: Survey,
        outline: Outline,
        encoding: Encoding,
        spool: Spool,
        watcher: Watcher | None = None,
    ) -> None:
        self._source, self._chunks, self._encoding, self._spool = source, survey.chunks, encoding, spool
        self._labels, self._weight = outline.labels, outline.weight
        self._codes = outline.codes(encoding.classes)
        self._is_sparse = survey.is_sparse
        self._mixes = spool.is_open and outline.told_by_chunk(encoding.classes) > TOLD
        self._starts = starts_of(survey.chunks)
        self._sampled: tuple[tuple[int, int], Labelled] | None = None
        self._lock = Lock()  # of several fits
        self._watcher = watcher
        self.like = encoding(only_rows(next(self._all())[1], slice(0, SHOWN)))

    def __len__(self) -> int:
        return self._encoding.total

    def blocks(self, rows: int) -> ReadBlocks:
        """Return the data in blocks of at most so many rows; going through them reads everything."""
        return ReadBlocks(self, rows)

    def outlines(self, rows: int) -> OutlineBlocks:
        """Return the same blocks without their rows, for who looks at labels and weights alone."""
        return OutlineBlocks(self, rows)

    def sample(self, rows: int, seed: int) -> Labelled:
        """Return so many rows drawn at random without replacement, in one pass; the last ones are remembered."""
        with self._lock:
            if self._sampled is None or self._sampled[0] != (rows, seed):
                self._sampled = (rows, seed), self._sample(rows, seed)
            return self._sampled[1]

    def _sample(self, rows: int, seed: int) -> Labelled:
        wanted = _drawn(np.random.default_rng(seed), len(self), min(rows, len(self)))
        found = []
        for at, chunk in self._all():
            first, last = np.searchsorted(wanted, (at, at + len(chunk)))
            if first < last:
                found.append(self._encoding(only_rows(chunk, wanted[first:last] - at)))
        return Labelled.joined(found)

    def narrowed(self) -> Streamed:
        """Return the same: rows are read as they are."""
        return self

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Labelled]:
        """Yield the rows from ``begin`` to ``end`` of a pass, a multiple of so many at a time, or the rest of a chunk.

        Chunks come as they stand, and each is shuffled. Where they stand sorted by label and there is a copy, rows of
        many chunks come together.
        """
        size = max(CHUNK // multiple, 1) * multiple
        mixed = self._mixes and order.shuffle
        for number, at, chunk in self._mixed(order.seed, passes, begin, end) if mixed else self._in_order(begin, end):
            first, last = max(begin - at, 0), min(end - at, len(chunk))
            rows = order.of_chunk(passes, number, len(chunk))[first:last]
            labelled = self._encoding(chunk)
            for start in range(0, len(rows), size):
                yield labelled.take(rows[start : start + size])

    def _in_order(self, begin: int, end: int) -> Iterator[tuple[int, int, Chunk]]:
        """Yield every chunk that has rows from ``begin`` to ``end``, its number and that of its first row."""
        for number, (at, chunk) in enumerate(self._all()):
            if at >= end:
                return
            if begin < at + len(chunk):
                yield number, at, chunk

    def _mixed(self, seed: int, passes: int, begin: int, end: int) -> Iterator[tuple[int, int, Chunk]]:
        """Yield the same of windows, of which only those are read."""
        windows = list(windows_of(self._chunks, seed, passes))
        starts = starts_of([length_of(window) for window in windows])
        those = [
            number
            for number, (at, window) in enumerate(zip(starts, windows, strict=True))
            if at < end and begin < at + length_of(window)
        ]
        chunks = read_ahead(lambda: (self._window(windows[number]) for number in those))
        for number, chunk in zip(those, chunks, strict=True):
            yield number, starts[number], chunk

    def _window(self, window: Window) -> Chunk:
        return joined([self._part(number, rows) for number, rows in window])

    def _part(self, number: int, rows: slice) -> Chunk:
        """Return some rows of a chunk, from the copy."""
        columns = self._encoding.columns if self._is_sparse else None
        X = some_rows_from(partial(self._spool.part, number), rows, columns)
        at, labels = self._starts[number], self._labels[number]
        weight = None if self._weight is None else self._weight[at + rows.start : at + rows.stop]
        return Chunk(X, replace(labels, codes=labels.codes[rows]), weight)

    def read_blocks(self, rows: int) -> Iterator[Labelled]:
        """Yield blocks of at most so many rows, read anew."""
        for _, chunk in self._all():
            labelled = self._encoding(chunk)
            yield from (labelled.part(some.start, some.stop) for some in _parts_of(len(chunk), rows))
            if self._watcher is not None:
                self._watcher(len(chunk))

    def outline_blocks(self, rows: int) -> Iterator[Labelled]:
        """Yield the same blocks without their rows."""
        for at, length in zip(self._starts, self._chunks, strict=True):
            for some in _parts_of(length, rows):
                yield self._outline(slice(at + some.start, at + some.stop))

    def block_count(self, rows: int) -> int:
        """Return how many blocks there are of at most so many rows."""
        return sum(len(_parts_of(length, rows)) for length in self._chunks)

    def _outline(self, rows: slice) -> Labelled:
        codes = self._codes[rows].astype(np.intp)
        weight = self._encoding.weight_of(codes, None if self._weight is None else self._weight[rows])
        absent = Absent(len(codes), self.like.design)
        outline = object.__new__(Labelled)
        outline._store(absent, codes, weight, None, self._encoding.constant, len(self))
        return outline

    def _read(self) -> Iterator[Chunk]:
        """Return an iterator over all chunks, from the copy if there is one."""
        return self._read_copy() if self._spool.is_open else read_all(self._source)

    def _read_copy(self) -> Iterator[Chunk]:
        for number, (at, length) in enumerate(zip(self._starts, self._chunks, strict=True)):
            weight = None if self._weight is None else self._weight[at : at + length]
            yield Chunk(rows_from(self._spool[number]), self._labels[number], weight)

    def _all(self) -> Iterator[tuple[int, Chunk]]:
        """Yield every chunk with the number of its first row, read ahead; refuse what has changed since the survey."""
        number = -1
        for number, chunk in enumerate(read_ahead(self._read)):
            if number >= len(self._chunks) or len(chunk) != self._chunks[number]:
                raise chunk.refuse("the source has changed since it was first read: it must yield the same chunks")
            if not self._spool.is_open:
                self._refuse_other_rows(self._starts[number], chunk)
            yield self._starts[number], chunk
        if number + 1 < len(self._chunks):
            raise ValueError(
                f"the source ended after {number + 1} chunks, of {len(self._chunks)} when it was first read: "
                "it must yield the same chunks every time"
            )

    def _refuse_other_rows(self, at: int, chunk: Chunk) -> None:
        """Raise if labels or weights are not those of the first read, as of a source that shuffles at every read."""
        assert chunk.labels is not None
        rows = slice(at, at + len(chunk))
        codes = np.searchsorted(self._encoding.classes, chunk.labels.names)[chunk.labels.codes]
        differ = codes != self._codes[rows]
        if self._weight is not None:
            differ |= self._weight[rows] != (1.0 if chunk.weight is None else chunk.weight)
        if differ.any():
            raise chunk.refuse(
                "the label or weight is another than when the source was first read: it must yield the same rows in "
                "the same order every time, so shuffle rows once, before, not at each read",
                int(np.argmax(differ)),
            )


@dataclass(frozen=True, eq=False)
class ReadBlocks:
    """Blocks that are read whenever somebody goes through them."""

    data: Streamed
    rows: int

    def __iter__(self) -> Iterator[Labelled]:
        return self.data.read_blocks(self.rows)


@dataclass(frozen=True, eq=False)
class OutlineBlocks:
    """The same, without their rows, which are not read."""

    data: Streamed
    rows: int

    def __iter__(self) -> Iterator[Labelled]:
        return self.data.outline_blocks(self.rows)

    def __len__(self) -> int:
        return self.data.block_count(self.rows)


def _parts_of(chunk: int, rows: int) -> list[slice]:
    """Return parts of a chunk of so many rows, all about as long, of at most ``rows``."""
    return even_parts(chunk, max(-(-chunk // max(rows, 1)), 1))


def _drawn(rng: np.random.Generator, total: int, rows: int) -> Array:
    """Return different numbers below a total, in order, without a list of all there are."""
    if 2 * rows >= total:
        return np.sort(rng.permutation(total)[:rows])
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < rows:
        drawn = np.unique(np.append(drawn, rng.integers(total, size=rows)))
    return np.sort(rng.choice(drawn, rows, replace=False))
