"""C ⊗ G: one matrix between classes, one between features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from majorant._checks import Array
from majorant._threads import for_each, mapped
from majorant.curvature.base import Curvature, Factors, Solve, ridge_vector
from majorant.curvature.by_class import raised_eigenvalues
from majorant.curvature.cholesky import LARGE, WORTH_SHARING
from majorant.curvature.dense import Dense, add_as_matrices


@dataclass(frozen=True, eq=False)
class Kronecker(Curvature):
    """A Kronecker product C ⊗ G of an n×n and a p×p matrix.

    It majorizes only if built so: by :meth:`of` from the largest eigenvalue of each B_j, or by :meth:`boehning`.

    Parameters
    ----------
    classes : array of shape (n, n)
    features : array of shape (p, p)
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> curvature = Kronecker(np.eye(2), np.diag([1.0, 3.0]), majorizes=False)
    >>> curvature.matvec(np.ones(4))
    array([1., 3., 1., 3.])
    """

    classes: Array
    features: Array
    majorizes: bool

    @classmethod
    def of(cls, factors: Factors) -> Kronecker:
        """Return I ⊗ Σ_j w_j λmax(B_j) x_j x_jᵀ, which dominates the factors of a batch."""
        return cls(*factors.kronecker(largest_eigenvalues), factors.majorizes)

    @classmethod
    def boehning(cls, factors: Factors) -> Kronecker:
        """Return Böhning's ½(I − 11ᵀ/n) ⊗ XᵀWX, which holds whatever the scores are.

        References
        ----------
        Böhning, *Multinomial logistic regression algorithm*, Ann. Inst. Stat. Math. 44, 1992.
        """
        return cls(*factors.fixed(), majorizes=True)

    @property
    def size(self) -> int:
        """Number of parameters d = np."""
        return len(self.classes) * len(self.features)

    def matvec(self, v: Array) -> Array:
        """Return (C ⊗ G)v."""
        return (self.classes @ self._by_class(v) @ self.features).ravel()

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (C ⊗ G + diag(ridge))⁻¹ as a function, with one p×p factor for each distinct eigenvalue of C."""
        penalty = self._by_class(ridge_vector(ridge, self.size))
        if not (penalty == penalty[0]).all():
            raise ValueError("a Kronecker curvature needs the same ridge in every class; use curvature='dense'")
        if self._classes_are_apart():
            whole = np.ones(len(self.classes), dtype=bool)
            return KroneckerSolve(None, ((whole, self._feature_solve(1.0, penalty[0])),))
        values, basis = eigh(self.classes)
        scale = max(np.abs(values).max(), 1e-300)
        distinct, of_row = np.unique((values / scale).round(12), return_inverse=True)
        solves = (self._feature_solve(value, penalty[0]) for value in distinct * scale)
        return KroneckerSolve(basis, tuple((of_row == k, solve) for k, solve in enumerate(solves)))

    def nearly_factorized(self, ridge: float | Array) -> Solve:
        """Return about (C ⊗ G + diag(ridge))⁻¹ as a function, to scale steps by.

        The ridge is the mean over classes. Eigenvalues of C within a factor of two share a p×p factor, and where C has
        none its mean stands in.
        """
        λ = self._by_class(ridge_vector(ridge, self.size)).mean(axis=0)
        if len(self.classes) == 1:
            return KroneckerSolve(None, ((np.ones(1, dtype=bool), self._feature_solve(self.classes[0, 0], λ)),))
        values, basis = raised_eigenvalues(self.classes)
        level = np.round(np.log2(values))
        groups = [level == each for each in np.unique(level)]
        among = None if WORTH_SHARING <= len(self.features) < LARGE else 1  # those of large ones are BLAS's
        solves = mapped(lambda rows: self._feature_solve(float(values[rows].mean()), λ), groups, among)
        return KroneckerSolve(basis, tuple(zip(groups, solves, strict=True)))

    def as_matrix(self) -> Array:
        """Return C ⊗ G as a d×d array."""
        return np.kron(self.classes, self.features)

    def __add__(self, other: Curvature) -> Curvature:
        if isinstance(other, Kronecker) and np.array_equal(self.classes, other.classes):
            return Kronecker(self.classes, self.features + other.features, self.majorizes and other.majorizes)
        return add_as_matrices(self, other)

    def _by_class(self, v: Array) -> Array:
        return v.reshape(len(self.classes), len(self.features))

    def _classes_are_apart(self) -> bool:
        return np.array_equal(self.classes, np.eye(len(self.classes)))

    def _feature_solve(self, value: float, ridge: Array) -> Solve:
        return Dense(self.features if value == 1.0 else value * self.features, self.majorizes).factorized(ridge)


@dataclass(frozen=True, eq=False)
class KroneckerSolve:
    """Rotates classes to where C is diagonal, and solves for features there; those that are apart stay as they are."""

    basis: Array | None
    groups: tuple[tuple[Array, Solve], ...]

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        return self.several(b[None])[0]

    def several(self, B: Array) -> Array:
        """Return the solutions of several rows: factors are read once for all of them, which is most of what it takes.

        Cost O(kp²n) for k of them.
        """
        return self.rotated_back(self.apart(self.rotated(B)))

    def rotated(self, B: Array) -> Array:
        """Return k rows as an array of shape (n, k, p), with what each has of every eigenvector of C."""
        R = B.reshape(len(B), len(self.groups[0][0]), -1).swapaxes(0, 1)
        return R if self.basis is None else _times(self.basis.T, R)

    def apart(self, R: Array) -> Array:
        """Return the solution where C is diagonal; R may be overwritten."""
        if len(self.groups) == 1:
            return _solved(self.groups[0][1], R)

        def solve_group(group: tuple[Array, Solve]) -> None:
            rows, solve = group
            R[rows] = _solved(solve, R[rows])

        for_each(solve_group, self.groups, None if R.shape[-1] >= WORTH_SHARING else 1)
        return R

    def rotated_back(self, R: Array) -> Array:
        """Return such an array as rows."""
        B = R if self.basis is None else _times(self.basis, R)
        return B.swapaxes(0, 1).reshape(R.shape[1], -1)


def _times(A: Array, R: Array) -> Array:
    return (A @ R.reshape(len(R), -1)).reshape(len(A), *R.shape[1:])


def _solved(solve: Solve, R: Array) -> Array:
    return solve(R.reshape(-1, R.shape[-1]).T).T.reshape(R.shape)


def largest_eigenvalues(B: Array) -> Array:
    """Return λmax of each B[:, :, j]."""
    return np.linalg.eigvalsh(np.moveaxis(B, 2, 0))[:, -1]
