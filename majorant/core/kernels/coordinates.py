"""Coordinate descent on the quadratic model of a class model, column by column, compiled by Numba.

A coordinate is a pair of a class k and a column x. With z the change of scores, the model of the loss at residuals r is

    Σ_k rᵀ_k z_k + ½ Σ_j [ Σ_k (d_kj + q_kj²) z_kj² − (Σ_k q_kj z_kj)² ],

with d = w p (1 − p) and q = √w p of softmax, which is its second derivative, or q = 0 and any d that dominates it. Its
slope on the scores is V_k − q_k s, V_k = r_k + (d_k + q_k²) z_k and s = Σ_k q_k z_k: a move changes one V_k and s.

Columns are stored one after the other: column i has data[starts[i]:starts[i+1]], in the rows of ``rows``, or in all
rows where that is empty. Coordinates of class k stand from of_class[k] to of_class[k+1], and ``column`` says which one.

A quadratic model of low rank with an elastic net is the inner problem of proximal quasi-Newton steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels import quadratic
from majorant.core.kernels.compiler import compile_inlined, compile_sums

descend = compile_sums(quadratic.descend)


class Columns(NamedTuple):
    """Columns of X, and the coordinates that are pairs of a class and one of them."""

    data: Array
    rows: Array
    starts: Array
    column: Array
    of_class: Array


@compile_inlined
def row_of(rows: Array, dense: bool, e: int, begin: int) -> int:
    """Return the row of an entry of a column."""
    return e - begin if dense else rows[e]


@compile_sums
def sweep(
    X: Columns,
    D: Array,
    Q: Array,
    coupled: bool,
    of_intercept: Array,
    curvature: Array,
    totals: Array,
    l1: Array,
    l2: Array,
    x: Array,
    V: Array,
    s: Array,
    R: Array,
    z: Array,
    moved: Array,
) -> float:
    """Visit all coordinates once, class by class; return the largest violation that was met, as a gradient.

    ``curvature`` is Σ_j d_kj x_j² of each coordinate. Where ``totals`` (Σ_j d_kj) are positive the intercept of the
    class is at its best after every move: ``of_intercept`` is Σ_j d_kj x_j, and its square over the total is subtracted
    from the curvature. ``moved`` collects how far intercepts have moved. ``R`` and ``z`` are room for a number per row.
    """
    largest, dense = 0.0, len(X.rows) == 0
    for k in range(len(V)):
        if X.of_class[k] == X.of_class[k + 1] and totals[k] == 0:
            continue
        total, inverse = 0.0, 0.0
        for j in range(len(R)):
            R[j] = V[k, j] - Q[k, j] * s[j] if coupled else V[k, j]
            z[j] = 0.0
            total += R[j]
        if totals[k] > 0:
            inverse = 1.0 / totals[k]
        for c in range(X.of_class[k], X.of_class[k + 1]):
            h = curvature[c] + l2[c]
            if not h > 0:
                continue
            begin, end = X.starts[X.column[c]], X.starts[X.column[c] + 1]
            slope = -of_intercept[c] * total * inverse
            for e in range(begin, end):
                slope += X.data[e] * R[row_of(X.rows, dense, e, begin)]
            u = curvature[c] * x[c] - slope
            move = (u - min(max(u, -l1[c]), l1[c])) / h - x[c]
            if move != 0:
                x[c] += move
                if abs(x[c]) < 1e-300:
                    x[c] = 0.0
                largest = max(largest, abs(move) * h)
                total += of_intercept[c] * move
                for e in range(begin, end):
                    j = row_of(X.rows, dense, e, begin)
                    R[j] += D[k, j] * move * X.data[e]
                if coupled:
                    for e in range(begin, end):
                        z[row_of(X.rows, dense, e, begin)] += move * X.data[e]
        step = -total * inverse
        moved[k] += step
        for j in range(len(R)):
            if coupled:
                z[j] += step
                V[k, j] += (D[k, j] + Q[k, j] * Q[k, j]) * z[j]
                s[j] += Q[k, j] * z[j]
            else:
                V[k, j] = R[j] + D[k, j] * step
    return largest


@compile_sums
def add_gram(
    data: Array, coordinates: Array, starts: Array, of: Array, D: Array, Q: Array, coupled: bool, G: Array
) -> None:
    """Add the Hessian of coordinates, whose entries in row j stand from starts[j] on, in order.

    ``of`` is the class of each coordinate.
    """
    for j in range(len(starts) - 1):
        for a in range(starts[j], starts[j + 1]):
            first = coordinates[a]
            k = of[first]
            for b in range(starts[j], a + 1):
                second = coordinates[b]
                m = of[second]
                term = data[a] * data[b]
                if k == m:
                    term *= D[k, j]
                elif coupled:
                    term *= -Q[k, j] * Q[m, j]
                else:
                    continue
                G[first, second] += term
                if a != b:
                    G[second, first] += term


# --- on a model of low rank ---------------------------------------------------------------------------------


@compile_sums
def coordinate_descent(
    g: Array, θ: Array, ψ: Array, φ: Array, γ: float, l1: Array, l2: Array, sweeps: int, settled: float, d: Array
) -> int:
    """Move d towards the least of gᵀd + ½dᵀ(γI − ψφᵀ)d + R(θ + d); return how many sweeps it took.

    Parameters
    ----------
    g, θ, l1, l2 : arrays of shape (p,)
        The gradient of the loss, the parameters, and the elastic net R(θ) = Σ l1|θ| + ½ l2 θ².
    ψ, φ : arrays of shape (p, k)
        What the curvature is less than γ by.
    sweeps, settled
        How many sweeps there are at most; they end when one gains this share of the first.
    d : array of shape (p,)
        The direction, zero at first.
    """
    p, k = ψ.shape
    u, first = np.zeros(k), 0.0
    for sweep in range(sweeps):
        gained = 0.0
        for i in range(p):
            inner, curved = 0.0, 0.0
            for j in range(k):
                inner += φ[i, j] * u[j]
                curved += φ[i, j] * ψ[i, j]
            h = γ - curved
            h = h if h > 1e-10 * γ else 1e-10 * γ
            x = θ[i] + d[i]
            least = h * x - (g[i] + γ * d[i] - inner)
            new = 0.0
            if least > l1[i]:
                new = (least - l1[i]) / (h + l2[i])
            elif least < -l1[i]:
                new = (least + l1[i]) / (h + l2[i])
            δ = new - x
            if δ != 0.0:
                gained += h * δ * δ
                d[i] += δ
                for j in range(k):
                    u[j] += ψ[i, j] * δ
        first = gained if sweep == 0 else first
        if gained <= settled * first:
            return sweep + 1
    return sweeps
