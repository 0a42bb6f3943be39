"""The softmax loss of many rows, compiled by Numba: some rows at a time, so that all their scores stay in cache."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_sums
from majorant.kernels.elementary import exp_of_negative

ROWS = 64


@compile_sums
def loss_and_residual(S: Array, y: Array, weight: Array, R: Array) -> float:
    """Return Σ_j w_j [log Z_j − S[y_j, j]] of class-major scores (n×t), and write w_j (p_j − e_{y_j}) to R.

    ``weight`` is empty where every row weighs one.
    """
    n, t = S.shape
    w, total = np.ones(ROWS), 0.0
    top, Z = np.empty(ROWS), np.empty(ROWS)
    for first in range(0, t, ROWS):
        last = min(first + ROWS, t)
        _exponentials(S, first, last, top, Z, R)
        if len(weight):
            w[: last - first] = weight[first:last]
        part = 0.0
        for j in range(last - first):
            part += w[j] * (np.log(Z[j]) + (top[j] - S[y[first + j], first + j]))
            Z[j] = w[j] / Z[j]
        for c in range(n):
            _multiply(R[c, first:last], Z)
        for j in range(last - first):
            R[y[first + j], first + j] -= w[j]
        total += part
    return total


@compile_sums
def _exponentials(S: Array, first: int, last: int, top: Array, Z: Array, E: Array) -> None:
    """Write the largest score of each of some rows, exponentials of what scores are less, and their sums."""
    top[: last - first], Z[:] = S[0, first:last], 0.0
    for c in range(1, len(S)):
        _raise_to(top, S[c, first:last])
    for c in range(len(S)):
        _add_exponentials(S[c, first:last], top, Z, E[c, first:last])


# Loops of their own over arrays that lie side by side: only these are vectorised.


@compile_sums
def _raise_to(top: Array, s: Array) -> None:
    for j in range(len(s)):
        top[j] = top[j] if s[j] <= top[j] else s[j]  # NaN is met again in the sums


@compile_sums
def _add_exponentials(s: Array, top: Array, Z: Array, e: Array) -> None:
    for j in range(len(s)):
        e[j] = exp_of_negative(s[j] - top[j])
        Z[j] += e[j]


@compile_sums
def _multiply(r: Array, factor: Array) -> None:
    for j in range(len(r)):
        r[j] *= factor[j]
