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
from functools import reduce
from itertools import accumulate
from operator import add
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from majorant.core.affine import Absent, Centre, Moments, far_means
from majorant.core.checks import Array
from majorant.core.labelled import Labelled
from majorant.core.matrix import CsrDesign, DenseDesign, Design, laid_out
from majorant.core.rows import CHUNK, Order
from majorant.core.threads import even_parts
from majorant.sources.base import SHOWN, Chunk, Labels, Piece, Source, Watcher, concatenated, merged
from majorant.sources.cache import ChunkCache, prefetch


@dataclass(frozen=True, eq=False)
class Survey:
    """Facts about rows that a fit needs beforehand; surveys of several chunks or pieces add up."""

    chunks: tuple[int, ...]  # rows of each
    columns: int
    dtype: np.dtype[Any]
    is_sparse: bool
    stored: int  # numbers
    moments: Moments
    names: Array  # of the labels, in order
    counts: Array  # rows of each label
    weights: Array  # of all rows of each label
    where: str  # place of the first row
    open_ended: bool  # whether further columns, all zero, are not written down
    column_names: tuple[str, ...] | None

    @classmethod
    def of(cls, chunk: Chunk) -> Survey:
        """Return the survey of a chunk that :func:`checked` has let through."""
        assert chunk.labels is not None
        X, weight, rows, sparse = chunk.X, chunk.weight, len(chunk), sp.issparse(chunk.X)
        count = min(rows, 500)  # rows, evenly spread, whose means and variances stand for those of the chunk
        sample = np.arange(count) * rows // count
        moments = Moments.of(X[sample], None if weight is None else weight[sample])
        # The dictionary of a column may hold names that no row has.
        names = np.unique(chunk.labels.names[np.unique(chunk.labels.codes)])
        codes = np.searchsorted(names, chunk.labels.names)[chunk.labels.codes]
        return cls(
            chunks=(rows,),
            columns=X.shape[1],
            dtype=X.dtype,
            is_sparse=sparse,
            stored=X.nnz if sparse else X.size,
            moments=replace(moments, rows=rows, weight=float(rows if weight is None else weight.sum())),
            names=names,
            counts=np.bincount(codes, minlength=len(names)),
            weights=np.bincount(codes, weights=weight, minlength=len(names)).astype(np.float64),
            where=chunk.where,
            open_ended=chunk.open_ended,
            column_names=chunk.columns,
        )

    def __add__(self, other: Survey) -> Survey:
        # Refuse rows that cannot be those of one matrix, naming their place.
        fault = None
        if other.columns != self.columns and not other.open_ended:
            fault = f"there are {other.columns} columns, but {self.columns} in the rows before"
        elif self.column_names and other.column_names and self.column_names != other.column_names:
            pairs = zip(other.column_names, self.column_names, strict=True)
            name = next(theirs for theirs, ours in pairs if theirs != ours)
            fault = f"column {name!r} stands where another one did in the rows before"
        elif other.is_sparse != self.is_sparse:
            kinds = ("dense", "sparse")
            fault = f"rows are {kinds[other.is_sparse]}, those before were {kinds[self.is_sparse]}"
        elif (self.names.dtype.kind in "US") != (other.names.dtype.kind in "US"):
            ours, theirs = self.names.tolist()[:3], other.names.tolist()[:3]
            fault = f"labels must be of one type, got {theirs} after {ours}"
        if fault is not None:
            raise ValueError(f"{other.where}: {fault}")
        columns, names = max(self.columns, other.columns), np.unique(np.concatenate([self.names, other.names]))
        ours, theirs = self._with_names(names), other._with_names(names)
        return replace(
            ours,
            chunks=self.chunks + other.chunks,
            columns=columns,
            dtype=np.result_type(self.dtype, other.dtype),
            is_sparse=self.is_sparse and other.is_sparse,
            stored=self.stored + other.stored,
            moments=self.moments.widened(columns) + other.moments.widened(columns),
            counts=ours.counts + theirs.counts,
            weights=ours.weights + theirs.weights,
            open_ended=self.open_ended and other.open_ended,
            column_names=self.column_names or other.column_names,
        )

    def _with_names(self, names: Array) -> Survey:
        """Return the same survey with counts for all of the names, those of its own among them."""
        places = np.searchsorted(names, self.names)
        counts, weights = (np.zeros(len(names), dtype=values.dtype) for values in (self.counts, self.weights))
        counts[places], weights[places] = self.counts, self.weights
        return replace(self, names=names, counts=counts, weights=weights)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.chunks)

    def centre(self) -> Centre | None:
        """Return the origin from which columns far from zero are measured; None if no column is far."""
        centre = far_means(self.moments.mean, self.moments.variance)
        return centre if centre.origin.any() else None


@dataclass(frozen=True, eq=False)
class RowLabels:
    """Labels and weights of all rows, which are small enough to be kept in memory where the rows are not."""

    labels: tuple[Labels, ...]  # of each chunk
    weight: Array | None  # of each row

    def told_by_chunk(self, classes: Array) -> float:
        """Return the share of labels' entropy that chunks explain: 0 where rows are shuffled, 1 where they are sorted.

        That is the mutual information of chunks and labels, less its expectation under chance, relative to the entropy.
        """

        def entropy(counts: Array) -> float:
            shares = counts[counts > 0] / counts.sum()
            return -float(shares @ np.log(shares))

        n = len(classes)
        codes = (np.searchsorted(classes, part.names)[part.codes] for part in self.labels)
        counts = np.array([np.bincount(chunk, minlength=n) for chunk in codes], dtype=np.float64)
        rows, total = counts.sum(), entropy(counts.sum(axis=0))
        within = float(sum(chunk.sum() / rows * entropy(chunk) for chunk in counts))
        by_chance = (len(counts) - 1) * (n - 1) / (2 * rows)
        return max(total - within - by_chance, 0.0) / total if total > 0 else 0.0


def survey_source(source: Source, cache: ChunkCache, watcher: Watcher | None = None) -> tuple[Survey, RowLabels]:
    """Return the survey of a source with labels and weights of all rows, and write the rows to a cache on the way."""
    labels: list[Labels] = []
    weights: list[Array | None] = []
    unweighted: list[Array] = []
    total: Survey | None = None
    for chunk in prefetch(lambda: read_all(source, unweighted)):
        assert chunk.labels is not None
        cache.add((chunk.X.data, chunk.X.indices, chunk.X.indptr) if sp.issparse(chunk.X) else (chunk.X,))
        codes = chunk.labels.codes
        labels.append(replace(chunk.labels, codes=codes.astype(np.min_scalar_type(len(chunk.labels.names)))))
        weights.append(chunk.weight)
        if watcher is not None:
            watcher(len(chunk))
        total = Survey.of(chunk) if total is None else total + Survey.of(chunk)
        del chunk  # its memory is free while the next one is read
    found = total_survey([total], unweighted)
    weight = None
    if any(part is not None for part in weights):
        pairs = zip(weights, found.chunks, strict=True)
        weight = np.concatenate([np.ones(rows) if part is None else part for part, rows in pairs])
    return found, RowLabels(tuple(labels), weight)


def survey_piece(piece: Piece) -> tuple[Survey | None, list[Array]]:
    """Return the survey of a piece, None if no row of it counts, and the labels of rows of weight zero."""
    unweighted: list[Array] = []
    surveys = [Survey.of(chunk) for chunk in checked([piece], unweighted)]
    return (reduce(add, surveys) if surveys else None), unweighted


def total_survey(surveys: Iterable[Survey | None], unweighted: Sequence[Array]) -> Survey:
    """Return the sum of the surveys of all pieces. Labels that only rows of weight zero have are classes as well."""
    total = None
    for part in surveys:
        total = part if total is None else total if part is None else total + part
    if total is None:
        raise ValueError("there are no rows to fit: every piece of the source is empty, or weighs nothing")
    if not unweighted:
        return total
    if any((total.names.dtype.kind in "US") != (names.dtype.kind in "US") for names in unweighted):
        kinds = [names.tolist()[:3] for names in (total.names, *unweighted)]
        raise ValueError(f"labels must be of one type, got {kinds}, those of rows without weight among them")
    return total._with_names(np.unique(np.concatenate([total.names, *unweighted])))


def read_all(source: Source, unweighted: list[Array] | None = None) -> Iterator[Chunk]:
    """Yield all rows of a source that have a weight, small chunks put together."""
    return merged(checked(source.pieces(), unweighted))


def checked(pieces: Iterable[Piece], unweighted: list[Array] | None = None) -> Iterator[Chunk]:
    """Yield the chunks of pieces without rows of weight zero; refuse what cannot be fitted, naming its place.

    Labels of the rows that are left out are added to ``unweighted``.
    """
    for chunk in (chunk for piece in pieces for chunk in piece.read()):
        if chunk.labels is None:
            raise chunk.refuse("there are no labels to learn from")
        for name, values in (("labels", chunk.labels.codes), ("weights", chunk.weight)):
            if values is not None and len(values) != len(chunk):
                raise chunk.refuse(f"there are {len(chunk)} rows, but {len(values)} {name}")
        if chunk.X.shape[1] == 0:
            raise chunk.refuse("there is no column to learn from")
        chunk.refuse_non_finite()
        weight = chunk.weight
        if weight is not None and not (np.isfinite(weight) & (weight > 0)).all():
            bad = ~np.isfinite(weight) | (weight < 0)
            if bad.any():
                row = int(np.argmax(bad))
                raise chunk.refuse(f"the weight must be a finite number ≥ 0, got {weight[row]}", row)
            if unweighted is not None:
                unweighted.append(np.unique(chunk.labels.names[np.unique(chunk.labels.codes[weight == 0])]))
            chunk = chunk.take(np.flatnonzero(weight))
        if len(chunk):
            yield chunk


# Chunks of a group of windows, at most.
GROUP = 32

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


def streamed_blocks_of(encoding: Encoding, *pieces: Piece) -> Iterator[Labelled]:
    """Return the blocks of pieces, read one by one."""
    return map(encoding, merged(checked(pieces)))


def evenly(items: Sequence[Any], parts: int) -> list[Sequence[Any]]:
    """Return runs of neighbouring items, about as long as each other: as many as asked for, or as there are items."""
    return [items[run] for run in even_parts(len(items), max(min(parts, len(items)), 1))]


def windows_of(chunks: Sequence[int], seed: int, passes: int) -> Iterator[Window]:
    """Yield the windows of a pass over chunks with these numbers of rows: the same for the same seed and pass."""
    drawn = Order(seed).of_pass(passes, len(chunks)).tolist()
    for members in even_parts(len(drawn), -(-len(drawn) // GROUP)):
        group = drawn[members]
        size = len(group)
        # About 128 slices of a chunk: each is still long enough for a read of its own.
        cuts = {number: even_parts(chunks[number], size * (128 // size)) for number in group}
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
        # Rows are visited in windows if their chunk tells more of their labels than a twentieth of the entropy.
        self._mixes = cache.is_open and row_labels.told_by_chunk(classes) > 0.05
        self._sampled: tuple[tuple[int, int], Labelled] | None = None
        self._lock = Lock()  # of several fits
        self.like = encoding(next(self._chunks())[1].take(slice(0, SHOWN)))

    def __len__(self) -> int:
        return self._encoding.total

    def blocks(self, rows: int) -> StreamedBlocks:
        """Return the data in blocks of at most that many rows; going through them reads everything."""
        return StreamedBlocks(self._read_blocks, self._parts(rows))

    def outlines(self, rows: int) -> StreamedBlocks:
        """Return blocks without rows, for tasks that use labels and weights alone."""
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
        """Return the data themselves: rows are read in their own precision."""
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
