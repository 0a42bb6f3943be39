"""What things cost, in nanoseconds of one thread, from the shape of the data alone: fits stay reproducible.

The rates are those of products of matrices, of sweeps over stored numbers and of exponentials on an ordinary processor;
only their ratios matter, and ``python -m benchmarks.rates`` prints them for the machine at hand.
"""

from __future__ import annotations

from dataclasses import dataclass

from majorant.objective import Objective

# A step besides its pass: a line search, secant pairs, and what Python adds.
STEP = 1e5
# An exponential and what goes with it; a number of X for one score, dense alone or with others, or stored as sparse.
SCORE = 20.0
NUMBER_ALONE, NUMBER, NONZERO = 1.2, 0.4, 5.0
# Of a product of matrices, a factorisation, a sum over pairs of non-zeros, and of touching a matrix at all.
MULTIPLY, FACTORISE, PAIR, CELL = 1 / 18, 1 / 60, 3.0, 20.0
# Of calling what makes a curvature.
CALL = 5e4


@dataclass(frozen=True)
class Prices:
    """Of passes and curvatures, for data of a shape."""

    rows: int
    classes: int  # at least one
    columns: int
    stored: float  # numbers in a row
    sparse: bool

    @classmethod
    def of(cls, objective: Objective) -> Prices:
        """Return those of an objective whose outcomes can be written out."""
        model, like = objective.model.as_rows(), objective.like
        classes, design = max(model.classes(like), 1), model.design(like)
        columns = objective.size // classes
        rows = objective.rows * model.scores_per_row(like) // classes
        return cls(rows, classes, columns, columns * design.density, design.is_sparse)

    def step(self) -> float:
        """Return the price of a step: one pass and what comes with it."""
        number = NONZERO if self.sparse else NUMBER_ALONE if self.classes == 1 else NUMBER
        return STEP + self.rows * self.classes * (number * self.stored + SCORE)

    def diagonal(self) -> float:
        """Return the price of the squares of columns and of a matrix between classes."""
        n, t = self.classes, self.rows
        return CALL + t * (2 * n * SCORE + self.stored + n * n * MULTIPLY) + n**3

    def gram(self, rows: float, columns: float | None = None) -> float:
        """Return the price of a Gram matrix of so many rows, and its factors."""
        p = self.columns if columns is None else columns
        share = p / self.columns
        of_classes = rows * self.classes**2 * MULTIPLY + self.classes**3
        return CALL + of_classes + self._product(rows, p, self.stored * share) + p**3 * FACTORISE

    def hessian(self, rows: float) -> float:
        """Return the price of a Hessian of so many rows, and its factor."""
        n, d = self.classes, self.classes * self.columns
        return CALL + n * (n + 1) / 2 * self._product(rows, self.columns, self.stored) + d**3 * FACTORISE + d * d

    def _product(self, rows: float, columns: float, stored: float) -> float:
        if self.sparse:
            return rows * stored**2 * PAIR + columns**2 * CELL
        return rows * columns * (columns * MULTIPLY + 2.0) + columns**2
