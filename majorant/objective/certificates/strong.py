"""How far from the optimum a point is at most, rounding errors included.

F is strongly convex in the norm of the penalty, so F(θ) − F* ≤ ½ Σ_i g_i²/λ_i. With a free intercept F is first
minimised along it; then strong convexity in the rest gives the same bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from majorant._checks import Array
from majorant._vectors import norm
from majorant.models.answers import WithIntercept
from majorant.models.rounding import CALM, Unrest
from majorant.objective.certificates.base import EPSILON, NEAR, Certificate, share
from majorant.objective.intercept import LostToTheCentre, profile_intercept
from majorant.objective.ray import Point
from majorant.objective.reduce import Again, Kept
from majorant.objective.tasks import Lift, LossAndGradient, Scores, Widened

if TYPE_CHECKING:
    from majorant.objective.objective import Objective

# A coarse bound on rounding errors is good enough if it makes a gap so much larger.
NEGLIGIBLE = 1.01
# A share of a gradient that an intercept which is not quite at its best may hide.
UNSEEN = 5e-4


def certify(F: Objective, at: Point, *, move: bool) -> Certificate:
    """Return a point at least as good as θ and its gap; see :meth:`Objective.certify`."""
    facts = F.facts
    if not facts.certifiable:
        point = F.point(at.theta, keep=False)
        return Certificate(at.theta, point.value, point.gradient, float("nan"))
    if F.narrow:
        at = replace(at, theta=at.theta.astype(facts.precision).astype(np.float64))
    theta = at.theta
    if facts.intercept is not None:
        return _certify_profiled(F, facts.intercept, at, move)
    F.spend(passes=1)
    loss, of_loss = facts.small_blocks.total(Widened(LossAndGradient(F.model, theta, keep=False)))
    value, gradient = loss + F.penalty.value(theta), F.penalty.slope(theta, of_loss)
    return Certificate(theta, value, gradient, bounded_gap(F, theta, value, gradient, EPSILON))


def _certify_profiled(F: Objective, model: WithIntercept, at: Point, move: bool) -> Certificate:
    θ, blocks = at.theta, F.facts.small_blocks
    scores = _wide_scores(F, at)
    enough = _unseen_decrease(F, at)
    best = profile_intercept(model, blocks, scores, F.facts.class_totals, keep=F.keeps_scores, enough=enough)
    F.spend(passes=0.5)
    there, penalty = with_intercepts(θ, best.moved), F.penalty.value(θ)
    value = best.loss + penalty
    gradient = F.penalty.slope(there, _gradient_of_loss(F, there, best.residuals))
    if np.isinf(best.decrease):
        return Certificate(there, value, gradient, float("nan"))
    # Scores were found at θ, and moved: rounding errors are those of the larger of both, and hardly any farther away.
    larger = np.maximum(np.abs(θ), np.abs(there))
    larger *= NEAR
    decrease = best.decrease + blocks.total(LostToTheCentre(model, there, EPSILON))
    # Errors of scores move the best intercept, and that the residuals once more.
    gap = bounded_gap(F, larger, value, gradient, EPSILON, decrease, Unrest(best.stirred, best.passed_on))
    if move:
        return Certificate(there, value, gradient, gap)
    here = blocks.total(LossOf(model), scores) + penalty
    off = F.facts.magnitudes_by_column.of_loss(larger, EPSILON)
    return Certificate(θ, here, gradient, share(max(here - value, 0.0) + 2 * off + gap * value, here - off))


def _unseen_decrease(F: Objective, at: Point) -> float:
    """Return how much the loss may still fall along an intercept without a gap being any larger for it, to a percent.

    Residuals are then off by about the root of that, and ∇F by ‖X‖ times as much at most, beside √(Σ_i g_i²/λ_i).
    """
    sizes = F.facts.magnitudes
    if sizes is None or not sizes.norm > 0 or not len(at.gradient):
        return 0.0
    classes = F.size // sizes.n_columns
    return UNSEEN**2 * F.penalty.dual_square(at.gradient) * F.penalty.least / (sizes.norm**2 * classes)


def _wide_scores(F: Objective, at: Point) -> Kept:
    """Return the scores at θ in double precision: those that are known, unless they were added up from afar."""
    if at.scores is not None and not F.narrow and at.reach <= NEAR * norm(at.theta):
        return at.scores
    F.spend(passes=0.5)
    task = Widened(Scores(F.model, at.theta))
    return F.facts.small_blocks.run(task)[1] if F.facts.keeps_scores_once else Again(task)


def _gradient_of_loss(F: Objective, theta: Array, residuals: Kept) -> Array:
    """Return the gradient that residuals make, or the one at θ where they were not kept."""
    blocks = F.facts.small_blocks
    if residuals is not None:
        return blocks.total(Widened(Lift(F.model)), residuals)
    return blocks.total(Widened(LossAndGradient(F.model, theta, keep=False)))[1]


@dataclass(frozen=True, eq=False)
class LossOf:
    """The loss of scores that were kept."""

    reads_rows: ClassVar[bool] = False

    model: WithIntercept

    def __call__(self, block: object, scores: Array) -> tuple[float, None]:
        """Return it."""
        return self.model.loss(scores, block), None


def bounded_gap(
    F: Objective,
    θ: Array,
    value: float,
    gradient: Array,
    epsilon: float,
    decrease: float = 0.0,
    unrest: Unrest = CALM,
) -> float:
    """Return the gap with what rounding may hide, and what a free intercept may still gain and stir up."""
    plain, sizes = F.penalty.dual_square(gradient), F.facts.magnitudes
    if sizes is None or 0.5 * plain >= value:
        return share(0.5 * plain, value)
    of_loss, hidden = sizes.at_most(θ, epsilon, unrest)
    root = sqrt(plain) + hidden / sqrt(F.penalty.least)
    coarse = root * root  # infinite where a power would raise
    if coarse <= NEGLIGIBLE * plain and of_loss <= (NEGLIGIBLE - 1) * value:
        return share(decrease + 0.5 * coarse, value - of_loss)
    sizes = F.facts.magnitudes_by_column
    exactly = np.abs(gradient)  # in one place: of many parameters a fit holds most vectors here
    exactly += sizes.of_gradient(θ, epsilon, unrest)
    exactly += 2 * epsilon * np.abs(F.penalty.gradient(θ))
    return share(decrease + 0.5 * F.penalty.dual_square(exactly), value - sizes.of_loss(θ, epsilon))


def doubt(F: Objective, at: Point) -> float:
    """Return how far F* may be below what a tangent at a point says, for rounding of F and of ∇F there.

    F* is the least of a tangent and the penalty. That is found at most ‖∇F‖ from the point, in the norm of the penalty,
    so that errors e of the gradient count as ‖e‖‖∇F‖ at most.
    """
    plain, sizes, epsilon = F.penalty.dual_square(at.gradient), F.facts.magnitudes, F.facts.epsilon
    if sizes is None:
        return 0.0
    of_loss, hidden = sizes.at_most(at.theta, epsilon)
    hidden /= sqrt(F.penalty.least)
    coarse = of_loss + hidden * (sqrt(plain) + hidden)
    if coarse <= 0.5 * (NEGLIGIBLE - 1) * plain:
        return coarse
    sizes = F.facts.magnitudes_by_column
    hidden = sqrt(F.penalty.dual_square(sizes.of_gradient(at.theta, epsilon)))
    return sizes.of_loss(at.theta, epsilon) + hidden * (sqrt(plain) + hidden)


def with_intercepts(θ: Array, moved: Array) -> Array:
    """Return θ with its intercepts moved."""
    W = θ.reshape(len(moved), -1).copy()
    W[:, -1] += moved
    return W.ravel()
