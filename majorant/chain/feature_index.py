"""Arrays that grow at their end.

Which pairs of numbers occur, and what their values sum to, chunk by chunk.

Which parameters a chain has: one for each attribute with each label, one for each label after each label.

By default only pairs that occur in the training data have a parameter, as in CRFsuite. They are stored one after the
other; a pair that has none scores zero.

Which parameters a chain has that meets attributes and labels one chunk after the other.

Parameters stand in the order in which they came, so that none ever moves, and those of an attribute are linked: the one
that came last, the one before it, and so on. A chunk is thus met at the cost of its own attributes, however many others
there are: see :meth:`GrowingUniverse.part`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from majorant.chain import kernels as chain_kernels
from majorant.core.checks import Array
from majorant.core.kernels import Features

SMALLEST = 16


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
        self._room, self._size = np.empty(SMALLEST, dtype=dtype), 0
        self.extend(values)

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


# A pair is one number: the first of both, then so many bits for the second.
BITS = 16
MASK = 2**BITS - 1
# So many pairs wait, and as many as are known by then, before they are put in order: each is so a few times at most.
WAITING = 2**20


class PairSums:
    """Pairs in rising order, each with a sum. It takes as much memory as there are different ones, a few times."""

    def __init__(self) -> None:
        self._keys, self._sums = np.empty(0, dtype=np.int64), np.empty(0)
        self._waiting: list[tuple[Array, Array]] = []
        self._many = 0

    def add(self, first: Array, second: Array, values: Array | None = None) -> None:
        """Count pairs, or add their values."""
        keys = (first.astype(np.int64) << BITS) | second
        if values is None:
            keys, counts = np.unique(keys, return_counts=True)
            values = counts.astype(np.float64)
        self._waiting.append((keys, values))
        self._many += len(keys)
        if self._many > max(WAITING, len(self._keys)):
            self._settle()

    def found(self) -> tuple[Array, Array, Array]:
        """Return first, second and sum of each pair."""
        self._settle()
        return self._keys >> BITS, self._keys & MASK, self._sums

    def _settle(self) -> None:
        """Put what waits in its place. Values are added in the order in which they came."""
        if not self._waiting:
            return
        keys = np.unique(np.concatenate([self._keys, *(new for new, _ in self._waiting)]))
        sums = np.zeros(len(keys))
        for some, values in [(self._keys, self._sums), *self._waiting]:
            np.add.at(sums, np.searchsorted(keys, some), values)
        self._keys, self._sums, self._waiting, self._many = keys, sums, [], 0


# Compiled loops take so many labels at a time.
LANES = 8
# Of more labels than this, more at a time.
MANY = 64
# An attribute with at least this share of all labels is worth a whole row of a table.
TABLED = 0.25
# Tokens whose attributes are looked up at a time.
SOME_TOKENS = 20_000
# Of so many parameters, looking up takes less time than it takes to compile, or to load, a loop that does.
FEW_CODES = 2**15
# The score of a label that there is not; its products with zero are zero, also in single precision.
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
    allowed : array of shape (n + 1, n + 1), optional
        Which labels may follow each other, if not all: see :mod:`majorant.chain.constraints`.
    """

    n: int
    first: Array
    label: Array
    transitions: Array
    tabled: int
    number: Array
    allowed: Array | None = None

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
        attributes, states = _owned(self.pairs // self.n, self.pairs % self.n, first)
        before, after = _owned(self.transitions[:, 0], self.transitions[:, 1], first)
        after, before = _owned(after, before, first)
        return Universe.of(np.sort(attributes * n + states), np.sort(before * n + after), n, self.n_attributes)

    @property
    def width(self) -> int:
        """Labels, and columns that never happen, up to a multiple of what a processor adds at a time.

        Compiled loops are compiled for every width, and for long when there are many labels: so these have few widths.
        """
        multiple = LANES if self.n <= MANY else MANY // 2
        return -(-self.n // multiple) * multiple

    @property
    def blocks(self) -> tuple[int, ...]:
        """The width as compiled loops take it: the type of a tuple (:mod:`majorant.chain.kernels.rows`)."""
        return (0,) * (self.width // LANES)

    @cached_property
    def floor(self) -> Array:
        """What scores start from: zero, next to nothing beyond n labels; and ones, zeros beyond.

        The next two rows are added to the scores of the first and the last token, and the others say for each label
        which may follow.
        """
        n, rows = self.n, np.zeros((4 + self.width, self.width))
        rows[0, n:], rows[1, :n], rows[4 : 4 + n, :n] = NEVER, 1.0, 1.0
        if self.allowed is not None:
            rows[4 : 4 + n, :n] = self.allowed[:n, :n]
            rows[2, :n], rows[3, :n] = (
                np.where(ends, 0.0, NEVER) for ends in (self.allowed[n, :n], self.allowed[:n, n])
            )
        return rows

    @property
    def n_attributes(self) -> int:
        """Number of attributes."""
        return len(self.first) - 1

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.label) + len(self.transitions)

    @property
    def attribute(self) -> Array:
        """The attribute of each parameter that is not a transition, by its place here."""
        return np.repeat(np.arange(self.n_attributes), np.diff(self.first))

    @cached_property
    def rivals(self) -> Array:
        """Where the parameters of each attribute begin, and transitions: of each of these a token has one at most."""
        begin = np.unique(np.append(self.first[:-1].astype(np.int64), len(self.label)))
        return begin[begin < self.size]

    @property
    def is_full(self) -> bool:
        """Whether every attribute has a parameter."""
        return bool((self.first[1:] > self.first[:-1]).all())

    def firsts_among(self, places: Array) -> tuple[Array, Array]:
        """Return the attributes whose first parameters are among some, in their order, and which these are."""
        found = self._owners[places]
        are = self.first[found] == places
        return found[are], are

    @cached_property
    def _owners(self) -> Array:
        return self.attribute.astype(np.uint32)

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

    def table(self, theta: Array | None = None) -> Array:
        """Return the parameters of the tabled attributes, a row for each; zeros if none are given."""
        rows = np.zeros((self.tabled, self.width))
        if theta is not None:
            rows[self._tabled_places] = theta[: self.first[self.tabled]]
        return rows

    def from_table(self, rows: Array) -> Array:
        """Return the parameters that stand in a table."""
        return rows[self._tabled_places]

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
        states[: self.first[self.tabled]] = self.from_table(table)
        states[len(self.label) :] = self.from_matrix(A)
        return states

    def features(self, indptr: Array, attributes: Array, values: Array | None) -> Features:
        """Return tokens with their parameters looked up, as kernels take them.

        Some tokens at a time: what is counted for every attribute on the way would be larger than the features.
        """
        some = [slice(begin, begin + SOME_TOKENS) for begin in range(0, max(len(indptr) - 1, 1), SOME_TOKENS)]
        row_starts, starts = self._feature_starts(indptr, attributes, some)
        bits = max(self.n - 1, 1).bit_length()
        codes = np.empty(starts[-1], dtype=np.uint32 if self.size < 2 ** (32 - bits) else np.uint64)
        rows = np.empty(row_starts[-1], dtype=np.uint16 if self.tabled <= 2**16 else np.uint32)
        row_values = None if values is None else np.empty(len(rows), dtype=values.dtype)
        code_values = None if values is None else np.empty(len(codes), dtype=values.dtype)
        for tokens in some:
            here, to_rows, to_codes = (_stretch(each, tokens) for each in (indptr, row_starts, starts))
            named = attributes[here]
            tabled = named < self.tabled
            single = named[~tabled]
            rows[to_rows] = named[tabled]
            self._look_up(single, bits, codes[to_codes])
            if values is not None and row_values is not None and code_values is not None:
                row_values[to_rows] = values[here][tabled]
                code_values[to_codes] = np.repeat(values[here][~tabled], self._labels_of[single])
        kind = codes.dtype.type
        return Features(row_starts, rows, row_values, starts, codes, code_values, kind(bits), kind(2**bits - 1))

    def _look_up(self, attributes: Array, bits: int, codes: Array) -> None:
        """Write the codes of the parameters of each attribute, one after the other."""
        if len(codes) > FEW_CODES:
            chain_kernels.forward_backward.look_up(attributes, self.first, self.label, bits, codes)
            return
        many = self._labels_of[attributes].astype(np.int64)
        places = np.arange(len(codes)) + np.repeat(self.first[attributes] - (np.cumsum(many) - many), many)
        codes[:] = (places << bits) | self.label[places]

    def _feature_starts(self, indptr: Array, attributes: Array, some: list[slice]) -> tuple[Array, Array]:
        """Return where the rows of each token begin, and where its codes do."""
        few = len(attributes) * self.n < 2**32
        row_starts, starts = np.zeros((2, len(indptr)), dtype=np.uint32 if few else np.int64)
        for tokens in some:
            named, ends = attributes[_stretch(indptr, tokens)], indptr[tokens.start : tokens.stop + 1]
            _add_starts(row_starts, tokens, named < self.tabled, ends)
            _add_starts(starts, tokens, self._labels_of[named], ends)
        return row_starts, starts

    @cached_property
    def _labels_of(self) -> Array:
        """How many labels each attribute has parameters for that are no row of the table."""
        labels_of = np.diff(self.first).astype(self.label.dtype if self.n < 2**16 else np.uint32)
        labels_of[: self.tabled] = 0
        return labels_of

    @cached_property
    def _tabled_places(self) -> tuple[Array, Array]:
        end = self.first[self.tabled]
        return np.repeat(np.arange(self.tabled), np.diff(self.first[: self.tabled + 1])), self.label[:end]


def _owned(others: Array, labels: Array, first: Array) -> tuple[Array, Array]:
    """Return pairs of something and a label as pairs with each state that the label owns."""
    many = (first[1:] - first[:-1])[labels]
    before = np.cumsum(many) - many
    return np.repeat(others, many), np.arange(many.sum()) + np.repeat(first[labels] - before, many)


def _stretch(starts: Array, tokens: slice) -> slice:
    """Return where stands what belongs to some tokens."""
    return slice(int(starts[tokens.start]), int(starts[tokens.start : tokens.stop + 1][-1]))


def _add_starts(starts: Array, tokens: slice, counts: Array, ends: Array) -> None:
    """Write where what is counted for each occurrence begins for each of some tokens, and for the one after them."""
    before = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=before[1:])
    starts[tokens.start : tokens.stop + 1] = before[ends - ends[0]] + starts[tokens.start]


NONE = -1


class GrowingUniverse:
    """The parameters of a stream over n labels, by their places.

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
        self._add_states(attributes[place], label)
        self._add_steps(steps[self._of_step[steps] == NONE])

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
        for each in (self._attribute, self._label, self._older):
            each.cut(size)
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

    def _add_states(self, attribute: Array, label: Array) -> None:
        """Add parameters whose attributes stand together, each linked to the one before."""
        new = len(self) + np.arange(len(attribute))
        older = self._newest.values[attribute]
        again = np.flatnonzero(attribute[1:] == attribute[:-1])
        older[again + 1] = new[again]
        self._append(attribute, label, older)
        self._newest.values[attribute] = new  # the last of an attribute is written last

    def _add_steps(self, steps: Array) -> None:
        new = len(self) + np.arange(len(steps))
        self._append(np.full(len(steps), NONE), steps, np.full(len(steps), NONE))
        self._of_step[steps] = new

    def _append(self, attribute: Array, label: Array, older: Array) -> None:
        self._attribute.extend(attribute)
        self._older.extend(older)
        self._label.extend(label)  # the last, for it says how many there are
