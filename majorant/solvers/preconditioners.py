"""Inverse metrics for quasi-Newton steps, each cheap for some size of data. None is a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from majorant._checks import Array
from majorant._ray import Point
from majorant.curvature import Dense
from majorant.kernels import design
from majorant.models.class_space import ClassModel
from majorant.objective import Objective
from majorant.solvers import cholesky
from majorant.solvers.descent import Newton, grounded_hessian

# Rows of a sample for each column of X and for each parameter, and at least so many; a sample is at most a quarter.
ROWS_PER_COLUMN = 20
ROWS_PER_PARAMETER = 5
LEAST_ROWS = 1_000
# Rows of each column for a Gram matrix; more only while they cost less than a few passes over the data.
GRAM_ROWS_PER_COLUMN = 10
GRAM_COST = 16
# Columns of a Gram matrix on data too wide for a whole one.
HEAVY_COLUMNS = 2_000
ROWS_PER_HEAVY_COLUMN = 4
# Of a Gram matrix in single precision, relative to its largest entry.
ROUNDING = 1e-5
# A product of matrices does so many more operations in a second than a pass, unless they are sparse; an exponential
# costs so many.
MATRIX_SPEED, SPARSE_SPEED = 4.0, 0.5
EXPONENTIAL = 40.0
# Newton steps on the sample stop here: its optimum is not that of all rows.
SAMPLE_STEPS = 8
SAMPLE_TOLERANCE = 1e-4


def sample_size(objective: Objective) -> int:
    """Return how many rows a sample needs for its Hessian to stand for that of all."""
    wanted = max(ROWS_PER_COLUMN * objective.data.n_features, ROWS_PER_PARAMETER * objective.size, LEAST_ROWS)
    return min(wanted, len(objective.data))


def newton_on_a_sample(objective: Objective, theta: Array, seed: int) -> tuple[Array, Callable[[Array], Array]]:
    """Return the optimum of some rows, nearly, and the inverse of their Hessian scaled up to all rows."""
    data, t = objective.data, len(objective.data)
    r = sample_size(objective)
    rows = data if r == t else data.take(np.sort(np.random.default_rng(seed).permutation(t)[:r]))
    sample = Objective(objective.model, rows, ridge=objective.ridge * (r / t))
    newton = Newton()
    state = newton.start(sample, theta)
    for _ in range(SAMPLE_STEPS):
        if -(state.gradient @ state.direction) <= SAMPLE_TOLERANCE * abs(state.value):
            break
        state = newton.step(sample, state)
        if state.stalled:
            break
    inverse = hessian_inverse(sample, state.theta)
    objective.work.passes += r / t * sample.work.passes
    objective.work.curvatures += sample.work.curvatures
    return state.theta, lambda b: inverse(b) * (r / t)


def hessian_price(objective: Objective) -> float:
    """Return about how many passes over the data a Hessian and its factor cost."""
    d, outcomes = objective.size, len(objective.data) * objective.row_model.scores_per_row(objective.data)
    classes = objective.model.coefficient_rows if isinstance(objective.model, ClassModel) else 1
    density = design.density(objective.row_model.design(objective.data))
    columns, speed = d / classes * density, MATRIX_SPEED if density == 1 else SPARSE_SPEED
    gram, factor, one_pass = outcomes * (classes + 1) * columns**2, d**3 / 3, outcomes * (4 * columns + EXPONENTIAL)
    return (gram / speed + factor / MATRIX_SPEED) / one_pass


def hessian_inverse(objective: Objective, theta: Array) -> Callable[[Array], Array]:
    """Return the inverse of the Hessian of F, or of one with so much more on its diagonal that it has a factor."""
    A = grounded_hessian(objective, theta)[2].as_matrix()
    A[np.diag_indices_from(A)] += objective.ridge
    factor = cholesky.factorised(A)
    return lambda b: cholesky.solve(factor, b)


def kronecker_inverse(objective: Objective, point: Point) -> Callable[[Array], Array]:
    """Return the inverse of I ⊗ (Σ_j w_j x_j x_jᵀ + λ)."""
    n, p, t = objective.row_model.scores_per_row(objective.data), objective.data.n_features, len(objective.data)
    share = min(max(GRAM_ROWS_PER_COLUMN * p, GRAM_COST * t * n // p) / t, 1.0)
    inverse = _gram_inverse(objective, point, np.arange(p), share)
    return lambda b: inverse(b.reshape(n, -1).T).T.ravel()


def diagonal_inverse(objective: Objective, point: Point) -> Callable[[Array], Array]:
    """Return the inverse of the Hessian's diagonal, and on the heaviest columns that of a Gram matrix."""
    D = objective.ridge.copy()
    scores = point.scores or [objective.model.scores(point.theta, block) for block in objective.blocks]
    for block, S in zip(objective.blocks, scores, strict=True):
        D += objective.model.hessian_diagonal(S, block)
    if not isinstance(objective.model, ClassModel):
        return lambda b: np.divide(b, D, out=np.zeros_like(b), where=D > 0)
    n, t = objective.model.coefficient_rows, len(objective.data)
    D = D.reshape(n, -1)
    most = max(min(HEAVY_COLUMNS, t // ROWS_PER_HEAVY_COLUMN), 1)
    heavy = np.sort(np.argsort(-D.sum(axis=0), kind="stable")[:most])
    inverse = _gram_inverse(objective, point, heavy, 1.0)

    def solve(b: Array) -> Array:
        B = b.reshape(n, -1)
        out = np.divide(B, D, out=np.zeros_like(B), where=D > 0)
        out[:, heavy] = inverse(B[:, heavy].T).T
        return out.ravel()

    return solve


def _gram_inverse(objective: Objective, point: Point, columns: Array, share: float) -> Callable[[Array], Array]:
    """Return the inverse of Σ_j w_j x_j x_jᵀ + λ restricted to some columns, from a share of the rows.

    Single precision is enough for a metric where the penalty is larger than its rounding errors.
    """
    λ = objective.ridge.reshape(cast(ClassModel, objective.model).coefficient_rows, -1).mean(axis=0)[columns]
    single = not design.is_sparse(objective.data.X) and bool(λ.any())
    G = _gram(objective, point, columns, share, np.float32 if single else np.float64)
    if single and not np.min(λ[λ > 0]) > ROUNDING * np.max(G.diagonal()):
        G = _gram(objective, point, columns, share, np.float64)
    G[np.diag_indices_from(G)] += λ
    return Dense(G, majorizes=False).inverse()


def _gram(objective: Objective, point: Point, columns: Array, share: float, dtype: Any) -> Array:
    model = cast(ClassModel, objective.model)
    n = model.coefficient_rows
    G = np.zeros((len(columns), len(columns)))
    for block, S in zip(objective.blocks, point.scores, strict=True):
        rows = _spread(len(block), share)
        some, scores = (block, S) if len(rows) == len(block) else (block.take(rows), S[:, rows])
        each = model.class_weights(scores, some).sum(axis=0) * (len(block) / len(rows) / max(n - 1, 1))
        G += design.weighted_gram(design.columns(some.X, columns), each[None, None], dtype)
    return G


def _spread(rows: int, share: float) -> Array:
    """Return a share of the rows, evenly spread, at least one."""
    some = min(int(np.ceil(rows * share)), rows)
    return np.arange(some) * rows // some
