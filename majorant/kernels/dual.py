"""Dual coordinate descent, one row at a time, compiled by Numba.

A row's residual r_j = w_j(p_j − e_y) is its dual variable, and W = −(1/λ) Σ_j x_j r_jᵀ. With the residuals of all other
rows kept, the best scores s' of a row solve s' + qw p(s') = s + q(r_j + w e_y), q = ‖x_j‖²/λ: a proximal step of the
log-partition function on n numbers. Coefficients are stored p×n, so that a non-zero of X meets its n of them side by
side.

References
----------
Yu, Huang & Lin, *Dual coordinate descent methods for logistic regression and maximum entropy models*, 2011.
Shalev-Shwartz & Zhang, *Stochastic dual coordinate ascent*, 2013.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_sums
from majorant.kernels.logistic_compiled import sigmoid
from majorant.kernels.sparse import Csr

# Newton's method on one row stops when it moves scores by less than this, relative to the score.
SETTLED = 1e-4
# And probabilities sum to one within this; they are rescaled afterwards.
SUMS_TO_ONE = 1e-6
# Errors in p are errors of q p in the scores of a row: with several classes both are divided by 1 + q, down to these.
LEAST_SETTLED, LEAST_SUMS = 1e-9, 1e-13
ITERATIONS = 50


@compile_sums
def logistic_step(c: float, q: float, z: float) -> float:
    """Return z with z + q/(1 + exp(−z)) = c, from a first guess: Newton's method inside a shrinking bracket."""
    # If z > log q the root is within one of c − q; so beyond these it cannot be.
    wide = max(np.log(q), 1.0)
    low, high = max(c - q, min(c, 0.0) - wide), min(c, max(c - q, 0.0) + wide)
    z, last = min(max(z, low), high), 2 * (high - low)
    for _ in range(ITERATIONS):
        p = sigmoid(z)
        excess = z + q * p - c
        low, high = (low, z) if excess > 0 else (z, high)
        move = -excess / (1 + q * p * (1 - p))
        if not low <= z + move <= high or abs(move) > 0.5 * last:  # Newton's method may swing to and fro
            move = 0.5 * (low + high) - z
        z, last = z + move, abs(move)
        if last <= SETTLED * max(1.0, abs(z)):
            break
    return z


@compile_sums
def softmax_step(c: Array, q: float, v: Array, log_z: float) -> None:
    """Overwrite v by log p with log p + log Z + q p = c and Σ p = 1, from a first guess of v and log Z.

    For a given log Z every p is found alone; Σ p falls with log Z and is convex in it, so Newton's method finds that.
    """
    settled, to_one = max(SETTLED / (1 + q), LEAST_SETTLED), max(SUMS_TO_ONE / (1 + q), LEAST_SUMS)
    for _ in range(ITERATIONS):
        total, slope = 0.0, 0.0
        for i in range(len(c)):
            b = c[i] - log_z
            # v + q exp(v) = b is convex in v: from above Newton's method cannot miss, and this is above.
            above = min(b, max(1.0, np.log(b / q))) if b > 1.0 else b
            v_i = min(v[i], above)
            for _ in range(ITERATIONS):
                load = q * np.exp(v_i)
                move = (v_i + load - b) / (1 + load)
                v_i = min(v_i - move, above)
                if abs(move) <= settled:
                    break
            v[i] = v_i
            p = np.exp(v_i)
            total += p
            slope += p / (1 + q * p)
        move = (total - 1) / slope
        if abs(total - 1) <= to_one or abs(move) <= 1e-15 * abs(log_z):
            break
        log_z += move
    for i in range(len(c)):
        v[i] -= np.log(total)


@compile_sums
def row_squares(X: Csr) -> Array:
    """Return the sum of squares of each row."""
    sums = np.zeros(len(X.indptr) - 1)
    for j in range(len(sums)):
        for e in range(X.indptr[j], X.indptr[j + 1]):
            sums[j] += X.data[e] * X.data[e]
    return sums


@compile_sums
def binary_epoch(X: Csr, y: Array, weight: Array, q: Array, inverse: float, order: Array, r: Array, W: Array) -> float:
    """Visit rows in order, each solved exactly against the others; return the sum of squared moves of r.

    ``q`` holds ‖x_j‖²/λ, ``inverse`` 1/λ.
    """
    moved = 0.0
    for j in order:
        s, begin, end = 0.0, np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1])  # unsigned loops are quicker
        for e in range(begin, end):
            s += X.data[e] * W[X.indices[e]]
        p = sigmoid(logistic_step(s + q[j] * (r[j] + weight[j] * y[j]), q[j] * weight[j], s))
        move = weight[j] * (p - y[j]) - r[j]
        r[j] += move
        moved += move * move
        step = inverse * move
        for e in range(begin, end):
            W[X.indices[e]] -= step * X.data[e]
    return moved


@compile_sums
def softmax_epoch(X: Csr, y: Array, weight: Array, q: Array, inverse: float, order: Array, r: Array, W: Array) -> float:
    """Do for several classes what :func:`binary_epoch` does for two."""
    n, moved = W.shape[1], 0.0
    s, c, v = np.empty(n), np.empty(n), np.empty(n)
    for j in order:
        s[:] = 0.0
        for e in range(X.indptr[j], X.indptr[j + 1]):
            for i in range(n):
                s[i] += X.data[e] * W[X.indices[e], i]
        if weight[j] * q[j] > 0:
            log_z = np.max(s)
            log_z += np.log(np.exp(s - log_z).sum())
            for i in range(n):
                c[i] = s[i] + q[j] * r[j, i]
                v[i] = s[i] - log_z
            c[y[j]] += q[j] * weight[j]
            softmax_step(c, q[j] * weight[j], v, log_z)
            for i in range(n):
                v[i] = weight[j] * np.exp(v[i]) - r[j, i]
            v[y[j]] -= weight[j]
            for i in range(n):
                r[j, i] += v[i]
                moved += v[i] * v[i]
            for e in range(X.indptr[j], X.indptr[j + 1]):
                for i in range(n):
                    W[X.indices[e], i] -= inverse * X.data[e] * v[i]
    return moved
