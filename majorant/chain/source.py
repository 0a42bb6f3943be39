"""Sequences of a fit or of predictions wherever they are: in memory, read pass by pass, or with workers.

A source (:class:`~majorant.Chunks` or a Dask bag) is read once to find attributes, labels, and the pairs that occur:
piece by piece what is found adds up (:class:`Found`), and says how sequences become data (:class:`Encoding`). What is
read is copied, as numbers, to a file that passes read from; workers keep blocks of their share in memory if they fit.
"""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.chain.feature_index import PairSums, Selection, Universe, observed_pairs, refuse_none
from majorant.chain.sequences import Sequences
from majorant.chain.streamed import RECORD, Encoded, Records, Size, StreamedSequences, block_numbers, evened, looked_up
from majorant.chain.tokens import (
    NO_LABEL,
    NO_WEIGHT,
    UNKNOWN,
    Vocabulary,
    inner_tokens,
    label_names,
    numbered,
    read_sequences,
    split_rows,
    token_weights,
)
from majorant.core.checks import Array
from majorant.core.remote import AtWorkers, Elsewhere
from majorant.core.rows import Data, Reducer
from majorant.estimators.source import (
    LARGEST_SHARE,
    SHARES_PER_WORKER,
    held_on_dask,
    refuse_beside,
    running_client,
    shared_out,
    workers_of,
)
from majorant.sources.base import Source
from majorant.sources.cache import ChunkCache, prefetch
from majorant.sources.chunks import Chunks, is_dask
from majorant.sources.streamed import evenly

# What a function yields: sequences, labels if there are any, weights if there are any.
Item: TypeAlias = tuple[Any, Any, Any]
# From the labels to how many states each has.
CountStates: TypeAlias = Callable[[Array], Array]
CHANGED = "the source has changed since it was first read: it must yield the same chunks every time"
# Bytes that a number of a record takes once its parameters are looked up, about.
BYTES = 24


class SequencePiece(Protocol):
    """Some sequences that can be read apart from the others, here or, since it can be pickled, by a worker."""

    def items(self) -> Iterator[tuple[str, Item]]:
        """Yield what there is, chunk by chunk, each with a name of its place: the same every time."""


# A piece of a source that holds sequences, and how much there is of it.
Sized: TypeAlias = tuple[SequencePiece, Size]


class Prepared(NamedTuple):
    """Sequences ready to be fitted, what is known of them, and who adds up over them, if not the threads of a fit."""

    universe: Universe
    classes: Array
    vocabulary: Vocabulary
    data: Data
    tokens: int
    reducer: Reducer | None = None


# --- sources --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DaskBag:
    """A Dask bag of pairs (tokens, labels), or, where nothing is to be learnt, of the tokens of sequences.

    Without a cluster its partitions are computed one after the other whenever they are read.
    """

    bag: Any

    def pieces(self) -> Sequence[SequencePiece]:
        """Return one piece for each partition, which is computed when it is read."""
        return [BagPartition(partition) for partition in self.delayed_pieces()]

    def delayed_pieces(self) -> list[Any]:
        """Return the pieces as values that Dask has yet to compute."""
        from dask import delayed

        make = delayed(Pairs, pure=True)
        return [make(f"partition {number}", part) for number, part in enumerate(self.bag.to_delayed())]


@dataclass(frozen=True, eq=False)
class Pairs:
    """A partition of a bag that is in memory, of this process or of a worker."""

    where: str
    elements: Any

    def items(self) -> Iterator[tuple[str, Item]]:
        elements = list(self.elements)
        if elements and all(isinstance(pair, tuple) and len(pair) == 2 for pair in elements):
            X, y = zip(*elements, strict=True)
            yield self.where, (X, y, None)
        elif elements:
            yield self.where, (elements, None, None)


@dataclass(frozen=True, eq=False)
class BagPartition:
    """A partition of a bag that is computed whenever it is read."""

    pairs: Any

    def items(self) -> Iterator[tuple[str, Item]]:
        yield from self.pairs.compute().items()


def is_source(X: Any) -> bool:
    """Return whether something brings its own labels."""
    return isinstance(X, Source) or is_dask(X)


def source_of(X: Any) -> Chunks | DaskBag:
    """Return what sequences are read from."""
    if isinstance(X, Chunks):
        return X
    if is_dask(X) and type(X).__name__ == "Bag":
        return DaskBag(X)
    raise TypeError(f"sequences are read from majorant.Chunks or a Dask bag, got {type(X).__name__}")


@contextmanager
def named(where: str) -> Iterator[None]:
    """Let errors begin with the name of a place."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as problem:
        raise type(problem)(f"{where}: {problem}") from None


# --- the first look at a source -------------------------------------------------------------------------------


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

    def read(self, pieces: Iterable[SequencePiece]) -> Iterator[Encoded]:
        """Yield the chunks of pieces, by vocabularies that grow."""
        for piece in pieces:
            self.sizes.append(Size())
            for where, item in piece.items():
                with named(where):
                    chunk = encoded(item, self.vocabulary, self.labels, grow=True)
                    label_names(self.labels)
                self.sizes[-1] = Size.total([self.sizes[-1], chunk.size])
                del item  # it is far larger than its numbers
                yield chunk

    def count(self, chunk: Encoded) -> None:
        """Add the pairs that occur in some sequences."""
        y, weight, after = chunk.y, chunk.weight, inner_tokens(chunk.starts)
        self.pairs.add(chunk.attributes, np.repeat(y, np.diff(chunk.indptr).astype(np.int64)), chunk.values)
        self.steps.add(y[after - 1], y[after])
        self.weight += float(len(y) if weight is None else weight.sum())
        if weight is not None:
            self.even &= bool((weight[after] == weight[after - 1]).all())

    def merge(self, other: Found) -> None:
        """Add what was found by another worker, by numbers of its own."""
        if other.vocabulary.columns is not None:
            self.vocabulary.check_columns(other.vocabulary.columns, grow=True)
        attributes = np.fromiter(self.vocabulary.numbers(other.vocabulary.names(), grow=True), dtype=np.int64)
        labels = np.fromiter(self.labels.numbers(other.labels.names(), grow=True), dtype=np.int64)
        label_names(self.labels)
        for ours, theirs, numbers in ((self.pairs, other.pairs, attributes), (self.steps, other.steps, labels)):
            first, second, sums = theirs.found()
            ours.add(numbers[first], labels[second], sums)
        self.sizes += other.sizes
        self.weight += other.weight
        self.even &= other.even

    def encoding(self, selection: Selection, count_states: CountStates) -> Encoding:
        """Return how sequences become data, now that all have been seen."""
        if not Size.total(self.sizes).tokens:
            raise ValueError(f"{NO_LABEL}, every chunk of the source is empty")
        if not self.weight > 0:
            raise ValueError(NO_WEIGHT)
        names = label_names(self.labels)
        classes = np.unique(names)
        numbers, n, m = np.searchsorted(classes, names).astype(np.int32), len(classes), len(self.vocabulary)

        def selected(keys: Array, sums: Array, size: int, all_pairs: bool) -> Array:
            """Return the keys that have a weight, in rising order, as ``observed_pairs`` does."""
            if selection["min_freq"] > 0:
                return np.sort(keys[sums >= selection["min_freq"]])
            return np.arange(size) if all_pairs else np.sort(keys)

        first, second, sums = self.pairs.found()
        pairs = selected(first * n + numbers[second], sums, m * n, selection["all_states"])
        first, second, sums = self.steps.found()
        between = numbers[first].astype(np.int64) * n + numbers[second]
        steps = selected(between, sums, n * n, selection["all_transitions"])
        universe = Universe.of(*refuse_none(pairs, steps), n, m).with_states(count_states(classes))
        return Encoding(self.vocabulary, self.labels, classes, numbers, universe)


@dataclass(frozen=True, eq=False)
class Encoding:
    """What everybody has to know who reads sequences."""

    vocabulary: Vocabulary
    labels: Vocabulary  # by the numbers that they were met with
    classes: Array
    numbers: Array  # of the labels, among the classes
    universe: Universe

    def read(self, pieces: Iterable[Sized]) -> Iterator[Encoded]:
        """Yield the chunks of pieces; refuse what is not as it was when they were first read."""
        for piece, size in pieces:
            total = Size()
            for where, item in piece.items():
                with named(where):
                    chunk = encoded(item, self.vocabulary, self.labels, grow=False)
                del item
                total = Size.total([total, chunk.size])
                yield chunk
            if total != size:
                before, now = (
                    f"{s.sequences} sequences of {s.tokens} tokens with {s.attributes} attributes"
                    for s in (size, total)
                )
                raise ValueError(f"{CHANGED}; there were {before}, now there are {now}")

    def blocks(self, pieces: Sequence[Sized]) -> list[Sequences]:
        """Return the sequences of some pieces in blocks, in memory."""
        numbers = block_numbers(self.universe, Size.total(size for _, size in pieces))
        return [looked_up(block, self.universe, self.numbers) for block in evened(self.read(pieces), numbers)]

    def prepared(self, data: Data, found: Found, reducer: Reducer | None = None) -> Prepared:
        """Return data that are ready to be fitted."""
        tokens = Size.total(found.sizes).tokens
        return Prepared(self.universe, self.classes, self.vocabulary, data, tokens, reducer)


def encoded(item: Item, vocabulary: Vocabulary, labels: Vocabulary, *, grow: bool) -> Encoded:
    """Return what a source yields by the numbers of vocabularies."""
    X, y, weight = item
    if y is None:
        raise ValueError("there are no labels to learn from: yield (X, y)")
    tokens, codes = numbered(X, y, vocabulary, labels, grow=grow)
    if not grow and (codes == UNKNOWN).any():
        raise ValueError(CHANGED)
    weights = token_weights(weight, tokens.starts, all_zero=True)
    return Encoded(tokens.starts, tokens.indptr, tokens.attributes, tokens.values, codes, weights)


def survey_piece(piece: SequencePiece) -> Found:
    """Return what there is to know of a piece."""
    found = Found()
    for chunk in found.read([piece]):
        found.count(chunk)
    for pairs in (found.pairs, found.steps):
        pairs.found()  # what travels is put together first
    return found


# --- where sequences are while they are fitted ----------------------------------------------------------------


def in_memory(
    X: Any, y: Any, sample_weight: Any, lengths: Any, selection: Selection, count_states: CountStates, executor: Any
) -> Prepared:
    """Return sequences in memory; what was read on the way is let go of. Workers get their shares of them."""
    if y is None:
        raise TypeError("fit needs y, the labels of each sequence: only a source (majorant.Chunks) brings its own")
    vocabulary = Vocabulary()
    tokens, labels, classes = read_sequences(X, y, lengths, vocabulary)
    sizes = len(classes), len(vocabulary)
    if not isinstance(X, list | tuple):  # who has a list has its names in memory anyway
        vocabulary.pack()
    universe = Universe.of(*observed_pairs(tokens, labels, *sizes, **selection), *sizes)
    universe = universe.with_states(count_states(classes))
    data = Sequences.from_tokens(universe, tokens, labels, token_weights(sample_weight, tokens.starts)).compact()
    if executor is None:
        return Prepared(universe, classes, vocabulary, data, data.n_tokens)
    placed = shared_out(data, executor)
    return Prepared(universe, classes, vocabulary, placed.data, data.n_tokens, placed.reducer)


def from_source(X: Any, selection: Selection, count_states: CountStates, executor: Any) -> Prepared:
    """Look at a source a first time, in this process or with workers, and return what there is to fit."""
    source = source_of(X)
    client = executor if hasattr(executor, "scheduler_info") else None
    if executor is None and isinstance(source, DaskBag):
        client = running_client()
    if client is not None:
        return _on_dask(client, source, selection, count_states)
    pieces = source.pieces()
    if executor is not None:
        return _with_executor(executor, pieces, selection, count_states)
    found, cache = Found(), ChunkCache()
    for record in prefetch(lambda: evened(found.read(pieces), RECORD)):
        found.count(record)
        cache.add(record.arrays())
    encoding, sized = found.encoding(selection, count_states), list(zip(pieces, found.sizes, strict=True))
    records = Records(lambda: encoding.read(sized), cache)
    size = Size.total(found.sizes)
    return encoding.prepared(StreamedSequences(records, encoding.universe, encoding.numbers, size, found.even), found)


def _with_executor(
    executor: Executor, pieces: Sequence[SequencePiece], selection: Selection, count_states: CountStates
) -> Prepared:
    """Let workers read everything once, and then hold their shares; what all need to know is in a file."""
    from majorant.core.remote import ExecutorBlocks

    found, sized = _merged(executor.map(survey_piece, pieces), pieces)
    encoding = found.encoding(selection, count_states)
    folder = Path(tempfile.mkdtemp(prefix="majorant-"))
    path = folder / "encoding"  # which only this process and its workers know
    path.write_bytes(pickle.dumps(encoding, protocol=pickle.HIGHEST_PROTOCOL))
    shares = evenly(sized, SHARES_PER_WORKER * workers_of(executor))
    blocks = ExecutorBlocks(executor, [ShareOfSequences(path, share) for share in shares])
    weakref.finalize(blocks, rmtree, folder, ignore_errors=True)
    return _at_workers(encoding, blocks, found)


def _on_dask(client: Any, source: Chunks | DaskBag, selection: Selection, count_states: CountStates) -> Prepared:
    """Let the workers of a cluster do the same; what all need to know is one value that their shares depend on."""
    from dask import delayed

    from majorant.core.dask import large_graphs

    pieces: Sequence[Any] = source.delayed_pieces() if isinstance(source, DaskBag) else source.pieces()
    surveys = client.gather(client.compute([delayed(survey_piece)(piece) for piece in pieces]))
    found, sized = _merged(surveys, pieces)
    encoding = found.encoding(selection, count_states)
    with large_graphs():
        known = client.compute(delayed(encoding, pure=False, traverse=False))
    size = BYTES * Size.total(found.sizes).numbers
    blocks = held_on_dask(client, lambda *share: delayed(Encoding.blocks)(known, list(share)), sized, size)
    return _at_workers(encoding, blocks, found)


def _merged(surveys: Iterable[Found], pieces: Sequence[Any]) -> tuple[Found, list[tuple[Any, Size]]]:
    """Return what there is to know of all pieces, and those that hold sequences with their sizes."""
    found = Found()
    for survey in surveys:
        found.merge(survey)
    sized = zip(pieces, found.sizes, strict=True)
    return found, [(piece, size) for piece, size in sized if size.sequences]  # no sum has nothing to add up


def _at_workers(encoding: Encoding, blocks: Any, found: Found) -> Prepared:
    """Return sequences that workers hold; none of them shows what parameters they have."""
    nothing, start = np.empty(0, dtype=np.uint32), np.zeros(1, dtype=np.int64)
    none = Sequences.of(encoding.universe, start, start.astype(np.uint32), nothing, None, nothing.astype(np.int32))
    return encoding.prepared(Elsewhere(blocks, none, Size.total(found.sizes).sequences), found, AtWorkers())


@dataclass(frozen=True, eq=False)
class ShareOfSequences:
    """Some pieces of a source: a worker makes blocks of them, in memory, or in a file of its own if they are large."""

    path: Path  # of the encoding
    pieces: Sequence[Sized]
    fits: bool = True  # what is in memory of them

    def __call__(self) -> Iterable[Sequences]:
        """Return the blocks."""
        encoding, size = _encoding_in(self.path), Size.total(size for _, size in self.pieces)
        if BYTES * size.numbers <= LARGEST_SHARE:
            return encoding.blocks(self.pieces)
        records = Records.copied(lambda: encoding.read(self.pieces))
        data = StreamedSequences(records, encoding.universe, encoding.numbers, size)
        return data.blocks(len(data))


@lru_cache(maxsize=1)
def _encoding_in(path: Path) -> Encoding:
    encoding: Encoding = pickle.loads(path.read_bytes())
    return encoding


# --- predictions ----------------------------------------------------------------------------------------------

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


def accuracy(model: Any, X: Any, y: Any, sample_weight: Any, lengths: Any) -> float:
    """Return the share of tokens that a model labels right, by weight."""

    def right_and_all(item: Item) -> tuple[float, float]:
        """Return the weight of the tokens that are labelled right, and of all."""
        X, y, sample_weight = item
        if y is None:
            raise ValueError("there are no labels to compare predictions with")
        X, y = list(X), [list(labels) for labels in y]
        if len(X) != len(y):
            raise ValueError(f"X and y must have equally many sequences, got {len(X)} and {len(y)}")
        for j, (sequence, labels) in enumerate(zip(X, y, strict=True)):
            tokens = sequence.shape[0] if hasattr(sequence, "shape") else len(sequence)
            if tokens != len(labels):
                raise ValueError(f"sequence {j} has {tokens} tokens but {len(labels)} labels")
        starts = np.concatenate([[0], np.cumsum([len(labels) for labels in y], dtype=np.int64)])
        pairs = zip(chain.from_iterable(model.predict(X)), chain.from_iterable(y), strict=True)
        right = np.array([predicted == label for predicted, label in pairs], dtype=float)
        weight = token_weights(sample_weight, starts, all_zero=True)
        weight = np.ones(len(right)) if weight is None else weight
        return float(weight @ right), float(weight.sum())

    if is_source(X):
        refuse_beside(y=y, sample_weight=sample_weight, lengths=lengths)
        counts = list(of_each_chunk(model, X, right_and_all))
    else:
        counts = [right_and_all((X if lengths is None else split_rows(X, lengths), y, sample_weight))]
    right, total = (sum(numbers) for numbers in zip(*counts, strict=True)) if counts else (0.0, 0.0)
    if not total > 0:
        raise ValueError("there is no token of positive weight to score")
    return right / total
