"""Coordinate descent on a quadratic with kinks, given its matrix: NumPy, which ``coordinates`` compiles."""

from __future__ import annotations

import numpy as np

from majorant.core.checks import Array


def descend(G: Array, slope: Array, x: Array, l1: Array, l2: Array, enough: float, sweeps: int) -> float:
    """Minimise gᵀ(z − x) + ½ (z − x)ᵀG(z − x) + Σ_i (λ1_i |z_i| + ½ λ2_i z_i²) over z, one coordinate at a time.

    ``x`` becomes z in place, and ``slope``, which is g at first, the gradient g + G(z − x) there. It ends after a sweep
    in which no coordinate was further from its best than ``enough``, as a gradient. Return the largest such violation.
    """
    largest = np.inf
    for _ in range(sweeps):
        largest = 0.0
        for i in range(len(x)):
            curvature = G[i, i] + l2[i]
            if curvature > 0:
                u = G[i, i] * x[i] - slope[i]
                z = (u - min(max(u, -l1[i]), l1[i])) / curvature
                move = z - x[i]
                if move != 0:
                    x[i] = z
                    np.add(slope, move * G[i], slope)
                    largest = max(largest, abs(move) * curvature)
        if largest <= enough:
            break
    return largest
