"""Which parameters a chain has: one for each attribute with each label, one for each label after each label.

By default only pairs that occur in the training data have a parameter, as in CRFsuite. They are stored one after the
other (:class:`Universe`); a pair that has none scores zero. Of sequences that come chunk by chunk, :class:`PairSums`
counts pairs for a fit, and :class:`GrowingUniverse` has the parameters of a stream, which never move.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from majorant.chain import kernels
from majorant.chain.tokens import Tokens, inner_tokens
from majorant.core.checks import Array
from majorant.core.kernels.sparse import Features

# Labels that compiled loops take at a time, whatever the processor.
LANES = 8
# An attribute with at least this share of all labels is worth a whole row of a table.
TABLED = 0.25
# Tokens whose attributes are looked up, or counted, at a time: what that takes in between stays in a few megabytes.
TOKENS_AT_A_TIME = 20_000
# Of so many parameters, looking up takes less time than it takes to load the compiled loop that does it.
FEW_CODES = 2**15
# Counts of all pairs that there could be are kept in a table up to here: two gigabytes.
LARGEST_TABLE = 2**28
# The score of a label that does not exist; its products with zero are zero, also in single precision.
NEVER = -1e30


@dataclass(frozen=True, eq=False)
class Universe:
    """The parameters of a chain over n labels.

    Parameters
    ----------
    n : int
        Number of labels.
    first : array of shape (attributes + 1,)
        The parameters of attribute a are first[a] … first[a + 1] − 1. Attributes with most labels come first.
    label : array
        The label of each of these parameters.
    transitions : array of shape (k, 2)
        The pairs of labels (from, to) that have a parameter; these come last.
    tabled : int
        How many of the first attributes have so many labels that a whole row pays.
    number : array
        The place of each attribute in this order, by the number it had before.
    """

    n: int
    first: Array
    label: Array
    transitions: Array
    tabled: int
    number: Array

    @classmethod
    def of(cls, pairs: Array, steps: Array, n: int, n_attributes: int) -> Universe:
        """Return the universe of these pairs attribute·n + label, in rising order, and steps from·n + to."""
        labels_of = np.bincount(pairs // n, minlength=n_attributes)
        ranked = np.argsort(-labels_of, kind="stable")
        number = np.empty(n_attributes, dtype=np.uint32)
        number[ranked] = np.arange(n_attributes, dtype=np.uint32)
        labels_of = labels_of[ranked]
        arranged = np.sort(number[pairs // n].astype(np.int64) * n + pairs % n)
        return cls(
            n,
            np.concatenate([[0], np.cumsum(labels_of)]).astype(np.uint32),
            (arranged % n).astype(np.uint16),
            np.column_stack([steps // n, steps % n]),
            int(np.count_nonzero(labels_of >= max(TABLED * n, 2))),
            number,
        )

    def with_states(self, many: Array) -> Universe:
        """Return the universe of hidden states, of which each label owns so many, one after the other.

        What has a parameter with a label, or with a label and the next, has one with each of their states.
        """
        if (many == 1).all():
            return self
        first = np.concatenate([[0], np.cumsum(many)])
        n = int(first[-1])

        def owned(others: Array, labels: Array) -> tuple[Array, Array]:
            """Return pairs of something and a label as pairs with each state that the label owns."""
            count = many[labels]
            before = np.cumsum(count) - count
            return np.repeat(others, count), np.arange(count.sum()) + np.repeat(first[labels] - before, count)

        attributes, states = owned(self.pairs // self.n, self.pairs % self.n)
        after, before = owned(*owned(self.transitions[:, 0], self.transitions[:, 1])[::-1])
        return Universe.of(np.sort(attributes * n + states), np.sort(before * n + after), n, self.n_attributes)

    # --- sizes and orders ---------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Labels, and columns that never happen, up to a multiple of ``LANES``.

        Loops are compiled for every width, which takes long where labels are many: then there are fewer widths.
        """
        multiple = LANES if self.n <= 64 else 4 * LANES
        return -(-self.n // multiple) * multiple

    @property
    def blocks(self) -> tuple[int, ...]:
        """The width as compiled loops take it: the type of a tuple (:mod:`majorant.chain.kernels.rows`)."""
        return (0,) * (self.width // LANES)

    @cached_property
    def floor(self) -> Array:
        """What scores start from: zero, next to nothing beyond n labels; and ones, zeros beyond."""
        rows = np.zeros((2, self.width))
        rows[0, self.n :], rows[1, : self.n] = NEVER, 1.0
        return rows

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return len(self.first) - 1

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.label) + len(self.transitions)

    @cached_property
    def attribute(self) -> Array:
        """The attribute of each parameter that is not a transition, by its place here."""
        return np.repeat(np.arange(self.n_attributes, dtype=np.uint32), np.diff(self.first))

    @property
    def pairs(self) -> Array:
        """The pair attribute·n + label of each parameter that is not a transition, by the numbers from before."""
        before = np.empty(self.n_attributes, dtype=np.int64)
        before[self.number] = np.arange(self.n_attributes)
        return before[self.attribute] * self.n + self.label

    @property
    def steps(self) -> Array:
        """The pair from·n + to of each transition."""
        return self.transitions[:, 0] * self.n + self.transitions[:, 1]

    # --- parameters as kernels take them: attributes one by one, a table of frequent ones, a matrix ---------

    def table(self, theta: Array | None = None) -> Array:
        """Return the parameters of the tabled attributes, a row for each; zeros if none are given."""
        rows = np.zeros((self.tabled, self.width))
        if theta is not None:
            rows[self._tabled_places] = theta[: self.first[self.tabled]]
        return rows

    def transition_matrix(self, theta: Array) -> Array:
        """Return the transition scores, a row for the label one comes from."""
        A = np.zeros((self.width, self.width))
        A[self.transitions[:, 0], self.transitions[:, 1]] = theta[len(self.label) :]
        return A

    def from_matrix(self, A: Array) -> Array:
        """Return the transition parameters that stand in a matrix."""
        return A[self.transitions[:, 0], self.transitions[:, 1]]

    def joined_parts(self, states: Array, table: Array, A: Array) -> Array:
        """Return one vector, written over the first of these: of rare attributes, of tabled ones, of transitions."""
        states[: self.first[self.tabled]] = table[self._tabled_places]
        states[len(self.label) :] = self.from_matrix(A)
        return states

    @cached_property
    def _tabled_places(self) -> tuple[Array, Array]:
        end = self.first[self.tabled]
        return np.repeat(np.arange(self.tabled), np.diff(self.first[: self.tabled + 1])), self.label[:end]

    # --- tokens with their parameters looked up -------------------------------------------------------------

    def features(self, indptr: Array, attributes: Array, values: Array | None) -> Features:
        """Return tokens with their parameters looked up, as kernels take them.

        Some tokens at a time: what is counted for every attribute on the way would be larger than the features.
        """
        few = len(attributes) * self.n < 2**32
        row_starts, starts = np.zeros((2, len(indptr)), dtype=np.uint32 if few else np.int64)
        spans = [
            (slice(begin, begin + TOKENS_AT_A_TIME + 1), indptr[begin : begin + TOKENS_AT_A_TIME + 1].astype(np.int64))
            for begin in range(0, max(len(indptr) - 1, 1), TOKENS_AT_A_TIME)
        ]
        for tokens, ends in spans:
            named = attributes[ends[0] : ends[-1]]
            for counted, counts in ((row_starts, named < self.tabled), (starts, self._labels_of[named])):
                before = np.zeros(len(named) + 1, dtype=np.int64)
                np.cumsum(counts, out=before[1:])
                counted[tokens] = before[ends - ends[0]] + counted[tokens.start]
        bits = max(self.n - 1, 1).bit_length()
        codes = np.empty(starts[-1], dtype=np.uint32 if self.size < 2 ** (32 - bits) else np.uint64)
        rows = np.empty(row_starts[-1], dtype=np.uint16 if self.tabled <= 2**16 else np.uint32)
        row_values = None if values is None else np.empty(len(rows), dtype=values.dtype)
        code_values = None if values is None else np.empty(len(codes), dtype=values.dtype)
        for tokens, ends in spans:
            named = attributes[ends[0] : ends[-1]]
            tabled = named < self.tabled
            single = named[~tabled]
            to_rows, to_codes = (slice(*of[tokens][[0, -1]].tolist()) for of in (row_starts, starts))
            rows[to_rows] = named[tabled]
            self._look_up(single, bits, codes[to_codes])
            if values is not None and row_values is not None and code_values is not None:
                given = values[ends[0] : ends[-1]]
                row_values[to_rows] = given[tabled]
                code_values[to_codes] = np.repeat(given[~tabled], self._labels_of[single])
        kind = codes.dtype.type
        return Features(row_starts, rows, row_values, starts, codes, code_values, kind(bits), kind(2**bits - 1))

    def _look_up(self, attributes: Array, bits: int, codes: Array) -> None:
        """Write the codes of the parameters of each attribute, one after the other."""
        if len(codes) > FEW_CODES:
            kernels.forward_backward.look_up(attributes, self.first, self.label, bits, codes)
            return
        count = self._labels_of[attributes].astype(np.int64)
        places = np.arange(len(codes)) + np.repeat(self.first[attributes] - (np.cumsum(count) - count), count)
        codes[:] = (places << bits) | self.label[places]

    @cached_property
    def _labels_of(self) -> Array:
        """How many labels each attribute has parameters for that are no row of the table."""
        labels_of = np.diff(self.first).astype(self.label.dtype if self.n < 2**16 else np.uint32)
        labels_of[: self.tabled] = 0
        return labels_of


# --- which pairs have a parameter ---------------------------------------------------------------------------


class Selection(TypedDict):
    """Which pairs have a parameter: those that occur, or all; where ``min_freq`` is positive, those that sum to it."""

    min_freq: float
    all_states: bool
    all_transitions: bool


def observed_pairs(
    tokens: Tokens, y: Array, n: int, n_attributes: int, *, min_freq: float, all_states: bool, all_transitions: bool
) -> tuple[Array, Array]:
    """Return the pairs attribute·n + label and from·n + to that have a parameter, in rising order.

    Keywords are those of a :class:`Selection`.
    """
    after = inner_tokens(tokens.starts)
    steps = y[after - 1].astype(np.int64) * n + y[after]

    def occurrences() -> Iterator[tuple[Array, Array | None]]:
        """Yield the pair of every occurrence of an attribute, and its value, some tokens at a time."""
        for begin in range(0, len(y), TOKENS_AT_A_TIME):
            ends = tokens.indptr[begin : begin + TOKENS_AT_A_TIME + 1]
            labels = np.repeat(y[begin : begin + TOKENS_AT_A_TIME], np.diff(ends).astype(np.int64))
            stretch = slice(ends[0], ends[-1])
            values = None if tokens.values is None else tokens.values[stretch]
            yield tokens.attributes[stretch].astype(np.int64) * n + labels, values

    return refuse_none(
        _frequent(occurrences(), n_attributes * n, min_freq, all_states),
        _frequent([(steps, None)], n * n, min_freq, all_transitions),
    )


def _frequent(occurrences: Iterable[tuple[Array, Array | None]], size: int, least: float, all_pairs: bool) -> Array:
    """Return the keys below ``size`` that are frequent enough, in rising order; without values all are ones."""
    if least > 0:
        parts = [(keys, np.ones(len(keys)) if values is None else values) for keys, values in occurrences]
        keys, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        if size > LARGEST_TABLE:
            found, place = np.unique(keys, return_inverse=True)
            return found[np.bincount(place, weights=values) >= least]
        return np.flatnonzero(np.bincount(keys, weights=values, minlength=size) >= least)
    if all_pairs:
        return np.arange(size)
    if size > LARGEST_TABLE:
        return np.unique(np.concatenate([np.unique(keys) for keys, _ in occurrences]))
    seen = np.zeros(size, dtype=bool)
    for keys, _ in occurrences:
        seen[keys] = True
    return np.flatnonzero(seen)


def refuse_none(pairs: Array, steps: Array) -> tuple[Array, Array]:
    """Return both, of which one at least must have something in it."""
    if len(pairs) + len(steps) == 0:
        raise ValueError(
            "no feature is left: tokens have no attributes, or the values of each sum to less than min_freq"
        )
    return pairs, steps


class PairSums:
    """Pairs in rising order, each with a sum. It takes as much memory as there are different ones, a few times.

    A pair is one number: the first of both, then 16 bits for the second.
    """

    # Pairs that wait, and as many as are known by then, before they are put in order: each is so a few times at most.
    WAITING = 2**20

    def __init__(self) -> None:
        self._keys, self._sums = np.empty(0, dtype=np.int64), np.empty(0)
        self._waiting: list[tuple[Array, Array]] = []

    def add(self, first: Array, second: Array, values: Array | None = None) -> None:
        """Count pairs, or add their values."""
        keys = (first.astype(np.int64) << 16) | second
        if values is None:
            keys, counts = np.unique(keys, return_counts=True)
            values = counts.astype(np.float64)
        self._waiting.append((keys, values))
        if sum(len(keys) for keys, _ in self._waiting) > max(self.WAITING, len(self._keys)):
            self.found()

    def found(self) -> tuple[Array, Array, Array]:
        """Return first, second and sum of each pair. Values are added in the order in which they came."""
        if self._waiting:
            keys = np.unique(np.concatenate([self._keys, *(new for new, _ in self._waiting)]))
            sums = np.zeros(len(keys))
            for known, values in [(self._keys, self._sums), *self._waiting]:
                np.add.at(sums, np.searchsorted(keys, known), values)
            self._keys, self._sums, self._waiting = keys, sums, []
        return self._keys >> 16, self._keys & (2**16 - 1), self._sums


# --- the parameters of a stream -------------------------------------------------------------------------------


class Stack:
    """Numbers, and room for more: it doubles when it is full, so that all moves together cost as much as the last one.

    Examples
    --------
    >>> stack = Stack(float, [1.0, 2.0])
    >>> stack.extend([3.0])
    >>> stack.cut(2)
    >>> stack.values
    array([1., 2.])
    """

    def __init__(self, dtype: DTypeLike, values: ArrayLike = ()) -> None:
        self._room, self._size = np.array(values, dtype=dtype), len(np.asarray(values))

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[Any, ...]:
        return Stack, (self._room.dtype, self.values)  # without the room

    @property
    def values(self) -> Array:
        """The numbers, which may be written to; a view that ``extend`` may leave behind."""
        return self._room[: self._size]

    def extend(self, values: ArrayLike) -> None:
        """Put more numbers at the end."""
        more = np.asarray(values, dtype=self._room.dtype)
        end = self._size + len(more)
        if end > len(self._room):
            self._room = np.concatenate([self.values, np.empty(2 * end - self._size, dtype=self._room.dtype)])
        self._room[self._size : end] = more
        self._size = end

    def cut(self, size: int) -> None:
        """Drop all but the first ones."""
        self._size = min(size, self._size)


NONE = -1


class GrowingUniverse:
    """The parameters of a stream over n labels, by their places, which never change.

    Parameters stand in the order in which they came, and those of an attribute are linked: the one that came last, the
    one before it, and so on. A chunk is thus met at the cost of its own attributes, however many others there are.

    Parameters
    ----------
    n : int
        Number of labels.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._attribute, self._label = Stack(np.int64), Stack(np.int64)  # of each parameter; of steps NONE and the step
        self._older = Stack(np.int64)  # the parameter that the same attribute got before this one
        self._newest = Stack(np.int64)  # of each attribute: the parameter it got last
        self._of_step = np.full(n * n, NONE)

    def __len__(self) -> int:
        return len(self._label)

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return len(self._newest)

    def grow(self, attributes: Array, pairs: Array, steps: Array, n_attributes: int) -> None:
        """Add the parameters that are new among some pairs and steps from·n + to, each in rising order.

        Parameters
        ----------
        attributes : array
            Numbers of attributes, without repeats.
        pairs : array
            k·n + label, for the kth of these attributes.
        steps : array
            from·n + to.
        n_attributes : int
            How many attributes there are by now.
        """
        self._newest.extend(np.full(max(n_attributes - self.n_attributes, 0), NONE))
        place, label = np.divmod(np.setdiff1d(pairs, self._pairs_of(attributes)[0], assume_unique=True), self.n)
        attribute, new = attributes[place], len(self) + np.arange(len(place))
        older = self._newest.values[attribute]
        again = np.flatnonzero(attribute[1:] == attribute[:-1])  # those of an attribute stand together
        older[again + 1] = new[again]
        steps = steps[self._of_step[steps] == NONE]
        no_attribute = np.full(len(steps), NONE)
        self._attribute.extend(np.concatenate([attribute, no_attribute]))
        self._older.extend(np.concatenate([older, no_attribute]))
        self._label.extend(np.concatenate([label, steps]))  # from here on :meth:`cut` knows of them
        self._newest.values[attribute] = new  # the last of an attribute is written last
        self._of_step[steps] = len(self) - len(steps) + np.arange(len(steps))

    def part(self, attributes: Array) -> tuple[Universe, Array]:
        """Return the universe of some attributes, in its numbers the first, second, …, and the place of each parameter.

        It costs what these attributes have, and n² for the steps.
        """
        pairs, places = self._pairs_of(attributes)
        universe = Universe.of(pairs, np.flatnonzero(self._of_step != NONE), self.n, len(attributes))
        states = places[np.searchsorted(pairs, universe.pairs)]
        return universe, np.concatenate([states, self._of_step[universe.steps]])

    def cut(self, size: int, n_attributes: int) -> None:
        """Forget all but the first parameters and attributes."""
        gone = np.arange(len(self) - 1, size - 1, -1)  # so that the first one of an attribute is written last
        attribute, label = self._attribute.values[gone], self._label.values[gone]
        is_step = attribute == NONE
        self._of_step[label[is_step]] = NONE
        self._newest.values[attribute[~is_step]] = self._older.values[gone[~is_step]]
        for stack in (self._attribute, self._label, self._older):
            stack.cut(size)
        self._newest.cut(n_attributes)

    def _pairs_of(self, attributes: Array) -> tuple[Array, Array]:
        """Return k·n + label of every parameter of the kth attribute, in rising order, and its place."""
        which, at = np.arange(len(attributes)), self._newest.values[attributes]
        pairs, places = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        while len(at):
            which, at = which[at != NONE], at[at != NONE]
            pairs.append(which * self.n + self._label.values[at])
            places.append(at)
            at = self._older.values[at]
        keys = np.concatenate(pairs)
        order = np.argsort(keys)
        return keys[order], np.concatenate(places)[order]
