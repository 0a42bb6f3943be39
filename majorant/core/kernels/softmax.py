"""The softmax loss of many rows, compiled by Numba: some rows at a time, so that all their scores stay in cache.

The loss of rows whose label owns several states, compiled by Numba: some rows at a time, all scores in cache.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels import Stored
from majorant.core.kernels.compiler import compile_part, compile_sums, exp_of_negative
from majorant.core.kernels.products import ROWS, add, join, rows_at_a_time, split


@compile_sums
def loss_and_residual(S: Array, y: Array, weight: Array, R: Array) -> float:
    """Return Σ_j w_j [log Z_j − S[y_j, j]] of class-major scores (n×t), and write w_j (p_j − e_{y_j}) to R.

    ``weight`` is empty where every row weighs one.
    """
    total, room = 0.0, (np.empty(ROWS), np.empty(ROWS), np.ones(ROWS))
    for first in range(0, S.shape[1], ROWS):
        total += _of_some(S, y, weight, R, first, min(first + ROWS, S.shape[1]), room)
    return total


@compile_sums
def unit_step_dense(
    stored: Stored, W: Array, S: Array, y: Array, weight: Array, there: Array, V: Array, G: Array
) -> tuple[float, float]:
    """Step from scores S by V = WXᵀ: return the loss there and ⟨R, V⟩, and write scores, V and RX.

    Every row of X is read once: what it adds to the gradient is found while it is in cache. Products are so small that
    BLAS does not copy what it multiplies first.
    """
    X, shift, constant = stored
    n, (t, p) = len(S), X.shape
    loss, slope, most = 0.0, 0.0, rows_at_a_time(p)
    δ, g, c, totals = np.empty((n, p), X.dtype), np.empty((n, p), X.dtype), np.empty(n), np.zeros(n)
    for k in range(n):
        c[k] = split(W[k], shift, constant, δ[k])
    G[:] = 0.0
    room, whole = (np.empty(ROWS), np.empty(ROWS), np.ones(ROWS)), t - t % most
    for begin, end, rows in ((0, whole, most), (whole, t, t - whole)):
        v, s, R = np.empty((n, rows), X.dtype), np.empty((n, rows)), np.empty((n, rows))
        for first in range(begin, end, max(rows, 1)):
            last = first + rows
            np.dot(δ, X[first:last].T, v)
            for k in range(n):
                _advance(v[k], c[k], S[k, first:last], V[k, first:last], s[k], there[k, first:last])
            loss += _of_some(s, y[first:last], weight[first:last], R, 0, rows, room)
            for k in range(n):
                slope += _inner(R[k], V[k, first:last])
                totals[k] += _narrowed(R[k], v[k])
            np.dot(v, X[first:last], g)
            for k in range(n):
                add(g[k], G[k])
    for k in range(n):
        join(totals[k], shift, constant, G[k])
    return loss, slope


@compile_sums
def apply_hessian(P: Array, V: Array) -> None:
    """Replace V (n×t) by P(V − Σ_c P_c V_c): the Hessian on scores, diag(p) − ppᵀ for each row, times V."""
    n, t = P.shape
    mean = np.empty(ROWS)
    for first in range(0, t, ROWS):
        last = min(first + ROWS, t)
        for j in range(ROWS):
            mean[j] = 0.0
        for c in range(n):
            _add_product(P[c, first:last], V[c, first:last], mean)
        for c in range(n):
            _less_mean(P[c, first:last], V[c, first:last], mean)


@compile_part
def _of_some(
    S: Array, y: Array, weight: Array, R: Array, first: int, last: int, room: tuple[Array, Array, Array]
) -> float:
    """Return the loss of some rows, and write what it is a sum of to R."""
    top, Z, w = room
    _exponentials(S, first, last, top, Z, R)
    loss = 0.0
    for j in range(last - first):
        if len(weight):
            w[j] = weight[first + j]
        loss += w[j] * (np.log(Z[j]) + (top[j] - S[y[first + j], first + j]))
        Z[j] = w[j] / Z[j]
    for c in range(len(S)):
        _multiply(R[c, first:last], Z)
    for j in range(last - first):
        R[y[first + j], first + j] -= w[j]
    return loss


@compile_part
def _exponentials(S: Array, first: int, last: int, top: Array, Z: Array, E: Array) -> None:
    """Write the largest score of each of some rows, exponentials of what scores are less, and their sums."""
    for j in range(len(Z)):
        top[j], Z[j] = -np.inf, 0.0
    for c in range(len(S)):
        _raise_to(top, S[c, first:last])
    for c in range(len(S)):
        _add_exponentials(S[c, first:last], top, Z, E[c, first:last])


# Loops of their own over arrays that lie side by side: only these are vectorised.


@compile_part
def _raise_to(top: Array, s: Array) -> None:
    for j in range(len(s)):
        top[j] = top[j] if s[j] <= top[j] else s[j]  # NaN is met again in the sums


@compile_part
def _add_exponentials(s: Array, top: Array, Z: Array, e: Array) -> None:
    for j in range(len(s)):
        e[j] = exp_of_negative(s[j] - top[j])
        Z[j] += e[j]


@compile_part
def _add(s: Array, v: Array, total: Array) -> None:
    for j in range(len(s)):
        total[j] = s[j] + v[j]


@compile_part
def _advance(v: Array, c: float, before: Array, slope: Array, s: Array, there: Array) -> None:
    for j in range(len(v)):
        slope[j] = v[j] + c
        s[j] = before[j] + slope[j]
        there[j] = s[j]


@compile_part
def _narrowed(r: Array, v: Array) -> float:
    """Write r in another precision; return its sum."""
    total = 0.0
    for j in range(len(r)):
        v[j] = r[j]
        total += r[j]
    return total


@compile_part
def _inner(r: Array, v: Array) -> float:
    total = 0.0
    for j in range(len(r)):
        total += r[j] * v[j]
    return total


@compile_part
def _add_product(p: Array, v: Array, total: Array) -> None:
    for j in range(len(p)):
        total[j] += p[j] * v[j]


@compile_part
def _less_mean(p: Array, v: Array, mean: Array) -> None:
    for j in range(len(p)):
        v[j] = p[j] * (v[j] - mean[j])


@compile_part
def _multiply(r: Array, factor: Array) -> None:
    for j in range(len(r)):
        r[j] *= factor[j]


@compile_sums
def hidden_loss_and_residual(S: Array, first: Array, y: Array, weight: Array, R: Array) -> float:
    """Return Σ_j w_j [log Z_j − log Σ_s exp S[s, j]] and write w_j (p_j − q_j) to R, states class-major (n×t).

    Label c owns the states s = first[c] … first[c + 1] − 1; ``weight`` is empty where every row weighs one.
    """
    total, room = 0.0, (np.empty(ROWS), np.empty(ROWS), np.ones(ROWS))
    for begin in range(0, S.shape[1], ROWS):
        total += _hidden_of_some(S, first, y, weight, R, begin, min(begin + ROWS, S.shape[1]), room)
    return total


@compile_part
def _hidden_of_some(
    S: Array,
    first: Array,
    y: Array,
    weight: Array,
    R: Array,
    begin: int,
    end: int,
    room: tuple[Array, Array, Array],
) -> float:
    """Return the loss of some rows, and write what it is a sum of to R."""
    top, Z, w = room
    _exponentials(S, begin, end, top, Z, R)
    loss = 0.0
    for j in range(end - begin):
        if len(weight):
            w[j] = weight[begin + j]
        label = y[begin + j]
        log_seen = _log_sum(S, first[label], first[label + 1], begin + j)
        loss += w[j] * max(np.log(Z[j]) + (top[j] - log_seen), 0.0)
        Z[j] = w[j] / Z[j]
    for c in range(len(S)):
        _multiply(R[c, begin:end], Z)
    for j in range(begin, end):
        _subtract_posterior(S, first[y[j]], first[y[j] + 1], j, w[j - begin], R)
    return loss


@compile_part
def _log_sum(S: Array, low: int, high: int, j: int) -> float:
    top, total = S[low, j], 0.0
    for s in range(low + 1, high):
        top = max(top, S[s, j])
    for s in range(low, high):
        total += exp_of_negative(S[s, j] - top)
    return top + np.log(total)


@compile_part
def _subtract_posterior(S: Array, low: int, high: int, j: int, weight: float, R: Array) -> None:
    log_seen = _log_sum(S, low, high, j)
    for s in range(low, high):
        R[s, j] -= weight * np.exp(S[s, j] - log_seen)
