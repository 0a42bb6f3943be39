"""What a chain has learnt: weights of a fit, weights of a stream, which grow, and both as files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from majorant.chain.feature_index import GrowingUniverse, Selection, Stack, Universe, observed_pairs
from majorant.chain.model import Chain
from majorant.chain.sequences import Sequences
from majorant.chain.tokens import Tokens, Vocabulary
from majorant.core.checks import Array
from majorant.core.online import OnlineStream
from majorant.estimators import saving
from majorant.estimators.saving import LABELS, Field, Notes, Saved, Written, are_positive, are_rising


class Weights(NamedTuple):
    """Parameters, one for each of a universe, and their precision, if they come from a stream."""

    universe: Universe
    theta: Array
    precision: Array | None = None


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """Weights of a fit, which stay as they are."""

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
    """Weights of a stream over n labels: each chunk adds some, and changes those that it meets, in place."""

    def __init__(self, n: int) -> None:
        self._universe = GrowingUniverse(n)
        self._theta, self._precision = Stack(np.float64), Stack(np.float64)
        self._before: tuple[Array, Array, Array] | None = None  # what the last chunk has changed: where, and from what

    @classmethod
    def of(cls, weights: Weights) -> StreamedWeights:
        """Return a stream that goes on from these."""
        universe, stream = weights.universe, cls(weights.universe.n)
        attributes = np.arange(universe.n_attributes)
        stream._grow(attributes, (np.sort(universe.pairs), universe.steps), len(attributes), prior=0.0)
        places = stream._universe.part(attributes)[1]
        stream._theta.values[places], stream._precision.values[places] = weights.theta, weights.precision
        return stream

    def whole(self) -> Weights:
        """Return all of them."""
        return self._part(np.arange(self._universe.n_attributes))[0]

    def for_tokens(self, tokens: Tokens) -> tuple[Weights, Tokens]:
        """Return the weights of the attributes of these tokens, and the tokens by their numbers there."""
        attributes, tokens = _renumbered(tokens, np.empty(0, dtype=np.int64), self._universe.n_attributes)
        return self._part(attributes)[0], tokens

    def learn(
        self, tokens: Tokens, y: Array, weight: Array | None, selection: Selection, n_attributes: int, prior: float
    ) -> None:
        """Take a step at every sequence, in order. It costs what the sequences hold, however much is known by now.

        Parameters
        ----------
        tokens, y, weight : Tokens and arrays
            The sequences, and labels and weights of their tokens.
        selection : dict
            Which pairs have a weight.
        n_attributes : int
            How many attributes are known by now.
        prior : float
            The precision of a new weight.
        """
        new = np.arange(self._universe.n_attributes, n_attributes)  # some may have a name only, as columns of zeros do
        attributes, tokens = _renumbered(tokens, new, n_attributes)
        observed = observed_pairs(tokens, y, self._universe.n, len(attributes), **selection)
        self._grow(attributes, observed, n_attributes, prior)
        (universe, theta, precision), places = self._part(attributes)
        data = Sequences.from_tokens(universe, tokens, y, weight)
        after = OnlineStream(Chain(), theta, precision).learn(data, np.arange(len(data)))  # type: ignore[arg-type]
        if not np.isfinite(after.theta).all():
            raise ValueError("these sequences make weights that are not finite: scale their values down")
        self._before = places, theta, precision  # type: ignore[assignment]
        self._theta.values[places], self._precision.values[places] = after.theta, after.precision

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Put everything back as it was if the block fails."""
        size, n_attributes, self._before = len(self._universe), self._universe.n_attributes, None
        try:
            yield
        except BaseException:
            if self._before is not None:
                places, theta, precision = self._before
                self._theta.values[places], self._precision.values[places] = theta, precision
            self._universe.cut(size, n_attributes)
            self._theta.cut(size)
            self._precision.cut(size)
            raise
        finally:
            self._before = None

    def _part(self, attributes: Array) -> tuple[Weights, Array]:
        """Return the weights of some attributes, and their places."""
        universe, places = self._universe.part(attributes)
        return Weights(universe, self._theta.values[places], self._precision.values[places]), places

    def _grow(self, attributes: Array, observed: tuple[Array, Array], n_attributes: int, prior: float) -> None:
        self._universe.grow(attributes, *observed, n_attributes)
        new = len(self._universe) - len(self._theta)
        self._theta.extend(np.zeros(new))
        self._precision.extend(np.full(new, prior))


def _renumbered(tokens: Tokens, more: Array, n_attributes: int) -> tuple[Array, Tokens]:
    """Return the attributes of tokens and some more, in rising order, and the tokens by their places there."""
    numbers = np.concatenate([tokens.attributes, more])
    if len(numbers) < n_attributes:
        attributes, places = np.unique(numbers, return_inverse=True)
    else:  # a table of all that are known is faster, and no larger than the tokens
        met = np.zeros(n_attributes, dtype=bool)
        met[numbers] = True
        attributes, places = np.flatnonzero(met), (np.cumsum(met) - 1)[numbers]
    return attributes, replace(tokens, attributes=places[: len(tokens.attributes)].astype(np.uint32))


class ChainFiles(Saved):
    """``save`` and ``load``, for a chain."""

    _learnt = "_weights"
    _fields: ClassVar[dict[str, Field]] = {
        "classes": Field(LABELS, ("classes",), are_rising),
        "states": Field("iu", ("classes",), are_positive, needed=False),
        **saving.names_fields("attributes"),
        "pairs": Field("iu", ("pairs",), are_rising),
        "steps": Field("iu", ("steps",), are_rising),
        "theta": Field("f", (lambda lengths: lengths["pairs"] + lengths["steps"],)),
        "metric": Field("f", (lambda lengths: lengths["pairs"] + lengths["steps"],), are_positive, needed=False),
    }

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        saving.restore_ending(self, facts)
        self.gap_ = self.result_.gap
        names, classes, theta = (
            saving.unpacked(arrays),
            arrays["classes"],
            arrays["theta"].astype(np.float64, copy=False),
        )
        states, precision = arrays.get("states", np.ones(len(classes), dtype=np.int64)), arrays.get("metric")
        # States are numbers of 16 bits, and no more than there are weights to tell apart. A stream, whose labels have
        # one each, keeps a table of all pairs of them.
        most = min(len(states) + len(theta), 2**16 if precision is None else 2**13)
        if not 0 < len(states) <= most or states.max() > most or states.sum() > most:
            raise ValueError(
                f"{len(states)} classes cannot have the states that the array 'states' says, or are too many"
            )
        n = int(states.sum())
        for name, size in (("pairs", len(names) * n), ("steps", n * n)):
            values = arrays[name]
            if len(values) and (values[0] < 0 or values[-1] >= size):
                raise ValueError(f"the array {name!r} holds numbers that are none of the {size} that there are")
        vocabulary = Vocabulary(names)
        if len(vocabulary) < len(names):
            raise ValueError("the array 'names' holds duplicates")
        universe = Universe.of(arrays["pairs"].astype(np.int64), arrays["steps"].astype(np.int64), n, len(names))
        fitted = precision is None
        weights = FittedWeights(universe, theta) if fitted else StreamedWeights.of(Weights(universe, theta, precision))
        self._keep(weights, classes, vocabulary)
        self._take_up(states)

    def _written(self: Any, notes: Notes) -> Written:
        universe, theta, precision = self._weights.whole()
        arrays = {
            "theta": theta,
            "classes": self.classes_,
            "pairs": np.sort(universe.pairs),
            "steps": universe.steps,
            **saving.packed(self._vocabulary.names()),
        }
        if universe.n > len(self.classes_):
            arrays["states"] = self.n_states_
        if precision is not None:
            arrays["metric"] = precision  # as files have called it from the first
        return saving.facts_of(self, notes), arrays
