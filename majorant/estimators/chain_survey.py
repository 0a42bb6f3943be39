"""The first look at sequences that need not fit in memory: their attributes, labels, and the pairs that occur."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from majorant._checks import Array
from majorant.data.encoded import Encoded, Size
from majorant.data.pair_sums import PairSums
from majorant.data.sequences import Sequences, inner_tokens
from majorant.data.universe import Universe
from majorant.data.vocabulary import UNKNOWN, Vocabulary
from majorant.estimators.chain_features import (
    NO_LABEL,
    NO_WEIGHT,
    any_token_weights,
    label_names,
    numbered,
    refuse_none,
)
from majorant.sources.sequences import Item, SequencePiece

# From the labels to how many states each has.
ManyStates: TypeAlias = Callable[[Array], Array]
CHANGED = "the source has changed since it was first read: it must yield the same chunks every time"


@dataclass(frozen=True)
class Wanted:
    """Which pairs have a weight, as the settings of an estimator say it."""

    min_freq: float
    all_states: bool
    all_transitions: bool
    states: ManyStates


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
                self.sizes[-1] = self.sizes[-1].plus(chunk.size)
                del item  # it is far larger than its numbers
                yield chunk

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
        universe = Universe.of(*refuse_none(pairs, steps), n, m).with_states(wanted.states(classes))
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
