"""What the sequences of a user say of features: tokens and labels as numbers, and which pairs have a weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data import Sequences
from majorant.data.sequences import inner_tokens
from majorant.data.tokens import Encoder, Tokens, Vocabulary, split_rows
from majorant.data.universe import Universe

MISSING: Any = object()
# Tokens whose occurrences of attributes are counted at a time.
SOME_TOKENS = 20_000
# Counts of all pairs that there could be are kept up to here.
LARGEST_TABLE = 2**28


def read(
    X: Any, y: Any, lengths: Any, vocabulary: Vocabulary, known: Array | None = None
) -> tuple[Tokens, Array, Array]:
    """Return tokens, labels by number, and the classes: those known, or all labels. X and y are read once."""
    encoder, number = Encoder(vocabulary, grow=True), Vocabulary()
    codes: list[int] = []
    for j, (tokens, labels) in enumerate(zip_longest(_split(X, lengths), y, fillvalue=MISSING)):
        if tokens is MISSING or labels is MISSING:
            raise ValueError(f"X and y must have equally many sequences, but one of them ends after {j}")
        length, before = encoder.add(tokens), len(codes)
        codes.extend(number.numbers(labels, grow=True))
        if len(codes) - before != length:
            raise ValueError(f"sequence {j} has {length} tokens but {len(codes) - before} labels")
    if not codes:
        raise ValueError("y holds no label: there is nothing to learn from")
    names = _labels(number.names())
    classes = np.unique(names) if known is None else known
    unknown = np.setdiff1d(names, classes)
    if len(unknown):
        raise ValueError(f"y holds labels that were not named at the first call: {unknown}; known are {classes}")
    return encoder.finish(), np.searchsorted(classes, names)[codes].astype(np.int32), classes


def observed_universe(
    tokens: Tokens, y: Array, n: int, n_attributes: int, *, min_freq: float, all_states: bool, all_transitions: bool
) -> Universe:
    """Return the universe of pairs that occur often enough, or of all of them."""
    least, every = max(min_freq, 1), n_attributes * n
    pairs = np.arange(every) if all_states else _frequent(_pairs(tokens, y, n), every, least)
    steps = np.arange(n * n) if all_transitions else _frequent([_steps(tokens, y, n)], n * n, least)
    if len(pairs) + len(steps) == 0:
        raise ValueError("no feature is left: tokens have no attributes, or none occurs min_freq times")
    return Universe.of(pairs, steps, n, n_attributes)


def _labels(names: list[Any]) -> Array:
    """Return labels as an array; they are strings, or they are numbers."""
    strings = [isinstance(name, str) for name in names]
    numbers = [isinstance(name, bool | int | float | np.number | np.bool_) for name in names]
    if not all(strings) and not all(numbers):
        odd = next(name for name, s, k in zip(names, strings, numbers, strict=True) if not (s if any(strings) else k))
        raise TypeError(f"labels must be all strings or all numbers, got {odd!r}")
    return np.asarray(names)


def _split(X: Any, lengths: Any) -> Any:
    return X if lengths is None else split_rows(X, lengths)


def sequences(universe: Universe, tokens: Tokens, y: Array, weight: Array | None) -> Sequences:
    """Return encoded tokens as sequences of a universe."""
    attributes = universe.number[tokens.attributes]
    return Sequences.of(universe, tokens.starts, tokens.indptr, attributes, tokens.values, y, weight)


def _pairs(tokens: Tokens, y: Array, n: int) -> Iterator[Array]:
    """Yield the pair attribute·n + label of every occurrence, some tokens at a time."""
    for begin in range(0, len(y), SOME_TOKENS):
        ends = tokens.indptr[begin : begin + SOME_TOKENS + 1]
        labels = np.repeat(y[begin : begin + SOME_TOKENS], np.diff(ends).astype(np.int64))
        yield tokens.attributes[ends[0] : ends[-1]].astype(np.int64) * n + labels


def _steps(tokens: Tokens, y: Array, n: int) -> Array:
    """Return the pair from·n + to of every token that follows another."""
    after = inner_tokens(tokens.starts)
    return y[after - 1].astype(np.int64) * n + y[after]


def _frequent(some: Iterable[Array], size: int, least: float) -> Array:
    """Return the keys that occur so often, in rising order."""
    if size > LARGEST_TABLE:
        found, counts = np.unique(np.concatenate(list(some)), return_counts=True)
        return found[counts >= least]
    counts = np.zeros(size, dtype=bool if least <= 1 else np.uint32)
    for keys in some:
        if least <= 1:
            counts[keys] = True
        else:
            np.add.at(counts, keys, 1)
    return np.flatnonzero(counts >= least)


def weights(sample_weight: Any, starts: Array) -> Array | None:
    """Return the weight of each token, from one for each sequence or one for each token."""
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
