"""Sequences as people have them, encoded: attributes and labels become numbers of vocabularies.

A token is a list of strings, a dict, or a row of numbers. A dict follows python-crfsuite: a number is a value of the
attribute ``key``, true and false are 1 and 0, a string makes the attribute ``key:string``, lists and sets of strings
make one for each, and dicts inside do the same one level down. Values that are bytes are strings in UTF-8.
"""

from __future__ import annotations

import gc
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count, islice, repeat, zip_longest
from operator import itemgetter
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array, refuse_null_ending

# The number of an attribute that is not known. Python writes unsigned numbers to arrays twice as fast as signed ones.
UNKNOWN = 2**32 - 1
# Vocabularies of fewer names take next to no memory.
FEW = 10_000
PYTHON_NUMBERS = {float, int, bool}
NUMBERS = PYTHON_NUMBERS | {np.float64, np.float32, np.int64, np.int32, np.bool_}
MISSING: Any = object()
NO_LABEL = "y holds no label: there is nothing to learn from"
NO_WEIGHT = "sample_weight must not be zero everywhere: no token would count"


@dataclass(frozen=True, eq=False)
class Tokens:
    """Encoded sequences: see :class:`~majorant.data.Sequences`. Attributes are numbers of a vocabulary."""

    starts: Array
    indptr: Array
    attributes: Array
    values: Array | None


def inner_tokens(starts: Array) -> Array:
    """Return the tokens that follow another one of their sequence."""
    follows = np.ones(starts[-1], dtype=bool)
    follows[starts[:-1][starts[:-1] < starts[-1]]] = False
    return np.flatnonzero(follows)


class Vocabulary:
    """Attributes and their numbers, in the order in which they were met."""

    def __init__(self, names: Iterable[str] = (), columns: int | None = None) -> None:
        self.columns = columns  # of the matrices that were met, if any were
        self._found: defaultdict[str, int] = defaultdict()
        self._found.default_factory = self._found.__len__
        self._packed: bytes | None = None  # all names, while the dict is empty
        self._lock = Lock()
        for name in names:
            self._found[name]

    @property
    def _numbers(self) -> defaultdict[str, int]:
        if self._packed is not None:
            with self._lock:  # threads that tag may all be the first to ask
                if self._packed is not None:
                    self._found.update(zip(self.names(), count(), strict=False))
                    self._packed = None
        return self._found

    def __len__(self) -> int:
        packed = self._packed
        return len(self._found) if packed is None else packed.count(b"\0") + 1

    def pack(self) -> None:
        """Let 10,000 names or more wait as one text until one is asked for: a fit has no use for them.

        That takes a fifth of the memory.
        """
        if len(self) < FEW or self._packed is not None:
            return
        text = "\0".join(self._found)
        if text.count("\0") == len(self._found) - 1:  # no name holds what stands between names
            self._packed = text.encode(errors="surrogatepass")
            self._found.clear()
            if gc.isenabled():
                gc.collect()  # empty tuples, which Python keeps to use again, stand all over where names stood

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.names(), self.columns)  # the dict refers to itself

    def names(self) -> list[str]:
        """Return the attributes, each at its number."""
        packed = self._packed
        return list(self._found) if packed is None else packed.decode(errors="surrogatepass").split("\0")

    def names_from(self, number: int) -> list[str]:
        """Return the attributes from that number on, without a look at those before."""
        return list(islice(reversed(self._numbers), len(self) - number))[::-1]

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Forget what is met in the block if it fails."""
        known, columns = len(self), self.columns
        try:
            yield
        except BaseException:
            self.columns = columns
            while len(self) > known:
                self._numbers.popitem()
            raise

    def check_columns(self, columns: int, grow: bool) -> None:
        """Refuse a matrix whose width is not that of those before, whose columns are called 0, 1, ….

        A vocabulary from a file knows names alone: so many of these as follow each other.
        """
        known = self.columns or next(number for number in count() if str(number) not in self._numbers) or None
        if known is None and not grow:
            raise ValueError(f"a matrix with {columns} columns, but the model was fitted to attributes that have names")
        if known not in (None, columns):
            raise ValueError(
                f"a matrix with {columns} columns, but {'those before it have' if grow else 'the model was fitted to'} "
                f"{known}"
            )
        self.columns = columns

    def numbers(self, names: Iterable[str], grow: bool) -> Iterator[int]:
        """Return the number of each name; new names get one if the vocabulary may grow."""
        return map(self._numbers.__getitem__, names) if grow else map(self._numbers.get, names, repeat(UNKNOWN))


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
                    names, values = attributes_of(token)
                    self._append(names, values)
                    self._counts.append(len(names))
        except (TypeError, ValueError, OverflowError) as problem:
            where = f"token {len(self._counts) - before} of sequence {len(self._lengths)}"
            raise type(problem)(f"{where}: {problem}") from None
        self._lengths.append(len(self._counts) - before)
        return self._lengths[-1]

    def finish(self) -> Tokens:
        """Return everything, without the attributes that are not in the vocabulary."""
        attributes = np.frombuffer(self._attributes, dtype=np.uint32)
        values = None if self._plain else np.frombuffer(self._values)
        ends, starts = (
            np.concatenate([[0], np.cumsum(np.frombuffer(counts, dtype=np.uintc), dtype=np.int64)])
            for counts in (self._counts, self._lengths)
        )
        if self._grow:
            for number, name in enumerate(self._vocabulary.names_from(self._known), start=self._known):
                if not isinstance(name, str):
                    token = int(np.searchsorted(ends, np.flatnonzero(attributes == number)[0], side="right")) - 1
                    sequence = int(np.searchsorted(starts, token, side="right")) - 1
                    where = f"token {token - starts[sequence]} of sequence {sequence}"
                    raise TypeError(f"{where}: attributes must be strings, got {name!r}")
            return Tokens(starts, ends.astype(np.uint32), attributes, values)
        known = attributes != UNKNOWN
        if not known.all():
            ends = np.concatenate([[0], np.cumsum(known)])[ends]
            attributes, values = attributes[known], None if values is None else values[known]
        return Tokens(starts, ends.astype(np.uint32), attributes, values)

    def _add_at_once(self, tokens: Sequence[Any]) -> bool:
        """Encode all tokens of a sequence, or none, and return which."""
        kinds = set(map(type, tokens))
        names: Iterable[Any]
        try:
            if kinds in ({list}, {tuple}):
                if not set(map(type, map(itemgetter(0), filter(None, tokens)))) <= {str}:
                    return False
                names, values = chain.from_iterable(tokens), None
            elif kinds == {dict}:
                values = list(chain.from_iterable(map(dict.values, tokens)))
                kinds = set(map(type, values))
                if not kinds - {str} <= NUMBERS:
                    return False
                if str in kinds:
                    values = None if kinds == {str} else [1.0 if type(value) is str else value for value in values]
                if values is not None and not kinds - {str} <= PYTHON_NUMBERS:
                    values = list(map(float, values))
                if values is not None and not math.isfinite(sum(values)):
                    return False
                names = [f"{name}:{v}" if type(v) is str else name for token in tokens for name, v in token.items()]
            else:
                return False
            self._append(names, values)
        except (TypeError, OverflowError):  # a name that cannot be one, a whole number that no float holds
            return False
        self._counts.fromlist(list(map(len, tokens)))
        return True

    def _append(self, names: Iterable[str], values: list[float] | None) -> None:
        """Put attributes and their values at the end; without values all are ones."""
        numbers = list(self._vocabulary.numbers(names, self._grow))
        ones = values is None or not values or (values[0] == 1 and values.count(values[0]) == len(values))
        if self._plain and not ones:
            self._keep_values()
        self._attributes.fromlist(numbers)
        if not self._plain:
            self._values.fromlist([1.0] * len(numbers) if values is None else values)

    def _keep_values(self) -> None:
        """Write down the ones that all values were up to here."""
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
            names = map(str, range(X.shape[1]))
            self._columns = np.fromiter(self._vocabulary.numbers(names, self._grow), dtype=np.uintc)
        self._attributes.frombytes(self._columns[X.indices].tobytes())
        self._values.frombytes(X.data.tobytes())
        self._counts.frombytes(np.diff(X.indptr).astype(np.uintc).tobytes())


def attributes_of(token: Any) -> tuple[Sequence[str], list[float] | None]:
    """Return the names of the attributes of a token, and their values; None if all are ones."""
    if isinstance(token, list | tuple | set | frozenset):
        if token and not isinstance(next(iter(token)), str):
            raise TypeError(f"attributes must be strings, got {next(iter(token))!r}")
        return token, None  # type: ignore[return-value]
    if isinstance(token, str):
        return [token], None
    if not isinstance(token, Mapping):
        raise TypeError(f"a token is a list of strings, a dict or a string, got {type(token).__name__}")
    names, values = _items(token)
    if not math.isfinite(sum(values)):
        for name, value in zip(names, values, strict=True):
            if not math.isfinite(value):
                raise ValueError(f"the value of {name!r} must be finite, got {value}")
    return names, values


def _items(token: Mapping[str, Any]) -> tuple[list[str], list[float]]:
    """Return the attributes of a dict, and of dicts in it, and their values."""
    names: list[str] = []
    values: list[float] = []
    for name, value in token.items():
        inner: Iterable[str]
        if isinstance(value, str | bytes):
            inner, weights = [_text(name, value)], [1.0]
        elif isinstance(value, int | float | np.number | np.bool_):
            names.append(name)
            values.append(value if type(value) in PYTHON_NUMBERS else float(value))  # type: ignore[arg-type]
            continue
        elif isinstance(value, Mapping):
            inner, weights = _items(value)
        elif isinstance(value, list | tuple | set | frozenset):
            inner, weights = [_text(name, text) for text in value], [1.0] * len(value)
        else:
            hint = "; numbers need a name each, as in {'x0': 0.1, 'x1': 0.2}" if hasattr(value, "shape") else ""
            raise TypeError(
                f"the value of {name!r} must be a number, a string, or a list, set or dict of them, "
                f"got {type(value).__name__}{hint}"
            )
        names += [f"{name}:{text}" for text in inner]
        values += weights
    return names, values


def _text(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"the values in {name!r} must be strings, got {type(value).__name__}: {value!r:.40}")
    return value


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


# --- labels and weights ---------------------------------------------------------------------------------------


def read_sequences(
    X: Any, y: Any, lengths: Any, vocabulary: Vocabulary, known: Array | None = None
) -> tuple[Tokens, Array, Array]:
    """Return tokens, labels by number, and the classes: those known, or all labels. X and y are read once."""
    labels = Vocabulary()
    tokens, codes = numbered(X if lengths is None else split_rows(X, lengths), y, vocabulary, labels, grow=True)
    if not len(codes):
        raise ValueError(NO_LABEL)
    names = label_names(labels)
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


def token_weights(sample_weight: Any, starts: Array, *, all_zero: bool = False) -> Array | None:
    """Return the weight of each token, from one for each sequence or one for each token.

    Some must weigh something, unless all may be zero.
    """
    if sample_weight is None:
        return None
    given, lengths = list(sample_weight), np.diff(starts)
    if len(given) != len(lengths):
        raise ValueError(
            f"sample_weight must have one entry for each of the {len(lengths)} sequences, got {len(given)}"
        )
    parts = [np.empty(0)]
    for j, (entry, length) in enumerate(zip(given, lengths, strict=True)):
        weight = np.asarray(entry, dtype=np.float64)
        if weight.ndim and weight.shape != (length,):
            raise ValueError(f"sample_weight of sequence {j} must be a number or {length} of them, got {weight.shape}")
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(f"sample_weight must be finite and non-negative, got {weight!r:.80} for sequence {j}")
        parts.append(np.broadcast_to(weight, (length,)))
    weights = np.concatenate(parts)
    if len(weights) and not all_zero and not weights.any():
        raise ValueError(NO_WEIGHT)
    return weights
