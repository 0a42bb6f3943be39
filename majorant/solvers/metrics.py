"""The metrics of the proximal solver: what a sequential Laplace approximation remembers of the rows it has seen.

Each takes a proximal step on a mini-batch, then adds the batch's Hessian at the new point to its precision, as far as
its shape allows: whole, one block per class, or the diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemm, dsymv, dsyrk

from majorant._checks import Array
from majorant.kernels import design
from majorant.models import RowModel
from majorant.models.class_space import ClassModel
from majorant.solvers import cholesky
from majorant.solvers.inner import solve_in_parameters, solve_in_scores
from majorant.solvers.stochastic import whiten_with


class Metric(ABC):
    """A positive definite precision A that grows with every mini-batch."""

    @abstractmethod
    def step(self, model: Any, theta: Array, batch: Any) -> Array:
        """Return argmin ½‖θ' − θ‖²_A + ℓ_b(θ'), and add the Hessian of ℓ_b there to A."""

    @abstractmethod
    def solve(self, b: Array) -> Array:
        """Return A⁻¹b."""

    @abstractmethod
    def precision(self) -> Array:
        """Return A: a d×d matrix, one p×p matrix per class, or the diagonal."""

    @abstractmethod
    def remade(self, A: Array) -> Metric:
        """Return a metric of this kind with another precision, shaped as :meth:`precision` has it."""

    @abstractmethod
    def copy(self) -> Metric:
        """Return a metric that can grow without touching this one."""


class WholeMetric(Metric):
    """A itself, d×d. The inner problem is solved for parameters: best where a batch has at least d scores."""

    def __init__(self, A: Array, classes: int = 1) -> None:
        self.A, self._classes = A, classes

    def step(self, model: RowModel[Any], theta: Array, batch: Any) -> Array:
        """Step in parameter space."""
        theta = solve_in_parameters(model, batch, theta, self.A, self._classes)
        self.A = self.A + model.hessian_factors(model.scores(theta, batch), batch).matrix()
        return theta

    def solve(self, b: Array) -> Array:
        """Return A⁻¹b by Cholesky."""
        return cholesky.solve(cholesky.factorised(self.A, self._classes), b)

    def precision(self) -> Array:
        """Return A."""
        return self.A

    def remade(self, A: Array) -> Metric:
        """Return a metric with another A."""
        return WholeMetric(A, self._classes)

    def copy(self) -> Metric:
        """Return a metric on the same A, which is never written to."""
        return copy(self)


class InverseMetric(Metric):
    """The whole A and its inverse, d×d. The inner problem is solved for scores: best for small batches."""

    def __init__(self, A: Array, classes: int = 1) -> None:
        self.inverse = Inverse(A, classes)

    def step(self, model: RowModel[Any], theta: Array, batch: Any) -> Array:
        """Step in score space."""
        Φ = model.score_rows(batch)
        V, G = self.inverse.through(Φ, lambda M: model.through(M, batch))
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, G)
        u = scores.ravel() + G @ a
        Q, QM = (model.hessian_root_times(u, batch, rows) for rows in (Φ, V))
        self.inverse.absorb(Q, QM, model.hessian_root_times(u, batch, model.hessian_root_times(u, batch, G).T))
        return theta + a @ V

    def solve(self, b: Array) -> Array:
        """Return A⁻¹b."""
        return self.inverse.solve(b)

    def precision(self) -> Array:
        """Return A."""
        return self.inverse.matrix()

    def remade(self, A: Array) -> Metric:
        """Return a metric with another A."""
        return InverseMetric(A, self.inverse.classes)

    def copy(self) -> Metric:
        """Return a metric on the same arrays, which are never written to."""
        other = copy(self)
        other.inverse = copy(self.inverse)
        return other


class BlockMetric(Metric):
    """One p×p matrix A_c per class, with weights p_c(1 − p_c): n times cheaper than the whole, nearly as good.

    The inner problem still couples the classes.
    """

    def __init__(self, A: Array) -> None:
        self.inverses = [Inverse(block) for block in A]

    def step(self, model: ClassModel, theta: Array, batch: Any) -> Array:
        """Step in score space, with a block-diagonal Gram matrix."""
        X = design.dense(batch.X)
        through = [inverse.through(X, lambda M: X @ M) for inverse in self.inverses]
        V, G = (np.stack(parts) for parts in zip(*through, strict=True))
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, block_diagonal(G)).reshape(len(G), -1)
        root = np.sqrt(model.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch))
        for inverse, r, v, g in zip(self.inverses, root[:, :, None], V, G, strict=True):
            inverse.absorb(r * X, r * v, r * g * r.T)
        return theta + np.einsum("cj,cjp->cp", a, V).ravel()

    def solve(self, b: Array) -> Array:
        """Return A_c⁻¹b_c for each class."""
        parts = b.reshape(len(self.inverses), -1)
        return np.concatenate([inverse.solve(part) for inverse, part in zip(self.inverses, parts, strict=True)])

    def precision(self) -> Array:
        """Return the blocks of A, (n, p, p)."""
        return np.stack([inverse.matrix() for inverse in self.inverses])

    def remade(self, A: Array) -> Metric:
        """Return a metric with other blocks."""
        return BlockMetric(A)

    def copy(self) -> Metric:
        """Return a metric on the same arrays, which are never written to."""
        other = copy(self)
        other.inverses = [copy(inverse) for inverse in self.inverses]
        return other


class DiagonalMetric(Metric):
    """A diagonal A, for data too wide for matrices. Only the columns that occur in a batch are touched."""

    def __init__(self, A: Array) -> None:
        self.A = A

    def step(self, model: ClassModel, theta: Array, batch: Any) -> Array:
        """Step in score space, on the columns that occur."""
        X, columns = design.occurring(batch.X)
        n = model.coefficient_rows
        A = self.A.reshape(n, -1)[:, columns]
        V = X / A[:, None]
        G = V @ X.T
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, block_diagonal(G)).reshape(n, -1)
        weights = model.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch)
        self.A.reshape(n, -1)[:, columns] += weights @ X**2
        W = theta.reshape(n, -1).copy()
        W[:, columns] += np.einsum("cj,cjp->cp", a, V)
        return W.ravel()

    def solve(self, b: Array) -> Array:
        """Return b / A."""
        return b / self.A

    def precision(self) -> Array:
        """Return the diagonal."""
        return self.A

    def remade(self, A: Array) -> Metric:
        """Return a metric with another diagonal."""
        return DiagonalMetric(A)

    def copy(self) -> Metric:
        """Return a copy."""
        return DiagonalMetric(self.A.copy())


class Inverse:
    """A growing matrix A and products with its inverse M.

    M is kept by Woodbury's identity and found afresh now and then. A few rows are left pending, A = A₀ + QᵀQ and
    M = M₀ − WᵀW, so that a single row costs one product with M₀ and no d×d array is written for it. Where A is
    ill-conditioned an explicit inverse has no digits left for the directions that have been seen most, and a Cholesky
    factor of A takes its place: slower for small batches, but G is then positive semi-definite by construction. Arrays
    are replaced, never written to: a shallow copy is a copy. Only the lower triangle of A is kept.
    """

    # max diag(A) / min diag(A₀) beyond which an explicit inverse is not to be trusted.
    ILL_CONDITIONED = 1e9
    # Rows that are left pending on M, which every product has to pass, and on A, which nothing does.
    PENDING, PENDING_ON_A = 96, 512

    M: Array | None
    _Q: tuple[Array, ...]
    _factor_of_all: tuple[Array, bool] | None = None

    def __init__(self, A: Array, classes: int = 1) -> None:
        self._A, self.classes = np.ascontiguousarray(A), classes
        self._smallest = float(np.diagonal(A).min())
        self._Q, self._W = (), np.empty((0, len(A)))
        if np.count_nonzero(A) > len(A):
            self._renew()
        else:  # a prior
            self._absorbed, self.M = 0, np.diag(1 / np.diagonal(A))

    def through(self, Φ: Array, apply: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return V = ΦM and G = ΦMΦᵀ; ``apply`` multiplies Φ by a d×d matrix, as fast as it can."""
        if self.M is not None:
            # A symmetric matrix is half read for one row.
            V = dsymv(1.0, self.M.T, Φ[0])[None] if len(Φ) == 1 else apply(self.M)
            if len(self._W):
                V = V - (Φ @ self._W.T) @ self._W
            return V, V @ Φ.T
        L = self._factor[0]
        T = solve_triangular(L, Φ.T, lower=True, check_finite=False)
        return solve_triangular(L, T, lower=True, trans=1, check_finite=False).T, T.T @ T

    def absorb(self, Q: Array, QM: Array, growth: Array) -> None:
        """Add QᵀQ to A, given QM and QMQᵀ (overwritten)."""
        self._Q, self._factor_of_all = (*self._Q, Q), None
        self._absorbed += len(Q)
        # An eigenvalue that grows by 10⁶ at once costs M as many digits; rounding errors build up besides.
        if self.M is None or not np.diagonal(growth).max() <= 1e6 or self._absorbed > 16 * len(self._A):
            self._renew()
            return
        try:
            self._W = np.concatenate([self._W, whiten_with(growth, QM)])
        except FloatingPointError:  # M has lost too many digits
            self._renew()
        if len(self._W) >= self.PENDING:
            assert self.M is not None
            self.M, self._W = dgemm(-1.0, self._W.T, self._W.T, 1.0, self.M.T, trans_b=1).T, self._W[:0]
        if sum(map(len, self._Q)) >= self.PENDING_ON_A:
            self._A, self._Q = self._lower(), ()

    def solve(self, b: Array) -> Array:
        """Return A⁻¹b; the factor is kept until A grows again."""
        if self._factor_of_all is None:
            self._factor_of_all = cholesky.factorised(self._lower(), self.classes)
        return cholesky.solve(self._factor_of_all, b)

    def matrix(self) -> Array:
        """Return A, both triangles."""
        lower = self._lower()
        return np.tril(lower) + np.tril(lower, -1).T

    def _lower(self) -> Array:
        if not self._Q:
            return self._A
        # Rows are columns to BLAS, its upper triangle our lower one.
        return dsyrk(1.0, np.concatenate(self._Q).T, 1.0, self._A.T, overwrite_c=0).T

    def _renew(self) -> None:
        self._A, self._Q, self._W, self._absorbed = self._lower(), (), self._W[:0], 0
        self._factor = cholesky.factorised(self._A, self.classes)
        trusted = np.diagonal(self._A).max() <= self.ILL_CONDITIONED * self._smallest
        self.M = cholesky.inverse(self._factor) if trusted else None


def block_diagonal(G: Array) -> Array:
    """Return the (n, m, m) blocks as one matrix."""
    n, m = G.shape[:2]
    if n == 1:
        return G[0]
    whole = np.zeros((n, m, n, m))
    whole[np.arange(n), :, np.arange(n), :] = G
    return whole.reshape(n * m, n * m)
