"""A start for rows that are fewer than columns: the problem is solved in their space, where steps are next to free."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.objective import Objective
from majorant.objective.row_space import RowSpace
from majorant.solvers.base import SteppingSolver
from majorant.solvers.forecasts import least_steps
from majorant.solvers.prices import MULTIPLY, Prices
from majorant.solvers.starts import Begun, Start

# More rows make a matrix that is not small.
MOST_ROWS = 4_000
# What a step costs besides, in nanoseconds, where matrices as large as the data are bought on the way.
MATRICES = 5e5
# Steps end where they promise to gain less than this, relative to F: what is left is rounding.
ENOUGH = 1e-10


@dataclass(frozen=True)
class FromRowSpace(Start):
    """Steps of a solver on a problem of as many columns as there are rows, whose optimum is that of all columns."""

    solver: SteppingSolver[Any]
    steps: int  # at most

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether products of all pairs of rows cost less than they are expected to save."""
        rows = objective.rows
        if not (objective.model.has_rows and 2 * rows <= objective.size and rows <= MOST_ROWS):
            return False
        prices = Prices.of(objective)
        if 2 * rows > prices.columns or not RowSpace.suits(objective):
            return False
        small, expected = replace(prices, columns=rows, stored=rows), least_steps(objective)
        products = rows * rows * prices.columns * MULTIPLY
        inside = products + prices.step() + expected * (small.whole_step() + MATRICES)
        return inside < expected * prices.whole_step()

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the optimum, but for rounding."""
        space, made = RowSpace.of(objective), 0
        state = self.solver.start(space.objective, np.zeros(space.objective.size))
        while made < self.steps and not _is_done(state):
            state, made = self.solver.step(space.objective, state), made + 1
        objective.spend(passes=space.objective.work.passes * objective.rows / objective.size, curvatures=1)
        point = objective.point(space.back(state.theta))
        return Begun(point, made=made, account=(f"steps in the space of {objective.rows} rows",))


def _is_done(state: Any) -> bool:
    return state.stalled or (state.point is not None and state.promise() <= ENOUGH * state.point.value)
