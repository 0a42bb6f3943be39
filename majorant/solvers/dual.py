"""A start for wide data: dual coordinate descent, one row at a time, as long as it contracts well.

Where columns outnumber rows the dual variables, a residual for each score, are the smaller set, and a row touches only
the coefficients of its non-zeros. Each row is solved exactly against all the others (``majorant.kernels.dual``), so
there is no step size. The dual objective always improves; F itself may rise now and then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from majorant import kernels
from majorant._checks import Array
from majorant.kernels.sparse import Csr
from majorant.objective import Objective
from majorant.solvers.prices import Prices

# Sweeps over the rows before the first look at F, and between two looks.
FIRST_EPOCHS, EPOCHS = 6, 3
# The squared moves of the residuals have to shrink to this share from one look to the next.
CONTRACTION = 0.73
# Fewer rows are no work for anything.
LEAST_ROWS = 500
# Columns for each row: where there are fewer, rows are too much alike for one to be solved after the other.
COLUMNS_PER_ROW = 2
# Steps that a sweep may cost.
AFFORDABLE = 6.0


@dataclass(frozen=True, eq=False)
class Dual:
    """Residuals (t×n), the coefficients (p×n) that they imply, and how far residuals moved in the last sweep."""

    LEFT_OUT: ClassVar[tuple[str, ...]] = ("X", "y", "weight", "norms", "scale", "centre")  # of files: the data have it

    X: Csr
    y: Array
    weight: Array
    norms: Array  # ‖x_j‖²/λ
    scale: Array | float  # of the columns; W is divided by it
    ridge: float
    residual: Array
    coefficients: Array
    centre: Array | None = None  # where the columns of θ are measured from
    moved: float = np.inf
    sweeps: int = 0
    contracts: bool = True

    @property
    def theta(self) -> Array:
        """The parameters, class by class."""
        W = np.ascontiguousarray(self.coefficients.T / self.scale)
        if self.centre is not None:
            W[:, -1] += W[:, :-1] @ self.centre
        return W.ravel()

    def revived(self, objective: Objective) -> Dual:
        """Return the same with what the data have of it."""
        found = begin(objective)
        return replace(
            found,
            residual=self.residual,
            coefficients=self.coefficients,
            moved=self.moved,
            sweeps=self.sweeps,
            contracts=self.contracts,
        )


def suits(objective: Objective, theta: Array) -> bool:
    """Return whether dual coordinate descent pays here: from zero, on many sparse rows with one label and no offset.

    A sweep over dense rows, or over those of many classes, costs as much as many passes.
    """
    whole, prior = objective.whole, objective.penalty.prior
    if whole is None or len(whole) < LEAST_ROWS or theta.any() or prior is None or not prior.any():
        return False
    rows = objective.model.hard_rows(whole)
    if rows is None or not (rows.plain and rows.is_sparse):
        return False
    prices = Prices.of(objective)
    return COLUMNS_PER_ROW * rows.shape[0] <= rows.shape[1] and prices.dual_sweep() <= AFFORDABLE * prices.step()


def begin(objective: Objective) -> Dual:
    """Return residuals and coefficients of zero.

    An unpenalised column is treated as if it were penalised as the others are on average: this is only a start.
    """
    rows: Any = objective.model.hard_rows(objective.whole)
    t, p = rows.shape
    n = objective.size // p
    X, λ = rows.csr(), objective.penalty.as_prior()
    scale: Array | float = 1.0
    ridge = float(λ[0])
    if not (λ == λ[0]).all():
        scale, ridge = _column_scales(λ.reshape(n, -1).mean(axis=0))
        X = X._replace(data=X.data / scale[X.indices])
    norms = kernels.dual.row_squares(X) / ridge
    return Dual(X, rows.y, rows.weight, norms, scale, ridge, np.zeros((t, n)), np.zeros((p, n)), rows.centre)


def sweep(objective: Objective, dual: Dual, seed: int) -> Dual:
    """Return the state after a few sweeps, each in random order."""
    rng = np.random.default_rng([seed, dual.sweeps])
    r, W, moved = dual.residual.copy(), dual.coefficients.copy(), 0.0
    one = W.shape[1] == 1
    epoch, free = (kernels.dual.binary_epoch, (r[:, 0], W[:, 0])) if one else (kernels.dual.softmax_epoch, (r, W))
    epochs = EPOCHS if dual.sweeps else FIRST_EPOCHS
    for _ in range(epochs):
        order = rng.permutation(len(r))
        moved = epoch(dual.X, dual.y, dual.weight, dual.norms, 1 / dual.ridge, order, *free)
    objective.spend(passes=epochs)
    contracts = 0 < moved <= CONTRACTION * dual.moved
    return replace(dual, residual=r, coefficients=W, moved=moved, sweeps=dual.sweeps + epochs, contracts=contracts)


def _column_scales(ridge: Array) -> tuple[Array, float]:
    """Return by what columns have to be divided for one number λ to penalise all, and λ."""
    penalised = ridge > 0
    λ = float(ridge[penalised].mean())
    return np.sqrt(np.where(penalised, ridge, λ) / λ), λ
