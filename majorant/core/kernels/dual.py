"""Dual coordinate descent, one row at a time, compiled by Numba.

A row's residual r_j = w_j(p_j − e_y) is its dual variable, and W = −(1/λ) Σ_j x_j r_jᵀ. With the residuals of all other
rows kept, the best scores s' of a row solve s' + qw p(s') = s + q(r_j + w e_y), q = ‖x_j‖²/λ: a proximal step of the
log-partition function on n numbers. Coefficients are stored p×n, so that a non-zero of X meets its n of them side by
side. Intercepts b are those of a column of ones, which is not stored, under a ridge μ of their own: they move by
−1/μ times what the residuals move by.

What a row adds to the dual objective is w KL(a ‖ a') + ½q w²(a − a')² if its probabilities move from a to a'. Half the
squares of their moves over a' are as good as the divergence once moves are small.

References
----------
Yu, Huang & Lin, *Dual coordinate descent methods for logistic regression and maximum entropy models*, 2011.
Shalev-Shwartz & Zhang, *Stochastic dual coordinate ascent*, 2013.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels import Csr
from majorant.core.kernels.compiler import compile_inlined, compile_sums
from majorant.core.kernels.products import times_long_row

# Below this q its steps are at most as long as they should be, wherever it begins.
LARGE = 8.0
# With several classes it stops when it moves scores by less than this, relative to the score.
SETTLED = 1e-4
# And probabilities sum to one within this; they are rescaled afterwards.
SUMS_TO_ONE = 1e-6
# Errors in p are errors of q p in the scores of a row: with several classes both are divided by 1 + q, down to these.
LEAST_SETTLED, LEAST_SUMS = 1e-9, 1e-13
ITERATIONS = 50


@compile_sums
def shuffle(order: Array, seed: np.uint64) -> None:
    """Put numbers in random order: NumPy's takes as long as a tenth of a sweep over short rows."""
    state = seed
    for k in range(len(order) - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)  # SplitMix64
        z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        other = np.int64(((z ^ (z >> np.uint64(31))) >> np.uint64(32)) * np.uint64(k + 1) >> np.uint64(32))
        order[k], order[other] = order[other], order[k]


@compile_inlined
def _newton(c: float, q: float, v: float) -> tuple[float, float, float, float]:
    """Return σ(−v), its slope, the step towards v = c + qσ(−v), and how much of it a square takes off."""
    e = np.exp(-abs(v))
    large = 1 / (1 + e)
    small = e * large
    a, slope = (small if v > 0 else large), small * large
    inverse = 1 / (1 + q * slope)
    return a, slope, (c + q * a - v) * inverse, (a - 0.5) * q * slope * inverse


@compile_sums
def logistic_step(u: float, c: float, q: float) -> tuple[float, float]:
    """Return σ(−v) with v = c + qσ(−v), and about its slope, from a first guess u.

    Newton's method; if that is far away and q is large, from an estimate and inside a shrinking bracket.
    """
    v, low, high = u, c, c + q
    a, slope, move, bend = _newton(c, q, v)
    if abs(move) > 0.5 and q > LARGE:
        log = np.log(q)
        # Below log q it is near where exp(−v) instead of σ(−v) leads, and beyond these it cannot be.
        low, high = max(low, min(high, 0.0) - log), min(high, max(low, 0.0) + log)
        if c < log:
            v = log - np.log(max(log - c, 1.0))
            v = log - np.log(max(v - c, 1.0))
        v = min(max(v, low), high)
        a, slope, move, bend = _newton(c, q, v)
    last = 2 * (high - low)
    for _ in range(ITERATIONS):
        # Newton's method on one score stops before a step of this length: the probability there follows from a few
        # derivatives.
        if abs(move) <= 0.01:
            break
        low, high = (v, high) if move > 0 else (low, v)
        if not low <= v + move <= high or abs(move) > 0.5 * last:  # Newton's method may swing to and fro
            move = 0.5 * (low + high) - v
        v, last = v + move, abs(move)
        a, slope, move, bend = _newton(c, q, v)
    move -= bend * move * move
    return a - slope * move * (1 - (0.5 - a) * move), slope


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
    sums = np.empty(len(X.indptr) - 1)
    for j in range(len(sums)):
        total = 0.0
        for e in range(np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1])):  # unsigned loops are quicker
            total += X.data[e] * X.data[e]
        sums[j] = total
    return sums


@compile_sums
def binary_epoch(
    X: Csr,
    y: Array,
    weight: Array,
    q: Array,
    inverse: float,
    of_intercept: float,
    order: Array,
    r: Array,
    W: Array,
    b: Array,
) -> tuple[float, float]:
    """Visit rows in order, each solved exactly against the others.

    ``q`` holds ‖x_j‖²/λ, ``inverse`` is 1/λ and ``of_intercept`` 1/μ. Return what was gained, and by how much residuals
    together would follow an intercept that moves, each row by itself.
    """
    gain, curvature = 0.0, 0.0
    for j in order:
        w = weight[j]
        if w == 0:
            continue
        begin, end = np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1])
        sign, own = 1.0 if y[j] == 1 else -1.0, q[j] + of_intercept
        u, before = sign * (times_long_row(X, W, begin, end) + b[0]), -sign * r[j]
        a, slope = logistic_step(u, u - own * before, own * w)
        move = w * a - before
        gain += 0.5 * move * move * (own + 1 / max(w * slope, abs(move), 1e-300))
        if of_intercept > 0:
            curvature += w * slope / (1 + w * q[j] * slope)
        step = sign * move
        r[j] -= step
        b[0] += of_intercept * step
        step *= inverse
        for e in range(begin, end):
            W[X.indices[e]] += step * X.data[e]
    return gain, curvature


@compile_sums
def softmax_epoch(
    X: Csr,
    y: Array,
    weight: Array,
    q: Array,
    inverse: float,
    of_intercept: float,
    order: Array,
    r: Array,
    W: Array,
    b: Array,
) -> tuple[float, float]:
    """Do for several classes what :func:`binary_epoch` does for two."""
    n, gain, curvature = W.shape[1], 0.0, 0.0
    s, c, v = np.empty(n), np.empty(n), np.empty(n)
    for j in order:
        w, own = weight[j], q[j] + of_intercept
        if not w * own > 0:
            continue
        s[:] = b
        for e in range(X.indptr[j], X.indptr[j + 1]):
            for i in range(n):
                s[i] += X.data[e] * W[X.indices[e], i]
        log_z = np.max(s)
        log_z += np.log(np.exp(s - log_z).sum())
        for i in range(n):
            c[i] = s[i] + own * r[j, i]
            v[i] = s[i] - log_z
        c[y[j]] += own * w
        softmax_step(c, own * w, v, log_z)
        for i in range(n):
            p = np.exp(v[i])
            move = w * (p - (1.0 if i == y[j] else 0.0)) - r[j, i]
            gain += 0.5 * move * move * (own + 1 / max(w * p, abs(move), 1e-300))
            if of_intercept > 0:
                curvature += w * p * (1 - p) / (1 + w * q[j] * p * (1 - p)) / n
            r[j, i] += move
            b[i] -= of_intercept * move
            v[i] = inverse * move
        for e in range(X.indptr[j], X.indptr[j + 1]):
            for i in range(n):
                W[X.indices[e], i] -= X.data[e] * v[i]
    return gain, curvature
