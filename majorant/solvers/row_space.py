"""A start for rows that are fewer than columns: the problem is solved in their space, where steps are next to free."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.objective import Objective, Point
from majorant.objective.row_space import RowSpace
from majorant.solvers.base import State, SteppingSolver, improves
from majorant.solvers.forecasts import expected_steps, least_steps
from majorant.solvers.prices import MULTIPLY, Prices
from majorant.solvers.starts import Begun, Start

# More rows make a matrix that is not small.
MOST_ROWS = 4_000
# Steps that are usual there, of one score and of several, and products of matrices of that size on the way.
STEPS, STEPS_OF_CLASSES, MATRICES = 14, 28, 1.5
# Steps end where one has gained less than this, relative to F, or a certificate would be clearly below the tolerance.
ENOUGH, CLEARLY = 1e-12, 0.5


@dataclass(frozen=True)
class FromRowSpace(Start):
    """Steps of a solver on a problem of as many columns as there are rows, whose optimum is that of all columns."""

    solver: SteppingSolver[Any]
    steps: int  # at most
    tol: float = 0.0  # that a certificate has to come to, relative to F

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether products of all pairs of rows cost less than they are expected to save."""
        price = in_steps(objective)
        # Correlations are looked at only where they may decide.
        return price < np.inf and (price < least_steps(objective) or price < expected_steps(objective))

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the optimum, but for rounding, or what is certified to be near enough.

        Gradients of both problems are as long as each other, and so is what strong convexity makes of them.
        """
        space, made, gain = RowSpace.of(objective), 0, np.inf
        state = self.solver.start(space.objective, np.zeros(space.objective.size))
        while made < self.steps and not state.stalled and gain > ENOUGH and not self._is_near(space.objective, state):
            before, state, made = state, self.solver.step(space.objective, state), made + 1
            gain = _gain(before, state)
        objective.spend(passes=space.objective.work.passes * objective.rows / objective.size, curvatures=1)
        point = objective.point(space.back(state.theta))
        return Begun(point, made=made, account=(f"steps in the space of {objective.rows} rows",))

    def _is_near(self, small: Objective, state: State) -> bool:
        here = state.point
        return here is not None and small.estimated_gap(here.value, here.gradient) <= CLEARLY * self.tol

    def better_than(self, objective: Objective, here: Point, seed: int) -> Begun | None:
        """Return the same, if F is lower there than where steps in all columns have led."""
        begun = self.begin(objective, here.theta, seed)
        return begun if improves(objective, begun.point, here) else None


def in_steps(objective: Objective) -> float:
    """Return as many steps in all columns as all steps there cost, infinitely many if there can be none."""
    rows = objective.rows
    if not (objective.model.has_rows and objective.convex and 2 * rows <= objective.size and rows <= MOST_ROWS):
        return np.inf
    prices = Prices.of(objective)
    if 2 * rows > prices.columns or not RowSpace.suits(objective):
        return np.inf
    small, steps = replace(prices, columns=rows, stored=rows), STEPS if prices.classes == 1 else STEPS_OF_CLASSES
    products = rows * rows * MULTIPLY * (0.5 * prices.columns + MATRICES * rows)  # of which the first is symmetric
    return (products + prices.step() + steps * small.whole_step()) / prices.whole_step()


def _gain(before: State, after: State) -> float:
    """Return by how much F has fallen, relative to itself."""
    if before.point is None or after.point is None:
        return np.inf
    return (before.point.value - after.point.value) / max(abs(after.point.value), 1e-300)
