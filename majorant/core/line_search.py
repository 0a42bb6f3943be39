"""What is known of a point, and F along a ray θ + aδ, which line searches look for the best point of.

The best step along a ray. It costs exponentials only: the data were visited when the ray was made.
"""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True, eq=False)
class Point:
    """θ with F and ∇F there, and, where they are kept, the scores, from which a ray can leave at half the price.

    Scores may have been added up along rays. ``reach`` is the largest ‖θ‖ on the way: rounding errors are as large as
    there.
    """

    theta: Array
    value: float
    gradient: Array
    scores: Cached = None
    reach: float = 0.0


class Ray(Protocol):
    """F(θ + aδ) as a function of the number a."""

    def at(self, a: float) -> Array:
        """Return θ + aδ."""

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""

    def land(self, a: float) -> Point:
        """Return the point θ + aδ."""


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


# Scores that were added up from so many times farther away have lost digits: they are found afresh.
FAR = 10.0


class ScoreRay:
    """A ray along which scores are linear, so that the data are visited once, when it is made."""

    def __init__(
        self,
        objective: Objective,
        theta: Array,
        direction: Array,
        scores: Cached = None,
        reach: float = 0.0,
        slopes: Cached = None,
    ) -> None:
        objective.spend(passes=0.5 * (scores is None) + 0.5 * (slopes is None))
        model, blocks = objective.model, objective.blocks
        self._objective, self._theta, self._direction = objective, theta, direction
        self._scores = blocks.map(partial(model.scores, theta)) if scores is None else scores
        self._slopes = blocks.map(partial(model.potentials, direction)) if slopes is None else slopes
        self._penalty = objective.penalty.along(theta, direction)
        self._reach = max(reach, norm(theta))
        self._last: tuple[float, float, Cached] | None = None

    def at(self, a: float) -> Array:
        """Return θ + aδ."""
        return self._theta + a * self._direction

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative: exponentials only."""
        along, self._last = (
            partial(loss_along, self._objective.model, a),
            None,
        )  # two of these at a time would be a lot of memory
        (loss, slope), there = self._objective.blocks.run(along, self._scores, self._slopes)
        of_penalty = self._penalty(a)
        self._last = (a, loss + of_penalty[0], there)
        return loss + of_penalty[0], slope + of_penalty[1]

    def land(self, a: float) -> Point:
        """Return the point θ + aδ; if that is where F was evaluated last, only the gradient is left to find."""
        F, θ = self._objective, self.at(a)
        length = norm(θ)
        if self._reach > FAR * length:
            return F.point(θ)
        if self._last is None or self._last[0] != a:
            self.value_and_slope(a)
        assert self._last is not None
        _, value, there = self._last
        F.spend(passes=0.5)
        of_loss, scores = F.blocks.run(partial(gradient_there, F.model), there, recover=partial(F.model.scores, θ))
        return Point(θ, value, F.penalty.slope(θ, of_loss), scores, max(self._reach, length))


class LeapingRay:
    """A ray whose first step is made whole, with its gradient, in one visit to the data: nearly always it is the best.

    Another step is looked for as on any ray along which scores are linear.
    """

    def __init__(self, objective: Objective, start: Point, direction: Array) -> None:
        objective.spend(passes=1.0)
        self._objective, self._start, self._direction = objective, start, direction
        of_unit, self._there = objective.blocks.run(partial(objective.model.unit_step, direction), start.scores)
        self._penalty = objective.penalty.along(start.theta, direction)
        of_penalty = self._penalty(1.0)
        self._value, self._slope, self._of_loss = of_unit[0] + of_penalty[0], of_unit[1] + of_penalty[1], of_unit[2]
        self._other: ScoreRay | None = None

    def at(self, a: float) -> Array:
        """Return θ + aδ."""
        return self._start.theta + a * self._direction

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative."""
        return (self._value, self._slope) if a == 1.0 else self._in_parts().value_and_slope(a)

    def land(self, a: float) -> Point:
        """Return the point θ + aδ."""
        F, θ = self._objective, self.at(a)
        length = norm(θ)
        reach = max(self._start.reach, norm(self._start.theta))
        if a != 1.0 or reach > FAR * length:
            return self._in_parts().land(a)
        scores = F.blocks.map(first, self._there, recover=partial(F.model.scores, θ))
        return Point(θ, self._value, F.penalty.slope(θ, self._of_loss), scores, max(reach, length))

    def _in_parts(self) -> ScoreRay:
        if self._other is None:
            slopes, start = self._objective.blocks.map(second, self._there), self._start
            self._other = ScoreRay(
                self._objective, start.theta, self._direction, start.scores, start.reach, slopes=slopes
            )
        return self._other


class DirectRay:
    """A ray on which F is evaluated from the data every time: where scores are too many to be kept."""

    def __init__(self, objective: Objective, theta: Array, direction: Array) -> None:
        self._objective, self._theta, self._direction = objective, theta, direction
        self._last: tuple[float, Point] | None = None

    def at(self, a: float) -> Array:
        """Return θ + aδ."""
        return self._theta + a * self._direction

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""
        point = self.land(a)
        return point.value, float(point.gradient @ self._direction)

    def land(self, a: float) -> Point:
        """Return the point θ + aδ."""
        if self._last is None or self._last[0] != a:
            self._last = (a, self._objective.point(self.at(a)))
        return self._last[1]


# Curvature condition of a strong Wolfe search: the slope has to fall to this share of its first value.
EXACT, LOOSE = 0.1, 0.9
LONGEST = 2.0**30
# A rise by more than this share of F is none of rounding's.
RISE = 1e-10
# Of a search for the root of the slope.
ITERATIONS, PRECISION = 60, 1e-6


class Line(Protocol):
    """F along a ray."""

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""


def best_step(
    ray: Line, start: tuple[float, float] | None = None, flat_enough: float = EXACT, rise: float = RISE
) -> float:
    """Return a > 0 near a minimiser of F(θ + aδ), where F is no larger than at 0; or 0 if δ does not descend.

    Where F is not convex along the ray, a point above F(θ) is too far, whichever way F goes on from there.

    Parameters
    ----------
    ray : Along
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
    while at_high < 0 and high < LONGEST:
        low, at_low, high = high, at_high, 2.0 * high
        at_high = slope(high)
    return high if at_high <= 0 else _root(slope, low, at_low, high, at_high)


def _root(slope: Callable[[float], float], low: float, at_low: float, high: float, at_high: float) -> float:
    """Return where a rising slope crosses zero, nearly, by secants and every third time bisection.

    SciPy's brentq would do, but its wrapper is a reference cycle that keeps whole rays alive.
    """
    for k in range(ITERATIONS):
        secant = high - at_high * (high - low) / (at_high - at_low)
        a = secant if k % 3 < 2 and low < secant < high else 0.5 * (low + high)
        at_a = slope(a)
        if at_a == 0 or high - low <= PRECISION * high:
            return a if at_a <= 0 else low
        low, at_low, high, at_high = (low, at_low, a, at_a) if at_a > 0 else (a, at_a, high, at_high)
    return low  # downhill all the way
