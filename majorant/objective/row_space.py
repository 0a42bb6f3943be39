"""Fewer rows than columns: under a ridge coefficients are combinations of rows, and a problem is as small as these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.data import Labelled
from majorant.models.class_space import ClassModel
from majorant.objective.objective import Objective

# Of products in single precision, relative to the square of a row: a smaller ridge is lost in their rounding errors.
# And how many rows tell that.
ROUNDING, SOME = 3e-6, 64


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The same problem among W = AX: that is where the optimum is, since nothing but λ‖W‖²/2 sees what rows do not.

    With K = XXᵀ scores are AK + b, and ‖W‖² = tr AKAᵀ: none of them takes X. What stands for W and its intercepts is
    Z = [A, b], (n, t + 1), without the last column where there is no intercept, and Z and Z' have the product ⟨Z, Z'K⟩,
    that of what they stand for, with K read as diag(K, 1). So a gradient is [R + λA, R1 + λ_b b], with R the residuals.
    """

    model: ClassModel
    data: Labelled
    products: Array  # K, in single precision where that is enough
    ridge: Array  # of each number of Z

    @classmethod
    def suits(cls, objective: Objective) -> bool:
        """Return whether rows are dense and at hand, and all their columns have the same penalty."""
        data, λ = objective.whole, objective.penalty.prior
        if not isinstance(data, Labelled) or λ is None or not isinstance(objective.model, ClassModel):
            return False
        features = _by_class(λ, objective)[:, : data.n_features - data.constant]
        dense = not data.design.is_sparse and data.design.place is None and objective.model.has_products(data)
        return dense and features.size > 0 and features.flat[0] > 0 and bool((features == features.flat[0]).all())

    @classmethod
    def narrows(cls, objective: Objective) -> bool:
        """Return whether single precision is enough for K: the penalty is larger than its rounding errors."""
        data = objective.whole
        assert isinstance(data, Labelled)
        return bool(objective.ridge[0] > ROUNDING * square_of_a_row(data))

    @classmethod
    def of(cls, objective: Objective) -> RowSpace:
        """Return the problem of rows that are at hand."""
        data, model, λ = objective.whole, objective.model, _by_class(objective.ridge, objective)
        assert isinstance(data, Labelled)
        assert isinstance(model, ClassModel)
        X: Any = data.design.without_ones().astype(np.float32 if cls.narrows(objective) else np.float64, copy=False)
        of_intercept = [λ[:, -1:]] if data.constant else []
        return cls(model, data, X @ X.T, np.column_stack([np.repeat(λ[:, :1], len(X), axis=1), *of_intercept]))

    @property
    def rows(self) -> int:
        """Number of rows t."""
        return len(self.products)

    @property
    def is_singular(self) -> bool:
        """Whether rows outnumber columns: then many Z stand for the same, and factors are of rounding errors."""
        return self.rows > self.data.n_features - self.data.constant

    def parameters(self, Z: Array) -> Array:
        """Return what Z stands for."""
        W = self.data.design.pull_back(np.ascontiguousarray(Z[:, : self.rows]))
        if self.data.constant:
            W[:, -1] = Z[:, -1]
        return W.astype(np.float64, copy=False).ravel()

    def times(self, Z: Array) -> Array:
        """Return ZK."""
        product, t = np.empty(Z.shape), self.rows
        product[:, :t] = Z[:, :t].astype(self.products.dtype, copy=False) @ self.products
        product[:, t:] = Z[:, t:]
        return product

    def potentials(self, ZK: Array) -> Array:
        """Return what a product comes to in every score."""
        return ZK[:, :-1] + ZK[:, -1:] if self.data.constant else ZK.copy()

    def scores(self, Z: Array) -> Array:
        """Return the scores of what Z stands for, by X."""
        return self.model.scores(self.parameters(Z), self.data)

    def loss_and_residual(self, scores: Array) -> tuple[float, Array]:
        """Return the loss and its derivative for every score."""
        return self.model.loss_and_residual(scores, self.data)

    def gradient(self, Z: Array, residual: Array) -> Array:
        """Return the gradient of F."""
        return self._gathered(residual) + self.ridge * Z

    def curve(self, scores: Array) -> Any:
        """Return the Hessian of F: a function of Z and ZK."""
        bending = self.model.bending(scores, self.data)

        def times(Z: Array, ZK: Array) -> Array:
            return self._gathered(self.model.bent(bending, self.potentials(ZK), self.data)) + self.ridge * Z

        return times

    def class_weights(self, residual: Array) -> Array:
        """Return what each row weighs in each class: w p(1 − p)."""
        return self.model.class_variances(residual, self.data)

    def _gathered(self, residual: Array) -> Array:
        if not self.data.constant:
            return residual
        return np.concatenate([residual, residual.sum(axis=1, keepdims=True)], axis=1)


def square_of_a_row(data: Labelled) -> float:
    """Return about how large ‖x‖² is, measured from the centre, from some rows."""
    X = data.take(np.arange(0, len(data), max(len(data) // SOME, 1))).design.without_ones()
    return float(np.vdot(X, X)) / len(X)


def _by_class(theta: Array, objective: Objective) -> Array:
    return theta.reshape(objective.model.classes(objective.like), -1)
