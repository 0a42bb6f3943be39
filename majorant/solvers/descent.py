"""Descent along one direction at a time: steepest descent and Newton, each with the best step along its ray."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from majorant._checks import Array
from majorant.curvature import Curvature, Dense
from majorant.models.class_space import ClassModel
from majorant.objective import Objective
from majorant.solvers.base import State, SteppingSolver, improves
from majorant.solvers.cholesky import grounded
from majorant.solvers.line_search import best_step


@dataclass(frozen=True, eq=False, kw_only=True)
class DescentState(State):
    """A state and the direction to take from it."""

    direction: Array


class Descent(SteppingSolver[DescentState]):
    """θ ← θ + aδ with a from a line search on the convex function of a."""

    @abstractmethod
    def expand(self, objective: Objective, theta: Array) -> tuple[float, Array, Array]:
        """Return F, ∇F and the direction δ at θ."""

    def start(self, objective: Objective, theta: Array) -> DescentState:
        """Return the state at θ."""
        value, gradient, direction = self.expand(objective, theta)
        return DescentState(theta=theta, value=value, gradient=gradient, direction=direction)

    def step(self, objective: Objective, state: DescentState) -> DescentState:
        """Return the state at the best point along the direction."""
        ray = objective.ray(state.theta, state.direction)
        new = self.start(objective, ray.at(best_step(ray)))
        return new if improves(objective, new, state) else replace(state, stalled=True)


@dataclass(frozen=True)
class SteepestDescent(Descent):
    """δ = −∇F."""

    def expand(self, objective: Objective, theta: Array) -> tuple[float, Array, Array]:
        """Return F, ∇F and −∇F, scaled so that a unit step is a sensible first guess."""
        value, gradient = objective.value_and_gradient(theta)
        return value, gradient, -gradient / max(float(np.linalg.norm(gradient)), 1e-300)


@dataclass(frozen=True)
class Newton(Descent):
    """δ = −H⁻¹∇F with the full Hessian, damped by the line search. O(d³) a step."""

    def expand(self, objective: Objective, theta: Array) -> tuple[float, Array, Array]:
        """Return F, ∇F and the Newton direction."""
        value, gradient, H = grounded_hessian(objective, theta)
        return value, gradient, -H.solve(gradient, objective.ridge)


def grounded_hessian(objective: Objective, theta: Array) -> tuple[float, Array, Curvature]:
    """Return F, ∇F and the Hessian, that of unpenalised softmax columns made non-singular."""
    value, gradient, H = objective.hessian(theta)
    model = objective.model
    if isinstance(model, ClassModel) and model.coefficient_rows > 1 and not objective.penalty.everywhere:
        free = np.flatnonzero(objective.ridge.reshape(model.coefficient_rows, -1).max(axis=0) == 0)
        H = Dense(grounded(H.as_matrix(), model.coefficient_rows, free), majorizes=False)
    return value, gradient, H
