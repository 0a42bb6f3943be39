"""The best step along a ray. It costs exponentials only: the data were visited when the ray was made."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Protocol

# Curvature condition of a strong Wolfe search: the slope has to fall to this share of its first value.
EXACT, LOOSE = 0.1, 0.9
LONGEST = 2.0**30
# A rise by more than this share of F is none of rounding's.
RISE = 1e-10
# Of a search for the root of the slope.
ITERATIONS, PRECISION = 60, 1e-6


class Along(Protocol):
    """F along a ray."""

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""


def best_step(
    ray: Along, start: tuple[float, float] | None = None, flat_enough: float = EXACT, rise: float = RISE
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
