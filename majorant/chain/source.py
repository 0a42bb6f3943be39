"""Dask bags of sequences: one piece for each partition.

Sequences that need not fit in memory: where they come from, and the data of an objective that are read anew.

The first look at sequences that need not fit in memory: their attributes, labels, and the pairs that occur.

Where the sequences of a fit are: in memory, read pass by pass, or with the workers of an executor or a cluster.

Labels of sequences that need not fit in memory, and how many of them are right, chunk by chunk.
"""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.chain.constraints import refuse_violations, steps_and_ends, violation
from majorant.chain.feature_index import BITS, MASK, PairSums, Universe
from majorant.chain.features import (
    NO_LABEL,
    NO_WEIGHT,
    Observed,
    any_token_weights,
    by_lengths,
    check_lengths,
    label_names,
    numbered,
    read_sequences,
    refuse_none,
    sequences,
    token_weights,
)
from majorant.chain.sequences import Sequences, inner_tokens
from majorant.chain.tokens import UNKNOWN, Encoded, Size, Vocabulary, evened, split_rows
from majorant.core.checks import Array
from majorant.core.remote import RemoteRows
from majorant.core.rows import Data, Order, Reducer
from majorant.estimators.source import (
    LARGEST_SHARE,
    SHARES_PER_WORKER,
    held_on_dask,
    refuse_beside,
    running_client,
    shared_out,
    workers_of,
)
from majorant.sources.base import SHOWN, Chunks, Source, is_dask
from majorant.sources.cache import ChunkCache, prefetch
from majorant.sources.streamed import evenly


def is_bag(X: Any) -> bool:
    """Return whether something is a Dask bag, without importing Dask."""
    return is_dask(X) and type(X).__name__ == "Bag"


@dataclass(frozen=True, eq=False)
class DaskBag:
    """A bag of pairs (tokens, labels), or, where nothing is to be learnt, of the tokens of sequences.

    Without a cluster its partitions are computed one after the other whenever they are read.
    """

    bag: Any

    def pieces(self) -> Sequence[SequencePiece]:
        """Return one piece for each partition, which is computed when it is read."""
        return [BagPartition(each) for each in self.delayed_pieces()]

    def delayed_pieces(self) -> list[Any]:
        """Return the pieces as values that Dask has yet to compute."""
        from dask import delayed

        make = delayed(Pairs, pure=True)
        return [make(f"partition {number}", part) for number, part in enumerate(self.bag.to_delayed())]


@dataclass(frozen=True, eq=False)
class Pairs:
    """A partition that is in memory, wherever that is."""

    where: str
    elements: Any

    def items(self) -> Iterator[tuple[str, Item]]:
        """Yield all of it."""
        elements = list(self.elements)
        if elements and all(isinstance(each, tuple) and len(each) == 2 for each in elements):
            X, y = zip(*elements, strict=True)
            yield self.where, (X, y, None)
        elif elements:
            yield self.where, (elements, None, None)


@dataclass(frozen=True, eq=False)
class BagPartition:
    """A partition that is computed whenever it is read."""

    pairs: Any

    def items(self) -> Iterator[tuple[str, Item]]:
        """Compute it."""
        yield from self.pairs.compute().items()


# Numbers of a record, as it is written down.
RECORD = 2**19
# A block has as many, at least, if there are; and so many tokens for each parameter of the gradient that it adds to.
BLOCK = 2**20
TOKENS_PER_PARAMETER = 1 / 24
# Blocks that are ready before they are asked for.
AHEAD = 1
# Stands for no label, before the first and after the last.
END = MASK
NO_ROWS = "sequences that are not in memory are read block by block: there are no rows to draw"
# What a function yields: sequences, labels if there are any, weights if there are any.
Item = tuple[Any, Any, Any]


class SequencePiece(Protocol):
    """Some sequences that can be read apart from the others, here or, since it can be pickled, elsewhere."""

    def items(self) -> Iterator[tuple[str, Item]]:
        """Yield what there is, chunk by chunk, each with a name of its place: the same every time."""


@dataclass(frozen=True, eq=False)
class Records:
    """Encoded sequences that can be gone through again and again: read from a copy, if there was room for one."""

    spool: ChunkCache
    again: Callable[[], Iterator[Encoded]]  # encodes them anew

    @classmethod
    def of(cls, chunks: Callable[[], Iterator[Encoded]]) -> Records:
        """Return those of chunks, copied."""
        records = cls(ChunkCache(), lambda: evened(chunks(), RECORD))
        for record in records.again():
            records.spool.add(record.arrays())
        return records

    def __iter__(self) -> Iterator[Encoded]:
        if not self.spool.is_open:
            return self.again()
        return (Encoded.from_arrays(self.spool[number]) for number in range(len(self.spool)))


class StreamedSequences:
    """Sequences that stay where they are: a few blocks at a time are in memory.

    Parameters
    ----------
    records : iterable of Encoded
        The sequences, the same whenever somebody goes through them.
    universe : Universe
        Which parameters there are.
    numbers : array
        Of the labels in the universe, by the numbers of the records.
    size : Size
        How much there is of all of them.
    even : bool
        Whether the tokens of a sequence all weigh the same.
    """

    whole = None

    def __init__(
        self, records: Iterable[Encoded], universe: Universe, numbers: Array, size: Size, even: bool = False
    ) -> None:
        self.universe, self.size, self.even = universe, size, even
        self._records, self._numbers = records, numbers
        first = next(iter(records))
        self.like = self._decoded(first.part(0, min(len(first), SHOWN)))

    def __len__(self) -> int:
        return self.size.sequences

    def blocks(self, rows: int) -> ReadSequences:
        """Return the data in blocks of at most about so many sequences; going through them reads everything."""
        of_rows = rows * self.size.numbers // max(len(self), 1)
        return ReadSequences(self, max(min(of_rows, block_numbers(self.universe, self.size)), 1))

    def outlines(self, rows: int) -> ReadSequences:
        """Return the same blocks: labels are not kept apart."""
        return self.blocks(rows)

    def sample(self, rows: int, seed: int) -> Sequences:
        """Raise: solvers that ask for a sample ask for rows."""
        raise TypeError(NO_ROWS)

    def store(self) -> ChunkCache:
        """Return somewhere to keep arrays of every block."""
        return ChunkCache()

    def narrowed(self) -> StreamedSequences:
        """Return the same: rows are read as they are."""
        return self

    def visits(self, order: Order, passes: int, begin: int, end: int, multiple: int) -> Iterator[Sequences]:
        """Raise: solvers that go from row to row ask for rows."""
        raise TypeError(NO_ROWS)

    def read(self, numbers: int) -> Iterator[Sequences]:
        """Yield blocks of about so many numbers, read a little ahead."""
        return prefetch(lambda: map(self._decoded, evened(self._records, numbers)), AHEAD)

    def _decoded(self, some: Encoded) -> Sequences:
        return some.sequences(self.universe, self._numbers)


@dataclass(frozen=True, eq=False)
class ReadSequences:
    """Blocks that are read whenever somebody goes through them."""

    data: StreamedSequences
    numbers: int

    def __iter__(self) -> Iterator[Sequences]:
        return self.data.read(self.numbers)


def block_numbers(universe: Universe, size: Size) -> int:
    """Return how many numbers make a block: enough for a gradient as long as θ to be a small part of its work."""
    tokens = universe.size * TOKENS_PER_PARAMETER
    return max(BLOCK, int(tokens * size.numbers / max(size.tokens, 1)))


def none_of(universe: Universe) -> Sequences:
    """Return no sequences, which show what parameters others have that are elsewhere."""
    nothing = np.empty(0, dtype=np.uint32)
    start = np.zeros(1, dtype=np.int64)
    return Sequences.of(universe, start, start.astype(np.uint32), nothing, None, nothing.astype(np.int32))


# From the labels to how many states each has.
Completed: TypeAlias = Callable[[Universe, Array], Universe]
CHANGED = "the source has changed since it was first read: it must yield the same chunks every time"


@dataclass(frozen=True)
class Wanted:
    """Which pairs have a weight, as the settings of an estimator say it."""

    min_freq: float
    all_states: bool
    all_transitions: bool
    completed: Completed  # the universe of classes with what else an estimator knows of it


@dataclass(eq=False)
class Found:
    """What there is to know of some sequences before they are fitted; what was found in several pieces adds up."""

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    labels: Vocabulary = field(default_factory=Vocabulary)
    pairs: PairSums = field(default_factory=PairSums)  # of attribute and label
    steps: PairSums = field(default_factory=PairSums)  # of label and next label
    sizes: list[Size] = field(default_factory=list)  # of each piece
    weight: float = 0.0
    even: bool = True  # whether the tokens of a sequence all weigh the same
    # Where each label follows another first, END before the first and after the last: the chunk, and which sequence.
    places: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)

    def read(self, pieces: Iterable[SequencePiece]) -> Iterator[Encoded]:
        """Yield the chunks of pieces, by vocabularies that grow."""
        for piece in pieces:
            self.sizes.append(Size())
            for where, item in piece.items():
                with named(where):
                    chunk = encoded(item, self.vocabulary, self.labels, grow=True)
                    label_names(self.labels)
                self._place(where, chunk)
                self.sizes[-1] = self.sizes[-1].plus(chunk.size)
                del item  # it is far larger than its numbers
                yield chunk

    def _place(self, where: str, chunk: Encoded) -> None:
        starts = chunk.tokens.starts
        before, after, at = steps_and_ends(starts, chunk.y, END)
        steps, first = np.unique(before.astype(np.int64) << BITS | after, return_index=True)
        sequences_of = np.searchsorted(starts, at[first], side="right") - 1
        for step, sequence in zip(steps.tolist(), sequences_of.tolist(), strict=True):
            self.places.setdefault((step >> BITS, step & MASK), (where, sequence))

    def count(self, some: Encoded) -> None:
        """Add the pairs that occur in some sequences."""
        tokens, y = some.tokens, some.y
        self.pairs.add(tokens.attributes, np.repeat(y, np.diff(tokens.indptr).astype(np.int64)), tokens.values)
        after = inner_tokens(tokens.starts)
        self.steps.add(y[after - 1], y[after])
        if some.weight is None:
            self.weight += float(len(y))
            return
        self.weight += float(some.weight.sum())
        self.even &= bool((some.weight[after] == some.weight[after - 1]).all())

    def merge(self, other: Found) -> None:
        """Add what was found elsewhere, by numbers of its own."""
        if other.vocabulary.columns is not None:
            self.vocabulary.check_columns(other.vocabulary.columns, grow=True)
        attributes = np.fromiter(self.vocabulary.numbers(other.vocabulary.names(), grow=True), dtype=np.int64)
        labels = np.fromiter(self.labels.numbers(other.labels.names(), grow=True), dtype=np.int64)
        label_names(self.labels)
        for ours, theirs, numbers in ((self.pairs, other.pairs, attributes), (self.steps, other.steps, labels)):
            first, second, sums = theirs.found()
            ours.add(numbers[first], labels[second], sums)
        number = dict(enumerate(labels.tolist()))
        for (before, after), place in other.places.items():
            self.places.setdefault((number.get(before, END), number.get(after, END)), place)
        self.sizes += other.sizes
        self.weight += other.weight
        self.even &= other.even

    @property
    def size(self) -> Size:
        """How much there is in all."""
        total = Size()
        for each in self.sizes:
            total = total.plus(each)
        return total

    def encoding(self, wanted: Wanted) -> Encoding:
        """Return how sequences become data, now that all have been seen."""
        if not self.size.tokens:
            raise ValueError(f"{NO_LABEL}, every chunk of the source is empty")
        if not self.weight > 0:
            raise ValueError(NO_WEIGHT)
        names = label_names(self.labels)
        classes = np.unique(names)
        numbers, n, m = np.searchsorted(classes, names).astype(np.int32), len(classes), len(self.vocabulary)
        first, second, sums = self.pairs.found()
        pairs = _kept(first * n + numbers[second], sums, m * n, wanted.min_freq, wanted.all_states)
        first, second, sums = self.steps.found()
        steps = _kept(
            numbers[first].astype(np.int64) * n + numbers[second], sums, n * n, wanted.min_freq, wanted.all_transitions
        )
        universe = wanted.completed(Universe.of(*refuse_none(pairs, steps), n, m), classes)
        if universe.allowed is not None:
            number = dict(enumerate(numbers.tolist()))
            for (one, other), (where, sequence) in self.places.items():
                before, after = number.get(one, n), number.get(other, n)
                if not universe.allowed[before, after]:
                    raise ValueError(f"{where}: {violation(classes, before, after, sequence)}")
        return Encoding(self.vocabulary, self.labels, classes, numbers, universe)


@dataclass(frozen=True, eq=False)
class Encoding:
    """What everybody has to know who reads sequences."""

    vocabulary: Vocabulary
    labels: Vocabulary  # by the numbers that they were met with
    classes: Array
    numbers: Array  # of the labels, among the classes
    universe: Universe

    def read(self, pieces: Iterable[SequencePiece], sizes: Sequence[Size]) -> Iterator[Encoded]:
        """Yield the chunks of pieces; refuse what is not as it was when they were first read."""
        for piece, size in zip(pieces, sizes, strict=True):
            total = Size()
            for where, item in piece.items():
                with named(where):
                    chunk = encoded(item, self.vocabulary, self.labels, grow=False)
                del item
                total = total.plus(chunk.size)
                yield chunk
            if total != size:
                before, now = (_in_words(each) for each in (size, total))
                raise ValueError(f"{CHANGED}; there were {before}, now there are {now}")

    def __call__(self, some: Encoded) -> Sequences:
        """Return the data."""
        return some.sequences(self.universe, self.numbers)


def survey_piece(piece: SequencePiece) -> Found:
    """Return what there is to know of a piece."""
    found = Found()
    for chunk in found.read([piece]):
        found.count(chunk)
    for pairs in (found.pairs, found.steps):
        pairs.found()  # what travels is put together first
    return found


def together(some: Iterable[Found]) -> Found:
    """Return what there is to know of all pieces, in their order."""
    total = Found()
    for each in some:
        total.merge(each)
    return total


def encoded(item: Item, vocabulary: Vocabulary, labels: Vocabulary, *, grow: bool) -> Encoded:
    """Return what somebody yielded by the numbers of vocabularies."""
    X, y, weight = item
    if y is None:
        raise ValueError("there are no labels to learn from: yield (X, y)")
    tokens, codes = numbered(X, y, vocabulary, labels, grow=grow)
    if not grow and (codes == UNKNOWN).any():
        raise ValueError(CHANGED)
    return Encoded(tokens, codes, any_token_weights(weight, tokens.starts))


@contextmanager
def named(where: str) -> Iterator[None]:
    """Let errors begin with the name of a place."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as problem:
        raise type(problem)(f"{where}: {problem}") from None


def _kept(keys: Array, sums: Array, size: int, least: float, every: bool) -> Array:
    """Return the keys that have a weight, in rising order: see ``chain_features.observed_pairs``."""
    if least > 0:
        return np.sort(keys[sums >= least])
    return np.arange(size) if every else np.sort(keys)


def _in_words(size: Size) -> str:
    return f"{size.sequences} sequences of {size.tokens} tokens with {size.attributes} attributes"


# Bytes that a number of a record takes once its parameters are looked up, about.
BYTES = 24


class Prepared(NamedTuple):
    """Sequences ready to be fitted, what is known of them, and who adds up over them, if not the threads of a fit."""

    universe: Universe
    classes: Array
    vocabulary: Vocabulary
    data: Data
    tokens: int
    reducer: Reducer | None = None


def is_source(X: Any) -> bool:
    """Return whether something brings its own labels."""
    return isinstance(X, Source) or is_dask(X)


def source_of(X: Any) -> Chunks | DaskBag:
    """Return what sequences are read from."""
    if isinstance(X, Chunks):
        return X
    if is_bag(X):
        return DaskBag(X)
    raise TypeError(f"sequences are read from majorant.Chunks or a Dask bag, got {type(X).__name__}")


def in_memory(
    X: Any, y: Any, sample_weight: Any, lengths: Any, observed: Observed, completed: Completed, executor: Any
) -> Prepared:
    """Read sequences that are here; what was read on the way is let go of. Workers get their shares of them."""
    if y is None:
        raise TypeError("fit needs y, the labels of each sequence: only a source (majorant.Chunks) brings its own")
    vocabulary = Vocabulary()
    tokens, labels, classes = read_sequences(X, y, lengths, vocabulary)
    sizes = len(classes), len(vocabulary)
    if not isinstance(X, list | tuple):  # who has a list has its names in memory anyway
        vocabulary.pack()
    universe = completed(Universe.of(*observed(tokens, labels, *sizes), *sizes), classes)
    data = sequences(universe, tokens, labels, token_weights(sample_weight, tokens.starts)).compact()
    refuse_violations(data, classes)
    if executor is None:
        return Prepared(universe, classes, vocabulary, data, data.n_tokens)
    placed = shared_out(data, executor)
    return Prepared(universe, classes, vocabulary, placed.data, data.n_tokens, placed.reducer)


def from_source(X: Any, wanted: Wanted, executor: Any) -> Prepared:
    """Look at a source a first time, here or with workers, and return what there is to fit."""
    source = source_of(X)
    client = executor if hasattr(executor, "scheduler_info") else None
    if executor is None and isinstance(source, DaskBag):
        client = running_client()
    if client is not None:
        return on_dask(client, source, wanted)
    return here(source, wanted) if executor is None else with_executor(executor, source, wanted)


def here(source: Chunks | DaskBag, wanted: Wanted) -> Prepared:
    """Read everything once, and copy it as numbers where there is room; passes read these."""
    found, spool = Found(), ChunkCache()
    for record in prefetch(lambda: evened(found.read(source.pieces()), RECORD)):
        found.count(record)
        spool.add(record.arrays())
    encoding, sizes = found.encoding(wanted), found.sizes
    records = Records(spool, lambda: evened(encoding.read(source.pieces(), sizes), RECORD))
    data = StreamedSequences(records, encoding.universe, encoding.numbers, found.size, found.even)
    return Prepared(encoding.universe, encoding.classes, encoding.vocabulary, data, found.size.tokens)


def with_executor(executor: Executor, source: Chunks | DaskBag, wanted: Wanted) -> Prepared:
    """Let workers read everything once, and then hold their shares; what all need to know is in a file."""
    from majorant.core.remote import ExecutorBlocks

    pieces = source.pieces()
    found = together(executor.map(survey_piece, pieces))
    encoding = found.encoding(wanted)
    folder = Path(tempfile.mkdtemp(prefix="majorant-"))
    kept = EncodingFile.write(folder / "encoding", encoding)
    each = evenly(_with_sequences(pieces, found), SHARES_PER_WORKER * workers_of(executor))
    blocks = ExecutorBlocks(executor, [ShareOfSequences(kept, *_apart(some)) for some in each])
    weakref.finalize(blocks, rmtree, folder, ignore_errors=True)
    return _elsewhere(encoding, blocks, found)


def on_dask(client: Any, source: Chunks | DaskBag, wanted: Wanted) -> Prepared:
    """Let the workers of a cluster do the same; what all need to know is one value that their shares depend on."""
    from dask import delayed

    from majorant.core.remote import large_graphs

    pieces: Sequence[Any] = source.delayed_pieces() if isinstance(source, DaskBag) else source.pieces()
    found = together(client.gather(client.compute([delayed(survey_piece)(piece) for piece in pieces])))
    encoding = found.encoding(wanted)
    with large_graphs():
        known = client.compute(delayed(encoding, pure=False, traverse=False))

    def made(*pairs: tuple[Any, Size]) -> Any:
        some, sizes = _apart(pairs)
        return delayed(blocks_in_memory)(known, sizes, *some)

    blocks = held_on_dask(client, made, _with_sequences(pieces, found), BYTES * found.size.numbers)
    return _elsewhere(encoding, blocks, found)


def _with_sequences(pieces: Sequence[Any], found: Found) -> list[tuple[Any, Size]]:
    """Return the pieces that hold any sequences, each with its size: a share of the others would add up to nothing."""
    return [(piece, size) for piece, size in zip(pieces, found.sizes, strict=True) if size.sequences]


def _apart(pairs: Sequence[tuple[Any, Size]]) -> tuple[list[Any], list[Size]]:
    return [piece for piece, _ in pairs], [size for _, size in pairs]


def _elsewhere(encoding: Encoding, blocks: Any, found: Found) -> Prepared:
    data = RemoteRows(blocks, none_of(encoding.universe), found.size.sequences)
    tokens = found.size.tokens
    return Prepared(encoding.universe, encoding.classes, encoding.vocabulary, data, tokens)


@dataclass(frozen=True)
class EncodingFile:
    """Vocabulary and parameters in a file, which every worker reads once."""

    path: Path

    @classmethod
    def write(cls, path: Path, encoding: Encoding) -> EncodingFile:
        """Write them. Nobody but this process and its workers knows the folder."""
        path.write_bytes(pickle.dumps(encoding, protocol=pickle.HIGHEST_PROTOCOL))
        return cls(path)

    def read(self) -> Encoding:
        """Return them."""
        return _from_file(self.path)


@lru_cache(maxsize=1)
def _from_file(path: Path) -> Encoding:
    found: Encoding = pickle.loads(path.read_bytes())
    return found


@dataclass(frozen=True, eq=False)
class ShareOfSequences:
    """Some pieces of a source: a worker makes blocks of them, in memory, or in a file of its own if they are large."""

    encoding: EncodingFile
    pieces: Sequence[SequencePiece]
    sizes: Sequence[Size]

    def __call__(self) -> Iterable[Sequences]:
        """Return the blocks."""
        encoding = self.encoding.read()
        if BYTES * _sum(self.sizes).numbers <= LARGEST_SHARE:
            return blocks_in_memory(encoding, self.sizes, *self.pieces)
        records = Records.of(partial(encoding.read, self.pieces, self.sizes))
        data = StreamedSequences(records, encoding.universe, encoding.numbers, _sum(self.sizes))
        return data.blocks(len(data))


def blocks_in_memory(encoding: Encoding, sizes: Sequence[Size], *pieces: SequencePiece) -> list[Sequences]:
    """Return the blocks of some pieces."""
    chunks = encoding.read(pieces, sizes)
    return [encoding(some) for some in evened(chunks, block_numbers(encoding.universe, _sum(sizes)))]


def _sum(sizes: Sequence[Size]) -> Size:
    return Size(*(sum(each) for each in zip(*sizes, strict=True)))


Method = TypeVar("Method", bound=Callable[..., list[Any]])


def chunkwise(method: Method) -> Method:
    """Let a method of sequences take a source as well: what it returns for each chunk is put together."""

    @wraps(method)
    def of_sequences_or_source(self: Any, X: Any, lengths: Any = None) -> list[Any]:
        if not is_source(X):
            return method(self, X, lengths)
        refuse_beside(lengths=lengths)
        return list(chain.from_iterable(of_each_chunk(self, X, lambda item: method(self, item[0]))))

    return of_sequences_or_source  # type: ignore[return-value]


def of_each_chunk(model: Any, X: Any, function: Callable[[Item], Any]) -> Iterator[Any]:
    """Yield what a function makes of each chunk of a source; its errors name the place."""
    check_is_fitted(model, "_weights")
    for piece in source_of(X).pieces():
        for where, item in piece.items():
            with named(where):
                found = function(item)
            yield found


def share_right(model: Any, X: Any, y: Any, sample_weight: Any, lengths: Any) -> float:
    """Return the share of tokens that a model labels right, by weight."""
    if is_source(X):
        refuse_beside(y=y, sample_weight=sample_weight, lengths=lengths)
        found = list(of_each_chunk(model, X, lambda item: _right_and_all(model, *item)))
    else:
        X, y = X if lengths is None else split_rows(X, lengths), by_lengths(y, lengths)
        found = [_right_and_all(model, X, y, sample_weight)]
    right, total = (sum(each) for each in zip(*found, strict=True)) if found else (0.0, 0.0)
    if not total > 0:
        raise ValueError("there is no token of positive weight to score")
    return right / total


def _right_and_all(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[float, float]:
    """Return the weight of the tokens that are labelled right, and of all."""
    if y is None:
        raise ValueError("there are no labels to compare predictions with")
    X, y = list(X), [list(labels) for labels in y]
    check_lengths(X, y)
    starts = np.concatenate([[0], np.cumsum([len(labels) for labels in y], dtype=np.int64)])
    pairs = zip(chain.from_iterable(model.predict(X)), chain.from_iterable(y), strict=True)
    right = np.array([found == true for found, true in pairs], dtype=float)
    weight = any_token_weights(sample_weight, starts)
    if weight is None:
        return float(right.sum()), float(len(right))
    return float((weight * right).sum()), float(weight.sum())
