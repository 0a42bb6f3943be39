"""The ladder of metrics that quasi-Newton steps are scaled by, from the diagonal of the Hessian to all of it.

A metric is found at a point, as a function from a ridge to the solves with it. :meth:`Preconditioner.price` says what
it costs: that is what ``majorant.core.policy`` decides by. Prices are six rates times the operations that a shape
takes: they come from the shape of the data alone, never from a clock, so that fits are reproducible.

Problems over the same rows share a Gram matrix, for the first steps of each. Where coefficients are zero, and there are
neither weights nor offsets, every row has the same B = diag(p) − ppᵀ. Then Σ_j w_j x_j x_jᵀ, with w_j = tr(B)/(n − 1),
is the mean of x_j x_jᵀ times tr(Σ_j B_j)/(n − 1): labels only matter to a number. It scales steps, so that of other
rows of the same kind will do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, ClassVar

import numpy as np

from majorant.core.certificates import LARGEST
from majorant.core.checks import Array
from majorant.core.curvature import Dense, Diagonal, DiagonalByClass, Factorize, Solve
from majorant.core.labelled import CommonGram, Labelled, MeanProducts
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.quasi_newton import MANY_PARAMETERS
from majorant.core.solver import grounded_hessian
from majorant.core.structured import Arrow, Kronecker, balanced
from majorant.core.threads import as_array

# Nanoseconds of one thread: ``python -m benchmarks.rates`` measures them. Only their ratios matter.
STEP = 3e5  # what every step costs besides its arithmetic: Python, and the line search
DENSE, SPARSE = 0.6, 1.5  # a number of X that is read, and of X that is stored as sparse
EXPONENTIAL = 6.0  # and what goes with it in a loss
MULTIPLY = 1 / 22  # a multiplication and an addition in a product of matrices
VECTOR = 1.0  # a number of a vector that is read, changed and written

# Steps that the first metric may cost, and products with a Hessian that take the place of a step.
FREE, PRODUCTS_PER_STEP = 2.0, 2.0
# Rows for each parameter that a Hessian is found from, at least.
ROWS_PER_PARAMETER = 5
# Rows, or columns, of the largest matrix of all their products; and bytes of the largest array beside the data.
LARGEST_GRAM, LARGEST_COPY = 4_000, 2**30
# Rounding errors of sums in single precision, relative to the largest of them.
SINGLE = 5e-6
# Rows of each column, for a mean over rows to tell how columns hang together.
ROWS_PER_COLUMN = 20
# What is added to diagonals of wide sparse rows, of their mean: so many times the square of columns per row, and at
# most so much. Diagonals whose mean is so many times their median have columns in units of their own: left alone.
RAISED, MOST_RAISED, UNEVEN = 4.0, 10.0, 30.0


@dataclass(frozen=True)
class Prices:
    """The prices for data of a shape. A call of what makes a metric costs an eighth of a step."""

    rows: int
    classes: int  # at least one
    columns: int
    stored: float  # numbers in a row
    sparse: bool
    delay: float = 0.0  # before rows are at hand, at every pass over them
    sets: int = 0  # choice sets, where rows are alternatives
    slow: float = 1.0  # how much longer products for Gram matrices take than others

    size: int = field(init=False)  # parameters d
    products: float = field(init=False)  # of X times parameters, and of its transpose times residuals
    exponentials: float = field(init=False)  # of losses and residuals: a row takes a maximum and a logarithm besides
    rotations: float = field(init=False)  # of classes, there and back, in a step
    square: float = field(init=False)  # of a row in a Gram matrix; and of that matrix, whatever the rows
    square_fixed: float = field(init=False)
    step: float = field(init=False)  # of L-BFGS: a pass, exponentials, and pairs of vectors

    @classmethod
    def of(cls, objective: Objective) -> Prices:
        """Return the prices for an objective whose outcomes can be written out, found once for its data."""
        found: Prices | None = objective.remembered.get(cls)
        if found is None:
            model, like = objective.model.as_rows(), objective.like
            classes, design = max(model.classes(like), 1), model.design(like)
            columns, rows = objective.size // classes, objective.rows * model.scores_per_row(like) // classes
            stored = columns * design.density
            reading = 0.0 if objective.has_rows_at_hand else 2 * VECTOR * rows * stored
            delay = objective.blocks.delay + reading
            found = cls(rows, classes, columns, stored, design.is_sparse, delay, objective.rows, design.gram_slowness)
            objective.remembered[cls] = found
        return found

    def __post_init__(self) -> None:
        n, numbers, size = self.classes, self.rows * self.stored, self.classes * self.columns
        products = numbers * (n * SPARSE if self.sparse else DENSE + 2 * MULTIPLY * (n - 1))
        exponentials = self.rows * (n + 2) * EXPONENTIAL
        pairs = (40 if size <= MANY_PARAMETERS else 16) * VECTOR * size
        rotations = 4 * n * n * self.columns * MULTIPLY if n > 1 else 0.0
        # A weighted product of the transpose of the rows with themselves: for each row, and the rest.
        if self.sparse:
            square, fixed = self.stored**2 * SPARSE / 3, 16 * VECTOR * self.columns**2
        else:
            square, fixed = self.columns * (self.columns * MULTIPLY + VECTOR), 1.0 * self.columns**2
        vars(self).update(
            size=size,
            products=products,
            exponentials=exponentials,
            rotations=rotations,
            square=square,
            square_fixed=fixed,
            step=STEP + self.delay + products + exponentials + pairs,
        )

    def product(self) -> float:
        """Return the price of a product with the Hessian, where probabilities are known."""
        return STEP / 8 + self.delay + self.products + 2 * VECTOR * (self.rows * self.classes + 3 * self.size)

    def gram(self, rows: float) -> float:
        """Return the price of a Gram matrix of so many rows in single precision, and of its factors."""
        n, calls = self.classes, STEP if self.classes == 1 else 2 * STEP
        of_classes = rows * n * ((4 if self.sparse else 2) * EXPONENTIAL + n * MULTIPLY) + n**3
        products = self.slow * (rows * self.square + self.square_fixed) * (1.0 if self.sparse else 0.5)
        return calls + self.delay + of_classes + products + self.columns**3 * MULTIPLY / 4

    def hessian(self, rows: float) -> float:
        """Return the price of the Hessian of so many rows, and of its factor; rows of a sample are at hand."""
        n, p, d = self.classes, self.columns, self.size
        if n == 1 or self.sparse:  # weights of sparse rows are written out, where products with them are not all
            products = (
                n * (n + 1) / 2 * ((rows * self.square + self.square_fixed) + (30 if n > 1 else 1) * VECTOR * rows)
            )
        else:
            products = n * STEP / 16 + n * (n + 1) / 2 * rows * p * (MULTIPLY * p + VECTOR / 3)
        delay = self.delay if rows >= self.rows else 0.0
        return STEP / 4 + delay + 2 * EXPONENTIAL * rows * n + products + d**3 * MULTIPLY / 4 + d * d

    def certificate(self, *, known: bool = False, share: float = 1.0) -> float:
        """Return the price of a tight certificate: a Hessian, or a look back to a known one, and four looks at rows."""
        t, d = share * self.rows, self.size
        hessian = self.step / 2 if known else self.hessian(t)
        each = self.stored * self.columns * (SPARSE / 3 if self.sparse else 2 * MULTIPLY) + self.stored
        looks = 4 * self.delay + 2 * (self.products + self.exponentials)
        return STEP + hessian + looks + self.classes * t * each + 3 / 4 * d**3 * MULTIPLY + 4 * d * d

    def row_products(self) -> float:
        """Return the price of K = XXᵀ, which is symmetric, in single precision."""
        return self.rows * self.columns * (self.rows * MULTIPLY / 4 + VECTOR)

    def product_of_rows(self) -> float:
        """Return the price of a product with K, which has half the bytes, and of what comes with it."""
        t, n = self.rows, self.classes
        return STEP / 8 + t * t * (DENSE + n * MULTIPLY) / 2 + 6 * VECTOR * t * n


def pays_in_single_precision(objective: Objective, *, freely: bool = False) -> bool:
    """Return whether products with X are a third of a step, or more: worth a copy in single precision.

    ``freely`` asks for a lower precision of which no copy is made.
    """
    model = objective.model
    if not (objective.has_rows_at_hand and objective.convex):
        return False
    design = model.design(objective.like)
    if design is not None and not model.has_rows:  # of a chain they are nearly all of a step
        return not freely and design.narrowing is not None and 4 * design.narrowing <= LARGEST_COPY
    if not (model.has_rows and model.classes(objective.like)):
        return False
    numbers = model.as_rows().design(objective.like).narrowing  # that are copied, None where there is none
    prices = Prices.of(objective)
    if numbers is None or (freely and numbers) or prices.sparse or prices.size != objective.size:
        return False
    few = 4 * numbers * prices.rows <= LARGEST_COPY * max(len(objective.like), 1)
    return bool(few and 3 * prices.products > prices.step)


# --- the ladder ---------------------------------------------------------------------------------------------


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
        prices = Prices.of(objective)
        exponentials = 2 * EXPONENTIAL * prices.rows * prices.classes
        return STEP / 4 + prices.delay + exponentials + prices.products / 2, 0.0

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
        n = prices.classes
        each = 2 * EXPONENTIAL * n + n * n * MULTIPLY + VECTOR * prices.stored  # squares of columns, and C of a row
        return STEP / 4 + prices.delay + prices.rows * each + n**3, prices.rotations

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
        return prices.gram(prices.rows), prices.rotations + 4 * classes * prices.columns**2 * MULTIPLY

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
        return grounded_hessian(objective, objective.expand(point, Dense.of, majorizes=False)[1]).steadied


@dataclass(frozen=True)
class BlocksOfHessian(Preconditioner):
    """Blocks of a large Hessian over parameters that never meet in an outcome, such as those of one alternative."""

    name: ClassVar[str] = "the Hessian of each block"
    level: ClassVar[int] = Level.GRAM

    def price(self, objective: Objective) -> tuple[float, float] | None:
        large = objective.model.has_rows and objective.convex and objective.size > LARGEST
        if not large or objective.pattern is None:
            return None
        p = Prices.of(objective)  # rows are sorted and written out
        written = p.rows * p.stored * (30 * VECTOR + 2 * MULTIPLY * p.stored)
        return STEP / 4 + p.delay + 2 * EXPONENTIAL * p.rows + written + p.columns * p.stored**2 * MULTIPLY, 0.0

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
        p = Prices.of(
            objective
        )  # a direction for each choice set is solved with the blocks, and multiplied with others
        directions = p.sets * p.columns * 2 * (p.stored + p.sets) * MULTIPLY + p.sets**3 * MULTIPLY / 4
        return blocks[0] + directions, p.sets * p.columns * VECTOR

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
