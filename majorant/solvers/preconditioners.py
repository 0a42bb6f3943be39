"""What quasi-Newton steps are scaled by: curvatures that are cheap for some size of data. None is a bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from majorant._checks import Array
from majorant._vectors import here
from majorant.curvature import Centred, Diagonal, DiagonalByClass, Factorize, Solve, balanced
from majorant.objective import Objective, Point
from majorant.objective.by_blocks import hessian_by_blocks
from majorant.objective.common_gram import known_products, leave_to_others, sums_from
from majorant.solvers.descent import grounded_hessian
from majorant.solvers.prices import FAR, Prices

# Rows of each label, and of each column, for what the rows of a label have in common to tell of them.
ROWS_PER_LABEL, ROWS_PER_COLUMN = 50, 10
# Rows of each column for a Gram matrix; more only while they cost less than a few passes over the data.
GRAM_ROWS_PER_COLUMN = 10
GRAM_COST = 4
# By how much a share of the rows may misjudge the curvature of a column, and what rows weigh in that at most.
MISJUDGED, WEIGHT = 4.0, 0.25
# What is added to diagonals, of their mean: so many times the square of columns per row, at most so much; and, at most,
# to the Hessian between classes. Diagonals whose mean is so many times their median are left alone.
RAISED, MOST_RAISED, MOST_BETWEEN_CLASSES = 4.0, 10.0, 1.0
UNEVEN = 30.0
# Of a Gram matrix in single precision, relative to its largest entry.
ROUNDING = 1e-5
# Larger matrices are not worth their factors, nor their memory.
LARGEST_HESSIAN, LARGEST_GRAM = 2_000, 4_000
# Numbers of directions that are kept, twice.
MOST_DIRECTIONS = 2**25


class Preconditioner(ABC):
    """A way to find a curvature to scale steps by."""

    name: ClassVar[str]
    quality: ClassVar[int]  # the better, the higher; better ones cost more

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
    quality: ClassVar[int] = 0

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
    quality: ClassVar[int] = 1

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
        C = C + min(share, MOST_BETWEEN_CLASSES) * np.diag(np.full(len(C), np.trace(C) / len(C)))
        return DiagonalByClass(*balanced(C, _raised(squares, penalised, share))).nearly_factorized


@dataclass(frozen=True)
class GramOfColumns(Preconditioner):
    """C ⊗ G, with C = Σ_j B_j the Hessian between classes and G = Σ_j w_j x_j x_jᵀ, w_j = tr(B_j)/(n − 1).

    What the rows of a label have in common is taken out of G and put where it belongs (:class:`~.Centred`): where
    classes are far apart, that halves the steps. p×p for any number of classes, from as many rows as it takes.
    Eigenvalues of C within a factor of two share one.
    """

    name: ClassVar[str] = "a Gram matrix"
    quality: ClassVar[int] = 2

    def suits(self, objective: Objective) -> bool:
        """Return whether there are classes, and not too many columns."""
        classes = objective.model.classes(objective.like)
        return classes > 0 and objective.size // classes <= LARGEST_GRAM

    def price(self, prices: Prices) -> float:
        """Return that of a product of matrices and a few factors."""
        return prices.gram(self._rows(prices))

    def upkeep(self, prices: Prices) -> float:
        """Return that of solves with the factors."""
        return prices.solves()

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse."""
        objective.spend(curvatures=1)
        prices = Prices.of(objective)
        share = self._rows(prices) / objective.rows
        return _gram(objective, point, min(share, 1.0), labels=_has_labels(prices, point))

    def is_known(self, objective: Objective, point: Point, prices: Prices) -> bool:
        """Return whether another problem over the same rows has left what it takes at a point."""
        return any(known_products(objective, point, dtype, self._rows(prices)) for dtype in (np.float32, np.float64))

    def price_if_known(self, prices: Prices) -> float:
        """Return that of the factors."""
        return prices.gram(0)

    @staticmethod
    def _rows(prices: Prices) -> float:
        t, n, p = prices.rows, prices.classes, prices.columns
        enough = max(GRAM_ROWS_PER_COLUMN * p, GRAM_COST * t * n / (p * prices.slow), prices.rows_for_a_call)
        return enough if 2 * enough < t else t


@dataclass(frozen=True)
class HessianOfAll(Preconditioner):
    """The Hessian of all rows."""

    name: ClassVar[str] = "the Hessian"
    quality: ClassVar[int] = 4  # better than that of a sample

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
    quality: ClassVar[int] = 2

    def suits(self, objective: Objective) -> bool:
        """Return whether there are such blocks, and the Hessian is too large."""
        large = objective.model.has_rows and objective.convex and objective.size > LARGEST_HESSIAN
        return large and objective.facts.pattern is not None

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
    quality: ClassVar[int] = 4

    def suits(self, objective: Objective) -> bool:
        """Return whether there are blocks, and directions can be kept."""
        return objective.rows * objective.size <= MOST_DIRECTIONS and BlocksOfHessian().suits(objective)

    def price(self, prices: Prices) -> float:
        """Return that of the blocks, and of products between directions."""
        return prices.blocks() + prices.directions()

    def upkeep(self, prices: Prices) -> float:
        """Return that of solves."""
        return 2 * prices.sets * prices.columns * FAR

    def at(self, objective: Objective, point: Point) -> Factorize:
        """Return what makes its inverse."""
        return hessian_by_blocks(objective, point, whole=True).factorized


_DIAGONALS = (DiagonalOfHessian(), DiagonalBetweenClasses())
# By the name of the dearest that is wanted, the dearest last.
OFFERS: dict[str, tuple[Preconditioner, ...]] = {
    "auto": (*_DIAGONALS, GramOfColumns(), BlocksOfHessian(), HessianByBlocks(), HessianOfAll()),
    "sample": (*_DIAGONALS, GramOfColumns(), HessianOfAll()),
    "kronecker": (GramOfColumns(),),
    "diagonal": _DIAGONALS,
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
    """Return a diagonal with so much more of its mean wherever there is a penalty.

    Columns that differ by more than how often they occur have units of their own, which a mean would drown.
    """
    each = entries[penalised]
    if not (share and len(each)) or each.mean() > UNEVEN * np.median(each):
        return entries
    return entries + np.where(penalised, share * each.mean(), 0.0)


def _speaks_for_all(objective: Objective, share: float) -> bool:
    """Return whether a share of the rows shows no column to be much larger or smaller than it is in all of them.

    Columns of which few rows make up nearly all would seem to be combinations of others, and steps along them far too
    long to be taken.
    """
    of_all, of_some = objective.facts.squares_of_some(share)
    return _are_alike(WEIGHT * of_all, WEIGHT * of_some, objective.ridge)


def _are_alike(of_all: Array, of_some: Array, ridge: Array) -> bool:
    """Return whether two diagonals are nowhere far apart, compared to the penalty."""
    λ = ridge[: len(of_all)]
    ratio = (of_all + λ) / np.maximum(of_some + λ, 1e-300)
    return bool(np.all((ratio <= MISJUDGED) & (ratio >= 1 / MISJUDGED) | (of_all == 0)))


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


def _gram(objective: Objective, point: Point, share: float, *, labels: bool) -> Factorize:
    """Return Σ_j B_j ⊗ Σ_j w_j x_j x_jᵀ, corrected for labels, from a share of the rows, if that speaks for all.

    Single precision is enough where the penalty is larger than its rounding errors.
    """
    λ = objective.ridge
    if λ.any() and not objective.model.as_rows().design(objective.like).is_sparse:
        sums = _sums(objective, point, share, np.float32, labels=labels)
        least = ROUNDING * float(sums[1].diagonal().max())
        if np.min(λ[λ > 0]) > least:
            return RoundedGram(objective.blocks.scaling(sums), least)
    sums = _sums(objective, point, share, np.float64, labels=labels)
    return objective.blocks.scaling(sums).nearly_factorized


def _sums(objective: Objective, point: Point, share: float, dtype: Any, *, labels: bool) -> tuple[Array, ...]:
    """Return what the curvature is made of, with products of columns that another problem has found, if they will do.

    They have to speak for these rows as a share of them would.
    """
    known = known_products(objective, point, dtype, share * objective.rows)
    if known is not None:
        sums, squares = sums_from(objective, point, known)
        if _are_alike(squares, here(sums[1].diagonal()), objective.ridge):
            return sums
    share = share if share < 1 and _speaks_for_all(objective, share) else 1.0
    sums = objective.mean_gram(point, share, dtype, labels=labels)
    leave_to_others(objective, point, dtype, share * objective.rows, sums)
    return sums
