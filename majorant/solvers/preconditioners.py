"""What quasi-Newton steps are scaled by: curvatures that are cheap for some size of data. None is a bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from majorant._checks import Array
from majorant.curvature import Diagonal, DiagonalByClass, Kronecker, Solve
from majorant.objective import Objective, Point
from majorant.solvers.descent import grounded_hessian
from majorant.solvers.prices import Prices

# Rows of each column for a Gram matrix; more only while they cost less than a few passes over the data.
GRAM_ROWS_PER_COLUMN = 10
GRAM_COST = 4
# Of a Gram matrix in single precision, relative to its largest entry.
ROUNDING = 1e-5
# Larger matrices are not worth their factors, nor their memory.
LARGEST_HESSIAN, LARGEST_GRAM = 2_000, 4_000
# A matrix between more classes is not worth its eigenvectors.
MANY_CLASSES = 300


class Preconditioner(ABC):
    """A way to find a curvature to scale steps by."""

    name: ClassVar[str]
    quality: ClassVar[int]  # the better, the higher; better ones cost more

    @abstractmethod
    def suits(self, objective: Objective) -> bool:
        """Return whether it can be had for this objective."""

    @abstractmethod
    def price(self, prices: Prices) -> float:
        """Return what it costs, in nanoseconds."""

    @abstractmethod
    def at(self, objective: Objective, point: Point) -> Solve:
        """Return the inverse of the curvature at a point."""


@dataclass(frozen=True)
class DiagonalOfHessian(Preconditioner):
    """The diagonal of the Hessian; of a model with classes C ⊗ diag(g), with C the mean Hessian between classes."""

    name: ClassVar[str] = "the diagonal of the Hessian"
    quality: ClassVar[int] = 0

    def suits(self, objective: Objective) -> bool:
        """Return True."""
        return True

    def price(self, prices: Prices) -> float:
        """Return about what a pass costs."""
        return prices.diagonal()

    def at(self, objective: Objective, point: Point) -> Solve:
        """Return its inverse."""
        objective.spend(curvatures=1)
        if 1 < objective.model.classes(objective.like) <= MANY_CLASSES:
            C, squares = objective.class_curvature(point)
            return DiagonalByClass(*_balanced(C, squares)).nearly_factorized(objective.ridge)
        return Diagonal(objective.hessian_diagonal(point), majorizes=False).factorized(objective.ridge)


@dataclass(frozen=True)
class GramOfColumns(Preconditioner):
    """C ⊗ G, with C = Σ_j B_j the Hessian between classes and G = Σ_j w_j x_j x_jᵀ, w_j = tr(B_j)/(n − 1).

    p×p for any number of classes, from as many rows as it takes. Eigenvalues of C within a factor of two share one.
    """

    name: ClassVar[str] = "a Gram matrix"
    quality: ClassVar[int] = 1

    def suits(self, objective: Objective) -> bool:
        """Return whether there are classes, and not too many columns."""
        classes = objective.model.classes(objective.like)
        return 0 < classes <= MANY_CLASSES and objective.size // classes <= LARGEST_GRAM

    def price(self, prices: Prices) -> float:
        """Return that of a product of matrices and a few factors."""
        return prices.gram(self._rows(prices))

    def at(self, objective: Objective, point: Point) -> Solve:
        """Return its inverse."""
        objective.spend(curvatures=1)
        share = self._rows(Prices.of(objective)) / objective.rows
        n, λ = objective.model.classes(objective.like), _mean_ridge(objective)
        C, G = _gram(objective, point, share, λ)
        return Kronecker(*_balanced(C, G), majorizes=False).nearly_factorized(np.tile(λ, n))

    @staticmethod
    def _rows(prices: Prices) -> float:
        t, n, p = prices.rows, prices.classes, prices.columns
        return min(max(GRAM_ROWS_PER_COLUMN * p, GRAM_COST * t * n / p), t)


@dataclass(frozen=True)
class HessianOfAll(Preconditioner):
    """The Hessian of all rows."""

    name: ClassVar[str] = "the Hessian"
    quality: ClassVar[int] = 3  # better than that of a sample

    def suits(self, objective: Objective) -> bool:
        """Return whether it can be had, and is not too large."""
        return objective.model.has_rows and objective.convex and objective.size <= LARGEST_HESSIAN

    def price(self, prices: Prices) -> float:
        """Return that of many products of matrices, and a factor."""
        return prices.hessian(prices.rows)

    def at(self, objective: Objective, point: Point) -> Solve:
        """Return its inverse, or that of one with so much more on its diagonal that it has a factor."""
        return grounded_hessian(objective, point)[1].steadied(objective.ridge)


def _mean_ridge(objective: Objective) -> Array:
    """Return the ridge of each column, as the mean over classes."""
    return objective.ridge.reshape(objective.model.classes(objective.like), -1).mean(axis=0)


def _balanced(C: Array, features: Array) -> tuple[Array, Array]:
    """Return the class matrix with a trace of n − 1: how much there is in all, the features say."""
    n = len(C)
    if n == 1:
        return np.ones((1, 1)), features
    total = float(np.trace(C)) / (n - 1)
    return C / total if total > 0 else np.eye(n), features


def _gram(objective: Objective, point: Point, share: float, λ: Array) -> tuple[Array, Array]:
    """Return Σ_j B_j and Σ_j w_j x_j x_jᵀ, from a share of the rows.

    Single precision is enough where the penalty is larger than its rounding errors.
    """
    sparse = objective.model.as_rows().design(objective.like).is_sparse
    if sparse or not λ.any():
        return objective.mean_gram(point, share, np.float64)
    C, G = objective.mean_gram(point, share, np.float32)
    if np.min(λ[λ > 0]) > ROUNDING * np.max(G.diagonal()):
        return C, G
    return objective.mean_gram(point, share, np.float64)
