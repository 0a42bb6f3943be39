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
AT_A_TIME = 2**17
# An odd number that looks like noise: products with it, modulo 2⁶⁴, spread bits over all others.
SEED = np.uint64(0x9E3779B97F4A7C15)
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
        looks = _looks_of_outcomes(data)
        _, first, numbers = np.unique(_looks_of_sets(looks, data), return_index=True, return_inverse=True)
        if len(first) > WORTH * len(data):
            return cls(data, np.arange(len(data)), chosen, data.weight)
        order = _order(data, looks)
        first, numbers = _told_apart(data, order, first, numbers)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        sets = data.take(first, order)
        return cls.counted(sets, numbers, place[chosen] - data.indptr[:-1], data.weight)

    @classmethod
    def counted(cls, sets: Choices, numbers: Array, picks: Array, weight: Array | None) -> Sample:
        """Return the observations that chose outcome ``picks`` of set ``numbers``; targets of the sets are found."""
        chosen = sets.indptr[numbers] + picks
        amounts = np.ones(len(numbers)) if weight is None else weight
        added = np.bincount(chosen, amounts, minlength=int(sets.indptr[-1]))
        total, sizes = np.add.reduceat(added, sets.indptr[:-1]), np.diff(sets.indptr)
        # What was never observed keeps the frequencies that it has, and weighs nothing.
        per_outcome = np.repeat(total, sizes)
        target = np.where(per_outcome > 0, added / np.where(per_outcome > 0, per_outcome, 1.0), sets.target)
        weighed = Choices(sets.design, sizes, target=target, weight=total, log_measure=sets.log_measure)
        return cls(weighed, numbers, chosen, weight)


def _hard(data: Choices) -> Array | None:
    """Return the outcome that each set chose, if each chose one."""
    chosen = np.flatnonzero(data.target)
    is_hard = len(chosen) == len(data) and bool((data.target[chosen] == 1).all())
    return chosen if is_hard else None


def _told_apart(data: Choices, order: Array, first: Array, numbers: Array) -> tuple[Array, Array]:
    """Return one set of each kind, and for every set which kind it is; sets that only look alike are told apart."""
    alone = np.flatnonzero(~_equal(data, order, first[numbers]))
    numbers[alone] = len(first) + np.arange(len(alone))
    return np.concatenate([first, alone]), numbers


def _equal(data: Choices, order: Array, others: Array) -> Array:
    """Return whether each set is the same as the other one given for it, outcomes in some order."""
    sizes, ones = np.diff(data.indptr), np.arange(len(data))
    equal, asked = sizes == sizes[others], np.flatnonzero((sizes == sizes[others]) & (ones != others))
    at_a_time = max(AT_A_TIME * len(data) // (int(data.indptr[-1]) * data.n_features), 1)
    for begin in range(0, len(asked), at_a_time):
        some = asked[begin : begin + at_a_time]
        one, other = order[data.outcomes_of(some)], order[data.outcomes_of(others[some])]
        same = _same_rows(data.design.part(one), data.design.part(other))
        if data.log_measure is not None:
            same &= data.log_measure[one] == data.log_measure[other]
        equal[some] = np.logical_and.reduceat(same, np.cumsum(sizes[some]) - sizes[some])
    return equal


def _same_rows(one: Design, other: Design) -> Array:
    if one.is_sparse:
        unlike: Any = one.csr() != other.csr()
        return np.diff(unlike.tocsr().indptr) == 0
    return (one.toarray() == other.toarray()).all(axis=1)


def _order(data: Choices, looks: Array) -> Array:
    """Return the outcomes of each set in the order of their looks: equal sets then read the same."""
    order = np.arange(len(looks))
    for _, at in data.by_size:
        order[at] = np.take_along_axis(at, np.argsort(looks[at], axis=0), axis=0)
    return order


def _looks_of_sets(looks: Array, data: Choices) -> Array:
    """Return a number for each set that is the same for sets of the same outcomes, in whatever order."""
    return np.add.reduceat(looks, data.indptr[:-1]) + np.diff(data.indptr).astype(np.uint64)


def _looks_of_outcomes(data: Choices) -> Array:
    """Return a number for each outcome that is the same for outcomes that are the same."""
    looks = _looks_of_rows(data.design)
    if data.log_measure is not None:
        looks += _mixed(data.log_measure, 0)
    return (looks ^ (looks >> np.uint64(32))) * MIX


def _looks_of_rows(design: Design) -> Array:
    if not design.is_sparse:
        X, looks = design.toarray(), np.zeros(design.shape[0], dtype=np.uint64)
        for column in range(X.shape[1]):
            looks += _mixed(X[:, column], column + 1)
        return looks
    csr = design.csr()
    terms = _mixed(csr.data, csr.indices + 1)
    ends = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return ends[csr.indptr[1:]] - ends[csr.indptr[:-1]]


def _mixed(values: Array, place: Any) -> Array:
    """Return the bits of numbers, mixed up, differently at different places; products wrap around."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # −0 is 0
    key = (2 * np.atleast_1d(place).astype(np.uint64) + np.uint64(1)) * SEED
    mixed = (bits ^ (bits >> np.uint64(31))) * key
    return (mixed ^ (mixed >> np.uint64(29))) * MIX
