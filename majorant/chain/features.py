"""What a chain has learnt: weights from a fit, and weights of a stream, which grow.

What the sequences of a user say of features: tokens and labels as numbers, and which pairs have a weight.

Chains as files.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, zip_longest
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from majorant.chain.crfsuite import Tables
from majorant.chain.feature_index import GrowingUniverse, Stack, Universe
from majorant.chain.model import Chain
from majorant.chain.sequences import Sequences, inner_tokens
from majorant.chain.tokens import Encoder, Tokens, Vocabulary, is_pair, split_rows
from majorant.core.ascent import OnlineStream
from majorant.core.checks import Array, refuse_null_ending
from majorant.device.estimators import is_tensor, to_array
from majorant.estimators import saving
from majorant.estimators.saving import LABELS, Field, Notes, Saved, Written, are_positive, are_rising

# From tokens, labels, and numbers of labels and attributes to the pairs and steps that have a weight.
Observed: TypeAlias = Callable[[Tokens, Array, int, int], tuple[Array, Array]]


class Weights(NamedTuple):
    """Parameters, one for each of a universe, and their precision, if they come from a stream."""

    universe: Universe
    theta: Array
    precision: Array | None = None

    def states(self, names: list[str], labels: list[Any]) -> dict[tuple[str, Any], float]:
        """Return the weight of each pair of attribute and label."""
        n, pairs = self.universe.n, self.universe.pairs.tolist()
        return {(names[k // n], labels[k % n]): w for k, w in zip(pairs, self.theta.tolist(), strict=False)}

    def tables(self, labels: list[str], attributes: list[str]) -> Tables:
        """Return the weights as a file of CRFsuite has them: only attributes that have a weight are named."""
        universe, states = self.universe, self.theta[: len(self.universe.label)]
        pairs = universe.pairs[states != 0]
        kept, places = np.unique(pairs // universe.n, return_inverse=True)
        return Tables(
            labels,
            [attributes[k] for k in kept.tolist()],
            np.column_stack([places, pairs % universe.n]),
            states[states != 0],
            universe.transitions,
            self.theta[len(universe.label) :],
        )

    def transitions(self, labels: list[Any]) -> dict[tuple[Any, Any], float]:
        """Return the weight of each pair of label and next label."""
        steps, weights = self.universe.transitions.tolist(), self.theta[len(self.universe.label) :].tolist()
        return {(labels[i], labels[j]): w for (i, j), w in zip(steps, weights, strict=True)}


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """Those of a fit, which stay as they are."""

    universe: Universe
    theta: Array

    def whole(self) -> Weights:
        """Return all of them."""
        return Weights(self.universe, self.theta)

    def for_tokens(self, tokens: Tokens) -> tuple[Weights, Tokens]:
        """Return weights that score these tokens, and the tokens by their numbers."""
        # A table makes scores faster, and takes as long to make as so many tokens.
        few = len(tokens.indptr) <= self.universe.tabled
        return Weights(self._without_table if few else self.universe, self.theta), tokens

    def without_zeros(self, vocabulary: Vocabulary) -> tuple[FittedWeights, Vocabulary]:
        """Return the weights that are not zero, and the attributes that have any; columns of a matrix keep theirs."""
        universe, names = self.universe, vocabulary.names()
        states, steps = np.split(self.theta, [len(universe.label)])
        pairs = universe.pairs[states != 0]
        if vocabulary.columns is None:
            kept, places = np.unique(pairs // universe.n, return_inverse=True)
            pairs, names = places * universe.n + pairs % universe.n, [names[k] for k in kept.tolist()]
        order = np.argsort(pairs)
        few = Universe.of(pairs[order], universe.steps[steps != 0], universe.n, len(names))
        few = replace(few, allowed=universe.allowed)
        weights = states[states != 0][order][np.searchsorted(pairs[order], few.pairs)]
        return FittedWeights(few, np.concatenate([weights, steps[steps != 0]])), Vocabulary(names, vocabulary.columns)

    @cached_property
    def _without_table(self) -> Universe:
        return replace(self.universe, tabled=0)


def from_tables(tables: Tables) -> tuple[FittedWeights, Array, Vocabulary]:
    """Return weights, classes and attributes of a file of CRFsuite."""
    classes = np.unique(tables.labels)
    if len(classes) < len(tables.labels) or len(set(tables.attributes)) < len(tables.attributes):
        raise ValueError("the file names a label or an attribute twice")
    n, number = len(classes), np.searchsorted(classes, tables.labels)
    pairs = tables.states[:, 0].astype(np.int64) * n + number[tables.states[:, 1]]
    steps = number[tables.transitions[:, 0]] * n + number[tables.transitions[:, 1]]
    if len(np.unique(pairs)) < len(pairs) or len(np.unique(steps)) < len(steps):
        raise ValueError("the file has several weights for one feature")
    order, of_steps = np.argsort(pairs), np.argsort(steps)
    universe = Universe.of(pairs[order], steps[of_steps], n, len(tables.attributes))
    places = np.searchsorted(pairs[order], universe.pairs)
    theta = np.concatenate([tables.state_weights[order][places], tables.transition_weights[of_steps]])
    return FittedWeights(universe, theta), classes, Vocabulary(tables.attributes)


class StreamedWeights:
    """Those of a stream over n labels: each chunk adds some, and changes those that it meets, in place."""

    def __init__(self, n: int) -> None:
        self._universe = GrowingUniverse(n)
        self._theta, self._precision = Stack(np.float64), Stack(np.float64)
        self._before: tuple[Array, Array, Array] | None = None  # what the last chunk has changed: where, and from what

    @classmethod
    def of(cls, weights: Weights) -> StreamedWeights:
        """Return a stream that goes on from these."""
        universe, stream = weights.universe, cls(weights.universe.n)
        every = np.arange(universe.n_attributes)
        stream._grow(every, np.sort(universe.pairs), universe.steps, len(every), prior=0.0)
        places = stream._universe.part(every)[1]
        stream._theta.values[places], stream._precision.values[places] = weights.theta, weights.precision
        return stream

    def whole(self) -> Weights:
        """Return all of them."""
        return self._of(np.arange(self._universe.n_attributes))[0]

    def for_tokens(self, tokens: Tokens) -> tuple[Weights, Tokens]:
        """Return the weights of the attributes of these tokens, and the tokens by their numbers there."""
        attributes, tokens = _met_attributes(tokens, np.empty(0, dtype=np.int64), self._universe.n_attributes)
        return self._of(attributes)[0], tokens

    def learn(
        self, tokens: Tokens, y: Array, weight: Array | None, observed: Observed, n_attributes: int, prior: float
    ) -> None:
        """Take a step at every sequence, in order. It costs what the sequences hold, however much is known by now."""
        new = np.arange(self._universe.n_attributes, n_attributes)  # some may have a name only, as columns of zeros do
        attributes, tokens = _met_attributes(tokens, new, n_attributes)
        self._grow(attributes, *observed(tokens, y, self._universe.n, len(attributes)), n_attributes, prior)
        (universe, theta, precision), places = self._of(attributes)
        assert precision is not None
        data = sequences(universe, tokens, y, weight)
        after = OnlineStream(Chain(), theta, precision).learn(data, np.arange(len(data)))
        if not np.isfinite(after.theta).all():
            raise ValueError("these sequences make weights that are not finite: scale their values down")
        self._before = places, theta, precision
        self._write(places, after.theta, after.precision)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Put everything back as it was if the block fails."""
        size, n_attributes, self._before = len(self._universe), self._universe.n_attributes, None
        try:
            yield
        except BaseException:
            if self._before is not None:
                self._write(*self._before)
            self._universe.cut(size, n_attributes)
            self._theta.cut(size)
            self._precision.cut(size)
            raise
        finally:
            self._before = None

    def _of(self, attributes: Array) -> tuple[Weights, Array]:
        universe, places = self._universe.part(attributes)
        return Weights(universe, self._theta.values[places], self._precision.values[places]), places

    def _write(self, places: Array, theta: Array, precision: Array) -> None:
        self._theta.values[places], self._precision.values[places] = theta, precision

    def _grow(self, attributes: Array, pairs: Array, steps: Array, n_attributes: int, prior: float) -> None:
        self._universe.grow(attributes, pairs, steps, n_attributes)
        new = len(self._universe) - len(self._theta)
        self._theta.extend(np.zeros(new))
        self._precision.extend(np.full(new, prior))


def _met_attributes(tokens: Tokens, more: Array, n_attributes: int) -> tuple[Array, Tokens]:
    """Return the attributes of tokens and some more, in rising order, and the tokens by their places there."""
    every = np.concatenate([tokens.attributes, more])
    if len(every) < n_attributes:
        attributes, places = np.unique(every, return_inverse=True)
    else:  # a table of all that are known is faster, and no larger than the tokens
        met = np.zeros(n_attributes, dtype=bool)
        met[every] = True
        attributes, places = np.flatnonzero(met), (np.cumsum(met) - 1)[every]
    return attributes, replace(tokens, attributes=places[: len(tokens.attributes)].astype(np.uint32))


MISSING: Any = object()
NO_LABEL = "y holds no label: there is nothing to learn from"
NO_WEIGHT = "sample_weight must not be zero everywhere: no token would count"
# Keys, and the value of each; without values all are ones.
Occurrences: TypeAlias = tuple[Array, Array | None]
# Tokens whose occurrences of attributes are counted at a time.
SOME_TOKENS = 20_000
# Counts of all pairs that there could be are kept up to here.
LARGEST_TABLE = 2**28


def read_sequences(
    X: Any, y: Any, lengths: Any, vocabulary: Vocabulary, known: Array | None = None
) -> tuple[Tokens, Array, Array]:
    """Return tokens, labels by number, and the classes: those known, or all labels. X and y are read once."""
    number = Vocabulary()
    tokens, codes = numbered(_split(X, lengths), by_lengths(y, lengths), vocabulary, number, grow=True)
    if not len(codes):
        raise ValueError(NO_LABEL)
    names = label_names(number)
    classes = np.unique(names) if known is None else known
    unknown = np.setdiff1d(names, classes)
    if len(unknown):
        raise ValueError(f"y holds labels that were not named at the first call: {unknown}; known are {classes}")
    return tokens, np.searchsorted(classes, names)[codes].astype(np.int32), classes


def numbered(X: Any, y: Any, vocabulary: Vocabulary, labels: Vocabulary, *, grow: bool) -> tuple[Tokens, Array]:
    """Return tokens and their labels by the numbers of two vocabularies, which may grow. X and y are read once."""
    encoder, codes = Encoder(vocabulary, grow), array("I")
    for j, (tokens, names) in enumerate(zip_longest(X, y, fillvalue=MISSING)):
        if tokens is MISSING or names is MISSING:
            raise ValueError(f"X and y must have equally many sequences, but one of them ends after {j}")
        length, before = encoder.add(tokens), len(codes)
        try:
            codes.extend(labels.numbers(names, grow))
        except TypeError as problem:
            if "unhashable" not in str(problem):
                raise
            raise TypeError(
                f"sequence {j} has a label that is a collection: labels known in part need X and y as lists, "
                "and ChainCRF.fit"
            ) from None
        if len(codes) - before != length:
            raise ValueError(f"sequence {j} has {length} tokens but {len(codes) - before} labels")
    return encoder.finish(), np.array(codes, dtype=np.uint32)


def observed_pairs(
    tokens: Tokens,
    y: Array,
    n: int,
    n_attributes: int,
    *,
    min_freq: float,
    all_states: bool,
    all_transitions: bool,
    columns: int = 0,
) -> tuple[Array, Array]:
    """Return the pairs attribute·n + label and from·n + to that have a parameter, in rising order.

    The first ``columns`` attributes are those of a matrix, which have one with every label.
    """
    pairs = _kept(_pairs(tokens, y, n), n_attributes * n, min_freq, all_states)
    if columns:
        pairs = np.union1d(np.arange(columns * n), pairs)
    steps = _kept([(_steps(tokens, y, n), None)], n * n, min_freq, all_transitions)
    return refuse_none(pairs, steps)


def refuse_none(pairs: Array, steps: Array) -> tuple[Array, Array]:
    """Return both, of which one at least must have something in it."""
    if len(pairs) + len(steps) == 0:
        raise ValueError(
            "no feature is left: tokens have no attributes, or the values of each sum to less than min_freq"
        )
    return pairs, steps


def label_names(labels: Vocabulary) -> Array:
    """Return labels as an array; they are strings, or they are numbers."""
    names: list[Any] = labels.names()
    strings = [isinstance(name, str) for name in names]
    numbers = [isinstance(name, bool | int | float | np.number | np.bool_) for name in names]
    if not all(strings) and not all(numbers):
        odd = next(name for name, s, k in zip(names, strings, numbers, strict=True) if not (s if any(strings) else k))
        raise TypeError(f"labels must be all strings or all numbers, got {odd!r}")
    refuse_null_ending("y", names)
    if any(name != name for name in names):
        raise ValueError("y holds NaN, which is no label: leave out what has none, or name it, as in 'unknown'")
    return np.asarray(names)


def _split(X: Any, lengths: Any) -> Any:
    return X if lengths is None else split_rows(X, lengths)


def by_lengths(y: Any, lengths: Any) -> Any:
    """Return the labels of each sequence: labels of all tokens in a row are cut by the lengths, others stay."""
    if y is None or lengths is None:
        return y
    counts, flat = np.asarray(to_array(lengths), dtype=np.int64), y
    if is_tensor(y) or hasattr(y, "__array__"):
        flat = np.asarray(to_array(y))
        flat = flat.tolist() if flat.dtype == object else flat
    if isinstance(flat, np.ndarray):
        in_a_row = flat.ndim == 1
    else:  # a string may be a label, or the labels of a sequence
        in_a_row = isinstance(flat, list | tuple) and len(flat) == counts.sum()
        in_a_row = in_a_row and not any(isinstance(label, list | tuple) or np.ndim(label) for label in flat)
    if not in_a_row:
        return y
    if len(flat) != counts.sum():
        raise ValueError(f"y has {len(flat)} labels, but lengths sum to {counts.sum()}")
    ends = np.cumsum(counts).tolist()
    return [flat[begin:end] for begin, end in pairwise([0, *ends])]


def sequences(universe: Universe, tokens: Tokens, y: Array, weight: Array | None) -> Sequences:
    """Return encoded tokens as sequences of a universe."""
    attributes = universe.number[tokens.attributes]
    return Sequences.of(universe, tokens.starts, tokens.indptr, attributes, tokens.values, y, weight)


def _pairs(tokens: Tokens, y: Array, n: int) -> Iterator[Occurrences]:
    """Yield the pair attribute·n + label of every occurrence, and its value, some tokens at a time."""
    for begin in range(0, len(y), SOME_TOKENS):
        ends = tokens.indptr[begin : begin + SOME_TOKENS + 1]
        labels = np.repeat(y[begin : begin + SOME_TOKENS], np.diff(ends).astype(np.int64))
        here = slice(ends[0], ends[-1])
        yield (
            tokens.attributes[here].astype(np.int64) * n + labels,
            None if tokens.values is None else tokens.values[here],
        )


def _steps(tokens: Tokens, y: Array, n: int) -> Array:
    """Return the pair from·n + to of every token that follows another."""
    after = inner_tokens(tokens.starts)
    return y[after - 1].astype(np.int64) * n + y[after]


def _kept(some: Iterable[Occurrences], size: int, least: float, every: bool) -> Array:
    """Return the keys that occur, or all of them; above a frequency of 0, those whose values sum to that."""
    if least > 0:
        return _frequent(some, size, least)
    return np.arange(size) if every else _seen((keys for keys, _ in some), size)


def _seen(some: Iterable[Array], size: int) -> Array:
    if size > LARGEST_TABLE:
        return np.unique(np.concatenate([np.unique(keys) for keys in some]))
    seen = np.zeros(size, dtype=bool)
    for keys in some:
        seen[keys] = True
    return np.flatnonzero(seen)


def _frequent(some: Iterable[Occurrences], size: int, least: float) -> Array:
    keys, values = (np.concatenate(each) for each in zip(*((k, _ones_or(k, v)) for k, v in some), strict=True))
    if size > LARGEST_TABLE:
        found, place = np.unique(keys, return_inverse=True)
        return found[np.bincount(place, weights=values) >= least]
    return np.flatnonzero(np.bincount(keys, weights=values, minlength=size) >= least)


def _ones_or(keys: Array, values: Array | None) -> Array:
    return np.ones(len(keys)) if values is None else values


def token_weights(sample_weight: Any, starts: Array) -> Array | None:
    """Return the weight of each token, from one for each sequence or one for each token: some must weigh something."""
    whole = any_token_weights(sample_weight, starts)
    if whole is not None and len(whole) and not whole.any():
        raise ValueError(NO_WEIGHT)
    return whole


def any_token_weights(sample_weight: Any, starts: Array) -> Array | None:
    """Return the same; all may be zero."""
    if sample_weight is None:
        return None
    given, lengths = list(sample_weight), np.diff(starts)
    if len(given) != len(lengths):
        raise ValueError(
            f"sample_weight must have one entry for each of the {len(lengths)} sequences, got {len(given)}"
        )
    each = [np.asarray(weight, dtype=np.float64) for weight in given]
    for j, (weight, length) in enumerate(zip(each, lengths, strict=True)):
        if weight.ndim and weight.shape != (length,):
            raise ValueError(f"sample_weight of sequence {j} must be a number or {length} of them, got {weight.shape}")
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(f"sample_weight must be finite and non-negative, got {weight!r:.80} for sequence {j}")
    return np.concatenate([np.broadcast_to(w, (m,)) for w, m in zip(each, lengths, strict=True)] or [np.empty(0)])


def check_lengths(X: list[Any], y: list[list[Any]], names: tuple[str, str] = ("X", "y")) -> None:
    """Raise if a sequence and its labels differ in length."""
    if len(X) != len(y):
        raise ValueError(f"{names[0]} and {names[1]} must have equally many sequences, got {len(X)} and {len(y)}")
    for j, (sequence, labels) in enumerate(zip(X, y, strict=True)):
        matrix = sequence[0] if is_pair(sequence) else sequence
        tokens = matrix.shape[0] if hasattr(matrix, "shape") else len(matrix)
        if tokens != len(labels):
            raise ValueError(f"sequence {j} of {names[0]} has {tokens} tokens but {len(labels)} labels")


# A label is a number below this, and a stream keeps a table of all pairs of labels.
MOST_STATES, MOST_STREAMED = 2**16, 2**13


class ChainFiles(Saved):
    """``save`` and ``load``, for a chain."""

    _learnt = "_weights"
    _fields: ClassVar[dict[str, Field]] = {
        "classes": Field(LABELS, ("classes",), are_rising),
        "states": Field("iu", ("classes",), are_positive, needed=False),
        **saving.names_fields("attributes"),
        "pairs": Field("iu", ("pairs",), are_rising),
        "steps": Field("iu", ("steps",), are_rising),
        "forbidden": Field("iu", ("forbidden",), are_rising, needed=False),
        "theta": Field("f", (lambda lengths: lengths["pairs"] + lengths["steps"],)),
        "metric": Field("f", (lambda lengths: lengths["pairs"] + lengths["steps"],), are_positive, needed=False),
    }

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        saving.restore_ending(self, facts)
        self.gap_ = self.result_.gap
        names, classes = saving.unpacked(arrays), arrays["classes"]
        theta = arrays["theta"].astype(np.float64, copy=False)
        states, precision = arrays.get("states", np.ones(len(classes), dtype=np.int64)), arrays.get("metric")
        n = _count_states(states, len(theta), stream=precision is not None)
        for name, size in (("pairs", len(names) * n), ("steps", n * n)):
            _refuse_beyond(name, arrays[name], size)
        vocabulary = Vocabulary(names)
        if len(vocabulary) < len(names):
            raise ValueError("the array 'names' holds duplicates")
        universe = Universe.of(arrays["pairs"].astype(np.int64), arrays["steps"].astype(np.int64), n, len(names))
        if "forbidden" in arrays:
            _refuse_beyond("forbidden", arrays["forbidden"], (n + 1) ** 2)
            allowed = np.ones((n + 1) ** 2, dtype=bool)
            allowed[arrays["forbidden"]] = False
            universe = replace(universe, allowed=allowed.reshape(n + 1, n + 1))
        fitted = precision is None
        weights = FittedWeights(universe, theta) if fitted else StreamedWeights.of(Weights(universe, theta, precision))
        self._keep(weights, classes, vocabulary)
        self._take_up(states)

    def _written(self: Any, notes: Notes) -> Written:
        universe, theta, precision = self._weights.whole()
        arrays = {
            "theta": theta,
            "classes": self.classes_,
            "pairs": np.sort(universe.pairs),
            "steps": universe.steps,
            **saving.packed(self._vocabulary.names()),
        }
        if universe.n > len(self.classes_):
            arrays["states"] = self.n_states_
        if universe.allowed is not None:
            arrays["forbidden"] = np.flatnonzero(~universe.allowed)
        if precision is not None:
            arrays["metric"] = precision  # as files have called it from the first
        return saving.facts_of(self, notes), arrays


def _count_states(states: Array, weights: int, *, stream: bool) -> int:
    """Return how many states there are, or raise: labels have one each, and no more than there are weights to know."""
    most = min(len(states) + weights, MOST_STREAMED if stream else MOST_STATES)
    if not 0 < len(states) <= most or states.max() > most or states.sum() > most:
        raise ValueError(f"{len(states)} classes cannot have the states that the array 'states' says, or are too many")
    return int(states.sum())


def _refuse_beyond(name: str, values: Array, size: int) -> None:
    if len(values) and (values[0] < 0 or values[-1] >= size):
        raise ValueError(f"the array {name!r} holds numbers that are none of the {size} that there are")
