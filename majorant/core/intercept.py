"""The intercepts that minimise the loss while all coefficients stay: what strong convexity needs to certify.

A free intercept is added to the scores of its class, so the loss along the intercepts is a function of scores that are
known: Newton's method takes no pass over the data. Of many classes the Hessian (n×n) takes longer than a pass. Then
iterative scaling makes the first steps, and one Hessian serves as long as intercepts stay within ``NEARBY`` of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from majorant.core.checks import Array
from majorant.core.class_model import ClassModel
from majorant.core.curvature import Factor, grounded, lower_factor
from majorant.core.rounding import EPSILON
from majorant.core.rows import Blocks, Cached, Most, Recompute, labels_only

# Newton's steps, and how often one is halved; each is many more than it takes.
STEPS, HALVINGS = 200, 60
# Relative: a rise of the loss that may be rounding, a probability of a class that is next to nothing; its square is a
# decrease of the loss that is nothing.
NEGLIGIBLE = 1e-10
# A longer step has left the rows where curvature was.
LONGEST = -log(EPSILON)
# Classes from which a Hessian takes longer than a pass, and how far intercepts may move from where it was found.
MANY_CLASSES, NEARBY = 50, 0.1


@dataclass(frozen=True, eq=False)
class Profiled:
    """How far the intercepts move to be at their best, loss and residuals there, and what may be left.

    ``decrease`` bounds how much lower the loss could still be, ``stirred`` how far residuals (as one vector) are from
    those at the minimum; both are infinite where none was found. An error of the residuals moves the minimum, and is
    ``passed_on`` so many times by that. There are no residuals where scores were not kept.
    """

    moved: Array
    loss: float
    residuals: Cached
    decrease: float
    stirred: float
    passed_on: float
    distance: float  # how far the intercepts are from the best at most


@dataclass(frozen=True, eq=False)
class Expansion:
    """The loss and its derivatives along the intercepts where they have moved; the Hessian may be from nearby."""

    moved: Array
    loss: float
    residuals: Cached
    slope: Array
    hessian: Array
    hessian_at: Array  # the intercepts that it is of
    squares: float  # Σ p²(1 − p)² over all scores
    rows: int


def profile_intercept(
    model: ClassModel,
    blocks: Blocks,
    scores: Cached,
    observed: Array,
    *,
    keep: bool = True,
    enough: float = 0.0,
    exact: bool = False,
) -> Profiled:
    """Return the intercepts to add to the scores of each class for the loss to be least.

    Parameters
    ----------
    model : ClassModel
        The loss of scores.
    blocks, scores
        Where the scores are. The data themselves are not visited.
    observed : array of shape (n,)
        The total weight of each class.
    keep : bool
        Whether there is room for residuals.
    enough : float
        A decrease of the loss that is not worth another step.
    exact : bool
        Whether residuals have to sum to zero, but for rounding, and not only the loss has to be at its least.
    """
    keep = keep and not (isinstance(scores, Recompute) and not scores.cached)  # or residuals are as many as scores
    many = model.coefficient_rows > MANY_CLASSES

    def expand(moved: Array, nearby: Expansion | None) -> Expansion:
        """Return loss, slope and a Hessian, which is the dearest of many classes: one from nearby will do."""
        known = many and nearby is not None and np.abs(moved - nearby.hessian_at).max() <= NEARBY
        apart = many and not known and keep and not blocks.delay
        along = partial(along_intercepts, model, moved, not (known or apart), keep)
        (loss, slope, H, squares, rows), residuals = blocks.run(along, scores)
        at = moved
        if apart:
            between = partial(hessian_between_classes, model)
            # Rows at a time for such a Hessian: of fewer it takes longer to be written than to be found.
            H = blocks.total_of_large(between, 1_000, len(moved) ** 2, residuals)
        elif known:
            assert nearby is not None
            H, at = nearby.hessian, nearby.hessian_at
        return Expansion(moved, loss, residuals if keep else None, slope, H, at, squares, rows)

    # Of many classes a few steps b += log(observed/expected), which take no Hessian. They never raise the loss
    # (Darroch & Ratcliff, *Generalized iterative scaling for log-linear models*, 1972).
    moved, last = np.zeros(model.coefficient_rows), np.inf
    while many and observed.all() and last > NEARBY**2:
        expected = blocks.run(partial(along_intercepts, model, moved, False, False), scores)[0][1] + observed
        if not (expected > 0).all():
            break
        step = np.log(observed / expected)
        moved, before, last = moved + step, last, float(np.abs(step).max())
        if last > 0.5 * before:  # they have become slow
            break

    # Newton's method, each step halved until it descends.
    here, solves_at = expand(moved, None), None
    solve: Any
    for _ in range(STEPS):
        if solves_at is not here.hessian_at:  # of a singular Hessian the shortest solution
            H = grounded(here.hessian, len(moved)) if len(moved) > 1 else here.hessian.copy()
            solves_at = here.hessian_at
            H.flat[:: len(H) + 1] += max(1e-12 * float(np.trace(H)) / len(H), 1e-280)
            try:
                solve = (lambda b, H=H: b / H[0]) if len(H) == 1 else Factor(lower_factor(H))
            except LinAlgError:
                solve = lambda b, H=H: np.linalg.lstsq(H, b, rcond=None)[0]  # noqa: E731
        step = -solve(here.slope)
        settled = -float(here.slope @ step) <= max(NEGLIGIBLE**2 * here.loss, enough)
        if settled and (not exact or float(np.abs(here.slope).max()) <= 8 * EPSILON * float(observed.sum())):
            break
        if np.abs(step).max() > LONGEST:  # saturated rows have no curvature left, and it may lead far beyond them
            farthest = LONGEST + 2 * float(blocks.total(farthest_score, scores).value)
            step = np.clip(step, -farthest, farthest)
        for _ in range(1 if settled else HALVINGS):
            there = expand(here.moved + step, here)
            flatter = float(np.abs(there.slope).max()) < float(np.abs(here.slope).max())
            if there.loss < here.loss or (flatter and there.loss <= here.loss * (1 + NEGLIGIBLE)):
                break
            step = 0.5 * step
        else:
            break
        here = there

    # What may be left. Rows of |diag(p) − ppᵀ| sum to 2p(1 − p), which changes by at most e^2a as scores move by a.
    decrease, distance, largest = _left(here, observed)
    stirred = 2 * distance * np.exp(min(2 * distance, 100.0)) * np.sqrt(here.squares)
    passed_on = np.sqrt(here.squares * here.rows) * largest
    return Profiled(here.moved, here.loss, here.residuals, decrease, stirred, passed_on, distance)


def _left(here: Expansion, observed: Array) -> tuple[float, float, float]:
    """Return how much the loss may still decrease, how far intercepts may still move, and max(H⁻¹).

    Self-concordance: with slope s, D = √(sᵀH⁻¹s) and a spread S of at most 2√max(H⁻¹), SD ≤ ½ proves a minimum within
    2D√max(H⁻¹), at most D² lower. A class that was never observed has none: its intercept falls for ever, and gains
    what its slope says once that is next to nothing. (Bach, *Self-concordant analysis for logistic regression*, 2010.)
    """
    seen, total = observed > 0, float(observed.sum())
    slope, H, unseen = here.slope, here.hessian, 0.0
    nothing = (np.inf, np.inf, np.inf)
    if len(slope) > 1:
        unseen = float(np.abs(slope[~seen]).sum())
        slope, H = slope[seen], H[np.ix_(seen, seen)]
    if seen.sum() < 2 or unseen > NEGLIGIBLE * total:
        return nothing
    slope = np.abs(slope) + 4 * EPSILON * total + unseen  # rounding of residuals and of their sums
    # The Hessian here may be e^2a times less than one of scores that have moved by a since.
    weaker = exp(2 * float(np.abs(here.moved - here.hessian_at).max()))
    try:
        inverse = 1 / H if len(H) == 1 and H > 0 else Factor(lower_factor(grounded(H, len(H)))).inverse()
    except LinAlgError:  # H is not positive definite
        return nothing
    inverse = weaker * inverse
    largest = float(np.diagonal(inverse).max())
    decrement = float(slope @ np.abs(inverse) @ slope)
    if not 4 * largest * decrement <= 0.25:
        return nothing
    return decrement + 2 * unseen, 2 * np.sqrt(largest * decrement) + unseen, largest


# --- functions of scores and a block ----------------------------------------------------------------------------


@labels_only
def along_intercepts(
    model: ClassModel, moved: Array, curved: bool, keep: bool, scores: Array, block: Any
) -> tuple[Any, Array | None]:
    """Return loss, slope, Hessian (if ``curved``), Σ p²(1 − p)² and rows where intercepts have moved; and residuals."""
    along, residual = model.along_intercepts(scores, moved, block, curved=curved)
    return (*along, len(block)), residual if keep else None


@labels_only
def hessian_between_classes(model: ClassModel, residual: Array, block: Any) -> Array:
    """Return the Hessian along the intercepts, of residuals that were kept."""
    return model.between_classes(residual, block)[0]


@labels_only
def farthest_score(scores: Array, block: Any) -> Most:
    """Return the largest finite ``|score|``."""
    size = abs(scores)
    size[size == np.inf] = 0.0
    return Most(float(size.max()))
