"""Products with rows of X, compiled by Numba: parts of kernels that read each row once, and Gram matrices.

Dense rows lie side by side in memory and are multiplied in their own precision; sparse rows are given by their
non-zeros.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels import Csr
from majorant.core.kernels.compiler import compile_inlined, compile_part, compile_strict

# Rows, and numbers in them, that are in cache together; no more terms than rows are added up in the precision of X.
ROWS, CACHED = 64, 2**16


@compile_part
def rows_at_a_time(columns: int) -> int:
    """Return how many rows are in cache until they have been read twice."""
    return min(max(CACHED // columns, 8), ROWS)


@compile_part
def project_rows(X: Array, δ: Array, V: Array) -> None:
    """Write Xδ."""
    for j in range(len(X)):
        x, v = X[j], δ[0] * 0  # in the precision of X
        for k in range(len(δ)):
            v += x[k] * δ[k]
        V[j] = v


@compile_part
def pull_back_cached(X: Array, r: Array, g: Array, G: Array) -> None:
    """Add Xᵀr to G by way of g, of a few rows that are in cache."""
    four = len(X) - len(X) % 4
    kind = g.dtype.type
    g[:] = 0
    for j in range(0, four, 4):  # g is then read a quarter as often
        x0, x1, x2, x3 = X[j], X[j + 1], X[j + 2], X[j + 3]
        r0, r1, r2, r3 = kind(r[j]), kind(r[j + 1]), kind(r[j + 2]), kind(r[j + 3])
        for k in range(len(g)):
            g[k] += r0 * x0[k] + r1 * x1[k] + r2 * x2[k] + r3 * x3[k]
    for j in range(four, len(X)):
        rj = kind(r[j])
        for k in range(len(g)):
            g[k] += rj * X[j, k]
    add(g, G)


@compile_part
def split(w: Array, shift: Array, constant: bool, δ: Array) -> float:
    """Write what stored columns are multiplied by, in the precision of δ; return what is added to the scores."""
    for k in range(len(δ)):
        δ[k] = w[k]
    c = w[len(δ)] if constant else 0.0
    for k in range(len(shift)):
        c -= w[k] * shift[k]
    return c


@compile_part
def join(total: float, shift: Array, constant: bool, G: Array) -> None:
    """Make a gradient of that along stored columns, given the sum of residuals."""
    for k in range(len(shift)):
        G[k] -= total * shift[k]
    if constant:
        G[-1] = total


@compile_part
def add(g: Array, G: Array) -> None:
    """Add g to G."""
    for k in range(len(g)):
        G[k] += g[k]


@compile_inlined
def are_long(X: Csr) -> bool:
    """Return whether rows are long on average."""
    # Non-zeros in a row from which a single sum, whose every addition waits for the one before, takes longer than
    # four. Of shorter rows processors add several at a time by themselves, and what four sums leave over costs more.
    return len(X.data) >= 16 * (len(X.indptr) - 1)


@compile_inlined
def times_long_row(X: Csr, W: Array, begin: np.uint64, end: np.uint64) -> float:
    """Return the product of a row and W, by four sums."""
    s0, s1, s2, s3, one = 0.0, 0.0, 0.0, 0.0, np.uint64(1)
    fours = begin + ((end - begin) & ~np.uint64(3))
    for e in range(begin, fours, np.uint64(4)):
        f, g, h = e + one, e + one + one, e + one + one + one
        s0 += X.data[e] * W[X.indices[e]]
        s1 += X.data[f] * W[X.indices[f]]
        s2 += X.data[g] * W[X.indices[g]]
        s3 += X.data[h] * W[X.indices[h]]
    for e in range(fours, end):
        s0 += X.data[e] * W[X.indices[e]]
    return (s0 + s1) + (s2 + s3)


@compile_inlined
def times_short_row(X: Csr, W: Array, begin: np.uint64, end: np.uint64) -> float:
    """Return the product of a row and W."""
    total = 0.0
    for e in range(begin, end):  # unsigned loops are quicker
        total += X.data[e] * W[X.indices[e]]
    return total


@compile_inlined
def add_row(X: Csr, r: float, begin: np.uint64, end: np.uint64, G: Array) -> None:
    """Add r times a row to G."""
    for e in range(begin, end):
        G[np.uint64(X.indices[e])] += r * X.data[e]


@compile_strict
def add_csr_gram(X: Csr, weight: Array, first: int, last: int, G: Array) -> None:
    """Add Σ_j w_j x_j x_jᵀ to a p×p array: its upper triangle, and of that the rows from first to last.

    Column indices must be sorted within each row.
    """
    for j in range(len(X.indptr) - 1):
        end = np.uint64(X.indptr[j + 1])  # unsigned loops are quicker
        for a in range(np.uint64(X.indptr[j]), end):
            i = X.indices[a]
            if i < first:
                continue
            if i >= last:
                break
            row, scaled = G[i], weight[j] * X.data[a]
            for b in range(a, end):
                row[X.indices[b]] += scaled * X.data[b]


@compile_strict
def repeats(indices: Array, indptr: Array, columns: int) -> bool:
    """Return whether a row stores a column twice; in any order, which to sort takes ten times as long."""
    last = np.zeros(columns, dtype=np.int32)  # the row, counted from one, that had a column last
    for j in range(len(indptr) - 1):
        for e in range(indptr[j], indptr[j + 1]):
            if last[indices[e]] == j + 1:
                return True
            last[indices[e]] = j + 1
    return False
