"""The logistic function, the loss of many rows, and whole steps through them, compiled by Numba."""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels import Stored
from majorant.core.kernels.compiler import (
    compile_exact,
    compile_part,
    compile_strict,
    compile_sums,
    exp_of_negative,
    log1p_to_one,
)
from majorant.core.kernels.products import (
    ROWS,
    add_row,
    are_long,
    join,
    project_rows,
    pull_back_cached,
    rows_at_a_time,
    split,
    times_long_row,
    times_short_row,
)


@compile_strict
def sigmoid(u: float) -> float:
    """Return 1 / (1 + exp(−u)), without overflow."""
    e = np.exp(-abs(u))
    return (1.0 if u >= 0 else e) / (1 + e)


@compile_sums
def loss_and_residual(u: Array, y: Array, weight: Array, residual: Array) -> float:
    """Return Σ w log(1 + exp(∓u)) for labels 0 and 1, and write w(p − y), with one exponential a row.

    ``weight`` is empty where every row weighs one.
    """
    total = 0.0
    for j in range(len(u)):
        sign = 1.0 if y[j] == 1 else -1.0
        margin = sign * u[j]
        e = exp_of_negative(-abs(margin))
        residual[j] = -sign * (e if margin > 0 else 1.0) / (1.0 + e)  # 1 − p of the label keeps its digits
        loss = log1p_to_one(e) + (0.0 if margin > 0 else -margin)
        if len(weight):
            residual[j] *= weight[j]
            loss *= weight[j]
        total += loss
    return total


@compile_sums
def along_intercept(
    u: Array, moved: float, y: Array, weight: Array, residual: Array
) -> tuple[float, float, float, float]:
    """Return loss, Σ r, Σ v and Σ v², v = w p(1 − p), where scores have moved by so much, and write r = w(p − y)."""
    loss, slope, curvature, squares, s = 0.0, 0.0, 0.0, 0.0, np.empty(16 * ROWS)
    for first in range(0, len(u), len(s)):
        last = min(first + len(s), len(u))
        for j in range(first, last):
            s[j - first] = u[j] + moved
        loss += loss_and_residual(s[: last - first], y[first:last], weight[first:last], residual[first:last])
        more = _sums_of(residual[first:last], weight[first:last])
        slope, curvature, squares = slope + more[0], curvature + more[1], squares + more[2]
    return loss, slope, curvature, squares


@compile_part
def _sums_of(r: Array, w: Array) -> tuple[float, float, float]:
    """Return Σ r, Σ v and Σ v²: what r = w(p − y) is off is w p, or w (1 − p), of which either is as good."""
    slope, curvature, squares = 0.0, 0.0, 0.0
    for j in range(len(r)):
        off = abs(r[j])
        v = off * (1.0 - (off / max(w[j], 1e-300) if len(w) else off))
        slope, curvature, squares = slope + r[j], curvature + v, squares + v * v
    return slope, curvature, squares


@compile_sums
def unit_step_dense(
    stored: Stored, w: Array, S: Array, y: Array, weight: Array, there: Array, V: Array, G: Array
) -> tuple[float, float]:
    """Step from scores S by V = Xw: return the loss there and ⟨r, V⟩, and write scores, V and Xᵀr.

    Every row is read once: what it adds to the gradient is found while it is in cache.
    """
    X, shift, constant = stored
    t, p = X.shape
    δ, g, r, rows = np.empty(p, X.dtype), np.empty(p, X.dtype), np.empty(ROWS), rows_at_a_time(p)
    c, loss, slope, total = split(w, shift, constant, δ), 0.0, 0.0, 0.0
    G[:] = 0
    for first in range(0, t, rows):
        last = min(first + rows, t)
        project_rows(X[first:last], δ, V[first:last])
        more = _move(first, last, c, S, V, y, weight, there, r)
        loss, slope, total = loss + more[0], slope + more[1], total + more[2]
        pull_back_cached(X[first:last], r, g, G)
    join(total, shift, constant, G)
    return loss, slope


@compile_exact
def unit_step_csr(
    stored: Stored, w: Array, S: Array, y: Array, weight: Array, there: Array, V: Array, G: Array
) -> tuple[float, float]:
    """The same for rows by their non-zeros."""
    X, shift, constant = stored
    t, δ, r, long = len(X.indptr) - 1, np.empty(len(w) - constant, X.data.dtype), np.empty(ROWS), are_long(X)
    c, loss, slope, total = split(w, shift, constant, δ), 0.0, 0.0, 0.0
    G[:] = 0
    for first in range(0, t, ROWS):
        last = min(first + ROWS, t)
        if long:
            for j in range(first, last):
                V[j] = times_long_row(X, δ, np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1]))
        else:
            for j in range(first, last):
                V[j] = times_short_row(X, δ, np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1]))
        more = _move(first, last, c, S, V, y, weight, there, r)
        loss, slope, total = loss + more[0], slope + more[1], total + more[2]
        for j in range(first, last):
            add_row(X, r[j - first], np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1]), G)
    join(total, shift, constant, G)
    return loss, slope


@compile_sums
def product_dense(stored: Stored, w: Array, q: Array, G: Array) -> None:
    """Write Xᵀdiag(q)Xw: a Hessian times a vector. Every row is read once."""
    X, shift, constant = stored
    t, p = X.shape
    δ, g, v, rows = np.empty(p, X.dtype), np.empty(p, X.dtype), np.empty(ROWS), rows_at_a_time(p)
    c, total = split(w, shift, constant, δ), 0.0
    G[:] = 0
    for first in range(0, t, rows):
        last = min(first + rows, t)
        project_rows(X[first:last], δ, v)
        total += _weigh(q[first:last], c, v)
        pull_back_cached(X[first:last], v, g, G)
    join(total, shift, constant, G)


@compile_exact
def product_csr(stored: Stored, w: Array, q: Array, G: Array) -> None:
    """The same for rows by their non-zeros."""
    X, shift, constant = stored
    t, δ, total = len(X.indptr) - 1, np.empty(len(w) - constant, X.data.dtype), 0.0
    c = split(w, shift, constant, δ)
    G[:] = 0
    # Row by row: how often loops over a row turn is then guessed right the second time.
    if are_long(X):
        for j in range(t):
            begin, end = np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1])
            r = q[j] * (times_long_row(X, δ, begin, end) + c)
            total += r
            add_row(X, r, begin, end, G)
    else:
        for j in range(t):
            begin, end = np.uint64(X.indptr[j]), np.uint64(X.indptr[j + 1])
            r = q[j] * (times_short_row(X, δ, begin, end) + c)
            total += r
            add_row(X, r, begin, end, G)
    join(total, shift, constant, G)


@compile_part
def _weigh(q: Array, c: float, v: Array) -> float:
    """Add c to v, multiply it by q, and return its sum."""
    total = 0.0
    for j in range(len(q)):
        v[j] = q[j] * (v[j] + c)
        total += v[j]
    return total


@compile_part
def _move(
    first: int, last: int, c: float, S: Array, V: Array, y: Array, weight: Array, there: Array, r: Array
) -> tuple[float, float, float]:
    """Add c to V and V to the scores of some rows; return loss, ⟨r, V⟩ and Σ r."""
    for j in range(first, last):
        V[j] += c
        there[j] = S[j] + V[j]
    loss = loss_and_residual(there[first:last], y[first:last], weight[first:last], r)
    slope, total = 0.0, 0.0
    for j in range(first, last):
        slope += r[j - first] * V[j]
        total += r[j - first]
    return loss, slope, total
