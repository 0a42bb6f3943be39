"""What conjugate gradients among combinations of rows are scaled by: numbers, or factors of matrices of pairs of rows.

See :class:`majorant.objective.row_space.RowSpace` for Z and K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import get_blas_funcs
from scipy.linalg.lapack import get_lapack_funcs

from majorant._checks import Array
from majorant.objective.row_space import RowSpace

# Rows weigh no less than this share of their mean; what has less curvature than that of the most curved has none.
LEAST_WEIGHT, NO_CURVATURE = 1e-6, 1e-6
# Eigenvalues between classes within such a factor share a factor of a matrix.
ALIKE = 4.0
# Rows that are solved for one after the other.
A_FEW = 12


@dataclass(frozen=True, eq=False)
class Even:
    """Coefficients are scaled by one number, intercepts by another."""

    scale: Array  # of the columns of Z

    @classmethod
    def of(cls, space: RowSpace, residual: Array) -> Even:
        """Return the mean curvature along rows, and along intercepts."""
        _, each = space.between_classes(residual)
        along_rows = float(each.mean()) * float(np.trace(space.products)) / space.rows
        curvature = np.full(space.ridge.shape[1], along_rows)
        curvature[space.rows :] = each.sum()
        return cls(1.0 / (space.ridge.mean(axis=0) + curvature))

    def __call__(self, Z: Array) -> Array:
        """Return Z, scaled."""
        return self.scale * Z


@dataclass(frozen=True, eq=False)
class OneEigenvalue:
    """The inverse of γWK + λ along eigenvectors between classes whose eigenvalues are about γ.

    That is W^½ (W^½KW^½ + λ/γ)⁻¹ W^−½ / γ. Intercepts stay apart: columns are measured from their means, and what they
    have in common with an intercept all the same is lost to rounding in single precision.
    """

    gamma: float
    root: Array  # W^½
    factor: Array
    of_intercept: float  # its curvature

    @classmethod
    def of(cls, gamma: float, space: RowSpace, w: Array) -> OneEigenvalue | None:
        """Return it, or None where rounding leaves no factor."""
        λ, t, root = space.ridge.mean(axis=0), space.rows, np.sqrt(w).astype(space.products.dtype)
        M = space.products * root
        M *= root[:, None]
        M.flat[:: t + 1] += λ[0] / gamma
        factor, trouble = get_lapack_funcs("potrf", dtype=M.dtype)(M.T, lower=1, overwrite_a=1, clean=0)
        return None if trouble else cls(gamma, root, factor, gamma * float(w.sum()) + λ[-1])

    def __call__(self, R: Array) -> Array:
        """Return what solves for such rows."""
        solution, t = np.empty(R.shape), len(self.root)
        right = (R[:, :t] / self.root).astype(self.root.dtype, copy=False)
        np.multiply(_solved(self.factor, right), self.root / self.gamma, out=solution[:, :t])
        np.divide(R[:, t:], self.of_intercept, out=solution[:, t:])
        return solution


@dataclass(frozen=True, eq=False)
class Factored:
    """(C ⊗ WK + λ)⁻¹, with C what curvature is between classes on average, and W what each row weighs of it."""

    basis: Array  # eigenvectors of C
    groups: tuple[tuple[Array, OneEigenvalue], ...]
    flat: Array  # which have no curvature
    ridge: Array

    @classmethod
    def of(cls, space: RowSpace, residual: Array) -> Factored | None:
        """Return that of a place, or None where rounding leaves no factor."""
        C, each = space.between_classes(residual)
        w = np.maximum(each, LEAST_WEIGHT * max(float(each.mean()), 1e-300))
        values, basis = eigh(C)
        flat = values <= NO_CURVATURE * values[-1]
        level = np.round(np.log(np.where(flat, values[-1], values)) / np.log(ALIKE))
        groups = []
        for each_level in np.unique(level[~flat]):
            those = (level == each_level) & ~flat
            found = OneEigenvalue.of(float(values[those].mean()), space, w)
            if found is None:
                return None
            groups.append((those, found))
        return cls(basis, tuple(groups), flat, space.ridge.mean(axis=0))

    def __call__(self, Z: Array) -> Array:
        """Return the solution."""
        if len(self.basis) == 1:
            return self.groups[0][1](Z)
        rotated = self.basis.T @ Z
        for those, solve in self.groups:
            rotated[those] = solve(rotated[those])
        # An intercept without a penalty does not move where nothing curves: softmax does not see it.
        rotated[self.flat] /= np.where(self.ridge > 0, self.ridge, np.inf)
        return self.basis @ rotated


def _solved(factor: Array, R: Array) -> Array:
    """Return A⁻¹ of each row, A = LLᵀ; LAPACK is slow at a few."""
    if len(R) > A_FEW:
        return get_lapack_funcs("potrs", dtype=R.dtype)(factor, R.T, lower=1, overwrite_b=1)[0].T
    solve = get_blas_funcs("trsv", dtype=R.dtype)
    return np.array([solve(factor, solve(factor, r, lower=1), lower=1, trans=1) for r in R])
