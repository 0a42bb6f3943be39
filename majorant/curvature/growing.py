"""A matrix that grows row by row, with products with its inverse at hand at every moment."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm, dsymv, dsyrk

from majorant._checks import Array
from majorant.curvature.base import Curvature, Solve, is_nothing
from majorant.curvature.cholesky import Factor, factorised
from majorant.curvature.dense import Dense, add_as_matrices
from majorant.curvature.woodbury import whiten_with

# max diag(A) / min diag(A₀) beyond which an explicit inverse is not to be trusted.
ILL_CONDITIONED = 1e9
# Rows that are left pending on M, which every product has to pass, and on A, which nothing does.
PENDING, PENDING_ON_A = 96, 512


class Growing(Curvature):
    """A growing matrix A and products with its inverse M.

    M is kept by Woodbury's identity and found afresh now and then. A few rows are left pending, A = A₀ + QᵀQ and
    M = M₀ − WᵀW, so that a single row costs one product with M₀ and no d×d array is written for it. Where A is
    ill-conditioned an explicit inverse has no digits left for the directions that have been seen most, and a Cholesky
    factor of A takes its place: slower for small batches, but G is then positive semi-definite by construction.

    Growing makes another one: arrays are replaced, never written to, and a shallow copy is a copy. Only the lower
    triangle of A is kept.

    Parameters
    ----------
    A : array of shape (d, d)
        What it starts from, positive definite: a diagonal prior, or a matrix.
    classes : int
        Of several classes the direction in which all move together is grounded where a factor is needed.
    """

    majorizes = False

    _M: Array | None
    _Q: tuple[Array, ...]
    _factor_of_all: Factor | None

    def __init__(self, A: Array, classes: int = 1) -> None:
        self._A, self.classes = np.ascontiguousarray(A), classes
        self._smallest = float(np.diagonal(A).min())
        self._Q, self._W, self._factor_of_all = (), np.empty((0, len(A))), None
        if np.count_nonzero(A) > len(A):
            self._renew()
        else:  # a prior
            self._absorbed, self._M = 0, np.diag(1 / np.diagonal(A))

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return len(self._A)

    def through(self, Φ: Array, apply: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return V = ΦM and G = ΦMΦᵀ; ``apply`` multiplies Φ by a d×d matrix, as fast as it can."""
        if self._M is not None:
            # A symmetric matrix is half read for one row.
            V = dsymv(1.0, self._M.T, Φ[0])[None] if len(Φ) == 1 else apply(self._M)
            if len(self._W):
                V = V - (Φ @ self._W.T) @ self._W
            return V, V @ Φ.T
        L = self._factor.L
        T = solve_triangular(L, Φ.T, lower=True, check_finite=False)
        return solve_triangular(L, T, lower=True, trans=1, check_finite=False).T, T.T @ T

    def grown(self, Q: Array, QM: Array, growth: Array) -> Self:
        """Return A + QᵀQ, given QM and QMQᵀ (overwritten)."""
        other = copy(self)
        other._absorb(Q, QM, growth)
        return other

    def matvec(self, v: Array) -> Array:
        """Return Av."""
        return self.as_matrix() @ v

    def factorized(self, ridge: float | Array = 0.0) -> Solve:
        """Return (A + diag(ridge))⁻¹ as a function; without a ridge the factor is kept until A grows again."""
        if not is_nothing(ridge):
            return Dense(self.as_matrix(), majorizes=False).factorized(ridge)
        if self._factor_of_all is None:
            self._factor_of_all = factorised(self._lower(), self.classes)
        return self._factor_of_all

    def as_matrix(self) -> Array:
        """Return A, both triangles."""
        lower = self._lower()
        return np.tril(lower) + np.tril(lower, -1).T

    def __add__(self, other: Curvature) -> Curvature:
        return add_as_matrices(self, other)

    def _absorb(self, Q: Array, QM: Array, growth: Array) -> None:
        self._Q, self._factor_of_all = (*self._Q, Q), None
        self._absorbed += len(Q)
        # An eigenvalue that grows by 10⁶ at once costs M as many digits; rounding errors build up besides.
        if self._M is None or not np.diagonal(growth).max() <= 1e6 or self._absorbed > 16 * len(self._A):
            self._renew()
            return
        try:
            self._W = np.concatenate([self._W, whiten_with(growth, QM)])
        except FloatingPointError:  # M has lost too many digits
            self._renew()
        if len(self._W) >= PENDING:
            assert self._M is not None
            self._M, self._W = dgemm(-1.0, self._W.T, self._W.T, 1.0, self._M.T, trans_b=1).T, self._W[:0]
        if sum(map(len, self._Q)) >= PENDING_ON_A:
            self._A, self._Q = self._lower(), ()

    def _lower(self) -> Array:
        if not self._Q:
            return self._A
        # Rows are columns to BLAS, its upper triangle our lower one.
        return dsyrk(1.0, np.concatenate(self._Q).T, 1.0, self._A.T, overwrite_c=0).T

    def _renew(self) -> None:
        self._A, self._Q, self._W, self._absorbed = self._lower(), (), self._W[:0], 0
        self._factor = factorised(self._A, self.classes)
        trusted = np.diagonal(self._A).max() <= ILL_CONDITIONED * self._smallest
        self._M = self._factor.inverse() if trusted else None
