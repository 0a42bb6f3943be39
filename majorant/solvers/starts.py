"""Where quasi-Newton steps start: a cheap method is taken as far as it goes well, and hands over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from majorant._checks import Array
from majorant.curvature import Dense, Diagonal, Factorize, Solve
from majorant.objective import Objective, Point
from majorant.solvers import dual
from majorant.solvers.descent import Newton
from majorant.solvers.forecasts import sample_pays
from majorant.solvers.online import OnlineMajorization
from majorant.solvers.prices import Prices, pays_in_single_precision
from majorant.solvers.secants import Scaled

# Rows of a sample for each column of X and for each parameter, and at least so many; more while its steps cost no more
# than so many steps on all rows. It is at most a quarter of them.
ROWS_PER_COLUMN = 20
ROWS_PER_PARAMETER = 5
LEAST_ROWS = 1_000
SMALLEST_SHARE = 4
SAMPLE_BUDGET = 3.0
# Numbers of a sample whose rows are fetched from files or workers.
FETCHED = 2**22
# Newton steps on the sample stop here: its optimum is not that of all rows.
SAMPLE_STEPS = 8
USUAL_STEPS = 5
SAMPLE_TOLERANCE = 1e-4
# Of the curvature that a sample leaves behind.
QUALITY_OF_SAMPLE = 3


@dataclass(frozen=True, eq=False)
class Begun:
    """A point to go on from, what steps from there are scaled by if that is known, and what is left to do before."""

    point: Point
    factorize: Factorize | None = None
    least_factor: float | None = None  # of it, if it is right but for a factor, which secant pairs tell
    sweeps: Sweeps | None = None  # of a start that is not done yet
    quality: int = 1  # of the curvature: better than a diagonal
    made: int = 0  # steps on the way, if it was by steps
    account: tuple[str, ...] = ()  # what was done
    remark: str = ""  # what a user should know of how it went
    done: bool = False  # whether next to nothing is left to do


class Sweeps(Protocol):
    """What a start that is not done yet has to be gone on with."""

    def go_on(self, objective: Objective, before: Point, seed: int) -> Begun:
        """Return how much further it got from the point before."""

    def revived(self, objective: Objective) -> Sweeps:
        """Return the same with the data that no file holds."""


class Start(ABC):
    """A way to start."""

    @abstractmethod
    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether it can start at θ, and is worth its price."""

    @abstractmethod
    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return how far it got. ``seed`` says which rows come first, or at all."""


@dataclass(frozen=True)
class FromSample(Start):
    """A few Newton steps on some of the rows, with as much of the penalty; their Hessian scales the steps after."""

    steps: int = SAMPLE_STEPS  # at most

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether a sample is much smaller than the data, and its Hessians are affordable."""
        if not (objective.model.has_rows and objective.convex):
            return False
        prices, rows = Prices.of(objective), self._least(objective)
        affordable = USUAL_STEPS * prices.hessian(rows) <= SAMPLE_BUDGET * prices.step()
        if not (affordable and SMALLEST_SHARE * rows <= objective.rows):
            return False
        size, narrows = self.size(objective), pays_in_single_precision(objective)
        price = USUAL_STEPS * prices.hessian(size) / prices.step()
        return sample_pays(objective, size, price, narrows=narrows)

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the optimum of the sample, nearly, or θ if that is the better point."""
        of_sample, factorize, account, made = self._newton(objective, theta, seed)
        point = objective.point(of_sample)
        at_start = objective.value(theta) if theta.any() else objective.value_at_zero()
        if not point.value < at_start:
            point = objective.point(theta)
        return Begun(point, factorize, quality=QUALITY_OF_SAMPLE, made=made, account=(account,))

    def size(self, objective: Objective) -> int:
        """Return how many rows are taken."""
        least, prices = self._least(objective), Prices.of(objective)
        affordable = SAMPLE_BUDGET * prices.step() / (USUAL_STEPS * prices.hessian(least)) * least
        if objective.whole is None:
            affordable = min(affordable, FETCHED / max(prices.stored, 1.0))
        return min(max(least, int(min(affordable, objective.rows / SMALLEST_SHARE))), objective.rows)

    @staticmethod
    def _least(objective: Objective) -> int:
        """Return how many rows a sample needs for its Hessian to stand for that of all."""
        columns = objective.size // max(objective.model.classes(objective.like), 1)
        return max(ROWS_PER_COLUMN * columns, ROWS_PER_PARAMETER * objective.size, LEAST_ROWS)

    def _newton(self, objective: Objective, theta: Array, seed: int) -> tuple[Array, OfSample, str, int]:
        sample, newton, made = objective.sampled(self.size(objective), seed), Newton(), 0
        state = newton.start(sample, theta)
        for _ in range(self.steps):
            assert state.point is not None
            if -(state.point.gradient @ state.direction) <= SAMPLE_TOLERANCE * abs(state.point.value):
                break
            state, made = newton.step(sample, state), made + 1
            if state.stalled:
                break
        share = sample.rows / objective.rows
        objective.spend(passes=share * sample.work.passes, curvatures=sample.work.curvatures)
        assert state.curvature is not None
        account = f"Newton steps on {sample.rows} of {objective.rows} rows, and their Hessian"
        return state.theta, OfSample(state.curvature, share), account, made


@dataclass(frozen=True, eq=False)
class OfSample:
    """The Hessian of a share of the rows, which stands for that of all."""

    hessian: Dense
    share: float

    def __call__(self, ridge: Array) -> Solve:
        """Return the inverse for a ridge."""
        return Scaled(self.hessian.steadied(self.share * ridge), self.share)


@dataclass(frozen=True, eq=False)
class Unridged:
    """A scale of steps that is what it is, whatever the ridge."""

    solve: Solve

    def __call__(self, ridge: Array) -> Solve:
        """Return the scale."""
        return self.solve


@dataclass(frozen=True)
class FromOnlinePass(Start):
    """An online pass over the sequences of a chain; the root of its precision scales the steps after.

    Attributes of a token are far from independent, so the precision itself is too stiff where they are frequent.
    Values on wild scales may lead astray: then one starts at zero after all.
    """

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether there is such a pass, from zero."""
        can = objective.model.learns_online() and not theta.any()
        return can and objective.penalty.prior is not None and objective.penalty.everywhere

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the point after the pass."""
        online = OnlineMajorization(seed=seed)
        after = online.step(objective, online.start(objective, theta))
        root, point = np.sqrt(after.curvature.entries), objective.point(after.theta)
        if not point.value <= objective.value_at_zero():
            point = objective.point(theta)
        scale = Unridged(Diagonal(root, majorizes=False).factorized())
        return Begun(point, scale, least_factor=0.0, account=("an online pass, and the root of its precision",))


@dataclass(frozen=True)
class FromDual(Start):
    """Dual coordinate descent, for wide data, as long as it contracts well (``majorant.solvers.dual``)."""

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether rows have the form for it."""
        return dual.suits(objective, theta)

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the point after the first sweeps."""
        return DualSweeps(dual.begin(objective)).go_on(objective, None, seed)


@dataclass(frozen=True, eq=False)
class DualSweeps:
    """Sweeps of dual coordinate descent."""

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


@dataclass(frozen=True)
class FromPoint(Start):
    """θ, as it is."""

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return True."""
        return True

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the point θ."""
        return Begun(objective.point(theta))
