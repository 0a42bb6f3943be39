"""Chains as files."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from majorant._checks import Array
from majorant.data.universe import Universe
from majorant.data.vocabulary import Vocabulary
from majorant.estimators import storage
from majorant.estimators.archive import LABELS, Field, are_positive, are_rising
from majorant.estimators.chain_weights import FittedWeights, StreamedWeights, Weights
from majorant.estimators.saved import Notes, Saved, Written

# A label is a number below this, and a stream keeps a table of all pairs of labels.
MOST_STATES, MOST_STREAMED = 2**16, 2**13


class ChainFiles(Saved):
    """``save`` and ``load``, for a chain."""

    _learnt = "_weights"
    _fields: ClassVar[dict[str, Field]] = {
        "classes": Field(LABELS, ("classes",), are_rising),
        "states": Field("iu", ("classes",), are_positive, needed=False),
        **storage.names_fields("attributes"),
        "pairs": Field("iu", ("pairs",), are_rising),
        "steps": Field("iu", ("steps",), are_rising),
        "theta": Field("f", (lambda lengths: lengths["pairs"] + lengths["steps"],)),
        "metric": Field("f", (lambda lengths: lengths["pairs"] + lengths["steps"],), are_positive, needed=False),
    }

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        storage.restore_ending(self, facts)
        self.gap_ = self.result_.gap
        names, classes = storage.unpacked(arrays), arrays["classes"]
        theta = arrays["theta"].astype(np.float64, copy=False)
        states, precision = arrays.get("states", np.ones(len(classes), dtype=np.int64)), arrays.get("metric")
        n = _count_states(states, len(theta), stream=precision is not None)
        for name, size in (("pairs", len(names) * n), ("steps", n * n)):
            _refuse_beyond(name, arrays[name], size)
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
            **storage.packed(self._vocabulary.names()),
        }
        if universe.n > len(self.classes_):
            arrays["states"] = self.n_states_
        if precision is not None:
            arrays["metric"] = precision  # as files have called it from the first
        return storage.facts_of(self, notes), arrays


def _count_states(states: Array, weights: int, *, stream: bool) -> int:
    """Return how many states there are, or raise: labels have one each, and no more than there are weights to know."""
    most = min(len(states) + weights, MOST_STREAMED if stream else MOST_STATES)
    if not 0 < len(states) <= most or states.max() > most or states.sum() > most:
        raise ValueError(f"{len(states)} classes cannot have the states that the array 'states' says, or are too many")
    return int(states.sum())


def _refuse_beyond(name: str, values: Array, size: int) -> None:
    if len(values) and (values[0] < 0 or values[-1] >= size):
        raise ValueError(f"the array {name!r} holds numbers that are none of the {size} that there are")
