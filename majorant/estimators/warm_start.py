"""Where a linear classifier begins: at zero, at what an offset asks for, or where its last fit ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.objective import Objective


class WarmStart:
    """The first parameters of a fit."""

    def _first_params(self: Any, objective: Objective, offset: Any, centre: Array | None) -> Array | None:
        start = self._previous_params(objective, centre) if self.warm_start and hasattr(self, "coef_") else None
        # Offsets, and columns that have moved since, may saturate every row: the intercept follows them.
        zero = None if offset is None else objective.with_best_intercept(np.zeros(objective.size))
        if start is None:
            return zero
        start = objective.with_best_intercept(start)
        better = objective.value(start) < (objective.value_at_zero() if zero is None else objective.value(zero))
        return start if better else zero

    def _previous_params(self: Any, objective: Objective, centre: Array | None) -> Array | None:
        rows = objective.model.classes(objective.like)
        if self.coef_.shape != (rows, self.n_features_in_):
            return None
        W = self._params_of_fit(centre)
        if not np.isfinite(W).all():
            return None
        # Softmax scores may all move together: the solver stays where they sum to zero.
        return (W - W.mean(axis=0) if len(W) > 1 else W).ravel()
