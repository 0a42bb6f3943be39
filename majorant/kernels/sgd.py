"""Passes of stochastic gradient descent, compiled by Numba."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.kernels.compiler import compile_strict, compile_sums
from majorant.kernels.logistic_compiled import sigmoid
from majorant.kernels.sparse import Csr


@compile_strict
def softmax_residual(scores: Array, y: int, weight: float) -> None:
    """Turn the scores of one row into weight·(p − e_y), in place; a single score is that of label 1 against 0."""
    if len(scores) == 1:
        scores[0] = weight * (sigmoid(scores[0]) - y)
        return
    top = np.max(scores)
    total = 0.0
    for c in range(len(scores)):
        scores[c] = np.exp(scores[c] - top)
        total += scores[c]
    share = weight / total
    for c in range(len(scores)):
        scores[c] *= share
    scores[y] -= weight


@compile_sums
def dense_pass(X: Array, y: Array, weight: Array, offset: Array, W: Array, gains: Array, m: int, decay: Array) -> None:
    """Visit the rows in mini-batches of m: W ← W − gain·(Σ residual xᵀ + rows·W·diag(decay)), in place."""
    n, p = W.shape
    R = np.empty((m, n))
    for k in range(len(gains)):
        start, stop = k * m, min((k + 1) * m, len(X))
        for j in range(start, stop):
            for c in range(n):
                s = offset[c, j]
                for i in range(p):
                    s += W[c, i] * X[j, i]
                R[j - start, c] = s
            softmax_residual(R[j - start], y[j], weight[j])
        for c in range(n):
            for i in range(p):
                W[c, i] *= 1.0 - gains[k] * decay[i] * (stop - start)
            for j in range(start, stop):
                step = gains[k] * R[j - start, c]
                for i in range(p):
                    W[c, i] -= step * X[j, i]


@compile_sums
def rescale(W: Array, scale: float, is_free: Array) -> None:
    """Multiply the columns that are not free, in place."""
    for i in range(len(W)):
        if not is_free[i]:
            W[i] *= scale


@compile_sums
def csr_pass(
    X: Csr, y: Array, weight: Array, offset: Array, W: Array, gains: Array, m: int, decay: float, is_free: Array
) -> None:
    """Do what :func:`dense_pass` does, touching non-zeros only. W is (p, n) here.

    It is kept as scale·U, but for columns that are free of the penalty, whose scale is 1.
    """
    n = W.shape[1]
    R = np.empty((m, n))
    scale = 1.0
    for k in range(len(gains)):
        start, stop = k * m, min((k + 1) * m, len(X.indptr) - 1)
        for j in range(start, stop):
            R[j - start] = offset[:, j]
            for a in range(X.indptr[j], X.indptr[j + 1]):
                x = X.data[a] if is_free[X.indices[a]] else scale * X.data[a]
                for c in range(n):
                    R[j - start, c] += W[X.indices[a], c] * x
            softmax_residual(R[j - start], y[j], weight[j])
        scale *= 1.0 - gains[k] * decay * (stop - start)
        if abs(scale) < 1e-100 or abs(scale) > 1e100:  # also a gain so large that it shrinks W to nothing
            rescale(W, scale, is_free)
            scale = 1.0
        for j in range(start, stop):
            for a in range(X.indptr[j], X.indptr[j + 1]):
                x = gains[k] * X.data[a] / (1.0 if is_free[X.indices[a]] else scale)
                for c in range(n):
                    W[X.indices[a], c] -= R[j - start, c] * x
    rescale(W, scale, is_free)
