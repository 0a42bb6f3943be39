"""Algorithm 1 one outcome at a time, compiled by Numba.

The letters are those of :mod:`majorant.core.kernels.partition`, which takes the same sweep over many rows at once.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels.compiler import compile_strict, compile_sums
from majorant.core.kernels.partition import FLAT


@compile_strict
def absorb(log_z: float, score: float) -> tuple[float, float, float]:
    """Return β and κ of the next outcome of a sweep, and log z with it.

    The first outcome (log z = −∞) has β = 0 and κ = 1; an outcome of zero measure (score −∞) changes nothing.
    """
    if score == -np.inf:
        return 0.0, 0.0, log_z
    if log_z == -np.inf:
        return 0.0, 1.0, score
    u = score - log_z
    a = abs(u)
    e = np.exp(-a)
    β = 0.25 if a < FLAT else np.tanh(a / 2) / (2 * a)
    κ = (1.0 if u >= 0 else e) / (1.0 + e)
    return β, κ, max(log_z, score) + np.log1p(e)


@compile_strict
def bound_rows(scores: Array, visit: Array, indptr: Array, weight: Array, F: Array) -> Array:
    """Return the rows √(wβ) (f(y) − g) of Algorithm 1 for outcome sets with features F, so that Σ = QᵀQ.

    ``visit`` lists the outcomes of each set, from indptr[j] to indptr[j+1], in the order of the sweep.
    Cost: O(d) an outcome, where going through class space would take O(nd).
    """
    Q = np.zeros(F.shape)
    g = np.zeros(F.shape[1])
    for j in range(len(indptr) - 1):
        log_z = -np.inf
        g[:] = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            y = visit[k]
            β, κ, log_z = absorb(log_z, scores[y])
            scale = np.sqrt(weight[j] * β)
            for i in range(len(g)):
                direction = F[y, i] - g[i]
                Q[k, i] = scale * direction
                g[i] += κ * direction
    return Q


@compile_sums
def hessian_rows(p: Array, indptr: Array, weight: Array, F: Array) -> Array:
    """Return the rows √(wp) (f(y) − mean) for outcome sets with features F and probabilities p: their Gram is H."""
    Q = np.empty(F.shape)
    mean = np.empty(F.shape[1])
    for j in range(len(indptr) - 1):
        mean[:] = 0.0
        for y in range(indptr[j], indptr[j + 1]):
            for i in range(len(mean)):
                mean[i] += p[y] * F[y, i]
        for y in range(indptr[j], indptr[j + 1]):
            scale = np.sqrt(weight[j] * p[y])
            for i in range(len(mean)):
                Q[y, i] = scale * (F[y, i] - mean[i])
    return Q


@compile_strict
def row_bound(scores: Array, descending: bool, against_zero: bool) -> tuple[Array, Array]:
    """Return the directions L and the probabilities of one row: Algorithm 1 on its scores.

    What :func:`~majorant.core.kernels.partition.bound_directions` does for many rows. ``against_zero``: there is one
    score, and another outcome of score zero and no features beside it, as in one-row binary models.
    """
    n = len(scores)
    if against_zero:
        β, p, _ = absorb(0.0, scores[0])
        return np.full((1, 1), np.sqrt(β)), np.full(1, p)
    visit = descending_order(scores) if descending else np.arange(n)
    L, π = np.zeros((n - 1, n)), np.zeros(n)
    log_z = -np.inf
    for k in range(n):
        y = visit[k]
        β, κ, log_z = absorb(log_z, scores[y])
        if k > 0:
            L[k - 1] = -np.sqrt(β) * π
            L[k - 1, y] = np.sqrt(β)
        π *= 1 - κ
        π[y] = κ
    return L, π


@compile_strict
def descending_order(scores: Array) -> Array:
    """Return the outcomes by falling score, equal ones as they stand: an insertion sort, quick to compile."""
    visit = np.arange(len(scores))
    for i in range(1, len(scores)):
        y, k = visit[i], i
        while k > 0 and scores[visit[k - 1]] < scores[y]:
            visit[k] = visit[k - 1]
            k -= 1
        visit[k] = y
    return visit
