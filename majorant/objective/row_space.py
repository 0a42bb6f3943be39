"""Fewer rows than columns: under a ridge coefficients are combinations of rows, and a problem is as small as these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from majorant._checks import Array
from majorant.curvature.cholesky import steady_factor
from majorant.data import Labelled
from majorant.objective.objective import Objective


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The same problem in t columns: W = AX at the optimum, since nothing else than λ‖W‖²/2 sees what rows do not.

    With K = XXᵀ = LLᵀ, scores are AK = VLᵀ with V = AL, and ‖W‖ = ‖V‖: those of rows L and coefficients V.
    """

    objective: Objective
    rows: Array  # X, measured from its centre
    factor: Array  # L

    @classmethod
    def suits(cls, objective: Objective) -> bool:
        """Return whether rows are dense and at hand, and all their columns have the same penalty."""
        data, λ = objective.whole, objective.penalty.prior
        if not isinstance(data, Labelled) or λ is None or not objective.model.classes(data):
            return False
        features = _by_class(λ, objective)[:, : data.n_features - data.constant]
        dense = not data.design.is_sparse and data.design.place is None
        return dense and features.size > 0 and features.flat[0] > 0 and bool((features == features.flat[0]).all())

    @classmethod
    def of(cls, objective: Objective) -> RowSpace:
        """Return the problem of rows that are at hand."""
        data = objective.whole
        assert isinstance(data, Labelled)
        X = data.design.without_ones().astype(np.float64, copy=False)
        L = np.tril(steady_factor(X @ X.T).L)
        λ = _by_class(objective.ridge, objective)
        ridge = np.column_stack([np.repeat(λ[:, :1], len(X), axis=1), *([λ[:, -1:]] if data.constant else [])])
        return cls(Objective(objective.model, data.with_rows(L), ridge=ridge.ravel()), X, L)

    def back(self, theta: Array) -> Array:
        """Return the parameters that those of the small problem stand for."""
        t = len(self.rows)
        V = _by_class(theta, self.objective)
        W = solve_triangular(self.factor, V[:, :t].T, lower=True, trans="T").T @ self.rows
        return np.column_stack([W, V[:, t:]]).ravel()


def _by_class(theta: Array, objective: Objective) -> Array:
    return theta.reshape(objective.model.classes(objective.like), -1)
