"""Secant pairs correct a metric: the two-loop recursion of L-BFGS with any initial metric.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithm 7.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from scipy.linalg.blas import daxpy

from majorant._checks import Array
from majorant.objective import Objective, Point
from majorant.solvers.line_search import LOOSE, best_step

# (s, y, sᵀy): a step and how the gradient changed along it, oldest first
Pairs: TypeAlias = tuple[tuple[Array, Array, float], ...]


def add_pair(pairs: Pairs, s: Array, y: Array, memory: int) -> Pairs:
    """Return the last ``memory`` pairs, the new one included if the gradient grew along it."""
    sy = float(s @ y)
    if sy <= 0:  # F is convex, so this is rounding
        return pairs
    return (*pairs, (s, y, sy))[-memory:] if memory else ()


def quasi_newton_step(gradient: Array, pairs: Pairs, solve: Callable[[Array], Array]) -> Array:
    """Return −H∇F, with H the BFGS update of the metric ``solve`` by the pairs. It always descends."""
    q, weights = -gradient, []
    for s, y, sy in reversed(pairs):
        weights.append((s @ q) / sy)
        q = daxpy(y, q, a=-weights[-1])
    r = solve(q)
    for (s, y, sy), a in zip(pairs, reversed(weights), strict=True):
        r = daxpy(s, r, a=a - (y @ r) / sy)
    return r


def quasi_newton_move(
    objective: Objective, at: Point, pairs: Pairs, solve: Callable[[Array], Array], flat_enough: float = LOOSE
) -> Point:
    """Return a good point along the quasi-Newton step from ``at``, in one pass."""
    step = quasi_newton_step(at.gradient, pairs, solve)
    ray = objective.ray(at.theta, step, at.scores)
    return ray.land(best_step(ray, (at.value, float(at.gradient @ step)), flat_enough))
