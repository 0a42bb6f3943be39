"""Sequences of tokens, each with sparse attributes and a label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from majorant.chain.feature_index import Universe
from majorant.core.checks import Array
from majorant.core.kernels import Features, Occurrences
from majorant.core.rows import InMemory


class Given(Protocol):
    """The attributes of tokens, one after the other, and their values."""

    def attributes(self, universe: Universe, features: Features) -> Array:
        """Return the attributes; ``features`` are those of the same tokens."""

    def values(self, universe: Universe, features: Features) -> Array | None:
        """Return a value for each of them, None if all are ones."""

    def part(self, begin: int, end: int) -> Given:
        """Return those from ``begin`` to ``end``, as views."""


@dataclass(frozen=True, eq=False)
class AsGiven:
    """Both as they were given."""

    numbers: Array
    each: Array | None

    def attributes(self, universe: Universe, features: Features) -> Array:
        """Return them."""
        return self.numbers

    def values(self, universe: Universe, features: Features) -> Array | None:
        """Return them."""
        return self.each

    def part(self, begin: int, end: int) -> AsGiven:
        """Return some of both."""
        return AsGiven(self.numbers[begin:end], None if self.each is None else self.each[begin:end])


@dataclass(frozen=True, eq=False)
class InFeatures:
    """Both as features have them, from where they are put together if anybody asks: most fits never do.

    The bits from ``begin`` to ``end`` say which attributes are rows of the table; all have a parameter.
    """

    bits: Array
    begin: int
    end: int

    @classmethod
    def of(cls, universe: Universe, attributes: Array) -> InFeatures:
        """Return where these attributes stand."""
        return cls(np.packbits(attributes < universe.tabled), 0, len(attributes))

    def attributes(self, universe: Universe, features: Features) -> Array:
        """Put them together."""
        found, tabled = np.empty(self.end - self.begin, dtype=np.uint32), self._tabled()
        found[tabled] = features.rows
        found[~tabled] = universe.firsts_among(features.codes >> features.bits)[0]
        return found

    def values(self, universe: Universe, features: Features) -> Array | None:
        """Put them together."""
        if features.values is None or features.row_values is None:
            return None
        found, tabled = np.empty(self.end - self.begin), self._tabled()
        found[tabled] = features.row_values
        found[~tabled] = features.values[universe.firsts_among(features.codes >> features.bits)[1]]
        return found

    def part(self, begin: int, end: int) -> InFeatures:
        """Return some of both."""
        begin, end = self.begin + begin, self.begin + end
        return InFeatures(self.bits[begin // 8 : -(-end // 8)], begin % 8, begin % 8 + end - begin)

    def _tabled(self) -> Array:
        return np.unpackbits(self.bits)[self.begin : self.end].view(bool)


@dataclass(frozen=True, eq=False)
class Sequences(InMemory):
    """Sequences for :class:`~majorant.models.Chain`; tokens of all of them stand one after the other.

    Parameters
    ----------
    universe : Universe
        Which parameters there are.
    starts : array of shape (t + 1,)
        Sequence j has the tokens starts[j] … starts[j + 1] − 1, none if it is empty.
    indptr, attributes, values : arrays
        Token i has the attributes attributes[indptr[i]:indptr[i + 1]], with these values, or all ones.
    y : array
        The label of each token.
    weight : array, optional
        Of each token: the loss is Σ_t w_t (−log p(y_t | y_1 … y_{t−1}, x)). Where all tokens of a sequence weigh the
        same, a weight of 2 is the same as the sequence twice.
    """

    universe: Universe
    starts: Array
    indptr: Array
    given: Given
    y: Array
    weight: Array | None
    features: Features  # the attributes with their parameters looked up

    @classmethod
    def of(
        cls,
        universe: Universe,
        starts: Array,
        indptr: Array,
        attributes: Array,
        values: Array | None,
        y: Array,
        weight: Array | None = None,
    ) -> Sequences:
        """Return the sequences, with the parameters of their attributes looked up."""
        features = universe.features(indptr, attributes, values)
        return cls(universe, starts, indptr, AsGiven(attributes, values), y, weight, features)

    def compact(self) -> Sequences:
        """Return the same in less memory, if features tell everything of attributes: then these are not kept beside."""
        if not self.universe.is_full:
            return self
        return replace(self, given=InFeatures.of(self.universe, self.attributes))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def attributes(self) -> Array:
        """The attributes of all tokens, one after the other."""
        return self.given.attributes(self.universe, self.features)

    @property
    def values(self) -> Array | None:
        """A value for each of them, None if all are ones."""
        return self.given.values(self.universe, self.features)

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return len(self.indptr) - 1

    def occurrences(self) -> Occurrences:
        """Return the attributes of tokens, as kernels take them."""
        return Occurrences(self.indptr, self.attributes, self.values, self.universe.first, self.universe.label)

    def inner_tokens(self) -> Array:
        """Return the tokens that follow another one."""
        return inner_tokens(self.starts)

    def unweighted(self) -> Sequences:
        """Return the sequences, each token with a weight of one."""
        return replace(self, weight=None)

    @cached_property
    def even(self) -> bool:
        """Whether the tokens of a sequence all weigh the same."""
        if self.weight is None:
            return True
        inner = self.inner_tokens()
        return bool((self.weight[inner] == self.weight[inner - 1]).all())

    def _identity(self) -> tuple[dict[str, Any], dict[str, list[Array]]]:
        """Return facts about the tokens, and the arrays that they are, which tell them from other tokens."""
        universe = self.universe
        arrays = [self.starts, self.indptr, self.attributes, universe.label, universe.transitions]
        tokens = arrays if self.values is None else [*arrays, self.values]
        return {"number of parameters": universe.size}, {"tokens themselves": tokens}

    def take(self, rows: Array) -> Sequences:
        """Return a copy of the given sequences, in that order, repeats included."""
        tokens, starts = _stretches(self.starts, rows)
        entries, indptr = _stretches(self.indptr, tokens)
        values = self.values
        return Sequences.of(
            self.universe,
            starts,
            indptr,
            self.attributes[entries],
            None if values is None else values[entries],
            self.y[tokens],
            None if self.weight is None else self.weight[tokens],
        )

    def part(self, begin: int, end: int) -> Sequences:
        """Return sequences ``begin`` … ``end`` − 1, as views."""
        i, j = int(self.starts[begin]), int(self.starts[end])
        k, m = int(self.indptr[i]), int(self.indptr[j])
        return replace(
            self,
            starts=self.starts[begin : end + 1] - i,
            indptr=self.indptr[i : j + 1] - self.indptr[i],
            given=self.given.part(k, m),
            y=self.y[i:j],
            weight=None if self.weight is None else self.weight[i:j],
            features=self.features.part(i, j),
        )


def _stretches(starts: Array, which: Array) -> tuple[Array, Array]:
    """Return what stands in the stretches starts[k] … starts[k + 1] − 1, one after the other, and where each begins."""
    first = starts[which].astype(np.int64)  # what is unsigned cannot move to the left
    lengths = starts[which + 1] - first
    begin = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(begin[-1]) + np.repeat(first - begin[:-1], lengths), begin.astype(starts.dtype)


def inner_tokens(starts: Array) -> Array:
    """Return the tokens that follow another one of their sequence."""
    follows = np.ones(starts[-1], dtype=bool)
    follows[starts[:-1][starts[:-1] < starts[-1]]] = False
    return np.flatnonzero(follows)
