"""Sequences of tokens, each with sparse attributes and a label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from majorant._checks import Array
from majorant.data.base import InMemory
from majorant.data.universe import Universe
from majorant.kernels.sparse import Features, Occurrences


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
    attributes: Array
    values: Array | None
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
        return cls(universe, starts, indptr, attributes, values, y, weight, features)

    def __len__(self) -> int:
        return len(self.starts) - 1

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

    def take(self, rows: Array) -> Sequences:
        """Return a copy of the given sequences, in that order, repeats included."""
        tokens, starts = _stretches(self.starts, rows)
        entries, indptr = _stretches(self.indptr, tokens)
        return Sequences.of(
            self.universe,
            starts,
            indptr,
            self.attributes[entries],
            None if self.values is None else self.values[entries],
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
            attributes=self.attributes[k:m],
            values=None if self.values is None else self.values[k:m],
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
