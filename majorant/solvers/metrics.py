"""The metrics of the proximal solver: what a sequential Laplace approximation remembers of the rows it has seen.

Each takes a proximal step on a mini-batch, then adds the batch's Hessian at the new point to its precision, as far as
its shape allows: whole, one block per class, or the diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from majorant._checks import Array
from majorant.kernels import design
from majorant.models import Model
from majorant.models.class_space import ClassModel
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
    def copy(self) -> Metric:
        """Return a metric that can grow without touching this one."""


class WholeMetric(Metric):
    """A itself, d×d. The inner problem is solved for parameters: best where a batch has at least d scores."""

    def __init__(self, A: Array) -> None:
        self.A = A

    def step(self, model: Model[Any], theta: Array, batch: Any) -> Array:
        """Step in parameter space."""
        theta = solve_in_parameters(model, batch, theta, self.A)
        self.A += model.hessian_factors(model.scores(theta, batch), batch).matrix()
        return theta

    def solve(self, b: Array) -> Array:
        """Return A⁻¹b by Cholesky."""
        return cho_solve(cho_factor(self.A, lower=True), b)

    def precision(self) -> Array:
        """Return A."""
        return self.A

    def copy(self) -> Metric:
        """Return a copy."""
        return WholeMetric(self.A.copy())


class InverseMetric(Metric):
    """A and M = A⁻¹, d×d, M by Woodbury's identity. The inner problem is solved for scores: best for small batches."""

    def __init__(self, A: Array, M: Array | None = None, absorbed: int = 0) -> None:
        self.A, self.M, self.absorbed = A, np.linalg.inv(A) if M is None else M, absorbed

    def step(self, model: Model[Any], theta: Array, batch: Any) -> Array:
        """Step in score space."""
        Φ, V = model.score_rows(batch), model.through(self.M, batch)
        G = V @ Φ.T
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, G)
        u = scores.ravel() + G @ a
        Q, QM = (model.hessian_root_times(u, batch, rows) for rows in (Φ, V))
        growth = model.hessian_root_times(u, batch, model.hessian_root_times(u, batch, G).T)
        self._absorb(Q, QM, growth)
        return theta + a @ V

    def solve(self, b: Array) -> Array:
        """Return Mb."""
        return self.M @ b

    def precision(self) -> Array:
        """Return A."""
        return self.A

    def copy(self) -> Metric:
        """Return a copy."""
        return InverseMetric(self.A.copy(), self.M.copy(), self.absorbed)

    def _absorb(self, Q: Array, QM: Array, growth: Array) -> None:
        self.A += Q.T @ Q
        self.absorbed += len(Q)
        if needs_refreshing(growth, self.absorbed, len(self.A)):
            self.M, self.absorbed = np.linalg.inv(self.A), 0
            return
        W = whiten_with(growth, QM)
        self.M -= W.T @ W


class BlockMetric(Metric):
    """One p×p matrix A_c per class, with weights p_c(1 − p_c): n times cheaper than the whole, nearly as good.

    The inner problem still couples the classes.
    """

    def __init__(self, A: Array, M: Array | None = None, absorbed: int = 0) -> None:
        self.A, self.M, self.absorbed = A, np.linalg.inv(A) if M is None else M, absorbed

    def step(self, model: ClassModel, theta: Array, batch: Any) -> Array:
        """Step in score space, with a block-diagonal Gram matrix."""
        X = design.dense(batch.X)
        V = X @ self.M
        G = V @ X.T
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, block_diagonal(G)).reshape(len(G), -1)
        root = np.sqrt(model.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch))[:, :, None]
        self._absorb(root * X, root * V, root * G * root.transpose(0, 2, 1))
        return theta + np.einsum("cj,cjp->cp", a, V).ravel()

    def solve(self, b: Array) -> Array:
        """Return M_c b_c for each class."""
        return np.einsum("cpq,cq->cp", self.M, b.reshape(len(self.M), -1)).ravel()

    def precision(self) -> Array:
        """Return the blocks of A, (n, p, p)."""
        return self.A

    def copy(self) -> Metric:
        """Return a copy."""
        return BlockMetric(self.A.copy(), self.M.copy(), self.absorbed)

    def _absorb(self, Q: Array, QM: Array, growth: Array) -> None:
        for c in range(len(Q)):
            self.A[c] += Q[c].T @ Q[c]
        self.absorbed += Q.shape[1]
        if needs_refreshing(growth, self.absorbed, Q.shape[2]):
            self.M, self.absorbed = np.linalg.inv(self.A), 0
            return
        for c in range(len(Q)):
            W = whiten_with(growth[c], QM[c])
            self.M[c] -= W.T @ W


class DiagonalMetric(Metric):
    """A diagonal A, for data too wide for matrices. Only the columns that occur in a batch are touched."""

    def __init__(self, A: Array) -> None:
        self.A = A

    def step(self, model: ClassModel, theta: Array, batch: Any) -> Array:
        """Step in score space, on the columns that occur."""
        X, columns = occurring(batch.X)
        n = model.coefficient_rows
        A = self.A.reshape(n, -1)[:, columns]
        V = X / A[:, None]
        G = V @ X.T
        scores = model.scores(theta, batch)
        a = solve_in_scores(model, batch, scores, block_diagonal(G)).reshape(n, -1)
        weights = model.class_weights(scores + np.einsum("cij,cj->ci", G, a), batch)
        self.A.reshape(n, -1)[:, columns] += weights @ X**2
        theta.reshape(n, -1)[:, columns] += np.einsum("cj,cjp->cp", a, V)
        return theta

    def solve(self, b: Array) -> Array:
        """Return b / A."""
        return b / self.A

    def precision(self) -> Array:
        """Return the diagonal."""
        return self.A

    def copy(self) -> Metric:
        """Return a copy."""
        return DiagonalMetric(self.A.copy())


def needs_refreshing(growth: Array, absorbed: int, size: int) -> bool:
    """Return whether M is better found from A afresh than by Woodbury's identity.

    An eigenvalue of A that grows by 10⁶ at once costs M as many digits there; rounding errors build up besides.
    """
    return bool(np.diagonal(growth, axis1=-2, axis2=-1).max() > 1e6) or absorbed > 16 * size


def block_diagonal(G: Array) -> Array:
    """Return the (n, m, m) blocks as one matrix."""
    n, m = G.shape[:2]
    if n == 1:
        return G[0]
    whole = np.zeros((n, m, n, m))
    whole[np.arange(n), :, np.arange(n), :] = G
    return whole.reshape(n * m, n * m)


def occurring(X: Any) -> tuple[Array, Array]:
    """Return the columns of X that are not empty, as a dense array, and which they are."""
    if not sp.issparse(X):
        return design.dense(X), np.arange(X.shape[1])
    columns, position = np.unique(X.indices, return_inverse=True)
    dense = np.zeros((X.shape[0], len(columns)))
    dense[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), position] = X.data
    return dense, columns
