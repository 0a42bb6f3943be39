"""The weights of least relative entropy under given means, by their dual: a log-partition function over rows.

Of all weights w ≥ 0 with Σ_i w_i = 1, w_i ≤ r q_i and |Σ_i w_i x_i − t| ≤ δ, those nearest to base weights q in
relative entropy are w_i ∝ q_i exp(λᵀx_i), cut off at r q_i, where λ minimises

    D(λ) = log Σ_i q_i exp(λᵀ(x_i − t)) + Σ_k δ_k |λ_k|

(with a cap, the minimum over μ of Σ_i q_i ψ(λᵀ(x_i − t) + μ) − μ − 1, ψ the exponential continued by its tangent from
log r). Its gradient is the imbalance. Newton's method finds λ: on few rows first, then on all of them, in the metric of
the few while that suffices.

There are no such weights if and only if some v has vᵀt − Σ_k δ_k |v_k| above vᵀ Σ_i w_i x_i for all weights: D then
falls for ever along v. Iterates are tested for being such a v, which is a proof; a linear program finds the one that
names the fewest columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from majorant.core import kernels
from majorant.core.checks import Array

# Numbers from which rows are read by compiled loops, and Newton's metric is that of a sample.
LARGE = 2**22
# Rows of that sample for each column: its Hessian is then right to a tenth or so.
PER_COLUMN = 400
# Numbers of a block of rows that a Hessian is summed from.
BLOCK = 2**18
# A gradient that a step in the metric of a sample leaves more than this share of is worth a Hessian of all rows.
WORTH_ALL = 0.25
# Rounding errors of scores, relative to the sum of their terms.
ROUNDING = 1e-12
ROUNDS = 60


@dataclass(frozen=True, eq=False)
class Moments:
    """Rows x with base weights q that sum to one, the means t that they should have, and how far off these may be.

    ``cap`` is the largest w_i/q_i. Units of columns are their standard deviations, sizes their largest magnitudes.
    """

    X: Array
    q: Array | None  # None: all rows weigh the same
    target: Array
    unit: Array
    tolerance: Array
    size: Array
    cap: float = inf

    @property
    def is_large(self) -> bool:
        """Whether rows are read by compiled loops."""
        return self.X.size >= LARGE and np.isinf(self.cap) and self.X.flags.c_contiguous

    def weights(self, scores: Array) -> tuple[Array, float]:
        """Return the weights that scores stand for, and D without its penalty."""
        q = 1.0 / len(scores) if self.q is None else self.q
        top = float(scores.max())
        w = np.exp(scores - top) * q
        total = float(w.sum())
        if np.isinf(self.cap):
            return w / total, top + log(total)
        # Σ q min(e^{s + μ}, r) = 1: of rows by falling score the first k are at the cap, and share of the rest is left.
        order, r = np.argsort(-scores, kind="stable"), self.cap
        q = np.full(len(scores), q) if self.q is None else self.q
        rest = np.cumsum(w[order][::-1])[::-1]
        left = 1.0 - r * (np.cumsum(q[order]) - q[order])
        factor = np.divide(left, rest, out=np.zeros(len(w)), where=(left > 0) & (rest > 0))
        first = factor * np.exp(scores[order] - top) <= r
        k = int(np.argmax(first & (left > 0))) if (first & (left > 0)).any() else len(w) - 1
        μ = log(max(factor[k], 1e-300)) - top
        u = scores + μ
        beyond = np.maximum(u - log(r), 0.0)
        tilted = np.exp(u - beyond) * q
        return tilted, float(tilted.sum() + r * (beyond @ q)) - 1.0 - μ

    def evaluate(self, λ: Array) -> tuple[float, Array, Array]:
        """Return D without its penalty, the imbalance in units, and the scores λᵀ(x − t)."""
        if self.is_large:
            scores, sums = np.empty(len(self.X)), np.zeros(len(λ))
            log_q = np.zeros(0) if self.q is None else np.log(self.q)
            top, total = kernels.entropy.tilted_sums(self.X, self.target, λ / self.unit, log_q, scores, sums)
            n = len(self.X) if self.q is None else 1
            return top + log(total / n), sums / (total * self.unit), scores
        Z = (self.X - self.target) / self.unit
        scores = Z @ λ
        w, value = self.weights(scores)
        return value, w @ Z, scores

    def hessian(self, scores: Array) -> Array:
        """Return the Hessian: the covariance of rows under the weights, of a cap among those below it."""
        w = self.weights(scores)[0]
        if np.isfinite(self.cap):
            w = np.where(w < (1 - 1e-12) * self.cap * (1.0 / len(w) if self.q is None else self.q), w, 0.0)
        d = self.X.shape[1]
        second, first = np.zeros((d, d)), np.zeros(d)
        rows = max(BLOCK // d, 1)
        for begin in range(0, len(w), rows):
            part = slice(begin, begin + rows)
            Z = (self.X[part] - self.target) / self.unit
            first += w[part] @ Z
            Z *= np.sqrt(w[part])[:, None]
            second += Z.T @ Z
        total = float(w.sum())
        return second - np.outer(first, first) / total if total > 0 else second

    def sample(self, rows: int) -> Moments:
        """Return some rows drawn at random."""
        some = np.sort(np.random.default_rng(0).choice(len(self.X), rows, replace=False))
        q = None if self.q is None else self.q[some] / self.q[some].sum()
        return Moments(self.X[some], q, self.target, self.unit, self.tolerance, self.size, self.cap)

    def separates(self, λ: Array, scores: Array) -> bool:
        """Return whether λ proves that no weights have these means: none reaches zero beyond rounding."""
        if np.isinf(self.cap):
            most = float(scores.max())
        else:  # the most that capped weights reach: the largest scores first
            order = np.argsort(-scores)
            q = np.full(len(scores), 1.0 / len(scores)) if self.q is None else self.q[order]
            room = np.minimum(self.cap * q, np.maximum(1.0 - self.cap * (np.cumsum(q) - q), 0.0))
            most = float(room @ scores[order])
        terms = np.abs(λ / self.unit) @ (np.abs(self.target) + self.size)
        return most + float(self.tolerance / self.unit @ np.abs(λ)) < -ROUNDING * float(terms)


@dataclass(frozen=True, eq=False)
class Solved:
    """The dual parameters in units of columns, the imbalance there, and how Newton's steps ended.

    ``off`` is how far means are outside of their tolerance, or λ from its optimum, in units: the largest one.
    """

    λ: Array
    value: float
    scores: Array
    off: float
    steps: int
    infeasible: bool


def solve(problem: Moments, *, tol: float, max_iter: int) -> Solved:
    """Return the minimum of the dual by Newton's method, or a proof that there is none.

    Parameters
    ----------
    problem : Moments
    tol : float
        The largest imbalance, in units of columns.
    max_iter : int
        Steps on all rows.
    """
    d, δ = problem.X.shape[1], problem.tolerance / problem.unit
    λ, few = np.zeros(d), None
    if problem.is_large and PER_COLUMN * d < len(problem.X) // 2:
        few = problem.sample(PER_COLUMN * d)
        begun = solve(few, tol=1e-4, max_iter=50)
        λ = λ if begun.infeasible else begun.λ
    value, g, scores = problem.evaluate(λ)
    before, damping = inf, 0.0
    for step in range(max_iter + 1):
        off = float(_kinked(g, λ, δ).max(initial=0.0))
        if off <= tol or step == max_iter:
            return Solved(λ, value, scores, off, step, False)
        if λ.any() and problem.separates(λ, scores):
            return Solved(λ, value, scores, off, step, True)

        # Newton's step; in the metric of a sample as long as that does.
        if few is not None and off > WORTH_ALL * before:
            few = None
        H = problem.hessian(scores) if few is None else few.hessian((few.X - few.target) / few.unit @ λ)
        before = off
        # A cap makes D piecewise linear where all rows that matter are at it: steps are damped where they fail.
        direction = _step(H + damping * np.eye(d), g, λ, δ)
        F = value + float(δ @ np.abs(λ))
        slope = float(g @ direction + δ @ (np.abs(λ + direction) - np.abs(λ)))
        length = 1.0
        for _ in range(50):
            there = λ + length * direction
            there[(there != 0) & (δ > 0) & (np.abs(there) < 1e-14)] = 0.0
            value, g_there, scores_there = problem.evaluate(there)
            if value + float(δ @ np.abs(there)) <= F + 1e-4 * length * slope + 1e-14 * (1 + abs(F)):
                break
            if problem.separates(there, scores_there):
                return Solved(there, value, scores_there, off, step, True)
            length *= 0.5
        else:
            if np.isinf(problem.cap) or damping > 1e3:
                return Solved(λ, F, scores, off, step, False)
            value, damping = F - float(δ @ np.abs(λ)), max(10 * damping, 1e-6)
            continue
        if np.isfinite(problem.cap):
            damping = max(10 * damping, 1e-8) if length < 0.2 else 0.1 * damping if damping > 1e-9 else 0.0
        λ, g, scores = there, g_there, scores_there
    raise AssertionError("unreachable")


def _kinked(g: Array, λ: Array, δ: Array) -> Array:
    """Return the least subgradient of D, in magnitude."""
    away = np.abs(g + δ * np.sign(λ))
    return np.where((λ == 0) & (δ > 0), np.maximum(np.abs(g) - δ, 0.0), away)


def _step(H: Array, g: Array, λ: Array, δ: Array) -> Array:
    """Return where the quadratic model of D is least; with tolerances by coordinate descent."""
    d = len(g)
    scale = np.sqrt(np.maximum(np.diagonal(H), 1e-300))
    for ridge in (1e-13, 1e-10, 1e-7, 1e-4):
        try:
            factor = cho_factor(H + np.diag(ridge * scale**2 + 1e-300), lower=True)
            break
        except LinAlgError:
            continue
    else:
        factor = None
    if not δ.any():
        return -g if factor is None else -cho_solve(factor, g)
    curved = np.diagonal(H) + 1e-13 * scale**2 + 1e-300
    there, Hd = λ.copy(), np.zeros(d)
    for _ in range(1000):
        moved = 0.0
        for k in range(d):
            r = curved[k] * there[k] - (g[k] + Hd[k])
            new = np.sign(r) * max(abs(r) - δ[k], 0.0) / curved[k]
            change = new - there[k]
            if change:
                Hd += H[:, k] * change
                there[k] = new
                moved = max(moved, abs(change) * scale[k])
        if moved <= 1e-12 * max(float((scale * np.abs(there - λ)).max()), 1e-300):
            break
    return np.asarray(there - λ)


def responsible(problem: Moments, λ: Array) -> list[int]:
    """Return the fewest columns whose targets no weights reach together, by a linear program.

    Without a proof by few columns, those that ``λ`` proves it by.
    """
    from scipy.optimize import linprog

    X, t, d = problem.X / problem.unit, problem.target / problem.unit, problem.X.shape[1]
    δ, q = problem.tolerance / problem.unit, problem.q
    low, high = X.min(axis=0), X.max(axis=0)
    alone = np.flatnonzero((t - δ > high) | (t + δ < low))
    if len(alone):
        return alone.tolist()

    def reached(v: Array) -> tuple[float, Array]:
        """Return the most that weights reach along v, and points that reach it or nearly so."""
        scores = X @ v
        order = np.argsort(-scores)
        if np.isinf(problem.cap):
            return float(scores[order[0]]), X[order[: 2 * d + 10]]
        of_row = np.full(len(X), 1.0 / len(X)) if q is None else q[order]
        room = np.minimum(problem.cap * of_row, np.maximum(1.0 - problem.cap * (np.cumsum(of_row) - of_row), 0.0))
        return float(room @ scores[order]), (room @ X[order])[None]

    points = reached(λ)[1][:1]
    for _ in range(ROUNDS):
        # v = a − b with vᵀ(t − x) − δᵀ(a + b) ≥ 1 at all points so far, of the least Σ a + b.
        D = t - points
        found = linprog(np.ones(2 * d), A_ub=-np.hstack([D - δ, -D - δ]), b_ub=-np.ones(len(D)), method="highs")
        if found.status != 0:
            break
        v = found.x[:d] - found.x[d:]
        most, worst = reached(v)
        if float(v @ t) - float(δ @ np.abs(v)) - most > 1 - 1e-7:
            for m in range(1, d + 1):  # as few as still prove it
                largest = np.argsort(-np.abs(v), kind="stable")[:m]
                part = np.zeros(d)
                part[largest] = v[largest]
                if float(part @ t) - float(δ @ np.abs(part)) - reached(part)[0] > 1e-7:
                    return np.sort(largest).tolist()
        points = np.vstack([points, worst])
    size = np.abs(λ)
    return np.flatnonzero(size > 0.01 * size.max()).tolist()


def of_table(given: Any) -> tuple[Array, tuple[str, ...]]:
    """Return columns as an array in double precision, and their names."""
    values = np.asarray(given, dtype=np.float64) if not hasattr(given, "toarray") else given.toarray()
    values = values[:, None] if values.ndim == 1 else values
    names = tuple(map(str, getattr(given, "columns", ())))
    return np.ascontiguousarray(values), names or tuple(f"x{k}" for k in range(values.shape[1]))
