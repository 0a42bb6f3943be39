"""Names of attributes and their numbers, and how they wait in little memory while nobody asks for any.

Sequences whose attributes and labels are numbers already, while nobody knows yet which of them have parameters.

Sequences of tokens as people have them, encoded: strings become numbers.

A token is a list of strings, a dict, or a row of numbers. A dict follows python-crfsuite: a number is a value of the
attribute ``key``, true and false are 1 and 0, a string makes the attribute ``key:string``, lists and sets of strings
make one for each, and dicts inside do the same one level down. Values that are bytes are strings in UTF-8.

Sequences that are read block by block, and what is kept beside them.
"""

from __future__ import annotations

import gc
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count, islice, pairwise, repeat
from operator import itemgetter
from threading import Lock
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from majorant.chain.feature_index import Universe
from majorant.chain.sequences import Sequences
from majorant.core.checks import Array
from majorant.device.estimators import is_tensor

# Python writes numbers without a sign to arrays twice as fast as those with one.
UNKNOWN = 2**32 - 1
# Fewer names take next to no memory.
FEW = 10_000
# Stands between names that wait.
BETWEEN = "\0"


class Vocabulary:
    """Attributes and their numbers, in the order in which they were met."""

    def __init__(self, names: Iterable[str] = (), columns: int | None = None) -> None:
        self.columns = columns  # of the matrices that were met, if any were
        self._found: defaultdict[str, int] = defaultdict()
        self._found.default_factory = self._found.__len__
        self._texts = _TextsByName(self._found)
        self._packed: bytes | None = None  # all names, while the dict is empty
        self._lock = Lock()
        for name in names:
            self._found[name]

    @property
    def _numbers(self) -> defaultdict[str, int]:
        if self._packed is not None:
            self._unpack()
        return self._found

    def __len__(self) -> int:
        packed = self._packed
        return len(self._found) if packed is None else packed.count(BETWEEN.encode()) + 1

    def pack(self) -> None:
        """Let many names wait in a fifth of the memory until one is asked for: a fit has no use for them."""
        if len(self._numbers) < FEW:
            return
        text = BETWEEN.join(self._found)
        if text.count(BETWEEN) == len(self._found) - 1:  # no name holds what stands between names
            self._packed = text.encode(errors="surrogatepass")
            self._found.clear()
            self._texts.clear()
            if gc.isenabled():
                gc.collect()  # empty tuples, which Python keeps to use again, stand all over where names stood

    def _unpack(self) -> None:
        with self._lock:  # threads that tag may all be the first to ask
            if self._packed is not None:
                self._found.update(zip(_names_in(self._packed), count(), strict=False))
                self._packed = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.names(), self.columns)  # the dict refers to itself

    def names(self) -> list[str]:
        """Return the attributes, each at its number."""
        packed = self._packed
        return list(self._found) if packed is None else _names_in(packed)

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

    def numbers_of_items(self, tokens: Iterable[dict[str, Any]], grow: bool) -> list[int]:
        """Return the number of each item of dicts of strings and numbers: of ``name:text``, or of ``name``."""
        if grow:
            known = self._numbers
            return [known[f"{name}:{v}"] if type(v) is str else known[name] for t in tokens for name, v in t.items()]
        texts, get = self._texts, self._numbers.get
        return [texts[name][v] if type(v) is str else get(name, UNKNOWN) for t in tokens for name, v in t.items()]


class _TextsByName(dict[str, "_Texts"]):
    """The numbers of attributes ``name:text`` by name, then text: tagging need not write them side by side again."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def __missing__(self, name: str) -> _Texts:
        if type(name) is not str:  # 1 and 1.0 are one key, but not one name
            raise TypeError(f"attributes must be strings, got {name!r}")
        self[name] = texts = _Texts(name, self._numbers)
        return texts


class _Texts(dict[str, int]):
    """The numbers of ``name:text`` of one name. Only those that are known are kept, so there are never more of them."""

    def __init__(self, name: str, numbers: dict[str, int]) -> None:
        self._name, self._numbers = name, numbers

    def __missing__(self, text: str) -> int:
        number = self._numbers.get(f"{self._name}:{text}", UNKNOWN)
        if number != UNKNOWN:
            self[text] = number
        return number


def _names_in(packed: bytes) -> list[str]:
    return packed.decode(errors="surrogatepass").split(BETWEEN)


class Size(NamedTuple):
    """How much there is of some sequences; sizes add up."""

    sequences: int = 0
    tokens: int = 0
    attributes: int = 0

    def plus(self, other: Size) -> Size:
        """Return the size of both together."""
        return Size(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def numbers(self) -> int:
        """How many numbers it takes to write them down, about."""
        return self.tokens + self.attributes


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sequences as numbers of vocabularies.

    Parameters
    ----------
    tokens : Tokens
        Their attributes, by the numbers of a vocabulary.
    y : array
        The label of each token, by the number of another.
    weight : array, optional
        Of each token.
    """

    tokens: Tokens
    y: Array
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.tokens.starts) - 1

    @property
    def size(self) -> Size:
        """How much there is."""
        return Size(len(self), len(self.y), len(self.tokens.attributes))

    def arrays(self) -> tuple[Array | None, ...]:
        """Return what they are made of."""
        tokens = self.tokens
        return tokens.starts, tokens.indptr, tokens.attributes, tokens.values, self.y, self.weight

    @classmethod
    def from_arrays(cls, arrays: Sequence[Any]) -> Encoded:
        """Return the sequences that were taken apart."""
        return cls(Tokens(*arrays[:4]), *arrays[4:])

    def sequences(self, universe: Universe, numbers: Array) -> Sequences:
        """Return them with their parameters looked up; ``numbers`` are those of the labels in the universe."""
        tokens, y = self.tokens, numbers[self.y]
        attributes = universe.number[tokens.attributes]
        return Sequences.of(universe, tokens.starts, tokens.indptr, attributes, tokens.values, y, self.weight)

    def part(self, begin: int, end: int) -> Encoded:
        """Return sequences ``begin`` … ``end`` − 1, as views."""
        tokens = self.tokens
        i, j = int(tokens.starts[begin]), int(tokens.starts[end])
        k, m = int(tokens.indptr[i]), int(tokens.indptr[j])
        some = Tokens(
            tokens.starts[begin : end + 1] - i,
            tokens.indptr[i : j + 1] - tokens.indptr[i],
            tokens.attributes[k:m],
            None if tokens.values is None else tokens.values[k:m],
        )
        return Encoded(some, self.y[i:j], None if self.weight is None else self.weight[i:j])

    def parts(self, numbers: int) -> Iterator[Encoded]:
        """Yield them one part after the other, each of about so many numbers, or of one sequence that has more."""
        before = self.tokens.indptr[self.tokens.starts].astype(np.int64) + self.tokens.starts
        ends = np.searchsorted(before, np.arange(numbers, before[-1], numbers))
        for begin, end in pairwise(np.unique([0, *ends, len(self)]).tolist()):
            yield self.part(begin, end)

    @classmethod
    def joined(cls, parts: Sequence[Encoded]) -> Encoded:
        """Return the sequences of all parts."""
        if len(parts) == 1:
            return parts[0]
        tokens = [part.tokens for part in parts]
        return cls(
            Tokens(
                _one_after_the_other([each.starts for each in tokens]),
                _one_after_the_other([each.indptr for each in tokens]),
                np.concatenate([each.attributes for each in tokens]),
                _ones_where_none([(each.values, len(each.attributes)) for each in tokens]),
            ),
            np.concatenate([part.y for part in parts]),
            _ones_where_none([(part.weight, len(part.y)) for part in parts]),
        )


def evened(chunks: Iterable[Encoded], numbers: int) -> Iterator[Encoded]:
    """Yield the same sequences in chunks of about so many numbers: small ones are joined, large ones cut."""
    waiting: list[Encoded] = []
    many = 0
    for chunk in chunks:
        for part in chunk.parts(numbers):
            waiting.append(part)
            many += part.size.numbers
            if many >= numbers:
                yield Encoded.joined(waiting)
                waiting, many = [], 0
    if waiting:
        yield Encoded.joined(waiting)


def _one_after_the_other(starts: Sequence[Array]) -> Array:
    """Return where everything begins if what these say is put side by side."""
    ends = np.cumsum([0, *(each[-1] for each in starts)], dtype=np.int64)
    shifted = [each[:-1] + end.astype(each.dtype) for each, end in zip(starts, ends, strict=False)]
    return np.concatenate([*shifted, ends[-1:].astype(starts[0].dtype)])


def _ones_where_none(each: Sequence[tuple[Array | None, int]]) -> Array | None:
    if all(values is None for values, _ in each):
        return None
    return np.concatenate([np.ones(length) if values is None else values for values, length in each])


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
            if token and not isinstance(next(iter(token)), str | bytes):
                raise TypeError(f"attributes must be strings, got {next(iter(token))!r}")
            names = [each.decode("utf-8", "surrogateescape") if isinstance(each, bytes) else each for each in token]
            values = None
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


class Store(Protocol):
    """Arrays of every block, which need not be in memory."""

    @property
    def is_open(self) -> bool:
        """Whether all that was added is here: there may have been no room for it."""

    @property
    def room(self) -> float:
        """How many bytes there is room for."""

    def __getitem__(self, number: int) -> Sequence[Any]:
        """Return the arrays of a block."""

    def add(self, arrays: Sequence[Array]) -> None:
        """Keep the arrays of one block more."""

    def replace(self, number: int, arrays: Sequence[Array]) -> None:
        """Keep others of the same shapes in their place."""


@runtime_checkable
class InBlocks(Protocol):
    """Sequences of which a few blocks are in memory at a time."""

    universe: Universe
    like: Sequences  # some of them
    size: Size
    even: bool  # whether the tokens of a sequence all weigh the same

    def blocks(self, rows: int) -> Iterable[Sequences]:
        """Return them in blocks of at most about so many sequences, always the same ones."""

    def store(self) -> Store:
        """Return somewhere to keep arrays of every block."""


def is_matrix(value: Any) -> bool:
    """Return whether something is an array or a tensor of floating-point numbers with a row for each token."""
    if isinstance(value, np.ndarray):
        return value.ndim == 2 and value.dtype.kind == "f"
    return is_tensor(value) and value.ndim == 2 and value.is_floating_point()


def is_pair(value: Any) -> bool:
    """Return whether something is a matrix and what there is besides."""
    return isinstance(value, tuple) and len(value) == 2 and is_matrix(value[0])
