"""Rows of a source as the data of an objective: encoded, and read anew in every pass, a little ahead of the work.

Solvers that visit rows one after the other want them shuffled. Where rows stand sorted by label and there is a copy on
disk, every part of a pass is made of rows from many chunks: chunks are drawn into groups, at random, and each is cut
into slices, which are dealt in turn to as many *windows* as its group has chunks. A window has about as many rows as a
chunk, and labels of all of its group, even if rows are sorted within chunks. Nothing is read twice in a pass, and no
more than a few windows are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from majorant.core.affine import Absent, Centre
from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.matrix import CsrDesign, DenseDesign, Design, laid_out
from majorant.core.rows import CHUNK, Order
from majorant.core.threads import even_parts
from majorant.sources.base import SHOWN, Chunk, Piece, Source, Watcher, concatenated, merged
from majorant.sources.cache import ChunkCache, prefetch
from majorant.sources.survey import RowLabels, Survey, checked, read_all

# Chunks of a group, at most, and slices of a window, about: each slice is still worth a read.
GROUP, SLICES = 32, 128
# Rows are visited in windows if their chunk tells more of their labels than this share of the entropy.
TOLD = 0.05

# Numbers of chunks, and which of their rows.
Window: TypeAlias = list[tuple[int, slice]]


@dataclass(frozen=True, eq=False)
class Encoding:
    """How chunks become labelled rows: the classes, the width, and the origin of the columns."""

    classes: Array
    class_weights: Array | None  # of each class
    columns: int
    dtype: np.dtype[Any]
    constant: bool
    centre: Centre | None
    total: int  # rows of all chunks

    def __call__(self, chunk: Chunk) -> Labelled:
        """Return the rows of a chunk, labelled."""
        assert chunk.labels is not None
        codes = np.searchsorted(self.classes, chunk.labels.names)[chunk.labels.codes]
        weight, center = self.weight_of(codes, chunk.weight), False if self.centre is None else self.centre
        if sp.issparse(chunk.X):
            X = sp.csr_array(chunk.X)
            arrays = laid_out(X.data, self.dtype), laid_out(X.indices), laid_out(X.indptr)
            design: Design = CsrDesign(sp.csr_array(arrays, shape=(X.shape[0], self.columns)))
        else:
            design = DenseDesign(laid_out(chunk.X, self.dtype))
        return Labelled(design, codes, weight, constant=self.constant, center=center).as_some_of(self.total)

    def weight_of(self, codes: Array, weight: Array | None) -> Array | None:
        """Return the weights of rows times those of their classes."""
        if self.class_weights is None:
            return weight
        of_class = self.class_weights[codes]
        return of_class if weight is None else of_class * weight


def blocks_of(encoding: Encoding, *pieces: Piece) -> list[Labelled]:
    """Return the blocks of pieces, all in memory."""
    return [encoding(chunk) for chunk in merged(checked(pieces))]


def shown(encoding: Encoding, pieces: Iterable[Piece]) -> Labelled:
    """Return the first rows of pieces that have any, encoded, to show what all look like."""
    return encoding(next(checked(pieces)).take(slice(0, SHOWN)))


@dataclass(frozen=True, eq=False)
class ShareOfSource:
    """Pieces of a source and how they are encoded: a worker makes blocks of them."""

    pieces: Sequence[Piece]
    encoding: Encoding
    fits: bool = True  # whether they may all be in memory

    def __call__(self) -> Iterable[Labelled]:
        """Return the blocks, in memory, or read one by one in every pass."""
        if self.fits:
            return blocks_of(self.encoding, *self.pieces)
        return map(self.encoding, merged(checked(self.pieces)))


def evenly(items: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Return runs of neighbouring items, about as long as each other: as many as asked for, or as there are items."""
    return [items[run] for run in even_parts(len(items), max(min(parts, len(items)), 1))]


def windows_of(chunks: Sequence[int], seed: int, passes: int) -> Iterator[Window]:
    """Yield the windows of a pass over chunks with these numbers of rows: the same for the same seed and pass."""
    drawn = Order(seed).of_pass(passes, len(chunks)).tolist()
    for members in even_parts(len(drawn), -(-len(drawn) // GROUP)):
        group = drawn[members]
        size = len(group)
        cuts = {number: even_parts(chunks[number], size * (SLICES // size)) for number in group}
        for turn in range(size):
            dealt = [(number, rows) for number in group for rows in cuts[number][turn::size]]
            window = [(number, rows) for number, rows in dealt if rows.start < rows.stop]
            if window:
                yield window


class Streamed:
    """Labelled rows that stay in their source. Labels and weights are in memory, a byte or a few for each row.

    Parameters
    ----------
    source : Source
    survey, row_labels
        Results of the first pass.
    encoding : Encoding
        How chunks become labelled rows.
    cache : ChunkCache
        A copy of the rows that is quicker to read, if there was room for one.
    watcher : callable, optional
        Told how many rows have been read.
    """

    whole = None

    def __init__(
        self,
        source: Source,
        survey: Survey,
        row_labels: RowLabels,
        encoding: Encoding,
        cache: ChunkCache,
        watcher: Watcher | None = None,
    ) -> None:
        self._source, self._encoding, self._cache, self._watcher = source, encoding, cache, watcher
        self._sizes, self._starts = survey.chunks, list(accumulate(survey.chunks, initial=0))[:-1]
        self._labels, self._weight = row_labels.labels, row_labels.weight
        classes = encoding.classes
        dtype = np.min_scalar_type(len(classes))
        codes = (np.searchsorted(classes, part.names).astype(dtype)[part.codes] for part in row_labels.labels)
        self._codes = np.concatenate(list(codes))
        self._is_sparse = survey.is_sparse
        self._mixes = cache.is_open and row_labels.told_by_chunk(classes) > TOLD
        self._sampled: tuple[tuple[int, int], Labelled] | None = None
        self._lock = Lock()  # of several fits
        self.like = encoding(next(self._chunks())[1].take(slice(0, SHOWN)))

    def __len__(self) -> int:
        return self._encoding.total

    def blocks(self, rows: int) -> StreamedBlocks:
        """Return the data in blocks of at most that many rows; going through them reads everything."""
        return StreamedBlocks(self._read_blocks, self._parts(rows))

    def outlines(self, rows: int) -> StreamedBlocks:
        """Return the same blocks without their rows, for tasks that use labels and weights alone."""
        return StreamedBlocks(self._label_blocks, self._parts(rows))

    def _parts(self, rows: int) -> list[list[slice]]:
        """Return the parts of each chunk with at most so many rows, all about as long."""
        return [even_parts(size, max(-(-size // max(rows, 1)), 1)) for size in self._sizes]

    def _read_blocks(self, parts: list[list[slice]]) -> Iterator[Labelled]:
        for (_, chunk), cuts in zip(self._chunks(), parts, strict=True):
            labelled = self._encoding(chunk)
            yield from (labelled.part(cut.start, cut.stop) for cut in cuts)
            if self._watcher is not None:
                self._watcher(len(chunk))

    def _label_blocks(self, parts: list[list[slice]]) -> Iterator[Labelled]:
        for start, cuts in zip(self._starts, parts, strict=True):
            for cut in cuts:
                rows = slice(start + cut.start, start + cut.stop)
                codes = self._codes[rows].astype(np.intp)
                weight = self._encoding.weight_of(codes, None if self._weight is None else self._weight[rows])
                outline = object.__new__(Labelled)
                design = Absent(len(codes), self.like.design)
                outline._store(design, codes, weight, None, self._encoding.constant, len(self))
                yield outline

    def sample(self, rows: int, seed: int) -> Labelled:
        """Return rows drawn at random without replacement, in one pass; the last ones are remembered."""
        with self._lock:
            if self._sampled is None or self._sampled[0] != (rows, seed):
                rng, total, n = np.random.default_rng(seed), len(self), min(rows, len(self))
                if 2 * n >= total:
                    drawn = np.sort(rng.permutation(total)[:n])
                else:  # without a list of all there are
                    drawn = np.empty(0, dtype=np.int64)
                    while len(drawn) < n:
                        drawn = np.unique(np.append(drawn, rng.integers(total, size=n)))
                    drawn = np.sort(rng.choice(drawn, n, replace=False))
                found = []
                for start, chunk in self._chunks():
                    first, last = np.searchsorted(drawn, (start, start + len(chunk)))
                    if first < last:
                        found.append(self._encoding(chunk.take(drawn[first:last] - start)))
                self._sampled = (rows, seed), Labelled.joined(found)
            return self._sampled[1]

    def narrowed(self) -> Streamed:
        """Return the same: rows are read as they are."""
        return self

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Labelled]:
        """Yield the rows from ``begin`` to ``end`` of a pass, a multiple of so many at a time, or the rest of a chunk.

        Chunks come as they stand, and each is shuffled. Where they stand sorted by label and there is a copy, rows of
        many chunks come together.
        """
        size = max(CHUNK // multiple, 1) * multiple
        if self._mixes and order.shuffle:
            parts = self._windows(order.seed, passes, begin, end)
        else:
            parts = ((number, start, chunk) for number, (start, chunk) in enumerate(self._chunks()))
        for number, start, chunk in parts:
            if start >= end:
                return
            if start + len(chunk) <= begin:
                continue
            first, last = max(begin - start, 0), min(end - start, len(chunk))
            rows = order.of_chunk(passes, number, len(chunk))[first:last]
            labelled = self._encoding(chunk)
            for k in range(0, len(rows), size):
                yield labelled.take(rows[k : k + size])

    def _windows(self, seed: int, passes: int, begin: int, end: int) -> Iterator[tuple[int, int, Chunk]]:
        """Yield the windows with rows from ``begin`` to ``end``, their numbers and those of their first rows.

        Of others nothing is read.
        """
        windows = list(windows_of(self._sizes, seed, passes))
        lengths = [sum(rows.stop - rows.start for _, rows in window) for window in windows]
        starts = list(accumulate(lengths, initial=0))
        wanted = [k for k in range(len(windows)) if starts[k] < end and begin < starts[k + 1]]
        chunks = prefetch(lambda: (concatenated([self._part(*part) for part in windows[k]]) for k in wanted))
        for k, chunk in zip(wanted, chunks, strict=True):
            yield k, starts[k], chunk

    def _part(self, number: int, rows: slice) -> Chunk:
        """Return rows of a chunk, from the copy."""
        if self._is_sparse:
            indptr = self._cache.part(number, 2, slice(rows.start, rows.stop + 1))
            stored = slice(int(indptr[0]), int(indptr[-1]))
            data, indices = (self._cache.part(number, array, stored) for array in (0, 1))
            X = self._matrix([data, indices, indptr - indptr[0]])
        else:
            X = self._cache.part(number, 0, rows)
        start, labels = self._starts[number], self._labels[number]
        weight = None if self._weight is None else self._weight[start + rows.start : start + rows.stop]
        return Chunk(X, replace(labels, codes=labels.codes[rows]), weight)

    def _matrix(self, arrays: Sequence[Array]) -> Any:
        """Return the rows that are in the cache as one array, or as data, indices and indptr."""
        if len(arrays) == 1:
            return arrays[0]
        rows = sp.csr_array(tuple(arrays), shape=(len(arrays[2]) - 1, self._encoding.columns))
        rows.has_sorted_indices = rows.has_canonical_format = True  # as when they were written
        return rows

    def _chunks(self) -> Iterator[tuple[int, Chunk]]:
        """Yield every chunk with the number of its first row, read ahead; refuse what has changed since the survey."""
        sizes, starts, labels, weights = self._sizes, self._starts, self._labels, self._weight
        if self._cache.is_open:

            def copied() -> Iterator[Chunk]:
                for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
                    weight = None if weights is None else weights[start : start + size]
                    yield Chunk(self._matrix(self._cache[number]), labels[number], weight)

            yield from zip(starts, prefetch(copied), strict=True)
            return
        number = -1
        for number, chunk in enumerate(prefetch(lambda: read_all(self._source))):
            if number >= len(sizes) or len(chunk) != sizes[number]:
                raise chunk.refuse("the source has changed since it was first read: it must yield the same chunks")
            # Labels or weights are others than those of the first pass where a source shuffles at every read.
            assert chunk.labels is not None
            rows = slice(starts[number], starts[number] + len(chunk))
            codes = np.searchsorted(self._encoding.classes, chunk.labels.names)[chunk.labels.codes]
            differ = codes != self._codes[rows]
            if weights is not None:
                differ |= weights[rows] != (1.0 if chunk.weight is None else chunk.weight)
            if differ.any():
                raise chunk.refuse(
                    "the label or weight is another than when the source was first read: it must yield the same rows "
                    "in the same order every time, so shuffle rows once, before, not at each read",
                    int(np.argmax(differ)),
                )
            yield starts[number], chunk
        if number + 1 < len(sizes):
            raise ValueError(
                f"the source ended after {number + 1} chunks, of {len(sizes)} when it was first read: "
                "it must yield the same chunks every time"
            )


@dataclass(frozen=True, eq=False)
class StreamedBlocks:
    """Blocks of streamed rows, which are read in every iteration, or their labels and weights alone."""

    read: Callable[[list[list[slice]]], Iterator[Labelled]]
    parts: list[list[slice]]  # of each chunk

    def __iter__(self) -> Iterator[Labelled]:
        return self.read(self.parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))
