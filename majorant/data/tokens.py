"""Sequences of tokens as people have them, encoded: strings become numbers.

A token is a list of strings, a dict, or a row of numbers. A dict follows python-crfsuite: a number is a value of the
attribute ``key``, true and false are 1 and 0, a string makes the attribute ``key:string``, lists and sets of strings
make one for each, and dicts inside do the same one level down. Values that are bytes are strings in UTF-8.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant._checks import Array
from majorant.data.vocabulary import UNKNOWN, Vocabulary

PYTHON_NUMBERS = {float, int, bool}
NUMBERS = PYTHON_NUMBERS | {np.float64, np.float32, np.int64, np.int32, np.bool_}
ARRAY_HINT = "; numbers need a name each, as in {'x0': 0.1, 'x1': 0.2}"


@dataclass(frozen=True, eq=False)
class Tokens:
    """Encoded sequences: see :class:`~majorant.data.Sequences`. Attributes are numbers of a vocabulary."""

    starts: Array
    indptr: Array
    attributes: Array
    values: Array | None


class Encoder:
    """Encodes one sequence after the other; what was met so far is in the arrays.

    A sequence whose tokens are all lists, or all dicts of plain values, is read at once, by loops that Python runs in
    C. Any other is read token by token, and so is one that has something wrong with it: that says what, and where.
    """

    def __init__(self, vocabulary: Vocabulary, grow: bool) -> None:
        self._vocabulary, self._grow, self._known = vocabulary, grow, len(vocabulary)
        self._attributes, self._values = array("I"), array("d")
        self._plain = True  # until a value is not one
        self._counts, self._lengths = array("I"), array("I")
        self._columns = np.empty(0, dtype=np.uintc)  # the numbers of the columns of a matrix

    def add(self, sequence: Any) -> int:
        """Encode a sequence; return its length."""
        before = len(self._counts)
        try:
            if sp.issparse(sequence) or (isinstance(sequence, np.ndarray) and sequence.dtype.kind in "iufb"):
                self._add_matrix(sequence)
            elif isinstance(sequence, str | bytes | Mapping):
                raise TypeError(f"a sequence is a list of tokens, got {type(sequence).__name__}")
            elif not (isinstance(sequence, list | tuple) and self._add_at_once(sequence)):
                for token in sequence:
                    self._add_token(token)
        except (TypeError, ValueError, OverflowError) as problem:
            where = f"token {len(self._counts) - before} of sequence {len(self._lengths)}"
            raise type(problem)(f"{where}: {problem}") from None
        self._lengths.append(len(self._counts) - before)
        return self._lengths[-1]

    def finish(self) -> Tokens:
        """Return everything, without the attributes that are not in the vocabulary."""
        attributes = np.frombuffer(self._attributes, dtype=np.uint32)
        values = None if self._plain else np.frombuffer(self._values)
        ends, starts = _sums(self._counts), _sums(self._lengths)
        if self._grow:
            self._check_names(attributes, ends, starts)
            return Tokens(starts, ends.astype(np.uint32), attributes, values)
        known = attributes != UNKNOWN
        if not known.all():
            ends = np.concatenate([[0], np.cumsum(known)])[ends]
            attributes, values = attributes[known], None if values is None else values[known]
        return Tokens(starts, ends.astype(np.uint32), attributes, values)

    def _numbers(self, names: Iterable[str]) -> Iterator[int]:
        return self._vocabulary.numbers(names, self._grow)

    def _add_at_once(self, tokens: Sequence[Any]) -> bool:
        """Encode all tokens of a sequence, or none, and return which."""
        kinds = set(map(type, tokens))
        if kinds not in ({list}, {tuple}, {dict}):
            return False
        add = self._add_dicts if kinds == {dict} else self._add_lists
        try:
            done = add(tokens)
        except (TypeError, OverflowError):  # a name that cannot be one, a whole number that no float holds
            return False
        if done:
            self._counts.fromlist(list(map(len, tokens)))
        return done

    def _add_lists(self, tokens: Sequence[Any]) -> bool:
        if set(map(type, map(itemgetter(0), filter(None, tokens)))) <= {str}:
            self._append(list(self._numbers(chain.from_iterable(tokens))), None)
            return True
        return False

    def _add_dicts(self, tokens: Sequence[Any]) -> bool:
        values = list(chain.from_iterable(map(dict.values, tokens)))
        kinds = set(map(type, values))
        if kinds == {str}:
            self._append(self._vocabulary.numbers_of_items(tokens, self._grow), None)
            return True
        if not kinds - {str} <= NUMBERS:
            return False
        if str in kinds:
            values = [1.0 if type(value) is str else value for value in values]
        if not kinds - {str} <= PYTHON_NUMBERS:
            values = list(map(float, values))
        if not math.isfinite(sum(values)):
            return False
        self._append(self._vocabulary.numbers_of_items(tokens, self._grow), values)
        return True

    def _add_token(self, token: Any) -> None:
        if isinstance(token, list | tuple | set | frozenset):
            if token and not isinstance(next(iter(token)), str):
                raise TypeError(f"attributes must be strings, got {next(iter(token))!r}")
            names, values = token, None
        elif isinstance(token, Mapping):
            names, values = _flat(token)
            if not math.isfinite(sum(values)):
                _refuse_non_finite(names, values)
        elif isinstance(token, str):
            names, values = [token], None
        else:
            raise TypeError(f"a token is a list of strings, a dict or a string, got {type(token).__name__}")
        self._append(list(self._numbers(names)), values)
        self._counts.append(len(names))

    def _append(self, numbers: list[int], values: list[float] | None) -> None:
        """Put attributes and their values at the end; without values all are ones."""
        if self._plain and values is not None and not _all_ones(values):
            self._keep_values()
        self._attributes.fromlist(numbers)
        if not self._plain:
            self._values.fromlist([1.0] * len(numbers) if values is None else values)

    def _keep_values(self) -> None:
        self._plain = False
        self._values.extend(array("d", [1.0]) * (len(self._attributes) - len(self._values)))

    def _add_matrix(self, rows: Any) -> None:
        if rows.ndim != 2 and rows.size:
            raise ValueError(
                f"a sequence of numbers is a matrix with a row for each token, got shape {rows.shape}; "
                "one matrix of all tokens needs lengths"
            )
        if rows.shape[0] == 0:
            return
        X = sp.csr_array(rows, dtype=np.float64)
        if not np.isfinite(X.data).all():
            row = int(np.searchsorted(X.indptr, np.flatnonzero(~np.isfinite(X.data))[0], side="right")) - 1
            raise ValueError(f"values must be finite, got {X.data[~np.isfinite(X.data)][0]} in its row {row}")
        self._vocabulary.check_columns(X.shape[1], self._grow)
        self._keep_values()
        if X.shape[1] > len(self._columns):
            self._columns = np.fromiter(self._numbers(map(str, range(X.shape[1]))), dtype=np.uintc)
        self._attributes.frombytes(self._columns[X.indices].tobytes())
        self._values.frombytes(X.data.tobytes())
        self._counts.frombytes(np.diff(X.indptr).astype(np.uintc).tobytes())

    def _check_names(self, attributes: Array, ends: Array, starts: Array) -> None:
        for number, name in enumerate(self._vocabulary.names_from(self._known), start=self._known):
            if not isinstance(name, str):
                token = int(np.searchsorted(ends, np.flatnonzero(attributes == number)[0], side="right")) - 1
                sequence = int(np.searchsorted(starts, token, side="right")) - 1
                raise TypeError(
                    f"token {token - starts[sequence]} of sequence {sequence}: attributes must be strings, got {name!r}"
                )


def encode(X: Iterable[Any], vocabulary: Vocabulary, *, grow: bool = False) -> Tokens:
    """Return sequences encoded by a vocabulary."""
    encoder = Encoder(vocabulary, grow)
    for sequence in X:
        encoder.add(sequence)
    return encoder.finish()


def split_rows(X: Any, lengths: Any) -> Iterator[Any]:
    """Yield the sequences of one matrix whose rows are the tokens of all of them."""
    X = X.tocsr() if sp.issparse(X) else np.asarray(X)
    counts = np.asarray(lengths, dtype=np.int64)
    if counts.ndim != 1 or (counts < 0).any() or counts.sum() != X.shape[0]:
        raise ValueError(f"lengths must be non-negative and sum to the {X.shape[0]} rows of X, got {lengths!r:.80}")
    ends = np.cumsum(counts)
    for begin, end in zip(ends - counts, ends, strict=True):
        yield X[begin:end]


def _sums(counts: array[int]) -> Array:
    """Return 0, then the sums of the first one, two, … counts."""
    sums = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(np.frombuffer(counts, dtype=np.uintc), out=sums[1:])
    return sums


def _all_ones(values: list[float]) -> bool:
    return not values or (values[0] == 1 and values.count(values[0]) == len(values))


def _flat(token: Mapping[str, Any]) -> tuple[list[str], list[float]]:
    """Return the attributes of a dict and their values."""
    names: list[str] = []
    values: list[float] = []
    for name, value in token.items():
        # Types are compared first: these are nearly all there are.
        kind = type(value)
        if kind is str:
            names.append(f"{name}:{value}")
            values.append(1.0)
        elif kind in PYTHON_NUMBERS:
            names.append(name)
            values.append(value)
        else:
            inner, weights = _flat_value(name, value)
            names += inner
            values += weights
    return names, values


def _flat_value(name: str, value: Any) -> tuple[list[str], list[float]]:
    """Return what a value that is no plain number or string stands for."""
    if isinstance(value, str | bytes):
        return [f"{name}:{_string(name, value)}"], [1.0]
    if isinstance(value, int | float | np.number | np.bool_):
        return [name], [float(value)]
    if isinstance(value, Mapping):
        inner, weights = _flat(value)
    elif isinstance(value, list | tuple | set | frozenset):
        inner, weights = [_string(name, each) for each in value], [1.0] * len(value)
    else:
        raise TypeError(
            f"the value of {name!r} must be a number, a string, or a list, set or dict of them, "
            f"got {type(value).__name__}{ARRAY_HINT if hasattr(value, 'shape') else ''}"
        )
    return [f"{name}:{each}" for each in inner], weights


def _string(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"the values in {name!r} must be strings, got {type(value).__name__}: {value!r:.40}")
    return value


def _refuse_non_finite(names: list[str], values: list[float]) -> None:
    for name, value in zip(names, values, strict=True):
        if not math.isfinite(value):
            raise ValueError(f"the value of {name!r} must be finite, got {value}")
