"""Σ stored whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from majorant._checks import Array
from majorant.curvature.base import Curvature, Factors, Solve
from majorant.curvature.cholesky import Factor, NoInverse, for_large, lower_factor, singular_inverse, steady_factor

# 20,000² float64 numbers are 3.2 GB, and factorising them takes minutes.
LARGEST = 20_000


@dataclass(frozen=True, eq=False)
class Dense(Curvature):
    """A d×d matrix.

    Solving costs O(d³) by Cholesky; a singular matrix falls back to a pseudo-inverse, in coordinates scaled to a
    unit diagonal, so that the units of the features do not matter.

    Parameters
    ----------
    matrix : array of shape (d, d)
        Symmetric and positive semi-definite.
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> import numpy as np
    >>> curvature = Dense(np.diag([1.0, 3.0]), majorizes=True)
    >>> curvature.solve(np.array([2.0, 2.0]), ridge=1.0)
    array([1. , 0.5])
    """

    matrix: Array
    majorizes: bool

    @classmethod
    def of(cls, factors: Factors) -> Dense:
        """Return what the factors of a batch add up to, by weighted Gram products."""
        return cls(factors.matrix(), factors.majorizes)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self.matrix)

    def matvec(self, v: Array) -> Array:
        """Return Σv."""
        return self.matrix @ v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (Σ + diag(ridge))⁻¹; where that is singular, solutions of least norm, coordinates scaled."""
        A = self._with_ridge(ridge)
        if not np.isfinite(A).all():
            return NoInverse()
        diagonal = np.diag(A).copy()
        try:  # as columns a symmetric matrix is the same, and LAPACK needs no copy of it
            with for_large(len(A)):
                L = lower_factor(A.T, overwrite=True)
        except LinAlgError:
            return singular_inverse(self._with_ridge(ridge))
        # A pivot that keeps nothing of its diagonal entry is rounding noise: the column depends on those before.
        kept = np.diag(L) ** 2 / diagonal
        return singular_inverse(self._with_ridge(ridge)) if kept.min() < 1e-13 * len(A) else Factor(L)

    def steadied(self, ridge: float | Array = 0.0, classes: int = 1) -> Factor:
        """Return a factor of Σ + diag(ridge), or of one with so much more on its diagonal that it has one."""
        return steady_factor(self._with_ridge(ridge), classes)

    def as_matrix(self) -> Array:
        """Return Σ as a d×d array."""
        return self.matrix.copy()

    def compact(self) -> Array:
        """Return Σ itself."""
        return self.matrix

    def _with_ridge(self, ridge: float | Array) -> Array:
        A = self.matrix.copy()
        A.flat[:: len(A) + 1] += ridge
        return A

    def __add__(self, other: Curvature) -> Curvature:
        right = other.matrix if isinstance(other, Dense) else other.as_matrix()
        return Dense(self.matrix + right, self.majorizes and other.majorizes)


def refuse_large(size: int, what: str) -> None:
    """Raise before a d×d array is asked of a machine that cannot hold it."""
    if size > LARGEST:
        raise ValueError(
            f"{what} needs a {size}×{size} matrix ({8e-9 * size**2:.0f} GB); "
            "choose curvature='low-rank' or 'diagonal', or a solver without curvature such as LBFGS"
        )


def add_as_matrices(left: Curvature, right: Curvature) -> Curvature:
    """Return the sum of two curvatures of different kinds."""
    refuse_large(left.size, f"adding {type(left).__name__} and {type(right).__name__}")
    return Dense(left.as_matrix(), left.majorizes) + right
