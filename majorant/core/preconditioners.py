"""A Gram matrix that problems over the same rows share, for the first steps of each.

Where coefficients are zero, and there are neither weights nor offsets, every row has the same B = diag(p) − ppᵀ. Then
Σ_j w_j x_j x_jᵀ, with w_j = tr(B)/(n − 1), is the mean of x_j x_jᵀ times tr(Σ_j B_j)/(n − 1): labels only matter to a
number. It scales steps, so that of other rows of the same kind will do.

The ladder of metrics that quasi-Newton steps are scaled by, from the diagonal of the Hessian to all of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from majorant.core.checks import Array
from majorant.core.curvature import Diagonal, DiagonalByClass, Factorize, Solve
from majorant.core.descent import grounded_hessian
from majorant.core.labelled import CommonGram, Labelled, MeanProducts
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.prices import VECTOR, Prices
from majorant.core.products import hessian_by_blocks
from majorant.core.structured import Centred, balanced
from majorant.core.threads import as_array

# Rows of each column, for those of a problem to vary as others do: few of them vary along few directions, and there
# much more, and a matrix of their own is cheap.
GRAM_ROWS_PER_COLUMN = 10
# A matrix of fewer rows than this share of what would be taken is found anew.
ENOUGH = 0.5
# Rows that show whether columns are as large as in others.
FEW = 500


def common_gram(objective: Objective, at: Point) -> CommonGram | None:
    """Return what is shared with other problems, if it says anything of a point."""
    like = objective.like
    if not isinstance(like, Labelled) or like.common is None or like.weight is not None or like.offset is not None:
        return None
    few = objective.rows < GRAM_ROWS_PER_COLUMN * like.n_features
    if few or at.theta.reshape(-1, like.n_features)[:, : -1 if like.constant else None].any():
        return None
    return like.common


def known_products(objective: Objective, at: Point, dtype: Any) -> MeanProducts | None:
    """Return what another problem has found, if it is from about as many rows, measured as these are."""
    common = common_gram(objective, at)
    known = None if common is None else common.known.get(dtype)
    if known is None or known.rows < ENOUGH * objective.rows or known.centred != _is_centred(objective):
        return None
    return known


def sums_from(objective: Objective, at: Point, known: MeanProducts) -> tuple[tuple[Array, ...], Array]:
    """Return what :meth:`Objective.mean_gram` would, with products that are known; and the squares of a few rows.

    Σ_j w_j x_j² as these make it out to be is what the diagonal of the Gram matrix should be like.
    """
    C, squares = _of_a_few(objective, at)
    none = np.zeros((0, len(C))), np.zeros(0), np.zeros((0, len(known.gram)))  # of labels
    return (C, known.gram * _weight(C), *none), squares


def leave_to_others(objective: Objective, at: Point, dtype: Any, sums: tuple[Array, ...]) -> None:
    """Let other problems know what :meth:`Objective.mean_gram` has found, if it is of use to them."""
    common = common_gram(objective, at)
    if common is not None:
        gram = sums[1] / _weight(sums[0])
        common.learn(dtype, MeanProducts(gram, objective.rows, _is_centred(objective)))


def _of_a_few(objective: Objective, at: Point) -> tuple[Array, Array]:
    """Return Σ_j B_j, which any row tells, and Σ_j w_j x_j², which some do."""
    t = len(objective.like)
    few = min(FEW, t)
    model, rows = objective.model, objective.like.take(np.arange(few) * t // few).here()
    C, squares = model.class_curvature(model.scores(as_array(at.theta), rows), rows)
    return C * (objective.rows / few), squares * (objective.rows / few)


def _is_centred(objective: Objective) -> bool:
    return objective.model.as_rows().design(objective.like).centre is not None


def _weight(C: Array) -> float:
    """Return what all rows weigh together, tr(C)/(n − 1)."""
    return float(C.trace()) / max(len(C) - 1, 1)


# Rows of each label, and of each column, for what rows of a label have in common to be told apart from the rest.
ROWS_PER_LABEL, ROWS_PER_COLUMN = 50, 20
# What is added to diagonals of wide sparse rows, of their mean: so many times the square of columns per row, and at
# most so much. Diagonals whose mean is so many times their median have columns in units of their own: left alone.
RAISED, MOST_RAISED, UNEVEN = 4.0, 10.0, 30.0
# Of a Gram matrix in single precision, relative to its largest entry.
ROUNDING = 1e-5
# Larger matrices are not worth their factors, nor their memory; numbers of directions that are kept with blocks.
LARGEST_HESSIAN, LARGEST_GRAM, MOST_DIRECTIONS = 2_000, 4_000, 2**25
# Levels of the ladder: from here on a metric is a Hessian, of a sample or of all rows.
HESSIAN = 3


class Preconditioner(ABC):
    """A rung of the ladder: a metric, and what it costs."""

    name: ClassVar[str]
    level: ClassVar[int]  # the better the metric, the higher

    @abstractmethod
    def suits(self, objective: Objective) -> bool:
        """Return whether it can be had for this objective."""

    @abstractmethod
    def price(self, prices: Prices) -> float:
        """Return what it costs, in nanoseconds."""

    def upkeep(self, prices: Prices) -> float:
        """Return what it adds to the price of a step, if that is anything to speak of."""
        return 0.0

    @abstractmethod
    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return the curvature at a point, as what makes its inverse for a ridge."""


@dataclass(frozen=True)
class DiagonalOfHessian(Preconditioner):
    """The diagonal of the Hessian."""

    name: ClassVar[str] = "the diagonal of the Hessian"
    level: ClassVar[int] = 0

    def suits(self, objective: Objective) -> bool:
        """Return True."""
        return True

    def price(self, prices: Prices) -> float:
        """Return about what a pass costs."""
        return prices.diagonal()

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse."""
        objective.spend(curvatures=1)
        entries = objective.hessian_diagonal(point)
        if objective.model.classes(objective.like) == 1:
            entries = _raised(entries, objective.penalty.penalised, _raise_for_wide(objective))
        return Diagonal(entries, majorizes=False).factorized


@dataclass(frozen=True)
class DiagonalBetweenClasses(Preconditioner):
    """C ⊗ diag(g), with C = Σ_j B_j the Hessian between classes and g = Σ_j w_j x_j², w_j = tr(B_j)/(n − 1)."""

    name: ClassVar[str] = "a diagonal, and the Hessian between classes"
    level: ClassVar[int] = 1

    def suits(self, objective: Objective) -> bool:
        """Return whether there are several classes."""
        return objective.model.classes(objective.like) > 1

    def price(self, prices: Prices) -> float:
        """Return that of a pass and of a matrix between classes."""
        return prices.between_classes()

    def upkeep(self, prices: Prices) -> float:
        """Return that of rotations."""
        return prices.rotations()

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse."""
        objective.spend(curvatures=1)
        C, squares = objective.class_curvature(point)
        share, penalised = _raise_for_wide(objective), objective.penalty.penalised[: len(squares)]
        C = C + min(share, 1.0) * np.diag(np.full(len(C), np.trace(C) / len(C)))
        return DiagonalByClass(*balanced(C, _raised(squares, penalised, share))).nearly_factorized


@dataclass(frozen=True)
class GramOfColumns(Preconditioner):
    """C ⊗ G, with C = Σ_j B_j the Hessian between classes and G = Σ_j w_j x_j x_jᵀ, w_j = tr(B_j)/(n − 1).

    What the rows of a label have in common is taken out of G and put where it belongs (:class:`~.Centred`): where
    classes are far apart, that halves the steps. p×p for any number of classes, from as many rows as it takes.
    Eigenvalues of C within a factor of two share one.
    """

    name: ClassVar[str] = "a Gram matrix"
    level: ClassVar[int] = 2

    def suits(self, objective: Objective) -> bool:
        """Return whether there are classes, and not too many columns."""
        classes = objective.model.classes(objective.like)
        return classes > 0 and objective.size // classes <= LARGEST_GRAM

    def price(self, prices: Prices) -> float:
        """Return that of a product of matrices and a few factors."""
        return prices.gram(prices.rows)

    def upkeep(self, prices: Prices) -> float:
        """Return that of solves with the factors."""
        return prices.solves()

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse; in single precision where the penalty exceeds its rounding errors."""
        objective.spend(curvatures=1)
        prices, λ = Prices.of(objective), objective.ridge
        labels = _has_labels(prices, point)
        if λ.any() and not objective.model.as_rows().design(objective.like).is_sparse:
            sums = _sums(objective, point, np.float32, labels=labels)
            least = ROUNDING * float(sums[1].diagonal().max())
            if np.min(λ[λ > 0]) > least:
                return RoundedGram(objective.blocks.scaling(sums), least)
        sums = _sums(objective, point, np.float64, labels=labels)
        return objective.blocks.scaling(sums).nearly_factorized

    def is_known(self, objective: Objective, point: Point) -> bool:
        """Return whether another problem over the same rows has left what it takes at a point."""
        return any(known_products(objective, point, dtype) for dtype in (np.float32, np.float64))


@dataclass(frozen=True)
class HessianOfAll(Preconditioner):
    """The Hessian of all rows."""

    name: ClassVar[str] = "the Hessian"
    level: ClassVar[int] = 4

    def suits(self, objective: Objective) -> bool:
        """Return whether it can be had, and is not too large."""
        return objective.model.has_rows and objective.convex and objective.size <= LARGEST_HESSIAN

    def price(self, prices: Prices) -> float:
        """Return that of many products of matrices, and a factor."""
        return prices.hessian(prices.rows)

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse, or that of one with so much more on its diagonal that it has a factor."""
        return grounded_hessian(objective, point)[1].steadied


@dataclass(frozen=True)
class BlocksOfHessian(Preconditioner):
    """Blocks of the Hessian over parameters that never meet in an outcome, such as those of one alternative."""

    name: ClassVar[str] = "the Hessian of each block"
    level: ClassVar[int] = 2

    def suits(self, objective: Objective) -> bool:
        """Return whether there are such blocks, and the Hessian is too large."""
        large = objective.model.has_rows and objective.convex and objective.size > LARGEST_HESSIAN
        return large and objective.pattern is not None

    def price(self, prices: Prices) -> float:
        """Return that of many small products of matrices."""
        return prices.blocks()

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse."""
        return hessian_by_blocks(objective, point, whole=False).factorized


@dataclass(frozen=True)
class HessianByBlocks(Preconditioner):
    """The Hessian of all rows, as such blocks and a direction for each row."""

    name: ClassVar[str] = "the Hessian by blocks"
    level: ClassVar[int] = 4

    def suits(self, objective: Objective) -> bool:
        """Return whether there are blocks, and directions can be kept."""
        return objective.rows * objective.size <= MOST_DIRECTIONS and BlocksOfHessian().suits(objective)

    def price(self, prices: Prices) -> float:
        """Return that of the blocks, and of products between directions."""
        return prices.blocks() + prices.directions()

    def upkeep(self, prices: Prices) -> float:
        """Return that of solves."""
        return prices.sets * prices.columns * VECTOR

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse."""
        return hessian_by_blocks(objective, point, whole=True).factorized


DIAGONALS = (DiagonalOfHessian(), DiagonalBetweenClasses())
# By the name of the dearest that is wanted, the dearest last.
LADDERS: dict[str, tuple[Preconditioner, ...]] = {
    "auto": (*DIAGONALS, GramOfColumns(), BlocksOfHessian(), HessianByBlocks(), HessianOfAll()),
    "sample": (*DIAGONALS, GramOfColumns(), HessianOfAll()),
    "kronecker": (GramOfColumns(),),
    "diagonal": DIAGONALS,
}


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

    curvature: Centred
    least: float

    def __call__(self, ridge: Array) -> Solve:
        """Return the inverse for a ridge."""
        return self.curvature.nearly_factorized(np.where(ridge > 0, np.maximum(ridge, self.least), 0.0))


def _has_labels(prices: Prices, point: Point) -> bool:
    """Return whether labels tell rows apart: where coefficients are zero they all weigh alike."""
    n, t = prices.classes, prices.rows
    enough = n > 2 and t >= ROWS_PER_LABEL * n and t >= ROWS_PER_COLUMN * prices.columns
    return enough and bool(point.theta.reshape(n, -1)[:, :-1].any())


def _sums(objective: Objective, point: Point, dtype: Any, *, labels: bool) -> tuple[Array, ...]:
    """Return what C ⊗ G is made of, with the products of columns that another problem over such rows has found.

    Those products tell how columns are correlated; how large columns are is found from rows of the problem.
    """
    known = known_products(objective, point, dtype)
    if known is not None:
        sums, squares = sums_from(objective, point, known)
        return _with_diagonal(sums, squares)
    sums = objective.mean_gram(point, dtype, labels=labels)
    leave_to_others(objective, point, dtype, sums)
    return sums


def _with_diagonal(sums: tuple[Array, ...], squares: Array) -> tuple[Array, ...]:
    """Return the sums with another diagonal of G, and columns scaled accordingly."""
    C, G, directions, weight, centres = map(as_array, sums)
    before = G.diagonal()
    scale = np.sqrt(np.divide(squares, before, out=np.zeros(len(squares)), where=before > 0)).astype(G.dtype)
    G = G * scale * scale[:, None]
    np.fill_diagonal(G, squares)
    return C, G, directions, weight, centres * scale
