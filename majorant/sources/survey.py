"""The first pass over a source: how many rows, which labels, where columns are, and whether anything is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.affine import Centre, Moments, far_means
from majorant.core.checks import Array
from majorant.sources.base import Chunk, Labels, Piece, Source, Watcher, merged
from majorant.sources.cache import ChunkCache, prefetch

# Rows of a chunk, evenly spread, whose means and variances stand for all of it.
ENOUGH_ROWS = 500


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
        sample = np.arange(min(rows, ENOUGH_ROWS)) * rows // min(rows, ENOUGH_ROWS)
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
        """How many there are."""
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
        """Return how much of its label a row's chunk tells: nothing where rows are shuffled, 1 where they are sorted.

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
