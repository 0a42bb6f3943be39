"""The loss of rows whose label owns several states, compiled by Numba: some rows at a time, all scores in cache."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_part, compile_sums
from majorant.kernels.elementary import exp_of_negative
from majorant.kernels.softmax_compiled import ROWS, _exponentials, _multiply


@compile_sums
def loss_and_residual(S: Array, first: Array, y: Array, weight: Array, R: Array) -> float:
    """Return Σ_j w_j [log Z_j − log Σ_s exp S[s, j]] and write w_j (p_j − q_j) to R, states class-major (n×t).

    Label c owns the states s = first[c] … first[c + 1] − 1; ``weight`` is empty where every row weighs one.
    """
    total, room = 0.0, (np.empty(ROWS), np.empty(ROWS), np.ones(ROWS))
    for begin in range(0, S.shape[1], ROWS):
        total += _of_some(S, first, y, weight, R, begin, min(begin + ROWS, S.shape[1]), room)
    return total


@compile_part
def _of_some(
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
