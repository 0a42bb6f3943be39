"""The intercepts that minimise the loss while all coefficients stay: what strong convexity needs to certify.

A free intercept is added to the scores of its class, so the loss along the intercepts is a function of scores that are
known: Newton's method takes no pass over the data. Of many classes the Hessian (n×n) takes longer than a pass. Then
iterative scaling makes the first steps, and one Hessian serves as long as intercepts stay within ``NEARBY`` of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from majorant.core.checks import Array
from majorant.core.class_model import ClassModel
from majorant.core.curvature import Factor, lower_factor
from majorant.core.rows import Blocks, Cached, Most, Recompute, labels_only

ITERATIONS, HALVINGS = 200, 60
# Newton stops at a decrease of this share of the loss; a rise of this share may be rounding where the slope falls.
FLAT, FLATNESS = 1e-20, 1e-9
# Logarithm of how unequal classes may be, beyond what scores explain.
MARGIN = 50.0
# Classes from which a Hessian takes longer than a pass, and how far intercepts may move from where it was found.
MANY_CLASSES, NEARBY = 50, 0.1
# Rows at a time for such a Hessian: of fewer it takes longer to be written than to be found.
ROWS_FOR_MANY = 1_000
# Relative to the total weight of the rows: the probability of a class that was never observed which is next to nothing,
# and rounding errors of a slope.
VANISHED, ROUNDING = 1e-10, 1e-15
NOT_FOUND = (np.inf, np.inf, np.inf)


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


def profile_intercept(
    model: ClassModel, blocks: Blocks, scores: Cached, observed: Array, *, keep: bool = True, enough: float = 0.0
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
    """
    keep = keep and not (isinstance(scores, Recompute) and not scores.cached)  # or residuals are as many as scores
    expand = partial(_expand, model, blocks, scores, keep=keep)

    # Newton's method, each step halved until it descends.
    here, hessian = expand(_iterative_scaling(model, blocks, scores, observed), None), None
    for _ in range(ITERATIONS):
        if hessian is not here.hessian:
            hessian, solve = here.hessian, _steadied_solve(here.hessian.matrix)
        step = -solve(here.slope)
        if -float(here.slope @ step) <= max(FLAT * here.loss, enough):
            break
        if np.abs(step).max() > MARGIN:  # saturated rows have no curvature left, and it may lead far beyond them
            farthest = MARGIN + 2 * float(blocks.total(farthest_score, scores).value)
            step = np.clip(step, -farthest, farthest)
        for _ in range(HALVINGS):
            there = expand(here.moved + step, here.hessian)
            flatter = float(np.abs(there.slope).max()) < float(np.abs(here.slope).max())
            if there.loss < here.loss or (flatter and there.loss <= here.loss * (1 + FLATNESS)):
                break
            step = 0.5 * step
        else:
            break
        here = there

    # What may be left. Rows of |diag(p) − ppᵀ| sum to 2p(1 − p), which changes by at most e^2a as scores move by a.
    decrease, distance, largest = _left(here, observed)
    stirred = 2 * distance * np.exp(min(2 * distance, 100.0)) * np.sqrt(here.squares)
    passed_on = np.sqrt(here.squares * here.rows) * largest
    return Profiled(here.moved, here.loss, here.residuals, decrease, stirred, passed_on)


def _iterative_scaling(model: ClassModel, blocks: Blocks, scores: Cached, observed: Array) -> Array:
    """Return zero, or, of many classes, where a few steps b += log(observed/expected) lead, which take no Hessian.

    They never raise the loss (Darroch & Ratcliff, *Generalized iterative scaling for log-linear models*, 1972).
    """
    moved, last = np.zeros(model.coefficient_rows), np.inf
    while len(moved) > MANY_CLASSES and observed.all() and last > NEARBY**2:
        expected = blocks.run(partial(along_intercepts, model, moved, False, False), scores)[0][1] + observed
        if not (expected > 0).all():
            break
        step = np.log(observed / expected)
        moved, before, last = moved + step, last, float(np.abs(step).max())
        if last > 0.5 * before:  # they have become slow
            break
    return moved


class _Hessian(NamedTuple):
    """The Hessian along the intercepts, and the intercepts that it is of."""

    matrix: Array
    at: Array


class _Expansion(NamedTuple):
    """The loss and its derivatives along the intercepts where they have moved; a ``hessian`` may be from nearby."""

    moved: Array
    loss: float
    residuals: Cached
    slope: Array
    hessian: _Hessian
    squares: float  # Σ p²(1 − p)² over all scores
    rows: int


def _expand(
    model: ClassModel, blocks: Blocks, scores: Cached, moved: Array, nearby: _Hessian | None, *, keep: bool
) -> _Expansion:
    """Return loss and slope, and a Hessian: of many classes it is the dearest by far, and one from nearby will do."""
    if nearby is not None and (len(moved) <= MANY_CLASSES or np.abs(moved - nearby.at).max() > NEARBY):
        nearby = None
    apart = nearby is None and keep and len(moved) > MANY_CLASSES and not blocks.delay
    along = partial(along_intercepts, model, moved, nearby is None and not apart, keep)
    (loss, slope, H, squares, rows), residuals = blocks.run(along, scores)
    if apart:
        between = partial(hessian_between_classes, model)
        H = blocks.total_of_large(between, ROWS_FOR_MANY, len(moved) ** 2, residuals)
    return _Expansion(moved, loss, residuals if keep else None, slope, nearby or _Hessian(H, moved), squares, rows)


def _steadied_solve(H: Array) -> Callable[[Array], Array]:
    """Return the function that solves with H, or gives the shortest solution if H is singular."""
    H = _grounded(H)
    H.flat[:: len(H) + 1] += max(1e-12 * float(np.trace(H)) / len(H), 1e-280)
    if len(H) == 1:
        return lambda slope: slope / H[0]
    try:
        return Factor(lower_factor(H))
    except LinAlgError:
        return lambda slope: np.linalg.lstsq(H, slope, rcond=None)[0]


def _grounded(H: Array) -> Array:
    """Return the Hessian with curvature along the direction in which all classes move together: nothing goes there."""
    n = len(H)
    return H + np.trace(H) / n**2 if n > 1 else H.copy()


def _left(here: _Expansion, observed: Array) -> tuple[float, float, float]:
    """Return how much the loss may still decrease, how far intercepts may still move, and max(H⁻¹).

    Self-concordance: with slope s, D = √(sᵀH⁻¹s) and a spread S of at most 2√max(H⁻¹), SD ≤ ½ proves a minimum within
    2D√max(H⁻¹), at most D² lower. A class that was never observed has none: its intercept falls for ever, and gains
    what its slope says once that is next to nothing. (Bach, *Self-concordant analysis for logistic regression*, 2010.)
    """
    seen, total = observed > 0, float(observed.sum())
    slope, H, unseen = here.slope, here.hessian.matrix, 0.0
    if len(slope) > 1:
        unseen = float(np.abs(slope[~seen]).sum())
        slope, H = slope[seen], H[np.ix_(seen, seen)]
    if seen.sum() < 2 or unseen > VANISHED * total:
        return NOT_FOUND
    slope = np.abs(slope) + ROUNDING * total + unseen
    # The Hessian here may be e^2a times less than one of scores that have moved by a since.
    weaker = 1.0 if here.hessian.at is here.moved else exp(2 * float(np.abs(here.moved - here.hessian.at).max()))
    try:
        inverse = weaker * (1 / H if len(H) == 1 and H > 0 else Factor(lower_factor(_grounded(H))).inverse())
    except LinAlgError:  # H is not positive definite
        return NOT_FOUND
    largest = float(np.diagonal(inverse).max())
    decrement = float(slope @ np.abs(inverse) @ slope)
    if not 4 * largest * decrement <= 0.25:
        return NOT_FOUND
    return decrement + 2 * unseen, 2 * np.sqrt(largest * decrement) + unseen, largest


# --- tasks on scores --------------------------------------------------------------------------------------------


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
