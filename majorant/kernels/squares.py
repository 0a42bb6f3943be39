"""Squares of the columns of dense rows, compiled by Numba: nothing as large as the rows is written."""

from __future__ import annotations

from majorant._checks import Array
from majorant.kernels.compiler import compile_in_place


@compile_in_place
def pull_back_squares(X: Array, weight: Array, G: Array) -> None:
    """Write Σ_j w_j x_j², in the precision of G. Four rows at a time: sums are then read a quarter as often."""
    four = len(X) - len(X) % 4
    kind = G.dtype.type
    G[:] = 0
    for j in range(0, four, 4):
        x0, x1, x2, x3 = X[j], X[j + 1], X[j + 2], X[j + 3]
        w0, w1, w2, w3 = kind(weight[j]), kind(weight[j + 1]), kind(weight[j + 2]), kind(weight[j + 3])
        for k in range(len(G)):
            G[k] += w0 * x0[k] * x0[k] + w1 * x1[k] * x1[k] + w2 * x2[k] * x2[k] + w3 * x3[k] * x3[k]
    for j in range(four, len(X)):
        w = kind(weight[j])
        for k in range(len(G)):
            G[k] += w * X[j, k] * X[j, k]
