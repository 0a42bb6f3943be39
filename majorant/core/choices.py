"""Outcome sets written out: row j has its own outcomes, each with its own features.

Outcome sets that occur again and again: one of each is enough, with what was observed of all of them.

log p depends on a set's features alone, so that equal sets, each with weight w_j and frequencies target_j, weigh
Σ_j w_j together, with frequencies Σ_j w_j target_j / Σ_j w_j: the loss is the same function of θ. What each row chose
is remembered, since standard errors ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from majorant.core.affine import read_design
from majorant.core.checks import Array, finite_array, row_weights
from majorant.core.matrix import Design
from majorant.core.rows import InMemory


@dataclass(frozen=True, eq=False, init=False)
class Choices(InMemory):
    """Sets of outcomes with features f_j(y), stacked, for :class:`~majorant.Enumerated`.

    Parameters
    ----------
    features : array or sparse matrix of shape (N, d)
        f_j(y) of all outcomes of all sets, one set after the other.
    sizes : array of integers, shape (t,)
        How many outcomes each set has; they sum to N.
    chosen : array of integers, shape (t,), optional
        Which outcome of its set each row observed (0 is the first).
    target : array of shape (N,), optional
        Instead of ``chosen``: observed frequencies of the outcomes, summing to one in each set.
    consistent : array of bool, shape (N,), optional
        Instead of both, for :class:`~majorant.LatentEnumerated`: which outcomes agree with what was observed, at least
        one in each set. Outcomes are pairs (y, m); all m go with the y that was seen.
    weight : array of shape (t,), optional
        Non-negative weight of each set.
    log_measure : array of shape (N,), optional
        log h_j(y); −∞ for an outcome that cannot happen.

    Examples
    --------
    A traveller picks the second of two trips, then the first of three; features are price and hours.

    >>> trips = [[3.0, 2.0], [1.0, 4.0], [2.0, 1.0], [2.0, 3.0], [5.0, 1.0]]
    >>> data = Choices(trips, sizes=[2, 3], chosen=[1, 0])
    >>> data.target
    array([0., 1., 1., 0., 0.])
    """

    design: Design
    indptr: Array
    target: Array
    weight: Array | None
    log_measure: Array | None
    hidden: bool  # whether targets are spread evenly over what agrees with an observation, for lack of better

    def __init__(
        self,
        features: Any,
        sizes: ArrayLike,
        chosen: ArrayLike | None = None,
        target: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        log_measure: ArrayLike | None = None,
        consistent: ArrayLike | None = None,
    ) -> None:
        F, counts, log_h = read_design("features", features), np.asarray(sizes), None
        outcomes = F.shape[0]
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or len(counts) == 0:
            raise ValueError(f"sizes must be a non-empty list of integers, got {counts!r:.80}")
        if counts.min() < 1:
            where = int(np.argmin(counts))
            raise ValueError(f"sizes must be at least 1: outcome set {where} is empty (size {counts[where]})")
        if counts.sum() != outcomes:
            raise ValueError(f"sizes must sum to the rows of features ({outcomes}), got {counts.sum()}")
        indptr = np.concatenate(([0], np.cumsum(counts)))
        if sum(given is not None for given in (chosen, target, consistent)) != 1:
            raise ValueError(
                "give either chosen (an outcome number per set) or target (frequencies), not both; "
                "or neither, and consistent (a mask), if parts of outcomes are hidden"
            )
        if log_measure is not None:
            log_h = finite_array("log_measure", log_measure, ndim=1, allow="-inf").astype(np.float64)
            if len(log_h) != outcomes:
                raise ValueError(f"log_measure must have one entry per outcome ({outcomes}), got {len(log_h)}")
            impossible = np.flatnonzero(np.isneginf(np.maximum.reduceat(log_h, indptr[:-1])))
            if len(impossible):
                raise ValueError(
                    f"log_measure must leave an outcome possible: set {impossible[0]} has h(y) = 0 for all"
                )

        # What was observed: an outcome of each set, frequencies, or a mask of what it may have been.
        if consistent is not None:
            mask = np.asarray(consistent)
            if mask.shape != (outcomes,) or mask.dtype != bool:
                raise ValueError(f"consistent must be True or False for each outcome ({outcomes}), got {mask!r:.80}")
            possible = mask if log_h is None else mask & ~np.isneginf(log_h)
            left = np.add.reduceat(possible.astype(np.float64), indptr[:-1])
            if not left.all():
                raise ValueError(f"consistent must leave an outcome that can happen: set {np.argmin(left)} has none")
            observed = possible / np.repeat(left, counts)
        elif chosen is not None:
            picks = np.asarray(chosen)
            if picks.shape != counts.shape or picks.dtype.kind not in "iu":
                raise ValueError(f"chosen must be one integer per set ({len(counts)}), got {picks!r:.80}")
            wrong = np.flatnonzero((picks < 0) | (picks >= counts))
            if len(wrong):
                j = wrong[0]
                raise ValueError(f"chosen must lie in 0 … size−1: set {j} has {counts[j]} outcomes, got {picks[j]}")
            observed = np.zeros(outcomes)
            observed[indptr[:-1] + picks] = 1.0
        else:
            values = finite_array("target", np.asarray(target), ndim=1).astype(np.float64)
            if len(values) != outcomes:
                raise ValueError(f"target must have one entry per outcome ({outcomes}), got {len(values)}")
            sums = np.add.reduceat(values, indptr[:-1])
            if (values < 0).any() or np.abs(sums - 1.0).max() > 1e-6:
                raise ValueError("target must be non-negative and sum to one within each set")
            observed = values / np.repeat(sums, counts)
        if consistent is None and log_h is not None and (observed[np.isneginf(log_h)] > 0).any():
            raise ValueError("log_measure is −inf (h(y) = 0) for an outcome that was observed")
        weights = row_weights("weight", weight, len(counts))
        self._store(F, indptr, observed, weights, log_h, consistent is not None)

    def _store(self, *values: Any) -> None:
        """Set the attributes, in the order in which they stand above."""
        names = ("design", "indptr", "target", "weight", "log_measure", "hidden")
        vars(self).update(zip(names, values, strict=True))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_features(self) -> int:
        """Number of columns d."""
        return self.design.shape[1]

    @cached_property
    def sizes(self) -> Array:
        """How many outcomes each set has."""
        return np.diff(self.indptr)

    @cached_property
    def by_size(self) -> list[tuple[Array, Array]]:
        """For each size n that occurs: the sets of that size, and where their outcomes stand, as (n, sets)."""
        groups = []
        for n in np.unique(self.sizes):
            sets = np.flatnonzero(self.sizes == n)
            groups.append((sets, self.indptr[sets] + np.arange(n)[:, None]))
        return groups

    @cached_property
    def set_of_outcome(self) -> Array:
        """Which set each outcome belongs to."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def part(self, begin: int, end: int) -> Choices:
        """Return sets ``begin`` … ``end`` − 1, as views."""
        if end - begin == len(self):
            return self  # which remembers what was found of it
        first, last = int(self.indptr[begin]), int(self.indptr[end])
        outcomes, indptr = slice(first, last), self.indptr[begin : end + 1] - first
        return self._with(self.design.part(outcomes), indptr, outcomes, slice(begin, end))

    def take(self, rows: Array, order: Array | None = None) -> Choices:
        """Return a copy of the given sets, in that order, repeats included.

        ``order`` lists all outcomes in another order, in which none leaves its set.
        """
        outcomes = self.outcomes_of(rows) if order is None else order[self.outcomes_of(rows)]
        indptr = np.concatenate(([0], np.cumsum(self.sizes[rows])))
        return self._with(self.design.part(outcomes), indptr, outcomes, rows)

    def outcomes_of(self, rows: Array) -> Array:
        """Return where the outcomes of the given sets stand, one set after the other."""
        sizes = self.sizes[rows]
        ends = np.cumsum(sizes)
        return np.arange(sizes.sum()) + np.repeat(self.indptr[rows] - (ends - sizes), sizes)

    def widened(self) -> Choices:
        """Return the sets with their features in double precision."""
        if self.design.dtype == np.float64:
            return self
        return self._with(self.design.widened(), self.indptr, slice(None), slice(None))

    def completed(self, target: Array) -> Choices:
        """Return the sets with other frequencies of their outcomes, as if nothing were hidden."""
        whole = object.__new__(Choices)
        whole._store(self.design, self.indptr, target, self.weight, self.log_measure, False)
        return whole

    def centred(self) -> Array:
        """Return the features of all outcomes, less their mean in each set (N×d, dense); zeros if one cannot happen.

        Only differences within a set count, and they are what is left of digits where features are large: those from
        the first outcome are exact. A column that differs within sets in its last bits alone is zero.
        """
        X, starts, sizes = self.design.dense().astype(np.float64), self.indptr[:-1], self.sizes
        closed = np.zeros(len(X), dtype=bool) if self.log_measure is None else np.isneginf(self.log_measure)
        possible = np.flatnonzero(~closed)
        first = possible[np.searchsorted(possible, starts)]
        X[closed] = np.repeat(X[first], sizes, axis=0)[closed]  # whatever stands there does not matter
        # Numbers that differ by less, relative to their size, are the same but for rounding errors.
        last_bits = (2.0**-49) * np.abs(X[first])
        X -= np.repeat(X[first], sizes, axis=0)
        farthest = np.maximum.reduceat(np.abs(X), starts)
        X[:, (farthest <= last_bits).all(axis=0)] = 0.0
        means = np.add.reduceat(X, starts) / np.add.reduceat((~closed).astype(float), starts)[:, None]
        X -= np.repeat(means, sizes, axis=0)
        X[closed] = 0.0
        return X

    def with_features(self, design: Design) -> Choices:
        """Return the sets with other features of their outcomes, which are taken as they are.

        Parameters
        ----------
        design : Design
            The features of all outcomes.
        """
        other = object.__new__(Choices)
        other._store(design, self.indptr, self.target, self.weight, self.log_measure, self.hidden)
        return other

    def reweighed(self, weight: Array) -> Choices:
        """Return the sets with other weights, which are taken as they are."""
        part = object.__new__(Choices)
        part._store(self.design, self.indptr, self.target, weight, self.log_measure, self.hidden)
        return part

    def _with(self, design: Design, indptr: Array, outcomes: Any, sets: Any) -> Choices:
        part = object.__new__(Choices)
        part._store(
            design,
            indptr,
            self.target[outcomes],
            None if self.weight is None else self.weight[sets],
            None if self.log_measure is None else self.log_measure[outcomes],
            self.hidden,
        )
        return part


# Numbers compared at a time: about what stays in cache.
AT_A_TIME = 2**16
# An odd number that looks like noise: products with it, modulo 2⁶⁴, spread bits over all higher ones.
MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, eq=False)
class Sample:
    """Observed choices: the distinct sets with their weights, and what each observation is one of.

    ``chosen`` is the outcome that each observation chose, among all outcomes of all sets; None if observations are
    frequencies, of which no two share a set.
    """

    sets: Choices
    numbers: Array
    chosen: Array | None
    weight: Array | None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def total(self) -> float:
        """The weight of all observations."""
        return float(len(self) if self.weight is None else self.weight.sum())

    @classmethod
    def of(cls, data: Choices) -> Sample:
        """Return the data with equal sets put together, or as they are where few are equal."""
        chosen = np.flatnonzero(data.target == 1)  # the outcome of each set, if each chose one
        if not len(chosen) == len(data) == np.count_nonzero(data.target):
            return cls(data, np.arange(len(data)), None, data.weight)
        looks, picks = _looks_of_outcomes(data), chosen - data.indptr[:-1]
        # Most equal sets read the same as they stand, which is seen sooner than that they do in some order.
        kinds = _Kinds(data, looks, np.arange(len(data)), picks).put_together().in_some_order()
        if len(kinds.sets) == len(data):
            return cls(data, np.arange(len(data)), chosen, data.weight)
        return cls.counted(kinds.sets, kinds.numbers, kinds.picks, data.weight)

    @classmethod
    def counted(cls, sets: Choices, numbers: Array, picks: Array, weight: Array | None) -> Sample:
        """Return the observations that chose outcome ``picks`` of set ``numbers``; targets of the sets are found."""
        chosen = sets.indptr[numbers] + picks
        amounts = np.ones(len(numbers)) if weight is None else weight
        added = np.bincount(chosen, amounts, minlength=int(sets.indptr[-1]))
        total, sizes = np.add.reduceat(added, sets.indptr[:-1]), sets.sizes
        # What was never observed keeps the frequencies that it has, and weighs nothing.
        per_outcome = np.repeat(total, sizes)
        target = np.where(per_outcome > 0, added / np.where(per_outcome > 0, per_outcome, 1.0), sets.target)
        weighed = Choices(sets.design, sizes, target=target, weight=total, log_measure=sets.log_measure)
        return cls(weighed, numbers, chosen, weight)


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Sets of which some may still be equal, the looks of their outcomes, and which of which set was chosen."""

    sets: Choices
    looks: Array
    numbers: Array
    picks: Array

    def put_together(self) -> _Kinds:
        """Return one of each of those sets that read the same, or all, where few do."""
        _, first, numbers = np.unique(_looks_of_sets(self.looks, self.sets), return_index=True, return_inverse=True)
        if not self._is_worth(len(first)):
            return self
        alone = np.flatnonzero(~_equal(self.sets, first[numbers]))  # which only look like another
        numbers[alone] = len(first) + np.arange(len(alone))
        first = np.concatenate([first, alone])
        looks = self.looks[self.sets.outcomes_of(first)]
        return _Kinds(self.sets.take(first), looks, numbers[self.numbers], self.picks)

    def in_some_order(self) -> _Kinds:
        """Return one of each of those sets that have the same outcomes, or all, where few do."""
        in_any_order = np.add.reduceat(self.looks, self.sets.indptr[:-1])
        if not self._is_worth(len(np.unique(in_any_order))):
            return self
        # With outcomes in the order of their looks equal sets read the same.
        order = np.arange(len(self.looks))
        for _, at in self.sets.by_size:
            order[at] = np.take_along_axis(at, np.argsort(self.looks[at], axis=0), axis=0)
        place, starts = np.empty_like(order), self.sets.indptr[self.numbers]
        place[order] = np.arange(len(order))
        sets = self.sets.take(np.arange(len(self.sets)), order)
        return _Kinds(sets, self.looks[order], self.numbers, place[starts + self.picks] - starts).put_together()

    def _is_worth(self, kinds: int) -> bool:
        # Fewer sets than this share of all are worth a copy.
        return kinds <= 0.7 * len(self.sets)


def _equal(data: Choices, others: Array) -> Array:
    """Return whether each set is the same as the other one given for it, outcome by outcome."""
    sizes, ones = data.sizes, np.arange(len(data))
    equal = sizes == sizes[others]
    others = np.where(equal, others, ones)
    at_a_time = max(AT_A_TIME * len(data) // (int(data.indptr[-1]) * data.n_features), 1)
    for begin in range(0, len(data), at_a_time):
        end = min(begin + at_a_time, len(data))
        one, other = slice(data.indptr[begin], data.indptr[end]), data.outcomes_of(others[begin:end])
        first, second = data.design.part(one), data.design.part(other)
        if first.is_sparse:
            apart: Any = first.csr() != second.csr()
            unlike = np.diff(apart.tocsr().indptr) > 0
        else:  # all numbers together are looked at sooner than row by row
            different = first.toarray() != second.toarray()
            unlike = different.any(axis=1) if different.any() else np.zeros(len(different), dtype=bool)
        if data.log_measure is not None:
            unlike |= data.log_measure[one] != data.log_measure[other]
        if unlike.any():  # looks seldom deceive
            equal[begin:end] &= ~np.logical_or.reduceat(unlike, data.indptr[begin:end] - data.indptr[begin])
    return equal


def _looks_of_sets(looks: Array, data: Choices) -> Array:
    """Return a number for each set that is the same for sets of the same outcomes in the same order."""
    sizes = data.sizes
    place = np.arange(len(looks)) - np.repeat(data.indptr[:-1], sizes)
    return np.add.reduceat(looks * (2 * place + 1).astype(np.uint64), data.indptr[:-1])


def _looks_of_outcomes(data: Choices) -> Array:
    """Return a number for each outcome that is the same for outcomes that are the same: Σ_i bits_i key_i, mixed."""
    keys = np.random.default_rng(0).integers(2**64, size=data.n_features + 1, dtype=np.uint64) | np.uint64(1)
    looks = _looks_of_rows(data.design, keys[:-1])
    if data.log_measure is not None:
        looks += _bits(data.log_measure) * keys[-1]
    return (looks ^ (looks >> np.uint64(32)) ^ MIX) * MIX  # one of zeros counts, too


def _looks_of_rows(design: Design, keys: Array) -> Array:
    if not design.is_sparse:
        X, looks = design.toarray(), np.empty(design.shape[0], dtype=np.uint64)
        rows = max(AT_A_TIME // X.shape[1], 1)
        for begin in range(0, len(X), rows):
            looks[begin : begin + rows] = _bits(X[begin : begin + rows]) @ keys  # products wrap around
        return looks
    csr = design.csr()
    terms = _bits(csr.data) * keys[csr.indices]
    ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return ends[csr.indptr[1:]] - ends[csr.indptr[:-1]]


def _bits(values: Array) -> Array:
    """Return the bits of numbers, the higher ones, which tell short numbers apart, in the lower half as well."""
    bits = (values.astype(np.float64, copy=False) + 0.0).view(np.uint64)  # −0 is 0
    return bits ^ (bits >> np.uint64(32))
