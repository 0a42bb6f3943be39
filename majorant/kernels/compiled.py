"""Loops that BLAS cannot do, compiled by Numba. Import this module inside functions: Numba is slow to load.

Each kernel is plain Python on arrays, so ``kernel.py_func`` is its uncompiled twin for the tests.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compiler

_compile = compiler()
# Sums may be reordered, so that they vectorise; NaN and infinities keep their meaning.
_compile_sums = compiler(fastmath={"reassoc", "contract"})


@_compile
def curvature_weight(a: float) -> float:
    """Return β = tanh(a/2)/(2a) for a ≥ 0, the scalar twin of :func:`majorant.kernels.partition.curvature_weight`."""
    return 0.25 - a * a / 48 if a < 1e-4 else np.tanh(a / 2) / (2 * a)


@_compile
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


@_compile
def csr_grams(data: Array, indices: Array, indptr: Array, weights: Array, p: int) -> Array:
    """Return Σ_j weights[j, k] x_j x_jᵀ for every k, upper triangles only, as a (p, p, m) array.

    Column indices must be sorted within each row.
    """
    m = weights.shape[1]
    grams = np.zeros((p, p, m))
    for j in range(len(indptr) - 1):
        for a in range(indptr[j], indptr[j + 1]):
            for b in range(a, indptr[j + 1]):
                product = data[a] * data[b]
                cell = grams[indices[a], indices[b]]
                for k in range(m):
                    cell[k] += weights[j, k] * product
    return grams


@_compile
def logistic_loss_and_residual(u: Array, y: Array, weight: Array, residual: Array) -> float:
    """Return Σ w log(1 + exp(∓u)) for labels 0 and 1, and write w(p − y), with one exponential a row.

    ``weight`` is empty where every row weighs one.
    """
    total = 0.0
    for j in range(len(u)):
        w = weight[j] if len(weight) else 1.0
        margin = u[j] if y[j] == 1 else -u[j]
        e = np.exp(-abs(margin))
        wrong = e / (1.0 + e) if margin > 0 else 1.0 / (1.0 + e)  # 1 − p of the label
        total += w * (np.log1p(e) + max(-margin, 0.0))
        residual[j] = -w * wrong if y[j] == 1 else w * wrong
    return total


@_compile
def softmax_residual(scores: Array, y: int, weight: float) -> None:
    """Turn the scores of one row into weight·(p − e_y), in place; a single score is that of label 1 against 0."""
    if len(scores) == 1:
        u = scores[0]
        p = 1.0 / (1.0 + np.exp(-u)) if u > 0 else np.exp(u) / (1.0 + np.exp(u))
        scores[0] = weight * (p - y)
        return
    top = np.max(scores)
    total = 0.0
    for c in range(len(scores)):
        scores[c] = np.exp(scores[c] - top)
        total += scores[c]
    for c in range(len(scores)):
        scores[c] *= weight / total
    scores[y] -= weight


@_compile_sums
def sgd_dense(X: Array, y: Array, weight: Array, offset: Array, W: Array, gains: Array, m: int, decay: float) -> None:
    """Visit the rows in mini-batches of m: W ← W − gain·(Σ residual xᵀ + rows·decay·W), in place."""
    n, p = W.shape
    R = np.empty((m, n))
    for k in range(len(gains)):
        start, stop = k * m, min((k + 1) * m, len(X))
        for j in range(start, stop):
            for c in range(n):
                s = offset[c, j]
                for i in range(p):
                    s += W[c, i] * X[j, i]
                R[j - start, c] = s
            softmax_residual(R[j - start], y[j], weight[j])
        shrink = 1.0 - gains[k] * decay * (stop - start)
        for c in range(n):
            for i in range(p):
                W[c, i] *= shrink
            for j in range(start, stop):
                step = gains[k] * R[j - start, c]
                for i in range(p):
                    W[c, i] -= step * X[j, i]


@_compile_sums
def sgd_csr(
    data: Array,
    indices: Array,
    indptr: Array,
    y: Array,
    weight: Array,
    offset: Array,
    W: Array,
    gains: Array,
    m: int,
    decay: float,
) -> None:
    """Do what :func:`sgd_dense` does, touching non-zeros only: W is kept as scale·U. W is (p, n) here."""
    n = W.shape[1]
    R = np.empty((m, n))
    scale = 1.0
    for k in range(len(gains)):
        start, stop = k * m, min((k + 1) * m, len(indptr) - 1)
        for j in range(start, stop):
            R[j - start] = offset[:, j]
            for a in range(indptr[j], indptr[j + 1]):
                for c in range(n):
                    R[j - start, c] += scale * W[indices[a], c] * data[a]
            softmax_residual(R[j - start], y[j], weight[j])
        scale *= 1.0 - gains[k] * decay * (stop - start)
        if abs(scale) < 1e-100 or abs(scale) > 1e100:  # also a gain so large that it shrinks W to nothing
            W *= scale
            scale = 1.0
        for j in range(start, stop):
            for a in range(indptr[j], indptr[j + 1]):
                for c in range(n):
                    W[indices[a], c] -= gains[k] * R[j - start, c] * data[a] / scale
    W *= scale


@_compile
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
