"""Dual coordinate descent on wide sparse rows, a start for quasi-Newton steps: one row at a time, while it contracts.

Where columns outnumber rows the dual variables, a residual for each score, are the smaller set, and a row touches only
the coefficients of its non-zeros. Each row is solved exactly against all the others (``core.kernels.dual``), so there
is no step size. The dual objective always improves; F itself may rise now and then.

Residuals sum to zero where an intercept is free. One that is penalised by ½μ(b − b₀)² is a column like any other, and
with b₀ moved to b after each sweep it is free in the end (an augmented Lagrangian). The smaller μ is beside the
curvature along the intercept, the fewer times b₀ has to move; the larger it is, the less all rows wait for one number.

What a sweep adds to the dual objective is known, and sweeps add less and less: that tells when it is worth evaluating
F, which takes as long as a sweep or two, and when to leave the rest to quasi-Newton steps.

References
----------
Bertsekas, *Constrained Optimization and Lagrange Multiplier Methods*, 1982.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from majorant.core import kernels
from majorant.core.checks import Array
from majorant.core.kernels import Csr
from majorant.core.line_search import Point
from majorant.core.objective import Objective
from majorant.core.preconditioners import EXPONENTIAL, SPARSE, Prices, StartResult

# Rows, and columns for each of them, from which sweeps pay: fewer columns make rows too much alike to be solved apart.
LEAST_ROWS, COLUMNS_PER_ROW = 500, 2
# F is evaluated when sweeps have this much left to gain, relative to it; then when this share of that is left.
WORTH_A_LOOK, LESS = 2e-6, 0.01
# μ, relative to the curvature along the intercept.
DAMPING = 0.03


@dataclass(frozen=True, eq=False)
class Dual:
    """Residuals (t×n), the coefficients (p×n) that they imply, intercepts (n), and what sweeps have gained."""

    LEFT_OUT: ClassVar[tuple[str, ...]] = ("X", "y", "weight", "norms", "scale", "centre")  # of files: the data have it

    X: Csr  # without a constant column
    y: Array
    weight: Array
    norms: Array  # ‖x_j‖²/λ
    scale: Array | None  # of the columns, if they have to be divided by it; then W has to be, too
    ridge: float
    residual: Array
    coefficients: Array
    intercepts: Array | None  # if there are any
    stiffness: float  # μ
    is_free: bool  # whether they are not penalised
    centre: Array | None = None  # where the columns of θ are measured from
    gains: tuple[float, ...] = ()  # of each sweep
    contracts: bool = True

    @property
    def theta(self) -> Array:
        """The parameters, class by class."""
        W = self.coefficients.T if self.scale is None else self.coefficients.T / self.scale
        if self.intercepts is None:
            return W.ravel()
        shift = 0.0 if self.centre is None else W @ self.centre
        return np.column_stack([W, self.intercepts + shift]).ravel()

    @property
    def sweeps(self) -> int:
        """How many there were."""
        return len(self.gains)

    def go_on(self, objective: Objective, before: Point | None, seed: int) -> StartResult:
        """Return the point after a few more sweeps, or the one before if they were poor."""
        swept = sweep(objective, self, seed)
        theta = swept.theta
        if swept.is_free and not swept.contracts:  # those who go on may not move an intercept by itself
            theta = objective.with_best_intercept(theta)
        point = objective.point(theta)
        if not point.value <= objective.value_at_zero():  # rows on wild scales
            return StartResult(objective.point(np.zeros(objective.size)))
        if swept.contracts:
            return StartResult(point, continuation=swept)
        done = (f"{swept.sweeps} sweeps of dual coordinate descent",)
        return StartResult(point if before is None or point.value < before.value else before, account=done)

    def revived(self, objective: Objective) -> Dual:
        """Return the same with what the data have of it."""
        found = begin(objective)
        return replace(self, **{name: getattr(found, name) for name in self.LEFT_OUT})


def suits(objective: Objective) -> bool:
    """Return whether dual coordinate descent pays here: on many sparse rows with one label and no offset."""
    whole, prior = objective.whole, objective.penalty.prior
    if whole is None or len(whole) < LEAST_ROWS or prior is None or not (prior[0] or prior.any()):
        return False
    design = getattr(whole, "design", None)
    rows = objective.model.single_label_rows(whole) if design is not None and design.is_sparse else None
    if rows is None or not rows.plain:
        return False
    prices = Prices.of(objective)
    search = (16 if prices.classes == 1 else 66) * EXPONENTIAL  # for the root of each dual variable
    sweep = prices.rows * prices.classes * (2 * SPARSE * prices.stored + search)
    # Quasi-Newton steps that a sweep may cost: one over many classes costs as much as many passes.
    return COLUMNS_PER_ROW * rows.shape[0] <= rows.shape[1] and sweep <= 6.0 * prices.step


def begin(objective: Objective) -> Dual:
    """Return residuals and coefficients of zero.

    An unpenalised column other than a constant one is treated as if it were penalised as the others are on average:
    this is only a start.
    """
    rows: Any = objective.model.single_label_rows(objective.whole)
    X, (t, p) = rows.nonzeros(), rows.shape
    n, p = objective.size // p, p - rows.constant
    λ = objective.penalty.as_prior().reshape(n, -1)

    # One number penalises all columns once they are divided by the scale.
    scale, ridge = None, float(λ[0, 0])
    if not (ridge > 0 and (λ.strides == (0, 0) or λ[:, :p].min() == λ[:, :p].max())):
        mean = λ[:, :p].mean(axis=0)
        ridge = float(mean[mean > 0].mean())
        scale = np.sqrt(np.where(mean > 0, mean, ridge) / ridge)
        X = X._replace(data=X.data / scale[X.indices])
    norms = kernels.dual.row_squares(X) / ridge

    intercepts, stiffness, is_free = None, np.inf, False
    if rows.constant:
        intercepts = objective.with_likely_intercept(np.zeros(objective.size)).reshape(n, -1)[:, -1].copy()
        stiffness = float(λ[:, p:].mean())
        is_free = stiffness == 0
        if is_free:  # the curvature along the intercept where all classes are equally likely, each row by itself
            slope = 0.25 if n == 1 else (n - 1) / n**2
            stiffness = DAMPING * float(np.sum(rows.weight * slope / (1 + rows.weight * norms * slope)))
    empty = np.zeros((t, n)), np.zeros((p, n))
    return Dual(X, rows.y, rows.weight, norms, scale, ridge, *empty, intercepts, stiffness, is_free, rows.centre)


def sweep(objective: Objective, dual: Dual, seed: int) -> Dual:
    """Return the state after sweeps in random order, once F is worth evaluating or they gain too slowly."""
    r, W, b, μ, gains = dual.residual, dual.coefficients, dual.intercepts, dual.stiffness, dual.gains
    b = np.zeros(W.shape[1]) if b is None else b
    aim = WORTH_A_LOOK
    if gains:  # a state that was just begun has nothing to lose
        r, W, b, aim = r.copy(), W.copy(), b.copy(), LESS * left(gains)
    rng, order, contracts = np.random.default_rng([seed, dual.sweeps]), np.arange(len(r)), True
    while contracts and (len(gains) == dual.sweeps or left(gains) > aim):
        kernels.dual.shuffle(order, rng.integers(2**64, dtype=np.uint64))
        rows = dual.X, dual.y, dual.weight, dual.norms, 1 / dual.ridge, 1 / μ, order
        if len(b) == 1:
            gain, curvature = kernels.dual.binary_epoch(*rows, r[:, 0], W[:, 0], b)
        else:
            gain, curvature = kernels.dual.softmax_epoch(*rows, r, W, b)
        if dual.is_free:
            μ = DAMPING * curvature if curvature > 0 else μ
            b -= r.sum(axis=0) / μ  # b₀ moves to b
        gains = (*gains, gain)
        # Sweeps end where one gains more than this share of what the one two before has gained.
        contracts = gain > 0 and (len(gains) < 3 or gain <= 0.66 * gains[-3])
    objective.spend(passes=len(gains) - dual.sweeps)
    intercepts = None if dual.intercepts is None else b
    return replace(
        dual, residual=r, coefficients=W, intercepts=intercepts, stiffness=μ, gains=gains, contracts=contracts
    )


def left(gains: tuple[float, ...]) -> float:
    """Return what sweeps will still gain if they go on as they do, relative to what they have gained."""
    if len(gains) < 2 or not gains[-1] < gains[-2]:
        return float("inf")
    rate = gains[-1] / gains[-2]
    return gains[-1] * rate / (1 - rate) / sum(gains)
