"""Newton's direction by conjugate gradients: the Hessian is multiplied, never written out.

The same loop serves the Hessian and the space of the rows (``majorant.solvers.row_space``), where vectors have another
inner product: products with a symmetric matrix K go in, and K is the identity for the Hessian.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithm 7.1; Nash & Sofer, *Assessing a search direction
within a truncated-Newton method*, 1990.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from majorant._checks import Array
from majorant._vectors import beside, here
from majorant.curvature import Solve
from majorant.objective import Objective, Point
from majorant.objective.products import HessianProducts

# Products stop once the last has gained less than this share of what they gained on average, and there are no more.
WORTH_ANOTHER, MOST_PRODUCTS = 0.2, 200


@dataclass(frozen=True, eq=False)
class Direction:
    """A direction x ≈ −H⁻¹∇F, Kx, what a unit step promises to gain, and how many products it took."""

    x: Array
    Kx: Array
    gain: float
    products: int


def newton_direction(objective: Objective, at: Point, solve: Solve) -> Direction:
    """Return Newton's direction at a point, in the metric whose inverse is ``solve``; it always descends."""
    times = HessianProducts(objective, at)
    found = conjugate_gradients(here(at.gradient), lambda d, _: times(d), solve)
    x = beside(found.x, at.gradient)
    return Direction(x, x, found.gain, found.products)


def conjugate_gradients(
    gradient: Array, times: Callable[[Array, Array], Array], solve: Solve, K: Callable[[Array], Array] | None = None
) -> Direction:
    """Return x with Hx ≈ −∇F, by conjugate gradients in a metric, until another product hardly gains anything.

    Parameters
    ----------
    gradient : array
        ∇F.
    times : callable
        d, Kd ↦ Hd.
    solve : callable
        The inverse of the metric.
    K : callable, optional
        The matrix of the inner product ⟨a, Kb⟩; the identity if not given.
    """
    r = -gradient
    x, d, gained, before = np.zeros_like(r), np.zeros_like(r), 0.0, np.inf
    Kx, Kd = (x, d) if K is None else (x.copy(), d.copy())
    for k in range(1, MOST_PRODUCTS + 1):
        z = solve(r)
        Kz = z if K is None else K(z)
        size = float(np.vdot(r, Kz))
        d = z + size / before * d
        Kd = d if K is None else Kz + size / before * Kd
        Hd = times(d, Kd)
        curvature = float(np.vdot(Hd, Kd))
        if not (curvature > 0 and size > 0):  # to rounding there is none, or the gradient is zero
            return Direction(d, Kd, 0.0, k) if k == 1 else Direction(x, Kx, 0.5 * gained, k)
        a = size / curvature
        x, gained = x + a * d, gained + a * size
        Kx = x if K is None else Kx + a * Kd
        if k * a * size <= WORTH_ANOTHER * gained:
            break
        r, before = r - a * Hd, size
    return Direction(x, Kx, 0.5 * gained, k)
