"""A start for rows that are not many more than columns: the problem is solved in their space, where steps are cheap."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10, sqrt

import numpy as np

from majorant._checks import Array
from majorant.data import Labelled
from majorant.objective import Objective, Point
from majorant.objective.row_space import RowSpace, square_of_a_row
from majorant.solvers.base import improves
from majorant.solvers.forecasts import expected_steps, least_steps
from majorant.solvers.preconditioners import HessianOfAll
from majorant.solvers.prices import MULTIPLY, Prices
from majorant.solvers.renting import SMALL_CHANGE
from majorant.solvers.row_newton import newton, price_of_a_product
from majorant.solvers.starts import Begun, Start

# More rows make a matrix that is not small; and a product with it should cost no more than one with the Hessian.
MOST_ROWS, ROWS_PER_COLUMN = 4_000, 2
# Products for each step in all columns, and passes over these.
PRODUCTS, PASSES = 4.0, 3.0
# A number that is copied in single precision.
COPIED = 1.0


@dataclass(frozen=True)
class FromRowSpace(Start):
    """Newton's steps among combinations of rows, where the optimum of all columns is."""

    steps: int  # at most

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether products of all pairs of rows cost less than they are expected to save."""
        if not can_be(objective):
            return False
        more = _more_steps(objective)
        # Correlations are looked at only where they may decide; a Gram matrix of fewer columns knows them better.
        looks = (least_steps, expected_steps) if objective.rows < Prices.of(objective).columns else (least_steps,)
        return any(_costs(objective, steps := more * look(objective)) < steps for look in looks)

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the optimum, but for rounding."""
        space, likely = RowSpace.of(objective), objective.facts.likely_intercept
        place, work = newton(space, np.zeros(len(space.ridge)) if likely is None else likely, self.steps)
        passes = 2.0 + work.products * objective.rows * space.ridge.shape[0] / (2 * objective.size)
        objective.spend(passes=passes, curvatures=1 + work.factors)
        point = objective.point(space.parameters(place.Z))
        if not point.value <= objective.value_at_zero():  # in single precision, of columns that are far from zero
            return Begun(objective.point(theta))
        return Begun(point, made=work.steps, account=(f"steps in the space of {objective.rows} rows",), done=True)

    def better_than(self, objective: Objective, here: Point, seed: int) -> Begun | None:
        """Return the same, if F is lower there than where steps in all columns have led."""
        begun = self.begin(objective, here.theta, seed)
        return begun if improves(objective, begun.point, here) else None


def in_steps(objective: Objective) -> float:
    """Return as many steps in all columns as all steps there cost, infinitely many if there can be none."""
    return _costs(objective, _more_steps(objective) * least_steps(objective)) if can_be(objective) else np.inf


def can_be(objective: Objective) -> bool:
    """Return whether rows make a small problem."""
    t = objective.rows
    if not (objective.model.has_rows and objective.convex and t <= MOST_ROWS and RowSpace.suits(objective)):
        return False
    prices, hessian = Prices.of(objective), HessianOfAll()
    if hessian.suits(objective) and hessian.price(prices) <= SMALL_CHANGE:
        return False  # of a few parameters nothing is quicker
    if t < prices.columns:
        return True
    # Steps in fewer columns have matrices of their own, but between classes these know little.
    return t <= ROWS_PER_COLUMN * prices.columns and prices.classes > 1 and RowSpace.narrows(objective)


def _costs(objective: Objective, steps: float) -> float:
    """Return what a solution costs there, in steps in all columns, of which there would be so many."""
    prices = Prices.of(objective)
    t, p = prices.rows, prices.columns
    pairs = t * p * (0.25 * MULTIPLY * t + COPIED)  # products are symmetric, and in single precision
    products = PRODUCTS * steps * price_of_a_product(prices.classes, t)
    return (pairs + products + PASSES * prices.step()) / prices.whole_step()


def _more_steps(objective: Objective) -> float:
    """Return how many times more steps a weak penalty takes: rows saturate, by the logarithm of what curves them.

    Of t rows and p columns the largest eigenvalue of a Hessian is about w(√t + √p)² times the square of a number of X.
    """
    data, n, t = objective.whole, objective.model.classes(objective.like), objective.rows
    assert isinstance(data, Labelled)
    p, λ = data.n_features, objective.ridge[0]
    weight = 0.25 if n == 1 else (n - 1) / n**2
    return max(log10(weight * (sqrt(t / p) + 1.0) ** 2 * square_of_a_row(data) / λ), 1.0)
