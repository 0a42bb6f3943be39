"""Minimising over an unpenalised intercept alone: what a certificate needs before strong convexity applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from majorant.core.checks import Array, lazy
from majorant.core.class_model import ClassModel
from majorant.core.curvature import Factor, lower_factor
from majorant.core.rows import Again, Blocks, Kept, Most, without_rows

ITERATIONS = 200
HALVINGS = 60
# The decrease that another step would bring, relative to the loss: what is left is rounding.
FLAT = 1e-20
# A rise of the loss, relative to itself, that may be rounding if the slope falls.
FLATNESS = 1e-9
# Beyond the largest score: the logarithm of how unequal classes may be.
MARGIN = 50.0
NOT_FOUND = (np.inf, np.inf, np.inf)
# The probability of a class that was never observed, relative to the total weight of the rows, that is next to nothing.
VANISHED = 1e-10
# A larger Hessian takes longer than a pass, and is found again only where scores have moved farther.
MANY_CLASSES, NEARBY = 50, 0.1
# It is of so many rows at a time: of fewer it takes longer to be written than to be found.
ROWS_FOR_MANY = 1_000
# Rounding errors of a slope, relative to the total weight of the rows.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Profiled:
    """How far the intercepts move to be at their best, loss and residuals there, and what may be left.

    ``decrease`` bounds how much lower the loss could still be, ``stirred`` how far residuals (as one vector) are from
    those at the minimum; both are infinite where none was found. An error of the residuals moves the minimum, and is
    ``passed_on`` so many times by that. There are no residuals where scores were not kept.
    """

    moved: Array
    loss: float
    residuals: Kept
    decrease: float
    stirred: float
    passed_on: float


@dataclass(frozen=True, eq=False)
class _Hessian:
    """That along the intercepts where they had moved to."""

    at: Array
    matrix: Array

    def solve(self, slope: Array) -> Array:
        """Return H⁻¹ slope, or the shortest solution if H is singular."""
        if len(slope) == 1:
            return slope / self._steadied[0]
        if self._factor is not None:
            return self._factor(slope)
        return np.linalg.lstsq(self._steadied, slope, rcond=None)[0]

    @lazy
    def _steadied(self) -> Array:
        H = _grounded(self.matrix)
        H.flat[:: len(H) + 1] += max(1e-12 * float(np.trace(H)) / len(H), 1e-280)
        return H

    @lazy
    def _factor(self) -> Factor | None:
        try:
            return Factor(lower_factor(self._steadied))
        except LinAlgError:
            return None


@dataclass(frozen=True, eq=False)
class _Expansion:
    moved: Array
    loss: float
    residuals: Kept
    slope: Array
    hessian: _Hessian  # here, or of many classes nearby
    squares: float  # Σ p²(1 − p)² over all scores
    rows: int

    @property
    def weaker(self) -> float:
        """How many times less than the Hessian nearby that here may be: e^2a where scores have moved by a."""
        at = self.hessian.at
        return 1.0 if at is self.moved else exp(2 * float(np.abs(self.moved - at).max()))


def profile_intercept(
    model: ClassModel, blocks: Blocks, scores: Kept, observed: Array, *, keep: bool = True, enough: float = 0.0
) -> Profiled:
    """Return how much to add to the scores of each class for the loss to be least, given the scores of every block.

    Newton's method, each step halved until it descends. The data are not visited. ``observed`` are class totals;
    ``keep`` says whether there is room for residuals, ``enough`` which decrease of the loss is not worth another step.
    """
    expand = partial(_expand, model, blocks, scores, keep=keep)
    here = expand(_first_guess(model, blocks, scores, observed), None)
    for _ in range(ITERATIONS):
        step = -here.hessian.solve(here.slope)  # saturated rows have no curvature left, and it may lead far beyond them
        if -float(here.slope @ step) <= max(FLAT * here.loss, enough):
            break
        there = _descend(expand, here, _clipped(step, model, blocks, scores))
        if there is None:
            break
        here = there
    decrease, distance, largest = _what_is_left(here, observed)
    # |diag(p) − ppᵀ| has rows that sum to 2p(1 − p), which changes by a factor of at most e^2a as scores move by a.
    stirred = 2 * distance * np.exp(min(2 * distance, 100.0)) * np.sqrt(here.squares)
    passed_on = np.sqrt(here.squares * here.rows) * largest
    return Profiled(here.moved, here.loss, here.residuals, decrease, stirred, passed_on)


def _clipped(step: Array, model: ClassModel, blocks: Blocks, scores: Kept) -> Array:
    """Return a step no longer than scores can be apart."""
    if np.abs(step).max() <= MARGIN:
        return step
    farthest = MARGIN + 2 * float(blocks.total(partial(farthest_score, model), scores).value)
    return np.clip(step, -farthest, farthest)


def _first_guess(model: ClassModel, blocks: Blocks, scores: Kept, observed: Array) -> Array:
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


@without_rows
def along_intercepts(
    model: ClassModel, moved: Array, curved: bool, keep: bool, scores: Array, block: Any
) -> tuple[Any, Array | None]:
    """Return loss, slope, Hessian (if ``curved``), Σ p²(1 − p)² and rows where intercepts have moved; and residuals."""
    along, residual = model.along_intercepts(scores, moved, block, curved=curved)
    return (*along, len(block)), residual if keep else None


@without_rows
def hessian_between_classes(model: ClassModel, residual: Array, block: Any) -> Array:
    """Return the Hessian along the intercepts, of residuals that were kept."""
    return model.between_classes(residual, block)[0]


@without_rows
def farthest_score(model: ClassModel, scores: Array, block: Any) -> Most:
    """Return the largest finite ``|score|``."""
    return Most(model.farthest(scores))


def _expand(
    model: ClassModel, blocks: Blocks, scores: Kept, moved: Array, nearby: _Hessian | None, *, keep: bool
) -> _Expansion:
    """Return loss and slope, and a Hessian: of many classes it is the dearest by far, and one from nearby will do."""
    if nearby is not None and (len(moved) <= MANY_CLASSES or np.abs(moved - nearby.at).max() > NEARBY):
        nearby = None
    keep = keep and not (isinstance(scores, Again) and not scores.kept)  # or residuals are as many as scores
    apart = nearby is None and keep and len(moved) > MANY_CLASSES and not blocks.delay
    curved = nearby is None and not apart
    (loss, slope, H, squares, rows), residuals = blocks.run(
        partial(along_intercepts, model, moved, curved, keep), scores
    )
    if apart:
        H = blocks.total_of_large(partial(hessian_between_classes, model), ROWS_FOR_MANY, len(moved) ** 2, residuals)
    kept = residuals if keep else None
    return _Expansion(moved, loss, kept, slope, nearby or _Hessian(moved, H), squares, rows)


def _descend(expand: Callable[..., _Expansion], here: _Expansion, step: Array) -> _Expansion | None:
    """Return where the longest of the halved steps leads that descends, or nothing if none does."""
    for _ in range(HALVINGS):
        there = expand(here.moved + step, here.hessian)
        flatter = float(np.abs(there.slope).max()) < float(np.abs(here.slope).max())
        if there.loss < here.loss or (flatter and there.loss <= here.loss * (1 + FLATNESS)):
            return there
        step = 0.5 * step
    return None


def _grounded(H: Array) -> Array:
    """Return the Hessian with curvature along the direction in which all classes move together: nothing goes there."""
    n = len(H)
    return H + np.trace(H) / n**2 if n > 1 else H.copy()


def _what_is_left(here: _Expansion, observed: Array) -> tuple[float, float, float]:
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
    try:
        inverse = here.weaker * (1 / H if len(H) == 1 and H > 0 else Factor(lower_factor(_grounded(H))).inverse())
    except LinAlgError:  # H is not positive definite
        return NOT_FOUND
    largest = float(np.diagonal(inverse).max())
    decrement = float(slope @ np.abs(inverse) @ slope)
    if not 4 * largest * decrement <= 0.25:
        return NOT_FOUND
    return decrement + 2 * unseen, 2 * np.sqrt(largest * decrement) + unseen, largest
