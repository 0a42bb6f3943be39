"""Chains as files."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data.universe import Universe
from majorant.data.vocabulary import Vocabulary
from majorant.estimators import storage
from majorant.estimators.chain_weights import FittedWeights, StreamedWeights, Weights
from majorant.estimators.saved import Notes, Saved, Written


class ChainFiles(Saved):
    """``save`` and ``load``, for a chain."""

    _learnt = "_weights"

    def _restore(self: Any, path: Any, facts: dict[str, Any], arrays: dict[str, Array]) -> None:
        names = storage.unpacked(arrays)
        states = arrays.get("states", np.ones(len(arrays["classes"]), dtype=np.int64))
        universe = Universe.of(arrays["pairs"], arrays["steps"], int(states.sum()), len(names))
        weights = Weights(universe, arrays["theta"], arrays.get("metric"))
        found = FittedWeights(universe, weights.theta) if weights.precision is None else StreamedWeights.of(weights)
        self._keep(found, arrays["classes"], Vocabulary(names))
        self._take_up(states)
        self.n_iter_, self.result_, self.notes_ = facts["n_iter"], storage.result_of(facts), facts.get("notes")
        self.gap_ = self.result_.gap

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
