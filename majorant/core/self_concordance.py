"""A tight certificate, with or without a penalty: log Z is self-concordant.

Along θ + su the third derivative of F is at most M times the second, M = max_j max_{y,y'} |(f_j(y) − f_j(y'))ᵀu|: a
third central moment is at most the range times the variance. With H = ∇²F(θ), δ = ‖∇F(θ)‖_{H⁻¹} (the Newton
decrement), S = max_j max_{y,y'} ‖f_j(y) − f_j(y')‖_{H⁻¹} and a = Sδ < 1

    F(θ) − F*  ≤  (a + (1 − a) log(1 − a)) / S²,      ‖θ* − θ‖_H  ≤  −log(1 − a) / S,

and there is an optimum. The first is the least that F(θ+u) ≥ F(θ) + ∇Fᵀu + (e^{−z} + z − 1)/S² can be, z = S‖u‖_H; the
second follows from the slope along the way to the optimum, which rises from ∇Fᵀu ≥ −δ‖u‖_H to zero by at least
‖u‖²_H (1 − e^{−z})/z. For the same reason a Hessian found at another point will do: H(θ) ⪰ e^{−m} H(θ'), m the largest
M of the way between them. And so will that of some of the rows, with S the largest distance among these: the others are
convex, and lie above their tangents. A share r of the rows costs r times as much, and says 1/r times as much of F − F*.

Rounding errors of ∇F, of H and of its factor are bounded and counted. (Bach, *Self-concordant analysis for logistic
regression*, 2010.)

The best of all certificates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, isfinite, isnan, log1p, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from majorant.core import certificates
from majorant.core.certificates import EPSILON, NEAR, Certificate, Metric, Region, metric, share
from majorant.core.checks import Array
from majorant.core.curvature import Dense
from majorant.core.line_search import Point
from majorant.core.rows import most, widened
from majorant.core.threads import norm

if TYPE_CHECKING:
    from majorant.core.objective import Objective

# Larger Hessians are not worth their factors.
LARGEST = 2_000
# Of H, relative: with more of it in doubt nothing is said. And by how much scores may have moved since it was found.
DOUBT, MOVED = 0.5, 1.0
# The bound is then within a few percent of what it tends to: δ²/2.
SMALL = 0.1
# In standard errors: estimates that are nearer to the optimum have settled. And how often Newton's step is made for it.
SETTLED, STEPS = 1e-6, 8
# Where some rows leave directions open so many times more are asked.
MORE = 4.0
# A row that is so much smaller along a flat direction than its entries are has no part there, but for rounding.
NO_PART = 1e-12


@dataclass(frozen=True, eq=False)
class KnownHessian:
    """The Hessian of the loss at some θ, of all rows."""

    theta: Array
    matrix: Array


@dataclass(frozen=True, eq=False)
class _Found:
    """A point, its metric, which is H to a factor of 1 − doubt at least, and δ, rounding errors included."""

    point: Point
    metric: Metric
    curved_at: Array  # θ where M was found
    weaker: float  # H ⪰ weaker · M
    decrement: float
    of_loss: float  # rounding errors
    doubt: float = inf  # the share of M that they may be
    some: Objective | None = None  # with the rows that H is of, if these are not all
    apart: float = 0.0  # what rounding errors of the features may add to S

    @property
    def square(self) -> float:
        """δ², infinite where a power would raise."""
        return self.decrement * self.decrement

    @property
    def estimate(self) -> float:
        """½δ² relative to F without rounding errors, of all rows; NaN where nothing is known of it."""
        if self.some is not None or not self.doubt <= DOUBT:
            return nan
        δ = self.metric.of(self.point.gradient)
        return share(0.5 * δ * δ, self.point.value)

    def share_of(self, F: Objective) -> float:
        """Return the share of the rows that H is of."""
        return 1.0 if self.some is None else self.some.rows / F.rows

    def relative(self, excess: float) -> float:
        """Return a share of F."""
        return share(excess, self.point.value - self.of_loss)


def suits(F: Objective, largest: int = LARGEST) -> bool:
    """Return whether there is such a certificate, rows are at hand, and the Hessian is not too large."""
    if not (F.size <= largest and F.penalty.strong and F.has_rows_at_hand and F.model.has_rows and F.convex):
        return False
    return F.magnitudes is not None and F.model.spreads(np.zeros((F.size, 0)), F.like) is not None


def certify(
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
        A gap that is enough: what is more exact is not looked for, nor what cannot come to it. Zero looks on.
    known : KnownHessian, optional
        One from nearby. If it is too far away, and there is an aim but nothing to settle, nothing else is looked at.
    share : float
        Of the rows to find a Hessian from, if there is none and these tell enough.
    settle : float
        A promised gap from which on the certificate is that of a better point, to which Newton's steps lead in the
        metric of all rows, a pass each: where a coefficient is within :data:`SETTLED` standard errors.
    off : array of d numbers, optional
        How far each column of the features may be off, as the norm over rows, where they are not what data are: the
        certificate then holds for all features that are so near. It takes a Hessian that is ``known``.
    """
    found = _near(F, at, known, off)
    if found is None and known is not None and aim and not settle:  # what was to be had at the price of a look back
        return Certificate(at.theta, at.value, at.gradient, nan, early=True)
    found = found or _of_some(F, at, share) or _here(F, at)
    wanted = found.relative(0.5 * found.square) <= settle and isfinite(found.decrement)
    if wanted and found.some is None and not F.narrow:
        found = _settled(F, found)
    point, relative, of_rows = found.point, found.relative(0.5 * found.square), found.share_of(F)
    promised = of_rows * relative if isfinite(found.decrement) else inf
    nothing = Certificate(point.theta, point.value, point.gradient, nan, None, promised, estimate=found.estimate)
    if not relative <= (aim or 1.0) or not isfinite(found.decrement):
        return replace(nothing, early=isfinite(found.decrement))
    if found.some is None and not _is_flat(F, found.metric):
        return replace(nothing, estimate=inf)  # along what the Hessian does not see there may be anything
    S = _spread(found.some or F, found, aim)
    return _certified(F, found, S) if S * found.decrement < 1 else nothing


def _certified(F: Objective, found: _Found, S: float) -> Certificate:
    """Return what a = Sδ < 1 says."""
    point, a, of_rows = found.point, S * found.decrement, found.share_of(F)
    lost = F.blocks.total(partial(F.model.lost_to_the_centre, point.theta, epsilon=EPSILON))
    gap = found.relative(_excess(a) * found.square + lost)
    radius = -log1p(-a) / S if S > 0 else found.decrement
    metric = found.metric
    region = Region(metric.root, radius / sqrt(found.weaker), metric.flat, metric.scale, of_rows)
    promised = of_rows * found.relative(0.5 * found.square)
    return Certificate(point.theta, point.value, point.gradient, gap, region, promised)


def _settled(F: Objective, found: _Found) -> _Found:
    """Return what is found where Newton's steps lead, as long as each is much nearer to the optimum."""
    for _ in range(STEPS):
        if found.decrement <= SETTLED * sqrt(found.weaker):
            break
        root, here = found.metric.root, found.point
        there = here.theta - root @ (root.T @ here.gradient)
        moved = _moved(F, found.curved_at, there)
        if not moved <= MOVED:
            break
        nearer = _weighed(F, F.point(there, keep=False), found.metric, found.curved_at, moved)
        if not nearer.decrement <= 0.5 * found.decrement:
            break
        found = nearer
    return found


def _excess(a: float) -> float:
    """Return (a + (1 − a) log(1 − a)) / a², by its series where digits would cancel: Σ_k a^k / ((k + 1)(k + 2))."""
    if a > 0.05:
        return (a + (1 - a) * log1p(-a)) / (a * a)
    return sum(a**k / ((k + 1) * (k + 2)) for k in range(12))


# --- H and δ ------------------------------------------------------------------------------------------------


def _here(F: Objective, at: Point) -> _Found:
    """Return what the Hessian at the point says."""
    if F.narrow:
        point, H = _widened(F, at)
    else:
        fresh = at.scores is None or at.reach <= NEAR * norm(at.theta)
        point, found = F.expand(at if fresh else at.theta, Dense.of, majorizes=False)
        H = found.compact()
    return _measured(F, point, H)


def _of_some(F: Objective, at: Point, share: float) -> _Found | None:
    """Return what the Hessian of some rows says, of more if they leave directions open; None if all have to close them.

    With all rows M would be 1/share as large, and as much less of it in doubt.
    """
    if share >= 1 or F.whole is None or F.narrow:
        return None
    fresh = np.isfinite(at.value) and at.reach <= NEAR * norm(at.theta)
    point = at if fresh else F.point(at.theta)
    while share < 1:
        some = F.sampled(int(np.ceil(share * F.rows)), seed=0).with_ridge(F.penalty)
        F.spend(passes=share, curvatures=1)
        H = some.expand(point.theta, Dense.of, majorizes=False)[1].compact()
        found = replace(_measured(F, point, H), some=some)
        hopeless = share * found.doubt > DOUBT
        if hopeless or (isfinite(found.decrement) and _is_flat(F, found.metric)):
            return found
        share *= MORE
    return None


def _widened(F: Objective, at: Point) -> tuple[Point, Array]:
    θ = at.theta.astype(F.precision).astype(np.float64)
    F.spend(passes=1, curvatures=1)
    expand = partial(F.model.expansion, θ, Dense.of, False)
    loss, of_loss, H = F.small_blocks.total(partial(widened, expand))
    return Point(θ, loss + F.penalty.value(θ), F.penalty.slope(θ, of_loss)), H.compact()


def _near(F: Objective, at: Point, known: KnownHessian | None, off: Array | None = None) -> _Found | None:
    """Return what a Hessian from nearby says, if that is near enough."""
    if known is None or F.narrow or not np.isfinite(at.value):
        return None
    moved = 0.0
    if known.theta is not at.theta and not np.array_equal(known.theta, at.theta):
        moved = _moved(F, known.theta, at.theta)
    if moved > MOVED:
        return None
    fresh = at.reach <= NEAR * norm(at.theta)
    found = _measured(F, at if fresh else F.point(at.theta, keep=False), known.matrix, known.theta, moved)
    return found if off is None else _of_all_so_near(F, found, off)


def _of_all_so_near(F: Objective, found: _Found, off: Array) -> _Found:
    """Return what holds for all features within the errors E of their columns: ‖Ev‖ ≤ Σ_k off_k √(M⁻¹)_kk ‖v‖_M.

    Rows of √B E, of weights B ≤ ¼ w, then take so much from a root of the Hessian; residuals are w at most.
    """
    sizes = F.magnitudes_by_column
    apart = float(off @ found.metric.sizes)
    left = 1.0 - 0.5 * sqrt(sizes.heaviest) * apart
    if not left > sqrt(1 - DOUBT):
        return replace(found, decrement=inf, doubt=inf)
    δ = (found.decrement + sizes.weights * apart / sqrt(found.weaker)) / left
    return replace(found, weaker=found.weaker * left * left, decrement=δ, apart=2 * apart)


def _moved(F: Objective, start: Array, end: Array) -> float:
    """Return the largest change of a score difference between two points."""
    spreads = F.model.spreads((end - start)[:, None], F.like)
    assert spreads is not None
    F.spend(passes=0.5)
    return float(F.blocks.total(partial(most, spreads.exact)).value)


def _measured(F: Objective, point: Point, H: Array, curved_at: Array | None = None, moved: float = 0.0) -> _Found:
    """Return δ in the metric of a Hessian, of the point itself or found at another."""
    found, curved_at = metric(F, H), point.theta if curved_at is None else curved_at
    if found is None:
        return _Found(point, Metric(*[np.empty(0)] * 4), curved_at, 1.0, inf, 0.0)
    return _weighed(F, point, found, curved_at, moved)


def _weighed(F: Objective, point: Point, found: Metric, curved_at: Array, moved: float) -> _Found:
    """Return δ with what rounding may hide: an error e_i of the gradient adds |e_i| √(H⁻¹)_ii at most."""
    sizes = F.magnitudes_by_column
    θ = NEAR * point.theta
    assert sizes.columns is not None
    # Scores that are off by s change every weight of a row by a factor of e^{2s} at most.
    off = 4 * float(np.linalg.norm(sizes.of_scores(θ, EPSILON)))
    doubt = found.doubt(sizes.columns, sizes.heaviest, sizes.rows) + off
    if not doubt <= DOUBT:
        return _Found(point, found, curved_at, 1.0, inf, 0.0, doubt)
    errors = sizes.of_gradient(θ, EPSILON) + 2 * EPSILON * np.abs(F.penalty.gradient(θ))
    weaker = exp(-moved) * (1 - doubt)
    δ = (found.of(point.gradient) + float(errors @ found.sizes)) / sqrt(weaker)
    return _Found(point, found, curved_at, weaker, δ, sizes.of_loss(θ, EPSILON), doubt)


# --- S ------------------------------------------------------------------------------------------------------


def _spread(F: Objective, found: _Found, aim: float) -> float:
    """Return S, or, if that is as good, a bound on it that takes less to find."""
    coarse = (_largest(F, found.metric.root, exactly=False) + found.apart) / sqrt(found.weaker)
    a = coarse * found.decrement
    if a < 1 and (a <= SMALL or found.relative(_excess(a) * found.square) <= aim):
        return coarse
    exact = (_largest(F, found.metric.root, exactly=True) + found.apart) / sqrt(found.weaker)
    # Products of a row and R are off by no more than this share of sums of magnitudes.
    return min(exact + 2 * EPSILON * (F.size + 10) * coarse, coarse)


def _largest(F: Objective, root: Array, *, exactly: bool) -> float:
    spreads = F.model.spreads(root, F.like)
    assert spreads is not None
    F.spend(passes=0.5)
    distance = partial(most, spreads.exact if exactly else spreads.coarse)
    return float(F.small_blocks.total(partial(widened, distance)).value)


def _is_flat(F: Objective, metric: Metric) -> bool:
    """Return whether neither a penalty nor any row has a part in directions that the Hessian does not see."""
    flat, parts = metric.flat, np.abs(metric.flat) * metric.scale[:, None]
    if not flat.size:
        return True
    if (parts[F.penalty.strength > 0] > NO_PART * parts.max(axis=0)).any():
        return False
    sizes = F.magnitudes_by_column
    assert sizes.columns is not None
    typical = np.tile(sizes.columns, F.size // len(sizes.columns)) / sqrt(sizes.rows)  # before anything cancels
    # Of all directions together no row has more than it may have of one.
    size = np.abs(flat).T @ typical
    # Along empty columns alone, whose size is zero, nothing has a part.
    return _largest(F, flat / np.where(size > 0, size, 1.0), exactly=True) <= NO_PART


def best_certificate(F: Objective, at: Point, *, move: bool, largest: int) -> Certificate:
    """Return the best of all certificates; see :meth:`Objective.certify`."""
    found = certificates.certify_by_strong_convexity(F, at, move=move)
    if not suits(F, largest):
        return found
    same = np.array_equal(found.theta, at.theta)
    point = at if same and at.scores is not None else Point(found.theta, found.value, found.gradient)
    return better(found, certify(F, point))


def better(one: Certificate, other: Certificate) -> Certificate:
    """Return the one with the smaller gap, with what is known of where the optimum is."""
    best, rest = (other, one) if other.gap <= one.gap or isnan(one.gap) else (one, other)
    if best.region is None and rest.region is not None and np.array_equal(best.theta, rest.theta):
        return replace(best, region=rest.region)
    return best
