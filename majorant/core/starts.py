"""Where quasi-Newton steps start: a cheap method is taken as far as it goes well, and leaves a point and a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from majorant.core import dual
from majorant.core.checks import Array
from majorant.core.curvature import Dense, Diagonal, Factorize, Solve
from majorant.core.descent import Newton
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.online import OnlineMajorization
from majorant.core.prices import STEP, Prices
from majorant.core.quasi_newton import Scaled

# Rows of a sample for each column of X and for each parameter, for its Hessian to stand for that of all rows; a sample
# is at most a quarter of the rows.
ROWS_PER_COLUMN, ROWS_PER_PARAMETER, QUARTER = 20, 5, 4
# Numbers of a sample whose rows are fetched from files or workers.
FETCHED = 2**22
# Newton steps on a sample stop where one promises less than this share of F: its optimum is not that of all rows.
SAMPLE_STEPS, SAMPLE_TOLERANCE = 8, 1e-4
# Place in the ladder of metrics of the Hessian of a sample, and of what other starts leave.
OF_SAMPLE, OF_START = 3, 1


@dataclass(frozen=True, eq=False)
class Begun:
    """A point to go on from, the metric of the steps from there if it is known, and what is left to do before."""

    point: Point
    factorize: Factorize | None = None
    least_factor: float | None = None  # of the metric, if it is right but for a factor, which L-BFGS pairs tell
    sweeps: Sweeps | None = None  # of a start that is not done yet
    level: int = OF_START  # of the metric, in the ladder
    made: int = 0  # steps on the way
    account: tuple[str, ...] = ()  # what was done
    remark: str = ""  # what a user should know of how it went


class Sweeps(Protocol):
    """A start that goes on, one look at F at a time."""

    def go_on(self, objective: Objective, before: Point, seed: int) -> Begun:
        """Return how much further it got from the point before."""

    def revived(self, objective: Objective) -> Sweeps:
        """Return the same with the data that no file holds."""


# --- Newton's method on a sample ------------------------------------------------------------------------------


def sample_size(objective: Objective) -> int:
    """Return how many rows make a sample of which two Newton steps cost one L-BFGS step; 0 if too few to be one."""
    if not (objective.model.has_rows and objective.convex):
        return 0
    prices, least = Prices.of(objective), _least_rows(objective)
    fixed, of_least = STEP + prices.hessian(0), STEP + prices.hessian(least)
    if QUARTER * least > objective.rows or 2 * of_least > prices.step():
        return 0
    affordable = least * (prices.step() / 2 - fixed) / (of_least - fixed)
    if objective.whole is None:
        affordable = min(affordable, FETCHED / max(prices.stored, 1.0))
    return max(least, int(min(affordable, objective.rows / QUARTER)))


def from_sample(objective: Objective, theta: Array, seed: int, rows: int, steps: int) -> Begun:
    """Return nearly the optimum of a sample, or θ if that is better, and the Hessian of the sample."""
    sample, newton, made = objective.sampled(rows or _least_rows(objective), seed), Newton(), 0
    state = newton.start(sample, theta)
    for _ in range(min(SAMPLE_STEPS, steps)):
        assert state.point is not None
        if -(state.point.gradient @ state.direction) <= SAMPLE_TOLERANCE * abs(state.point.value):
            break
        state, made = newton.step(sample, state), made + 1
        if state.stalled:
            break
    share = sample.rows / objective.rows
    objective.spend(passes=share * sample.work.passes, curvatures=sample.work.curvatures)
    assert state.curvature is not None
    point = objective.point(state.theta)
    if not point.value < (objective.value(theta) if theta.any() else objective.value_at_zero()):
        point = objective.point(theta)
    account = (f"Newton steps on {sample.rows} of {objective.rows} rows, and their Hessian",)
    return Begun(point, OfSample(state.curvature, share), level=OF_SAMPLE, made=made, account=account)


def _least_rows(objective: Objective) -> int:
    columns = objective.size // max(objective.model.classes(objective.like), 1)
    return min(max(ROWS_PER_COLUMN * columns, ROWS_PER_PARAMETER * objective.size), objective.rows)


@dataclass(frozen=True, eq=False)
class OfSample:
    """The Hessian of a share of the rows, which stands for that of all."""

    hessian: Dense
    share: float

    def __call__(self, ridge: Array) -> Solve:
        """Return the inverse for a ridge."""
        return Scaled(self.hessian.steadied(self.share * ridge), self.share)


# --- wide sparse rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DualSweeps:
    """Sweeps of dual coordinate descent (``majorant.core.dual``), as long as they contract well."""

    state: dual.Dual

    def revived(self, objective: Objective) -> DualSweeps:
        """Return the same with the rows."""
        return DualSweeps(self.state.revived(objective))

    def go_on(self, objective: Objective, before: Point | None, seed: int) -> Begun:
        """Return the point after a few more sweeps, or the one before if they were poor."""
        swept = dual.sweep(objective, self.state, seed)
        theta = swept.theta
        if swept.is_free and not swept.contracts:  # those who go on may not move an intercept by itself
            theta = objective.with_best_intercept(theta)
        point = objective.point(theta)
        if not point.value <= objective.value_at_zero():  # rows on wild scales
            return Begun(objective.point(np.zeros(objective.size)))
        if swept.contracts:
            return Begun(point, sweeps=DualSweeps(swept))
        done = (f"{swept.sweeps} sweeps of dual coordinate descent",)
        return Begun(point if before is None or point.value < before.value else before, account=done)


# --- chains ---------------------------------------------------------------------------------------------------


def learns_online(objective: Objective, theta: Array) -> bool:
    """Return whether an online pass can be the start: of a chain, from zero, with every parameter penalised."""
    can = objective.model.learns_online() and not theta.any()
    return can and objective.penalty.prior is not None and objective.penalty.everywhere


def from_online_pass(objective: Objective, theta: Array, seed: int) -> Begun:
    """Return the point after an online pass over the sequences of a chain; the root of its precision is the metric.

    Attributes of a token are far from independent, so the precision itself is too stiff where they are frequent.
    Values on wild scales may lead astray: then one starts at zero after all.
    """
    online = OnlineMajorization(seed=seed)
    after = online.step(objective, online.start(objective, theta))
    root, point = np.sqrt(after.curvature.entries), objective.point(after.theta)
    if not point.value <= objective.value_at_zero():
        point = objective.point(theta)
    metric = Unridged(Diagonal(root, majorizes=False).factorized())
    return Begun(point, metric, least_factor=0.0, account=("an online pass, and the root of its precision",))


@dataclass(frozen=True, eq=False)
class Unridged:
    """A metric that is what it is, whatever the ridge."""

    solve: Solve

    def __call__(self, ridge: Array) -> Solve:
        """Return its inverse."""
        return self.solve
