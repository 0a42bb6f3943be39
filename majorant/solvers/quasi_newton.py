"""Secant pairs correct a metric: the two-loop recursion of L-BFGS with any initial metric.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithm 7.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from majorant._checks import Array
from majorant.objective import Objective, Point
from majorant.solvers.line_search import LOOSE, best_step

Pairs: TypeAlias = tuple[tuple[Array, Array], ...]  # (s, y): a step and how the gradient changed along it, oldest first


def add_pair(pairs: Pairs, s: Array, y: Array, memory: int) -> Pairs:
    """Return the last ``memory`` pairs, the new one included if the gradient grew along it."""
    if s @ y <= 0:  # F is convex, so this is rounding
        return pairs
    return (*pairs, (s, y))[-memory:] if memory else ()


def quasi_newton_step(gradient: Array, pairs: Pairs, solve: Callable[[Array], Array]) -> Array:
    """Return −H∇F, with H the BFGS update of the metric ``solve`` by the pairs. It always descends."""
    q, weights = -gradient, []
    for s, y in reversed(pairs):
        weights.append((s @ q) / (s @ y))
        q = q - weights[-1] * y
    r = solve(q)
    for (s, y), a in zip(pairs, reversed(weights), strict=True):
        r = r + (a - (y @ r) / (s @ y)) * s
    return r


def quasi_newton_move(
    objective: Objective, at: Point, pairs: Pairs, solve: Callable[[Array], Array], flat_enough: float = LOOSE
) -> Point:
    """Return a good point along the quasi-Newton step from ``at``, in one pass."""
    step = quasi_newton_step(at.gradient, pairs, solve)
    ray = objective.ray(at.theta, step, at.scores)
    return ray.land(best_step(ray, (at.value, float(at.gradient @ step)), flat_enough))
