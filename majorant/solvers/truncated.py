"""Newton steps found by conjugate gradients, which stop early: the Hessian is only multiplied.

A product with the Hessian costs what products of the data cost, and neither exponentials, nor a line search, nor secant
pairs. Where these are most of a quasi-Newton step, as of small data and of sparse ones, and many would be left to make,
Newton steps of some products each are quicker. Conjugate gradients are scaled by the curvature that quasi-Newton steps
would be scaled by. They stop once the residual has fallen to a share of the gradient, the smaller the closer the
optimum: steps then converge faster than linearly.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithm 7.1; Dembo, Eisenstat & Steihaug, *Inexact Newton
methods*, 1982.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from majorant._checks import Array
from majorant.curvature import Solve
from majorant.objective import Objective, Point
from majorant.objective.products import HessianProducts

# The share of the gradient that may be left, in the norm of the curvature, far from the optimum; the most products.
LEFT, PRODUCTS = 0.2, 100
# Where steps gain this share of F or less, proportionally less is left.
NEAR = 1e-2


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """A step, and how many products it took."""

    step: Array
    products: int


def newton_step(objective: Objective, here: Point, solve: Solve) -> NewtonStep:
    """Return x with (H + λ)x ≈ −∇F, by conjugate gradients scaled by ``solve``; it always descends."""
    times, r = HessianProducts(objective, here), -here.gradient
    x, d = np.zeros_like(r), solve(r)
    size = first = float(r @ d)
    enough = _share_left(first, here.value) ** 2 * first
    for k in range(PRODUCTS):
        Hd = times(d)
        curvature = float(d @ Hd)
        if not curvature > 0:  # to rounding there is none, or the gradient is zero
            return NewtonStep(x if k else d, k + 1)
        x += (size / curvature) * d
        r -= (size / curvature) * Hd
        z = solve(r)
        before, size = size, float(r @ z)
        if not size > enough:
            return NewtonStep(x, k + 1)
        d = z + (size / before) * d
    return NewtonStep(x, PRODUCTS)


def _share_left(decrement: float, value: float) -> float:
    """Return how much of a gradient may be left: less where little is to be gained."""
    return LEFT * min(1.0, sqrt(sqrt(decrement / max(NEAR * abs(value), 1e-300))))
