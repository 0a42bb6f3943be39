"""The objective of ``LogisticRegression`` written out anew, in any precision, and a Newton method for its optimum.

Nothing here is shared with the package. Columns are centred where there is an intercept: scores are W(x − mean) + level
with level = intercept + W·mean, so that columns of a large mean cost no digits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

ITERATIONS = 100
HALVINGS = 40
# A Newton step that promises less than this share of F is not worth taking.
FLAT = 1e-15


@dataclass(frozen=True, eq=False)
class Task:
    """Rows, targets, weights, offsets and penalty of Σ w loss + ½ Σ f θ²/C; two classes have one row of coefficients.

    The penalties f of columns are one where they are not given, and C may be infinite.
    """

    X: np.ndarray  # (t, p), dense
    target: np.ndarray  # (t, n), rows sum to one
    weight: np.ndarray  # (t,)
    offset: np.ndarray  # (t, n)
    C: float
    intercept: str  # "free", "penalised" or "none"
    penalties: np.ndarray | None = None  # (p,)

    @cached_property
    def ridge(self):
        """Half of it times θ² is the penalty of each column."""
        return np.full(self.X.shape[1], 1 / self.C) if self.penalties is None else self.penalties / self.C

    def in_precision(self, dtype):
        arrays = {name: getattr(self, name).astype(dtype) for name in ("X", "target", "weight", "offset")}
        return replace(self, **arrays)

    @property
    def rows(self):
        """Classes that have coefficients."""
        n = self.target.shape[1]
        return [1] if n == 2 else list(range(n))

    @cached_property
    def mean(self):
        zero = np.zeros(self.X.shape[1], dtype=self.X.dtype)
        return zero if self.intercept == "none" else self.X.mean(axis=0)

    @cached_property
    def centred(self):
        return self.X - self.mean

    def log_probabilities(self, W, level):
        scores = self.offset.copy()
        scores[:, self.rows] += self.centred @ W.T + level
        likeliest = scores.argmax(axis=1)[:, None]
        scores -= np.take_along_axis(scores, likeliest, axis=1)
        others = np.exp(scores)
        np.put_along_axis(others, likeliest, 0, axis=1)
        return scores - np.log1p(others.sum(axis=1, keepdims=True))

    def value(self, W, level):
        loss = -(self.weight @ (self.target * self.log_probabilities(W, level)).sum(axis=1))
        return loss + 0.5 * ((W**2) @ self.ridge).sum() + 0.5 / self.C * (self.penalised(W, level) ** 2).sum()

    def penalised(self, W, level):
        """Return the part of the intercepts that the penalty sees."""
        return level - W @ self.mean if self.intercept == "penalised" else np.zeros(len(W))

    def residual(self, W, level):
        excess = np.exp(self.log_probabilities(W, level)) - self.target
        return self.weight[:, None] * excess[:, self.rows]

    def gradient(self, W, level):
        """Return the slopes along coefficients and intercepts of columns as given, not centred."""
        residual = self.residual(W, level)
        of_intercept = residual.sum(axis=0) + self.penalised(W, level) / self.C
        return residual.T @ self.X + W * self.ridge, of_intercept


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Columns that a Newton method likes: of unit size, no more of them than rows, the constant one last."""

    task: Task
    back: np.ndarray  # (q, p): W = G[:, :q] @ back

    @classmethod
    def of(cls, task):
        t, p = task.X.shape
        basis = np.eye(p) if p <= t or task.penalties is not None else _row_space(task)
        size = np.sqrt(((task.centred @ basis.T) ** 2).mean(axis=0))
        return cls(task, basis / np.where(size > 0, size, 1.0)[:, None])

    @cached_property
    def columns(self):
        Z = self.task.centred @ self.back.T
        return Z if self.task.intercept == "none" else np.column_stack([Z, np.ones(len(Z))])

    @cached_property
    def penalty(self):
        q, size = len(self.back), self.columns.shape[1]
        Q = np.zeros((size, size))
        Q[:q, :q] = (self.back * self.task.ridge) @ self.back.T
        if self.task.intercept == "penalised":
            seen = np.append(-self.back @ self.task.mean, 1.0)
            Q += np.outer(seen, seen) / self.task.C
        return Q

    def here(self, W, level):
        G = W @ (self.back / (self.back**2).sum(axis=1)[:, None]).T  # its rows are orthogonal
        return G if self.task.intercept == "none" else np.column_stack([G, level])

    def there(self, G):
        W = G[:, : len(self.back)] @ self.back
        return W, np.zeros(len(W)) if self.task.intercept == "none" else G[:, -1]

    def gradient(self, G):
        return self.task.residual(*self.there(G)).T @ self.columns + G @ self.penalty

    def hessian(self, G):
        task, Z = self.task, self.columns
        P = np.exp(task.log_probabilities(*self.there(G)))[:, task.rows]
        k, q = G.shape
        H = np.zeros((k, q, k, q))
        for a in range(k):
            for b in range(a + 1):
                curvature = task.weight * P[:, a] * (float(a == b) - P[:, b])
                H[a, :, b] = Z.T @ (curvature[:, None] * Z) + (a == b) * self.penalty
                H[b, :, a] = H[a, :, b]
        if task.intercept == "free" and k > 1:
            # All intercepts may move together without a change: any curvature there makes H regular.
            H[:, -1, :, -1] += task.weight.sum() / k**2
        return H.reshape(k * q, k * q)


def _row_space(task):
    """Return orthonormal rows whose span holds the optimal W: that of the centred rows, and of a penalised mean."""
    length = max(np.linalg.norm(task.mean), 1e-300)
    rows = np.vstack([task.centred, task.mean / length]) if task.intercept == "penalised" else task.centred
    return np.linalg.svd(rows, full_matrices=False)[2]


@np.errstate(all="ignore")  # steps without an optimum lead beyond all numbers
def least(task, starts, seconds=10.0):
    """Return the lowest point (W, level) that damped Newton finds from the best of the starts."""
    where = Coordinates.of(task)
    G = where.here(*min(starts, key=lambda start: task.value(*start)))
    value, stop = task.value(*where.there(G)), time.monotonic() + seconds
    for _ in range(ITERATIONS):
        gradient = where.gradient(G)
        step = _newton_step(where.hessian(G), gradient.ravel()).reshape(G.shape)
        promise = -float((gradient * step).sum())
        if not promise > FLAT * value or time.monotonic() > stop:
            break
        moved = _descend(lambda H: task.value(*where.there(H)), G, step, value, promise)
        if moved is None:
            break
        G, value = moved
    return where.there(G)


def _newton_step(H, gradient):
    try:
        return -cho_solve(cho_factor(H), gradient)
    except (LinAlgError, ValueError):
        return -np.linalg.lstsq(H, gradient, rcond=None)[0]


def _descend(value_at, G, step, value, promise):
    for halving in range(HALVINGS):
        share = 0.5**halving
        there = value_at(G + share * step)
        if there < value - 1e-4 * share * promise:
            return G + share * step, there
    return None
