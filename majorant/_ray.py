"""F along a ray θ + aδ, which line searches look for the best point of, and what is known of a point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from majorant._checks import Array


@dataclass(frozen=True, eq=False)
class Point:
    """θ with F and ∇F there, and the scores of every block of rows, from which a ray can leave at half the price."""

    theta: Array
    value: float
    gradient: Array
    scores: list[Array]

    def has_scores_of(self, other: Point) -> bool:
        """Return whether the scores are those of another point, row by row."""
        pairs = zip(self.scores, other.scores, strict=False)
        return len(self.scores) == len(other.scores) and all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in pairs
        )


class Ray:
    """F(θ + aδ) as a function of a. Scores are linear in a, so the data are visited once, when it is made."""

    def __init__(self, objective: Any, theta: Array, direction: Array, scores: list[Array] | None = None) -> None:
        model = objective.model
        objective.work.passes += 1.0 if scores is None else 0.5
        self._objective, self._theta, self._direction = objective, theta, direction
        self._scores = scores or objective.on_blocks(lambda block: model.scores(theta, block))
        self._slopes = objective.on_blocks(lambda block: model.potentials(direction, block))
        inner = objective.penalty.inner
        self._penalty = (0.5 * inner(theta, theta), inner(theta, direction), inner(direction, direction))
        self._last: tuple[float, float, list[Array], list[Array]] | None = None

    def at(self, a: float) -> Array:
        """Return θ + aδ."""
        return self._theta + a * self._direction

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F(θ + aδ) and its derivative with respect to a."""
        F, (constant, linear, quadratic) = self._objective, self._penalty
        value, slope = constant + a * (linear + 0.5 * a * quadratic), linear + a * quadratic
        scores, residuals = [], []
        for S, loss, residual, part in F.on_blocks(partial(self._evaluate, a), self._scores, self._slopes):
            scores.append(S)
            residuals.append(residual)
            value += loss
            slope += part
        self._last = (a, value, scores, residuals)
        return value, slope

    def land(self, a: float) -> Point:
        """Return the point θ + aδ; if that is where F was evaluated last, only the gradient is left to find."""
        if self._last is None or self._last[0] != a:
            self.value_and_slope(a)
        assert self._last is not None
        _, value, scores, residuals = self._last
        F, θ = self._objective, self.at(a)
        F.work.passes += 0.5
        gradient = F.ridge * θ
        for part in F.on_blocks(lambda block, residual: F.model.lift(residual, block), residuals):
            gradient += part
        return Point(θ, value, gradient, scores)

    def _evaluate(self, a: float, block: Any, S: Array, V: Array) -> tuple[Array, float, Array, float]:
        scores = S + a * V
        loss, residual = self._objective.model.loss_and_residual(scores, block)
        return scores, loss, residual, float(np.vdot(residual, V))


class DirectRay:
    """F(θ + aδ) as a function of a, each evaluated from the data: where scores are too many to be kept."""

    def __init__(self, objective: Any, theta: Array, direction: Array) -> None:
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
