"""What conjugate gradients among combinations of rows are scaled by: numbers, or factors of matrices of pairs of rows.

See :class:`majorant.objective.row_space.RowSpace` for Z and K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import get_blas_funcs
from scipy.linalg.lapack import get_lapack_funcs

from majorant._checks import Array
from majorant.objective.row_space import RowSpace

# Rows weigh no less than this share of their mean.
LEAST_WEIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class Even:
    """Coefficients are scaled by one number, intercepts by another."""

    scale: Array  # of the columns of Z

    @classmethod
    def of(cls, space: RowSpace, residual: Array) -> Even:
        """Return the mean curvature along rows, and along intercepts."""
        each = space.class_weights(residual).mean(axis=0)
        curvature = np.full(space.ridge.shape[1], float(each.mean()) * float(np.trace(space.products)) / space.rows)
        curvature[space.rows :] = each.sum()
        return cls(1.0 / (space.ridge.mean(axis=0) + curvature))

    def __call__(self, Z: Array) -> Array:
        """Return Z, scaled."""
        return self.scale * Z


@dataclass(frozen=True, eq=False)
class OfOneClass:
    """(WK + λ)⁻¹ = W^½ (W^½KW^½ + λ)⁻¹ W^−½, with W what rows weigh in a class.

    Intercepts stay apart: columns are measured from their means, and what they have in common with an intercept all the
    same is lost to rounding in single precision.
    """

    root: Array  # W^½
    factor: Array
    of_intercept: float  # its curvature

    @classmethod
    def of(cls, space: RowSpace, ridge: Array, weights: Array) -> OfOneClass | None:
        """Return it, or None where rounding leaves no factor."""
        w = np.maximum(weights, LEAST_WEIGHT * max(float(weights.mean()), 1e-300))
        root = np.sqrt(w).astype(space.products.dtype)
        M = space.products * root
        M *= root[:, None]
        M.flat[:: space.rows + 1] += ridge[0]
        factor, trouble = get_lapack_funcs("potrf", dtype=M.dtype)(M.T, lower=1, overwrite_a=1, clean=0)
        return None if trouble else cls(root, factor, float(w.sum()) + ridge[-1])

    def __call__(self, r: Array) -> Array:
        """Return the solution for a row of Z. LAPACK is slow at one at a time."""
        solution, t, solve = np.empty(len(r)), len(self.root), get_blas_funcs("trsv", dtype=self.root.dtype)
        right = (r[:t] / self.root).astype(self.root.dtype, copy=False)
        np.multiply(solve(self.factor, solve(self.factor, right, lower=1), lower=1, trans=1), self.root, solution[:t])
        np.divide(r[t:], self.of_intercept, out=solution[t:])
        return solution


@dataclass(frozen=True, eq=False)
class Factored:
    """The inverse of the Hessian but for what is between classes, with weights p_c(1 − p_c) of each.

    One matrix for all, times what curvature is between classes on average, took five times as many products: where rows
    are nearly sure of their labels each has its own two classes.
    """

    classes: tuple[OfOneClass, ...]

    @classmethod
    def of(cls, space: RowSpace, residual: Array) -> Factored | None:
        """Return that of a place, or None where rounding leaves no factor."""
        found = []
        for ridge, weights in zip(space.ridge, space.class_weights(residual), strict=True):
            found.append(OfOneClass.of(space, ridge, weights))
            if found[-1] is None:
                return None
        return cls(tuple(each for each in found if each is not None))

    def __call__(self, Z: Array) -> Array:
        """Return the solution; softmax does not see classes that move together."""
        solution = np.array([solve(r) for solve, r in zip(self.classes, Z, strict=True)])
        return solution if len(Z) == 1 else solution - solution.mean(axis=0)
