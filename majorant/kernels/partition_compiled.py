"""Algorithm 1 on one row at a time, compiled by Numba. Import this module inside functions: Numba is slow to load.

The letters are those of :mod:`majorant.kernels.partition`, which sweeps over many rows at once.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict


@compile_strict
def curvature_weight(a: float) -> float:
    """Return β = tanh(a/2)/(2a) for a ≥ 0, the scalar twin of :func:`majorant.kernels.partition.curvature_weight`."""
    return 0.25 - a * a / 48 if a < 1e-4 else np.tanh(a / 2) / (2 * a)


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
        for k in range(indptr[j], indptr[j + 1]):
            y = visit[k]
            if scores[y] == -np.inf:
                continue
            if log_z == -np.inf:
                g[:] = F[y]
                log_z = scores[y]
                continue
            u = scores[y] - log_z
            a = abs(u)
            β = curvature_weight(a)
            κ = 1 / (1 + np.exp(-u))
            for i in range(len(g)):
                direction = F[y, i] - g[i]
                Q[k, i] = np.sqrt(weight[j] * β) * direction
                g[i] += κ * direction
            log_z = max(log_z, scores[y]) + np.log1p(np.exp(-a))
    return Q


@compile_strict
def row_bound(scores: Array, descending: bool, against_zero: bool) -> tuple[Array, Array]:
    """Return the directions L and the probabilities of one row: Algorithm 1 on its scores.

    The twin of :func:`majorant.kernels.partition.bound_directions`. ``against_zero``: there is one score, and another
    outcome of score zero and no features beside it, as in one-row binary models.
    """
    n = len(scores)
    if against_zero:
        a = abs(scores[0])
        β = curvature_weight(a)
        p = 1 / (1 + np.exp(-a))
        return np.full((1, 1), np.sqrt(β)), np.array([p if scores[0] > 0 else 1 - p])
    visit = np.arange(n)
    if descending:
        for i in range(1, n):  # insertion sort: stable, and quick to compile
            y, k = visit[i], i
            while k > 0 and scores[visit[k - 1]] < scores[y]:
                visit[k] = visit[k - 1]
                k -= 1
            visit[k] = y
    L, π = np.zeros((n - 1, n)), np.zeros(n)
    log_z = -np.inf
    for k in range(n):
        y = visit[k]
        if scores[y] == -np.inf:
            continue
        if log_z == -np.inf:
            π[y] = 1.0
            log_z = scores[y]
            continue
        u = scores[y] - log_z
        a = abs(u)
        β = curvature_weight(a)
        κ = 1 / (1 + np.exp(-u))
        L[k - 1] = -np.sqrt(β) * π
        L[k - 1, y] += np.sqrt(β)
        π *= 1 - κ
        π[y] = κ
        log_z = max(log_z, scores[y]) + np.log1p(np.exp(-a))
    return L, π
