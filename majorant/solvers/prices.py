"""What things cost, in nanoseconds of one thread, from the shape of the data alone: fits stay reproducible.

The rates are those of products of matrices, of sweeps over stored numbers and of exponentials on an ordinary processor;
only their ratios matter, and ``python -m benchmarks.rates`` prints them for the machine at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from majorant.objective import Objective
from majorant.solvers.forecasts import expected_steps

# A step besides its pass: a line search, and what Python adds, which is more; a product with a Hessian besides its own.
STEP, PYTHON, PRODUCT = 1e5, 2e5, 4e4
# For every parameter: secant pairs, of many parameters in single precision, and the vectors of conjugate gradients.
SECANTS, SECANTS_OF_MANY, VECTORS = 40.0, 15.0, 6.0
MANY_PARAMETERS = 30_000
# An exponential and what goes with it, in a step, and where probabilities are written out; a score in a product.
SCORE, PROBABILITY, BEND = 6.0, 14.0, 1.5
# A number of X for one score: multiplied with others, alone, alone from beyond the cache; stored as sparse, or so with
# others; and that where a row is read once for both products.
NUMBER, ALONE, FAR, NONZERO_ALONE, NONZERO, NONZERO_TWICE = 0.25, 0.35, 0.45, 3.5, 1.5, 2.0
CACHE = 500_000
# A number of X that has to be read from a file.
READ = 1.0
# Of a product of matrices, a factorisation, a sum over pairs of non-zeros, and of touching a matrix at all.
MULTIPLY, FACTORISE, PAIR, CELL = 1 / 22, 1 / 90, 0.7, 15.0
# Of solving with a triangle, and of finding the dual variable of a score, if it stands alone and if it does not.
SOLVE, DUAL_ALONE, DUAL = 1 / 11, 100.0, 400.0
# A number that is written out to be multiplied; or weighted, in cache.
WRITTEN, WEIGHTED = 30.0, 0.6
# Of calling what makes a curvature, or products for a class; a Gram matrix, one of several classes, and from some rows.
CALL, CALL_FOR_CLASS, CALL_FOR_GRAM, CALL_FOR_CLASSES, CALL_FOR_SOME = 8e4, 1.5e4, 2.3e5, 2.5e5, 3e5
# How often a tight certificate looks at rows besides its Hessian: for squares, spreads twice, and what rounding loses.
LOOKS = 4


@dataclass(frozen=True)
class Prices:
    """Of passes and curvatures, for data of a shape."""

    rows: int
    classes: int  # at least one
    columns: int
    stored: float  # numbers in a row
    sparse: bool
    delay: float = 0.0  # before rows are at hand, at every look at them
    sets: int = 0  # of outcomes that were written out, as rows
    slow: float = 1.0  # how much longer products for Gram matrices take than others

    @classmethod
    def of(cls, objective: Objective) -> Prices:
        """Return those of an objective whose outcomes can be written out, found once for its data."""
        known = objective.facts.remembered
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
        delay = objective.blocks.delay + (0.0 if objective.has_rows_at_hand else READ * rows * stored)
        return cls(rows, classes, columns, stored, design.is_sparse, delay, objective.rows, design.gram_slowness)

    def step(self) -> float:
        """Return the price of a step: one pass and what comes with it."""
        return STEP + self.delay + self.rows * self.classes * (self._number() * self.stored + SCORE)

    def whole_step(self) -> float:
        """Return the same with secant pairs, and all that Python does, which steps in any curvature have in common."""
        d = self.classes * self.columns
        return PYTHON + d * (SECANTS if d <= MANY_PARAMETERS else SECANTS_OF_MANY) + self.step()

    def product(self) -> float:
        """Return the price of a product with the Hessian, where probabilities are known."""
        vectors, number = self.classes * self.columns * VECTORS, self._number()
        if self.sparse and self.classes == 1:
            number = NONZERO_TWICE
        return PRODUCT + self.delay + vectors + self.rows * self.classes * (number * self.stored + BEND)

    def diagonal(self) -> float:
        """Return the price of the diagonal of a Hessian."""
        return CALL + self.delay + self.rows * self.classes * (PROBABILITY + 0.5 * self._number() * self.stored)

    def between_classes(self) -> float:
        """Return the price of the squares of columns, and of a matrix between classes with its eigenvectors."""
        n, t = self.classes, self.rows
        return CALL + self.delay + t * (n * PROBABILITY + self.stored + n * n * MULTIPLY) + n**3

    def gram(self, rows: float) -> float:
        """Return the price of a Gram matrix of so many rows, and its factors."""
        of_classes = rows * self.classes * (PROBABILITY + self.classes * MULTIPLY) + self.classes**3
        calls = CALL_FOR_GRAM + self.delay + CALL_FOR_CLASSES * (self.classes > 1) + CALL_FOR_SOME * (rows < self.rows)
        # In single precision products take half as long.
        return calls + of_classes + 0.5 * self.slow * self._product(rows) + self.columns**3 * FACTORISE

    @property
    def rows_for_a_call(self) -> float:
        """How many rows a Gram matrix may be made from at the price of choosing them."""
        each = self._product(1) - self._product(0)
        return CALL_FOR_SOME / each

    def hessian(self, rows: float) -> float:
        """Return the price of a Hessian of so many rows, and its factor; of some rows, once they are here."""
        n, d = self.classes, self.classes * self.columns
        delay = self.delay if rows >= self.rows else 0.0
        products = self._product(rows) + 2 * rows if n == 1 else self._products_of_classes(rows)
        return CALL + delay + rows * n * PROBABILITY + products + d**3 * FACTORISE + d * d

    def blocks(self) -> float:
        """Return the price of a Hessian by blocks that outcomes touch one of: rows are sorted and written out."""
        written = self.rows * self.stored * (WRITTEN + 2 * MULTIPLY * self.stored)
        return CALL + self.delay + self.rows * PROBABILITY + written + self.columns * self.stored**2 * MULTIPLY

    def directions(self) -> float:
        """Return the price of a direction for each set, solved with those blocks and multiplied with each other."""
        each = self.columns * (2 * self.stored + 2 * self.sets) * MULTIPLY
        return self.sets * each + self.sets**3 * FACTORISE

    def certificate(self, *, known: bool = False, share: float = 1.0) -> float:
        """Return the price of a tight certificate: a Hessian, or a look back to one that is known, and leverages."""
        n, p, t = self.classes, self.columns, share * self.rows
        hessian = 0.5 * self.step() if known else self.hessian(t)
        each = self.stored * (p * (PAIR if self.sparse else 2 * MULTIPLY) + NONZERO)
        looks = LOOKS * self.delay
        return CALL + hessian + looks + n * t * each + 3 * (n * p) ** 3 * FACTORISE + 4 * (n * p) ** 2

    def rotations(self) -> float:
        """Return what a step pays for classes to be rotated there and back: once to scale it, and once for itself."""
        return 4 * self.classes**2 * self.columns * MULTIPLY if self.classes > 1 else 0.0

    def solves(self) -> float:
        """Return what it pays for solves with factors of a Gram matrix, between rotations."""
        return self.rotations() + 2 * self.classes * self.columns**2 * SOLVE

    def dual_sweep(self) -> float:
        """Return the price of solving every row against the others, one after the other."""
        each = DUAL_ALONE if self.classes == 1 else DUAL
        return self.rows * self.classes * (2 * NONZERO * self.stored + each)

    def _number(self) -> float:
        if self.sparse:
            return NONZERO_ALONE if self.classes == 1 else NONZERO
        if self.classes > 1:
            return NUMBER
        return FAR if self.rows * self.stored > CACHE else ALONE

    def _products_of_classes(self, rows: float) -> float:
        """Return the price of weighted products of X for every pair of classes: of dense rows nothing is halved."""
        n, p = self.classes, self.columns
        pairs = n * (n + 1) / 2
        if self.sparse:
            return pairs * (self._product(rows) + 2 * rows)
        return n * CALL_FOR_CLASS + pairs * rows * p * (2 * MULTIPLY * p + WEIGHTED)

    def _product(self, rows: float) -> float:
        p = self.columns
        if self.sparse:
            return rows * self.stored**2 * PAIR + p**2 * CELL
        return rows * p * (p * MULTIPLY + 2.0) + p**2


# Products of X have to take so much of a pass, and a pass so long, for a copy in single precision to be worth making;
# and no copy is made of more numbers than this.
SHARE_OF_PRODUCTS = 0.5
LONG_ENOUGH = 5e5
LARGEST_COPY = 2**28
# Of one class rows are read once in either precision: what that saves of a step, and what a copy and the way back cost.
SAVED_BY_COPY, COPIED = 0.33, 2.8


def narrows_freely(objective: Objective) -> bool:
    """Return whether steps are cheaper in a lower precision, for which no copy of the data is made."""
    if not (objective.model.has_rows and objective.model.as_rows().design(objective.like).narrowing == 0):
        return False
    return pays_in_single_precision(objective)


def pays_in_single_precision(objective: Objective) -> bool:
    """Return whether steps are much cheaper on a copy of the data in single precision: on dense ones with long rows."""
    if not (objective.model.has_rows and objective.has_rows_at_hand and objective.convex):
        return False
    copied = objective.model.as_rows().design(objective.like).narrowing
    if copied is None:
        return False
    prices = Prices.of(objective)
    if (
        prices.sparse
        or prices.classes * prices.columns != objective.size
        or not objective.model.classes(objective.like)
    ):
        return False
    products = prices.step() - STEP - prices.rows * prices.classes * SCORE
    long = products >= max(LONG_ENOUGH, SHARE_OF_PRODUCTS * prices.step())
    if not (long and copied * prices.rows <= LARGEST_COPY * max(len(objective.like), 1)):
        return False
    # Asked last: what steps are expected takes a look at the data.
    return prices.classes > 1 or SAVED_BY_COPY * expected_steps(objective) >= COPIED
