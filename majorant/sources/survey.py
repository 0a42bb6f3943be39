"""Reading while somebody else works.

A copy of what was read on the local disk, as arrays: far quicker to read again than a file is to decode.

The first look at a source: how many rows, which labels, where columns are, and whether anything is wrong.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, chain
from math import prod
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import IO, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from majorant.core.affine import Centre, Moments, far_means
from majorant.core.checks import Array
from majorant.core.threads import Spare
from majorant.sources.base import Chunk, Labels, Piece, Source, Watcher, arrays_of, in_larger_chunks

T = TypeVar("T")

# Items that are ready before they are asked for.
AHEAD = 2
# Seconds after which a reader looks whether anybody still wants what it has read.
PATIENCE = 0.1
END = object()


def read_ahead(items: Callable[[], Iterator[T]], ahead: int = AHEAD) -> Iterator[T]:
    """Yield what an iterator yields, which a thread of its own runs, a few items ahead.

    Its errors are passed on. Who stops before the end stops the thread, too.
    """
    ready: Queue[tuple[Any, BaseException | None]] = Queue(maxsize=ahead)
    unwanted = Event()
    Thread(target=_read, args=(items, ready, unwanted), name="majorant reader", daemon=True).start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is END:
                return
            yield item
    finally:
        unwanted.set()
        _empty(ready)


def _read(items: Callable[[], Iterator[T]], ready: Queue[Any], unwanted: Event) -> None:
    try:
        for item in items():
            if not _offer((item, None), ready, unwanted):
                return
        _offer((END, None), ready, unwanted)
    except BaseException as error:  # whoever reads should see it
        _offer((END, error), ready, unwanted)


def _offer(what: Any, ready: Queue[Any], unwanted: Event) -> bool:
    """Put something where it can be taken; return whether anybody still wants it."""
    while not unwanted.is_set():
        try:
            ready.put(what, timeout=PATIENCE)
            return True
        except Full:
            continue
    return False


def _empty(ready: Queue[Any]) -> None:
    try:
        while True:
            ready.get_nowait()
    except Empty:
        return


# The share of the free disk that it may take.
SHARE = 0.25
# It is given up before that if so little would be left.
LEAST_LEFT = 2**28


@dataclass(frozen=True)
class Place:
    """Where an array stands in the file."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """How many it takes."""
        return prod(self.shape) * self.dtype.itemsize

    def part(self, some: slice) -> Place:
        """Return where some of its entries along the first axis stand."""
        each = prod(self.shape[1:])
        return Place(
            self.offset + some.start * each * self.dtype.itemsize, self.dtype, (some.stop - some.start, *self.shape[1:])
        )


class Spool:
    """Chunks in a temporary file without a name, which vanishes with whoever made it, even if that is killed.

    A chunk is some arrays, of which any may be None. Where the disk has no room to spare nothing is kept, and all is
    read from where it came.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = tempfile.TemporaryFile(prefix="majorant-")  # noqa: SIM115
        self.room = SHARE * shutil.disk_usage(tempfile.gettempdir()).free - LEAST_LEFT
        self._chunks: list[tuple[Place | None, ...]] = []
        self._end, self._lock = 0, Lock()
        # Chunks come and go pass after pass: fresh memory for each would be left in pieces that nobody can use.
        self._spare = Spare()

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def is_open(self) -> bool:
        """Whether all chunks so far are here."""
        return self._file is not None

    def add(self, arrays: Sequence[Array | None]) -> None:
        """Write a chunk, or give up."""
        if self._file is None:
            return
        if self._end + sum(each.nbytes for each in arrays if each is not None) > self.room:
            self.close()
            return
        try:
            self._chunks.append(tuple([None if each is None else self._write(each) for each in arrays]))
        except OSError:  # no room after all
            self.close()

    def replace(self, number: int, arrays: Sequence[Array]) -> None:
        """Write arrays of the same shapes in the place of a chunk; if that fails, give up."""
        try:
            for place, array in zip(self._chunks[number], arrays, strict=True):
                assert place is not None
                self._put(array, place.offset)
        except OSError:
            self.close()

    def __getitem__(self, number: int) -> list[Any]:
        """Return the arrays of a chunk."""
        return [None if place is None else self._read(place) for place in self._chunks[number]]

    def part(self, number: int, array: int, some: slice) -> Array:
        """Return some entries of an array of a chunk, along its first axis; nothing else is read."""
        place = self._chunks[number][array]
        assert place is not None
        return self._read(place.part(some))

    def close(self) -> None:
        """Give the disk back."""
        if self._file is not None:
            self._file.close()
        self._file, self._chunks = None, []
        self._spare.close()

    def __del__(self) -> None:
        self.close()

    def _write(self, array: Array) -> Place:
        place = Place(self._end, array.dtype, array.shape)
        self._put(array, self._end)
        self._end += array.nbytes
        return place

    def _put(self, array: Array, offset: int) -> None:
        assert self._file is not None
        with self._lock:
            self._file.seek(offset)
            self._file.write(_bytes_of(np.ascontiguousarray(array)))

    def _read(self, place: Place) -> Array:
        assert self._file is not None
        array = self._memory(place.bytes).view(place.dtype).reshape(place.shape)
        with self._lock:
            self._file.seek(place.offset)
            self._file.readinto(_bytes_of(array))  # type: ignore[attr-defined]
        return array

    def _memory(self, size: int) -> Array:
        """Return so many bytes, of one of a few sizes: whatever has been used once can be used again."""
        return self._spare.empty((1 << (size - 1).bit_length(),), np.uint8)[:size] if size else np.empty(0, np.uint8)


def _bytes_of(array: Array) -> Any:
    """Return the memory of an array."""
    return array.reshape(-1).view(np.uint8).data


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
