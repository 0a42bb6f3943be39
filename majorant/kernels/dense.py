"""Products with rows that lie side by side in memory, compiled by Numba: each row is read once, in its own precision.

BLAS reads four rows at a time where it multiplies by one vector. Beyond the cache that takes twice as long: memory is
fetched ahead along one stream, and hardly along four short ones.
"""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_part, compile_sums

# Rows, and numbers in them, that are in cache together; no more terms than rows are added up in the precision of X.
ROWS, CACHED = 64, 2**16


@compile_sums
def pull_back(X: Array, r: Array, G: Array) -> None:
    """Write Xᵀr, added up in double precision."""
    g = np.empty(X.shape[1], X.dtype)
    G[:] = 0
    for first in range(0, len(X), ROWS):
        g[:] = 0
        for j in range(first, min(first + ROWS, len(X))):
            x, rj = X[j], g.dtype.type(r[j])
            for k in range(len(g)):
                g[k] += rj * x[k]
        add(g, G)


@compile_sums
def pull_back_squares(X: Array, r: Array, G: Array) -> None:
    """Write (X²)ᵀr, with every entry of X squared, added up in double precision."""
    g = np.empty(X.shape[1], X.dtype)
    G[:] = 0
    for first in range(0, len(X), ROWS):
        g[:] = 0
        for j in range(first, min(first + ROWS, len(X))):
            x, rj = X[j], g.dtype.type(r[j])
            for k in range(len(g)):
                g[k] += rj * (x[k] * x[k])
        add(g, G)


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
