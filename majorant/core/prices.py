"""What steps and metrics cost, in nanoseconds of one thread: six rates times the operations that a shape takes.

``python -m benchmarks.rates`` measures the rates on the machine at hand. Only their ratios matter. Prices come from the
shape of the data alone, never from a clock, so that fits are reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass

from majorant.core.objective import Objective
from majorant.core.quasi_newton import MANY_PARAMETERS

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

    @classmethod
    def of(cls, objective: Objective) -> Prices:
        """Return the prices for an objective whose outcomes can be written out, found once for its data."""
        known = objective.remembered
        if cls not in known:
            known[cls] = cls._of(objective)
        found: Prices = known[cls]
        return found

    @classmethod
    def _of(cls, objective: Objective) -> Prices:
        model, like = objective.model.as_rows(), objective.like
        classes, design = max(model.classes(like), 1), model.design(like)
        columns = objective.size // classes
        rows = objective.rows * model.scores_per_row(like) // classes
        stored = columns * design.density
        reading = 0.0 if objective.has_rows_at_hand else 2 * VECTOR * rows * stored
        delay = objective.blocks.delay + reading
        return cls(rows, classes, columns, stored, design.is_sparse, delay, objective.rows, design.gram_slowness)

    @property
    def size(self) -> int:
        """Number of parameters d."""
        return self.classes * self.columns

    def step(self) -> float:
        """Return the price of an L-BFGS step: a pass, exponentials, and pairs of vectors."""
        pairs = 40 * VECTOR if self.size <= MANY_PARAMETERS else 16 * VECTOR
        return STEP + self.delay + self.products() + self.exponentials() + pairs * self.size

    def exponentials(self) -> float:
        """Return the price of losses and residuals: a row takes a maximum and a logarithm besides exponentials."""
        return self.rows * (self.classes + 2) * EXPONENTIAL

    def products(self) -> float:
        """Return the price of X times parameters and of its transpose times residuals."""
        numbers = self.rows * self.stored
        if self.sparse:
            return numbers * self.classes * SPARSE
        return numbers * (DENSE + 2 * MULTIPLY * (self.classes - 1))

    def product(self) -> float:
        """Return the price of a product with the Hessian, where probabilities are known."""
        return STEP / 8 + self.delay + self.products() + 2 * VECTOR * (self.rows * self.classes + 3 * self.size)

    def diagonal(self) -> float:
        """Return the price of the diagonal of the Hessian."""
        return STEP / 4 + self.delay + 2 * EXPONENTIAL * self.rows * self.classes + self.products() / 2

    def between_classes(self) -> float:
        """Return the price of the squares of columns, and of the Hessian between classes with its eigenvectors."""
        n = self.classes
        each = 2 * EXPONENTIAL * n + n * n * MULTIPLY + VECTOR * self.stored
        return STEP / 4 + self.delay + self.rows * each + n**3

    def gram(self, rows: float) -> float:
        """Return the price of a Gram matrix of so many rows in single precision, and of its factors."""
        n, calls = self.classes, STEP if self.classes == 1 else 2 * STEP
        of_classes = rows * n * ((4 if self.sparse else 2) * EXPONENTIAL + n * MULTIPLY) + n**3
        products = self.slow * self._squares(rows) * (1.0 if self.sparse else 0.5)
        return calls + self.delay + of_classes + products + self.columns**3 * MULTIPLY / 4

    def hessian(self, rows: float) -> float:
        """Return the price of the Hessian of so many rows, and of its factor; rows of a sample are at hand."""
        n, p, d = self.classes, self.columns, self.size
        if n == 1 or self.sparse:  # weights of sparse rows are written out, where products with them are not all
            products = n * (n + 1) / 2 * (self._squares(rows) + (30 if n > 1 else 1) * VECTOR * rows)
        else:
            products = n * STEP / 16 + n * (n + 1) / 2 * rows * p * (MULTIPLY * p + VECTOR / 3)
        delay = self.delay if rows >= self.rows else 0.0
        return STEP / 4 + delay + 2 * EXPONENTIAL * rows * n + products + d**3 * MULTIPLY / 4 + d * d

    def solves(self) -> float:
        """Return what a step pays for solves with factors of a Gram matrix, between rotations of the classes."""
        return self.rotations() + 4 * self.classes * self.columns**2 * MULTIPLY

    def rotations(self) -> float:
        """Return what a step pays for classes to be rotated there and back."""
        return 4 * self.classes**2 * self.columns * MULTIPLY if self.classes > 1 else 0.0

    def blocks(self) -> float:
        """Return the price of a Hessian by blocks of parameters: rows are sorted and written out."""
        written = self.rows * self.stored * (30 * VECTOR + 2 * MULTIPLY * self.stored)
        return STEP / 4 + self.delay + 2 * EXPONENTIAL * self.rows + written + self.columns * self.stored**2 * MULTIPLY

    def directions(self) -> float:
        """Return the price of a direction for each choice set, solved with those blocks and multiplied with others."""
        return self.sets * self.columns * 2 * (self.stored + self.sets) * MULTIPLY + self.sets**3 * MULTIPLY / 4

    def certificate(self, *, known: bool = False, share: float = 1.0) -> float:
        """Return the price of a tight certificate: a Hessian, or a look back to a known one, and four looks at rows."""
        t, d = share * self.rows, self.size
        hessian = self.step() / 2 if known else self.hessian(t)
        each = self.stored * self.columns * (SPARSE / 3 if self.sparse else 2 * MULTIPLY) + self.stored
        looks = 4 * self.delay + 2 * (self.products() + self.exponentials())
        return STEP + hessian + looks + self.classes * t * each + 3 / 4 * d**3 * MULTIPLY + 4 * d * d

    def dual_sweep(self) -> float:
        """Return the price of a sweep of dual coordinate descent: each dual variable is found by a root search."""
        search = (16 if self.classes == 1 else 66) * EXPONENTIAL
        return self.rows * self.classes * (2 * SPARSE * self.stored + search)

    def row_products(self) -> float:
        """Return the price of XXᵀ, which is symmetric, in single precision."""
        return self.rows * self.columns * (self.rows * MULTIPLY / 4 + VECTOR)

    def product_of_rows(self) -> float:
        """Return the price of a product with that matrix, which has half the bytes, and of what comes with it."""
        t, n = self.rows, self.classes
        return STEP / 8 + t * t * (DENSE + n * MULTIPLY) / 2 + 6 * VECTOR * t * n

    def factors_of_rows(self) -> float:
        """Return the price of a Cholesky factor of such a matrix for each class, in single precision."""
        return self.classes * self.rows**2 * (self.rows * MULTIPLY / 4 + VECTOR)

    def solve_of_rows(self) -> float:
        """Return the price of a solve with these factors: each is read once, in two halves."""
        return self.classes * self.rows**2 * DENSE / 2

    def _squares(self, rows: float) -> float:
        """Return the price of a weighted product of the transpose of so many rows with themselves."""
        p = self.columns
        if self.sparse:
            return rows * self.stored**2 * SPARSE / 3 + 16 * VECTOR * p * p
        return rows * p * (p * MULTIPLY + VECTOR) + p * p


def pays_in_single_precision(objective: Objective, *, freely: bool = False) -> bool:
    """Return whether products with X are a third of a step, or more: worth a copy in single precision.

    ``freely`` asks for a lower precision of which no copy is made.
    """
    model = objective.model
    if not (model.has_rows and objective.has_rows_at_hand and objective.convex and model.classes(objective.like)):
        return False
    numbers = model.as_rows().design(objective.like).narrowing  # that are copied, None where there is none
    prices = Prices.of(objective)
    if numbers is None or (freely and numbers) or prices.sparse or prices.size != objective.size:
        return False
    few = 4 * numbers * prices.rows <= LARGEST_COPY * max(len(objective.like), 1)
    return bool(few and 3 * prices.products() > prices.step())
