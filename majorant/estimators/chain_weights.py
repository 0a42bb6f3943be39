"""What a chain has learnt: weights from a fit, and weights of a stream, which grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from majorant._checks import Array
from majorant.data.growing_universe import GrowingUniverse
from majorant.data.stack import Stack
from majorant.data.tokens import Tokens
from majorant.data.universe import Universe
from majorant.estimators.chain_features import sequences
from majorant.models import Chain
from majorant.solvers.online import OnlineStream

# From tokens, labels, and numbers of labels and attributes to the pairs and steps that have a weight.
Observed: TypeAlias = Callable[[Tokens, Array, int, int], tuple[Array, Array]]


class Weights(NamedTuple):
    """Parameters, one for each of a universe, and their precision, if they come from a stream."""

    universe: Universe
    theta: Array
    precision: Array | None = None

    def states(self, names: list[str], labels: list[Any]) -> dict[tuple[str, Any], float]:
        """Return the weight of each pair of attribute and label."""
        n, pairs = self.universe.n, self.universe.pairs.tolist()
        return {(names[k // n], labels[k % n]): w for k, w in zip(pairs, self.theta.tolist(), strict=False)}

    def transitions(self, labels: list[Any]) -> dict[tuple[Any, Any], float]:
        """Return the weight of each pair of label and next label."""
        steps, weights = self.universe.transitions.tolist(), self.theta[len(self.universe.label) :].tolist()
        return {(labels[i], labels[j]): w for (i, j), w in zip(steps, weights, strict=True)}


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """Those of a fit, which stay as they are."""

    universe: Universe
    theta: Array

    def whole(self) -> Weights:
        """Return all of them."""
        return Weights(self.universe, self.theta)

    def for_tokens(self, tokens: Tokens) -> tuple[Weights, Tokens]:
        """Return weights that score these tokens, and the tokens by their numbers."""
        # A table makes scores faster, and takes as long to make as so many tokens.
        few = len(tokens.indptr) <= self.universe.tabled
        return Weights(self._without_table if few else self.universe, self.theta), tokens

    @cached_property
    def _without_table(self) -> Universe:
        return replace(self.universe, tabled=0)


class StreamedWeights:
    """Those of a stream over n labels: each chunk adds some, and changes those that it meets, in place."""

    def __init__(self, n: int) -> None:
        self._universe = GrowingUniverse(n)
        self._theta, self._precision = Stack(np.float64), Stack(np.float64)
        self._before: tuple[Array, Array, Array] | None = None  # what the last chunk has changed: where, and from what

    @classmethod
    def of(cls, weights: Weights) -> StreamedWeights:
        """Return a stream that goes on from these."""
        universe, stream = weights.universe, cls(weights.universe.n)
        every = np.arange(universe.n_attributes)
        stream._grow(every, np.sort(universe.pairs), universe.steps, len(every), prior=0.0)
        places = stream._universe.part(every)[1]
        stream._theta.values[places], stream._precision.values[places] = weights.theta, weights.precision
        return stream

    def whole(self) -> Weights:
        """Return all of them."""
        return self._of(np.arange(self._universe.n_attributes))[0]

    def for_tokens(self, tokens: Tokens) -> tuple[Weights, Tokens]:
        """Return the weights of the attributes of these tokens, and the tokens by their numbers there."""
        attributes, tokens = _met_attributes(tokens, np.empty(0, dtype=np.int64), self._universe.n_attributes)
        return self._of(attributes)[0], tokens

    def learn(
        self, tokens: Tokens, y: Array, weight: Array | None, observed: Observed, n_attributes: int, prior: float
    ) -> None:
        """Take a step at every sequence, in order. It costs what the sequences hold, however much is known by now."""
        new = np.arange(self._universe.n_attributes, n_attributes)  # some may have a name only, as columns of zeros do
        attributes, tokens = _met_attributes(tokens, new, n_attributes)
        self._grow(attributes, *observed(tokens, y, self._universe.n, len(attributes)), n_attributes, prior)
        (universe, theta, precision), places = self._of(attributes)
        assert precision is not None
        data = sequences(universe, tokens, y, weight)
        after = OnlineStream(Chain(), theta, precision).learn(data, np.arange(len(data)))
        if not np.isfinite(after.theta).all():
            raise ValueError("these sequences make weights that are not finite: scale their values down")
        self._before = places, theta, precision
        self._write(places, after.theta, after.precision)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Put everything back as it was if the block fails."""
        size, n_attributes, self._before = len(self._universe), self._universe.n_attributes, None
        try:
            yield
        except BaseException:
            if self._before is not None:
                self._write(*self._before)
            self._universe.cut(size, n_attributes)
            self._theta.cut(size)
            self._precision.cut(size)
            raise
        finally:
            self._before = None

    def _of(self, attributes: Array) -> tuple[Weights, Array]:
        universe, places = self._universe.part(attributes)
        return Weights(universe, self._theta.values[places], self._precision.values[places]), places

    def _write(self, places: Array, theta: Array, precision: Array) -> None:
        self._theta.values[places], self._precision.values[places] = theta, precision

    def _grow(self, attributes: Array, pairs: Array, steps: Array, n_attributes: int, prior: float) -> None:
        self._universe.grow(attributes, pairs, steps, n_attributes)
        new = len(self._universe) - len(self._theta)
        self._theta.extend(np.zeros(new))
        self._precision.extend(np.full(new, prior))


def _met_attributes(tokens: Tokens, more: Array, n_attributes: int) -> tuple[Array, Tokens]:
    """Return the attributes of tokens and some more, in rising order, and the tokens by their places there."""
    every = np.concatenate([tokens.attributes, more])
    if len(every) < n_attributes:
        attributes, places = np.unique(every, return_inverse=True)
    else:  # a table of all that are known is faster, and no larger than the tokens
        met = np.zeros(n_attributes, dtype=bool)
        met[every] = True
        attributes, places = np.flatnonzero(met), (np.cumsum(met) - 1)[every]
    return attributes, replace(tokens, attributes=places[: len(tokens.attributes)].astype(np.uint32))
