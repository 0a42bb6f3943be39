"""A start for wide data: dual coordinate descent, one row at a time, as long as it contracts well.

Where columns outnumber rows the dual variables, a residual for each score, are the smaller set, and a row touches only
the coefficients of its non-zeros. Each row is solved exactly against all the others (``majorant.kernels.dual``), so
there is no step size. The dual objective always improves; F itself may rise now and then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant import kernels
from majorant._checks import Array
from majorant.data import Labelled
from majorant.kernels import design
from majorant.kernels.sparse import Csr
from majorant.models.class_space import ClassModel
from majorant.objective import Objective

# Sweeps over the rows before the first look at F, and between two looks.
FIRST_EPOCHS, EPOCHS = 6, 3
# The squared moves of the residuals have to shrink to this share from one look to the next.
CONTRACTION = 0.73
# Fewer rows are no work for anything.
LEAST_ROWS = 500
# A dense X is stored as a sparse one for this, if it is no larger.
LARGEST_DENSE = 2**24


@dataclass(frozen=True, eq=False)
class Dual:
    """Residuals (t×n), the coefficients (p×n) that they imply, and how far residuals moved in the last sweep."""

    X: sp.csr_array
    y: Array
    weight: Array
    norms: Array  # ‖x_j‖²/λ
    scale: Array | float  # of the columns; W is divided by it
    ridge: float
    residual: Array
    coefficients: Array
    moved: float = np.inf
    sweeps: int = 0
    contracts: bool = True

    @property
    def theta(self) -> Array:
        """The parameters, class by class."""
        return np.ascontiguousarray(self.coefficients.T / self.scale).ravel()


def suits(objective: Objective, theta: Array) -> bool:
    """Return whether dual coordinate descent can start here: hard labels, no offsets, a penalty, at zero, many rows."""
    data = objective.data
    return (
        isinstance(objective.model, ClassModel)
        and len(data) >= LEAST_ROWS
        and not data.soft
        and data.offset is None
        and bool(objective.ridge.any())
        and not theta.any()
        and data.centre is None
        and (design.is_sparse(data.X) or data.X.shape[0] * data.X.shape[1] <= LARGEST_DENSE)
    )


def begin(objective: Objective) -> Dual:
    """Return residuals and coefficients of zero.

    An unpenalised column is treated as if it were penalised as the others are on average: this is only a start.
    """
    data: Labelled = objective.data
    n = objective.row_model.scores_per_row(data)
    X = design.csr(data.X)
    X, ridge = X.astype(np.float64, copy=False), float(objective.ridge[0])
    scale: Array | float = 1.0
    if not objective.penalty.same:
        X, scale, ridge = _scaled(X, objective.ridge.reshape(n, -1).mean(axis=0))
    return Dual(
        X,
        data.y,
        np.ones(len(data)) if data.weight is None else data.weight,
        kernels.dual.row_squares(Csr.of(X)) / ridge,
        scale,
        ridge,
        residual=np.zeros((len(data), n)),
        coefficients=np.zeros((X.shape[1], n)),
    )


def loss_at_zero(objective: Objective) -> float:
    """Return F(0): every class is as likely as another."""
    data = objective.data
    weight = len(data) if data.weight is None else data.weight.sum()
    return float(weight * np.log(max(objective.row_model.scores_per_row(data), 2)))


def sweep(objective: Objective, dual: Dual, seed: int) -> Dual:
    """Return the state after a few sweeps, each in random order."""
    rng = np.random.default_rng([seed, dual.sweeps])
    r, W, moved = dual.residual.copy(), dual.coefficients.copy(), 0.0
    one = W.shape[1] == 1
    epoch, free = (kernels.dual.binary_epoch, (r[:, 0], W[:, 0])) if one else (kernels.dual.softmax_epoch, (r, W))
    X = Csr.of(dual.X)
    epochs = EPOCHS if dual.sweeps else FIRST_EPOCHS
    for _ in range(epochs):
        order = rng.permutation(len(r))
        moved = epoch(X, dual.y, dual.weight, dual.norms, 1 / dual.ridge, order, *free)
    objective.work.passes += epochs
    contracts = 0 < moved <= CONTRACTION * dual.moved
    return replace(dual, residual=r, coefficients=W, moved=moved, sweeps=dual.sweeps + epochs, contracts=contracts)


def _scaled(X: Any, ridge: Array) -> tuple[Any, Array | float, float]:
    """Return X with columns so scaled that one number λ penalises all, the scale, and λ."""
    penalised = ridge > 0
    λ = float(ridge[penalised].mean())
    scale = np.sqrt(np.where(penalised, ridge, λ) / λ)
    return sp.csr_array((X.data / scale[X.indices], X.indices, X.indptr), X.shape), scale, λ
