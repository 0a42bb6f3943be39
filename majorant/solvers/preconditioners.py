"""What quasi-Newton steps are scaled by: curvatures that are cheap for some size of data. None is a bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant.curvature import Curvature, Diagonal, Kronecker, Patched, Solve
from majorant.objective import Objective, Point
from majorant.solvers.descent import grounded_hessian

# Rows of each column for a Gram matrix; more only while they cost less than a few passes over the data.
GRAM_ROWS_PER_COLUMN = 10
GRAM_COST = 16
# Columns of a Gram matrix on data too wide for a whole one.
HEAVY_COLUMNS = 2_000
ROWS_PER_HEAVY_COLUMN = 4
# Of a Gram matrix in single precision, relative to its largest entry.
ROUNDING = 1e-5
# A product of matrices does so many more operations in a second than a pass, unless they are sparse; an exponential
# costs so many.
MATRIX_SPEED, SPARSE_SPEED = 4.0, 0.5
EXPONENTIAL = 40.0
# A Hessian of more parameters is not worth its factor.
LARGEST_HESSIAN = 2_000
# A Gram matrix of so many columns pays; of this many, whatever the number of rows.
LARGEST_GRAM, SMALL_GRAM = 4_000, 500


class Preconditioner(ABC):
    """A way to find a curvature to scale steps by."""

    @abstractmethod
    def suits(self, objective: Objective) -> bool:
        """Return whether it can be had for this objective, and is worth its price."""

    @abstractmethod
    def at(self, objective: Objective, point: Point) -> Solve:
        """Return the inverse of the curvature at a point."""


@dataclass(frozen=True)
class GramOfColumns(Preconditioner):
    """I ⊗ (Σ_j w_j x_j x_jᵀ + λ), w_j = (1 − Σ_c p_jc²)/(n − 1): p×p for any number of classes."""

    def suits(self, objective: Objective) -> bool:
        """Return whether there are classes, and not too many columns."""
        classes = objective.model.classes(objective.like)
        return classes > 0 and objective.size // classes <= min(LARGEST_GRAM, max(objective.rows, SMALL_GRAM))

    def at(self, objective: Objective, point: Point) -> Solve:
        """Return its inverse, from as many rows as it takes."""
        objective.spend(curvatures=1)
        n, t = objective.model.classes(objective.like), objective.rows
        p = objective.size // n
        share = min(max(GRAM_ROWS_PER_COLUMN * p, GRAM_COST * t * n // p) / t, 1.0)
        λ = _mean_ridge(objective)
        gram = _gram(objective, point, np.arange(p), share, λ)
        return Kronecker(np.eye(n), gram, majorizes=False).factorized(np.tile(λ, n))


@dataclass(frozen=True)
class DiagonalOfHessian(Preconditioner):
    """The diagonal of the Hessian, and, of a model with classes, a Gram matrix on the heaviest columns."""

    def suits(self, objective: Objective) -> bool:
        """Return True."""
        return True

    def at(self, objective: Objective, point: Point) -> Solve:
        """Return its inverse."""
        objective.spend(curvatures=1)
        D, n = objective.hessian_diagonal(point), objective.model.classes(objective.like)
        if not n:
            return Diagonal(D, majorizes=False).factorized(objective.ridge)
        return self._with_heavy_columns(objective, point, D.reshape(n, -1)).factorized(objective.ridge)

    @staticmethod
    def _with_heavy_columns(objective: Objective, point: Point, D: Array) -> Curvature:
        most = max(min(HEAVY_COLUMNS, objective.rows // ROWS_PER_HEAVY_COLUMN), 1)
        weight = (D + objective.ridge.reshape(D.shape)).sum(axis=0)
        heavy = np.sort(np.argsort(-weight, kind="stable")[:most])
        return Patched(D, heavy, _gram(objective, point, heavy, 1.0, _mean_ridge(objective)[heavy]))


@dataclass(frozen=True)
class HessianOfAll(Preconditioner):
    """The Hessian of all rows."""

    def suits(self, objective: Objective) -> bool:
        """Return whether it can be had, and is not too large."""
        return objective.model.has_rows and objective.size <= LARGEST_HESSIAN

    def at(self, objective: Objective, point: Point) -> Solve:
        """Return its inverse, or that of one with so much more on its diagonal that it has a factor."""
        return grounded_hessian(objective, point)[1].steadied(objective.ridge)

    @staticmethod
    def price(objective: Objective) -> float:
        """Return about how many passes over the data it costs, its factor included."""
        model, like, d = objective.model.as_rows(), objective.like, objective.size
        outcomes, classes = objective.rows * model.scores_per_row(like), max(model.classes(like), 1)
        density = model.design(like).density
        columns, speed = d / classes * density, MATRIX_SPEED if density == 1 else SPARSE_SPEED
        gram, factor, one_pass = outcomes * (classes + 1) * columns**2, d**3 / 3, outcomes * (4 * columns + EXPONENTIAL)
        return (gram / speed + factor / MATRIX_SPEED) / one_pass


def _mean_ridge(objective: Objective) -> Array:
    """Return the ridge of each column, as the mean over classes."""
    return objective.ridge.reshape(objective.model.classes(objective.like), -1).mean(axis=0)


def _gram(objective: Objective, point: Point, columns: Array, share: float, λ: Array) -> Array:
    """Return Σ_j w_j x_j x_jᵀ on some columns, from a share of the rows.

    Single precision is enough where the penalty is larger than its rounding errors.
    """
    sparse = objective.model.as_rows().design(objective.like).is_sparse
    if sparse or not λ.any():
        return objective.mean_gram(point, columns, share, np.float64)
    G = objective.mean_gram(point, columns, share, np.float32)
    if np.min(λ[λ > 0]) > ROUNDING * np.max(G.diagonal()):
        return G
    return objective.mean_gram(point, columns, share, np.float64)
