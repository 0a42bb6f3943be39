"""Sequences of tokens, each with sparse attributes and a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from majorant import kernels
from majorant._checks import Array
from majorant.data.base import InMemory
from majorant.data.universe import Universe
from majorant.kernels.sparse import Occurrences, Placements

# Tokens whose messages stay in cache.
PIECE = 2_000


@dataclass(frozen=True, eq=False)
class Sequences(InMemory):
    """Sequences for :class:`~majorant.models.Chain`; tokens of all of them stand one after the other.

    Parameters
    ----------
    universe : Universe
        Which parameters there are.
    starts : array of shape (t + 1,)
        Sequence j has the tokens starts[j] … starts[j + 1] − 1, none if it is empty.
    indptr, where, count, values : arrays
        Token i has the occurrences indptr[i] … indptr[i + 1] − 1, with these values, or all ones. Each says where the
        parameters of its attribute begin and how many they are; or, of a count of zero, its row in the table.
    y : array
        The label of each token.
    weight : array, optional
        Of each token: the loss is Σ_t w_t (−log p(y_t | y_1 … y_{t−1}, x)). Where all tokens of a sequence weigh the
        same, a weight of 2 is the same as the sequence twice.
    """

    universe: Universe
    starts: Array
    indptr: Array
    where: Array
    count: Array
    values: Array | None
    y: Array
    weight: Array | None

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
        """Return the sequences, with what kernels need to know of each attribute looked up."""
        where, count = universe.places
        return cls(universe, starts, indptr, where[attributes], count[attributes], values, y, weight)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return len(self.indptr) - 1

    @cached_property
    def observed(self) -> Array:
        """How often each parameter was observed, weighted: the loss is Σ w log Z less θᵀ this."""
        universe = self.universe
        counts, table, steps = np.zeros(universe.size), universe.table(), np.zeros((universe.n, universe.n))
        for _, piece in self.pieces():
            each = np.ones(piece.n_tokens) if piece.weight is None else piece.weight
            R = np.zeros((piece.n_tokens, universe.width))
            R[np.arange(len(R)), piece.y] = each
            kernels.chain.lift(piece.placements(), R, table, counts)
            inner = piece.inner_tokens()
            np.add.at(steps, (piece.y[inner - 1], piece.y[inner]), each[inner])
        return universe.joined_parts(counts, table, steps)

    @property
    def attributes(self) -> Array:
        """The attribute of each occurrence, found anew to save memory; of those without parameters, the last one."""
        universe, found, has_own = self.universe, self.where.copy(), self.count > 0
        found[has_own] = universe.attribute[self.where[has_own]]
        found[~has_own & (self.where == universe.tabled)] = max(universe.n_attributes, 1) - 1
        return found

    def occurrences(self) -> Occurrences:
        """Return the attributes of tokens, as kernels take them."""
        return Occurrences(self.indptr, self.attributes, self.values, self.universe.first, self.universe.label)

    def placements(self) -> Placements:
        """Return the same, with the parameters of each attribute looked up."""
        return Placements(self.indptr, self.where, self.count, self.values, self.universe.label)

    def inner_tokens(self) -> Array:
        """Return the tokens that follow another one."""
        return inner_tokens(self.starts)

    def unweighted(self) -> Sequences:
        """Return the sequences, each token with a weight of one."""
        return replace(self, weight=None)

    def pieces(self) -> Iterator[tuple[slice, Sequences]]:
        """Yield about ``PIECE`` tokens at a time, and where they stand."""
        begin = 0
        for end in self._cuts:
            tokens = slice(int(self.starts[begin]), int(self.starts[end]))
            if tokens.stop > tokens.start:
                yield tokens, self.part(begin, end)
            begin = end

    @cached_property
    def _cuts(self) -> list[int]:
        cuts = np.searchsorted(self.starts, np.arange(PIECE, self.n_tokens + PIECE, PIECE), side="left")
        return [int(cut) for cut in np.unique(np.minimum(cuts, len(self)))]

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
        return replace(
            self,
            starts=starts,
            indptr=indptr,
            values=None if self.values is None else self.values[entries],
            y=self.y[tokens],
            weight=None if self.weight is None else self.weight[tokens],
            where=self.where[entries],
            count=self.count[entries],
        )

    def part(self, begin: int, end: int) -> Sequences:
        """Return sequences ``begin`` … ``end`` − 1, as views."""
        i, j = int(self.starts[begin]), int(self.starts[end])
        k, m = int(self.indptr[i]), int(self.indptr[j])
        return replace(
            self,
            starts=self.starts[begin : end + 1] - i,
            indptr=self.indptr[i : j + 1] - self.indptr[i],
            values=None if self.values is None else self.values[k:m],
            y=self.y[i:j],
            weight=None if self.weight is None else self.weight[i:j],
            where=self.where[k:m],
            count=self.count[k:m],
        )


def _stretches(starts: Array, which: Array) -> tuple[Array, Array]:
    """Return what stands in the stretches starts[k] … starts[k + 1] − 1, one after the other, and where each begins."""
    lengths = np.diff(starts)[which]
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(starts.dtype)
    return np.arange(begin[-1]) + np.repeat(starts[which] - begin[:-1], lengths), begin


def inner_tokens(starts: Array) -> Array:
    """Return the tokens that follow another one of their sequence."""
    follows = np.ones(starts[-1], dtype=bool)
    follows[starts[:-1][starts[:-1] < starts[-1]]] = False
    return np.flatnonzero(follows)
