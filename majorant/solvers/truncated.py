"""Newton steps found by conjugate gradients, which stop early: the Hessian is only multiplied.

A product with the Hessian costs what products of the data cost, and neither exponentials, nor a line search, nor secant
pairs. Where these are most of a quasi-Newton step, as of small data and of sparse ones, and many would be left to make,
Newton steps of some products each are quicker. Conjugate gradients are scaled by the curvature that quasi-Newton steps
would be scaled by. They stop once a product hardly gains anything any more, in the quadratic that they minimise.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithm 7.1; Nash & Sofer, *Assessing a search direction
within a truncated-Newton method*, 1990.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant._vectors import beside, here
from majorant.curvature import Solve
from majorant.objective import Objective, Point
from majorant.objective.products import HessianProducts

# Products stop once the last has gained less than this share of what they gained on average, and there are no more.
WORTH_ANOTHER, PRODUCTS = 0.2, 100


@dataclass(frozen=True, eq=False)
class NewtonStep:
    """A step, and how many products it took."""

    step: Array
    products: int


def newton_step(objective: Objective, at: Point, solve: Solve) -> NewtonStep:
    """Return x with (H + λ)x ≈ −∇F, by conjugate gradients scaled by ``solve``; it always descends."""
    times, r = HessianProducts(objective, at), -here(at.gradient)
    x, d, gained = np.zeros_like(r), solve(r), 0.0
    size = float(r @ d)
    for k in range(1, PRODUCTS + 1):
        Hd = times(d)
        curvature = float(d @ Hd)
        if not curvature > 0:  # to rounding there is none, or the gradient is zero
            return NewtonStep(beside(x if k > 1 else d, at.gradient), k)
        a = size / curvature
        x += a * d
        gained += a * size
        if k * a * size <= WORTH_ANOTHER * gained:
            return NewtonStep(beside(x, at.gradient), k)
        r -= a * Hd
        z = solve(r)
        before, size = size, float(r @ z)
        d = z + (size / before) * d
    return NewtonStep(beside(x, at.gradient), PRODUCTS)
