"""A start for sequences: dual ascent in rounds, as long as it contracts well.

Each sequence is moved exactly as far as the dual objective rises (a model's
:class:`~majorant.models.answers.DualAscent`), so there is no step size. The first rounds visit all sequences, later
ones those that promise most: what a visit brought the last time says what another one would. The mean of θ over a
round is far better than θ at its end. Neither F nor the dual objective is evaluated on the way; promises tell when to
look.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.objective import Objective, Point
from majorant.solvers.preconditioners import DiagonalOfHessian
from majorant.solvers.starts import Begun, FromOnlinePass, Start

# With fewer sequences than this, too much of θ moves at a time.
LEAST_ROWS = 30
# Rounds over all sequences before promises are believed.
FULL_ROUNDS = 2
# Later rounds visit those that make up this share of all promises; those of others grow, and none is quite forgotten.
COVERED, AGEING, LEAST = 0.8, 1.5, 0.02
# The first look is worth its price when no more than this share of the dual objective is promised; then less each time.
FIRST_LOOK, NEXT_LOOK = 2e-3, 0.1
# A round is slow if promises shrink to more than this share; so many slow ones end it.
SLOW, PATIENCE = 0.9, 2
MOST_ROUNDS = 500


@dataclass(frozen=True, eq=False)
class Ascent:
    """How far the rounds have come: the marginals, the mean θ of the last round, and what is still promised."""

    work: Any
    theta: Array
    promised: float = np.inf
    rounds: int = 0
    slow: int = 0
    look: float = FIRST_LOOK
    finite: bool = True

    @property
    def contracts(self) -> bool:
        """Whether further rounds are worth it."""
        return self.finite and self.slow < PATIENCE and self.rounds < MOST_ROUNDS

    def go_on(self, objective: Objective, before: Point | None, seed: int) -> Begun:
        """Return the point after a few more rounds; where they have ended, what steps from there are scaled by."""
        after = ascend(objective, self, seed)
        point = objective.point(after.theta) if after.finite else None
        if point is None or not point.value <= objective.value_at_zero():
            return _started_over(objective, seed)
        if after.contracts:
            return Begun(point, sweeps=after)
        best = point if before is None or point.value < before.value else before
        done = (f"{after.rounds} rounds of dual ascent, and the diagonal of the Hessian",)
        return Begun(best, DiagonalOfHessian().at(objective, best), least_factor=0.0, account=done)


@dataclass(frozen=True)
class FromAscent(Start):
    """Dual ascent from zero; the diagonal of the Hessian where it ends scales the steps after."""

    def suits(self, objective: Objective, theta: Array) -> bool:
        """Return whether the model has one, there are many rows, every parameter has a ridge, and θ is zero."""
        whole, penalty = objective.whole, objective.penalty
        if whole is None or len(whole) < LEAST_ROWS or theta.any():
            return False
        if penalty.prior is None or not penalty.everywhere:
            return False
        return objective.model.ascends(whole)

    def begin(self, objective: Objective, theta: Array, seed: int) -> Begun:
        """Return the point after the first rounds."""
        work = objective.model.dual_ascent(objective.whole, objective.penalty.as_prior())
        return Ascent(work, theta).go_on(objective, None, seed)


def ascend(objective: Objective, ascent: Ascent, seed: int) -> Ascent:
    """Return the state after as many rounds as it takes for a look at F to be worth its price."""
    ascent = replace(ascent, work=ascent.work.copy() if ascent.rounds else ascent.work)
    while ascent.contracts:
        ascent, done = _after_round(objective, ascent, np.random.default_rng([seed, ascent.rounds]))
        if done:
            break
    theta = ascent.work.average() if ascent.finite else ascent.theta
    return replace(ascent, theta=theta, look=ascent.look * NEXT_LOOK)


def _started_over(objective: Objective, seed: int) -> Begun:
    """Return the start without dual ascent, and say so."""
    begun = FromOnlinePass().begin(objective, np.zeros(objective.size), seed)
    return replace(begun, remark="dual ascent led away from the optimum, so an online pass made the start instead")


def _after_round(objective: Objective, ascent: Ascent, rng: np.random.Generator) -> tuple[Ascent, bool]:
    """Return the state after one more round, and whether little enough is promised now."""
    work = ascent.work
    chosen = np.arange(len(work.gains)) if ascent.rounds < FULL_ROUNDS else _most_promising(work)
    finite = work.visit(rng.permutation(chosen))
    objective.spend(passes=float(work.lengths[chosen].sum() / work.lengths.sum()))
    promised = float(work.gains.sum())
    rate = promised / ascent.promised if promised > 0 else 0.0
    slow = ascent.slow + 1 if rate > SLOW else 0
    left = promised * max(1.0, rate / max(1 - rate, 1e-9)) if rate < 1 else np.inf
    ascent = replace(ascent, promised=promised, rounds=ascent.rounds + 1, slow=slow, finite=finite)
    return ascent, ascent.rounds > FULL_ROUNDS and left <= ascent.look * abs(work.value)


def _most_promising(work: Any) -> Array:
    """Return the sequences that promise most for their length; let the promises of the others grow."""
    gains = work.gains
    np.maximum(gains, LEAST * gains.mean(), out=gains)
    ranked = np.argsort(-gains / np.maximum(work.lengths, 1))
    covered = np.cumsum(gains[ranked])
    enough = int(np.searchsorted(covered, COVERED * covered[-1])) + 1
    gains[ranked[enough:]] *= AGEING
    return ranked[:enough]
