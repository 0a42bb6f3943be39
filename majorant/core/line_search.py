"""A point with F and its gradient, F along a ray θ + aδ, and the line search for the best step a."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

from majorant.core.checks import Array
from majorant.core.model import Model
from majorant.core.rows import Cached, labels_only
from majorant.core.threads import norm

if TYPE_CHECKING:
    from majorant.core.objective import Objective

# Curvature conditions of a strong Wolfe search: the slope has to fall to this share of its first value.
EXACT, LOOSE = 0.1, 0.9
# A rise of F by a smaller share may be rounding.
RISE = 1e-10


@dataclass(frozen=True, eq=False)
class Point:
    """θ with F and ∇F there, and the scores, where they are kept: a ray that leaves from them costs half a pass less.

    Scores may have been added up along rays. ``reach`` is the largest ‖θ‖ on the way: rounding errors are as large as
    there.
    """

    theta: Array
    value: float
    gradient: Array
    scores: Cached = None
    reach: float = 0.0


@labels_only
def loss_along(model: Model[Any], a: float, scores: Array, slopes: Array, block: Any) -> tuple[Any, Any]:
    """Return loss and slope at a point of a ray, from scores and how they change; and scores and residuals there."""
    there = model.along(scores, slopes, a)
    loss, residual = model.loss_and_residual(there, block)
    return (loss, model.inner(residual, slopes)), (there, residual)


def gradient_there(model: Model[Any], there: tuple[Array, Array], block: Any) -> tuple[Array, Array]:
    """Return the gradient of the loss where scores and residuals are known; and the scores."""
    return model.lift(there[1], block), there[0]


@labels_only
def first(kept: tuple[Array, Array], block: Any) -> Array:
    """Return the first of two arrays that were kept with a block."""
    return kept[0]


@labels_only
def second(kept: tuple[Array, Array], block: Any) -> Array:
    """Return the second of two arrays that were kept with a block."""
    return kept[1]


class Ray:
    """F(θ + aδ) as a function of the number a.

    Where scores are kept, they are linear along the ray: the data are visited once, when the ray is made, and F costs
    exponentials alone. Where they are not, each evaluation of F is a pass.

    Parameters
    ----------
    objective : Objective
    start : Point
        θ; scores that are known there save half a pass.
    direction : array of shape (d,)
    unit_step : bool
        Find F and its gradient at a = 1 in that one visit, if scores are known at the start: the unit step is nearly
        always the best.
    """

    def __init__(self, objective: Objective, start: Point, direction: Array, *, unit_step: bool) -> None:
        model, blocks = objective.model, objective.blocks
        self._objective, self._start, self._direction = objective, start, direction
        self._penalty = objective.penalty.along(start.theta, direction)
        self._reach = max(start.reach, norm(start.theta))
        self._scores, self._slopes, self._gradient = start.scores, None, None
        self._last: tuple[float, float, float, Any] | None = None  # a, F, the slope, and what was kept there
        if unit_step and start.scores is not None:
            objective.spend(passes=1.0)
            (loss, slope, self._gradient), self._unit = blocks.run(partial(model.unit_step, direction), start.scores)
            of_penalty = self._penalty(1.0)
            self._at_one = loss + of_penalty[0], slope + of_penalty[1]
        elif objective.keeps_scores:
            objective.spend(passes=0.5 if start.scores is not None else 1.0)
            if self._scores is None:
                self._scores = blocks.map(partial(model.scores, start.theta))
            self._slopes = blocks.map(partial(model.potentials, direction))

    def at(self, a: float) -> Array:
        """Return θ + aδ."""
        return self._start.theta + a * self._direction

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""
        if a == 1.0 and self._gradient is not None:
            return self._at_one
        if self._last is not None and self._last[0] == a and not self._objective.keeps_scores:
            return self._last[1:3]
        self._last = None  # of scores and residuals only one pair is held
        if not self._objective.keeps_scores:
            point = self._objective.point(self.at(a))
            value, slope, kept = point.value, float(point.gradient @ self._direction), point
        else:
            blocks = self._objective.blocks
            if self._slopes is None:
                self._slopes = blocks.map(second, self._unit)
            along = partial(loss_along, self._objective.model, a)
            (loss, slope), kept = blocks.run(along, self._scores, self._slopes)
            of_penalty = self._penalty(a)
            value, slope = loss + of_penalty[0], slope + of_penalty[1]
        self._last = a, value, slope, kept
        return value, slope

    def point_at(self, a: float) -> Point:
        """Return the point θ + aδ; only its gradient is left to find if F was evaluated there last."""
        F, θ = self._objective, self.at(a)
        if not F.keeps_scores:
            self.value_and_slope(a)
            return self._last[3]  # type: ignore[index]
        length, recover = norm(θ), partial(F.model.scores, θ)
        if self._reach > 10 * length:  # scores that were added up from so far away have lost a digit
            return F.point(θ)
        if a == 1.0 and self._gradient is not None:
            value, of_loss, scores = self._at_one[0], self._gradient, F.blocks.map(first, self._unit, recover=recover)
        else:
            if self._last is None or self._last[0] != a:
                self.value_and_slope(a)
            _, value, _, there = self._last  # type: ignore[misc]
            F.spend(passes=0.5)
            of_loss, scores = F.blocks.run(partial(gradient_there, F.model), there, recover=recover)
        return Point(θ, value, F.penalty.slope(θ, of_loss), scores, max(self._reach, length))


class Line(Protocol):
    """F along a ray, or any other function of one number."""

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""


def best_step(
    ray: Line, start: tuple[float, float] | None = None, flat_enough: float = EXACT, rise: float = RISE
) -> float:
    """Return a > 0 near a minimiser of F(θ + aδ), where F is no larger than at 0; or 0 if δ does not descend.

    Where F is not convex along the ray, a point above F(θ) is too far, whichever way F goes on from there.

    Parameters
    ----------
    ray : Line
        The function.
    start : (float, float), optional
        Its value and slope at 0, if they are known.
    flat_enough : float
        How flat F has to be there; a quasi-Newton step is nearly always good enough as it is.
    rise : float
        By which share F may rise, for all that is known of it.
    """
    value, downhill = ray.value_and_slope(0.0) if start is None else start
    if not downhill < 0:
        return 0.0

    def slope(a: float) -> float:
        if a == 0.0:  # recomputed, it might have another sign
            return downhill
        at_a, s = ray.value_and_slope(a)
        if not (at_a <= value + rise * abs(value) and isfinite(s)):  # too far, perhaps for any number
            # What descends there, as no convex function does, is another valley.
            return abs(s) if isfinite(s) and s != 0 else -downhill
        lower = at_a <= value or rise > RISE
        return 0.0 if abs(s) <= flat_enough * -downhill and lower else s

    low, at_low, high = 0.0, downhill, 1.0
    at_high = slope(high)
    while at_high < 0 and high < 2.0**30:  # F may descend for ever
        low, at_low, high = high, at_high, 2.0 * high
        at_high = slope(high)
    if at_high <= 0:
        return high

    # Where the slope crosses zero, nearly: by secants, and every third time by bisection. SciPy's brentq would do, but
    # its wrapper is a reference cycle that keeps whole rays alive.
    for k in range(60):  # bisections alone would find the last digit
        secant = high - at_high * (high - low) / (at_high - at_low)
        a = secant if k % 3 < 2 and low < secant < high else 0.5 * (low + high)
        at_a = slope(a)
        if at_a == 0 or high - low <= 1e-6 * high:
            return a if at_a <= 0 else low
        low, at_low, high, at_high = (low, at_low, a, at_a) if at_a > 0 else (a, at_a, high, at_high)
    return low  # downhill all the way
