"""Descent along one direction at a time: steepest descent and Newton, each with the best step along its ray."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from majorant._checks import Array
from majorant.curvature import Dense
from majorant.curvature.cholesky import grounded
from majorant.objective import Objective, Point
from majorant.objective.certificates import KnownHessian
from majorant.solvers.base import State, SteppingSolver, improves, known
from majorant.solvers.line_search import best_step


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentState(State):
    """A state, the direction to take from it, and the curvature it came from, if there is one."""

    direction: Array
    curvature: Dense | None = None

    def predicted_decrease(self) -> float:
        """Return what a quadratic says, where the direction comes from one."""
        if self.curvature is None or self.point is None:
            return float("nan")
        return -0.5 * float(self.point.gradient @ self.direction)

    def hessian(self) -> KnownHessian | None:
        """Return that of the last direction."""
        return None if self.curvature is None else KnownHessian(self.theta, self.curvature.matrix)


class Descent(SteppingSolver[DescentState]):
    """θ ← θ + aδ with a from a line search on the convex function of a."""

    @abstractmethod
    def aim(self, objective: Objective, point: Point | Array) -> DescentState:
        """Return the state at a point, or at parameters of which nothing is known yet, with its direction δ."""

    def start(self, objective: Objective, theta: Array) -> DescentState:
        """Return the state at θ."""
        return self.aim(objective, theta)

    def step(self, objective: Objective, state: DescentState) -> DescentState:
        """Return the state at the best point along the direction."""
        here = known(objective, state)
        ray = objective.ray(here, state.direction)
        new = ray.land(best_step(ray, (here.value, float(here.gradient @ state.direction))))
        return self.aim(objective, new) if improves(objective, new, here) else replace(state, stalled=True)


@dataclass(frozen=True)
class SteepestDescent(Descent):
    """δ = −∇F, along which the line search goes.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, majorant.SteepestDescent(), tol=1e-4).result.converged
    True
    """

    def aim(self, objective: Objective, point: Point | Array) -> DescentState:
        """Return −∇F, scaled so that a unit step is a sensible first guess."""
        here = point if isinstance(point, Point) else objective.point(point)
        return DescentState.at(here, direction=-here.gradient / max(float(np.linalg.norm(here.gradient)), 1e-300))


@dataclass(frozen=True)
class Newton(Descent):
    """δ = −H⁻¹∇F with the full Hessian, damped by the line search. O(d³) a step.

    Examples
    --------
    >>> import majorant
    >>> X, y = majorant.datasets.load("ecoli")
    >>> F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    >>> majorant.minimize(F, majorant.Newton()).result.converged
    True
    """

    def aim(self, objective: Objective, point: Point | Array) -> DescentState:
        """Return the Newton direction."""
        here, H = grounded_hessian(objective, point)
        return DescentState.at(here, direction=-H.solve(here.gradient, objective.ridge), curvature=H)


def grounded_hessian(objective: Objective, at: Point | Array) -> tuple[Point, Dense]:
    """Return a point and the Hessian of the loss, made positive where neither probabilities nor the penalty change."""
    point, found = objective.expand(at, Dense.of, majorizes=False)
    H, together = found.compact(), objective.model.redundancy(objective.like)
    if together > 1:
        free = np.flatnonzero(~objective.penalty.penalised.reshape(together, -1).any(axis=0))
        H = grounded(H, together, free) if len(free) else H
    return point, Dense(H, majorizes=False)
