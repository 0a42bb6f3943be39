"""Outcome sets that occur again and again: one of each is enough, with what was observed of all of them.

log p depends on a set's features alone, so that equal sets, each with weight w_j and frequencies target_j, weigh
Σ_j w_j together, with frequencies Σ_j w_j target_j / Σ_j w_j: the loss is the same function of θ. What each row chose
is remembered, since standard errors ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data.choices import Choices
from majorant.design import Design

# Fewer sets than this share of all are worth a copy.
WORTH = 0.7
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
        chosen = _hard(data)
        if chosen is None:
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


def _hard(data: Choices) -> Array | None:
    """Return the outcome that each set chose, if each chose one."""
    chosen = np.flatnonzero(data.target == 1)
    is_hard = len(chosen) == len(data) == np.count_nonzero(data.target)
    return chosen if is_hard else None


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
        return self._sorted().put_together() if self._is_worth(len(np.unique(in_any_order))) else self

    def _sorted(self) -> _Kinds:
        """Return the sets with their outcomes in the order of their looks: equal sets then read the same."""
        order = np.arange(len(self.looks))
        for _, at in self.sets.by_size:
            order[at] = np.take_along_axis(at, np.argsort(self.looks[at], axis=0), axis=0)
        place, starts = np.empty_like(order), self.sets.indptr[self.numbers]
        place[order] = np.arange(len(order))
        sets = self.sets.take(np.arange(len(self.sets)), order)
        return _Kinds(sets, self.looks[order], self.numbers, place[starts + self.picks] - starts)

    def _is_worth(self, kinds: int) -> bool:
        return kinds <= WORTH * len(self.sets)


def _equal(data: Choices, others: Array) -> Array:
    """Return whether each set is the same as the other one given for it, outcome by outcome."""
    sizes, ones = data.sizes, np.arange(len(data))
    equal = sizes == sizes[others]
    others = np.where(equal, others, ones)
    at_a_time = max(AT_A_TIME * len(data) // (int(data.indptr[-1]) * data.n_features), 1)
    for begin in range(0, len(data), at_a_time):
        end = min(begin + at_a_time, len(data))
        one, other = slice(data.indptr[begin], data.indptr[end]), data.outcomes_of(others[begin:end])
        unlike = _unlike_rows(data.design.part(one), data.design.part(other))
        if data.log_measure is not None:
            unlike |= data.log_measure[one] != data.log_measure[other]
        if unlike.any():  # looks seldom deceive
            equal[begin:end] &= ~np.logical_or.reduceat(unlike, data.indptr[begin:end] - data.indptr[begin])
    return equal


def _unlike_rows(one: Design, other: Design) -> Array:
    if one.is_sparse:
        unlike: Any = one.csr() != other.csr()
        return np.diff(unlike.tocsr().indptr) > 0
    different = one.toarray() != other.toarray()
    # All numbers together are looked at sooner than row by row.
    return different.any(axis=1) if different.any() else np.zeros(len(different), dtype=bool)


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
