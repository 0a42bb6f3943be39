"""The logistic function, and the loss of many rows, compiled by Numba."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict, compile_sums
from majorant.kernels.elementary import exp_of_negative, log1p_to_one


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
