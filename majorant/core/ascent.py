"""A start for sequences: dual ascent in rounds, as long as it contracts well.

Each sequence is moved exactly as far as the dual objective rises (a model's
:class:`~majorant.core.model.DualAscent`), so there is no step size. The first rounds visit all sequences, later
ones those that promise most: what a visit brought the last time says what another one would. Neither F nor the dual
objective is evaluated on the way; promises tell when to look. The mean of θ over a round is far better than θ at its
end: what is looked at is that of a round of its own, since a mean that is worth it takes many looks at θ.

Rounds are the work of one thread. Groups of sequences that move copies of θ, added up eight times a round, each settle
what is frequent for themselves, and together go too far: four diverged on CoNLL-2000. If each expects the others to
move frequent attributes as it does, that ends, but to 1.001 times the least objective seen, with copies added up ten
times a round, two groups took 9.5 passes and four 15.9, where one thread took 6.6. Visits to eight sequences at the
same θ, which then moves by all of them at once, in lock-free tasks of some ten microseconds, took as many passes (6.9),
and two threads 0.7 of the time of one, eight 0.6; but one thread took a twentieth longer, on another processor half as
long again, and part-of-speech tags 15 passes instead of 10.6 (CoNLL-2000, c2 = 1, a certified 10⁻³): in seconds, eight
threads were a tenth quicker than one is here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from majorant.core.checks import Array
from majorant.core.curvature import Diagonal, Factorize
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.starts import Begun, Unridged, from_online_pass

# With fewer sequences than this, too much of θ moves at a time.
LEAST_ROWS = 30
# Rounds over all sequences before promises are believed.
FULL_ROUNDS = 2
# Later rounds visit those that make up this share of all promises; those of others grow, and none is quite forgotten.
COVERED, AGEING, LEAST = 0.8, 1.5, 0.02
# The first look is worth its price when no more than this share of the dual objective is promised; then less each time.
FIRST_LOOK, NEXT_LOOK = 2e-3, 0.1
# Of θ in a round, to be averaged: where F is stiff, θ strays to all sides.
SNAPSHOTS = 100
# A round is slow if promises shrink to more than this share, before the first look and after; so many slow ones end it.
SLOW, VERY_SLOW, PATIENCE = 0.9, 0.98, 2
# The same where every round is a pass. Those that settle what is rare are slow, and certificates wait for them.
SLOW_PASS = 0.87
# Where the next look is more passes away than this, quasi-Newton steps certify sooner.
FAR = 5.0
MOST_ROUNDS = 500
# Of the diagonal that scales steps. Attributes of a token are far from independent, so the diagonal is too stiff where
# they are frequent: at c2 ≤ 0.01, 0.75 saves an eighth of the passes of 1, and 0.5 loses as much where tokens are many.
POWER = 0.75


@dataclass(frozen=True, eq=False)
class Ascent:
    """How far the rounds have come: the marginals, the mean θ of the last round, and what is still promised."""

    work: Any
    theta: Array
    promised: float = np.inf
    rate: float = 0.0  # to which share of itself that shrank
    passes: float = 1.0  # of the last round
    rounds: int = 0
    slow: int = 0
    look: float = FIRST_LOOK
    finite: bool = True

    @property
    def contracts(self) -> bool:
        """Whether further rounds are worth it."""
        return self.finite and self.slow < PATIENCE and self.rounds < MOST_ROUNDS

    @property
    def near(self) -> bool:
        """Whether another round is enough for a look at F to be worth its price, or the last that there is."""
        return not self.contracts or (self.rounds >= FULL_ROUNDS and self._left * self.rate <= self._enough)

    @property
    def far(self) -> bool:
        """Whether the next look is so far away that quasi-Newton steps are worth more."""
        if not 0 < self.rate < 1:
            return self.rate > 0
        return bool(self.passes * np.log(NEXT_LOOK) / np.log(self.rate) > FAR)

    @property
    def done(self) -> bool:
        """Whether a look at F is worth its price."""
        return not self.contracts or (self.rounds > FULL_ROUNDS and self._left <= self._enough)

    @property
    def _left(self) -> float:
        """What all rounds to come promise."""
        return self.promised * max(1.0, self.rate / max(1 - self.rate, 1e-9)) if self.rate < 1 else np.inf

    @property
    def _enough(self) -> float:
        return self.look * abs(self.work.value)

    def revived(self, objective: Objective) -> Ascent:
        """Return the same with the sequences that marginals are of."""
        work = marginals(objective)
        work.take_up(self.work)
        return replace(self, work=work)

    def go_on(self, objective: Objective, before: Point | None, seed: int) -> Begun:
        """Return the point after a few more rounds; where they have ended, what steps from there are scaled by."""
        after = ascend(objective, self, seed)
        point = objective.point(after.theta) if after.finite else None
        if point is None or not point.value <= objective.value_at_zero():
            return _started_over(objective, seed)
        if after.contracts and not after.far:
            return Begun(point, sweeps=after)
        done = (f"{after.rounds} rounds of dual ascent, and the diagonal of the Hessian",)
        best = point if before is None or point.value < before.value else before
        return Begun(best, after.scale(objective), least_factor=0.0, account=done)

    def scale(self, objective: Objective) -> Factorize:
        """Return what steps are scaled by: a power of the diagonal of the Hessian, of the marginals that there are.

        These are nearer to those at the optimum than the ones of θ: with a small penalty θ has to grow far, and
        p(1 − p) to shrink, while marginals begin at what was observed.
        """
        objective.spend(curvatures=1)
        entries = (self.work.hessian_diagonal() + objective.ridge) ** POWER
        return Unridged(Diagonal(entries, majorizes=False).factorized())


def suits(objective: Objective, theta: Array) -> bool:
    """Return whether the model has a dual ascent, there are many rows, every parameter has a ridge, and θ is zero."""
    penalty = objective.penalty
    if not objective.comes_here or objective.rows < LEAST_ROWS or theta.any():
        return False
    if penalty.prior is None or not penalty.everywhere:
        return False
    return objective.model.ascends(objective.data)


def begin(objective: Objective, theta: Array, seed: int) -> Begun:
    """Return the point after the first rounds, from zero; the diagonal of the Hessian where it ends is the metric."""
    return Ascent(marginals(objective), theta).go_on(objective, None, seed)


def marginals(objective: Objective) -> Any:
    """Return what was observed, and θ = 0 with it."""
    return objective.model.dual_ascent(objective.data, objective.penalty.as_prior())


def ascend(objective: Objective, ascent: Ascent, seed: int) -> Ascent:
    """Return the state after as many rounds as it takes for a look at F to be worth its price."""
    ascent = replace(ascent, work=_as_it_was(objective, ascent, seed))
    averaged = False
    while not (averaged and ascent.done) and ascent.finite:
        averaged = ascent.near
        ascent = _after_round(objective, ascent, seed, SNAPSHOTS if averaged else 1)
    theta = ascent.work.average() if ascent.finite else ascent.theta
    return replace(ascent, theta=theta, look=ascent.look * NEXT_LOOK)


def _as_it_was(objective: Objective, ascent: Ascent, seed: int) -> Any:
    """Return the marginals after the rounds of a state: they move in place, and those of earlier ones found again."""
    if ascent.work.rounds == ascent.rounds:
        return ascent.work
    start = marginals(objective)
    while start.rounds < ascent.rounds:
        start.visit(_order(start, seed))
    return start


def _started_over(objective: Objective, seed: int) -> Begun:
    """Return the start without dual ascent, and say so: numbers ran off, or there was no room left for marginals."""
    begun = from_online_pass(objective, np.zeros(objective.size), seed)
    return replace(begun, remark="dual ascent did not lead to the optimum, so an online pass made the start instead")


def _after_round(objective: Objective, ascent: Ascent, seed: int, snapshots: int = 1) -> Ascent:
    """Return the state after one more round."""
    work = ascent.work
    order = _order(work, seed)
    finite = work.visit(order, snapshots)
    passes, promised = float(work.lengths[order].sum() / work.lengths.sum()), float(work.gains.sum())
    objective.spend(passes=passes)
    rate = promised / ascent.promised if promised > 0 else 0.0
    slow = ascent.slow + 1 if rate > _slow(ascent) else 0
    return replace(
        ascent, promised=promised, rate=rate, passes=passes, rounds=ascent.rounds + 1, slow=slow, finite=finite
    )


def _slow(ascent: Ascent) -> float:
    """Return the share of themselves that promises shrink to in a slow round."""
    if not ascent.work.selects:
        return SLOW_PASS
    return SLOW if ascent.look == FIRST_LOOK else VERY_SLOW


def _order(work: Any, seed: int) -> Array:
    """Return the sequences of the next round."""
    everyone = work.rounds < FULL_ROUNDS or not work.selects
    chosen = np.arange(len(work.gains)) if everyone else _most_promising(work)
    return np.random.default_rng([seed, work.rounds]).permutation(chosen)


def _most_promising(work: Any) -> Array:
    """Return the sequences that promise most for their length; let the promises of the others grow."""
    gains = work.gains
    np.maximum(gains, LEAST * gains.mean(), out=gains)
    ranked = np.argsort(-gains / np.maximum(work.lengths, 1))
    covered = np.cumsum(gains[ranked])
    enough = int(np.searchsorted(covered, COVERED * covered[-1])) + 1
    gains[ranked[enough:]] *= AGEING
    return ranked[:enough]
