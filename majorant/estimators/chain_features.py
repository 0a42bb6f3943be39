"""What the sequences of a user say of features: tokens and labels as numbers, and which pairs have a weight."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np

from majorant._checks import Array, refuse_null_ending
from majorant.data import Sequences
from majorant.data.sequences import inner_tokens
from majorant.data.tokens import Encoder, Tokens, split_rows
from majorant.data.universe import Universe
from majorant.data.vocabulary import Vocabulary

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
    tokens, codes = numbered(_split(X, lengths), y, vocabulary, number, grow=True)
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
        codes.extend(labels.numbers(names, grow))
        if len(codes) - before != length:
            raise ValueError(f"sequence {j} has {length} tokens but {len(codes) - before} labels")
    return encoder.finish(), np.array(codes, dtype=np.uint32)


def observed_pairs(
    tokens: Tokens, y: Array, n: int, n_attributes: int, *, min_freq: float, all_states: bool, all_transitions: bool
) -> tuple[Array, Array]:
    """Return the pairs attribute·n + label and from·n + to that have a parameter, in rising order."""
    pairs = _kept(_pairs(tokens, y, n), n_attributes * n, min_freq, all_states)
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


def check_lengths(X: list[Any], y: list[list[Any]]) -> None:
    """Raise if a sequence and its labels differ in length."""
    if len(X) != len(y):
        raise ValueError(f"X and y must have equally many sequences, got {len(X)} and {len(y)}")
    for j, (sequence, labels) in enumerate(zip(X, y, strict=True)):
        tokens = sequence.shape[0] if hasattr(sequence, "shape") else len(sequence)
        if tokens != len(labels):
            raise ValueError(f"sequence {j} has {tokens} tokens but {len(labels)} labels")
