"""What a certificate says.

H⁻¹ = RRᵀ of a Hessian found in floating point, and how much larger than H the matrix with that inverse may be.

How far from the optimum a point is at most, rounding errors included.

F is strongly convex in the norm of the penalty, so F(θ) − F* ≤ ½ Σ_i g_i²/λ_i. With a free intercept F is first
minimised along it; then strong convexity in the rest gives the same bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.lapack import dpstrf, dtrtri

from majorant.core.checks import Array
from majorant.core.class_model import ClassModel
from majorant.core.curvature import for_large, grounded, lower_factor
from majorant.core.intercept import profile_intercept
from majorant.core.line_search import Point
from majorant.core.rounding import CALM, SAFETY, Unrest
from majorant.core.rows import Cached, Recompute, widened
from majorant.core.threads import norm

if TYPE_CHECKING:
    from majorant.core.objective import Objective

EPSILON = float(np.finfo(np.float64).eps)
# Scores that were added up from farther away, relative to ‖θ‖, are found afresh.
NEAR = 1.01
# A part of a direction, relative to its largest, that is rounding.
NO_PART, TINY = 1e-6, 1e-300
# Sums of squares of numbers up to this are numbers.
HAS_A_SQUARE = 1e150


@dataclass(frozen=True, eq=False)
class Region:
    """Where every optimum is: ‖θ* − θ‖_H ≤ radius, H⁻¹ = RRᵀ, along all that F depends on.

    ``flat`` are directions (d×m, independent) along which F is known not to change, and neither does any probability.
    Their entries are compared times ``scale``, so that the units of columns do not matter.
    """

    root: Array  # R, d×k
    radius: float
    flat: Array
    scale: Array  # √H_ii, one where that is zero
    share: float = 1.0  # of the rows that H is the Hessian of

    @property
    def undetermined(self) -> Array:
        """Which parameters change along flat directions."""
        size = np.abs(self.flat) * self.scale[:, None]
        return (size > NO_PART * size.max(axis=0, initial=TINY)).any(axis=1)

    def standard_errors(self, classes: int = 1, centre: Array | None = None) -> Array:
        """Return √(cᵀH⁻¹c) of coefficients less their mean over classes (n×p), columns measured from zero."""
        return row_norms(_uncentred(self.root, classes, centre))

    def within(self, classes: int = 1, centre: Array | None = None) -> Array:
        """Return how far these coefficients are from those of every optimum at most; infinite where F is flat."""
        off = self.radius * self.standard_errors(classes, centre)
        if self.flat.size:
            of_column = self.scale.reshape(classes, -1).max(axis=0)[:, None]
            largest = (np.abs(_uncentred(self.flat, classes, None)) * of_column).max(axis=(0, 1), initial=TINY)
            parts = np.abs(_uncentred(self.flat, classes, centre)) * of_column
            off[(parts > NO_PART * largest).any(axis=-1)] = np.inf
        return off


def row_norms(rows: Array) -> Array:
    """Return ‖r‖ along the last axis, also where squares would overflow."""
    largest = max(rows.max(initial=0.0), -rows.min(initial=0.0))
    unit = largest if largest > HAS_A_SQUARE else 1.0
    return unit * np.sqrt(np.square(rows / unit if unit > 1 else rows).sum(axis=-1))


def _uncentred(root: Array, classes: int, centre: Array | None) -> Array:
    """Return the rows of a root as coefficients less their mean over classes, intercepts those of columns as they are.

    Where all scores move together is up to the solver; one class stands against zero.
    """
    B = root.reshape(classes, len(root) // classes, root.shape[1])  # there may be no columns, where all is flat
    B = B - B.mean(axis=0) if classes > 1 else B.copy()
    if centre is not None:
        B[:, -1] -= np.einsum("i,cik->ck", centre, B[:, :-1])
    return B


@dataclass(frozen=True, eq=False)
class Certificate:
    """A point, F and ∇F there, and a bound on (F − F*)/F; where it is known, how far the optimum is at most.

    ``decrement`` is what a Newton step promises to gain, relative to F, where that was found; of some rows, about that.
    It is infinite where rounding hides it. It was looked for too ``early`` where that is more than was aimed at: then
    nothing else was looked at. ``estimate`` is the decrement without what rounding may add, NaN where that is unknown.
    """

    theta: Array
    value: float
    gradient: Array
    gap: float
    region: Region | None = None
    decrement: float = float("nan")
    early: bool = False
    estimate: float = float("nan")


def share(excess: float, value: float) -> float:
    """Return excess/value, at most one; losses are not negative, but for rounding."""
    if excess <= 0:
        return 0.0
    return float(min(excess / value, 1.0)) if value > 0 else 1.0


# Eigenvalues below this share of the largest, coordinates scaled to a unit diagonal, are flat directions.
FLAT = 1e-12
# A pivot that keeps less of its diagonal entry may be rounding noise.
LEAST_PIVOT = 1e-10
# One that keeps more is far from it: where all others are noise, pivots tell flat directions as well as eigenvalues do.
CLEAR_PIVOT = 1e-6
LEAST_NORMAL = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Metric:
    """A root R (d×k) of the inverse of M, and the directions that M does not see (d×m)."""

    root: Array
    flat: Array
    largest: Array  # diag(M), which rounding errors of M are measured by
    scale: Array  # √diag(M), one where that is zero: the units of parameters

    @property
    def sizes(self) -> Array:
        """√(M⁻¹)_ii."""
        return row_norms(self.root)

    def of(self, gradient: Array) -> float:
        """Return ‖g‖ in the metric of M⁻¹."""
        return float(np.linalg.norm(self.root.T @ gradient))

    def doubt(self, columns: Array, heaviest: float, rows: int) -> float:
        """Return η with H ⪰ (1 − η)M.

        Entries of H are off by at most κ m_i m_k, with m_i² what they are sums of before anything cancels and κ what
        sums over rows, and a factor, make of ε. With |v_i| ≤ √(M⁻¹)_ii ‖v‖_M that is at most κ (Σ_i m_i √(M⁻¹)_ii)².
        Numbers that underflow lose ε times the least normal one at most.
        """
        d = len(self.largest)
        squares = np.maximum(heaviest * np.tile(columns**2, d // len(columns)), self.largest).clip(LEAST_NORMAL)
        κ = 2 * EPSILON * (SAFETY * sqrt(rows) + d + 10)
        sizes = float(np.sqrt(squares) @ self.sizes)
        return κ * sizes * sizes  # infinite where a power would raise


def metric(F: Objective, H: Array) -> Metric | None:
    """Return that of a Hessian of the loss and of what is strongly convex in the penalty; None where it is not finite.

    Softmax scores may all move together: there a model without a penalty is grounded, which nothing else feels.
    """
    together, strength = F.model.redundancy(F.like), F.penalty.strength
    A = H.copy()
    A.flat[:: len(A) + 1] += strength
    free = np.flatnonzero(~(strength > 0).reshape(together, -1).any(axis=0))
    A = grounded(A, together, free) if together > 1 and len(free) else A
    if not np.isfinite(A).all():
        return None
    diagonal = np.diagonal(A).copy()
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = A / np.outer(scale, scale)
    with for_large(len(A)):
        found = _by_factor(scaled, scale, diagonal) or _by_pivots(scaled, scale, diagonal)
        return found or _by_eigenvalues(scaled, scale, diagonal)


def _by_factor(A: Array, scale: Array, diagonal: Array) -> Metric | None:
    try:
        L = lower_factor(A.T, clean=True)  # as LAPACK stores it
    except LinAlgError:
        return None
    if np.diagonal(L).min() ** 2 < LEAST_PIVOT:
        return None
    root = dtrtri(L, lower=1, overwrite_c=True)[0].T
    root /= scale[:, None]
    return Metric(root, np.empty((len(A), 0)), diagonal, scale)


def _by_pivots(A: Array, scale: Array, diagonal: Array) -> Metric | None:
    """Return the metric of a singular A from those columns I that the others depend on, A_{JI} A_{II}⁻¹ = C.

    Other solutions differ by flat directions, e_j − Σ_i C_ji e_i, in which neither gradients nor rows have a part. A
    tenth of the price of eigenvalues, where it is plain which columns depend on others; None where it is not.
    """
    L, places, rank, _ = dpstrf(A, tol=CLEAR_PIVOT, lower=1)
    kept, rest, below = places[:rank] - 1, places[rank:] - 1, L[rank:, :rank]
    if rank == 0 or (np.diagonal(A)[rest] - np.square(below).sum(axis=1)).max(initial=0.0) > FLAT:
        return None
    inverse = np.tril(dtrtri(L[:rank, :rank], lower=1)[0])
    root, flat = np.zeros((len(A), rank)), np.zeros((len(A), len(rest)))
    root[kept], flat[kept], flat[rest, np.arange(len(rest))] = inverse.T, -(below @ inverse).T, 1.0
    return Metric(root / scale[:, None], flat / scale[:, None], diagonal, scale)


def _by_eigenvalues(A: Array, scale: Array, diagonal: Array) -> Metric:
    values, vectors = eigh(A, check_finite=False)
    kept = values > FLAT * max(values[-1], 1e-300)
    root = vectors[:, kept] / np.sqrt(values[kept])
    return Metric(root / scale[:, None], vectors[:, ~kept] / scale[:, None], diagonal, scale)


# A coarse bound on rounding errors is good enough if it makes a gap so much larger.
NEGLIGIBLE = 1.01
# A share of a gradient that an intercept which is not quite at its best may hide.
UNSEEN = 5e-4


def certify_by_strong_convexity(F: Objective, at: Point, *, move: bool) -> Certificate:
    """Return a point at least as good as θ and its gap; see :meth:`Objective.certify`."""
    if not F.certifiable:
        point = F.point(at.theta, keep=False)
        return Certificate(at.theta, point.value, point.gradient, float("nan"))
    if F.narrow:
        at = replace(at, theta=at.theta.astype(F.precision).astype(np.float64))
    theta = at.theta
    if F.intercept is not None:
        return _certify_profiled(F, F.intercept, at, move)
    F.spend(passes=1)
    loss, of_loss = F.small_blocks.total(partial(widened, partial(F.model.loss_and_gradient, theta)))
    value, gradient = loss + F.penalty.value(theta), F.penalty.slope(theta, of_loss)
    return Certificate(theta, value, gradient, bounded_gap(F, theta, value, gradient, EPSILON))


def _certify_profiled(F: Objective, model: ClassModel, at: Point, move: bool) -> Certificate:
    θ, blocks = at.theta, F.small_blocks
    scores = _wide_scores(F, at)
    enough = _unseen_decrease(F, at)
    best = profile_intercept(model, blocks, scores, F.class_totals, keep=F.keeps_scores, enough=enough)
    F.spend(passes=0.5)
    there, penalty = with_intercepts(θ, best.moved), F.penalty.value(θ)
    value = best.loss + penalty
    gradient = F.penalty.slope(there, _gradient_of_loss(F, there, best.residuals))
    if np.isinf(best.decrease):
        return Certificate(there, value, gradient, float("nan"))
    # Scores were found at θ, and moved: rounding errors are those of the larger of both, and hardly any farther away.
    larger = np.maximum(np.abs(θ), np.abs(there))
    larger *= NEAR
    decrease = best.decrease + blocks.total(partial(model.lost_to_the_centre, there, epsilon=EPSILON))
    # Errors of scores move the best intercept, and that the residuals once more.
    gap = bounded_gap(F, larger, value, gradient, EPSILON, decrease, Unrest(best.stirred, best.passed_on))
    if move:
        return Certificate(there, value, gradient, gap)
    here = blocks.total(model.loss, scores) + penalty
    off = F.magnitudes_by_column.of_loss(larger, EPSILON)
    return Certificate(θ, here, gradient, share(max(here - value, 0.0) + 2 * off + gap * value, here - off))


def _unseen_decrease(F: Objective, at: Point) -> float:
    """Return how much the loss may still fall along an intercept without a gap being any larger for it, to a percent.

    Residuals are then off by about the root of that, and ∇F by ‖X‖ times as much at most, beside √(Σ_i g_i²/λ_i).
    """
    sizes = F.magnitudes
    if sizes is None or not sizes.norm > 0 or not len(at.gradient):
        return 0.0
    classes = F.size // sizes.n_columns
    return UNSEEN**2 * F.penalty.dual_square(at.gradient) * F.penalty.least / (sizes.norm**2 * classes)


def _wide_scores(F: Objective, at: Point) -> Cached:
    """Return the scores at θ in double precision: those that are known, unless they were added up from afar."""
    if at.scores is not None and not F.narrow and at.reach <= NEAR * norm(at.theta):
        return at.scores
    F.spend(passes=0.5)
    find = partial(widened, partial(F.model.scores, at.theta))
    return F.small_blocks.map(find) if F.keeps_scores_once else Recompute(find)


def _gradient_of_loss(F: Objective, theta: Array, residuals: Cached) -> Array:
    """Return the gradient that residuals make, or the one at θ where they were not kept."""
    blocks = F.small_blocks
    if residuals is not None:
        return blocks.total(partial(widened, F.model.lift), residuals)
    return blocks.total(partial(widened, partial(F.model.loss_and_gradient, theta)))[1]


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
    plain, sizes = F.penalty.dual_square(gradient), F.magnitudes
    if sizes is None or 0.5 * plain >= value:
        return share(0.5 * plain, value)
    of_loss, hidden = sizes.at_most(θ, epsilon, unrest)
    root = sqrt(plain) + hidden / sqrt(F.penalty.least)
    coarse = root * root  # infinite where a power would raise
    if coarse <= NEGLIGIBLE * plain and of_loss <= (NEGLIGIBLE - 1) * value:
        return share(decrease + 0.5 * coarse, value - of_loss)
    sizes = F.magnitudes_by_column
    exactly = np.abs(gradient)  # in one place: of many parameters a fit holds most vectors here
    exactly += sizes.of_gradient(θ, epsilon, unrest)
    exactly += 2 * epsilon * np.abs(F.penalty.gradient(θ))
    return share(decrease + 0.5 * F.penalty.dual_square(exactly), value - sizes.of_loss(θ, epsilon))


def doubt(F: Objective, at: Point) -> float:
    """Return how far F* may be below what a tangent at a point says, for rounding of F and of ∇F there.

    F* is the least of a tangent and the penalty. That is found at most ‖∇F‖ from the point, in the norm of the penalty,
    so that errors e of the gradient count as ‖e‖‖∇F‖ at most.
    """
    plain, sizes, epsilon = F.penalty.dual_square(at.gradient), F.magnitudes, F.epsilon
    if sizes is None:
        return 0.0
    of_loss, hidden = sizes.at_most(at.theta, epsilon)
    hidden /= sqrt(F.penalty.least)
    coarse = of_loss + hidden * (sqrt(plain) + hidden)
    if coarse <= 0.5 * (NEGLIGIBLE - 1) * plain:
        return coarse
    sizes = F.magnitudes_by_column
    hidden = sqrt(F.penalty.dual_square(sizes.of_gradient(at.theta, epsilon)))
    return sizes.of_loss(at.theta, epsilon) + hidden * (sqrt(plain) + hidden)


def with_intercepts(θ: Array, moved: Array) -> Array:
    """Return θ with its intercepts moved."""
    W = θ.reshape(len(moved), -1).copy()
    W[:, -1] += moved
    return W.ravel()
