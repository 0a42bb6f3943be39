"""What ``Multinomial`` and ``Binary`` share: f(x, y) = e_y ⊗ x, so everything but X lives in class space.

A row contributes B_j ⊗ x_j x_jᵀ to the curvature, with B_j an n×n matrix found from its n scores alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant._rounding import Magnitudes
from majorant.curvature import Factors
from majorant.curvature.base import FACTOR_BLOCK
from majorant.curvature.dense import refuse_large
from majorant.data import Labelled
from majorant.kernels import design
from majorant.models.base import RowModel, magnitudes, weigh


class ClassModel(RowModel[Labelled]):
    """A model with one coefficient vector per class: scores W Xᵀ, gradients R X."""

    @property
    @abstractmethod
    def coefficient_rows(self) -> int:
        """Rows of the coefficient matrix W."""

    @abstractmethod
    def class_weights(self, scores: Array, batch: Labelled) -> Array:
        """Return w p_c(1 − p_c) (n×t), the diagonal of the Hessian on scores."""

    @abstractmethod
    def class_hessian(self, scores: Array, batch: Labelled) -> Array:
        """Return Σ_j w_j (diag(p_j) − p_j p_jᵀ) (n×n), the Hessian along the intercepts."""

    @abstractmethod
    def class_bounds(self, scores: Array, batch: Labelled) -> Array:
        """Return w B (n, n, t), the curvature of the bound in class space."""

    def n_parameters(self, data: Labelled) -> int:
        """Return d, the number of coefficients."""
        return self.coefficient_rows * data.n_features

    def scores_per_row(self, data: Labelled) -> int:
        """Return the rows of the coefficient matrix."""
        return self.coefficient_rows

    def precision(self, data: Labelled) -> Any:
        """Return the dtype of X."""
        return data.X.dtype

    def magnitudes(self, data: Labelled) -> Magnitudes:
        """Return how large the numbers are that a gradient is summed from."""
        offset = 0.0 if data.offset is None else np.linalg.norm(data.offset[np.isfinite(data.offset)])
        return magnitudes(data.X, data.weight, float(offset))

    def potentials(self, theta: Array, batch: Labelled) -> Array:
        """Return W Xᵀ."""
        return design.project(batch.X, theta.reshape(self.coefficient_rows, -1))

    def add_measure(self, potentials: Array, batch: Labelled) -> Array:
        """Return W Xᵀ + offset."""
        return potentials if batch.offset is None else potentials + batch.offset

    def lift(self, residual: Array, batch: Labelled) -> Array:
        """Return residual · X, flat."""
        return design.pull_back(batch.X, residual).ravel()

    def hessian_diagonal(self, scores: Array, batch: Labelled) -> Array:
        """Return Σ_j w_j p_c(1 − p_c) x_j², class by class."""
        return design.pull_back_squares(batch.X, self.class_weights(scores, batch)).ravel()

    def score_rows(self, batch: Labelled) -> Array:
        """Return I_n ⊗ X."""
        X = design.dense(batch.X)
        return X if self.coefficient_rows == 1 else np.kron(np.eye(self.coefficient_rows), X)

    def through(self, metric: Array, batch: Labelled) -> Array:
        """Return (I_n ⊗ X)·metric, class by class."""
        blocks = metric.reshape(self.coefficient_rows, -1, metric.shape[1])
        return np.concatenate([design.multiply(batch.X, block) for block in blocks])

    def score_weights(self, batch: Labelled) -> Array:
        """Return the weights, once per class."""
        each = np.ones(len(batch)) if batch.weight is None else batch.weight
        return np.tile(each, self.coefficient_rows)

    def row_slices(self, batch: Labelled) -> list[slice]:
        """Return every len(batch)-th score, from j on."""
        return [slice(j, None, len(batch)) for j in range(len(batch))]


@dataclass(frozen=True)
class ClassFactors(Factors):
    """Σ_j w_j B_j ⊗ x_j x_jᵀ, with B_j = Σ_y L_jy L_jyᵀ.

    Parameters
    ----------
    scores, X, weight : arrays
        The batch.
    matrices, directions : functions of the scores
        Return B (n, n, t) and L (m, n, t).
    fixed_classes : array of shape (n, n)
        Dominates the Hessian of log Z whatever the scores (Böhning's matrix).
    majorizes : bool
        Whether the B_j come from the bound.
    """

    scores: Array
    X: Any
    weight: Array | None
    matrices: Callable[[Array], Array]
    directions: Callable[[Array], Array]
    fixed_classes: Array
    majorizes: bool

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.scores) * int(self.X.shape[1])

    def matrix(self) -> Array:
        """Return Σ by weighted Gram products."""
        refuse_large(self.size, "a dense curvature")
        return design.weighted_gram(self.X, weigh(self.matrices(self.scores), self.weight))

    def rows(self) -> Iterator[Array]:
        """Yield the rows √w L_y ⊗ x."""
        L = self._weighted_directions()
        m, n, t = L.shape
        step = max(FACTOR_BLOCK // max(m * n * self.X.shape[1], 1), 1)
        for start in range(0, t, step):
            some = slice(start, start + step)
            yield design.outer_rows(L[:, :, some], self.X[some])

    def diagonal(self) -> Array:
        """Return Σ |q| ‖q‖₁; both factors of q = L_y ⊗ x can be summed apart."""
        size = np.abs(self._weighted_directions())
        in_class_space = (size * size.sum(axis=1, keepdims=True)).sum(axis=0)
        magnitude, total = design.absolute(self.X)
        return design.pull_back(magnitude, in_class_space * total).ravel()

    def kronecker(self, weigh_rows: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return I and Σ_j w_j weigh(B_j) x_j x_jᵀ."""
        return np.eye(len(self.scores)), self._gram(weigh_rows(self.matrices(self.scores)))

    def fixed(self) -> tuple[Array, Array]:
        """Return Böhning's class matrix and XᵀWX."""
        return self.fixed_classes, self._gram(np.ones(self.scores.shape[1]))

    def _gram(self, row_weights: Array) -> Array:
        refuse_large(self.X.shape[1], "a Kronecker curvature")
        return design.weighted_gram(self.X, weigh(row_weights, self.weight)[None, None])

    def _weighted_directions(self) -> Array:
        return weigh(self.directions(self.scores), None if self.weight is None else np.sqrt(self.weight))
