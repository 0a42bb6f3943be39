"""One pass over rows for log Σ_i q_i exp(λᵀ(x_i − t)) and its gradient, compiled by Numba.

Rows are read once: their scores, the sum of exponentials and the weighted sum of rows come from a block that is still
in cache. Columns are measured from the target on the way, so that no copy is made and no digits cancel.
"""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels.compiler import compile_sums

# Rows whose sums are added before they join those of all others: rounding errors grow with blocks, not with rows.
BLOCK = 512


@compile_sums
def tilted_sums(X: Array, target: Array, slope: Array, log_q: Array, scores: Array, sums: Array) -> tuple[float, float]:
    """Write scores λᵀ(x − t), and sums of e^{score + log q − top} (x − t); return top and the sum without (x − t).

    ``log_q`` may be empty: all rows then weigh the same.
    """
    n, d = X.shape
    part, p = np.empty(d), np.empty(BLOCK)
    top, total = -np.inf, 0.0
    for begin in range(0, n, BLOCK):
        end = min(begin + BLOCK, n)
        here = -np.inf
        for i in range(begin, end):
            score = 0.0
            for k in range(d):
                score += (X[i, k] - target[k]) * slope[k]
            scores[i] = score
            if len(log_q):
                score += log_q[i]
            p[i - begin] = score
            here = max(here, score)
        if here > top:  # what was added before is measured from the new top
            shrunk = np.exp(top - here)
            total *= shrunk
            for k in range(d):
                sums[k] *= shrunk
            top = here
        z = 0.0
        for k in range(d):
            part[k] = 0.0
        for i in range(end - begin):
            p[i] = np.exp(p[i] - top)
            z += p[i]
        for i in range(begin, end):
            w = p[i - begin]
            for k in range(d):
                part[k] += w * (X[i, k] - target[k])
        total += z
        for k in range(d):
            sums[k] += part[k]
    return top, total


@compile_sums
def column_facts(X: Array, q: Array, sums: Array, squares: Array, low: Array, high: Array) -> None:
    """Add up rows and their squares, measured from the first row, with weights q, and find the ends of each column.

    ``q`` may be empty: all rows then weigh one.
    """
    n, d = X.shape
    part, of_squares = np.empty(d), np.empty(d)
    for begin in range(0, n, BLOCK):
        for k in range(d):
            part[k] = of_squares[k] = 0.0
        for i in range(begin, min(begin + BLOCK, n)):
            w = q[i] if len(q) else 1.0
            for k in range(d):
                x = X[i, k]
                away = x - X[0, k]
                part[k] += w * away
                of_squares[k] += w * away * away
                low[k] = min(low[k], x)
                high[k] = max(high[k], x)
        for k in range(d):
            sums[k] += part[k]
            squares[k] += of_squares[k]
