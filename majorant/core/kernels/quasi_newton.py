"""Coordinate descent on a quadratic model with an elastic net, the inner problem of proximal quasi-Newton steps."""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array
from majorant.core.kernels.compiler import compile_sums


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
