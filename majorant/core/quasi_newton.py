"""Directions of quasi-Newton and of Newton steps: L-BFGS, whatever metric it starts from, and conjugate gradients.

Secant pairs correct a metric by the two-loop recursion of L-BFGS. Newton's direction is found by conjugate gradients,
which multiply the Hessian and never write it out. The same loop serves the Hessian and the space of the rows
(``majorant.core.row_space``), where vectors have another inner product: products with a symmetric matrix K go in, and K
is the identity for the Hessian.

References
----------
Nocedal & Wright, *Numerical Optimization*, 2nd edition, Algorithms 7.1 and 7.4; Nash & Sofer, *Assessing a search
direction within a truncated-Newton method*, 1990.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import get_blas_funcs
from scipy.linalg.lapack import dtrtrs

from majorant.core.checks import Array
from majorant.core.curvature import Solve
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.threads import as_array, cast_like

# Parameters from which calls take less time than what they do: of fewer, few calls are better than little work.
FEW_PARAMETERS = 1_000
# Parameters from which L-BFGS pairs are kept in single precision, and half as many of them: they need the most memory.
MANY_PARAMETERS = 30_000
# Newton steps, or products of one, that nobody sees.
MOST_STEPS = 100
# Products stop once the last has gained less than this share of what they gained on average.
WORTH_ANOTHER = 0.2

# (s, y, sᵀy): a step and how the gradient changed along it, oldest first; on a device s and y are tensors
Pairs: TypeAlias = tuple[tuple[Any, Any, float], ...]


def add_pair(objective: Objective, pairs: Pairs, before: Point, after: Point, memory: int) -> Pairs:
    """Return the last ``memory`` pairs, the new one included if the gradient grew along it.

    Many parameters are kept in single precision: what the pairs correct is only a guess; and on a device, if rows are
    there: of many the two loops are most of what a step costs here.
    """
    many = len(after.theta) > MANY_PARAMETERS

    def change(new: Any, old: Any) -> Any:
        if not isinstance(new, np.ndarray):
            return (new - old).float() if many else new - old
        kept = np.empty(len(new), np.float32 if many else np.float64)
        return np.subtract(new, old, out=kept, casting="same_kind")

    s, y = change(after.theta, before.theta), change(after.gradient, before.gradient)
    sy = float(s @ y)
    if sy <= 0:  # of a convex F this is rounding
        return pairs
    if many:
        s, y = objective.blocks.placed(s), objective.blocks.placed(y)
    return (*pairs, (s, y, sy))[-memory:] if memory else ()


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


def solutions(solve: Solve, *vectors: Any) -> list[Any]:
    """Return the solution for each vector: on a device if it is there, and at once if ``solve`` can do that."""
    if isinstance(solve, Scaled):
        return [solve.factor * solutions(solve.solve, b)[0] for b in vectors]
    there, several = getattr(solve, "there", None), getattr(solve, "several", None)
    if there is not None and not isinstance(vectors[0], np.ndarray):
        return [there(b) for b in vectors]
    if several is not None and len(vectors) > 1 and isinstance(vectors[0], np.ndarray):
        found = several(np.array(vectors, dtype=np.float64))  # which takes little longer than one
    else:
        found = [solve(as_array(b).astype(np.float64, copy=False)) for b in vectors]
    return [cast_like(x, b) for x, b in zip(found, vectors, strict=True)]


def quasi_newton_step(gradient: Array, pairs: Pairs, solve: Solve, least: float | None = None) -> Array:
    """Return −H∇F, with H the BFGS update of ``solve`` by the pairs. It always descends.

    If ``least`` is given, ``solve`` is right but for the factor that suits the last pair best (Nocedal & Wright,
    equation 7.20), or that: curvature falls where rows saturate, and steps have to become longer, but a pair along a
    few stiff directions would make all others short.
    """
    if not pairs:
        return solutions(solve, -gradient)[0]

    # The first loop, from the last pair to the first. Of few parameters pairs are rows of matrices, and the loops are
    # triangular systems: with R = triu(SYᵀ), D its diagonal and w = R⁻¹S(−∇F) the step is r + SᵀR⁻ᵀ(Dw − Yr), where
    # r = H₀(−∇F − Yᵀw).
    at_once = len(gradient) <= FEW_PARAMETERS and isinstance(gradient, np.ndarray)
    if at_once:
        S, Y, D = (np.array(part) for part in zip(*pairs, strict=True))
        R = np.dot(S, Y.T)
        R.flat[:: len(R) + 1] = D  # as they were found to be positive
        w = dtrtrs(R, np.dot(S, -gradient))[0]  # what stands below the diagonal is not read
        q = -gradient - np.dot(w, Y)
    else:
        like, weights = pairs[-1][0], []
        on_host = isinstance(like, np.ndarray)
        axpy = get_blas_funcs("axpy", dtype=like.dtype) if on_host else lambda x, y, a: y.add_(x * a)
        q = -cast_like(gradient, like)
        for s, y, sy in reversed(pairs):
            weights.append((s @ q) / sy)
            q = axpy(y, q, a=-weights[-1])

    # The metric.
    _, y, sy = pairs[-1]
    if least is None:
        r = solutions(solve, q)[0]
    else:
        r, of_y = solutions(solve, q, y)
        curved = float(y @ of_y)
        r = r * (max(sy / curved, least) if curved > 0 else least)

    # The second loop.
    if at_once:
        return np.asarray(r + np.dot(dtrtrs(R, D * w - np.dot(Y, r), trans=1)[0], S))
    for (s, y, sy), a in zip(pairs, reversed(weights), strict=True):
        r = axpy(s, r, a=a - (y @ r) / sy)
    return cast_like(r, gradient)


class HessianProducts:
    """v ↦ (∇²loss + λ)v at a point whose scores are known; what follows from these is found once.

    A product goes twice through the data, and takes no exponentials. Of a penalty that is no ridge, λ is a diagonal
    that its Hessian never exceeds.
    """

    def __init__(self, objective: Objective, at: Point) -> None:
        self._objective = objective
        self._weights = objective.blocks.map(objective.model.hessian_weights, at.scores)

    @staticmethod
    def suit(objective: Objective) -> bool:
        """Return whether there are such products, of rows in memory and scores that are kept."""
        at_hand = objective.whole is not None and objective.keeps_scores
        return at_hand and objective.model.has_products(objective.like)

    def __call__(self, v: Array, Kv: Array | None = None) -> Array:
        """Return the product, which is a pass."""
        F = self._objective
        F.spend(passes=1)
        return F.blocks.total(partial(F.model.hessian_product, v), self._weights) + F.ridge * v


@dataclass(frozen=True, eq=False)
class Direction:
    """A direction x ≈ −H⁻¹∇F, Kx, what a unit step is predicted to gain, and how many products it took."""

    x: Array
    Kx: Array
    gain: float
    products: int


def conjugate_gradients(
    gradient: Array,
    times: Callable[[Array, Array], Array],
    solve: Solve,
    K: Callable[[Array], Array] | None = None,
    worth: float | None = None,
) -> Direction:
    """Return x with Hx ≈ −∇F, by conjugate gradients in a metric, until another product hardly gains anything.

    It always descends.

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
    worth : float, optional
        The share of what products have gained on average that another has to gain.
    """
    r, worth = -gradient, WORTH_ANOTHER if worth is None else worth
    x, d, gained, before = np.zeros_like(r), np.zeros_like(r), 0.0, np.inf
    Kx, Kd = (x, d) if K is None else (x.copy(), d.copy())
    for k in range(1, MOST_STEPS + 1):
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
        if k * a * size <= worth * gained:
            break
        r, before = r - a * Hd, size
    return Direction(x, Kx, 0.5 * gained, k)
