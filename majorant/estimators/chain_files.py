"""Chains as files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from majorant.data.tokens import Vocabulary
from majorant.data.universe import Universe
from majorant.estimators import storage
from majorant.estimators.chain_weights import FittedWeights, StreamedWeights, Weights


class ChainFiles:
    """``save`` and ``load``, for a chain."""

    def save(self: Any, path: Any, notes: dict[str, Any] | None = None) -> None:
        """Write the fitted model to a file that holds data only; what ``partial_fit`` has gathered is included.

        Callbacks and a random state that is not a number are left out.

        Parameters
        ----------
        path : str or Path
        notes : dict, optional
            Anything that JSON can hold; it comes back as ``notes_``.
        """
        check_is_fitted(self, "_weights")
        self._write(path, notes, {})

    @classmethod
    def load(cls, path: Any) -> Self:
        """Return the model that :meth:`save` wrote, or :class:`~majorant.Checkpoint`.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        estimator
            Fitted, with its ``notes_``.
        """
        facts, arrays = storage.read(path, cls.__name__)
        model: Any = cls(**storage.settings_from(facts))
        names = storage.unpacked(arrays)
        states = arrays.get("states", np.ones(len(arrays["classes"]), dtype=np.int64))
        universe = Universe.of(arrays["pairs"], arrays["steps"], int(states.sum()), len(names))
        weights = Weights(universe, arrays["theta"], arrays.get("metric"))
        found = FittedWeights(universe, weights.theta) if weights.precision is None else StreamedWeights.of(weights)
        model._keep(found, arrays["classes"], Vocabulary(names))
        model._take_up(states)
        model.n_iter_, model.result_, model.notes_ = facts["n_iter"], storage.result_of(facts), facts.get("notes")
        model.gap_ = model.result_.gap
        return model

    def _write(self: Any, path: Any, notes: dict[str, Any] | None, parts: Mapping[str, Any]) -> None:
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
        storage.write(path, type(self).__name__, storage.facts_of(self, notes), arrays, parts)
