"""Certificates: proved bounds on how far a point is from the optimum, rounding errors counted.

**Strong convexity** (:func:`by_strong_convexity`). F is strongly convex in the norm of the penalty, so
F(θ) − F* ≤ ½ Σ_i g_i²/λ_i. With a free intercept F is first minimised along it; then strong convexity in the rest gives
the same bound.

**Duality** (:func:`by_mixing`). Of any convex penalty R, with g the gradient of the loss L, the same argument gives the
Fenchel–Young gap R(θ) + R*(−g) + θᵀg, which is half of Σ_i (∇F)_i²/λ_i of a ridge. Without a ridge R* is infinite
unless g obeys constraints. Then rows are mixed, s of what the model expects and 1 − s of what was observed: their
gradient is sg.

    F(θ) − F*  ≤  (1 − s) L + R(θ) + R*(−sg) + sθᵀg − Σ_j w_j [H(μ_j(s)) − s H(p_j)].

**Self-concordance** (:func:`by_self_concordance`), with or without a penalty. Along θ + su the third derivative of F is
at most M times the second, M = max_j max_{y,y'} |(f_j(y) − f_j(y'))ᵀu|: a third central moment is at most the range
times the variance. With H = ∇²F(θ), δ = ‖∇F(θ)‖_{H⁻¹} (the Newton decrement), S = max_j max_{y,y'} ‖f_j(y) −
f_j(y')‖_{H⁻¹} and a = Sδ < 1

    F(θ) − F*  ≤  (a + (1 − a) log(1 − a)) / S²,      ‖θ* − θ‖_H  ≤  −log(1 − a) / S,

and there is an optimum. The first is the least that F(θ+u) ≥ F(θ) + ∇Fᵀu + (e^{−z} + z − 1)/S² can be, z = S‖u‖_H; the
second follows from the slope along the way to the optimum, which rises from ∇Fᵀu ≥ −δ‖u‖_H to zero by at least
‖u‖²_H (1 − e^{−z})/z. For the same reason a Hessian found at another point will do: H(θ) ⪰ e^{−m} H(θ'), m the largest
M of the way between them. And so will that of some of the rows, with S the largest distance among these: the others are
convex, and lie above their tangents. A share r of the rows costs r times as much, and says 1/r times as much of F − F*.
(Bach, *Self-concordant analysis for logistic regression*, 2010.)

**Cuts** (:class:`Cuts`). The loss L is convex, so it lies above each of its tangents and above every mean of them. With
a ridge, for weights a_k ≥ 0 that sum to one,

    F*  ≥  min_θ Σ_k a_k (L_k + g_kᵀ(θ − θ_k)) + ½‖θ‖²_λ  =  Σ_k a_k c_k − ½‖Σ_k a_k g_k‖²_{1/λ},   c_k = L_k − g_kᵀθ_k.

Of one tangent this is F − ½‖∇F‖²_{1/λ}, as strong convexity has it. Steps that go too far one time and not far enough
the next have gradients that cancel where F is stiff, which is most of them: a mean of few tangents is many times
tighter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, isfinite, isinf, isnan, log1p, nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from majorant.core.checks import Array
from majorant.core.curvature import FLAT, Dense, grounded, inverse_root
from majorant.core.intercept import profile_intercept
from majorant.core.line_search import Point
from majorant.core.rounding import CALM, CHUNK, CLEAR, EPSILON, SAFETY, Magnitudes, Unrest
from majorant.core.rows import Function, Recompute, most, widened
from majorant.core.threads import norm

if TYPE_CHECKING:
    from majorant.core.class_model import ClassModel
    from majorant.core.objective import Objective

# What a bound may be larger for being computed quickly, relative; and how much farther scores may have been added up.
PERCENT = 0.01
LEAST_NORMAL = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Certificate:
    """A point, F and ∇F there, and a bound on (F − F*)/F; where it is known, how far the optimum is at most.

    ``decrement`` is the decrease of F that a Newton step predicts, relative to F, where it is known; of some rows,
    about that. It is infinite where rounding hides it. The certificate came too ``early`` where the decrement is larger
    than the gap aimed at: then the rest was not computed. ``estimate`` is the decrement without what rounding may add,
    NaN where it is unknown.
    """

    theta: Array
    value: float
    gradient: Array
    gap: float
    region: Region | None = None
    decrement: float = nan
    early: bool = False
    estimate: float = nan


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
        return (size > CLEAR * size.max(axis=0, initial=LEAST_NORMAL)).any(axis=1)

    def standard_errors(self, classes: int = 1, centre: Array | None = None) -> Array:
        """Return √(cᵀH⁻¹c) of coefficients less their mean over classes (n×p), columns measured from zero."""
        return row_norms(_uncentred(self.root, classes, centre))

    def within(self, classes: int = 1, centre: Array | None = None) -> Array:
        """Return how far these coefficients are from those of every optimum at most; infinite where F is flat."""
        off = self.radius * self.standard_errors(classes, centre)
        if self.flat.size:
            of_column = self.scale.reshape(classes, -1).max(axis=0)[:, None]
            largest = (np.abs(_uncentred(self.flat, classes, None)) * of_column).max(axis=(0, 1), initial=LEAST_NORMAL)
            parts = np.abs(_uncentred(self.flat, classes, centre)) * of_column
            off[(parts > CLEAR * largest).any(axis=-1)] = inf
        return off


def row_norms(rows: Array) -> Array:
    """Return ‖r‖ along the last axis, also where squares would overflow."""
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.square(rows).sum(axis=-1))
    if np.isfinite(norms).all():
        return np.asarray(norms)
    unit = np.abs(rows).max()
    return np.asarray(unit * np.sqrt(np.square(rows / unit).sum(axis=-1)))


def _uncentred(root: Array, classes: int, centre: Array | None) -> Array:
    """Return the rows of a root as coefficients less their mean over classes, intercepts those of columns as they are.

    Where all scores move together is up to the solver; one class stands against zero.
    """
    B = root.reshape(classes, len(root) // classes, root.shape[1])  # there may be no columns, where all is flat
    B = B - B.mean(axis=0) if classes > 1 else B.copy()
    if centre is not None:
        B[:, -1] -= np.einsum("i,cik->ck", centre, B[:, :-1])
    return B


def ratio(excess: float, value: float) -> float:
    """Return excess/value, at most one; losses are not negative, but for rounding."""
    if excess <= 0:
        return 0.0
    return float(min(excess / value, 1.0)) if value > 0 else 1.0


def better(one: Certificate, other: Certificate) -> Certificate:
    """Return the one with the smaller gap, with what is known of where the optimum is."""
    best, rest = (other, one) if other.gap <= one.gap or isnan(one.gap) else (one, other)
    if best.region is None and rest.region is not None and np.array_equal(best.theta, rest.theta):
        return replace(best, region=rest.region)
    return best


# --- strong convexity ---------------------------------------------------------------------------------------


def by_strong_convexity(F: Objective, at: Point, *, move: bool = True, aim: float = 0.0) -> Certificate:
    """Return a point at least as good as θ, and its gap.

    Parameters
    ----------
    F, at
        An objective, and a point, whose scores save half a pass where they are known. Data in single precision are
        multiplied in double precision, and θ is rounded to what they are fitted in.
    move : bool
        False keeps θ as it is, and counts what its intercept loses.
    aim : float
        A gap that suffices: then nothing tighter is looked for where the penalty is not smooth.
    """
    if not F.certifiable:
        point = F.point(at.theta, keep=False)
        return Certificate(at.theta, point.value, point.gradient, nan)
    θ = at.theta.astype(F.precision).astype(np.float64) if F.narrow else at.theta
    blocks, penalty, model = F.small_blocks, F.penalty.value(θ), F.intercept
    if model is None:
        F.spend(passes=1)
        loss, of_loss = blocks.total(_in_double(F, partial(F.model.loss_and_gradient, θ)))
        here = Point(θ, loss + penalty, F.penalty.slope(θ, of_loss))
        gap = bounded_gap(F, here, EPSILON, θ) if F.penalty.strong else 1.0
        if not F.penalty.smooth and gap > aim:
            mixed = F.model.mixed_entropies
            scores = Recompute(_in_double(F, partial(F.model.scores, θ)))
            gap = min(
                gap,
                by_mixing(F, here, θ, lambda shares: blocks.total(_in_double(F, partial(mixed, shares)), scores)),
            )
        return Certificate(θ, here.value, here.gradient, gap)

    # Scores in double precision: those of the point, unless they are unknown or were added up from afar.
    known = at.scores is not None and not F.narrow and at.reach <= (1 + PERCENT) * norm(θ)
    scores = at.scores
    if not known:
        F.spend(passes=0.5)
        find = _in_double(F, partial(F.model.scores, θ))
        scores = blocks.map(find) if F.keeps_scores_once else Recompute(find)

    # The best intercepts, up to a decrease of the loss that costs the gap a percent at most. Residuals are then off by
    # a few times its root, and ∇F by ‖X‖ times as much, beside √(Σ_i g_i²/λ_i).
    enough, sizes = 0.0, F.magnitudes
    if sizes is not None and sizes.norm > 0 and len(at.gradient) and F.penalty.strong:
        spare = 0.05 * PERCENT * sqrt(2 * F.penalty.excess(at.theta, at.gradient))
        enough = spare**2 * F.penalty.least / (sizes.norm**2 * (F.size // sizes.n_columns))
    best = profile_intercept(
        model, blocks, scores, F.class_totals, keep=F.keeps_scores, enough=enough, exact=not F.penalty.strong
    )

    # F and ∇F there.
    there, value, gradient = θ, at.value, at.gradient
    if best.moved.any() or not known or not isfinite(value):
        F.spend(passes=0.5)
        there, value = with_intercepts(θ, best.moved), best.loss + penalty
        if best.residuals is not None:
            of_loss = blocks.total(_in_double(F, F.model.lift), best.residuals)
        else:
            of_loss = blocks.total(_in_double(F, partial(F.model.loss_and_gradient, there)))[1]
        gradient = F.penalty.slope(there, of_loss)
    if isinf(best.decrease):
        return Certificate(there, value, gradient, nan)

    # Scores were found at θ, and moved: rounding errors are those of the larger of both, and hardly any farther away.
    # Errors of scores move the best intercept, and that the residuals once more.
    larger = (1 + PERCENT) * np.maximum(np.abs(θ), np.abs(there))
    decrease = best.decrease + blocks.total(partial(model.lost_to_the_centre, there, epsilon=EPSILON))
    unrest, moved = Unrest(best.stirred, best.passed_on), Point(there, value, gradient)
    gap = bounded_gap(F, moved, EPSILON, larger, decrease, unrest) if F.penalty.strong else 1.0
    if not F.penalty.smooth and gap > aim:

        def entropies(shares: Array) -> Array:
            mixed = partial(_mixed_along_intercepts, model, best.moved, shares)
            return np.asarray(blocks.total(mixed, scores))

        gap = min(gap, by_mixing(F, moved, larger, entropies, decrease, unrest, best.distance))
    if move or there is θ:
        return Certificate(there, value, gradient, gap)
    here = blocks.total(model.loss, scores) + penalty
    off = F.magnitudes_by_column.of_loss(larger, EPSILON)
    return Certificate(θ, here, gradient, ratio(max(here - value, 0.0) + 2 * off + gap * value, here - off))


def _in_double(F: Objective, function: Function) -> Function:
    """Return a function of ``F.small_blocks`` that finds them in double precision."""
    return partial(widened, function) if F.narrow else function


def bounded_gap(
    F: Objective, at: Point, epsilon: float, larger: Array, decrease: float = 0.0, unrest: Unrest = CALM
) -> float:
    """Return the gap with what rounding may hide, and what a free intercept may still gain and stir up.

    Rounding errors are those at ``larger`` parameters, if scores were added up from there.
    """
    sizes, value = F.magnitudes, at.value
    plain = 2 * F.penalty.excess(at.theta, at.gradient)
    if sizes is None or 0.5 * plain >= value:
        return ratio(0.5 * plain, value)
    of_loss, hidden = sizes.at_most(larger, epsilon, unrest)
    root = sqrt(plain) + hidden / sqrt(F.penalty.least)
    coarse = root * root  # infinite where a power would raise
    if coarse <= (1 + PERCENT) * plain and of_loss <= PERCENT * value:
        return ratio(decrease + 0.5 * coarse, value - of_loss)
    errors = _errors_of_gradient(F, larger, epsilon, unrest)
    of_loss = F.magnitudes_by_column.of_loss(larger, epsilon)
    return ratio(decrease + F.penalty.excess(at.theta, at.gradient, errors), value - of_loss)


def _sizes(F: Objective, theta: Array) -> Magnitudes:
    """Return how large numbers are, columns apart. Coefficients of zero add no rounding to a score."""
    sizes = F.magnitudes_by_column
    if F.penalty.smooth:
        return sizes
    terms = int((theta.reshape(-1, sizes.n_columns) != 0).sum(axis=1).max()) + 1
    return replace(sizes, terms=min(terms, sizes.terms or sizes.n_columns))


def _errors_of_gradient(F: Objective, larger: Array, epsilon: float, unrest: Unrest) -> Array:
    """Return how far each entry of the gradient may be off."""
    errors = _sizes(F, larger).of_gradient(larger, epsilon, unrest)
    errors += 2 * epsilon * np.abs(F.penalty.gradient(larger))
    return errors


def by_mixing(
    F: Objective,
    at: Point,
    larger: Array,
    entropies: Callable[[Array], Array],
    decrease: float = 0.0,
    unrest: Unrest = CALM,
    distance: float = 0.0,
) -> float:
    """Return the gap to the best of a few points between what was observed and what the model expects.

    Rows mixed as (1 − s) observed + s expected have s times the gradient. So some s > 0 obeys the constraints of the
    dual objective, which are |s g_i| ≤ λ1_i where λ2_i is zero. ``entropies`` returns Σ_j w_j [H(μ_j(s)) − s H(p_j)]
    for several s; the others are as in :func:`bounded_gap`, and ``distance`` is how far intercepts are off at most.
    """
    sizes, value, of_loss = F.magnitudes, at.value, 0.0
    errors = np.zeros(F.size)
    if sizes is not None:
        errors = _errors_of_gradient(F, larger, EPSILON, unrest)
        of_loss = _sizes(F, larger).of_loss(larger, EPSILON)
        # An entropy changes by 1/e at most as its loss changes by one. Rounding moves the best intercept, too.
        distance += unrest.passed_on * EPSILON * norm(_sizes(F, larger).of_scores(larger, 1.0))
        distance *= sizes.weights * sqrt(sizes.rows)
    low, high = F.penalty.shares(at.theta, at.gradient, errors)
    shares = np.unique(low + (high - low) * np.array([0.0, 0.5, 0.9, 1.0]))
    loss = value - F.penalty.value(at.theta)
    excess = np.array([F.penalty.excess(at.theta, at.gradient, errors, share) for share in shares.tolist()])
    mixed = entropies(shares) if low < 1 else np.zeros(1)
    rounded = np.where(shares < 1, of_loss + distance, 0.0)
    best = float(((1 - shares) * (loss + of_loss) + excess - mixed + rounded).min())
    # What cancels is as large as F, and the larger terms are sums over parameters.
    cancelled = 4 * EPSILON * (value + SAFETY * sqrt(F.size) * (value - loss))
    return ratio(decrease + max(best, 0.0) + cancelled, value - of_loss)


def _mixed_along_intercepts(model: ClassModel, moved: Array, shares: Array, scores: Array, block: Any) -> Array:
    """Return the entropies of mixtures where intercepts have moved."""
    return model.mixed_entropies(shares, scores + moved[:, None], block)


def with_intercepts(θ: Array, moved: Array) -> Array:
    """Return θ with its intercepts moved."""
    W = θ.reshape(len(moved), -1).copy()
    W[:, -1] += moved
    return W.ravel()


# --- self-concordance ---------------------------------------------------------------------------------------

# Parameters of the largest Hessian that is worth its factor.
LARGEST = 2_000
# The share of H that rounding, or another θ, may account for: with more of it in doubt nothing is said.
DOUBT = 0.5
# In standard errors: estimates that are nearer to the optimum have settled.
SETTLED = 1e-6


@dataclass(frozen=True, eq=False)
class KnownHessian:
    """The Hessian of the loss at some θ, of all rows."""

    theta: Array
    matrix: Array


@dataclass(frozen=True, eq=False)
class Metric:
    """A root R (d×k) of the inverse of M, and the directions that M does not see (d×m)."""

    root: Array
    flat: Array
    diagonal: Array  # of M: rounding errors of M are measured by it
    scale: Array  # √diag(M), one where that is zero: the units of parameters

    @classmethod
    def of(cls, F: Objective, H: Array) -> Metric | None:
        """Return that of a Hessian of the loss and of what is strongly convex in the penalty; None if it overflows.

        Softmax scores may all move together: there a model without a penalty is grounded, which nothing else feels.
        """
        classes, strength = F.model.redundancy(F.like), F.penalty.strength
        A = H.copy()
        A.flat[:: len(A) + 1] += strength
        free = np.flatnonzero(~(strength > 0).reshape(classes, -1).any(axis=0))
        A = grounded(A, classes, free) if classes > 1 and len(free) else A
        if not np.isfinite(A).all():
            return None
        diagonal = np.diagonal(A).copy()
        return cls(*inverse_root(A), diagonal, np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))

    @property
    def sizes(self) -> Array:
        """√(M⁻¹)_ii."""
        return row_norms(self.root)

    def norm(self, gradient: Array) -> float:
        """Return ‖g‖ in the metric of M⁻¹."""
        return float(np.linalg.norm(self.root.T @ gradient))

    def doubt(self, columns: Array, heaviest: float, rows: int) -> float:
        """Return η with H ⪰ (1 − η)M.

        Entries of H are off by at most κ m_i m_k, with m_i² what they are sums of before anything cancels and κ what
        sums over rows, and a factor, make of ε. With |v_i| ≤ √(M⁻¹)_ii ‖v‖_M that is at most κ (Σ_i m_i √(M⁻¹)_ii)².
        Numbers that underflow lose ε times the least normal one at most.
        """
        d = len(self.diagonal)
        squares = np.maximum(heaviest * np.tile(columns**2, d // len(columns)), self.diagonal).clip(LEAST_NORMAL)
        κ = 2 * EPSILON * (SAFETY * sqrt(rows) + d + 10)
        sizes = float(np.sqrt(squares) @ self.sizes)
        return κ * sizes * sizes  # infinite where a power would raise


@dataclass(frozen=True, eq=False)
class Decrement:
    """The Newton decrement δ at a point, rounding errors included, in a metric with H ⪰ ``weaker`` · M."""

    point: Point
    metric: Metric | None
    curved_at: Array  # θ where M was found
    size: float = inf
    weaker: float = 1.0
    of_loss: float = 0.0  # rounding errors
    doubt: float = inf  # the share of M that they may be
    rows: Objective | None = None  # that M is the Hessian of, if these are not all
    apart: float = 0.0  # what errors of the features may add to S

    @property
    def square(self) -> float:
        """δ², infinite where a power would raise."""
        return self.size * self.size

    def relative(self, excess: float) -> float:
        """Return a share of F."""
        return ratio(excess, self.point.value - self.of_loss)


def suits(F: Objective, largest: int = LARGEST) -> bool:
    """Return whether self-concordance certifies, rows are at hand, and the Hessian is not too large."""
    if not (
        F.size <= largest
        and F.penalty.strong
        and F.penalty.smooth
        and F.has_rows_at_hand
        and F.model.has_rows
        and F.convex
    ):
        return False
    return F.magnitudes is not None and F.model.spreads(np.zeros((F.size, 0)), F.like) is not None


def by_self_concordance(
    F: Objective,
    at: Point,
    *,
    aim: float = 0.0,
    known: KnownHessian | None = None,
    share: float = 1.0,
    settle: float = 0.0,
    off: Array | None = None,
) -> Certificate:
    """Return the certificate of a point. Its gap is NaN where a ≥ 1.

    Parameters
    ----------
    F, at
        An objective that this :func:`suits`, and a point, whose scores save a pass where they are known.
    aim : float
        A gap that suffices: nothing more exact is computed, nor what cannot come to it. Zero computes all.
    known : KnownHessian, optional
        One from nearby. If it is too far away, and there is an aim but nothing to settle, nothing else is computed.
    share : float
        Of the rows to find a Hessian from, if there is none and these tell enough.
    settle : float
        A predicted gap from which on the certificate is that of a better point, to which Newton's steps lead in the
        metric of all rows, a pass each: where a coefficient is within :data:`SETTLED` standard errors.
    off : array of d numbers, optional
        How far each column of the features may be off, as the norm over rows, where they are not what data are: the
        certificate then holds for all features that are so near. It takes a Hessian that is ``known``.
    """
    # The Hessian and δ.
    found = None if known is None else _from_nearby(F, at, known, off)
    if found is None and known is not None and aim and not settle:
        return Certificate(at.theta, at.value, at.gradient, nan, early=True)
    if found is None and share < 1 and F.whole is not None and not F.narrow:
        found = _from_some_rows(F, at, share)
    if found is None:
        found = _from_all_rows(F, at)

    # Newton's steps, as long as each is much nearer to the optimum.
    settles = found.rows is None and not F.narrow and found.relative(0.5 * found.square) <= settle
    while settles and SETTLED * sqrt(found.weaker) < found.size < inf:
        assert found.metric is not None
        root, here = found.metric.root, found.point
        there = here.theta - root @ (root.T @ here.gradient)
        moved = _largest_change(F, found.curved_at, there)
        if not exp(-moved) >= DOUBT:
            break
        nearer = _decrement(F, F.point(there, keep=False), found.metric, found.curved_at, moved)
        if not nearer.size <= 0.5 * found.size:
            break
        found = nearer

    # What is predicted, and whether the rest is worth computing.
    point, relative, metric = found.point, found.relative(0.5 * found.square), found.metric
    of_rows = 1.0 if found.rows is None else found.rows.rows / F.rows
    estimate = nan
    if found.rows is None and metric is not None and found.doubt <= DOUBT:
        δ = metric.norm(point.gradient)
        estimate = ratio(0.5 * δ * δ, point.value)
    predicted = of_rows * relative if isfinite(found.size) else inf
    nothing = Certificate(point.theta, point.value, point.gradient, nan, None, predicted, estimate=estimate)
    if not relative <= (aim or 1.0) or not isfinite(found.size):
        return replace(nothing, early=isfinite(found.size))
    assert metric is not None
    if found.rows is None and not _is_flat(F, metric):
        return replace(nothing, estimate=inf)  # along what the Hessian does not see there may be anything

    # S: a bound on it that takes less to find, or itself if that is better. Products of a row and R are off by no more
    # than a few ε of sums of magnitudes.
    rows, weaker = found.rows or F, sqrt(found.weaker)
    S = (largest_spread(rows, metric.root, exactly=False) + found.apart) / weaker
    a = S * found.size
    tight = a < 1 and (_excess(a) <= 0.5 * (1 + PERCENT) or found.relative(_excess(a) * found.square) <= aim)
    if not tight:
        exact = (largest_spread(rows, metric.root, exactly=True) + found.apart) / weaker
        S = min(exact + 2 * EPSILON * (F.size + 10) * S, S)
        a = S * found.size
    if not a < 1:
        return nothing
    lost = F.blocks.total(partial(F.model.lost_to_the_centre, point.theta, epsilon=EPSILON))
    gap = found.relative(_excess(a) * found.square + lost)
    radius = -log1p(-a) / S if S > 0 else found.size
    region = Region(metric.root, radius / weaker, metric.flat, metric.scale, of_rows)
    return Certificate(point.theta, point.value, point.gradient, gap, region, predicted)


def _excess(a: float) -> float:
    """Return (a + (1 − a) log(1 − a)) / a², by its series where digits would cancel: Σ_k a^k / ((k + 1)(k + 2))."""
    if a > 0.05:
        return (a + (1 - a) * log1p(-a)) / (a * a)
    return sum(a**k / ((k + 1) * (k + 2)) for k in range(12))


def _from_nearby(F: Objective, at: Point, known: KnownHessian, off: Array | None) -> Decrement | None:
    """Return δ in the metric of a Hessian from nearby, or None if that is not near enough."""
    if F.narrow or not np.isfinite(at.value):
        return None
    same = known.theta is at.theta or np.array_equal(known.theta, at.theta)
    moved = 0.0 if same else _largest_change(F, known.theta, at.theta)
    if not exp(-moved) >= DOUBT:
        return None
    fresh = at.reach <= (1 + PERCENT) * norm(at.theta)
    point = at if fresh else F.point(at.theta, keep=False)
    found = _decrement(F, point, Metric.of(F, known.matrix), known.theta, moved)
    if off is None or found.metric is None:
        return found
    # Features within errors E of their columns: ‖Ev‖ ≤ Σ_k off_k √(M⁻¹)_kk ‖v‖_M. Rows of √B E, of weights B ≤ ¼ w,
    # take so much from a root of the Hessian; residuals are w at most.
    sizes, apart = F.magnitudes_by_column, float(off @ found.metric.sizes)
    left = 1.0 - 0.5 * sqrt(sizes.heaviest) * apart
    if not left > sqrt(1 - DOUBT):
        return replace(found, size=inf, doubt=inf)
    δ = (found.size + sizes.weights * apart / sqrt(found.weaker)) / left
    return replace(found, weaker=found.weaker * left * left, size=δ, apart=2 * apart)


def _from_some_rows(F: Objective, at: Point, share: float) -> Decrement | None:
    """Return δ in the metric of some rows, of more if they leave directions open; None if all have to close them.

    With all rows M would be 1/share as large, and as much less of it in doubt.
    """
    fresh = np.isfinite(at.value) and at.reach <= (1 + PERCENT) * norm(at.theta)
    point = at if fresh else F.point(at.theta)
    while share < 1:
        rows = F.sampled(int(np.ceil(share * F.rows)), seed=0).with_ridge(F.penalty)
        F.spend(passes=share, curvatures=1)
        H = rows.expand(point.theta, Dense.of, majorizes=False)[1].compact()
        found = replace(_decrement(F, point, Metric.of(F, H), point.theta), rows=rows)
        hopeless = share * found.doubt > DOUBT
        if hopeless or (found.metric is not None and isfinite(found.size) and _is_flat(F, found.metric)):
            return found
        # Where some rows leave directions open so many times more are asked.
        share *= 4.0
    return None


def _from_all_rows(F: Objective, at: Point) -> Decrement:
    """Return δ in the metric of the Hessian at the point."""
    if F.narrow:
        θ = at.theta.astype(F.precision).astype(np.float64)
        F.spend(passes=1, curvatures=1)
        expand = partial(F.model.expansion, θ, Dense.of, False)
        loss, of_loss, Σ = F.small_blocks.total(_in_double(F, expand))
        point = Point(θ, loss + F.penalty.value(θ), F.penalty.slope(θ, of_loss))
    else:
        fresh = at.scores is None or at.reach <= (1 + PERCENT) * norm(at.theta)
        point, Σ = F.expand(at if fresh else at.theta, Dense.of, majorizes=False)
    return _decrement(F, point, Metric.of(F, Σ.compact()), point.theta)


def _decrement(F: Objective, point: Point, metric: Metric | None, curved_at: Array, moved: float = 0.0) -> Decrement:
    """Return δ with what rounding may hide: an error e_i of the gradient adds |e_i| √(H⁻¹)_ii at most."""
    if metric is None:
        return Decrement(point, None, curved_at)
    sizes, θ = F.magnitudes_by_column, (1 + PERCENT) * point.theta
    assert sizes.columns is not None
    # Scores that are off by s change every weight of a row by a factor of e^{2s} at most.
    off = 4 * float(np.linalg.norm(sizes.of_scores(θ, EPSILON)))
    doubt = metric.doubt(sizes.columns, sizes.heaviest, sizes.rows) + off
    if not doubt <= DOUBT:
        return Decrement(point, metric, curved_at, doubt=doubt)
    errors = sizes.of_gradient(θ, EPSILON) + 2 * EPSILON * np.abs(F.penalty.gradient(θ))
    weaker = exp(-moved) * (1 - doubt)
    δ = (metric.norm(point.gradient) + float(errors @ metric.sizes)) / sqrt(weaker)
    return Decrement(point, metric, curved_at, δ, weaker, sizes.of_loss(θ, EPSILON), doubt)


def _largest_change(F: Objective, start: Array, end: Array) -> float:
    """Return the largest change of a score difference between two points."""
    spreads = F.model.spreads((end - start)[:, None], F.like)
    assert spreads is not None
    F.spend(passes=0.5)
    return float(F.blocks.total(partial(most, spreads.exact)).value)


def largest_spread(F: Objective, root: Array, *, exactly: bool) -> float:
    """Return the largest distance between outcomes of a row, in the metric of a root."""
    spreads = F.model.spreads(root, F.like)
    assert spreads is not None
    F.spend(passes=0.5)
    distance = partial(most, spreads.exact if exactly else spreads.coarse)
    return float(F.small_blocks.total(_in_double(F, distance)).value)


def _is_flat(F: Objective, metric: Metric) -> bool:
    """Return whether neither a penalty nor any row has a part in directions that the Hessian does not see.

    A row that is so much smaller along a flat direction than its entries are has no part there, but for rounding.
    """
    flat, parts = metric.flat, np.abs(metric.flat) * metric.scale[:, None]
    if not flat.size:
        return True
    if (parts[F.penalty.strength > 0] > FLAT * parts.max(axis=0)).any():
        return False
    sizes = F.magnitudes_by_column
    assert sizes.columns is not None
    typical = np.tile(sizes.columns, F.size // len(sizes.columns)) / sqrt(sizes.rows)  # before anything cancels
    # Of all directions together no row has more than it may have of one.
    size = np.abs(flat).T @ typical
    # Along empty columns alone, whose size is zero, nothing has a part.
    return largest_spread(F, flat / np.where(size > 0, size, 1.0), exactly=True) <= FLAT


# --- lower bounds from cuts ---------------------------------------------------------------------------------

# Slopes of more parameters are kept in single precision; what that loses is counted.
MANY_PARAMETERS = 100_000


@dataclass(frozen=True, eq=False)
class Cut:
    """A tangent, or a mean of tangents: c, g/√λ as it is kept, and how far that may be off."""

    constant: float
    slope: Array
    off: float

    @classmethod
    def of(cls, constant: float, slope: Array, steep: float, off: float = 0.0) -> Cut:
        """Return the cut with its slope as it is kept, what its norm was before, and how far that was off."""
        return cls(constant, slope, off + max(float(np.finfo(slope.dtype).eps), rounding_of_sums(len(slope))) * steep)


def rounding_of_sums(size: int) -> float:
    """Return the rounding errors of a sum over so many parameters, and of what it is a sum of, relative to it."""
    return 2 * EPSILON * (SAFETY * sqrt(size) + 10)


class Cuts:
    """The lower bound on F* that tangents at the points so far, and their means, give."""

    def __init__(self, ridge: Array) -> None:
        same = bool((ridge == ridge[0]).all())
        self._root = np.broadcast_to(np.sqrt(ridge[0]), ridge.shape) if same else np.sqrt(ridge)
        self._cuts: list[Cut] = []
        self.lowest = 0.0  # losses are not negative

    @staticmethod
    def suit(F: Objective) -> bool:
        """Return whether there are such bounds, and a step costs so much more that they are worth it."""
        return F.penalty.prior is not None and F.penalty.everywhere and F.convex and not F.keeps_scores

    def copy(self) -> Cuts:
        """Return the same, to learn on its own."""
        other = copy(self)
        other._cuts = list(self._cuts)
        return other

    def holds_under(self, other: Cuts) -> bool:
        """Return whether the ridge is that of the other."""
        return np.array_equal(self._root, other._root)

    def add(self, point: Point, doubt: float = 0.0) -> None:
        """Learn from F and ∇F at a point, whose rounding may hide that F* is lower than they say by ``doubt``."""
        # The slope of the loss, ‖θ‖ and its norm where λ is one, and the product of both.
        slope, sums = self._room(), np.zeros(3)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._parts():
                at = self._root[part] * point.theta[part]
                of_loss = point.gradient[part] / self._root[part] - at
                sums += at @ at, of_loss @ of_loss, of_loss @ at
                slope[part] = of_loss
        size, steep = np.sqrt(sums[:2]).tolist()
        rounded = doubt + rounding_of_sums(len(slope)) * (abs(point.value) + size * size + size * steep)
        constant = point.value - 0.5 * size * size - float(sums[2]) - rounded
        if not (isfinite(constant) and steep * steep < np.finfo(slope.dtype).max):  # then it says nothing
            return
        last = self._cuts[-1] if self._cuts else None
        if last is not None and last.constant == constant and np.array_equal(last.slope, slope):
            return  # where one run ends, the next begins
        self._cuts.append(Cut.of(constant, slope, steep))

        # The best mean of the cuts; once there are many it stands for the two oldest.
        products, many = np.zeros((len(self._cuts), len(self._cuts))), len(self._cuts)
        for part in self._parts():
            slopes = np.array([cut.slope[part] for cut in self._cuts], dtype=np.float64)
            products += slopes @ slopes.T
        constants, offs = (np.array([getattr(cut, name) for cut in self._cuts]) for name in ("constant", "off"))
        weights = best_weights(constants, products)
        norms = np.sqrt(np.maximum(((weights @ products) * weights).sum(axis=1), 0.0)) + weights @ offs
        values = weights @ constants - 0.5 * norms**2
        best = int(values.argmax())
        self.lowest = max(self.lowest, float(values[best]))
        # Tangents that are kept: the best mean of those before, and the last ones.
        if many == 4:
            kept, square, share = self._room(), 0.0, weights[best]
            for part in self._parts():
                pairs = zip(share, self._cuts, strict=True)
                mean = np.asarray(sum(a * cut.slope[part].astype(np.float64) for a, cut in pairs if a > 0))
                square += float(mean @ mean)
                kept[part] = mean
            oldest = Cut.of(float(share @ constants), kept, sqrt(square), float(share @ offs))
            self._cuts = [oldest, *self._cuts[2:]]

    def _room(self) -> Array:
        """Return room for a slope as it is kept."""
        return np.empty(len(self._root), dtype=np.float32 if len(self._root) > MANY_PARAMETERS else np.float64)

    def _parts(self) -> Iterator[slice]:
        """Yield slices of the parameters: a fit holds most here, and vectors would add up."""
        return (slice(begin, begin + CHUNK) for begin in range(0, len(self._root), CHUNK))


def best_weights(constants: Array, products: Array) -> Array:
    """Return weights, a row each, one of which maximises aᵀc − ½aᵀPa: one linear system for each set of positive ones.

    All systems are solved at once, with ones on the diagonal of what is not in a set. Products of slopes that are the
    same have no inverse, so a few ε are added. Any weights give a bound: what rounding does to them does no harm.
    """
    many = len(constants)
    scale = float(products.diagonal().max()) or 1.0
    sets = (np.arange(1, 2**many)[:, None] >> np.arange(many)) % 2 == 1
    systems = np.zeros((len(sets), many + 1, many + 1))
    both = sets[:, :, None] & sets[:, None, :]
    systems[:, :many, :many] = np.where(both, products / scale + 4 * EPSILON * np.eye(many), np.eye(many))
    systems[:, :many, many] = systems[:, many, :many] = sets
    sides = np.column_stack([sets * constants / scale, np.ones(len(sets))])
    a = np.linalg.solve(systems, sides[:, :, None])[:, :many, 0]
    a = a[(a >= 0).all(axis=1) & (a.sum(axis=1) > 0.5)]  # of constants that are far apart rounding leaves no sum of one
    return np.asarray(a / a.sum(axis=1, keepdims=True))


def doubt_of_tangent(F: Objective, at: Point) -> float:
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
    if coarse <= 0.5 * PERCENT * plain:
        return coarse
    sizes = F.magnitudes_by_column
    hidden = sqrt(F.penalty.dual_square(sizes.of_gradient(at.theta, epsilon)))
    return sizes.of_loss(at.theta, epsilon) + hidden * (sqrt(plain) + hidden)
