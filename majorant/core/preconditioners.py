"""The ladder of metrics that quasi-Newton steps are scaled by, from the diagonal of the Hessian to all of it.

A metric is found at a point, as a function from a ridge to the solves with it. :meth:`Preconditioner.price` says what
it costs: that is what ``majorant.core.policy`` decides by.

Problems over the same rows share a Gram matrix, for the first steps of each. Where coefficients are zero, and there are
neither weights nor offsets, every row has the same B = diag(p) − ppᵀ. Then Σ_j w_j x_j x_jᵀ, with w_j = tr(B)/(n − 1),
is the mean of x_j x_jᵀ times tr(Σ_j B_j)/(n − 1): labels only matter to a number. It scales steps, so that of other
rows of the same kind will do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, ClassVar

import numpy as np

from majorant.core.certificates import LARGEST
from majorant.core.checks import Array
from majorant.core.curvature import Diagonal, DiagonalByClass, Factorize, Solve
from majorant.core.descent import grounded_hessian
from majorant.core.labelled import CommonGram, Labelled, MeanProducts
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.prices import LARGEST_COPY, LARGEST_GRAM, SINGLE, VECTOR, Prices
from majorant.core.structured import Arrow, Kronecker, balanced
from majorant.core.threads import as_array

# Rows of each column, for a mean over rows to tell how columns hang together.
ROWS_PER_COLUMN = 20
# What is added to diagonals of wide sparse rows, of their mean: so many times the square of columns per row, and at
# most so much. Diagonals whose mean is so many times their median have columns in units of their own: left alone.
RAISED, MOST_RAISED, UNEVEN = 4.0, 10.0, 30.0


class Level(IntEnum):
    """The rungs of the ladder. From the Hessian of a sample on a metric is a Hessian."""

    NONE = -1
    DIAGONAL = 0
    BETWEEN_CLASSES = 1
    GRAM = 2
    SAMPLE = 3
    HESSIAN = 4


@dataclass(frozen=True, eq=False)
class StartResult:
    """Where a start has led: a point to go on from, and the metric of the steps from there if it is known."""

    point: Point
    factorize: Factorize | None = None  # the metric, as what makes its inverse for a ridge
    level: int = Level.BETWEEN_CLASSES  # of the metric
    least_factor: float | None = None  # of the metric, if it is right but for a factor, which L-BFGS pairs tell
    continuation: Any = None  # what goes on with the start, if it is not done yet: it has ``go_on`` and ``revived``
    steps: int = 0  # made on the way
    account: tuple[str, ...] = ()  # what was done
    remark: str = ""  # what a user should know of how it went


@dataclass(frozen=True, eq=False)
class Unridged:
    """A metric that is what it is, whatever the ridge."""

    solve: Solve

    def __call__(self, ridge: Array) -> Solve:
        """Return its inverse."""
        return self.solve


class Preconditioner(ABC):
    """A rung of the ladder: a metric, and what it costs."""

    name: ClassVar[str]
    level: ClassVar[int]  # the better the metric, the higher

    @abstractmethod
    def price(self, objective: Objective) -> tuple[float, float] | None:
        """Return what it costs and what it adds to the price of a step, in nanoseconds; None if it cannot be had."""

    @abstractmethod
    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return the curvature at a point, as what makes its inverse for a ridge."""


@dataclass(frozen=True)
class DiagonalOfHessian(Preconditioner):
    """The diagonal of the Hessian."""

    name: ClassVar[str] = "the diagonal of the Hessian"
    level: ClassVar[int] = Level.DIAGONAL

    def price(self, objective: Objective) -> tuple[float, float]:
        return Prices.of(objective).diagonal(), 0.0

    def at(self, objective: Objective, point: Point) -> Factorize:
        objective.spend(curvatures=1)
        entries = objective.hessian_diagonal(point)
        if objective.model.classes(objective.like) == 1:
            entries = _raised(entries, objective.penalty.penalised, _raise_for_wide(objective))
        return Diagonal(entries, majorizes=False).factorized


@dataclass(frozen=True)
class DiagonalBetweenClasses(Preconditioner):
    """C ⊗ diag(g), with C = Σ_j B_j the Hessian between classes and g = Σ_j w_j x_j², w_j = tr(B_j)/(n − 1)."""

    name: ClassVar[str] = "a diagonal, and the Hessian between classes"
    level: ClassVar[int] = Level.BETWEEN_CLASSES

    def price(self, objective: Objective) -> tuple[float, float] | None:
        if objective.model.classes(objective.like) < 2:
            return None
        prices = Prices.of(objective)
        return prices.between_classes(), prices.rotations()

    def at(self, objective: Objective, point: Point) -> Factorize:
        objective.spend(curvatures=1)
        C, squares = objective.class_curvature(point)
        share, penalised = _raise_for_wide(objective), objective.penalty.penalised[: len(squares)]
        C = C + min(share, 1.0) * np.diag(np.full(len(C), np.trace(C) / len(C)))
        return DiagonalByClass(*balanced(C, _raised(squares, penalised, share))).nearly_factorized


@dataclass(frozen=True)
class GramOfColumns(Preconditioner):
    """C ⊗ G, with C = Σ_j B_j the Hessian between classes and G = Σ_j w_j x_j x_jᵀ, w_j = tr(B_j)/(n − 1).

    p×p for any number of classes. Eigenvalues of C within a factor of two share one. It is in single precision where
    the penalty exceeds its rounding errors.
    """

    name: ClassVar[str] = "a Gram matrix"
    level: ClassVar[int] = Level.GRAM

    def price(self, objective: Objective) -> tuple[float, float] | None:
        classes = objective.model.classes(objective.like)
        if not classes or objective.size // classes > LARGEST_GRAM:
            return None
        prices = Prices.of(objective)
        return prices.gram(prices.rows), prices.solves()

    def at(self, objective: Objective, point: Point) -> Factorize:
        objective.spend(curvatures=1)
        λ = objective.ridge
        if λ.any() and not objective.model.as_rows().design(objective.like).is_sparse:
            sums = gram_sums(objective, point, np.float32)
            least = SINGLE * float(sums[1].diagonal().max())
            if np.min(λ[λ > 0]) > least:
                return RoundedGram(objective.blocks.kronecker(*sums), least)
        return objective.blocks.kronecker(*gram_sums(objective, point, np.float64)).nearly_factorized

    def is_known(self, objective: Objective, point: Point) -> bool:
        """Return whether another problem over the same rows has left what it takes at a point."""
        return any(shared_gram(objective, point, dtype)[1] for dtype in (np.float32, np.float64))


@dataclass(frozen=True)
class HessianOfAll(Preconditioner):
    """The Hessian of all rows, or one with so much more on its diagonal that it has a factor."""

    name: ClassVar[str] = "the Hessian"
    level: ClassVar[int] = Level.HESSIAN

    def price(self, objective: Objective) -> tuple[float, float] | None:
        if not (objective.model.has_rows and objective.convex and objective.size <= LARGEST):
            return None
        prices = Prices.of(objective)
        return prices.hessian(prices.rows), 0.0

    def at(self, objective: Objective, point: Point) -> Factorize:
        return grounded_hessian(objective, point)[1].steadied


@dataclass(frozen=True)
class BlocksOfHessian(Preconditioner):
    """Blocks of a large Hessian over parameters that never meet in an outcome, such as those of one alternative."""

    name: ClassVar[str] = "the Hessian of each block"
    level: ClassVar[int] = Level.GRAM

    def price(self, objective: Objective) -> tuple[float, float] | None:
        large = objective.model.has_rows and objective.convex and objective.size > LARGEST
        return (Prices.of(objective).blocks(), 0.0) if large and objective.pattern is not None else None

    def at(self, objective: Objective, point: Point) -> Factorize:
        return hessian_by_blocks(objective, point, whole=False).factorized


@dataclass(frozen=True)
class HessianByBlocks(Preconditioner):
    """The Hessian of all rows, as such blocks and a direction for each row."""

    name: ClassVar[str] = "the Hessian by blocks"
    level: ClassVar[int] = Level.HESSIAN

    def price(self, objective: Objective) -> tuple[float, float] | None:
        blocks = BlocksOfHessian().price(objective) if 8 * objective.rows * objective.size <= LARGEST_COPY else None
        if blocks is None:
            return None
        prices = Prices.of(objective)
        return blocks[0] + prices.directions(), prices.sets * prices.columns * VECTOR

    def at(self, objective: Objective, point: Point) -> Factorize:
        return hessian_by_blocks(objective, point, whole=True).factorized


def hessian_by_blocks(F: Objective, at: Point, *, whole: bool) -> Arrow:
    """Return the Hessian of the loss, of an objective that has a pattern: all of it, or blocks alone."""
    assert F.pattern is not None
    F.spend(curvatures=1)
    arrow, rows = partial(F.model.arrow, pattern=F.pattern, whole=whole), F.model.curvature_rows(F.like)
    found: Arrow = F.blocks.total_of_large(arrow, rows, F.size, F.scores(at))
    return found


DIAGONALS = (DiagonalOfHessian(), DiagonalBetweenClasses())
# By the name of the dearest that is wanted, the dearest last.
LADDERS: dict[str, tuple[Preconditioner, ...]] = {
    "auto": (*DIAGONALS, GramOfColumns(), BlocksOfHessian(), HessianByBlocks(), HessianOfAll()),
    "sample": (*DIAGONALS, GramOfColumns(), HessianOfAll()),
    "kronecker": (GramOfColumns(),),
    "diagonal": DIAGONALS,
}


def shared_gram(objective: Objective, at: Point, dtype: Any) -> tuple[CommonGram | None, MeanProducts | None]:
    """Return where problems over the same rows leave their Gram matrix, if that holds at a point; and the one there."""
    like = objective.like
    if not isinstance(like, Labelled) or like.common is None or like.weight is not None or like.offset is not None:
        return None, None
    # Few rows vary along few directions, and there much more: a matrix of their own is cheap.
    few = 2 * objective.rows < ROWS_PER_COLUMN * like.n_features
    if few or at.theta.reshape(-1, like.n_features)[:, : -1 if like.constant else None].any():
        return None, None
    known, centred = like.common.known.get(dtype), objective.model.as_rows().design(like).centre is not None
    suits = known is not None and known.rows >= objective.rows / 2 and known.centred == centred
    return like.common, known if suits else None


def gram_sums(objective: Objective, point: Point, dtype: Any) -> tuple[Array, Array]:
    """Return C = Σ_j B_j and G = Σ_j w_j x_j x_jᵀ, if it can be from what another problem over such rows has found.

    That tells how columns are correlated; how large they are is found from rows of the problem.
    """
    common, known = shared_gram(objective, point, dtype)
    if known is None:
        sums = objective.mean_gram(point, dtype)
        if common is not None:
            mean = sums[1] * (max(len(sums[0]) - 1, 1) / float(sums[0].trace()))
            centred = objective.model.as_rows().design(objective.like).centre is not None
            common.learn(dtype, MeanProducts(mean, objective.rows, centred))
        return sums
    (C, squares), G = map(as_array, objective.class_curvature(point)), as_array(known.gram)
    diagonal = G.diagonal()
    scale = np.sqrt(np.divide(squares, diagonal, out=np.zeros(len(squares)), where=diagonal > 0)).astype(dtype)
    G = G * scale * scale[:, None]
    np.fill_diagonal(G, squares)
    return C, G


def _raise_for_wide(objective: Objective) -> float:
    """Return what to add to a diagonal of sparse rows, of its mean, where columns are nearly as many as rows, or more.

    Along many directions there is then nothing but the penalty, which is the same for all: in its metric they are one,
    and no step leads into them; in that of a diagonal they are as different as columns are. The fewer rows are not sure
    of their labels yet, the more there are.
    """
    if not objective.model.as_rows().design(objective.like).is_sparse:
        return 0.0
    columns = objective.size // objective.model.classes(objective.like)
    return min(RAISED * (columns / objective.rows) ** 2, MOST_RAISED)


def _raised(entries: Array, penalised: Array, share: float) -> Array:
    """Return a diagonal with so much more of its mean wherever there is a penalty."""
    each = entries[penalised]
    if not (share and len(each)) or each.mean() > UNEVEN * np.median(each):
        return entries
    return entries + np.where(penalised, share * each.mean(), 0.0)


@dataclass(frozen=True, eq=False)
class RoundedGram:
    """C ⊗ G from products in single precision: a smaller ridge than ``least`` is lost in their rounding errors."""

    curvature: Kronecker
    least: float

    def __call__(self, ridge: Array) -> Solve:
        """Return the inverse for a ridge."""
        return self.curvature.nearly_factorized(np.where(ridge > 0, np.maximum(ridge, self.least), 0.0))
