"""The first look at a source: how many rows, which labels, where columns are, and whether anything is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array
from majorant.design import Centre, Moments, far_means
from majorant.sources.ahead import read_ahead
from majorant.sources.base import Chunk, Labels, Piece, Source, Watcher, arrays_of
from majorant.sources.joining import in_larger_chunks
from majorant.sources.spool import Spool

# Rows of a chunk that tell where columns are, evenly spread.
ENOUGH_ROWS = 500
NO_ROWS = "there are no rows to fit: every piece of the source is empty, or weighs nothing"


@dataclass(frozen=True, eq=False)
class Survey:
    """What there is to know of some rows before they are fitted; those of several pieces add up."""

    chunks: tuple[int, ...]  # rows of each
    columns: int
    dtype: np.dtype[Any]
    is_sparse: bool
    stored: int  # numbers
    moments: Moments
    names: Array  # of the labels, in order
    counts: Array  # rows of each label
    weights: Array  # of all rows of each label
    where: str  # the first of them stand
    open_ended: bool  # whether further columns, all zero, are not written down
    named: tuple[str, ...] | None  # columns, if they have names

    @classmethod
    def of(cls, chunk: Chunk) -> Survey:
        """Return what there is to know of a chunk, in which nothing is wrong."""
        assert chunk.labels is not None
        weight = chunk.weight
        # A dictionary may hold names that no row has.
        names, codes = np.unique(chunk.labels.names[np.unique(chunk.labels.codes)]), chunk.labels.codes
        codes, many = np.searchsorted(names, chunk.labels.names)[codes], len(names)
        return cls(
            (len(chunk),),
            chunk.X.shape[1],
            chunk.X.dtype,
            chunk.is_sparse,
            chunk.X.nnz if chunk.is_sparse else chunk.X.size,
            _moments(chunk),
            names,
            np.bincount(codes, minlength=many),
            np.bincount(codes, weights=weight, minlength=many).astype(np.float64),
            chunk.where,
            chunk.open_ended,
            chunk.columns,
        )

    def __add__(self, other: Survey) -> Survey:
        _refuse_unlike(self, other)
        columns, names = max(self.columns, other.columns), np.unique(np.concatenate([self.names, other.names]))
        return Survey(
            self.chunks + other.chunks,
            columns,
            np.result_type(self.dtype, other.dtype),
            self.is_sparse and other.is_sparse,
            self.stored + other.stored,
            self.moments.widened(columns) + other.moments.widened(columns),
            names,
            _spread(self.names, self.counts, names) + _spread(other.names, other.counts, names),
            _spread(self.names, self.weights, names) + _spread(other.names, other.weights, names),
            self.where,
            self.open_ended and other.open_ended,
            self.named or other.named,
        )

    def with_classes_of(self, left_out: Sequence[Array]) -> Survey:
        """Return the same with labels of rows that weigh nothing: they are classes, as they are in an array."""
        if not left_out:
            return self
        if any((self.names.dtype.kind in "US") != (names.dtype.kind in "US") for names in left_out):
            kinds = [names.tolist()[:3] for names in (self.names, *left_out)]
            raise ValueError(f"labels must be of one type, got {kinds}, those of rows without weight among them")
        names = np.unique(np.concatenate([self.names, *left_out]))
        counts, weights = (_spread(self.names, each, names) for each in (self.counts, self.weights))
        return replace(self, names=names, counts=counts, weights=weights)

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(self.chunks)

    def centre(self) -> Centre | None:
        """Return where columns are measured from that are far from zero; nothing if none is."""
        centre = far_means(self.moments.mean, self.moments.variance)
        return centre if centre.origin.any() else None


@dataclass(frozen=True, eq=False)
class Outline:
    """Labels and weights of all rows, which are small enough to be kept where the rows themselves are not."""

    labels: tuple[Labels, ...]  # of each chunk
    weight: Array | None  # of each row

    def codes(self, classes: Array) -> Array:
        """Return for each row which of the classes is its own, as few bytes as will do."""
        dtype = np.min_scalar_type(max(len(classes) - 1, 1))
        each = [np.searchsorted(classes, some.names).astype(dtype)[some.codes] for some in self.labels]
        return np.concatenate(each)

    def told_by_chunk(self, classes: Array) -> float:
        """Return how much of what there is to know of a label its chunk tells: nothing of shuffled rows, 1 of sorted.

        That is the mutual information of chunks and labels, less what chance makes of it, relative to the entropy.
        """
        counts = np.array(
            # A dictionary may hold names that no row has.
            [
                np.bincount(np.searchsorted(classes, some.names)[some.codes], minlength=len(classes))
                for some in self.labels
            ],
            dtype=np.float64,
        )
        rows, (chunks, many) = counts.sum(), counts.shape
        entropy = _entropy(counts.sum(axis=0))
        within = float(sum(each.sum() / rows * _entropy(each) for each in counts))
        by_chance = (chunks - 1) * (many - 1) / (2 * rows)
        return max(entropy - within - by_chance, 0.0) / entropy if entropy > 0 else 0.0


def _entropy(counts: Array) -> float:
    shares = counts[counts > 0] / counts.sum()
    return -float(shares @ np.log(shares))


def survey(chunks: Iterator[Chunk]) -> tuple[Survey, Outline]:
    """Return what there is to know of all rows, and their labels and weights."""
    total, labels, weights = None, [], []
    for chunk in chunks:
        found = Survey.of(chunk)
        total = found if total is None else total + found
        assert chunk.labels is not None
        labels.append(_small(chunk.labels))
        weights.append(chunk.weight)
    if total is None:
        raise ValueError(NO_ROWS)
    return total, Outline(tuple(labels), _joined(weights, total.chunks))


def survey_source(source: Source, spool: Spool, watcher: Watcher | None = None) -> tuple[Survey, Outline]:
    """Return what there is to know of a source, whose rows are written to a spool on the way."""
    left_out: list[Array] = []

    def spooled() -> Iterator[Chunk]:
        for chunk in read_ahead(lambda: read_all(source, left_out)):
            spool.add(arrays_of(chunk.X))
            if watcher is not None:
                watcher(len(chunk))
            yield chunk

    found, outline = survey(spooled())
    return found.with_classes_of(left_out), outline


def read_all(source: Source, left_out: list[Array] | None = None) -> Iterator[Chunk]:
    """Yield all rows of a source that count, small chunks joined; labels of the others are added to ``left_out``."""
    return in_larger_chunks(chain.from_iterable(read_checked(piece, left_out) for piece in source.pieces()))


def survey_piece(piece: Piece) -> tuple[Survey | None, list[Array]]:
    """Return what there is to know of a piece, nothing if that has no rows, and labels of rows that weigh nothing."""
    left_out: list[Array] = []
    found = [Survey.of(chunk) for chunk in read_checked(piece, left_out)]
    return (reduce(Survey.__add__, found) if found else None), left_out


def together(pieces: Iterable[tuple[Survey | None, list[Array]]]) -> Survey:
    """Return what there is to know of all pieces, in their order."""
    pieces = list(pieces)
    found = [each for each, _ in pieces if each is not None]
    if not found:
        raise ValueError(NO_ROWS)
    return reduce(Survey.__add__, found).with_classes_of([names for _, left_out in pieces for names in left_out])


def read_checked(piece: Piece, left_out: list[Array] | None = None) -> Iterator[Chunk]:
    """Yield the chunks of a piece that have rows that count, after a look for what is wrong with them.

    Labels of rows that do not are added to ``left_out``.
    """
    for chunk in piece.read():
        weighs = _checked(chunk)
        if left_out is not None and weighs is not None:
            assert chunk.labels is not None
            left_out.append(np.unique(chunk.labels.names[np.unique(chunk.labels.codes[~weighs])]))
        checked = chunk if weighs is None else only_rows(chunk, np.flatnonzero(weighs))
        if len(checked):
            yield checked


def _checked(chunk: Chunk) -> Array | None:
    """Return which rows weigh something, None if all do, or refuse what cannot be fitted, naming its place."""
    if chunk.labels is None:
        raise chunk.refuse("there are no labels to learn from")
    for what, values in (("labels", chunk.labels), ("weights", chunk.weight)):
        if values is not None and len(values) != len(chunk):
            raise chunk.refuse(f"there are {len(chunk)} rows, but {len(values)} {what}")
    if chunk.X.shape[1] == 0:
        raise chunk.refuse("there is no column to learn from")
    refuse_non_finite(chunk)
    if chunk.weight is None:
        return None
    bad = ~(chunk.weight >= 0) | np.isinf(chunk.weight)
    if bad.any():
        row = int(np.argmax(bad))
        raise chunk.refuse(f"the weight must be a finite number ≥ 0, got {chunk.weight[row]}", row)
    return None if chunk.weight.all() else chunk.weight > 0


def only_rows(chunk: Chunk, rows: Array | slice) -> Chunk:
    """Return some rows of a chunk."""
    labels = None if chunk.labels is None else replace(chunk.labels, codes=chunk.labels.codes[rows])
    weight = None if chunk.weight is None else chunk.weight[rows]
    return replace(chunk, X=chunk.X[rows], labels=labels, weight=weight)


def _moments(chunk: Chunk) -> Moments:
    rows = len(chunk)
    some = np.arange(min(rows, ENOUGH_ROWS)) * rows // min(rows, ENOUGH_ROWS)
    found = Moments.of(chunk.X[some], None if chunk.weight is None else chunk.weight[some])
    # These few stand for all of the chunk.
    return replace(found, rows=rows, weight=float(rows if chunk.weight is None else chunk.weight.sum()))


def refuse_non_finite(chunk: Chunk) -> None:
    """Refuse what is not a number, naming its place."""
    values = chunk.X.data if sp.issparse(chunk.X) else chunk.X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return
    bad = ~np.isfinite(chunk.X.toarray() if sp.issparse(chunk.X) else chunk.X)
    row, column = (int(place) for place in np.argwhere(bad)[0])
    name = column if chunk.columns is None else repr(chunk.columns[column])
    raise chunk.refuse(f"column {name} holds {chunk.X[row, column]}; fill in or drop what is missing", row)


def _refuse_unlike(before: Survey, after: Survey) -> None:
    """Refuse rows that cannot be those of one matrix, naming where they are."""
    if after.columns != before.columns and not after.open_ended:
        raise ValueError(f"{after.where}: there are {after.columns} columns, but {before.columns} in the rows before")
    if before.named is not None and after.named is not None and before.named != after.named:
        other = next(name for name, ours in zip(after.named, before.named, strict=True) if name != ours)
        raise ValueError(f"{after.where}: column {other!r} stands where another one did in the rows before")
    if after.is_sparse != before.is_sparse:
        kinds = ("dense", "sparse")
        ours, theirs = kinds[before.is_sparse], kinds[after.is_sparse]
        raise ValueError(f"{after.where}: rows are {theirs}, those before were {ours}")
    if (before.names.dtype.kind in "US") != (after.names.dtype.kind in "US"):
        ours, theirs = before.names.tolist()[:3], after.names.tolist()[:3]
        raise ValueError(f"{after.where}: labels must be of one type, got {theirs} after {ours}")


def _small(labels: Labels) -> Labels:
    return replace(labels, codes=labels.codes.astype(np.min_scalar_type(max(len(labels.names) - 1, 1))))


def _joined(weights: Sequence[Array | None], chunks: tuple[int, ...]) -> Array | None:
    if all(weight is None for weight in weights):
        return None
    pairs = zip(weights, chunks, strict=True)
    return np.concatenate([np.ones(rows) if weight is None else weight for weight, rows in pairs])


def _spread(names: Array, values: Array, onto: Array) -> Array:
    spread = np.zeros(len(onto), dtype=values.dtype)
    spread[np.searchsorted(onto, names)] = values
    return spread


def starts_of(chunks: Sequence[int]) -> list[int]:
    """Return the number of the first row of each chunk."""
    return list(accumulate(chunks, initial=0))[:-1]
