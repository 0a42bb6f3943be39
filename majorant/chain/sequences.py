"""Sequences of tokens, each with sparse attributes and a label: the data of a chain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from majorant.chain.feature_index import Universe
from majorant.chain.tokens import Tokens, inner_tokens
from majorant.core.checks import Array
from majorant.core.kernels.sparse import Features, Occurrences
from majorant.core.rows import InMemory


class Given(NamedTuple):
    """The attributes of all tokens, one after the other, and a value for each, or None if all are ones."""

    attributes: Array
    values: Array | None


class InFeatures(NamedTuple):
    """What features lack to give attributes and values again: which occurrences are rows of the table, a bit each.

    The bits from ``begin`` to ``end`` are those of the tokens in question.
    """

    bits: Array
    begin: int
    end: int


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
    given: Given | InFeatures
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
        return cls(universe, starts, indptr, Given(attributes, values), y, weight, features)

    @classmethod
    def from_tokens(cls, universe: Universe, tokens: Tokens, y: Array, weight: Array | None) -> Sequences:
        """Return encoded tokens, whose attributes are numbers of a vocabulary, as sequences of a universe."""
        attributes = universe.number[tokens.attributes]
        return cls.of(universe, tokens.starts, tokens.indptr, attributes, tokens.values, y, weight)

    def compact(self) -> Sequences:
        """Return the same sequences in less memory: attributes are not kept beside features that tell them."""
        if not (self.universe.first[1:] > self.universe.first[:-1]).all():  # an attribute has no parameter
            return self
        attributes = self.attributes
        tabled = np.packbits(attributes < self.universe.tabled)
        return replace(self, given=InFeatures(tabled, 0, len(attributes)))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def attributes(self) -> Array:
        """The attributes of all tokens, one after the other."""
        return self.given.attributes if isinstance(self.given, Given) else self._from_features()[0]

    @property
    def values(self) -> Array | None:
        """A value for each of them, None if all are ones."""
        return self.given.values if isinstance(self.given, Given) else self._from_features()[1]

    def _from_features(self) -> tuple[Array, Array | None]:
        """Return attributes and values: most fits ask for neither, and nothing is kept."""
        assert isinstance(self.given, InFeatures)
        (bits, begin, end), x = self.given, self.features
        tabled = np.unpackbits(bits[begin // 8 : -(-end // 8)])[begin % 8 :][: end - begin].view(bool)
        # Of attributes that are no rows of the table, the code of the first parameter stands for all of them.
        places = x.codes >> x.bits
        owners = self.universe.attribute[places]
        first = self.universe.first[owners] == places
        attributes = np.empty(len(tabled), dtype=np.uint32)
        attributes[tabled], attributes[~tabled] = x.rows, owners[first]
        if x.values is None or x.row_values is None:
            return attributes, None
        values = np.empty(len(tabled))
        values[tabled], values[~tabled] = x.row_values, x.values[first]
        return attributes, values

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
        i, j = int(self.starts[begin]), int(self.starts[end])
        k, m = int(self.indptr[i]), int(self.indptr[j])
        given: Given | InFeatures
        if isinstance(self.given, InFeatures):
            given = self.given._replace(begin=self.given.begin + k, end=self.given.begin + m)
        else:
            values = self.given.values
            given = Given(self.given.attributes[k:m], None if values is None else values[k:m])
        return replace(
            self,
            starts=self.starts[begin : end + 1] - i,
            indptr=self.indptr[i : j + 1] - self.indptr[i],
            given=given,
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
