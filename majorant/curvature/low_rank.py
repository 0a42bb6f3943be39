"""Σ ⪯ VᵀSV + D in O(kd) memory, absorbing one rank-one term at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from majorant import kernels
from majorant._checks import Array, whole
from majorant.curvature.base import Curvature, Factors, Solve, ridge_vector
from majorant.curvature.cholesky import Factor, lower_factor
from majorant.curvature.dense import Dense, add_as_matrices, refuse_large
from majorant.curvature.diagonal import Diagonal, Quotient


@dataclass(frozen=True, eq=False)
class LowRank(Curvature):
    """VᵀSV + diag(D) with V (k×d) of orthonormal rows, S (k×k), D ≥ 0.

    Two corrections to the published formulas are needed. Jebara & Choromanska (NIPS 2012) drop the cross
    terms between V and the residual of a new direction, and lose the bound; here the smallest eigenpair of
    the exact (k+1)×(k+1) matrix leaves for the diagonal. And Woodbury's identity, printed with a plus sign in
    the 2013 paper, has a minus. ``tests/test_errata.py`` shows both printed forms failing.

    Parameters
    ----------
    V : array of shape (k, d)
    S : array of shape (k, k)
    D : array of shape (d,)
    majorizes : bool
        Whether it is known to dominate.

    Examples
    --------
    >>> curvature = LowRank.empty(rank=1, size=2, majorizes=True).absorb(np.array([[1.0, 0.0], [0.0, 2.0]]))
    >>> curvature.as_matrix()
    array([[1., 0.],
           [0., 4.]])
    """

    V: Array
    S: Array
    D: Array
    majorizes: bool

    @classmethod
    def empty(cls, rank: int, size: int, *, majorizes: bool) -> LowRank:
        """Return the zero curvature, ready to absorb."""
        k = min(whole("rank", rank, least=0), size)
        return cls(np.eye(k, size), np.zeros((k, k)), np.zeros(size), majorizes)

    @classmethod
    def of(cls, factors: Factors, rank: int) -> LowRank:
        """Return what dominates the factors of a batch, absorbed row by row, keeping ``rank`` directions."""
        total = cls.empty(rank, factors.size, majorizes=factors.majorizes)
        for rows in factors.rows():
            total = total.absorb(rows)
        return total

    def absorb(self, rows: Array) -> LowRank:
        """Return a curvature that dominates this one plus Σ q qᵀ over ``rows`` (m×d)."""
        V, S, D = self.V.copy(), self.S.copy(), self.D.copy()
        kernels.low_rank.absorb_rows(V, S, D, np.ascontiguousarray(rows, dtype=np.float64))
        return LowRank(V, S, D, self.majorizes)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self.D)

    def matvec(self, v: Array) -> Array:
        """Return (VᵀSV + D)v."""
        return self.V.T @ (self.S @ (self.V @ v)) + self.D * v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (VᵀSV + D + ridge)⁻¹ as a function, by Woodbury's identity, O(k²d).

        With E = D + ridge and S = CCᵀ the inverse is E⁻¹ − E⁻¹VᵀC (I + CᵀVE⁻¹VᵀC)⁻¹ CᵀVE⁻¹, which never inverts S.
        Where E has zeros there is no such formula, and the matrix is written out.
        """
        E = self.D + ridge_vector(ridge, self.size)
        if not (E > 0).all():
            refuse_large(self.size, "a low-rank curvature with an unpenalised parameter")
            return Dense(self.as_matrix(), self.majorizes).factorized(ridge)
        if not len(self.S):  # which older versions of SciPy cannot factorise
            return Quotient.by(E)
        Q = self._root()
        QE = Q / E
        return LowRankSolve(E, Q, QE, Factor(lower_factor(np.eye(len(Q)) + QE @ Q.T)))

    def as_matrix(self) -> Array:
        """Return VᵀSV + D as a d×d array."""
        return self.V.T @ self.S @ self.V + np.diag(self.D)

    def __add__(self, other: Curvature) -> Curvature:
        both = self.majorizes and other.majorizes
        if isinstance(other, Diagonal):
            return LowRank(self.V, self.S, self.D + other.entries, both)
        if isinstance(other, LowRank):
            return LowRank(self.V, self.S, self.D + other.D, both).absorb(other._root())
        return add_as_matrices(self, other)

    def _root(self) -> Array:
        """Return Q (k×d) with QᵀQ = VᵀSV."""
        values, basis = eigh(self.S) if len(self.S) else (np.zeros(0), np.zeros((0, 0)))
        return np.ascontiguousarray((np.sqrt(np.maximum(values, 0.0))[:, None] * basis.T) @ self.V)


@dataclass(frozen=True, eq=False)
class LowRankSolve:
    """E⁻¹ − (QE⁻¹)ᵀ (I + QE⁻¹Qᵀ)⁻¹ QE⁻¹, with QᵀQ = VᵀSV."""

    E: Array
    Q: Array
    QE: Array
    small: Factor

    def __call__(self, b: Array) -> Array:
        """Return the solution."""
        x = b / self.E
        return x - self.QE.T @ self.small(self.Q @ x)
