"""Fewer rows than columns: under a ridge coefficients are combinations of rows, and a problem is as small as these.

Newton's method among combinations of rows, for dense rows that are not many more than the columns.

Under a ridge the optimum is a combination of rows, and with K = XXᵀ in memory no step takes the columns
(:class:`majorant.core.row_space.RowSpace`). Single precision is enough for K where the penalty exceeds its
rounding errors: scores are found afresh by X, in double precision, whenever steps gain little, and then only a
correction is off, by as many digits as the solution before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
from scipy.linalg.blas import get_blas_funcs
from scipy.linalg.lapack import get_lapack_funcs

from majorant.core.checks import Array
from majorant.core.class_model import ClassModel
from majorant.core.labelled import Labelled
from majorant.core.line_search import LOOSE, best_step
from majorant.core.objective import Objective
from majorant.core.preconditioners import (
    DENSE,
    FREE,
    LARGEST_COPY,
    LARGEST_GRAM,
    MULTIPLY,
    PRODUCTS_PER_STEP,
    SINGLE,
    VECTOR,
    HessianOfAll,
    Prices,
    StartResult,
)
from majorant.core.quasi_newton import Direction, conjugate_gradients

# Products that a step takes in the metric of factors.
PRODUCTS_WITHIN = 10


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The same problem among W = AX: that is where the optimum is, since nothing but λ‖W‖²/2 sees what rows do not.

    With K = XXᵀ scores are AK + b, and ‖W‖² = tr AKAᵀ: none of them takes X. What stands for W and its intercepts is
    Z = [A, b], (n, t + 1), without the last column where there is no intercept, and Z and Z' have the product ⟨Z, Z'K⟩,
    that of what they stand for, with K read as diag(K, 1). So a gradient is [R + λA, R1 + λ_b b], with R the residuals.
    """

    model: ClassModel
    data: Labelled
    products: Array  # K, in single precision where that is enough
    ridge: Array  # of each number of Z

    @classmethod
    def narrows(cls, objective: Objective) -> bool:
        """Return whether single precision is enough for K: the penalty is larger than its rounding errors."""
        data = objective.whole
        assert isinstance(data, Labelled)
        sizes = objective.magnitudes
        assert sizes is not None
        return bool(objective.ridge[0] > SINGLE * sizes.norm**2 / objective.rows)

    @classmethod
    def of(cls, objective: Objective) -> RowSpace:
        """Return the problem of rows that are at hand."""
        data, model = objective.whole, objective.model
        λ = objective.ridge.reshape(model.classes(objective.like), -1)
        assert isinstance(data, Labelled)
        assert isinstance(model, ClassModel)
        X: Any = data.design.without_ones().astype(np.float32 if cls.narrows(objective) else np.float64, copy=False)
        of_intercept = [λ[:, -1:]] if data.constant else []
        return cls(model, data, X @ X.T, np.column_stack([np.repeat(λ[:, :1], len(X), axis=1), *of_intercept]))

    @property
    def rows(self) -> int:
        """Number of rows t."""
        return len(self.products)

    def parameters(self, Z: Array) -> Array:
        """Return what Z stands for."""
        W = self.data.design.pull_back(np.ascontiguousarray(Z[:, : self.rows]))
        if self.data.constant:
            W[:, -1] = Z[:, -1]
        return W.astype(np.float64, copy=False).ravel()

    def times(self, Z: Array) -> Array:
        """Return ZK."""
        product, t = np.empty(Z.shape), self.rows
        product[:, :t] = Z[:, :t].astype(self.products.dtype, copy=False) @ self.products
        product[:, t:] = Z[:, t:]
        return product

    def potentials(self, ZK: Array) -> Array:
        """Return what a product comes to in every score."""
        return ZK[:, :-1] + ZK[:, -1:] if self.data.constant else ZK.copy()

    def scores(self, Z: Array) -> Array:
        """Return the scores of what Z stands for, by X."""
        return self.model.scores(self.parameters(Z), self.data)

    def loss_and_residual(self, scores: Array) -> tuple[float, Array]:
        """Return the loss and its derivative for every score."""
        return self.model.loss_and_residual(scores, self.data)

    def gradient(self, Z: Array, residual: Array) -> Array:
        """Return the gradient of F."""
        return self._gathered(residual) + self.ridge * Z

    def curve(self, scores: Array) -> Any:
        """Return the Hessian of F: a function of Z and ZK."""
        weights = self.model.hessian_weights(scores, self.data)

        def times(Z: Array, ZK: Array) -> Array:
            return self._gathered(self.model.apply_hessian(weights, self.potentials(ZK), self.data)) + self.ridge * Z

        return times

    def class_weights(self, residual: Array) -> Array:
        """Return what each row weighs in each class: w p(1 − p)."""
        return self.model.class_variances(residual, self.data)

    def _gathered(self, residual: Array) -> Array:
        if not self.data.constant:
            return residual
        return np.concatenate([residual, residual.sum(axis=1, keepdims=True)], axis=1)


def suits(objective: Objective) -> bool:
    """Return whether rows are few, dense and at hand, columns share one penalty, and a Hessian is not next to free.

    Of more rows than columns K is singular, and what is rounded in it may not exceed the penalty.
    """
    t, data, λ = objective.rows, objective.whole, objective.penalty.prior
    if not isinstance(data, Labelled) or λ is None or not isinstance(objective.model, ClassModel):
        return False
    if t > LARGEST_GRAM or not objective.convex or data.design.is_sparse or data.design.place is not None:
        return False
    columns = data.n_features - data.constant
    features = λ.reshape(objective.model.coefficient_rows, -1)[:, :columns]
    same = features.size > 0 and features.flat[0] > 0 and bool((features == features.flat[0]).all())
    if not same or not objective.model.has_products(data):
        return False
    prices, hessian = Prices.of(objective), HessianOfAll().price(objective)
    if hessian is not None and hessian[0] <= FREE * prices.step:
        return False
    # Rows for each column, at most: where there are more, a Gram matrix of the columns is smaller.
    return t < prices.columns or (t <= 1.5 * prices.columns and RowSpace.narrows(objective))


def is_next_to_free(objective: Objective) -> bool:
    """Return whether K costs no more than ``FREE`` steps, and a Newton step with it less than one."""
    prices = Prices.of(objective)
    newton_step = PRODUCTS_PER_STEP * prices.product_of_rows()
    return prices.row_products() <= FREE * prices.step and newton_step < prices.step


def newton_among_rows(objective: Objective, steps: int) -> StartResult:
    """Return the optimum but for rounding, found from zero in no more than so many steps."""
    space, intercepts, prices = RowSpace.of(objective), objective.likely_intercept, Prices.of(objective)
    product, has_factors = prices.product_of_rows(), 4 * len(space.ridge) * space.rows**2 <= LARGEST_COPY
    # A Cholesky factor for each class, in single precision; a solve reads each once, in two halves.
    squares, is_singular = prices.classes * prices.rows**2, space.rows > space.data.n_features - space.data.constant
    factors = inf if is_singular or not has_factors else squares * (prices.rows * MULTIPLY / 4 + VECTOR) / product
    start = np.zeros(len(space.ridge)) if intercepts is None else intercepts
    place, made, products = newton(space, start, steps, factors, squares * DENSE / 2 / product)
    passes = 2.0 + products * objective.rows * space.ridge.shape[0] / (2 * objective.size)
    objective.spend(passes=passes, curvatures=1)
    point = objective.point(space.parameters(place.Z))
    return StartResult(point, steps=made, account=(f"Newton steps in the space of {objective.rows} rows",))


@dataclass(frozen=True, eq=False)
class Place:
    """Z, with its scores, what the loss says of them, and the penalty."""

    Z: Array
    scores: Array
    loss: float
    residual: Array
    penalty: float

    @classmethod
    def of(cls, space: RowSpace, Z: Array, scores: Array, penalty: float) -> Place:
        """Return the place with what the loss says of its scores."""
        return cls(Z, scores, *space.loss_and_residual(scores), penalty)

    @property
    def value(self) -> float:
        """F."""
        return self.loss + self.penalty


def newton(space: RowSpace, intercepts: Array, most: int, factors: float, solve: float) -> tuple[Place, int, int]:
    """Return where Newton's steps from zero lead, and how many steps and products with K it took.

    Conjugate gradients are scaled by the mean curvature of a row; once there were as many products as factors of the
    Hessian within each class cost, and a step takes so many that solves with these save some, by such factors: where
    columns are on wild scales there would be thousands. ``factors`` and ``solve`` are prices, in products.

    Half the digits of single precision are gained at a time. Then scores are found afresh, and less is aimed at.
    """
    Z = np.zeros_like(space.ridge)
    Z[:, space.rows :] = intercepts[:, None]
    place = Place.of(space, Z, space.scores(Z), 0.5 * float(np.vdot(Z, space.ridge * Z)))
    mean = mean_curvature(space, place.residual)
    metric: Callable[[Array], Array] = partial(np.multiply, 1.0 / mean)
    made = products = budget = latest = 0
    for digits in (1, 2, 3):
        aim = float(np.finfo(np.float32).eps) ** (digits / 2)
        while made < most:
            if budget >= factors and latest > PRODUCTS_WITHIN * (1.0 + solve):
                metric, budget = WithinClasses.of(space, place.residual) or metric, 0
            times, gradient = space.curve(place.scores), space.gradient(place.Z, place.residual)
            found = conjugate_gradients(gradient, times, metric, space.times)
            if found.gain == 0 and isinstance(metric, WithinClasses):  # too far from symmetric in single precision
                metric, factors = partial(np.multiply, 1.0 / mean), inf
                continue
            before, ray = place, RowRay(space, place, found)
            length = best_step(ray, (place.value, -2.0 * found.gain), LOOSE)
            place = ray.at(length) if length > 0 else place
            latest = found.products
            made, products, budget = made + 1, products + latest, budget + latest
            if place is before or found.gain <= aim * place.value:
                break
        place = Place.of(space, place.Z, space.scores(place.Z), place.penalty)
    return place, made, products


def mean_curvature(space: RowSpace, residual: Array) -> Array:
    """Return the mean curvature along rows, and along intercepts, for every column of Z."""
    weights = space.class_weights(residual).mean(axis=0)
    curvature = np.full(space.ridge.shape[1], float(weights.mean()) * float(np.trace(space.products)) / space.rows)
    curvature[space.rows :] = weights.sum()
    return np.asarray(space.ridge.mean(axis=0) + curvature)


@dataclass(frozen=True, eq=False)
class WithinClasses:
    """(WK + λ)⁻¹ = W^½ (W^½KW^½ + λ)⁻¹ W^−½ for each class, with W = p_c(1 − p_c) what rows weigh in it.

    Intercepts stay apart: columns are measured from their means, and what they have in common with an intercept all the
    same is lost to rounding in single precision.
    """

    roots: Array  # W^½, (n, t)
    factors: tuple[Array, ...]
    of_intercepts: Array  # their curvature, (n, 1)

    @classmethod
    def of(cls, space: RowSpace, residual: Array) -> WithinClasses | None:
        """Return it, or None where rounding leaves no factor."""
        weights = space.class_weights(residual)
        least = SINGLE * weights.mean(axis=1, keepdims=True)
        weights = np.maximum(weights, np.maximum(least, np.finfo(space.products.dtype).tiny))
        roots, factors = np.sqrt(weights).astype(space.products.dtype), []
        for root, ridge in zip(roots, space.ridge, strict=True):
            M = space.products * root
            M *= root[:, None]
            M.flat[:: space.rows + 1] += ridge[0]
            factor, trouble = get_lapack_funcs("potrf", dtype=M.dtype)(M.T, lower=1, overwrite_a=1, clean=0)
            if trouble:
                return None
            factors.append(factor)
        return cls(roots, tuple(factors), weights.sum(axis=1, keepdims=True) + space.ridge[:, -1:])

    def __call__(self, Z: Array) -> Array:
        """Return the solution; softmax does not see classes that move together."""
        t, solution = self.roots.shape[1], np.empty_like(Z)
        solve = get_blas_funcs("trsv", dtype=self.roots.dtype)  # LAPACK is slow at one right-hand side
        for root, factor, r, x in zip(self.roots, self.factors, Z, solution, strict=True):
            half = solve(factor, (r[:t] / root).astype(root.dtype, copy=False), lower=1)
            x[:t] = solve(factor, half, lower=1, trans=1) * root
        solution[:, t:] = Z[:, t:] / self.of_intercepts
        return solution if len(Z) == 1 else solution - solution.mean(axis=0)


class RowRay:
    """F along a step."""

    def __init__(self, space: RowSpace, place: Place, step: Direction) -> None:
        self._space, self._place, self._step = space, place, step
        self._slopes, weighted = space.potentials(step.Kx), space.ridge * step.Kx
        self._linear, self._square = float(np.vdot(place.Z, weighted)), float(np.vdot(step.x, weighted))
        self._last: tuple[float, Place] = 0.0, place

    def at(self, a: float) -> Place:
        """Return the place so far along it."""
        if self._last[0] != a:
            penalty = self._place.penalty + a * self._linear + 0.5 * a * a * self._square
            Z, scores = self._place.Z + a * self._step.x, self._place.scores + a * self._slopes
            self._last = a, Place.of(self._space, Z, scores, penalty)
        return self._last[1]

    def value_and_slope(self, a: float) -> tuple[float, float]:
        """Return F there and its derivative."""
        there = self.at(a)
        return there.value, float(np.vdot(there.residual, self._slopes)) + self._linear + a * self._square
