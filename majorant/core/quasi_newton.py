"""Secant pairs correct a curvature: the two-loop recursion of L-BFGS, whatever it starts from.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithm 7.4.

Newton's direction by conjugate gradients: the Hessian is multiplied, never written out.

The same loop serves the Hessian and the space of the rows (``majorant.core.row_space``), where vectors have another
inner product: products with a symmetric matrix K go in, and K is the identity for the Hessian.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithm 7.1; Nash & Sofer, *Assessing a search direction
within a truncated-Newton method*, 1990.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import get_blas_funcs
from scipy.linalg.lapack import dtrtrs

from majorant.core.checks import Array
from majorant.core.curvature import Solve
from majorant.core.line_search import LOOSE, RISE, Point, best_step
from majorant.core.objective import Objective
from majorant.core.prices import MANY_PARAMETERS
from majorant.core.products import HessianProducts
from majorant.core.threads import as_array, cast_like

# Of fewer, calls take longer than what they do, and few calls are better than little work.
FEW_PARAMETERS = 1_000
# Rounding errors of F, relative to those of a factor: most cancel.
UNSURE = 1e-3
# (s, y, sᵀy): a step and how the gradient changed along it, oldest first; on a device s and y are tensors
Pairs: TypeAlias = tuple[tuple[Any, Any, float], ...]


def add_pair(objective: Objective, pairs: Pairs, before: Point, after: Point, memory: int) -> Pairs:
    """Return the last ``memory`` pairs, the new one included if the gradient grew along it.

    Many parameters are kept in single precision: what the pairs correct is only a guess; and on a device, if rows are
    there: of many the two loops are most of what a step costs here.
    """
    many = len(after.theta) > MANY_PARAMETERS
    s, y = _less(after.theta, before.theta, many), _less(after.gradient, before.gradient, many)
    sy = float(s @ y)
    if sy <= 0:  # of a convex F this is rounding
        return pairs
    if many:
        s, y = (objective.blocks.placed(each) for each in (s, y))
    return (*pairs, (s, y, sy))[-memory:] if memory else ()


def _less(after: Any, before: Any, many: bool) -> Any:
    """Return after − before, of many in single precision."""
    if not isinstance(after, np.ndarray):
        return (after - before).float() if many else after - before
    kept = np.empty(len(after), np.float32 if many else np.float64)
    return np.subtract(after, before, out=kept, casting="same_kind")


def shifted(pairs: Pairs, ridge: Array) -> Pairs:
    """Return the pairs with so much more of a ridge: along s the gradient changes by that much more of s."""
    changed = ((s, y + cast_like(ridge, s) * s) for s, y, _ in pairs)
    return tuple((s, y, sy) for s, y in changed if (sy := float(s @ y)) > 0)


@dataclass(frozen=True, eq=False)
class Scaled:
    """A solve that is right but for a factor."""

    solve: Solve
    factor: float

    def __call__(self, b: Array) -> Array:
        """Return the factor times the solution."""
        return self.factor * self.solve(b)


def quasi_newton_step(gradient: Array, pairs: Pairs, solve: Solve, least: float | None = None) -> Array:
    """Return −H∇F, with H the BFGS update of ``solve`` by the pairs. It always descends.

    If ``least`` is given, ``solve`` is right but for a factor, which is at least that (:func:`_scaled`).
    """
    if not pairs:
        return _solved(solve, -gradient)
    if len(gradient) <= FEW_PARAMETERS and isinstance(gradient, np.ndarray):
        return _step_at_once(gradient, pairs, solve, least)
    like, weights = pairs[-1][0], []
    axpy = get_blas_funcs("axpy", dtype=like.dtype) if isinstance(like, np.ndarray) else _axpy_there
    q = -cast_like(gradient, like)
    for s, y, sy in reversed(pairs):
        weights.append((s @ q) / sy)
        q = axpy(y, q, a=-weights[-1])
    r = _scaled(solve, q, pairs, least)
    for (s, y, sy), a in zip(pairs, reversed(weights), strict=True):
        r = axpy(s, r, a=a - (y @ r) / sy)
    return cast_like(r, gradient)


def _scaled(solve: Solve, q: Any, pairs: Pairs, least: float | None) -> Any:
    """Return the solution times the factor that suits the last pair best (Nocedal & Wright, equation 7.20), or more.

    Curvature falls where rows saturate, and steps have to become longer. A pair along a few stiff directions would make
    all others short.
    """
    if least is None:
        return _solved(solve, q)
    _, y, sy = pairs[-1]
    r, of_y = _both_solved(solve, q, y)
    curved = float(y @ of_y)
    return r * (max(sy / curved, least) if curved > 0 else least)


def _axpy_there(x: Any, y: Any, a: Any) -> Any:
    """Return y + ax in the place of y, on a device: where numbers like a stay as well."""
    return y.add_(x * a)


def _solved(solve: Solve, b: Any) -> Any:
    """Return the solution as b is: on a device, if ``solve`` can do it there."""
    if isinstance(solve, Scaled):
        return solve.factor * _solved(solve.solve, b)
    there = getattr(solve, "there", None)
    if there is not None and not isinstance(b, np.ndarray):
        return there(b)
    return cast_like(solve(as_array(b).astype(np.float64, copy=False)), b)


def _both_solved(solve: Solve, a: Any, b: Any) -> tuple[Any, Any]:
    """Return two solutions, at once if ``solve`` can do that: it takes little longer than one."""
    several = getattr(solve, "several", None)
    if several is None or not isinstance(a, np.ndarray):
        return _solved(solve, a), _solved(solve, b)
    of_a, of_b = several(np.array([a, b], dtype=np.float64))
    return cast_like(of_a, a), cast_like(of_b, b)


def _step_at_once(gradient: Array, pairs: Pairs, solve: Solve, least: float | None) -> Array:
    """Do the same with pairs as rows of matrices: the two loops over them are triangular systems.

    With R = triu(SYᵀ), D its diagonal and w = R⁻¹S(−∇F) it is r + SᵀR⁻ᵀ(Dw − Yr), where r = H₀(−∇F − Yᵀw).
    """
    S, Y, D = (np.array(each) for each in zip(*pairs, strict=True))
    R = np.dot(S, Y.T)
    R.flat[:: len(R) + 1] = D  # as they were found to be positive
    weights = dtrtrs(R, np.dot(S, -gradient))[0]  # what stands below the diagonal is not read
    r = _scaled(solve, -gradient - np.dot(weights, Y), pairs, least)
    return r + np.dot(dtrtrs(R, D * weights - np.dot(Y, r), trans=1)[0], S)


def quasi_newton_move(objective: Objective, at: Point, pairs: Pairs, solve: Solve, flat_enough: float = LOOSE) -> Point:
    """Return a good point along the quasi-Newton step from ``at``, in one pass."""
    return best_point_along(objective, at, quasi_newton_step(at.gradient, pairs, solve), flat_enough)[0]


def best_point_along(
    objective: Objective, at: Point, step: Array, flat_enough: float = LOOSE, *, leap: bool = False
) -> tuple[Point, float]:
    """Return a good point along a step from ``at``, in one pass, and how much of the step that is.

    ``leap`` says that it is likely all of it.
    """
    ray = objective.ray(at, step, unit_step=leap)
    rise = max(RISE, UNSURE * objective.epsilon)
    a = best_step(ray, (at.value, float(at.gradient @ step)), flat_enough, rise)
    return ray.point_at(a), a


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
    found = conjugate_gradients(as_array(at.gradient), lambda d, _: times(d), solve)
    x = cast_like(found.x, at.gradient)
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
